// SPDX-License-Identifier: Apache-2.0
/*
 * "Did you mean": a scan over the inputs, since it runs once for each record, not for each attempt. The order of merit
 * is total, so that the answer does not depend on the order of the inputs.
 */
#include "policy/policy-internal.h"

struct merit {
	bool same_name; /* else: same directory */
	size_t head;	/* bytes or components shared at the front */
	size_t tail;	/* the same at the back */
};

static size_t common_head(struct bj_str a, struct bj_str b)
{
	size_t n = 0;
	while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
		n++;
	return n;
}

static size_t common_tail(struct bj_str a, struct bj_str b)
{
	size_t n = 0;
	while (n < a.len && n < b.len && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n])
		n++;
	return n;
}

struct wanted {
	struct bj_str path, dir, name;
};

/* Is the last component of @path @name, letter case aside? */
static bool has_name(struct bj_str path, struct bj_str name)
{
	if (path.len < name.len ||
	    (path.len > name.len && path.ptr[path.len - name.len - 1] != '/'))
		return false;
	return bjp_str_case_eq(bj_str_sub(path, path.len - name.len, path.len), name);
}

/* Does @path stand right in @dir? */
static bool stands_in(struct bj_str path, struct bj_str dir)
{
	size_t at = dir.len ? dir.len + 1 : 0;
	return bjp_path_is_below(path, dir) && path.len > at &&
	       bj_str_find(path, '/', at) == path.len;
}

/* Is @candidate near @wanted at all, and how near? */
static bool merit_of(const struct wanted *wanted, struct bj_str candidate, struct merit *out)
{
	if (has_name(candidate, wanted->name)) {
		*out = (struct merit){ true, common_head(wanted->path, candidate),
				       common_tail(wanted->path, candidate) };
		return true;
	}
	if (!stands_in(candidate, wanted->dir))
		return false;
	struct bj_str other = bjp_basename(candidate);
	*out = (struct merit){ false, common_head(wanted->name, other),
			       common_tail(wanted->name, other) };
	return out->head + out->tail > 0;
}

static bool is_better(const struct merit *a, struct bj_str a_path, const struct merit *b,
		      struct bj_str b_path)
{
	if (a->same_name != b->same_name)
		return a->same_name;
	if (a->head + a->tail != b->head + b->tail)
		return a->head + a->tail > b->head + b->tail;
	return bj_str_cmp(a_path, b_path) < 0;
}

struct bj_str bjp_nearest(const struct bjp_policy *policy, struct bj_str path)
{
	struct wanted wanted;
	struct bj_str best = BJ_STR_NULL;
	struct merit best_merit = { 0 };
	if (!bjp_relative(policy, path, &wanted.path))
		wanted.path = bj_str_sub(path, 1, path.len);
	wanted.dir = bjp_dirname(wanted.path);
	wanted.name = bjp_basename(wanted.path);
	for (size_t i = 0; i < policy->index.n_entries; i++) {
		const struct bjp_entry *entry = &policy->index.entries[i];
		struct merit merit;
		if (!(entry->flags & BJP_F_INPUT) || entry->kind == BJP_NODE_DIR ||
		    !merit_of(&wanted, entry->path, &merit) || bj_str_eq(entry->path, wanted.path))
			continue;
		if (!best.ptr || is_better(&merit, entry->path, &best_merit, best)) {
			best = entry->path;
			best_merit = merit;
		}
	}
	return best;
}
