// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/action/report.h"
#include "executor/base/alloc.h"
#include "executor/base/pb.h"

/* ---- one report ---- */

struct scene {
	struct bj_arena arena;
	struct bjp_settings settings;
	struct bj_run_request request;
	struct bj_jail_result result;
	struct bj_report_facts facts;
	struct bjp_record records[BJP_MAX_RECORDS];
	struct bj_str hints[2];
	struct bjp_report judged;
};

static struct scene *scene_new(void)
{
	struct scene *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	bj_arena_init(&s->arena, 0);
	s->settings = bjp_settings_default();
	s->request.action = bj_digest_empty(BJ_DIGEST_SHA256);
	s->request.client.target = BJ_STR_LIT("//t:c");
	s->request.client.mnemonic = BJ_STR_LIT("CppCompile");
	s->facts = (struct bj_report_facts){ .profile = BJ_PROFILE_USERNS,
					     .settings = &s->settings,
					     .result = &s->result,
					     .policy_digest = BJ_STR_LIT("p0"),
					     .fingerprint = BJ_STR_LIT("f0"),
					     .request = &s->request,
					     .closed = true,
					     .n_inputs = 7 };
	s->judged.records = s->records;
	s->judged.hints = s->hints;
	return s;
}

static void scene_free(struct scene *s)
{
	bj_arena_deinit(&s->arena);
	free(s);
}

static struct bjp_record *add_record(struct scene *s, enum bjp_kind kind, struct bj_str path)
{
	assert_true(s->judged.n_records < BJP_MAX_RECORDS);
	struct bjp_record *r = &s->records[s->judged.n_records++];
	*r = (struct bjp_record){ .kind = kind,
				  .operation = "open",
				  .path = path,
				  .written = path,
				  .zone = BJP_ZONE_INPUT_ROOT,
				  .count = 1 };
	return r;
}

/* Packed and unpacked again: protobuf-c packs any bytes, but no client takes a string that is not UTF-8. */
static const Belljar__V1__SandboxReport *round_trip(struct scene *s)
{
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;
	Belljar__V1__SandboxReport *report = bj_report_new(&s->facts, &s->judged, &s->arena);
	assert_non_null(report);
	if (bj_pb_unpack(bj_pb_pack(&s->arena, &report->base),
			 &belljar__v1__sandbox_report__descriptor, &s->arena, &message, &err) < 0)
		fail_msg("%s", err.msg);
	return (const Belljar__V1__SandboxReport *)message;
}

