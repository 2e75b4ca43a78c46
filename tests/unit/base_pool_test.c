// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <linux/capability.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "executor/base/alloc.h"
#include "executor/base/err.h"
#include "executor/base/pool.h"

static struct bj_pool *new_pool(size_t n_threads, size_t max_queued)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_pool *pool = NULL;
	assert_int_equal(bj_pool_new(n_threads, max_queued, &pool, &err), 0);
	assert_non_null(pool);
	return pool;
}

static void count_up(void *arg)
{
	atomic_fetch_add((_Atomic int *)arg, 1);
}

static void every_job_runs_once(void **state)
{
	(void)state;
	static _Atomic int counts[10000];
	struct bj_pool *pool = new_pool(4, 10000);
	for (size_t i = 0; i < BJ_ARRAY_LEN(counts); i++)
		assert_true(bj_pool_submit(pool, count_up, &counts[i]));
	bj_pool_free(pool); /* runs what is queued */
	for (size_t i = 0; i < BJ_ARRAY_LEN(counts); i++)
		assert_int_equal(counts[i], 1);
}

struct gate {
	sem_t entered; /* a job is inside */
	sem_t open;    /* lets one job out */
};

static void gate_init(struct gate *gate)
{
	assert_int_equal(sem_init(&gate->entered, 0, 0), 0);
	assert_int_equal(sem_init(&gate->open, 0, 0), 0);
}

static void pass_gate(void *arg)
{
	struct gate *gate = arg;
	sem_post(&gate->entered);
	sem_wait(&gate->open);
}

static void a_full_queue_refuses(void **state)
{
	(void)state;
	struct gate gate;
	gate_init(&gate);
	_Atomic int count = 0;
	struct bj_pool *pool = new_pool(1, 3);
	for (int round = 0; round < 5; round++) { /* the ring wraps */
		assert_true(bj_pool_submit(pool, pass_gate, &gate));
		sem_wait(&gate.entered); /* running, so not waiting any more */
		for (int i = 0; i < 3; i++)
			assert_true(bj_pool_submit(pool, count_up, &count));
		assert_false(bj_pool_submit(pool, count_up, &count));
		assert_false(bj_pool_submit(pool, count_up, &count));
		sem_post(&gate.open);
		/* once this one runs, all before it have */
		while (!bj_pool_submit(pool, pass_gate, &gate))
			sched_yield();
		sem_wait(&gate.entered);
		assert_int_equal(count, 3 * (round + 1));
		sem_post(&gate.open);
	}
	bj_pool_free(pool);
	assert_int_equal(count, 15);
	bj_pool_free(NULL);
}

static void all_threads_work_at_once(void **state)
{
	(void)state;
	enum { N = 5 };
	struct gate gate;
	gate_init(&gate);
	struct bj_pool *pool = new_pool(N, N);
	for (int i = 0; i < N; i++)
		assert_true(bj_pool_submit(pool, pass_gate, &gate));
	for (int i = 0; i < N; i++)
		sem_wait(&gate.entered); /* hangs if fewer run together */
	for (int i = 0; i < N; i++)
		sem_post(&gate.open);
	bj_pool_free(pool);
}

struct order {
	int next;
	bool is_broken;
};

struct ordered_job {
	struct order *order;
	int number;
};

static void check_order(void *arg)
{
	struct ordered_job *job = arg;
	job->order->is_broken |= job->order->next++ != job->number;
}

static void one_thread_keeps_the_order(void **state)
{
	(void)state;
	static struct ordered_job jobs[1000];
	struct order order = { 0, false };
	struct bj_pool *pool = new_pool(1, 7);
	for (int i = 0; i < 1000; i++) {
		jobs[i] = (struct ordered_job){ &order, i };
		while (!bj_pool_submit(pool, check_order, &jobs[i]))
			sched_yield();
	}
	bj_pool_free(pool);
	assert_int_equal(order.next, 1000);
	assert_false(order.is_broken);
}

struct late {
	struct bj_pool *pool;
	struct gate gate;
	_Atomic bool was_refused;
	_Atomic int count;
};

/* Submits until it is refused, which is only possible once the pool stops: the queue is never full. */
static void submit_until_refused(void *arg)
{
	struct late *late = arg;
	sem_post(&late->gate.entered);
	for (int n = 0; bj_pool_submit(late->pool, count_up, &late->count); n++)
		while (atomic_load(&late->count) == n) /* the other thread has not run it yet */
			sched_yield();
	late->was_refused = true;
}

