// SPDX-License-Identifier: Apache-2.0
/*
 * The fault counter is one atomic: DISARMED almost always, so the cost is a load and a branch that is never taken.
 * Armed, each allocation takes one off; whoever takes it from 0 fails, and leaves the counter at DISARMED.
 *
 *	DISARMED --fail_after(n)--> n --alloc--> n-1 ... 0 --alloc: fails--> FIRED --disarm--> DISARMED
 *
 * No function here calls another one that carries the allocator attribute: gcc 12's analyzer takes the pointer for
 * leaked inside the callee.
 */
#include "executor/base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DISARMED INT64_C(-1)
#define FIRED INT64_C(-2)

static _Atomic int64_t countdown = DISARMED;

static bool must_fail(void)
{
	int64_t left = atomic_load(&countdown);
	while (left >= 0) {
		int64_t next = left == 0 ? FIRED : left - 1;
		if (atomic_compare_exchange_weak(&countdown, &left, next))
			return left == 0;
	}
	return false;
}

void bj_alloc_fail_after(uint64_t n)
{
	bj_assert(n <= INT64_MAX);
	atomic_store(&countdown, (int64_t)n);
}

bool bj_alloc_fail_disarm(void)
{
	return atomic_exchange(&countdown, DISARMED) == FIRED;
}

/* The sizes that saturating arithmetic yields are refused here: sanitizers abort on them instead of returning NULL. */
static bool is_refused(size_t n_bytes)
{
	return n_bytes > PTRDIFF_MAX || must_fail();
}

void bj_free(void *p)
{
	free(p);
}

static void *allocate(size_t n_bytes)
{
	if (is_refused(n_bytes))
		return NULL;
	return malloc(n_bytes ? n_bytes : 1);
}

void *bj_malloc(size_t n_bytes)
{
	return allocate(n_bytes);
}

void *bj_calloc(size_t n, size_t size_bytes)
{
	if (is_refused(bj_size_mul(n, size_bytes)))
		return NULL;
	if (n == 0 || size_bytes == 0)
		return calloc(1, 1);
	return calloc(n, size_bytes);
}

void *bj_realloc(void *p, size_t n_bytes)
{
	if (is_refused(n_bytes))
		return NULL;
	return realloc(p, n_bytes ? n_bytes : 1);
}

static char *duplicate(const char *s, size_t len)
{
	char *copy = allocate(bj_size_add(len, 1));
	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *bj_strndup(const char *s, size_t len)
{
	return duplicate(s, len);
}

char *bj_strdup(const char *s)
{
	return duplicate(s, strlen(s));
}
