// SPDX-License-Identifier: Apache-2.0
/* The engine with a fake runner. It is long because each way to end, to merge and to leave is a scene of its own over one bench. */
#include "tests/unit/action_engine_util.h"

#include "executor/base/log.h"

/* Digits of the stages in these tests: 2 QUEUED, 3 EXECUTING, 4 COMPLETED. CACHE_CHECK is never told: no name is known then. */

static void states_come_in_order(void **state)
{
	struct bench bench;
	struct seen seen = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "run", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	expect_stages(&seen, "234");
	assert_string_equal(seen.response, "RAN");
	assert_string_equal(seen.metadata, "4 61");
	assert_int_equal(strncmp(seen.name, "operations/", 11), 0);
	bj_engine_leave(seen.waiter);
	bench_down(&bench);
}

static void a_hit_is_only_completed(void **state)
{
	struct bench bench;
	struct seen seen = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "hit", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	expect_stages(&seen, "4");
	assert_string_equal(seen.response, "HIT");
	assert_int_equal(bench.fake.n_runs, 0);
	bj_engine_leave(seen.waiter);
	bench_down(&bench);
}

static void a_failed_lookup_is_told(void **state)
{
	struct bench bench;
	struct seen seen = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "bad", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	expect_stages(&seen, "4");
	assert_string_equal(seen.response, "FAILED RESOURCE_EXHAUSTED");
	bj_engine_leave(seen.waiter);
	bench_down(&bench);
}

/* An empty ExecuteResponse would read as OK without a result. */
static void an_empty_response_is_a_failure(void **state)
{
	struct bench bench;
	struct seen seen = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "mute", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	expect_stages(&seen, "234");
	assert_string_equal(seen.response, "FAILED RESOURCE_EXHAUSTED");
	assert_string_equal(seen.metadata, "4 61");
	bj_engine_leave(seen.waiter);
	bench_down(&bench);
}

/* ---- merging ---- */

static void equal_actions_run_once(void **state)
{
	struct bench bench;
	struct seen first = { 0 }, second = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "hold", &first);
	AWAIT_STAGE(&first, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "hold", &second);
	AWAIT_STAGE(&second, BJ_STAGE_EXECUTING);
	assert_string_equal(first.name, second.name);
	open_gate(&bench);
	AWAIT_STAGE(&first, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&second, BJ_STAGE_COMPLETED);
	expect_stages(&first, "234");
	expect_stages(&second, "34");
	assert_int_equal(bench.fake.n_runs, 1);
	assert_int_equal(bench.fake.n_lookups, 2);
	bj_engine_leave(first.waiter);
	bj_engine_leave(second.waiter);
	bench_down(&bench);
}

static void a_queued_one_is_joined(void **state)
{
	struct bench bench;
	struct seen blocker = { 0 }, first = { 0 }, second = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'z', "hold", &blocker);
	AWAIT_STAGE(&blocker, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "run", &first);
	AWAIT_STAGE(&first, BJ_STAGE_QUEUED);
	submit_ok(&bench, 'a', "run", &second);
	AWAIT_STAGE(&second, BJ_STAGE_QUEUED);
	assert_string_equal(first.name, second.name);
	open_gate(&bench);
	AWAIT_STAGE(&first, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&second, BJ_STAGE_COMPLETED);
	assert_int_equal(bench.fake.n_runs, 2);
	bj_engine_leave(blocker.waiter);
	bj_engine_leave(first.waiter);
	bj_engine_leave(second.waiter);
	bench_down(&bench);
}

