// SPDX-License-Identifier: Apache-2.0
/* The policy's verdicts as a belljar.v1.SandboxReport, and as text for people. */
#include "executor/action/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "executor/base/buf.h"
#include "executor/base/clock.h"

enum { PATH_MAX_SHOWN_BYTES = 4096, TEXT_MAX_BYTES = 1 << 20 };

/* Our strings go into protobuf fields that must be UTF-8; an action's bytes may be anything. */
static char *shown(struct bj_arena *arena, struct bj_str s)
{
	char *copy = bj_str_dup(arena, bj_str_printable(arena, s, PATH_MAX_SHOWN_BYTES));

	return copy ? copy : (char *)(uintptr_t) "";
}

static char *kept(struct bj_arena *arena, struct bj_str s)
{
	char *copy = bj_str_dup(arena, s);

	return copy ? copy : (char *)(uintptr_t) "";
}

static Google__Protobuf__Timestamp *time_pb(struct bj_arena *arena, uint64_t ns)
{
	Google__Protobuf__Timestamp *t =
		ns ? BJ_ARENA_NEW(arena, Google__Protobuf__Timestamp) : NULL;

	if (!t)
		return NULL;
	google__protobuf__timestamp__init(t);
	t->seconds = (int64_t)(ns / BJ_NS_PER_SEC);
	t->nanos = (int32_t)(ns % BJ_NS_PER_SEC);
	return t;
}

static Google__Protobuf__Duration *duration_pb(struct bj_arena *arena, uint64_t ns)
{
	Google__Protobuf__Duration *d = BJ_ARENA_NEW(arena, Google__Protobuf__Duration);

	if (!d)
		return NULL;
	google__protobuf__duration__init(d);
	d->seconds = (int64_t)(ns / BJ_NS_PER_SEC);
	d->nanos = (int32_t)(ns % BJ_NS_PER_SEC);
	return d;
}

static const char *errno_name(int error)
{
	const char *name = error > 0 ? strerrorname_np(error) : NULL;

	return name ? name : "";
}

/* ---- violations ---- */

static void fill_where(Belljar__V1__Violation *v, const struct bjp_record *r,
		       struct bj_arena *arena)
{
	struct bj_str written = r->written.len ? r->written : r->path;
	struct bj_str safe = bj_str_printable(arena, written, PATH_MAX_SHOWN_BYTES);

	v->path = kept(arena, safe);
	if (!bj_str_eq(safe, written))
		v->raw_path =
			(ProtobufCBinaryData){ written.len, (uint8_t *)(uintptr_t)written.ptr };
	v->resolved = shown(arena, r->resolved.len ? r->resolved : r->path);
	v->zone = (Belljar__V1__Violation__Zone)r->zone;
	v->on_host = r->on_host;
	v->in_workspace = r->in_workspace;
	v->in_other_tree = r->in_other_tree;
	v->nearest_declared = shown(arena, r->nearest);
	v->address = shown(arena, r->address);
	v->port = r->port;
}

static void fill_who(Belljar__V1__Violation *v, const struct bjp_record *r, struct bj_arena *arena)
{
	v->pid = r->pid;
	v->comm = shown(arena, r->comm);
	v->exe = shown(arena, r->exe);
	v->argv0 = shown(arena, r->argv0);
	v->count = r->count;
	v->first_seen = time_pb(arena, r->first_ns);
}

static Belljar__V1__Violation *violation_new(const struct bjp_record *r, struct bj_arena *arena)
{
	Belljar__V1__Violation *v = BJ_ARENA_NEW(arena, Belljar__V1__Violation);

	if (!v)
		return NULL;
	belljar__v1__violation__init(v);
	v->kind = (Belljar__V1__Violation__Kind)r->kind;
	v->operation = kept(arena, bj_str_of(r->operation));
	fill_where(v, r, arena);
	fill_who(v, r, arena);
	v->errno_value = r->error > 0 ? r->error : 0;
	v->errno_name = (char *)(uintptr_t)errno_name(r->error);
	v->enforced = r->enforced;
	v->ignore_list = kept(arena, bj_str_of(r->ignore_list));
	v->hint = shown(arena, r->hint);
	v->size_bytes = r->size_bytes;
	v->wanted = shown(arena, r->wanted);
	if (r->kind == BJP_MISSING_OUTPUT && !r->wanted.len &&
	    bj_str_has_prefix(r->path, BJ_STR_LIT(BJ_JAIL_ROOT "/")))
		v->wanted = shown(arena, bj_str_sub(r->path, sizeof(BJ_JAIL_ROOT), r->path.len));
	v->found = shown(arena, r->found);
	return v;
}

