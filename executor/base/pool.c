// SPDX-License-Identifier: Apache-2.0
/*
 * One mutex, one condition, one ring of jobs. Stopping is a flag that the threads look at only when the ring is empty:
 * what was accepted runs.
 */
#include "executor/base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/err.h"

struct job {
	void (*fn)(void *arg);
	void *arg;
};

struct bj_pool {
	pthread_mutex_t mu;
	pthread_cond_t wake;	/* a job was queued, or is_stopping was set */
	struct job *ring;	/* max_queued of them; guarded by mu */
	size_t max_queued;	/* constant */
	size_t first;		/* oldest job; guarded by mu */
	size_t n_queued;	/* guarded by mu */
	bool is_stopping;	/* guarded by mu */
	unsigned long *threads; /* pthread_t; the creator's */
	size_t n_threads;	/* started so far */
};

/* ---- one thread ---- */

enum { THREAD_NAME_BYTES = 16 }; /* the kernel's limit, NUL included */

struct thread_start {
	void *(*fn)(void *arg);
	void *arg;
	char name[THREAD_NAME_BYTES];
};

static void *thread_main(void *arg)
{
	struct thread_start start = *(struct thread_start *)arg;
	bj_free(arg);
	(void)pthread_setname_np(pthread_self(), start.name); /* cosmetic */
	return start.fn(start.arg);
}

/*
 * All but the signals that a fault raises in the thread itself: blocked, those would kill the process without running
 * a handler such as AddressSanitizer's, and nobody can send them usefully from outside.
 */
static void signals_to_block(sigset_t *set)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS };
	sigfillset(set);
	for (size_t i = 0; i < BJ_ARRAY_LEN(own); i++)
		sigdelset(set, own[i]);
}

int bj_thread_start(const char *name, void *(*fn)(void *), void *arg, unsigned long *out_thread,
		    struct bj_err *err)
{
	struct thread_start *start = BJ_NEW(struct thread_start);
	if (!start)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "start thread %s: out of memory",
				  name);
	start->fn = fn;
	start->arg = arg;
	memcpy(start->name, name, strnlen(name, sizeof(start->name) - 1));

	sigset_t block;
	sigset_t before;
	signals_to_block(&block);
	bj_assert(pthread_sigmask(SIG_SETMASK, &block, &before) == 0);
	pthread_t thread;
	int r = pthread_create(&thread, NULL, thread_main, start);
	bj_assert(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
	if (r != 0) {
		bj_free(start);
		/* EAGAIN: no memory, or a limit on processes */
		return bj_err_set_at(err, BJ_RESOURCE_EXHAUSTED, r, __FILE__, __LINE__,
				     "start thread %s: %s", name, strerrordesc_np(r));
	}
	*out_thread = thread;
	return 0;
}

/* ---- the pool ---- */

/* Waits for a job; false when the pool stops and nothing is left. */
static bool take_job(struct bj_pool *pool, struct job *out_job)
{
	pthread_mutex_lock(&pool->mu);
	while (pool->n_queued == 0 && !pool->is_stopping)
		pthread_cond_wait(&pool->wake, &pool->mu);
	bool has_job = pool->n_queued > 0;
	if (has_job) {
		*out_job = pool->ring[pool->first];
		pool->first = (pool->first + 1) % pool->max_queued;
		pool->n_queued--;
	}
	pthread_mutex_unlock(&pool->mu);
	return has_job;
}

static void *pool_main(void *arg)
{
	struct bj_pool *pool = arg;
	struct job job;
	while (take_job(pool, &job))
		job.fn(job.arg);
	return NULL;
}

bool bj_pool_submit(struct bj_pool *pool, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&pool->mu);
	bool is_accepted = !pool->is_stopping && pool->n_queued < pool->max_queued;
	if (is_accepted) {
		size_t at = (pool->first + pool->n_queued) % pool->max_queued;
		pool->ring[at] = (struct job){ fn, arg };
		pool->n_queued++;
		pthread_cond_signal(&pool->wake);
	}
	pthread_mutex_unlock(&pool->mu);
	return is_accepted;
}

void bj_pool_free(struct bj_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->mu);
	pool->is_stopping = true;
	pthread_cond_broadcast(&pool->wake);
	pthread_mutex_unlock(&pool->mu);
	for (size_t i = 0; i < pool->n_threads; i++)
		bj_assert(pthread_join(pool->threads[i], NULL) == 0);
	pthread_cond_destroy(&pool->wake);
	pthread_mutex_destroy(&pool->mu);
	bj_free(pool->threads);
	bj_free(pool->ring);
	bj_free(pool);
}

static int start_threads(struct bj_pool *pool, size_t n_threads, struct bj_err *err)
{
	for (size_t i = 0; i < n_threads; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "bj-pool-%zu", i); /* cut to 15 by the callee */
		int r = bj_thread_start(name, pool_main, pool, &pool->threads[i], err);
		if (r < 0)
			return r;
		pool->n_threads++;
	}
	return 0;
}

int bj_pool_new(size_t n_threads, size_t max_queued, struct bj_pool **out_pool, struct bj_err *err)
{
	bj_assert(n_threads >= 1 && max_queued >= 1);
	struct bj_pool *pool = BJ_NEW(struct bj_pool);
	if (!pool)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "make a pool: out of memory");
	/* With default attributes neither can fail in glibc. */
	bj_assert(pthread_mutex_init(&pool->mu, NULL) == 0);
	bj_assert(pthread_cond_init(&pool->wake, NULL) == 0);
	pool->max_queued = max_queued;
	pool->ring = BJ_NEW_ARRAY(struct job, max_queued);
	pool->threads = BJ_NEW_ARRAY(unsigned long, n_threads);

	int r = pool->ring && pool->threads
			? start_threads(pool, n_threads, err)
			: bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "make a pool: out of memory");
	if (r < 0) {
		bj_pool_free(pool);
		return r;
	}
	*out_pool = pool;
	return 0;
}
