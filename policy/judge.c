// SPDX-License-Identifier: Apache-2.0
/*
 *	candidate ─┬ certain (writes, network, facts) ............. finding
 *	           ├ the host, an anchor or the workspace has it ─┬ found later through PATH: hint
 *	           │                                              └ finding
 *	           └ nowhere ..................................... absent; may be a missing_candidate
 *	finding ── ignored? counted : record
 *
 * Findings are sorted and cut before anything is copied, so that a hostile action costs no more than a busy one.
 */
#include <stdlib.h>

#include "executor/base/alloc.h"
#include "policy/record-internal.h"

const char *bjp_kind_name(enum bjp_kind kind)
{
	static const char *const names[] = {
		[BJP_READ_UNDECLARED] = "read_undeclared",
		[BJP_EXEC_UNDECLARED] = "exec_undeclared",
		[BJP_WRITE_UNDECLARED] = "write_undeclared",
		[BJP_WRITE_TO_INPUT] = "write_to_input",
		[BJP_UNDECLARED_OUTPUT] = "undeclared_output",
		[BJP_MISSING_OUTPUT] = "missing_output",
		[BJP_NETWORK] = "network",
		[BJP_UNIX_SOCKET] = "unix_socket",
		[BJP_SYSTEM_INFO] = "system_info",
		[BJP_SYSCALL] = "syscall",
		[BJP_STRAY_PROCESS] = "stray_process",
		[BJP_RESOURCE] = "resource",
		[BJP_MISSING_CANDIDATE] = "missing_candidate",
	};
	bj_assert((size_t)kind >= 1 && (size_t)kind < BJ_ARRAY_LEN(names));
	return names[kind];
}

bool bjp_has_path(enum bjp_kind kind)
{
	return kind != BJP_NETWORK && kind != BJP_SYSCALL && kind != BJP_STRAY_PROCESS &&
	       kind != BJP_RESOURCE && kind != BJP_SYSTEM_INFO;
}

struct bjp_evidence bjp_trial_ask(const struct bjp_trial *trial, struct bj_str path)
{
	if (!trial->evidence || path.len == 0)
		return (struct bjp_evidence){ 0 };
	return trial->evidence(trial->evidence_ctx, path);
}

bool bjp_evidence_holds(const struct bjp_evidence *e)
{
	return !e->is_dir && (e->on_host || e->on_anchor || e->in_workspace);
}

static void find(struct bjp_trial *trial, const struct bjp_candidate *c,
		 struct bjp_evidence evidence, struct bj_str path, struct bj_str near_miss)
{
	if (bjp_is_ignored(trial->collector->policy, trial->collector->settings, c)) {
		trial->counters.ignored += c->count;
		return;
	}
	trial->findings[trial->n_findings++] = (struct bjp_finding){
		.candidate = c,
		.kind = c->kind,
		.evidence = evidence,
		.path = path,
		.near_miss = near_miss,
		.count = c->count,
	};
}

/* ---- look-ups ---- */

/* Asks for where the path leads, then for how it was spelled. */
static struct bjp_evidence ask_both(const struct bjp_trial *trial, const struct bjp_candidate *c,
				    struct bj_str *out_path)
{
	struct bjp_evidence e = bjp_trial_ask(trial, c->path);
	*out_path = c->path;
	if (bjp_evidence_holds(&e) || c->lexical.len == 0 || e.is_dir)
		return e;
	struct bjp_evidence other = bjp_trial_ask(trial, c->lexical);
	if (!bjp_evidence_holds(&other))
		return e;
	*out_path = c->lexical;
	return other;
}

/* A search through PATH that ended well elsewhere: a program of this name was executed. */
static bool is_path_search(const struct bjp_trial *trial, const struct bjp_candidate *c)
{
	if (c->kind != BJP_EXEC_UNDECLARED && c->saw != BJP_SAW_STAT)
		return false;
	const struct bjp_found *found = bj_map_get(&trial->collector->found, bjp_basename(c->path));
	return found && found->by_exec;
}

