// SPDX-License-Identifier: Apache-2.0
/* Input: any bytes, as a path from a client or an action. Cleaning is idempotent; an accepted output stays in the root. */
#include <stdint.h>

#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_clean(struct bj_str path)
{
	if (path.len == 0 || path.ptr[0] != '/')
		return false;
	if (path.len == 1)
		return true;
	struct bj_str rest = bj_str_sub(path, 1, path.len);
	while (rest.ptr) {
		struct bj_str name = bj_str_cut(&rest, '/');
		if (name.len == 0 || bj_str_eq(name, BJ_STR_LIT(".")) ||
		    bj_str_eq(name, BJ_STR_LIT("..")))
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_str raw = bj_str_n(data, size);
	struct bj_err err = BJ_ERR_NULL;
	bj_arena_init(&arena, 0);

	struct bj_str once = bjp_path_clean(&arena, BJ_STR_LIT("/exec/w"), raw);
	bj_assert(once.ptr && is_clean(once));
	bj_assert(bj_str_eq(once, bjp_path_clean(&arena, BJ_STR_LIT("/"), once)));
	bj_assert(bjp_path_is_below(once, once) && bjp_path_is_below(once, BJ_STR_LIT("/")));
	if (bjp_output_path_check(raw, "output_paths[0]", &err) == 0)
		bj_assert(bjp_path_is_below(once, BJ_STR_LIT("/exec/w")));
	return 0;
}