static void facts_reach_the_report(void **state)
{
	struct scene *s = scene_new();
	(void)state;
	s->result = (struct bj_jail_result){
		.wall_ns = 1500000001,
		.user_ns = 2000000000,
		.max_rss_bytes = 4096,
		.observer = { .complete = true, .n_notifications = 42, .n_dropped = 2 }
	};
	s->judged.counters = (struct bjp_counters){ .absent = 5, .dropped = 1 };
	s->hints[0] = BJ_STR_LIT("look\nhere");
	s->judged.n_hints = 1;
	const Belljar__V1__SandboxReport *r = round_trip(s);
	assert_string_equal(r->profile, "userns");
	assert_string_equal(r->observer, "default");
	assert_string_equal(r->write_mode, "scratch");
	assert_string_equal(r->on_violation, "report");
	assert_string_equal(r->target, "//t:c");
	assert_string_equal(r->mnemonic, "CppCompile");
	assert_string_equal(r->policy_digest, "p0");
	assert_string_equal(r->toolchain_fingerprint, "f0");
	assert_string_equal(r->action_digest,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/0");
	assert_true(r->closed && r->observation_complete);
	assert_int_equal(r->dropped, 3);
	assert_int_equal(r->n_violations, 0);
	assert_int_equal(r->n_hints, 1);
	assert_string_equal(r->hints[0]->text, "look\\nhere");
	assert_int_equal(r->usage->inputs, 7);
	assert_int_equal(r->usage->wall->seconds, 1);
	assert_int_equal(r->usage->wall->nanos, 500000001);
	assert_int_equal(r->usage->max_rss_bytes, 4096);
	assert_int_equal(r->usage->notifications, 42);
	scene_free(s);
}

static void without_a_run_nothing_was_observed(void **state)
{
	struct scene *s = scene_new();
	(void)state;
	s->facts.result = NULL;
	const Belljar__V1__SandboxReport *r = round_trip(s);
	assert_false(r->observation_complete);
	assert_null(r->usage->wall);
	scene_free(s);
}

static void a_record_in_full(void **state)
{
	struct scene *s = scene_new();
	(void)state;
	struct bjp_record *rec = add_record(s, BJP_READ_UNDECLARED, BJ_STR_LIT("/exec/t/secret.h"));
	rec->written = BJ_STR_LIT("t/secret.h");
	rec->resolved = BJ_STR_LIT("/exec/t/real.h");
	rec->in_workspace = true;
	rec->nearest = BJ_STR_LIT("t/public.h");
	rec->error = ENOENT;
	rec->enforced = true;
	rec->pid = 12;
	rec->comm = BJ_STR_LIT("cc1");
	rec->exe = BJ_STR_LIT("/usr/lib/cc1");
	rec->argv0 = BJ_STR_LIT("cc1");
	rec->count = 3;
	rec->first_ns = 1700000000000000005;
	rec->ignore_list = "ignore.read";
	rec->hint = BJ_STR_LIT("buildozer 'add hdrs secret.h' //t:c");
	const Belljar__V1__SandboxReport *r = round_trip(s);
	assert_int_equal(r->n_violations, 1);
	const Belljar__V1__Violation *v = r->violations[0];
	assert_int_equal(v->kind, BELLJAR__V1__VIOLATION__KIND__READ_UNDECLARED);
	assert_int_equal(v->zone, BELLJAR__V1__VIOLATION__ZONE__ZONE_INPUT_ROOT);
	assert_string_equal(v->operation, "open");
	assert_string_equal(v->path, "t/secret.h");
	assert_int_equal(v->raw_path.len, 0);
	assert_string_equal(v->resolved, "/exec/t/real.h");
	assert_true(v->in_workspace && v->enforced && !v->on_host);
	assert_string_equal(v->nearest_declared, "t/public.h");
	assert_int_equal(v->errno_value, ENOENT);
	assert_string_equal(v->errno_name, "ENOENT");
	assert_int_equal(v->pid, 12);
	assert_int_equal(v->count, 3);
	assert_int_equal(v->first_seen->seconds, 1700000000);
	assert_int_equal(v->first_seen->nanos, 5);
	assert_string_equal(v->ignore_list, "ignore.read");

	struct bj_str text = bj_report_text(r, &s->arena);
	static const char *const lines[] = {
		"of //t:c CppCompile\n",
		"profile userns, observer default (incomplete), writes scratch\n",
		"read_undeclared  /exec/t/real.h\n",
		"  operation: open of \"t/secret.h\", ENOENT, 3 times, refused\n",
		"  process:   cc1 (pid 12) cc1\n",
		"  evidence:  your workspace has it\n",
		"  nearest:   t/public.h\n",
		"  fix:       buildozer 'add hdrs secret.h' //t:c\n",
		"  silence:   sandbox.ignore.read\n",
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(lines); i++)
		if (!strstr(text.ptr, lines[i]))
			fail_msg("no \"%s\" in\n%s", lines[i], text.ptr);
	scene_free(s);
}

/* Paths are the attacker's: a terminal must not see them raw, and a client must be able to parse them. */
static void hostile_bytes(void **state)
{
	struct scene *s = scene_new();
	(void)state;
	struct bj_str evil = BJ_STR_LIT("/exec/\x1b[31m\xff\n\xe2\x80\xae");
	struct bjp_record *rec = add_record(s, BJP_WRITE_UNDECLARED, evil);
	rec->comm = evil;
	rec->argv0 = evil;
	rec->exe = evil;
	rec->hint = evil;
	s->request.client.target = BJ_STR_LIT("//t:\x1b");
	const Belljar__V1__SandboxReport *r = round_trip(s);
	const Belljar__V1__Violation *v = r->violations[0];
	assert_true(bj_str_is_utf8(bj_str_of(v->path)));
	assert_null(strchr(v->path, '\x1b'));
	assert_null(strchr(v->path, '\n'));
	assert_true(bj_str_eq(bj_str_n(v->raw_path.data, v->raw_path.len), evil));
	struct bj_str text = bj_report_text(r, &s->arena);
	assert_true(bj_str_is_utf8(text));
	assert_null(memchr(text.ptr, '\x1b', text.len));
	assert_null(strstr(text.ptr, "\xe2\x80\xae"));
	scene_free(s);
}

/* The report travels in a result that must fit a message. */
static void a_large_report_is_cut_and_says_so(void **state)
{
	static char long_path[5000];
	struct scene *s = scene_new();
	(void)state;
	memset(long_path, 'p', sizeof(long_path));
	for (int i = 0; i < BJP_MAX_RECORDS; i++) {
		struct bjp_record *rec =
			add_record(s, BJP_READ_UNDECLARED, bj_str_n(long_path, sizeof(long_path)));
		rec->resolved = rec->exe = rec->hint = rec->argv0 = rec->path;
	}
	s->judged.counters.dropped = 1;
	const Belljar__V1__SandboxReport *r = round_trip(s);
	assert_true(r->n_violations > 30);
	assert_int_equal(r->n_violations + r->dropped, BJP_MAX_RECORDS + 1);
	assert_true(protobuf_c_message_get_packed_size(&r->base) <
		    BJ_REPORT_MAX_BYTES + (16 << 10));
	struct bj_str text = bj_report_text(r, &s->arena);
	assert_true(text.len <= 1 << 20);
	scene_free(s);
}

/* With any amount of memory: a whole report or none. */
static void each_size_of_memory(void **state)
{
	struct scene *s = scene_new();
	Belljar__V1__SandboxReport *report = NULL;
	(void)state;
	add_record(s, BJP_NETWORK, BJ_STR_LIT("10.0.0.1:80"))->address = BJ_STR_LIT("10.0.0.1");
	s->hints[0] = BJ_STR_LIT("hint");
	s->judged.n_hints = 1;
	size_t cap = 64;
	for (; !report; cap += 64) {
		struct bj_arena arena;
		bj_arena_init(&arena, cap);
		report = bj_report_new(&s->facts, &s->judged, &arena);
		if (report) {
			assert_int_equal(report->n_violations, 1);
			assert_int_equal(report->n_hints, 1);
			assert_non_null(report->usage);
			(void)bj_report_text(report, &arena); /* cut or empty, but no crash */
		}
		bj_arena_deinit(&arena);
	}
	assert_true(cap > 512);
	scene_free(s);
}

/* ---- the ring ---- */

static struct bj_reports *reports_new(size_t max)
{
	struct bj_reports *reports;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_reports_new(max, &reports, &err), 0);
	return reports;
}

