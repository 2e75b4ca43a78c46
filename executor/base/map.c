// SPDX-License-Identifier: Apache-2.0
/*
 * Linear probing over a power of two of slots, at most three quarters full. A removal closes the gap by moving later
 * entries of the run back ("backward shift"), so there are no tombstones and a table that sees many removals does not
 * get slower:
 *
 *	home(c) = 1           [ . a b c d . ]      remove a:
 *	home(d) = 4           [ . b c . d . ]      b and c move up, d is at home and stays
 */
#include "executor/base/map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "executor/base/alloc.h"

#define FIRST_SLOTS ((size_t)16)

uint64_t bj_hash(struct bj_str s)
{
	return XXH3_64bits(s.len ? s.ptr : "", s.len);
}

void bj_map_deinit(struct bj_map *map)
{
	bj_free(map->slots);
	*map = BJ_MAP_NULL;
}

static bool is_free(const struct bj_map_slot *slot)
{
	return slot->key.ptr == NULL;
}

/* The slot that holds @key, or the free slot where it belongs. The table has at least one free slot. */
static struct bj_map_slot *find_slot(const struct bj_map *map, struct bj_str key, uint64_t hash)
{
	size_t mask = map->n_slots - 1;
	size_t i = (size_t)hash & mask;
	for (;; i = (i + 1) & mask) {
		struct bj_map_slot *slot = &map->slots[i];
		if (is_free(slot) || (slot->hash == hash && bj_str_eq(slot->key, key)))
			return slot;
	}
}

void *bj_map_get(const struct bj_map *map, struct bj_str key)
{
	if (map->n_entries == 0)
		return NULL;
	const struct bj_map_slot *slot = find_slot(map, key, bj_hash(key));
	return is_free(slot) ? NULL : slot->value;
}

static bool resize(struct bj_map *map, size_t n_slots)
{
	struct bj_map bigger = { BJ_NEW_ARRAY(struct bj_map_slot, n_slots), n_slots,
				 map->n_entries };
	if (!bigger.slots)
		return false;
	for (size_t i = 0; i < map->n_slots; i++) {
		const struct bj_map_slot *slot = &map->slots[i];
		if (!is_free(slot))
			*find_slot(&bigger, slot->key, slot->hash) = *slot;
	}
	bj_free(map->slots);
	*map = bigger;
	return true;
}

bool bj_map_put(struct bj_map *map, struct bj_str key, void *value, void **out_old)
{
	bj_assert(value != NULL);
	if (!key.ptr)
		key.ptr = "";

	uint64_t hash = bj_hash(key);
	struct bj_map_slot *slot = map->n_slots ? find_slot(map, key, hash) : NULL;
	bool is_new = !slot || is_free(slot);
	if (is_new && map->n_entries + 1 > map->n_slots / 4 * 3) {
		if (!resize(map, map->n_slots ? bj_size_mul(map->n_slots, 2) : FIRST_SLOTS))
			return false;
		slot = find_slot(map, key, hash);
	}
	bj_assert(slot != NULL); /* a table without slots has just got some */
	if (out_old)
		*out_old = is_new ? NULL : slot->value;
	map->n_entries += is_new;
	*slot = (struct bj_map_slot){ hash, key, value };
	return true;
}

/* Closes the gap at @hole with the entries of its run that are allowed to stand there. */
static void close_gap(struct bj_map *map, size_t hole)
{
	size_t mask = map->n_slots - 1;
	for (size_t i = (hole + 1) & mask; !is_free(&map->slots[i]); i = (i + 1) & mask) {
		size_t home = (size_t)map->slots[i].hash & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole] = (struct bj_map_slot){ 0, BJ_STR_NULL, NULL };
}

void *bj_map_remove(struct bj_map *map, struct bj_str key)
{
	if (map->n_entries == 0)
		return NULL;
	struct bj_map_slot *slot = find_slot(map, key, bj_hash(key));
	if (is_free(slot))
		return NULL;
	void *value = slot->value;
	close_gap(map, (size_t)(slot - map->slots));
	map->n_entries--;
	return value;
}

const struct bj_map_slot *bj_map_next(const struct bj_map *map, size_t *pos)
{
	while (*pos < map->n_slots) {
		const struct bj_map_slot *slot = &map->slots[(*pos)++];
		if (!is_free(slot))
			return slot;
	}
	return NULL;
}
