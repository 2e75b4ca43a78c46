// SPDX-License-Identifier: Apache-2.0
/**
 * base/arena.h - bump allocation with a cap: everything that one RPC or one action needs dies at once.
 * Owns: its chunks. Threads: one owner at a time (not thread-safe on purpose).
 *
 * An allocation beyond the cap returns NULL, so a message of 4 MiB that would parse to 181 MiB is refused cleanly.
 */
#ifndef BJ_BASE_ARENA_H
#define BJ_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "executor/base/macros.h"
#include "executor/base/str.h"

struct bj_arena_chunk;

struct bj_arena {
	struct bj_arena_chunk *head; /* newest chunk, NULL when empty */
	size_t used_bytes;	     /* sum of the chunks, <= max_bytes */
	size_t max_bytes;	     /* cap */
	size_t next_chunk_bytes;     /* doubles up to 1 MiB */
};

#define BJ_ARENA_NULL ((struct bj_arena){ NULL, 0, 0, 0 })

/** @max_bytes: cap over all chunks; 0 means 1 GiB. Allocates nothing yet. */
void bj_arena_init(struct bj_arena *arena, size_t max_bytes);
/** Frees all; the arena may be used again with the same cap. Accepts BJ_ARENA_NULL. */
void bj_arena_deinit(struct bj_arena *arena);
/** Forgets all allocations but keeps the newest chunk. */
void bj_arena_reset(struct bj_arena *arena);

/** 16-byte aligned, not zeroed; NULL beyond the cap or without memory. n == 0 gives a valid unique pointer. */
void *bj_arena_alloc(struct bj_arena *arena, size_t n_bytes);
/** The same, zeroed. */
void *bj_arena_zalloc(struct bj_arena *arena, size_t n_bytes);
/** A copy of @n bytes; NULL without memory. */
void *bj_arena_memdup(struct bj_arena *arena, const void *src, size_t n_bytes);
/** printf into the arena: NUL-terminated; NULL without memory. */
char *bj_arena_printf(struct bj_arena *arena, const char *fmt, ...) BJ_PRINTF(2, 3);
/** A copy of a view in the arena (NUL-terminated behind its end). ptr is NULL without memory. */
struct bj_str bj_arena_str(struct bj_arena *arena, struct bj_str s);

#define BJ_ARENA_NEW(arena, type) ((type *)bj_arena_zalloc((arena), sizeof(type)))
#define BJ_ARENA_ARRAY(arena, type, n)                                                             \
	((type *)bj_arena_zalloc((arena), bj_size_mul(sizeof(type), (n))))

void bj_arena_cleanup(struct bj_arena *arena); /* for bj_cleanup(): same as deinit */

#endif
