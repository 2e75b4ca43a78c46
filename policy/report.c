// SPDX-License-Identifier: Apache-2.0
/* Findings become records that own their strings in the report's arena. */
#include "policy/record-internal.h"

/* Copies @s, an empty view included; false without memory. */
static bool copy(struct bj_arena *arena, struct bj_str s, struct bj_str *out)
{
	*out = bj_arena_str(arena, s);
	return out->ptr != NULL;
}

static bool copy_strings(struct bj_arena *arena, const struct bjp_finding *f, struct bjp_record *r)
{
	const struct bjp_candidate *c = f->candidate;
	bool has_path = bjp_has_path(f->kind);
	struct bj_str path = has_path ? f->path : BJ_STR_NULL;
	struct bj_str resolved = c->resolved;
	if (has_path && resolved.len == 0 && !bj_str_eq(c->path, f->path))
		resolved = c->path; /* the spelling that was found is not where it leads */
	return copy(arena, path, &r->path) && copy(arena, resolved, &r->resolved) &&
	       copy(arena, c->written, &r->written) && copy(arena, c->comm, &r->comm) &&
	       copy(arena, c->exe, &r->exe) && copy(arena, c->argv0, &r->argv0) &&
	       copy(arena, c->address, &r->address);
}

/* A path as outputs are declared: from the working directory, when it lies there. */
static struct bj_str as_declared(const struct bjp_policy *policy, struct bj_str path)
{
	struct bj_str dir = policy->working_dir;
	bool is_below = bjp_path_is_below(path, dir) && path.len > dir.len;
	return is_below ? bj_str_sub(path, dir.len + 1, path.len) : path;
}

static bool copy_outputs(const struct bjp_trial *trial, const struct bjp_finding *f,
			 struct bjp_record *r)
{
	const struct bjp_candidate *c = f->candidate;
	struct bj_str wanted = c->wanted, found = c->found;
	if (f->kind != BJP_MISSING_OUTPUT)
		return true;
	r->wrong_kind = found.len > 0;
	if (!r->wrong_kind) {
		wanted = as_declared(trial->collector->policy, c->path);
		found = as_declared(trial->collector->policy, f->near_miss);
	}
	return copy(trial->arena, wanted, &r->wanted) && copy(trial->arena, found, &r->found);
}

static bool wants_nearest(enum bjp_kind kind)
{
	return kind == BJP_READ_UNDECLARED || kind == BJP_EXEC_UNDECLARED ||
	       kind == BJP_MISSING_CANDIDATE;
}

static bool fill_record(const struct bjp_trial *trial, const struct bjp_finding *f,
			struct bjp_record *r)
{
	const struct bjp_candidate *c = f->candidate;
	const struct bjp_policy *policy = trial->collector->policy;
	*r = (struct bjp_record){
		.kind = f->kind,
		.operation = c->operation,
		.zone = c->zone,
		.on_host = f->evidence.on_host,
		.on_anchor = f->evidence.on_anchor,
		.in_workspace = f->evidence.in_workspace,
		.in_other_tree = f->evidence.in_other_tree,
		.enforced = c->is_refused && !c->is_done,
		.error = c->error,
		.pid = c->pid,
		.count = f->count,
		.first_ns = c->first_ns,
		.port = c->port,
		.ignore_list = bjp_ignore_list(f->kind),
		.size_bytes = c->size_bytes,
	};
	if (!copy_strings(trial->arena, f, r) || !copy_outputs(trial, f, r))
		return false;
	if (wants_nearest(f->kind) && c->zone == BJP_ZONE_INPUT_ROOT)
		r->nearest = bj_arena_str(trial->arena, bjp_nearest(policy, f->path));
	struct bj_str hint = f->kind == BJP_RESOURCE ? c->detail : bjp_record_hint(r, trial->arena);
	return copy(trial->arena, hint, &r->hint);
}

/* These never make an action fail (design §3.3). */
static bool counts_for_failure(enum bjp_kind kind)
{
	return kind != BJP_MISSING_OUTPUT && kind != BJP_RESOURCE && kind != BJP_MISSING_CANDIDATE;
}

bool bjp_report_fill(struct bjp_trial *trial, struct bjp_report *report)
{
	report->records = BJ_ARENA_ARRAY(trial->arena, struct bjp_record, trial->n_findings);
	if (!report->records)
		return false;
	for (size_t i = 0; i < trial->n_findings; i++) {
		if (!fill_record(trial, &trial->findings[i], &report->records[i]))
			return false;
		report->has_unignored |= counts_for_failure(trial->findings[i].kind);
	}
	report->n_records = trial->n_findings;
	report->n_hints = trial->n_hints;
	report->hints = bj_arena_memdup(trial->arena, trial->hints,
					report->n_hints * sizeof(trial->hints[0]));
	report->counters = trial->counters;
	return report->hints != NULL;
}
