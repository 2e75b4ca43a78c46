// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor/cli/explain-internal.h"

#define DIGEST_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/142"
#define DIGEST_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb/9"

typedef Belljar__V1__StoredReport stored_pb;
typedef Belljar__V1__SandboxReport report_pb;
typedef Belljar__V1__Violation violation_pb;

enum { MAX_STORED = 8 };

/* Up to MAX_STORED reports, each with at most one violation. */
struct reply {
	Belljar__V1__ListReportsResponse message;
	stored_pb stored[MAX_STORED], *stored_list[MAX_STORED];
	report_pb reports[MAX_STORED];
	violation_pb violations[MAX_STORED], *violation_list[MAX_STORED];
};

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void reply_init(struct reply *r)
{
	memset(r, 0, sizeof(*r));
	belljar__v1__list_reports_response__init(&r->message);
	r->message.reports = r->stored_list;
}

/* Newest first, as the server sends them. */
static report_pb *add(struct reply *r, const char *target, const char *action)
{
	size_t i = r->message.n_reports++;
	assert_true(i < MAX_STORED);
	belljar__v1__stored_report__init(&r->stored[i]);
	belljar__v1__sandbox_report__init(&r->reports[i]);
	r->stored_list[i] = &r->stored[i];
	r->stored[i].report = &r->reports[i];
	r->reports[i].target = text(target);
	r->reports[i].action_digest = text(action);
	r->reports[i].observer = text("default");
	r->reports[i].observation_complete = true;
	return &r->reports[i];
}

static violation_pb *violate(struct reply *r, Belljar__V1__Violation__Kind kind, const char *path)
{
	size_t i = r->message.n_reports - 1;
	violation_pb *v = &r->violations[i];
	belljar__v1__violation__init(v);
	v->kind = kind;
	v->path = text(path);
	v->zone = BELLJAR__V1__VIOLATION__ZONE__ZONE_INPUT_ROOT;
	v->count = 1;
	r->violation_list[i] = v;
	r->reports[i].violations = &r->violation_list[i];
	r->reports[i].n_violations = 1;
	return v;
}

/* ---- order ---- */

/* "target action, …" in the order of showing. */
static void expect_order(const struct reply *r, bool keep_all, const char *wanted)
{
	struct bj_explained e;
	struct bj_buf got = BJ_BUF_INIT(4096);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	assert_true(bj_explain_order(&r->message, keep_all, &arena, &e));
	for (size_t i = 0; i < e.n; i++)
		bj_buf_printf(&got, "%s%s %s", i ? ", " : "", e.reports[i]->report->target,
			      e.reports[i]->report->action_digest);
	assert_string_equal(bj_buf_cstr(&got), wanted);
	bj_buf_deinit(&got);
}

static void newest_is_last(void **state)
{
	(void)state;
	struct reply r;
	reply_init(&r);
	add(&r, "//z", "3");
	add(&r, "//a", "2");
	add(&r, "//m", "1");
	expect_order(&r, false, "//m 1, //a 2, //z 3");
}

static void a_target_stands_together_where_its_newest_is(void **state)
{
	(void)state;
	struct reply r;
	reply_init(&r);
	add(&r, "//a", "5");
	add(&r, "//b", "4");
	add(&r, "//a", "3");
	add(&r, "//c", "2");
	add(&r, "//b", "1");
	expect_order(&r, false, "//c 2, //b 1, //b 4, //a 3, //a 5");
}

static void of_several_runs_the_newest_stays(void **state)
{
	(void)state;
	struct reply r;
	reply_init(&r);
	add(&r, "//a", "1")->invocation = text("new");
	add(&r, "//b", "1");
	add(&r, "//a", "2");
	add(&r, "//a", "1")->invocation = text("old");
	expect_order(&r, false, "//b 1, //a 2, //a 1");
	expect_order(&r, true, "//b 1, //a 1, //a 2, //a 1");

	struct bj_explained e;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	assert_true(bj_explain_order(&r.message, false, &arena, &e));
	assert_string_equal(e.reports[2]->report->invocation, "new");
}

static void violations_are_counted(void **state)
{
	(void)state;
	struct reply r;
	struct bj_explained e;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	reply_init(&r);
	add(&r, "//a", "1");
	assert_true(bj_explain_order(&r.message, false, &arena, &e));
	assert_int_equal(e.n_violations, 0);
	add(&r, "//a", "2");
	violate(&r, BELLJAR__V1__VIOLATION__KIND__NETWORK, "");
	r.stored[0].report = NULL; /* a server that sends none */
	assert_true(bj_explain_order(&r.message, false, &arena, &e));
	assert_int_equal(e.n, 1);
	assert_int_equal(e.n_violations, 1);
}

/* ---- sentences ---- */

static void expect_sentence(const struct reply *r, const char *what, const char *fix)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_sentence s = bj_explain_sentence(&r->reports[0], &r->violations[0], &arena);
	if (!bj_str_eq(s.what, bj_str_of(what)))
		fail_msg("what: \"%.*s\"", BJ_STR_FMT(s.what));
	if (!bj_str_eq(s.fix, bj_str_of(fix)))
		fail_msg("fix: \"%.*s\"", BJ_STR_FMT(s.fix));
}

