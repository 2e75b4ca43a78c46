// SPDX-License-Identifier: Apache-2.0
#include "executor/cli/explain-internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "executor/jail/spec.h"
#include "policy/record.h"

enum { SHOWN_BYTES = 4096 };

/* ---- words ---- */

static bool is_known_kind(const Belljar__V1__Violation *v)
{
	return v->kind >= BELLJAR__V1__VIOLATION__KIND__READ_UNDECLARED &&
	       v->kind <= BELLJAR__V1__VIOLATION__KIND__MISSING_CANDIDATE;
}

const char *bj_explain_kind(const Belljar__V1__Violation *v, struct bj_arena *arena)
{
	if (is_known_kind(v))
		return bjp_kind_name((enum bjp_kind)v->kind);
	const char *name = bj_arena_printf(arena, "kind_%d", (int)v->kind);
	return name ? name : "";
}

static bool is_known_zone(const Belljar__V1__Violation *v)
{
	return v->zone >= BELLJAR__V1__VIOLATION__ZONE__ZONE_INPUT_ROOT &&
	       v->zone <= BELLJAR__V1__VIOLATION__ZONE__ZONE_SYSTEM;
}

const char *bj_explain_zone(const Belljar__V1__Violation *v)
{
	return is_known_zone(v) ? bjp_zone_name((enum bjp_zone)v->zone) : "";
}

static struct bjp_record record_of(const Belljar__V1__Violation *v)
{
	return (struct bjp_record){
		.kind = (enum bjp_kind)v->kind,
		.operation = v->operation,
		.path = bj_str_of(v->resolved[0] ? v->resolved : v->path),
		.written = bj_str_of(v->path),
		.zone = is_known_zone(v) ? (enum bjp_zone)v->zone : BJP_ZONE_HOST,
		.enforced = v->enforced,
		.error = v->errno_value,
		.comm = bj_str_of(v->comm),
		.argv0 = bj_str_of(v->argv0),
		.address = bj_str_of(v->address),
		.port = (uint16_t)v->port,
		.hint = bj_str_of(v->hint),
		.wanted = bj_str_of(v->wanted),
		.found = bj_str_of(v->found),
	};
}

/* Cuts what every line of the policy starts with: who speaks, and of which target. */
static struct bj_str without_head(struct bj_str line, struct bj_str target, struct bj_arena *arena)
{
	struct bj_str head = BJ_STR_LIT("belljar: ");
	if (bj_str_has_prefix(line, head))
		line = bj_str_sub(line, head.len, line.len);
	struct bj_str shown = bj_str_printable(arena, target, 120);
	if (target.len && bj_str_has_prefix(line, shown))
		line = bj_str_sub(line, shown.len + 1, line.len);
	return bj_str_has_suffix(line, BJ_STR_LIT("\n")) ? bj_str_sub(line, 0, line.len - 1) : line;
}

struct bj_sentence bj_explain_sentence(const Belljar__V1__SandboxReport *report,
				       const Belljar__V1__Violation *v, struct bj_arena *arena)
{
	static const char mark[] = ". Fix: ";
	if (!is_known_kind(v))
		return (struct bj_sentence){ .what = BJ_STR_LIT(
						     "did what this belljar has no words for"),
					     .fix = bj_str_of(v->hint) };
	struct bjp_record record = record_of(v);
	const struct bjp_report one = { .records = &record, .n_records = 1 };
	struct bj_str target = bj_str_of(report->target);
	struct bj_str line = without_head(
		bjp_summary_lines(&one, BJ_STR_LIT(BJ_JAIL_ROOT), target, BJ_STR_NULL, arena),
		target, arena);
	/* The console has no line for what a failed command did not make; whoever asks is told. */
	if (!line.len && v->wanted[0])
		line = bj_str_of(bj_arena_printf(arena, "did not make its output %s", v->wanted));
	const char *fix = line.len ? memmem(line.ptr, line.len, mark, strlen(mark)) : NULL;
	if (!fix)
		return (struct bj_sentence){ .what = line, .fix = bj_str_of(v->hint) };
	size_t at = (size_t)(fix - line.ptr);
	return (struct bj_sentence){ .what = bj_str_sub(line, 0, at),
				     .fix = bj_str_sub(line, at + strlen(mark), line.len) };
}