static void what_does_not_merge(void **state)
{
	struct bench bench;
	struct seen seen[4] = {};
	struct bench_opts o = BENCH_OPTS;
	(void)state;
	o.n_slots = 4;
	bench_up(&bench, o);
	struct bj_submit plain = make_submit('a', "hold");
	struct bj_submit other_instance = plain;
	struct bj_submit other_size = plain;
	other_instance.request.instance = BJ_STR_LIT("b");
	other_size.request.action.size_bytes++;
	assert_int_equal(submit(&bench, &plain, &seen[0]), 0);
	assert_int_equal(submit(&bench, &other_instance, &seen[1]), 0);
	assert_int_equal(submit(&bench, &other_size, &seen[2]), 0);
	submit_ok(&bench, 'b', "hold", &seen[3]);
	for (size_t i = 0; i < 4; i++)
		AWAIT_STAGE(&seen[i], BJ_STAGE_EXECUTING);
	assert_int_equal(bench.fake.n_runs, 4);
	open_gate(&bench);
	for (size_t i = 0; i < 4; i++) {
		AWAIT_STAGE(&seen[i], BJ_STAGE_COMPLETED);
		bj_engine_leave(seen[i].waiter);
	}
	bench_down(&bench);
}

/* Action.do_not_cache: "in-flight requests for the same Action may not be merged". */
static void do_not_cache_runs_each_time(void **state)
{
	struct bench bench;
	struct seen first = { 0 }, second = { 0 };
	struct bench_opts o = BENCH_OPTS;
	(void)state;
	o.n_slots = 2;
	bench_up(&bench, o);
	submit_ok(&bench, 'a', "uncached", &first);
	AWAIT_STAGE(&first, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "uncached", &second);
	AWAIT_STAGE(&second, BJ_STAGE_EXECUTING);
	assert_string_not_equal(first.name, second.name);
	open_gate(&bench);
	AWAIT_STAGE(&first, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&second, BJ_STAGE_COMPLETED);
	assert_int_equal(bench.fake.n_runs, 2);
	bj_engine_leave(first.waiter);
	bj_engine_leave(second.waiter);
	bench_down(&bench);
}

static void skip_cache_lookup_reaches_the_lookup_and_may_merge(void **state)
{
	struct bench bench;
	struct seen first = { 0 }, second = { 0 };
	struct bj_submit s = make_submit('a', "hold");
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	s.request.skip_cache_lookup = true;
	assert_int_equal(submit(&bench, &s, &first), 0);
	AWAIT_STAGE(&first, BJ_STAGE_EXECUTING);
	assert_int_equal(submit(&bench, &s, &second), 0);
	AWAIT_STAGE(&second, BJ_STAGE_EXECUTING);
	assert_int_equal(bench.fake.n_skipping, 2);
	assert_int_equal(bench.fake.n_runs, 1);
	open_gate(&bench);
	AWAIT_STAGE(&first, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&second, BJ_STAGE_COMPLETED);
	bj_engine_leave(first.waiter);
	bj_engine_leave(second.waiter);
	bench_down(&bench);
}

/* The young one's lookup was too early to find the old one's result, and came back when that had ended. */
static void one_that_ended_meanwhile_is_joined(void **state)
{
	struct bench bench;
	struct seen young = { 0 }, old = { 0 }, later = { 0 };
	struct bj_submit slow = make_submit('a', "slow");
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	assert_int_equal(submit(&bench, &slow, &young), 0);
	AWAIT(bench.fake.n_held_lookups == 1);
	submit_ok(&bench, 'a', "run", &old);
	AWAIT_STAGE(&old, BJ_STAGE_COMPLETED);
	open_lookups(&bench);
	AWAIT_STAGE(&young, BJ_STAGE_COMPLETED);
	expect_stages(&young, "4");
	assert_string_equal(young.name, old.name);
	assert_int_equal(bench.fake.n_runs, 1);
	/* But who comes after the end is not given it: the cache decides about that. */
	submit_ok(&bench, 'a', "run", &later);
	AWAIT_STAGE(&later, BJ_STAGE_COMPLETED);
	assert_int_equal(bench.fake.n_runs, 2);
	bj_engine_leave(young.waiter);
	bj_engine_leave(old.waiter);
	bj_engine_leave(later.waiter);
	bench_down(&bench);
}

