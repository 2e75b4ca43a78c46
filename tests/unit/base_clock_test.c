// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <limits.h>
#include <time.h>

#include "executor/base/clock.h"

static void now_does_not_go_back(void **state)
{
	(void)state;
	uint64_t last_ns = bj_now_ns();
	for (int i = 0; i < 1000; i++) {
		uint64_t now_ns = bj_now_ns();
		assert_true(now_ns >= last_ns);
		last_ns = now_ns;
	}
}

static void realtime_is_that_of_time(void **state)
{
	(void)state;
	time_t before = time(NULL); /* time() may lag by a tick: one second of slack */
	uint64_t ns = bj_realtime_ns();
	time_t after = time(NULL);
	assert_true(ns / BJ_NS_PER_SEC + 1 >= (uint64_t)before);
	assert_true(ns / BJ_NS_PER_SEC <= (uint64_t)after + 1);
}

static void a_deadline_saturates_at_never(void **state)
{
	(void)state;
	assert_true(bj_deadline_ns(BJ_NEVER_NS) == BJ_NEVER_NS);
	assert_true(bj_deadline_ns(BJ_NEVER_NS - 1) == BJ_NEVER_NS);
	uint64_t now_ns = bj_now_ns();
	uint64_t deadline_ns = bj_deadline_ns(5 * BJ_NS_PER_SEC);
	assert_true(deadline_ns >= now_ns + 5 * BJ_NS_PER_SEC);
	assert_true(deadline_ns <= bj_now_ns() + 5 * BJ_NS_PER_SEC);
}

static void poll_timeout_covers_the_range(void **state)
{
	(void)state;
	assert_int_equal(bj_poll_timeout_ms(BJ_NEVER_NS), -1);
	assert_int_equal(bj_poll_timeout_ms(BJ_NEVER_NS - 1), INT_MAX);
	assert_int_equal(bj_poll_timeout_ms(0), 0);
	assert_int_equal(bj_poll_timeout_ms(bj_now_ns()), 0);
}

static void poll_timeout_rounds_up(void **state)
{
	(void)state;
	/* A poll() of this length must not end before the deadline, or its caller would spin. */
	for (int i = 0; i < 1000; i++) {
		uint64_t deadline_ns = bj_now_ns() + BJ_NS_PER_SEC + (uint64_t)i;
		int ms = bj_poll_timeout_ms(deadline_ns);
		uint64_t after_ns = bj_now_ns();
		assert_true(after_ns + (uint64_t)ms * BJ_NS_PER_MS >= deadline_ns);
		assert_true(ms <= 1001);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(now_does_not_go_back),
		cmocka_unit_test(realtime_is_that_of_time),
		cmocka_unit_test(a_deadline_saturates_at_never),
		cmocka_unit_test(poll_timeout_covers_the_range),
		cmocka_unit_test(poll_timeout_rounds_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
