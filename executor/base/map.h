// SPDX-License-Identifier: Apache-2.0
/**
 * base/map.h - hash table from bytes to a pointer (open addressing, XXH3).
 * Owns: its slots, not the keys nor the values: keys are borrowed views that must live as long as the entry.
 * Threads: one owner, or the caller's lock.
 * Iteration order depends only on the calls made (the hash has a fixed seed), but callers that print must sort all the
 * same.
 */
#ifndef BJ_BASE_MAP_H
#define BJ_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/macros.h"
#include "executor/base/str.h"

struct bj_map_slot {
	uint64_t hash;
	struct bj_str key; /* ptr NULL: free slot; an empty key has a non-NULL ptr */
	void *value;
};

struct bj_map {
	struct bj_map_slot *slots; /* n_slots of them, a power of two, or NULL */
	size_t n_slots;
	size_t n_entries;
};

#define BJ_MAP_NULL ((struct bj_map){ NULL, 0, 0 })

void bj_map_deinit(struct bj_map *map);

/** The value, or NULL when absent (so NULL values are not stored: asserted by bj_map_put). */
void *bj_map_get(const struct bj_map *map, struct bj_str key);
/**
 * bj_map_put() - insert or replace. A replacement takes the new key view too: the old key's owner may go.
 * @out_old: may be NULL; gets the replaced value or NULL
 * Return: false without memory, the map unchanged.
 */
BJ_MUST_USE bool bj_map_put(struct bj_map *map, struct bj_str key, void *value, void **out_old);
/** Removes and returns the value; NULL when absent. */
void *bj_map_remove(struct bj_map *map, struct bj_str key);
/** Iterate: start with *pos = 0; returns NULL at the end. No changes during iteration. */
const struct bj_map_slot *bj_map_next(const struct bj_map *map, size_t *pos);

/** XXH3 of the bytes, the hash that every in-memory table uses. */
uint64_t bj_hash(struct bj_str s);

#endif
