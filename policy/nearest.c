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

/* Is @candidate near @wanted at all, and how near? */
static bool merit_of(struct bj_str wanted, struct bj_str candidate, struct merit *out)
{
	struct bj_str name = bjp_basename(wanted), other = bjp_basename(candidate);
	if (bjp_str_case_eq(name, other)) {
		*out = (struct merit){ true, common_head(wanted, candidate),
				       common_tail(wanted, candidate) };
		return true;
	}
	if (!bj_str_eq(bjp_dirname(wanted), bjp_dirname(candidate)))
		return false;
	*out = (struct merit){ false, common_head(name, other), common_tail(name, other) };
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
	struct bj_str wanted, best = BJ_STR_NULL;
	struct merit best_merit = { 0 };
	if (!bjp_relative(policy, path, &wanted))
		wanted = bj_str_sub(path, 1, path.len);
	for (size_t i = 0; i < policy->index.n_entries; i++) {
		const struct bjp_entry *entry = &policy->index.entries[i];
		struct merit merit;
		if (!(entry->flags & BJP_F_INPUT) || entry->kind == BJP_NODE_DIR ||
		    bj_str_eq(entry->path, wanted) || !merit_of(wanted, entry->path, &merit))
			continue;
		if (!best.ptr || is_better(&merit, entry->path, &best_merit, best)) {
			best = entry->path;
			best_merit = merit;
		}
	}
	return best;
}