/* Keeps the smallest ones, sorted, so that the bound does not make the order of attempts show. */
static void add_hint(struct bjp_trial *trial, const char *text)
{
	struct bj_str hint = bj_str_of(text);
	size_t at = trial->n_hints;
	while (at > 0 && bj_str_cmp(hint, trial->hints[at - 1]) < 0)
		at--;
	if (!text || at == BJP_MAX_HINTS || (at > 0 && bj_str_eq(hint, trial->hints[at - 1])))
		return;
	size_t n_kept = BJ_MIN(trial->n_hints, (size_t)BJP_MAX_HINTS - 1);
	memmove(&trial->hints[at + 1], &trial->hints[at], (n_kept - at) * sizeof(hint));
	trial->hints[at] = hint;
	trial->n_hints = n_kept + 1;
}

static void hint_path_search(struct bjp_trial *trial, struct bj_str path)
{
	struct bj_str shown = bj_str_printable(trial->arena, path, 200);
	struct bj_str name = bj_str_printable(trial->arena, bjp_basename(path), 100);
	add_hint(trial,
		 bj_arena_printf(trial->arena,
				 "your PATH resolves %.*s elsewhere: %.*s is not seen inside",
				 BJ_STR_FMT(name), BJ_STR_FMT(shown)));
}

/* A shell stats a program before it runs it: one record, that of the exec. */
static bool is_told_by_exec(const struct bjp_trial *trial, const struct bjp_candidate *c)
{
	if (c->saw != BJP_SAW_STAT)
		return false;
	const struct bjp_candidate *exec =
		bjp_candidate_get(trial->collector, BJP_EXEC_UNDECLARED, c->path);
	return exec && exec->count > 0;
}

static void judge_lookup(struct bjp_trial *trial, const struct bjp_candidate *c)
{
	struct bj_str path;
	struct bjp_evidence e = ask_both(trial, c, &path);
	if (!bjp_evidence_holds(&e)) {
		trial->counters.absent += c->count;
		if (!e.is_dir && c->saw & (BJP_SAW_READ | BJP_SAW_EXEC))
			trial->lost[trial->n_lost++] = c;
	} else if (is_path_search(trial, c)) {
		trial->counters.absent += c->count;
		hint_path_search(trial, path);
	} else if (!is_told_by_exec(trial, c)) {
		find(trial, c, e, path, BJ_STR_NULL);
	}
}

/* ---- outputs ---- */

static size_t stem_len(struct bj_str name)
{
	size_t dot = name.len;
	while (dot > 0 && name.ptr[dot - 1] != '.')
		dot--;
	return dot > 1 ? dot - 1 : name.len;
}

/* Was @made meant to be @wanted? The same name elsewhere, or beside it the same stem or another letter case. */
static bool is_near_miss(struct bj_str wanted, struct bj_str made)
{
	struct bj_str a = bjp_basename(wanted), b = bjp_basename(made);
	if (bj_str_eq(a, b))
		return true;
	if (!bj_str_eq(bjp_dirname(wanted), bjp_dirname(made)))
		return false;
	size_t n = stem_len(a);
	return bjp_str_case_eq(a, b) ||
	       (n == stem_len(b) && bj_str_eq(bj_str_sub(a, 0, n), bj_str_sub(b, 0, n)));
}

/* The made file that was most likely meant; the smallest path when there are several. */
static struct bj_str near_miss(const struct bjp_trial *trial, struct bj_str wanted)
{
	struct bj_str best = BJ_STR_NULL;
	for (const struct bjp_candidate *c = trial->collector->first; c; c = c->next) {
		if (c->kind == BJP_UNDECLARED_OUTPUT && is_near_miss(wanted, c->path) &&
		    (!best.ptr || bj_str_cmp(c->path, best) < 0))
			best = c->path;
	}
	return best;
}

static void judge_missing_output(struct bjp_trial *trial, const struct bjp_candidate *c)
{
	struct bj_str made = c->is_certain ? BJ_STR_NULL : near_miss(trial, c->path);
	if (!c->is_certain && !made.ptr && !trial->outcome->failed)
		return;
	find(trial, c, (struct bjp_evidence){ 0 }, c->path, made);
}