static void a_stopping_pool_refuses(void **state)
{
	(void)state;
	static struct late late;
	gate_init(&late.gate);
	late.pool = new_pool(2, 100);
	assert_true(bj_pool_submit(late.pool, submit_until_refused, &late));
	sem_wait(&late.gate.entered);
	bj_pool_free(late.pool); /* hangs if it goes on accepting */
	assert_true(late.was_refused);
}

struct seen {
	char name[16];
	sigset_t mask;
};

static void look_around(void *arg)
{
	struct seen *seen = arg;
	(void)pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
	(void)pthread_sigmask(SIG_BLOCK, NULL, &seen->mask);
}

static void threads_are_named_and_block_signals(void **state)
{
	(void)state;
	struct seen seen = { 0 };
	sigset_t before;
	sigset_t after;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	struct bj_pool *pool = new_pool(1, 1);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_true(bj_pool_submit(pool, look_around, &seen));
	bj_pool_free(pool);
	assert_string_equal(seen.name, "bj-pool-0");
	static const int blocked[] = {
		SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE, SIGALRM, SIGUSR1
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(blocked); i++)
		assert_true(sigismember(&seen.mask, blocked[i]));
	assert_false(sigismember(&seen.mask, SIGSEGV));
	for (int sig = 1; sig < 32; sig++) /* the creator's own mask is as it was */
		assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
}

static void *look_and_return(void *arg)
{
	look_around(arg);
	return arg;
}

static void a_thread_returns_its_value_and_its_name_is_cut(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	struct seen seen = { 0 };
	unsigned long thread;
	assert_int_equal(
		bj_thread_start("a-name-that-is-too-long", look_and_return, &seen, &thread, &err),
		0);
	void *result;
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &seen);
	assert_string_equal(seen.name, "a-name-that-is-");
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	uint64_t n = 0;
	for (;; n++) {
		struct bj_err err = BJ_ERR_NULL;
		struct bj_pool *pool = NULL;
		bj_alloc_fail_after(n);
		int r = bj_pool_new(3, 10, &pool, &err);
		if (!bj_alloc_fail_disarm()) {
			assert_int_equal(r, 0);
			bj_pool_free(pool);
			break;
		}
		assert_int_equal(r, -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(err.code, BJ_RESOURCE_EXHAUSTED);
		assert_null(pool);
	}
	assert_int_equal(n, 6); /* the pool, its ring, its list, three threads */
}

static int fail_to_start_a_thread(void *arg)
{
	(void)arg;
	/* The limit on processes binds neither root nor who has these capabilities. */
	if (geteuid() == 0 && setuid(65534) != 0)
		return CHILD_SKIPPED;
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	CHILD_CHECK(syscall(SYS_capset, &header, data) == 0);
	struct rlimit none = { 0, 0 };
	CHILD_CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);

	struct bj_err err = BJ_ERR_NULL;
	struct bj_pool *pool = NULL;
	CHILD_CHECK(bj_pool_new(2, 10, &pool, &err) == -BJ_RESOURCE_EXHAUSTED);
	CHILD_CHECK(err.sys_errno == EAGAIN);
	CHILD_CHECK(strcmp(err.msg, "start thread bj-pool-0: Resource temporarily unavailable") ==
		    0);
	CHILD_CHECK(pool == NULL);
	return 0;
}

static void a_thread_that_cannot_start_is_an_error(void **state)
{
	(void)state;
	expect_child_ok(fail_to_start_a_thread, NULL, "no second user in this namespace");
}

static void no_threads(void *arg)
{
	struct bj_err err = BJ_ERR_NULL;
	BJ_IGNORE(bj_pool_new(0, 1, arg, &err)); /* does not return */
}

static void no_queue(void *arg)
{
	struct bj_err err = BJ_ERR_NULL;
	BJ_IGNORE(bj_pool_new(1, 0, arg, &err)); /* does not return */
}

static void empty_pools_are_asserted(void **state)
{
	(void)state;
	struct bj_pool *pool = NULL;
	expect_abort(no_threads, &pool);
	expect_abort(no_queue, &pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_job_runs_once),
		cmocka_unit_test(a_full_queue_refuses),
		cmocka_unit_test(all_threads_work_at_once),
		cmocka_unit_test(one_thread_keeps_the_order),
		cmocka_unit_test(a_stopping_pool_refuses),
		cmocka_unit_test(threads_are_named_and_block_signals),
		cmocka_unit_test(a_thread_returns_its_value_and_its_name_is_cut),
		cmocka_unit_test(each_allocation_may_fail),
		cmocka_unit_test(a_thread_that_cannot_start_is_an_error),
		cmocka_unit_test(empty_pools_are_asserted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