/* ---- leaving and coming back ---- */

static void a_running_one_is_cancelled_after_the_grace(void **state)
{
	struct bench bench;
	struct seen seen = { 0 }, late = { 0 };
	struct bench_opts o = BENCH_OPTS;
	(void)state;
	o.grace_ns = 20 * BJ_NS_PER_MS;
	bench_up(&bench, o);
	submit_ok(&bench, 'a', "hold", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_EXECUTING);
	bj_engine_leave(seen.waiter);
	AWAIT(bench.fake.n_cancelled == 1);
	assert_int_equal(wait_for(&bench, seen.name, &late), 0);
	AWAIT_STAGE(&late, BJ_STAGE_COMPLETED);
	assert_string_equal(late.response, "STOPPED");
	bj_engine_leave(late.waiter);
	bench_down(&bench);
}

static void a_queued_one_is_cancelled_without_running(void **state)
{
	struct bench bench;
	struct seen blocker = { 0 }, seen = { 0 }, late = { 0 };
	struct bench_opts o = BENCH_OPTS;
	(void)state;
	o.grace_ns = 0;
	bench_up(&bench, o);
	submit_ok(&bench, 'z', "hold", &blocker);
	AWAIT_STAGE(&blocker, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "run", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_QUEUED);
	bj_engine_leave(seen.waiter);
	assert_int_equal(wait_for(&bench, seen.name, &late), 0); /* in time, or to hear the end */
	bj_engine_leave(late.waiter);
	late = (struct seen){ 0 };
	while (late.n == 0 || late.stages[0] != BJ_STAGE_COMPLETED) {
		late = (struct seen){ 0 };
		assert_int_equal(wait_for(&bench, seen.name, &late), 0);
		AWAIT(late.n > 0);
		bj_engine_leave(late.waiter);
	}
	assert_string_equal(late.response, "FAILED CANCELLED");
	open_gate(&bench);
	AWAIT_STAGE(&blocker, BJ_STAGE_COMPLETED);
	assert_int_equal(bench.fake.n_runs, 1);
	bj_engine_leave(blocker.waiter);
	bench_down(&bench);
}

static void who_comes_back_within_the_grace_gets_the_result(void **state)
{
	struct bench bench;
	struct seen seen = { 0 }, back = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS); /* a grace of an hour */
	submit_ok(&bench, 'a', "hold", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_EXECUTING);
	bj_engine_leave(seen.waiter);
	assert_int_equal(wait_for(&bench, seen.name, &back), 0);
	AWAIT_STAGE(&back, BJ_STAGE_EXECUTING);
	open_gate(&bench);
	AWAIT_STAGE(&back, BJ_STAGE_COMPLETED);
	expect_stages(&back, "34");
	assert_string_equal(back.response, "RAN");
	assert_int_equal(bench.fake.n_cancelled, 0);
	bj_engine_leave(back.waiter);
	bench_down(&bench);
}

/* One of two leaves: nothing is cancelled. */
static void one_waiter_is_enough(void **state)
{
	struct bench bench;
	struct seen first = { 0 }, second = { 0 };
	struct bench_opts o = BENCH_OPTS;
	(void)state;
	o.grace_ns = 0;
	bench_up(&bench, o);
	submit_ok(&bench, 'a', "hold", &first);
	AWAIT_STAGE(&first, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "hold", &second);
	AWAIT_STAGE(&second, BJ_STAGE_EXECUTING);
	bj_engine_leave(first.waiter);
	open_gate(&bench);
	AWAIT_STAGE(&second, BJ_STAGE_COMPLETED);
	assert_string_equal(second.response, "RAN");
	bj_engine_leave(second.waiter);
	bench_down(&bench);
}