static void a_fix_to_copy(void **state)
{
	(void)state;
	struct reply r;
	reply_init(&r);
	add(&r, "//t:c", DIGEST_A);
	violation_pb *v =
		violate(&r, BELLJAR__V1__VIOLATION__KIND__READ_UNDECLARED, "../t/secret.h");
	v->resolved = text("/exec/t/secret.h");
	v->hint = text("declare it as an input");
	expect_sentence(&r, "read t/secret.h, not declared", "buildozer 'add hdrs secret.h' //t:c");
}

/* No words of its own for what to do: the server's hint. */
static void the_hint_when_there_is_no_fix(void **state)
{
	(void)state;
	struct reply r;
	reply_init(&r);
	add(&r, "", DIGEST_A);
	violation_pb *v = violate(&r, BELLJAR__V1__VIOLATION__KIND__NETWORK, "");
	v->address = text("192.0.2.1");
	v->port = 80;
	v->enforced = true;
	v->hint = text("actions have no network");
	expect_sentence(&r, "tried to reach 192.0.2.1:80, which no action may",
			"actions have no network");
}

static void kinds_of_a_newer_server(void **state)
{
	(void)state;
	struct reply r;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	reply_init(&r);
	add(&r, "//t:c", DIGEST_A);
	violation_pb *v = violate(&r, (Belljar__V1__Violation__Kind)99, "/x");
	v->zone = (Belljar__V1__Violation__Zone)77;
	v->hint = text("ask");
	assert_string_equal(bj_explain_kind(v, &arena), "kind_99");
	assert_string_equal(bj_explain_zone(v), "");
	expect_sentence(&r, "did what this belljar has no words for", "ask");
	v->kind = BELLJAR__V1__VIOLATION__KIND__KIND_UNSPECIFIED;
	assert_string_equal(bj_explain_kind(v, &arena), "kind_0");
}

/* ---- whole outputs ---- */

static char *render(const struct reply *r, bool json, bool colour, struct bj_arena *arena)
{
	struct bj_explained e;
	struct bj_buf out = BJ_BUF_INIT(1 << 16);

	assert_true(bj_explain_order(&r->message, true, arena, &e));
	assert_true(json ? bj_explain_json(&e, arena, &out)
			 : bj_explain_text(&e, colour, arena, &out));
	char *copy = bj_str_dup(arena, bj_buf_str(&out));
	bj_buf_deinit(&out);
	return copy;
}

static void make_header_case(struct reply *r, Google__Protobuf__Timestamp *when)
{
	google__protobuf__timestamp__init(when);
	when->seconds = 1; /* the second after the epoch */
	when->nanos = 5000000;
	reply_init(r);
	report_pb *report = add(r, "//t:c", DIGEST_A);
	report->mnemonic = text("CppCompile");
	report->invocation = text("1-2-3");
	report->profile = text("privileged");
	r->stored[0].exit_code = 1;
	r->stored[0].finished = when;
	r->stored[0].status_message = text("belljar: read t/secret.h, not declared");
	violation_pb *v = violate(r, BELLJAR__V1__VIOLATION__KIND__READ_UNDECLARED, "./t/secret.h");
	v->resolved = text("/exec/t/secret.h");
	v->operation = text("open");
	v->in_workspace = true;
	v->nearest_declared = text("t/secrets.h");
	v->errno_name = text("ENOENT");
	v->errno_value = 2;
	v->enforced = true;
	v->count = 3;
	v->pid = 7;
	v->comm = text("cc1");
	v->exe = text("/usr/libexec/cc1");
	v->ignore_list = text("ignore.read");
	v->hint = text("declare it as an input");
	v->first_seen = when;
}

static void text_for_people(void **state)
{
	(void)state;
	struct reply r;
	Google__Protobuf__Timestamp when;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	setenv("TZ", "UTC", 1);
	tzset();
	make_header_case(&r, &when);
	add(&r, "//t:d", DIGEST_B)->mnemonic = text("CppLink");
	r.stored[1].cached = true;
	assert_string_equal(render(&r, false, false, &arena),
			    "//t:d\n"
			    "  CppLink bbbbbbbbbbbbbbbb, exit 0, from the cache\n"
			    "    kept to what it declares\n"
			    "\n"
			    "//t:c\n"
			    "  CppCompile aaaaaaaaaaaaaaaa, exit 1, 1970-01-01 00:00:01\n"
			    "    read_undeclared: read t/secret.h, not declared\n"
			    "      attempt:   open of \"./t/secret.h\", ENOENT, refused, 3 times\n"
			    "      path:      /exec/t/secret.h\n"
			    "      evidence:  your workspace has it\n"
			    "      nearest:   t/secrets.h\n"
			    "      by:        cc1 (/usr/libexec/cc1)\n"
			    "      fix:       buildozer 'add hdrs secret.h' //t:c\n"
			    "      silence:   sandbox.ignore.read\n");
}

