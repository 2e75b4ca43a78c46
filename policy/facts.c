// SPDX-License-Identifier: Apache-2.0
/*
 * What the executor knows when the action has ended: files that were made and not declared, outputs that were not made,
 * processes that were left, limits that were met. They share the attempts' table, so that they are bounded and joined
 * like them.
 */
#include "policy/collect-internal.h"

static struct bj_str absolute(struct bjp_collector *collector, struct bj_str path)
{
	if (path.len > 0 && path.ptr[0] == '/')
		return path;
	return bjp_path_clean(&collector->arena, collector->policy->exec_root, path);
}

/* A fact of @kind about @path; NULL when there is no room. */
static struct bjp_candidate *fact(struct bjp_collector *collector, enum bjp_kind kind,
				  struct bj_str path, const char *operation)
{
	bool is_new;
	if (!path.ptr) {
		collector->counters.dropped++;
		return NULL;
	}
	struct bjp_candidate *c = bjp_candidate_at(collector, kind, path, &is_new);
	if (!c)
		return NULL;
	c->operation = operation;
	c->is_certain = true;
	c->zone = bjp_has_path(kind) ? bjp_zone(collector->policy, c->path) : BJP_ZONE_SYSTEM;
	c->count++;
	return c;
}

void bjp_collect_undeclared_output(struct bjp_collector *collector, struct bj_str path,
				   uint64_t size_bytes)
{
	struct bj_str whole = absolute(collector, path);
	if (whole.ptr && bjp_classify(collector->policy, whole) != BJP_UNDECLARED)
		return;
	if (whole.ptr && bjp_noise_find(whole, BJP_NOISE_WRITE)) {
		collector->counters.noise++;
		return;
	}
	struct bjp_candidate *c = fact(collector, BJP_UNDECLARED_OUTPUT, whole, "create");
	if (c)
		c->size_bytes = BJ_MAX(c->size_bytes, size_bytes);
}

void bjp_collect_missing_output(struct bjp_collector *collector, struct bj_str path)
{
	struct bjp_candidate *c =
		fact(collector, BJP_MISSING_OUTPUT, absolute(collector, path), "create");
	if (c)
		c->is_certain =
			c->found.len > 0; /* else: if the command failed, or a near miss is found */
}

void bjp_collect_output_kind(struct bjp_collector *collector, struct bj_str path,
			     const char *wanted, const char *found)
{
	struct bjp_candidate *c =
		fact(collector, BJP_MISSING_OUTPUT, absolute(collector, path), "create");
	if (!c)
		return;
	c->wanted = bj_str_of(wanted);
	c->found = bj_str_of(found);
}

void bjp_collect_stray(struct bjp_collector *collector, int64_t pid, struct bj_str comm,
		       struct bj_str argv0)
{
	struct bjp_candidate *c =
		fact(collector, BJP_STRAY_PROCESS, argv0.len ? argv0 : comm, "exit");
	if (!c)
		return;
	if (c->count > 1 && c->pid <= pid)
		return;
	c->pid = pid;
	bjp_keep(collector, &c->comm, comm);
	bjp_keep(collector, &c->argv0, argv0);
}

void bjp_collect_resource(struct bjp_collector *collector, const char *what, struct bj_str detail)
{
	struct bjp_candidate *c = fact(collector, BJP_RESOURCE, bj_str_of(what), what);
	if (c && (!c->detail.len || bj_str_cmp(detail, c->detail) < 0))
		bjp_keep(collector, &c->detail, detail);
}

void bjp_collect_explainer(struct bjp_collector *collector, struct bj_str text)
{
	if (text.len == 0 || collector->n_explainers == BJP_MAX_EXPLAINERS)
		return;
	for (size_t i = 0; i < collector->n_explainers; i++) {
		if (bj_str_eq(collector->explainers[i], text))
			return;
	}
	struct bj_str kept = bj_arena_str(&collector->arena, text);
	if (kept.ptr)
		collector->explainers[collector->n_explainers++] = kept;
}