static void leaving_during_the_lookup(void **state)
{
	struct bench bench;
	struct seen seen = { 0 }, other = { 0 };
	struct bj_submit slow = make_submit('a', "slow");
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	assert_int_equal(submit(&bench, &slow, &seen), 0);
	AWAIT(bench.fake.n_held_lookups == 1);
	bj_engine_leave(seen.waiter);
	open_lookups(&bench);
	submit_ok(&bench, 'b', "run", &other);
	AWAIT_STAGE(&other, BJ_STAGE_COMPLETED);
	bj_engine_leave(other.waiter);
	expect_stages(&seen, "");
	bench_down(&bench);
	assert_int_equal(bench.fake.n_runs, 1);
}

static void leaving_after_the_end(void **state)
{
	struct bench bench;
	struct seen seen = { 0 }, late = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "run", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	bj_engine_leave(seen.waiter);
	assert_int_equal(wait_for(&bench, seen.name, &late), 0);
	AWAIT_STAGE(&late, BJ_STAGE_COMPLETED);
	expect_stages(&late, "4");
	bj_engine_leave(late.waiter);
	bench_down(&bench);
}

struct leaver {
	struct bj_waiter *waiter;
	bool has_left;
};

static void *leave_main(void *arg)
{
	struct leaver *leaver = arg;
	bj_engine_leave(leaver->waiter);
	test_lock();
	leaver->has_left = true;
	test_unlock();
	return NULL;
}

static void leave_waits_for_the_callback(void **state)
{
	struct bench bench;
	struct seen seen = { .is_blocking = true };
	struct leaver leaver = { 0 };
	pthread_t thread;
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "hit", &seen);
	AWAIT(seen.is_inside);
	leaver.waiter = seen.waiter;
	assert_int_equal(pthread_create(&thread, NULL, leave_main, &leaver), 0);
	test_lock();
	assert_false(leaver.has_left); /* the callback still runs, so it cannot have */
	seen.is_open = true;
	test_unlock();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(seen.is_inside);
	bench_down(&bench);
}

/* ---- names ---- */

static void unknown_names(void **state)
{
	static const char *const names[] = { "", "nope", "operations/", "operations/0-0" };
	struct bench bench;
	struct seen seen = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		assert_int_equal(wait_for(&bench, names[i], &seen), -BJ_NOT_FOUND);
		bj_err_clear(&bench.err);
	}
	bench_down(&bench);
}

/* A name that is still in the lookup may vanish: it is not given out, so it is not known. */
static void a_name_in_the_lookup_is_not_known(void **state)
{
	struct bench bench;
	struct seen first = { 0 }, slow = { 0 }, guess = { 0 };
	struct bj_submit s = make_submit('b', "slow");
	char name[128];
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "run", &first);
	AWAIT_STAGE(&first, BJ_STAGE_COMPLETED);
	assert_int_equal(submit(&bench, &s, &slow), 0);
	AWAIT(bench.fake.n_held_lookups == 1);
	const char *dash = strrchr(first.name, '-');
	assert_string_equal(dash, "-0");
	(void)snprintf(name, sizeof(name), "%.*s-1", (int)(dash - first.name), first.name);
	assert_int_equal(wait_for(&bench, name, &guess), -BJ_NOT_FOUND);
	bj_err_clear(&bench.err);
	open_lookups(&bench);
	AWAIT_STAGE(&slow, BJ_STAGE_COMPLETED);
	assert_string_equal(slow.name, name);
	assert_int_equal(wait_for(&bench, name, &guess), 0);
	bj_engine_leave(guess.waiter);
	bj_engine_leave(first.waiter);
	bj_engine_leave(slow.waiter);
	bench_down(&bench);
}

