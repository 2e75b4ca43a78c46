// SPDX-License-Identifier: Apache-2.0
#include "executor/cli/explain-internal.h"

#include <stdio.h>
#include <time.h>

#include "executor/base/json.h"

/* RFC 3339 in UTC, to the millisecond; null without a time. */
static void put_time(struct bj_json *json, const char *key, const Google__Protobuf__Timestamp *t)
{
	char day[32], text[48];
	struct tm tm;
	time_t seconds = t ? (time_t)t->seconds : 0;

	if (!t || !gmtime_r(&seconds, &tm) || !strftime(day, sizeof(day), "%FT%T", &tm)) {
		bj_json_field_cstr(json, key, NULL);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s.%03dZ", day, t->nanos / 1000000); /* fits */
	bj_json_field_cstr(json, key, text);
}

static void put_what(struct bj_json *json, const Belljar__V1__SandboxReport *report,
		     const Belljar__V1__Violation *v, struct bj_arena *arena)
{
	struct bj_sentence sentence = bj_explain_sentence(report, v, arena);

	bj_json_field_cstr(json, "kind", bj_explain_kind(v, arena));
	bj_json_field_str(json, "text", sentence.what);
	bj_json_field_str(json, "fix", sentence.fix);
	bj_json_field_cstr(json, "hint", v->hint);
	bj_json_field_cstr(json, "operation", v->operation);
	bj_json_field_cstr(json, "path", v->path);
	bj_json_field_cstr(json, "resolved", v->resolved);
	bj_json_field_cstr(json, "zone", bj_explain_zone(v));
	bj_json_field_cstr(json, "nearest_declared", v->nearest_declared);
	bj_json_field_bool(json, "on_host", v->on_host);
	bj_json_field_bool(json, "in_workspace", v->in_workspace);
	bj_json_field_bool(json, "in_other_tree", v->in_other_tree);
	bj_json_field_bool(json, "enforced", v->enforced);
	bj_json_field_cstr(json, "errno", v->errno_name);
	bj_json_field_u64(json, "count", v->count);
}

static void put_rest(struct bj_json *json, const Belljar__V1__Violation *v)
{
	put_time(json, "first_seen", v->first_seen);
	bj_json_field_i64(json, "pid", v->pid);
	bj_json_field_cstr(json, "comm", v->comm);
	bj_json_field_cstr(json, "exe", v->exe);
	bj_json_field_cstr(json, "argv0", v->argv0);
	bj_json_field_cstr(json, "address", v->address);
	bj_json_field_u64(json, "port", v->port);
	bj_json_field_u64(json, "size_bytes", v->size_bytes);
	bj_json_field_cstr(json, "wanted", v->wanted);
	bj_json_field_cstr(json, "found", v->found);
	bj_json_field_cstr(json, "ignore_list", v->ignore_list);
}

static void put_hints(struct bj_json *json, const Belljar__V1__SandboxReport *report)
{
	bj_json_key(json, "action_hints");
	bj_json_array_begin(json);
	for (size_t i = 0; i < report->n_hints; i++)
		bj_json_cstr(json, report->hints[i]->text);
	bj_json_array_end(json);
}

static void put_action(struct bj_json *json, const Belljar__V1__StoredReport *stored)
{
	const Belljar__V1__SandboxReport *report = stored->report;

	bj_json_field_cstr(json, "target", report->target);
	bj_json_field_cstr(json, "mnemonic", report->mnemonic);
	bj_json_field_cstr(json, "action", report->action_digest);
	bj_json_field_cstr(json, "invocation", report->invocation);
	bj_json_field_i64(json, "exit_code", stored->exit_code);
	bj_json_field_bool(json, "cached", stored->cached);
	put_time(json, "finished", stored->finished);
	bj_json_field_cstr(json, "status_message",
			   stored->status_message ? stored->status_message : "");
	bj_json_field_cstr(json, "profile", report->profile);
	bj_json_field_cstr(json, "observer", report->observer);
	bj_json_field_bool(json, "observation_complete", report->observation_complete);
	bj_json_field_u64(json, "dropped", report->dropped);
	put_hints(json, report);
}

bool bj_explain_json(const struct bj_explained *explained, struct bj_arena *arena,
		     struct bj_buf *out)
{
	struct bj_json json;

	bj_json_init(&json, out, 2);
	bj_json_array_begin(&json);
	for (size_t i = 0; i < explained->n; i++) {
		const Belljar__V1__SandboxReport *report = explained->reports[i]->report;
		for (size_t j = 0; j < report->n_violations; j++) {
			bj_json_object_begin(&json);
			put_what(&json, report, report->violations[j], arena);
			put_rest(&json, report->violations[j]);
			put_action(&json, explained->reports[i]);
			bj_json_object_end(&json);
		}
		if (report->n_violations)
			continue;
		bj_json_object_begin(&json);
		bj_json_field_cstr(&json, "kind", NULL);
		put_action(&json, explained->reports[i]);
		bj_json_object_end(&json);
	}
	bj_json_array_end(&json);
	return bj_json_finish(&json);
}