static bool fill_violations(Belljar__V1__SandboxReport *report, const struct bjp_report *judged,
			    struct bj_arena *arena)
{
	report->violations = BJ_ARENA_ARRAY(arena, Belljar__V1__Violation *, judged->n_records);
	if (!report->violations)
		return false;
	size_t bytes = 0;

	for (size_t i = 0; i < judged->n_records; i++) {
		Belljar__V1__Violation *v = violation_new(&judged->records[i], arena);

		if (!v)
			return false;
		bytes += protobuf_c_message_get_packed_size(&v->base);
		if (bytes > BJ_REPORT_MAX_BYTES) {
			report->dropped += judged->n_records - i;
			return true;
		}
		report->violations[report->n_violations++] = v;
	}
	return true;
}

/* ---- the rest ---- */

static bool fill_hints(Belljar__V1__SandboxReport *report, const struct bjp_report *judged,
		       struct bj_arena *arena)
{
	report->hints = BJ_ARENA_ARRAY(arena, Belljar__V1__Hint *, judged->n_hints);
	if (!report->hints)
		return false;
	for (size_t i = 0; i < judged->n_hints; i++) {
		Belljar__V1__Hint *hint = BJ_ARENA_NEW(arena, Belljar__V1__Hint);

		if (!hint)
			return false;
		belljar__v1__hint__init(hint);
		hint->text = shown(arena, judged->hints[i]);
		report->hints[report->n_hints++] = hint;
	}
	return true;
}

static bool fill_counters(Belljar__V1__SandboxReport *report, const struct bjp_counters *c,
			  struct bj_arena *arena)
{
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{ "absent", c->absent },
		{ "ignored", c->ignored },
		{ "noise", c->noise },
		{ "quiet_writes", c->quiet_writes },
	};

	report->counters = BJ_ARENA_ARRAY(arena, Belljar__V1__SandboxReport__CountersEntry *,
					  BJ_ARRAY_LEN(counters));
	if (!report->counters)
		return false;
	for (size_t i = 0; i < BJ_ARRAY_LEN(counters); i++) {
		Belljar__V1__SandboxReport__CountersEntry *entry =
			BJ_ARENA_NEW(arena, Belljar__V1__SandboxReport__CountersEntry);

		if (!entry)
			return false;
		belljar__v1__sandbox_report__counters_entry__init(entry);
		entry->key = (char *)(uintptr_t)counters[i].name;
		entry->value = counters[i].value;
		report->counters[report->n_counters++] = entry;
	}
	return true;
}

static bool fill_usage(Belljar__V1__SandboxReport *report, const struct bj_report_facts *facts,
		       struct bj_arena *arena)
{
	Belljar__V1__Usage *usage = BJ_ARENA_NEW(arena, Belljar__V1__Usage);

	if (!usage)
		return false;
	belljar__v1__usage__init(usage);
	usage->inputs = facts->n_inputs;
	if (facts->result) {
		usage->wall = duration_pb(arena, facts->result->wall_ns);
		usage->user = duration_pb(arena, facts->result->user_ns);
		usage->system = duration_pb(arena, facts->result->system_ns);
		usage->max_rss_bytes = facts->result->max_rss_bytes;
		usage->notifications = facts->result->observer.n_notifications;
	}
	report->usage = usage;
	return true;
}

static void fill_facts(Belljar__V1__SandboxReport *report, const struct bj_report_facts *facts,
		       struct bj_arena *arena)
{
	char action[BJ_DIGEST_STR_BYTES];