static void completed_ones_are_forgotten_in_time(void **state)
{
	struct bench bench;
	struct seen seen = { 0 }, late = { 0 };
	struct bench_opts o = BENCH_OPTS;
	uint64_t deadline_ns = bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC);
	int r;
	(void)state;
	o.keep_ns = 0;
	bench_up(&bench, o);
	submit_ok(&bench, 'a', "run", &seen);
	AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
	/* Whoever waits keeps it. */
	assert_int_equal(wait_for(&bench, seen.name, &late), 0);
	bj_engine_leave(late.waiter);
	bj_engine_leave(seen.waiter);
	do {
		r = wait_for(&bench, seen.name, &late);
		if (r == 0)
			bj_engine_leave(late.waiter);
		late.n = 0;
		assert_true(bj_now_ns() < deadline_ns);
	} while (r == 0);
	assert_int_equal(r, -BJ_NOT_FOUND);
	bench_down(&bench);
}

static void large_results_are_not_all_kept(void **state)
{
	enum { N = 80 };
	struct bench bench;
	struct seen seen[N] = {}, late = { 0 };
	(void)state;
	bench_up(&bench, BENCH_OPTS); /* they may stay for an hour, but not above 64 MiB together */
	for (size_t i = 0; i < N; i++) {
		submit_ok(&bench, (char)(' ' + i), "big", &seen[i]);
		AWAIT_STAGE(&seen[i], BJ_STAGE_COMPLETED);
		bj_engine_leave(seen[i].waiter);
	}
	struct seen end = { 0 };
	submit_ok(&bench, 'z', "run", &end); /* by the time it is told the teller has looked */
	AWAIT_STAGE(&end, BJ_STAGE_COMPLETED);
	assert_int_equal(wait_for(&bench, seen[0].name, &late), -BJ_NOT_FOUND);
	bj_err_clear(&bench.err);
	assert_int_equal(wait_for(&bench, seen[N - 1].name, &late), 0);
	bj_engine_leave(late.waiter);
	bj_engine_leave(end.waiter);
	bench_down(&bench);
}

/* ---- the queue ---- */

static void smaller_priorities_run_first(void **state)
{
	static const struct {
		char letter;
		int32_t priority;
	} rows[] = {
		{ 'e', 5 }, { 'b', 0 }, { 'a', -1 }, { 'c', 0 }, { 'f', INT32_MAX }, { 'd', 4 }
	};
	struct bench bench;
	struct seen blocker = { 0 }, seen[BJ_ARRAY_LEN(rows)] = {};
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'z', "hold", &blocker);
	AWAIT_STAGE(&blocker, BJ_STAGE_EXECUTING);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_submit s = make_submit(rows[i].letter, "run");
		s.priority = rows[i].priority;
		assert_int_equal(submit(&bench, &s, &seen[i]), 0);
		AWAIT_STAGE(&seen[i], BJ_STAGE_QUEUED);
	}
	open_gate(&bench);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		AWAIT_STAGE(&seen[i], BJ_STAGE_COMPLETED);
		bj_engine_leave(seen[i].waiter);
	}
	assert_memory_equal(bench.fake.runs, "zabcdef", 7);
	bj_engine_leave(blocker.waiter);
	bench_down(&bench);
}

static void who_joins_brings_the_better_priority(void **state)
{
	struct bench bench;
	struct seen blocker = { 0 }, a = { 0 }, b = { 0 }, urgent = { 0 }, idle = { 0 };
	struct bj_submit s = make_submit('a', "run");
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'z', "hold", &blocker);
	AWAIT_STAGE(&blocker, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'b', "run", &b);
	AWAIT_STAGE(&b, BJ_STAGE_QUEUED);
	s.priority = 3;
	assert_int_equal(submit(&bench, &s, &a), 0);
	AWAIT_STAGE(&a, BJ_STAGE_QUEUED);
	s.priority = -3;
	assert_int_equal(submit(&bench, &s, &urgent), 0);
	AWAIT_STAGE(&urgent, BJ_STAGE_QUEUED);
	s.priority = 9; /* a worse one changes nothing */
	assert_int_equal(submit(&bench, &s, &idle), 0);
	AWAIT_STAGE(&idle, BJ_STAGE_QUEUED);
	open_gate(&bench);
	AWAIT_STAGE(&a, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&b, BJ_STAGE_COMPLETED);
	assert_memory_equal(bench.fake.runs, "zab", 3);
	bj_engine_leave(blocker.waiter);
	bj_engine_leave(a.waiter);
	bj_engine_leave(b.waiter);
	bj_engine_leave(urgent.waiter);
	bj_engine_leave(idle.waiter);
	bench_down(&bench);
}

