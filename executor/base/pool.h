// SPDX-License-Identifier: Apache-2.0
/**
 * base/pool.h - a few threads for work that blocks (disk, hashing), fed by one bounded queue.
 * Owns: the threads and the queued jobs. Threads: bj_pool_submit() from any thread.
 *
 * A loop thread never waits here: when the queue is full, submit refuses and the caller answers RESOURCE_EXHAUSTED.
 */
#ifndef BJ_BASE_POOL_H
#define BJ_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "executor/base/macros.h"

struct bj_err;
struct bj_pool;

/** @n_threads >= 1; @max_queued: jobs waiting at most. Threads are named "bj-pool-N" and block all signals
 * but those of a fault (SIGSEGV, SIGBUS, …). */
BJ_MUST_USE int bj_pool_new(size_t n_threads, size_t max_queued, struct bj_pool **out_pool,
			    struct bj_err *err);
/** Runs what is queued, joins, frees. Accepts NULL. Not from one of its own jobs. */
void bj_pool_free(struct bj_pool *pool);
/** Runs fn(arg) on some pool thread. False: the queue is full or the pool is stopping; fn will not run. */
BJ_MUST_USE bool bj_pool_submit(struct bj_pool *pool, void (*fn)(void *arg), void *arg);

/** pthread_create with signals blocked as above, a name (cut to 15 bytes) and a normal error: RESOURCE_EXHAUSTED. */
BJ_MUST_USE int bj_thread_start(const char *name, void *(*fn)(void *), void *arg,
				unsigned long *out_thread /* pthread_t */, struct bj_err *err);

#endif
