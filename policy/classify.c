// SPDX-License-Identifier: Apache-2.0
/*
 * One hash look-up answers for every declared path; only what is not declared costs a look-up for each directory above
 * it, to see whether it lies below an output or below scratch.
 *
 * Precedence: output over input (a path that is both is the action's own copy), input over scratch, scratch over the
 * directories that hold outputs.
 */
#include "policy/policy-internal.h"

const char *bjp_zone_name(enum bjp_zone zone)
{
	static const char *const names[] = {
		[BJP_ZONE_INPUT_ROOT] = "input_root",
		[BJP_ZONE_TOOLCHAIN] = "toolchain",
		[BJP_ZONE_HOST] = "host",
		[BJP_ZONE_SYSTEM] = "system",
	};
	bj_assert((size_t)zone >= 1 && (size_t)zone < BJ_ARRAY_LEN(names));
	return names[zone];
}

bool bjp_relative(const struct bjp_policy *policy, struct bj_str path, struct bj_str *out_rel)
{
	if (!bjp_path_is_below(path, policy->exec_root))
		return false;
	size_t skip = BJ_MIN(policy->exec_root.len + 1, path.len);
	*out_rel = bj_str_n(path.ptr + skip, path.len - skip);
	return true;
}

const struct bjp_entry *bjp_entry_of(const struct bjp_policy *policy, struct bj_str path)
{
	struct bj_str rel;
	return bjp_relative(policy, path, &rel) ? bjp_index_get(&policy->index, rel) : NULL;
}

unsigned bjp_flags_above(const struct bjp_policy *policy, struct bj_str rel, unsigned wanted)
{
	unsigned found = 0;
	for (;;) {
		const struct bjp_entry *entry = bjp_index_get(&policy->index, rel);
		if (entry)
			found |= entry->flags & wanted;
		if (rel.len == 0 || found == wanted)
			return found;
		rel = bjp_dirname(rel);
	}
}

static enum bjp_class class_below_root(const struct bjp_policy *policy, struct bj_str rel)
{
	const struct bjp_entry *entry = bjp_index_get(&policy->index, rel);
	unsigned own = entry ? entry->flags : 0;
	if (own & BJP_F_INPUT && !policy->inputs_below_outputs)
		return own & BJP_F_OUTPUT ? BJP_OUTPUT : BJP_INPUT;

	unsigned above = bjp_flags_above(policy, rel, BJP_F_OUTPUT | BJP_F_SCRATCH);
	if (above & BJP_F_OUTPUT)
		return BJP_OUTPUT;
	if (own & BJP_F_INPUT)
		return BJP_INPUT;
	if (above & BJP_F_SCRATCH || own & BJP_F_ABOVE_SCRATCH)
		return BJP_ENV_SCRATCH;
	return own & BJP_F_ABOVE_OUTPUT ? BJP_OUTPUT_DIR : BJP_UNDECLARED;
}

/* The longest top that covers @path; a handful of them, so a scan beats anything clever. */
static const struct bjp_top *top_of(const struct bjp_policy *policy, struct bj_str path)
{
	const struct bjp_top *best = NULL;
	for (size_t i = 0; i < policy->n_tops; i++) {
		const struct bjp_top *top = &policy->tops[i];
		bool covers = top->exact ? bj_str_eq(path, top->path)
					 : bjp_path_is_below(path, top->path);
		if (covers && (!best || top->path.len >= best->path.len))
			best = top;
	}
	return best;
}

enum bjp_class bjp_classify(const struct bjp_policy *policy, struct bj_str path)
{
	struct bj_str rel;
	if (bjp_relative(policy, path, &rel))
		return class_below_root(policy, rel);
	const struct bjp_top *top = top_of(policy, path);
	if (!top)
		return BJP_UNDECLARED;
	return top->zone == BJP_ZONE_TOOLCHAIN ? BJP_TOOLCHAIN : BJP_SYSTEM;
}

enum bjp_zone bjp_zone(const struct bjp_policy *policy, struct bj_str path)
{
	if (bjp_path_is_below(path, policy->exec_root))
		return BJP_ZONE_INPUT_ROOT;
	const struct bjp_top *top = top_of(policy, path);
	return top ? top->zone : BJP_ZONE_HOST;
}

static bool may_write_below_root(const struct bjp_policy *policy, struct bj_str path,
				 struct bj_str rel)
{
	const struct bjp_entry *entry = bjp_index_get(&policy->index, rel);
	switch (bjp_classify(policy, path)) {
	case BJP_OUTPUT:
	case BJP_ENV_SCRATCH:
		return true;
	case BJP_INPUT: /* deny beats allow; only a directory is both declared and written into */
		if (entry->kind != BJP_NODE_DIR)
			return false;
		break;
	default:
		break;
	}
	return bjp_flags_above(policy, rel, BJP_F_HOLDS_OUTPUT) != 0;
}

bool bjp_may_write(const struct bjp_policy *policy, struct bj_str path)
{
	struct bj_str rel;
	if (bjp_relative(policy, path, &rel))
		return may_write_below_root(policy, path, rel);
	return bjp_classify(policy, path) == BJP_SYSTEM &&
	       (bjp_path_is_below(path, BJ_STR_LIT("/tmp")) ||
		bjp_path_is_below(path, BJ_STR_LIT("/dev/shm")));
}

void bjp_writable_dirs(const struct bjp_policy *policy, const struct bj_str **out_dirs,
		       size_t *out_n)
{
	*out_dirs = policy->writable;
	*out_n = policy->n_writable;
}

void bjp_output_parents(const struct bjp_policy *policy, const struct bj_str **out_dirs,
			size_t *out_n)
{
	*out_dirs = policy->output_parents;
	*out_n = policy->n_output_parents;
}