/* ---- the whole ---- */

static void judge_one(struct bjp_trial *trial, const struct bjp_candidate *c)
{
	if (c->count == 0) /* all of it was noise */
		return;
	if (c->kind == BJP_READ_UNDECLARED || c->kind == BJP_EXEC_UNDECLARED) {
		judge_lookup(trial, c);
	} else if (c->kind == BJP_MISSING_OUTPUT) {
		judge_missing_output(trial, c);
	} else if (c->is_certain) {
		find(trial, c, (struct bjp_evidence){ 0 }, c->path, BJ_STR_NULL);
	} else {
		struct bjp_evidence e = bjp_trial_ask(trial, c->path);
		if (bjp_evidence_holds(&e))
			find(trial, c, e, c->path, BJ_STR_NULL);
		else
			trial->counters.absent += c->count;
	}
}

static int by_order(const void *a, const void *b)
{
	const struct bjp_finding *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->candidate->zone != y->candidate->zone)
		return x->candidate->zone < y->candidate->zone ? -1 : 1;
	int order = bj_str_cmp(x->path, y->path);
	return order ? order : bj_str_cmp(x->candidate->path, y->candidate->path);
}

/* Two spellings may have led to one path: their findings become one. */
static void merge_equal(struct bjp_trial *trial)
{
	size_t kept = 0;
	for (size_t i = 0; i < trial->n_findings; i++) {
		struct bjp_finding *f = &trial->findings[i];
		struct bjp_finding *last = kept ? &trial->findings[kept - 1] : NULL;
		if (last && last->kind == f->kind && bj_str_eq(last->path, f->path))
			last->count += f->count;
		else
			trial->findings[kept++] = *f;
	}
	trial->n_findings = kept;
}

static void cut(struct bjp_trial *trial)
{
	while (trial->n_findings > BJP_MAX_RECORDS)
		trial->counters.dropped += trial->findings[--trial->n_findings].count;
}

/* Explainers speak when the action failed and there is nothing else to show; they never add a record (vx-92, vx-93). */
static void add_explainers(struct bjp_trial *trial)
{
	const struct bjp_collector *collector = trial->collector;
	if (!trial->outcome->failed || trial->n_findings > 0)
		return;
	for (size_t i = 0; i < collector->n_explainers; i++)
		add_hint(trial, bj_str_dup(trial->arena, collector->explainers[i]));
}

static void try_all(struct bjp_trial *trial)
{
	for (const struct bjp_candidate *c = trial->collector->first; c; c = c->next)
		judge_one(trial, c);
	if (trial->outcome->failed && !trial->outcome->has_workspace)
		bjp_missing_select(trial);
	if (trial->n_findings > 0)
		qsort(trial->findings, trial->n_findings, sizeof(trial->findings[0]), by_order);
	merge_equal(trial);
	cut(trial);
	add_explainers(trial);
}

int bjp_judge(struct bjp_collector *collector, const struct bjp_outcome *outcome,
	      bjp_evidence_fn evidence, void *evidence_ctx, struct bj_arena *arena,
	      struct bjp_report *out_report, struct bj_err *err)
{
	/* A look-up becomes a finding once: as itself, or as a missing candidate. */
	size_t n = collector->n_candidates + 1;
	bj_cleanup(bj_freep) struct bjp_finding *findings = BJ_NEW_ARRAY(struct bjp_finding, n);
	bj_cleanup(bj_freep) const struct bjp_candidate **lost =
		BJ_NEW_ARRAY(const struct bjp_candidate *, n);
	struct bjp_trial trial = { .collector = collector,
				   .outcome = outcome,
				   .evidence = evidence,
				   .evidence_ctx = evidence_ctx,
				   .arena = arena,
				   .findings = findings,
				   .lost = lost,
				   .counters = collector->counters };
	struct bjp_report report = { .network_success = collector->network_success };
	if (!findings || !lost)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "judge the attempts: out of memory");
	try_all(&trial);
	if (!bjp_report_fill(&trial, &report))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "write the report: out of memory");
	*out_report = report;
	return 0;
}