	bj_digest_str(&facts->request->action, action);
	report->version = (char *)(uintptr_t)BJ_VERSION;
	report->profile = (char *)(uintptr_t)bj_jail_profile_name(facts->profile);
	report->network = (char *)(uintptr_t) "none";
	report->observer = (char *)(uintptr_t)bjp_observe_name(facts->settings->observe);
	report->observation_complete = facts->result && facts->result->observer.complete;
	report->write_mode = (char *)(uintptr_t)bjp_write_mode_name(facts->settings->write);
	report->on_violation =
		(char *)(uintptr_t)bjp_on_violation_name(facts->settings->on_violation);
	report->policy_digest = kept(arena, facts->policy_digest);
	report->toolchain_fingerprint = kept(arena, facts->fingerprint);
	report->closed = facts->closed;
	report->action_digest = kept(arena, bj_str_of(action));
	report->target = shown(arena, facts->request->client.target);
	report->mnemonic = shown(arena, facts->request->client.mnemonic);
	report->invocation = shown(arena, facts->request->client.invocation);
}

Belljar__V1__SandboxReport *bj_report_new(const struct bj_report_facts *facts,
					  const struct bjp_report *judged, struct bj_arena *arena)
{
	Belljar__V1__SandboxReport *report = BJ_ARENA_NEW(arena, Belljar__V1__SandboxReport);

	if (!report)
		return NULL;
	belljar__v1__sandbox_report__init(report);
	fill_facts(report, facts, arena);
	report->dropped =
		judged->counters.dropped + (facts->result ? facts->result->observer.n_dropped : 0);
	if (!fill_violations(report, judged, arena) || !fill_hints(report, judged, arena) ||
	    !fill_counters(report, &judged->counters, arena) || !fill_usage(report, facts, arena))
		return NULL;
	return report;
}

/* ---- text ---- */

static void text_evidence(struct bj_buf *buf, const Belljar__V1__Violation *v)
{
	if (v->in_workspace)
		(void)bj_buf_append_cstr(buf, "  evidence:  your workspace has it\n");
	if (v->on_host)
		(void)bj_buf_append_cstr(buf, "  evidence:  the host has it\n");
	if (v->nearest_declared[0])
		(void)bj_buf_printf(buf, "  nearest:   %s\n", v->nearest_declared);
	if (v->size_bytes)
		(void)bj_buf_printf(buf, "  size:      %llu bytes\n",
				    (unsigned long long)v->size_bytes);
	if (v->address[0])
		(void)bj_buf_printf(buf, "  address:   %s port %u\n", v->address, v->port);
}

static void text_violation(struct bj_buf *buf, const Belljar__V1__Violation *v)
{
	(void)bj_buf_printf(buf, "%s  %s\n", bjp_kind_name((enum bjp_kind)v->kind),
			    v->resolved[0] ? v->resolved : v->path);
	if (v->operation[0])
		(void)bj_buf_printf(buf, "  operation: %s of \"%s\"%s%s, %llu times, %s\n",
				    v->operation, v->path, v->errno_name[0] ? ", " : "",
				    v->errno_name, (unsigned long long)v->count,
				    v->enforced ? "refused" : "seen");
	if (v->comm[0])
		(void)bj_buf_printf(buf, "  process:   %s (pid %lld) %s\n", v->comm,
				    (long long)v->pid, v->argv0);
	text_evidence(buf, v);
	if (v->hint[0])
		(void)bj_buf_printf(buf, "  fix:       %s\n", v->hint);
	if (v->ignore_list[0])
		(void)bj_buf_printf(buf, "  silence:   sandbox.%s\n", v->ignore_list);
}

struct bj_str bj_report_text(const Belljar__V1__SandboxReport *report, struct bj_arena *arena)
{
	struct bj_buf buf = BJ_BUF_INIT(TEXT_MAX_BYTES);

	(void)bj_buf_printf(
		&buf, "action %s%s%s%s%s\nprofile %s, observer %s (%s), writes %s\n\n",
		report->action_digest, report->target[0] ? " of " : "", report->target,
		report->mnemonic[0] ? " " : "", report->mnemonic, report->profile, report->observer,
		report->observation_complete ? "complete" : "incomplete", report->write_mode);
	for (size_t i = 0; i < report->n_violations; i++)
		text_violation(&buf, report->violations[i]);
	for (size_t i = 0; i < report->n_hints; i++)
		(void)bj_buf_printf(&buf, "hint: %s\n", report->hints[i]->text);
	if (report->dropped)
		(void)bj_buf_printf(&buf, "%llu more attempts were seen but not recorded\n",
				    (unsigned long long)report->dropped);
	struct bj_str text = bj_arena_str(
		arena, bj_buf_str(&buf)); /* cut at the limit: the report itself has all */

	bj_buf_deinit(&buf);
	return text;
}