static void the_queue_is_bounded(void **state)
{
	struct bench bench;
	struct seen blocker = { 0 }, a = { 0 }, b = { 0 }, c = { 0 };
	struct bench_opts o = BENCH_OPTS;
	struct bj_submit s = make_submit('c', "run");
	(void)state;
	o.max_queued = 2;
	bench_up(&bench, o);
	submit_ok(&bench, 'z', "hold", &blocker);
	AWAIT_STAGE(&blocker, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'a', "run", &a);
	submit_ok(&bench, 'b', "run", &b);
	assert_int_equal(submit(&bench, &s, &c), -BJ_RESOURCE_EXHAUSTED);
	bj_err_clear(&bench.err);
	open_gate(&bench);
	AWAIT_STAGE(&a, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&b, BJ_STAGE_COMPLETED);
	assert_int_equal(submit(&bench, &s, &c), 0);
	AWAIT_STAGE(&c, BJ_STAGE_COMPLETED);
	bj_engine_leave(blocker.waiter);
	bj_engine_leave(a.waiter);
	bj_engine_leave(b.waiter);
	bj_engine_leave(c.waiter);
	bench_down(&bench);
}

static void a_full_pool_refuses(void **state)
{
	struct bench bench;
	struct seen a = { 0 }, b = { 0 }, c = { 0 };
	struct bench_opts o = BENCH_OPTS;
	struct bj_submit slow = make_submit('a', "slow"), next = make_submit('b', "slow");
	(void)state;
	o.n_pool = 1;
	o.max_jobs = 1;
	bench_up(&bench, o);
	assert_int_equal(submit(&bench, &slow, &a), 0);
	AWAIT(bench.fake.n_held_lookups == 1);
	assert_int_equal(submit(&bench, &next, &b), 0);
	assert_int_equal(submit(&bench, &next, &c), -BJ_RESOURCE_EXHAUSTED);
	bj_err_clear(&bench.err);
	open_lookups(&bench);
	AWAIT_STAGE(&a, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&b, BJ_STAGE_COMPLETED);
	bj_engine_leave(a.waiter);
	bj_engine_leave(b.waiter);
	bench_down(&bench);
}

/* ---- stopping ---- */

static void *free_main(void *arg)
{
	bj_engine_free(arg);
	return NULL;
}

static void free_tells_everybody(void **state)
{
	struct bench bench;
	struct seen running = { 0 }, queued = { 0 }, looked_up = { 0 }, refused = { 0 };
	struct bj_submit slow = make_submit('c', "slow"), late = make_submit('d', "run");
	pthread_t thread;
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	submit_ok(&bench, 'a', "hold", &running);
	AWAIT_STAGE(&running, BJ_STAGE_EXECUTING);
	submit_ok(&bench, 'b', "run", &queued);
	AWAIT_STAGE(&queued, BJ_STAGE_QUEUED);
	assert_int_equal(submit(&bench, &slow, &looked_up), 0);
	AWAIT(bench.fake.n_held_lookups == 1);
	assert_int_equal(pthread_create(&thread, NULL, free_main, bench.engine), 0);
	AWAIT(bench.fake.n_cancelled == 1); /* so it is stopping, and waits for the lookup */
	assert_int_equal(submit(&bench, &late, &refused), -BJ_UNAVAILABLE);
	bj_err_clear(&bench.err);
	open_lookups(&bench);
	AWAIT_STAGE(&running, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&queued, BJ_STAGE_COMPLETED);
	AWAIT_STAGE(&looked_up, BJ_STAGE_COMPLETED);
	assert_string_equal(running.response, "STOPPED");
	assert_string_equal(queued.response, "FAILED UNAVAILABLE");
	assert_string_equal(looked_up.response, "FAILED UNAVAILABLE");
	bj_engine_leave(running.waiter);
	bj_engine_leave(queued.waiter);
	bj_engine_leave(looked_up.waiter);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(bench.fake.n_runs, 1);
	bench.engine = NULL;
	bench_down(&bench);
}

