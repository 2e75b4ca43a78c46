// SPDX-License-Identifier: Apache-2.0
/** action/fingerprint-internal.h - how often it looks: a test has less time than a toolchain. */
#ifndef BJ_ACTION_FINGERPRINT_INTERNAL_H
#define BJ_ACTION_FINGERPRINT_INTERNAL_H

#include <stdint.h>

#include "executor/action/fingerprint.h"

struct bj_fingerprint_times {
	uint64_t probe_ns; /* between two cheap looks */
	uint64_t walk_ns;  /* from one walk to the next, whatever the looks say */
};

/** bj_fingerprint_start() with other times. */
BJ_MUST_USE int bj_fingerprint_start_with(const struct bj_str *roots, size_t n_roots,
					  const struct bj_fingerprint_times *times,
					  struct bj_fingerprint **out_fingerprint,
					  struct bj_err *err);

#endif