/* ---- writing ---- */

enum style { PLAIN, BOLD, RED, GREEN, DIM };

struct writer {
	struct bj_buf *out;
	struct bj_arena *arena;
	bool colour;
};

static void style(struct writer *w, enum style s)
{
	static const char *const codes[] = {
		[PLAIN] = "\033[0m",  [BOLD] = "\033[1m", [RED] = "\033[31m",
		[GREEN] = "\033[32m", [DIM] = "\033[2m",
	};
	if (w->colour)
		(void)bj_buf_append_cstr(w->out, codes[s]);
}

/* The server made most of it printable already, which must not be done twice: backslashes stay as they are. */
static void put(struct writer *w, struct bj_str text)
{
	while (text.len) {
		size_t at = bj_str_find(text, '\\', 0);
		(void)bj_buf_append_str(
			w->out, bj_str_printable(w->arena, bj_str_sub(text, 0, at), SHOWN_BYTES));
		if (at < text.len)
			(void)bj_buf_append_char(w->out, '\\');
		text = bj_str_sub(text, at + 1, text.len);
	}
}

static void put_cstr(struct writer *w, const char *text)
{
	put(w, bj_str_of(text));
}

static void put_styled(struct writer *w, enum style s, const char *text)
{
	style(w, s);
	put_cstr(w, text);
	style(w, PLAIN);
}

/* "      name:      " */
static void label(struct writer *w, const char *name)
{
	style(w, DIM);
	(void)bj_buf_printf(w->out, "      %-10s ", name);
	style(w, PLAIN);
}

static void field(struct writer *w, const char *name, const char *value)
{
	if (!value[0])
		return;
	label(w, name);
	put_cstr(w, value);
	(void)bj_buf_append_char(w->out, '\n');
}

/* ---- one violation ---- */

static void put_operation(struct writer *w, const Belljar__V1__Violation *v)
{
	bool is_fact = v->kind == BELLJAR__V1__VIOLATION__KIND__UNDECLARED_OUTPUT ||
		       v->kind == BELLJAR__V1__VIOLATION__KIND__MISSING_OUTPUT;
	if (is_fact || !v->operation[0])
		return; /* found when all was over: nobody was seen doing it */
	label(w, "attempt:");
	put_cstr(w, v->operation);
	if (v->path[0]) {
		(void)bj_buf_append_cstr(w->out, " of \"");
		put_cstr(w, v->path);
		(void)bj_buf_append_char(w->out, '"');
	}
	if (v->errno_name[0]) {
		(void)bj_buf_append_cstr(w->out, ", ");
		put_cstr(w, v->errno_name);
	}
	(void)bj_buf_printf(w->out, ", %s", v->enforced ? "refused" : "seen");
	if (v->count > 1)
		(void)bj_buf_printf(w->out, ", %" PRIu64 " times", v->count);
	(void)bj_buf_append_char(w->out, '\n');
}

static void put_evidence(struct writer *w, const Belljar__V1__Violation *v)
{
	if (v->in_workspace)
		field(w, "evidence:", "your workspace has it");
	if (v->on_host)
		field(w, "evidence:", "the host has it");
	if (v->in_other_tree)
		field(w, "also:", "another action of this instance declares it");
	field(w, "nearest:", v->nearest_declared);
	if (v->size_bytes) {
		label(w, "size:");
		(void)bj_buf_printf(w->out, "%" PRIu64 " bytes\n", v->size_bytes);
	}
}

static void put_who(struct writer *w, const Belljar__V1__Violation *v)
{
	if (!v->comm[0] && !v->argv0[0])
		return;
	label(w, "by:");
	put_cstr(w, v->comm[0] ? v->comm : v->argv0);
	const char *program = v->exe[0] ? v->exe : v->argv0;
	if (program[0] && strcmp(program, v->comm) != 0) {
		(void)bj_buf_append_cstr(w->out, " (");
		put_cstr(w, program);
		(void)bj_buf_append_char(w->out, ')');
	}
	(void)bj_buf_append_char(w->out, '\n');
}

static void put_fix(struct writer *w, struct bj_str fix)
{
	if (!fix.len)
		return;
	label(w, "fix:");
	style(w, GREEN);
	put(w, fix);
	style(w, PLAIN);
	(void)bj_buf_append_char(w->out, '\n');
}

