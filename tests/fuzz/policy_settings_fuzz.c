// SPDX-License-Identifier: Apache-2.0
/*
 * Input: lines "name=value", the platform properties of one action; the first byte chooses the operator's bounds.
 * A refusal changes nothing; what is accepted is within the bounds and every pattern in it is well-formed.
 */
#include <stdint.h>

#include "policy/policy.h"

enum { MAX_PROPS = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct bjp_settings *s, const struct bjp_bounds *bounds)
{
	struct bj_err err = BJ_ERR_NULL;
	bj_assert(s->observe >= bounds->min_observe || s->observe == BJP_OBSERVE_DEFAULT);
	bj_assert(bounds->may_ignore || s->n_ignore_read + s->n_ignore_write == 0);
	for (size_t i = 0; i < s->n_ignore_read; i++)
		bj_assert(bjp_glob_check(s->ignore_read[i], &err) == 0);
	for (size_t i = 0; i < s->n_ignore_write; i++)
		bj_assert(bjp_glob_check(s->ignore_write[i], &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena = BJ_ARENA_NULL;
	struct bjp_property props[MAX_PROPS];
	size_t n_props = 0;
	if (size == 0)
		return 0;
	struct bjp_bounds bounds = { .min_observe = (enum bjp_observe)(data[0] & 3),
				     .may_ignore = (data[0] & 4) != 0,
				     .min_on_violation =
					     (enum bjp_on_violation)((data[0] >> 3) % 3) };
	struct bj_str rest = bj_str_n(data + 1, size - 1);
	while (rest.len > 0 && n_props < MAX_PROPS) {
		struct bj_str value = bj_str_cut(&rest, '\n');
		props[n_props].name = bj_str_cut(&value, '=');
		props[n_props++].value = value;
	}

	struct bjp_settings settings = bjp_settings_default();
	struct bj_err err = BJ_ERR_NULL;
	bj_arena_init(&arena, 0);
	int r = bjp_settings_apply(&settings, &bounds, props, n_props, &arena, &err);
	bj_assert((r < 0) == bj_err_is_set(&err));
	if (r < 0) {
		bj_assert(settings.write == BJP_WRITE_SCRATCH && settings.n_ignore_read == 0);
		bj_assert(settings.n_ignore_write == 0 && settings.n_ignore_network == 0);
	}
	check(&settings, &bounds);
	return 0;
}
