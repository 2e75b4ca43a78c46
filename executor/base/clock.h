// SPDX-License-Identifier: Apache-2.0
/**
 * base/clock.h - the two clocks. Monotonic for durations and deadlines (absolute, ns), real time for timestamps only.
 * Threads: any.
 */
#ifndef BJ_BASE_CLOCK_H
#define BJ_BASE_CLOCK_H

#include <stdint.h>

#define BJ_NS_PER_SEC UINT64_C(1000000000)
#define BJ_NS_PER_MS UINT64_C(1000000)
#define BJ_NEVER_NS UINT64_MAX /* a deadline that does not come */

uint64_t bj_now_ns(void);      /* CLOCK_MONOTONIC */
uint64_t bj_realtime_ns(void); /* CLOCK_REALTIME since the epoch */
/** now + delta, saturating at BJ_NEVER_NS. */
uint64_t bj_deadline_ns(uint64_t delta_ns);
/** Milliseconds for poll(2) until @deadline_ns: rounded up, 0 when past, -1 for BJ_NEVER_NS, capped at INT_MAX. */
int bj_poll_timeout_ms(uint64_t deadline_ns);

#endif