static void put_violation(struct writer *w, const Belljar__V1__SandboxReport *report,
			  const Belljar__V1__Violation *v)
{
	struct bj_sentence sentence = bj_explain_sentence(report, v, w->arena);

	(void)bj_buf_append_cstr(w->out, "    ");
	put_styled(w, RED, bj_explain_kind(v, w->arena));
	(void)bj_buf_append_cstr(w->out, ": ");
	put(w, sentence.what);
	(void)bj_buf_append_char(w->out, '\n');
	put_operation(w, v);
	if (v->resolved[0] && strcmp(v->resolved, v->path) != 0)
		field(w, "path:", v->resolved);
	put_evidence(w, v);
	put_who(w, v);
	put_fix(w, sentence.fix);
	if (v->ignore_list[0]) {
		label(w, "silence:");
		(void)bj_buf_append_cstr(w->out, "sandbox.");
		put_cstr(w, v->ignore_list);
		(void)bj_buf_append_char(w->out, '\n');
	}
}

/* ---- one action ---- */

static void put_time(struct writer *w, const Google__Protobuf__Timestamp *t)
{
	char text[32];
	struct tm tm;
	time_t seconds = t ? (time_t)t->seconds : 0;

	if (t && localtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%F %T", &tm))
		(void)bj_buf_printf(w->out, ", %s", text);
}

/* Sixteen digits find it again. */
static void put_action_line(struct writer *w, const Belljar__V1__StoredReport *stored)
{
	const Belljar__V1__SandboxReport *r = stored->report;
	struct bj_str digest = bj_str_of(r->action_digest);

	(void)bj_buf_append_cstr(w->out, "  ");
	if (r->mnemonic[0]) {
		put_cstr(w, r->mnemonic);
		(void)bj_buf_append_char(w->out, ' ');
	}
	put(w, bj_str_sub(digest, 0, 16));
	(void)bj_buf_printf(w->out, ", exit %d", stored->exit_code);
	put_time(w, stored->finished);
	if (stored->cached)
		(void)bj_buf_append_cstr(w->out, ", from the cache");
	(void)bj_buf_append_char(w->out, '\n');
	/* Ours repeats the first record. */
	if (stored->status_message &&
	    !bj_str_has_prefix(bj_str_of(stored->status_message), BJ_STR_LIT("belljar: ")))
		field(w, "server:", stored->status_message);
}

static void put_action(struct writer *w, const Belljar__V1__StoredReport *stored)
{
	const Belljar__V1__SandboxReport *r = stored->report;

	put_action_line(w, stored);
	for (size_t i = 0; i < r->n_violations; i++)
		put_violation(w, r, r->violations[i]);
	if (r->n_violations == 0)
		(void)bj_buf_append_cstr(w->out, "    kept to what it declares\n");
	for (size_t i = 0; i < r->n_hints; i++)
		field(w, "hint:", r->hints[i]->text);
	if (r->dropped) {
		label(w, "dropped:");
		(void)bj_buf_printf(w->out,
				    "%" PRIu64 " more attempts were seen but not recorded\n",
				    r->dropped);
	}
	if (!r->observation_complete && strcmp(r->observer, "off") != 0)
		field(w, "note:", "the observation was not complete: there may be more");
}

static void put_target(struct writer *w, const Belljar__V1__SandboxReport *report)
{
	put_styled(w, BOLD, report->target[0] ? report->target : "(no target named)");
	(void)bj_buf_append_char(w->out, '\n');
}

bool bj_explain_text(const struct bj_explained *explained, bool colour, struct bj_arena *arena,
		     struct bj_buf *out)
{
	struct writer w = { .out = out, .arena = arena, .colour = colour };
	const char *target = NULL;

	for (size_t i = 0; i < explained->n; i++) {
		const Belljar__V1__SandboxReport *report = explained->reports[i]->report;
		if (!target || strcmp(target, report->target) != 0) {
			if (target)
				(void)bj_buf_append_char(out, '\n');
			put_target(&w, report);
		}
		target = report->target;
		put_action(&w, explained->reports[i]);
	}
	if (explained->n == 0)
		(void)bj_buf_append_cstr(
			out, "nothing to show: the server knows no such action with records\n");
	return !out->failed;
}