/* ---- many at once ---- */

enum { N_SUBMITTERS = 8, N_EACH = 125, N_OPEN = 5 };

struct submitter {
	struct bench *bench;
	unsigned seed;
	size_t n_told, n_left;
};

/* Some wait for the end, some leave on the way, some leave and come back. */
static void finish_one(struct submitter *me, struct seen *seen)
{
	unsigned what = (unsigned)rand_r(&me->seed) % 4;
	if (what == 0) {
		bj_engine_leave(seen->waiter);
		me->n_left++;
		return;
	}
	if (what == 1) {
		AWAIT(seen->n > 0);
		char name[128];
		test_lock();
		memcpy(name, seen->name, sizeof(name));
		test_unlock();
		bj_engine_leave(seen->waiter);
		struct seen back = { 0 };
		struct bj_err err = BJ_ERR_NULL;
		int r = bj_engine_wait(me->bench->engine, bj_str_of(name), on_seen, &back,
				       &back.waiter, &err);
		bj_assert(r == 0);
		AWAIT_STAGE(&back, BJ_STAGE_COMPLETED);
		bj_engine_leave(back.waiter);
	} else {
		AWAIT_STAGE(seen, BJ_STAGE_COMPLETED);
		bj_engine_leave(seen->waiter);
	}
	me->n_told++;
}

static void *submitter_main(void *arg)
{
	static const char *const words[] = { "run", "run", "run", "hit", "bad", "mute" };
	struct submitter *me = arg;
	struct seen seen[N_OPEN];
	for (size_t i = 0; i < N_EACH; i += N_OPEN) {
		memset(seen, 0, sizeof(seen));
		for (size_t j = 0; j < N_OPEN; j++) {
			struct bj_submit s =
				make_submit((char)('a' + rand_r(&me->seed) % 20),
					    words[(size_t)rand_r(&me->seed) % BJ_ARRAY_LEN(words)]);
			struct bj_err err = BJ_ERR_NULL;
			s.priority = rand_r(&me->seed) % 3;
			int r = bj_engine_submit(me->bench->engine, &s, on_seen, &seen[j],
						 &seen[j].waiter, &err);
			bj_assert(r == 0);
		}
		for (size_t j = 0; j < N_OPEN; j++)
			finish_one(me, &seen[j]);
	}
	return NULL;
}

static void a_thousand_from_eight_threads(void **state)
{
	struct bench bench;
	struct bench_opts o = BENCH_OPTS;
	struct submitter submitters[N_SUBMITTERS];
	pthread_t threads[N_SUBMITTERS];
	size_t n = 0;
	(void)state;
	o.n_slots = 4;
	o.n_pool = 4;
	bench_up(&bench, o);
	for (size_t i = 0; i < N_SUBMITTERS; i++) {
		submitters[i] = (struct submitter){ .bench = &bench, .seed = (unsigned)i + 1 };
		assert_int_equal(pthread_create(&threads[i], NULL, submitter_main, &submitters[i]),
				 0);
	}
	for (size_t i = 0; i < N_SUBMITTERS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		n += submitters[i].n_told + submitters[i].n_left;
	}
	assert_int_equal(n, N_SUBMITTERS * N_EACH);
	bench_down(&bench);
	assert_int_equal(bench.fake.n_lookups, N_SUBMITTERS * N_EACH);
}

