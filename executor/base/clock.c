// SPDX-License-Identifier: Apache-2.0
#include "executor/base/clock.h"

#include <limits.h>
#include <time.h>

#include "executor/base/macros.h"

static uint64_t read_clock(clockid_t id)
{
	struct timespec ts;
	bj_assert(clock_gettime(id, &ts) == 0); /* both clocks exist on every Linux */
	return (uint64_t)ts.tv_sec * BJ_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t bj_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t bj_realtime_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t bj_deadline_ns(uint64_t delta_ns)
{
	uint64_t deadline_ns;
	return __builtin_add_overflow(bj_now_ns(), delta_ns, &deadline_ns) ? BJ_NEVER_NS
									   : deadline_ns;
}

int bj_poll_timeout_ms(uint64_t deadline_ns)
{
	if (deadline_ns == BJ_NEVER_NS)
		return -1;
	uint64_t now_ns = bj_now_ns();
	if (deadline_ns <= now_ns)
		return 0;
	uint64_t left_ns = deadline_ns - now_ns;
	uint64_t left_ms = left_ns / BJ_NS_PER_MS + (left_ns % BJ_NS_PER_MS != 0);
	return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}
