// SPDX-License-Identifier: Apache-2.0
#include "policy/policy-internal.h"

static const char *const write_modes[] = {
	[BJP_WRITE_SCRATCH] = "scratch",
	[BJP_WRITE_STRICT] = "strict",
};
static const char *const observe_levels[] = {
	[BJP_OBSERVE_OFF] = "off",
	[BJP_OBSERVE_WRITES] = "writes",
	[BJP_OBSERVE_DEFAULT] = "default",
	[BJP_OBSERVE_STRICT] = "strict",
};
static const char *const on_violation_modes[] = {
	[BJP_ON_VIOLATION_REPORT] = "report",
	[BJP_ON_VIOLATION_FAIL] = "fail",
	[BJP_ON_VIOLATION_OFF] = "off",
};

const char *bjp_write_mode_name(enum bjp_write_mode mode)
{
	bj_assert((size_t)mode < BJ_ARRAY_LEN(write_modes));
	return write_modes[mode];
}

const char *bjp_observe_name(enum bjp_observe level)
{
	bj_assert((size_t)level < BJ_ARRAY_LEN(observe_levels));
	return observe_levels[level];
}

const char *bjp_on_violation_name(enum bjp_on_violation mode)
{
	bj_assert((size_t)mode < BJ_ARRAY_LEN(on_violation_modes));
	return on_violation_modes[mode];
}

static bool parse_name(struct bj_str name, const char *const *names, size_t n, size_t *out_index)
{
	for (size_t i = 0; i < n; i++) {
		if (bj_str_eq(name, bj_str_of(names[i]))) {
			*out_index = i;
			return true;
		}
	}
	return false;
}

bool bjp_write_mode_parse(struct bj_str name, enum bjp_write_mode *out_mode)
{
	size_t index;
	if (!parse_name(name, write_modes, BJ_ARRAY_LEN(write_modes), &index))
		return false;
	*out_mode = (enum bjp_write_mode)index;
	return true;
}

bool bjp_observe_parse(struct bj_str name, enum bjp_observe *out_level)
{
	size_t index;
	if (!parse_name(name, observe_levels, BJ_ARRAY_LEN(observe_levels), &index))
		return false;
	*out_level = (enum bjp_observe)index;
	return true;
}

bool bjp_on_violation_parse(struct bj_str name, enum bjp_on_violation *out_mode)
{
	size_t index;
	if (!parse_name(name, on_violation_modes, BJ_ARRAY_LEN(on_violation_modes), &index))
		return false;
	*out_mode = (enum bjp_on_violation)index;
	return true;
}

struct bjp_settings bjp_settings_default(void)
{
	return (struct bjp_settings){
		.write = BJP_WRITE_SCRATCH,
		.observe = BJP_OBSERVE_DEFAULT,
		.on_violation = BJP_ON_VIOLATION_REPORT,
	};
}
