// SPDX-License-Identifier: Apache-2.0
/* Input: a pattern, a newline, a path. Short ones without sets are compared with the oracle. */
#include <stdint.h>
#include <stdlib.h>

#include "executor/base/macros.h"
#include "policy/policy.h"
#include "tests/unit/policy_glob_oracle.h"

enum { ORACLE_BYTES = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bj_str path = bj_str_n(data, size);
	struct bj_str pattern = bj_str_cut(&path, '\n');
	struct bj_err err = BJ_ERR_NULL;
	if (pattern.len > 200 || path.len > 400)
		return 0;

	bool is_hit = bjp_glob_match(pattern, path);
	int r = bjp_glob_check(pattern, &err);
	bj_assert((r < 0) == bj_err_is_set(&err));
	bool has_set = bj_str_find(pattern, '[', 0) < pattern.len;
	if (!has_set && pattern.len <= ORACLE_BYTES && path.len <= ORACLE_BYTES)
		bj_assert(is_hit == oracle_glob(pattern, path));
	return 0;
}
