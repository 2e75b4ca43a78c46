// SPDX-License-Identifier: Apache-2.0
/*
 *	                    declared input       undeclared, input root        outside
 *	open to write       write_to_input       scratch: at the end           write_undeclared
 *	create, rename to   write_to_input       strict and refused:           write_undeclared
 *	remove, rename from write_to_input         write_undeclared            only what the host has
 *	times, owner, mode  files: write_to_input                              only what the host has
 *
 * "Only what the host has": removing or touching what is nowhere fails in every sandbox and in none, so it says nothing.
 * Times alone are never a violation: they are no part of a result.
 */
#include "policy/record-internal.h"

#include <errno.h>

static bool op_is(const struct bjp_attempt *attempt, const char *prefix)
{
	return attempt->operation && strncmp(attempt->operation, prefix, strlen(prefix)) == 0;
}

bool bjp_acts_on_link(const struct bjp_attempt *attempt)
{
	if (attempt->access == BJP_ACCESS_REMOVE)
		return true;
	return attempt->access == BJP_ACCESS_CREATE &&
	       (op_is(attempt, "rename") || op_is(attempt, "link") || op_is(attempt, "symlink") ||
		op_is(attempt, "mkdir") || op_is(attempt, "mknod"));
}

/* mkdir -p and its like: what was to be made is there already. */
static bool is_made_already(const struct bjp_attempt *attempt)
{
	return attempt->access == BJP_ACCESS_CREATE &&
	       (attempt->error == EEXIST || (attempt->is_dir && op_is(attempt, "mkdir")));
}

/* What fails for want of the object, and so did nothing. */
static bool is_without_object(const struct bjp_attempt *attempt)
{
	return attempt->access != BJP_ACCESS_CREATE &&
	       (attempt->error == ENOENT || attempt->error == ENOTDIR || attempt->error == ELOOP);
}

static enum bjp_write_verdict judge_input(const struct bjp_policy *policy,
					  const struct bjp_attempt *attempt, struct bj_str path)
{
	const struct bjp_entry *entry = bjp_entry_of(policy, path);
	if (is_without_object(
		    attempt)) /* removed before, by the action itself: that was recorded */
		return BJP_WRITE_QUIET;
	if (entry->kind != BJP_NODE_DIR)
		return BJP_WRITE_INPUT;
	/* Directories: their mode is the action's own; only taking one away is a change of the tree. */
	if (attempt->access != BJP_ACCESS_REMOVE)
		return BJP_WRITE_QUIET;
	return attempt->error == ENOTEMPTY || attempt->error == EEXIST ||
			       attempt->error == EISDIR || attempt->error == EBUSY
		       ? BJP_WRITE_QUIET
		       : BJP_WRITE_INPUT;
}

static enum bjp_write_verdict judge_below_root(const struct bjp_policy *policy,
					       const struct bjp_settings *settings,
					       const struct bjp_attempt *attempt,
					       struct bj_str path)
{
	enum bjp_class cls = bjp_classify(policy, path);
	if (cls == BJP_INPUT)
		return judge_input(policy, attempt, path);
	if (cls != BJP_UNDECLARED || settings->write != BJP_WRITE_STRICT)
		return BJP_WRITE_QUIET;
	bool is_refused =
		attempt->error == EROFS || attempt->error == EACCES || attempt->error == EPERM;
	return is_refused && !bjp_may_write(policy, path) ? BJP_WRITE_OUTSIDE : BJP_WRITE_QUIET;
}

enum bjp_write_verdict bjp_write_judge(const struct bjp_policy *policy,
				       const struct bjp_settings *settings,
				       const struct bjp_attempt *attempt, struct bj_str path)
{
	if (op_is(attempt, "utime") || op_is(attempt, "set times") || is_made_already(attempt))
		return BJP_WRITE_NOISE;
	if (bjp_path_is_below(path, policy->exec_root))
		return judge_below_root(policy, settings, attempt, path);
	if (bjp_may_write(policy, path))
		return BJP_WRITE_QUIET;
	return is_without_object(attempt) ? BJP_WRITE_IF_THERE : BJP_WRITE_OUTSIDE;
}
