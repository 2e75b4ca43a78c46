// SPDX-License-Identifier: Apache-2.0
/*
 * A list of chunks; small requests are cut from the newest one:
 *
 *	head -> [hdr|used.....|free..]  -> [hdr|used..........]  -> NULL
 *
 * A request that does not fit and is large for a chunk of the next size gets a chunk of its own *behind* the head, so
 * that the rest of the head is not thrown away. Under AddressSanitizer the free part of a chunk is poisoned, so that
 * running past the newest allocation, or into forgotten memory after a reset, is found.
 */
#include "executor/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "executor/base/alloc.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define RED_ZONE_BYTES ((size_t)16)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#define RED_ZONE_BYTES ((size_t)0)
#endif

#define ALIGN ((size_t)16)
#define FIRST_CHUNK_BYTES ((size_t)4096)
#define LAST_CHUNK_BYTES ((size_t)1 << 20)
#define DEFAULT_MAX_BYTES ((size_t)1 << 30)

struct bj_arena_chunk {
	struct bj_arena_chunk *next; /* older chunk */
	size_t size;		     /* bytes of data[] */
	size_t used;		     /* multiple of ALIGN, <= size */
	size_t reserved;	     /* keeps data[] aligned */
	char data[];
};

_Static_assert(sizeof(struct bj_arena_chunk) % 16 == 0, "data[] must be 16-byte aligned");

void bj_arena_init(struct bj_arena *arena, size_t max_bytes)
{
	arena->head = NULL;
	arena->used_bytes = 0;
	arena->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
	arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
}

static void free_chunks(struct bj_arena_chunk *chunk)
{
	while (chunk) {
		struct bj_arena_chunk *next = chunk->next;
		UNPOISON(chunk->data, chunk->size);
		bj_free(chunk);
		chunk = next;
	}
}

void bj_arena_deinit(struct bj_arena *arena)
{
	free_chunks(arena->head);
	arena->head = NULL;
	arena->used_bytes = 0;
	arena->next_chunk_bytes = FIRST_CHUNK_BYTES;
}

void bj_arena_cleanup(struct bj_arena *arena)
{
	bj_arena_deinit(arena);
}

void bj_arena_reset(struct bj_arena *arena)
{
	struct bj_arena_chunk *head = arena->head;
	if (!head)
		return;
	free_chunks(head->next);
	head->next = NULL;
	head->used = 0;
	POISON(head->data, head->size);
	arena->used_bytes = sizeof(*head) + head->size;
}

static struct bj_arena_chunk *chunk_new(struct bj_arena *arena, size_t total_bytes)
{
	/* Not bj_malloc(): gcc 12's analyzer loses track of a chunk in the list and calls it leaked. */
	struct bj_arena_chunk *chunk = bj_realloc(NULL, total_bytes);
	if (!chunk)
		return NULL;
	*chunk = (struct bj_arena_chunk){ .size = total_bytes - sizeof(*chunk) };
	POISON(chunk->data, chunk->size);
	arena->used_bytes += total_bytes;
	return chunk;
}

/* Adds a chunk with room for @n_bytes (rounded already); NULL beyond the cap or without memory. */
static struct bj_arena_chunk *add_chunk(struct bj_arena *arena, size_t n_bytes)
{
	size_t need = bj_size_add(sizeof(struct bj_arena_chunk), n_bytes);
	size_t left = arena->max_bytes - arena->used_bytes;
	if (need > left)
		return NULL;

	bool is_large = arena->head && need > arena->next_chunk_bytes / 2;
	size_t total = is_large ? need : BJ_MAX(need, BJ_MIN(arena->next_chunk_bytes, left));
	struct bj_arena_chunk *chunk = chunk_new(arena, total);
	if (!chunk)
		return NULL;
	struct bj_arena_chunk **link = is_large ? &arena->head->next : &arena->head;
	chunk->next = *link;
	*link = chunk;
	if (!is_large)
		arena->next_chunk_bytes = BJ_MIN(arena->next_chunk_bytes * 2, LAST_CHUNK_BYTES);
	return chunk;
}

/* Bytes taken for a request: at least one, a red zone under ASan, rounded up to ALIGN; SIZE_MAX on overflow. */
static size_t rounded_bytes(size_t n_bytes)
{
	size_t n = bj_size_add(n_bytes ? n_bytes : 1, RED_ZONE_BYTES + ALIGN - 1);
	return n == SIZE_MAX ? SIZE_MAX : n & ~(ALIGN - 1);
}

void *bj_arena_alloc(struct bj_arena *arena, size_t n_bytes)
{
	bj_assert(arena->max_bytes > 0); /* bj_arena_init() was forgotten */
	size_t taken = rounded_bytes(n_bytes);
	struct bj_arena_chunk *chunk = arena->head;
	if (!chunk || taken > chunk->size - chunk->used) {
		chunk = add_chunk(arena, taken);
		if (!chunk)
			return NULL;
	}
	char *p = chunk->data + chunk->used;
	chunk->used += taken;
	UNPOISON(p, n_bytes);
	return p;
}

void *bj_arena_zalloc(struct bj_arena *arena, size_t n_bytes)
{
	void *p = bj_arena_alloc(arena, n_bytes);
	if (p)
		memset(p, 0, n_bytes);
	return p;
}

void *bj_arena_memdup(struct bj_arena *arena, const void *src, size_t n_bytes)
{
	void *p = bj_arena_alloc(arena, n_bytes);
	if (p && n_bytes)
		memcpy(p, src, n_bytes);
	return p;
}

char *bj_arena_printf(struct bj_arena *arena, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	size_t size = (size_t)n + 1;
	char *text = bj_arena_alloc(arena, size);
	if (!text)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(text, size, fmt, ap); /* the same arguments: the same length */
	va_end(ap);
	return text;
}

struct bj_str bj_arena_str(struct bj_arena *arena, struct bj_str s)
{
	char *copy = bj_arena_alloc(arena, bj_size_add(s.len, 1));
	if (!copy)
		return BJ_STR_NULL;
	if (s.len)
		memcpy(copy, s.ptr, s.len);
	copy[s.len] = '\0';
	return bj_str_n(copy, s.len);
}