static void add(struct bj_reports *reports, const char *action, const char *target,
		const char *mnemonic, const char *invocation, bool has_violations)
{
	struct bj_stored_report r = { .packed = BJ_STR_LIT("packed"),
				      .action = bj_str_of(action),
				      .target = bj_str_of(target),
				      .mnemonic = bj_str_of(mnemonic),
				      .invocation = bj_str_of(invocation),
				      .has_violations = has_violations,
				      .exit_code = 3,
				      .finished_ns = 99,
				      .cached = true,
				      .message = BJ_STR_LIT("m") };
	bj_reports_add(reports, &r);
}

/* The actions found, in order, as one word. */
static void expect_found(struct bj_reports *reports, const struct bj_reports_query *query,
			 const char *want)
{
	struct bj_stored_report *list;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	char got[256] = "";
	size_t n;
	bj_arena_init(&arena, 0);
	assert_int_equal(bj_reports_find(reports, query, &arena, &list, &n, &err), 0);
	for (size_t i = 0; i < n; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%.*s ",
			       BJ_STR_FMT(list[i].action));
	assert_string_equal(got, want);
	bj_arena_deinit(&arena);
}

static void queries(void **state)
{
	struct bj_reports *reports = reports_new(100);
	(void)state;
	expect_found(reports, &(struct bj_reports_query){ 0 }, "");
	expect_found(reports, &(struct bj_reports_query){ .last_build = true }, "");
	add(reports, "a1/5", "//t:a", "CppCompile", "build-1", true);
	add(reports, "a2/5", "//t:a", "CppLink", "build-1", false);
	add(reports, "b1/5", "//t:b", "CppCompile", "build-2", true);
	add(reports, "c1/5", "//t:c", "Genrule", "", true);
	static const struct {
		struct bj_reports_query query;
		const char *want;
	} rows[] = {
		{ { .limit = 0 }, "c1/5 b1/5 a2/5 a1/5 " },
		{ { .limit = 2 }, "c1/5 b1/5 " },
		{ { .limit = 9 }, "c1/5 b1/5 a2/5 a1/5 " },
		{ { .target = { "//t:a", 5 } }, "a2/5 a1/5 " },
		{ { .target = { "//t:a", 5 }, .only_violations = true }, "a1/5 " },
		{ { .target = { "//t:", 4 } }, "" },
		{ { .mnemonic = { "CppCompile", 10 } }, "b1/5 a1/5 " },
		{ { .invocation = { "build-1", 7 } }, "a2/5 a1/5 " },
		{ { .invocation = { "build-9", 7 } }, "" },
		{ { .action_prefix = { "a", 1 } }, "a2/5 a1/5 " },
		{ { .action_prefix = { "a1/5", 4 } }, "a1/5 " },
		{ { .action_prefix = { "a1/50", 5 } }, "" },
		/* The newest that has an invocation decides which build was the last. */
		{ { .last_build = true }, "b1/5 " },
		{ { .last_build = true, .target = { "//t:a", 5 } }, "" },
		{ { .only_violations = true, .limit = 1 }, "c1/5 " },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_found(reports, &rows[i].query, rows[i].want);
	bj_reports_free(reports);
	bj_reports_free(NULL);
}

static void everything_is_copied(void **state)
{
	struct bj_reports *reports = reports_new(2);
	struct bj_stored_report *list;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	char text[] = "action";
	size_t n;
	(void)state;
	bj_arena_init(&arena, 0);
	add(reports, text, "//t:a", "M", "i", true);
	memset(text, 'x', sizeof(text) - 1);
	struct bj_reports_query all = { 0 };
	assert_int_equal(bj_reports_find(reports, &all, &arena, &list, &n, &err), 0);
	bj_reports_free(reports); /* what was found stays */
	assert_int_equal(n, 1);
	assert_string_equal(list[0].action.ptr, "action");
	assert_string_equal(list[0].target.ptr, "//t:a");
	assert_string_equal(list[0].mnemonic.ptr, "M");
	assert_string_equal(list[0].invocation.ptr, "i");
	assert_string_equal(list[0].packed.ptr, "packed");
	assert_string_equal(list[0].message.ptr, "m");
	assert_int_equal(list[0].exit_code, 3);
	assert_int_equal(list[0].finished_ns, 99);
	assert_true(list[0].cached && list[0].has_violations);
	bj_arena_deinit(&arena);
}

static void the_newest_are_kept(void **state)
{
	struct bj_reports *reports = reports_new(3);
	char name[16];
	(void)state;
	for (int i = 0; i < 8; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		add(reports, name, "", "", "", false);
	}
	expect_found(reports, &(struct bj_reports_query){ 0 }, "7 6 5 ");
	bj_reports_free(reports);
	reports = reports_new(0); /* as good as one */
	add(reports, "a", "", "", "", false);
	add(reports, "b", "", "", "", false);
	expect_found(reports, &(struct bj_reports_query){ 0 }, "b ");
	bj_reports_free(reports);
}

static void their_bytes_are_bounded(void **state)
{
	enum { LARGE_BYTES = 10 << 20 };
	struct bj_reports *reports = reports_new(100);
	struct bj_stored_report large = { .packed = { calloc(1, LARGE_BYTES), LARGE_BYTES },
					  .action = BJ_STR_LIT("L") };
	(void)state;
	assert_non_null(large.packed.ptr);
	for (int i = 0; i < 20; i++)
		bj_reports_add(reports, &large);
	expect_found(reports, &(struct bj_reports_query){ 0 }, "L L L L L L "); /* 64 MiB */
	add(reports, "s", "", "", "", false);
	expect_found(reports, &(struct bj_reports_query){ .max_bytes = 25 << 20 }, "s L L ");
	/* The newest one comes whatever its size. */
	bj_reports_add(reports, &large);
	expect_found(reports, &(struct bj_reports_query){ .max_bytes = 1 }, "L ");
	free((void *)(uintptr_t)large.packed.ptr);
	bj_reports_free(reports);
}

static void without_memory(void **state)
{
	struct bj_reports *reports = NULL;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena small;
	struct bj_stored_report *list;
	size_t count;
	int r = -1;
	(void)state;
	for (uint64_t n = 0; r < 0; n++) {
		bj_alloc_fail_after(n);
		r = bj_reports_new(4, &reports, &err);
		assert_int_equal(bj_alloc_fail_disarm(), r < 0);
		bj_err_clear(&err);
	}
	bj_alloc_fail_after(0);
	add(reports, "lost", "", "", "", false);
	assert_true(bj_alloc_fail_disarm());
	add(reports, "kept", "", "", "", false);
	expect_found(reports, &(struct bj_reports_query){ 0 }, "kept ");
	bj_arena_init(&small, 64);
	struct bj_reports_query all = { 0 };
	assert_int_equal(bj_reports_find(reports, &all, &small, &list, &count, &err),
			 -BJ_RESOURCE_EXHAUSTED);
	bj_arena_deinit(&small);
	bj_reports_free(reports);
}

static void *adder_main(void *arg)
{
	for (int i = 0; i < 500; i++)
		add(arg, "x", "", "", "", false);
	return NULL;
}

static void from_many_threads(void **state)
{
	struct bj_reports *reports = reports_new(7);
	pthread_t threads[4];
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adder_main, reports), 0);
	for (int i = 0; i < 200; i++) {
		struct bj_stored_report *list;
		struct bj_err err = BJ_ERR_NULL;
		struct bj_reports_query all = { 0 };
		struct bj_arena arena;
		size_t n;
		bj_arena_init(&arena, 0);
		assert_int_equal(bj_reports_find(reports, &all, &arena, &list, &n, &err), 0);
		assert_true(n <= 7);
		bj_arena_deinit(&arena);
	}
	for (size_t i = 0; i < BJ_ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	expect_found(reports, &(struct bj_reports_query){ 0 }, "x x x x x x x ");
	bj_reports_free(reports);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_reach_the_report),
		cmocka_unit_test(without_a_run_nothing_was_observed),
		cmocka_unit_test(a_record_in_full),
		cmocka_unit_test(hostile_bytes),
		cmocka_unit_test(a_large_report_is_cut_and_says_so),
		cmocka_unit_test(each_size_of_memory),
		cmocka_unit_test(queries),
		cmocka_unit_test(everything_is_copied),
		cmocka_unit_test(the_newest_are_kept),
		cmocka_unit_test(their_bytes_are_bounded),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(from_many_threads),
	};
	return cmocka_run_group_tests_name("action/report", tests, NULL, NULL);
}
