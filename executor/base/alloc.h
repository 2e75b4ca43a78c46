// SPDX-License-Identifier: Apache-2.0
/**
 * base/alloc.h - the one door to the heap, so that a test can make any single allocation fail.
 * Every heap allocation of the project goes through here; memory from a library (protobuf-c, gRPC) stays with that
 * library's own functions. Memory from here is released with bj_free() or the cleanup bj_freep().
 * Threads: any. The fault counter is shared by all threads: arm it while one thread works, or expect any to fail.
 *
 * "Each allocation fails once":
 *
 *	for (uint64_t n = 0;; n++) {
 *		bj_alloc_fail_after(n);
 *		... run the operation, check that it fails cleanly or succeeds ...
 *		if (!bj_alloc_fail_disarm())
 *			break;          // it makes n allocations at most: all were tried
 *	}
 */
#ifndef BJ_BASE_ALLOC_H
#define BJ_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/macros.h"

/** gcc pairs an allocator with its release function in its analyzer; clang 14 does not know the arguments. */
#if defined(__GNUC__) && !defined(__clang__)
#define BJ_FREED_BY(fn) __attribute__((malloc, malloc(fn, 1)))
#else
#define BJ_FREED_BY(fn) __attribute__((malloc))
#endif

/** Accepts NULL. */
void bj_free(void *p);

/** Not zeroed; NULL without memory or above PTRDIFF_MAX. n == 0 gives a unique pointer. */
BJ_MUST_USE void *bj_malloc(size_t n_bytes) BJ_FREED_BY(bj_free);
/** Zeroed; NULL also when the product overflows. */
BJ_MUST_USE void *bj_calloc(size_t n, size_t size_bytes) BJ_FREED_BY(bj_free);
/** As realloc(3), but n == 0 counts as 1: it never frees. On NULL @p is still valid. */
BJ_MUST_USE void *bj_realloc(void *p, size_t n_bytes);
/** NUL-terminated copies; bj_strndup() copies exactly @len bytes, NULs included. */
BJ_MUST_USE char *bj_strdup(const char *s) BJ_FREED_BY(bj_free);
BJ_MUST_USE char *bj_strndup(const char *s, size_t len) BJ_FREED_BY(bj_free);

/** A zeroed object, or an array of @n of them. */
#define BJ_NEW(type) ((type *)bj_calloc(1, sizeof(type)))
#define BJ_NEW_ARRAY(type, n) ((type *)bj_calloc((n), sizeof(type)))

/** Arms the fault: @n allocations succeed, the next one fails, those after it succeed again. Tests only. */
void bj_alloc_fail_after(uint64_t n);
/** Disarms; true when the armed fault did happen. */
bool bj_alloc_fail_disarm(void);

#endif