static void json_for_programs(void **state)
{
	(void)state;
	struct reply r;
	Google__Protobuf__Timestamp when;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	make_header_case(&r, &when);
	assert_string_equal(render(&r, true, false, &arena),
			    "[\n"
			    "  {\n"
			    "    \"kind\": \"read_undeclared\",\n"
			    "    \"text\": \"read t/secret.h, not declared\",\n"
			    "    \"fix\": \"buildozer 'add hdrs secret.h' //t:c\",\n"
			    "    \"hint\": \"declare it as an input\",\n"
			    "    \"operation\": \"open\",\n"
			    "    \"path\": \"./t/secret.h\",\n"
			    "    \"resolved\": \"/exec/t/secret.h\",\n"
			    "    \"zone\": \"input_root\",\n"
			    "    \"nearest_declared\": \"t/secrets.h\",\n"
			    "    \"on_host\": false,\n"
			    "    \"in_workspace\": true,\n"
			    "    \"in_other_tree\": false,\n"
			    "    \"enforced\": true,\n"
			    "    \"errno\": \"ENOENT\",\n"
			    "    \"count\": 3,\n"
			    "    \"first_seen\": \"1970-01-01T00:00:01.005Z\",\n"
			    "    \"pid\": 7,\n"
			    "    \"comm\": \"cc1\",\n"
			    "    \"exe\": \"/usr/libexec/cc1\",\n"
			    "    \"argv0\": \"\",\n"
			    "    \"address\": \"\",\n"
			    "    \"port\": 0,\n"
			    "    \"size_bytes\": 0,\n"
			    "    \"wanted\": \"\",\n"
			    "    \"found\": \"\",\n"
			    "    \"ignore_list\": \"ignore.read\",\n"
			    "    \"target\": \"//t:c\",\n"
			    "    \"mnemonic\": \"CppCompile\",\n"
			    "    \"action\": \"" DIGEST_A "\",\n"
			    "    \"invocation\": \"1-2-3\",\n"
			    "    \"exit_code\": 1,\n"
			    "    \"cached\": false,\n"
			    "    \"finished\": \"1970-01-01T00:00:01.005Z\",\n"
			    "    \"status_message\": \"belljar: read t/secret.h, not declared\",\n"
			    "    \"profile\": \"privileged\",\n"
			    "    \"observer\": \"default\",\n"
			    "    \"observation_complete\": true,\n"
			    "    \"dropped\": 0,\n"
			    "    \"action_hints\": []\n"
			    "  }\n"
			    "]\n");
}

static void nothing(void **state)
{
	(void)state;
	struct reply r;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	reply_init(&r);
	assert_string_equal(render(&r, true, false, &arena), "[]\n");
	assert_string_equal(render(&r, false, false, &arena),
			    "nothing to show: the server knows no such action with records\n");
	add(&r, "//a", DIGEST_B);
	assert_non_null(strstr(render(&r, true, false, &arena), "\"kind\": null,\n"));
}

/* Whatever a client calls its target, no terminal is told to do anything, and what was made printable stays as it was. */
static void hostile_text(void **state)
{
	(void)state;
	struct reply r;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	reply_init(&r);
	add(&r, "//a\033]0;x\007\nb", DIGEST_B)->mnemonic = text("M\xff");
	violation_pb *v =
		violate(&r, BELLJAR__V1__VIOLATION__KIND__READ_UNDECLARED, "/exec/\\x1b[1m");
	v->operation = text("open");
	v->comm = text("c\ro");
	char *got = render(&r, false, false, &arena);
	for (const char *c = got; *c; c++)
		assert_true((unsigned char)*c >= ' ' || *c == '\n');
	assert_non_null(strstr(got, "//a\\x1b]0;x\\x07\\nb\n"));
	assert_non_null(strstr(got, "M\\xff"));
	assert_non_null(strstr(got, "open of \"/exec/\\x1b[1m\""));
}

static void colours_only_when_asked(void **state)
{
	(void)state;
	struct reply r;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	reply_init(&r);
	add(&r, "//a", DIGEST_B);
	assert_non_null(strstr(render(&r, false, true, &arena), "\033[1m//a\033[0m\n"));
	assert_null(strchr(render(&r, false, false, &arena), '\033'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_is_last),
		cmocka_unit_test(a_target_stands_together_where_its_newest_is),
		cmocka_unit_test(of_several_runs_the_newest_stays),
		cmocka_unit_test(violations_are_counted),
		cmocka_unit_test(a_fix_to_copy),
		cmocka_unit_test(the_hint_when_there_is_no_fix),
		cmocka_unit_test(kinds_of_a_newer_server),
		cmocka_unit_test(text_for_people),
		cmocka_unit_test(json_for_programs),
		cmocka_unit_test(nothing),
		cmocka_unit_test(hostile_text),
		cmocka_unit_test(colours_only_when_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