/* ---- every allocation fails once ---- */

static void the_end_is_told_without_memory(void **state)
{
	struct bench bench;
	uint64_t n = 0;
	bool failed = true;
	(void)state;
	bench_up(&bench, BENCH_OPTS);
	for (; failed; n++) {
		struct seen seen = { 0 };
		struct bj_submit s = make_submit('a', "run");
		s.request.action.size_bytes = n; /* another action each time */
		bj_alloc_fail_after(n);
		int r = submit(&bench, &s, &seen);
		if (r == 0) {
			AWAIT_STAGE(&seen, BJ_STAGE_COMPLETED);
			failed = bj_alloc_fail_disarm();
			assert_true(!strcmp(seen.response, "RAN") ||
				    !strcmp(seen.response, "FAILED RESOURCE_EXHAUSTED"));
			bj_engine_leave(seen.waiter);
		} else {
			failed = bj_alloc_fail_disarm();
			assert_true(failed);
			assert_int_equal(r, -BJ_RESOURCE_EXHAUSTED);
			bj_err_clear(&bench.err);
		}
	}
	assert_true(n > 10);
	bench_down(&bench);
}

static void making_one_without_memory(void **state)
{
	struct bench bench;
	struct bj_engine_opts opts = { .n_slots = 2 };
	struct bj_runner_ops ops = fake_ops(&bench.fake);
	struct bj_engine *engine = NULL;
	struct bj_err err = BJ_ERR_NULL;
	int r = -1;
	uint64_t n = 0;
	(void)state;
	for (; r < 0; n++) {
		bj_err_clear(&err);
		bj_alloc_fail_after(n);
		r = bj_engine_new(&opts, &ops, &engine, &err);
		assert_int_equal(bj_alloc_fail_disarm(), r < 0);
	}
	assert_true(n > 3);
	bj_engine_free(engine);
	bj_engine_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_come_in_order),
		cmocka_unit_test(a_hit_is_only_completed),
		cmocka_unit_test(a_failed_lookup_is_told),
		cmocka_unit_test(an_empty_response_is_a_failure),
		cmocka_unit_test(equal_actions_run_once),
		cmocka_unit_test(a_queued_one_is_joined),
		cmocka_unit_test(what_does_not_merge),
		cmocka_unit_test(do_not_cache_runs_each_time),
		cmocka_unit_test(skip_cache_lookup_reaches_the_lookup_and_may_merge),
		cmocka_unit_test(one_that_ended_meanwhile_is_joined),
		cmocka_unit_test(a_running_one_is_cancelled_after_the_grace),
		cmocka_unit_test(a_queued_one_is_cancelled_without_running),
		cmocka_unit_test(who_comes_back_within_the_grace_gets_the_result),
		cmocka_unit_test(one_waiter_is_enough),
		cmocka_unit_test(leaving_during_the_lookup),
		cmocka_unit_test(leaving_after_the_end),
		cmocka_unit_test(leave_waits_for_the_callback),
		cmocka_unit_test(unknown_names),
		cmocka_unit_test(a_name_in_the_lookup_is_not_known),
		cmocka_unit_test(completed_ones_are_forgotten_in_time),
		cmocka_unit_test(large_results_are_not_all_kept),
		cmocka_unit_test(smaller_priorities_run_first),
		cmocka_unit_test(who_joins_brings_the_better_priority),
		cmocka_unit_test(the_queue_is_bounded),
		cmocka_unit_test(a_full_pool_refuses),
		cmocka_unit_test(free_tells_everybody),
		cmocka_unit_test(a_thousand_from_eight_threads),
		cmocka_unit_test(the_end_is_told_without_memory),
		cmocka_unit_test(making_one_without_memory),
	};
	bj_log_set_level(BJ_LOG_ERROR);
	return cmocka_run_group_tests_name("action/engine", tests, NULL, NULL);
}
