// SPDX-License-Identifier: Apache-2.0
/* Design §3.4: at most three lines, the same bytes for the same violations; golden, by hand. */
#include "policy_test_util.h"

static struct bjp_record of(enum bjp_kind kind, const char *path)
{
	bool is_inside = strncmp(path, "/exec/", 6) == 0;
	return (struct bjp_record){ .kind = kind,
				    .operation = "open",
				    .path = bj_str_of(path),
				    .zone = is_inside ? BJP_ZONE_INPUT_ROOT : BJP_ZONE_HOST,
				    .enforced = true,
				    .pid = 123,
				    .count = 7,
				    .first_ns = 99 };
}

static void expect_lines(struct bjp_record *records, size_t n, const char *target, const char *want)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_report report = { .records = records, .n_records = n };
	struct bj_str got =
		bjp_summary_lines(&report, S("/exec"), bj_str_of(target), S("3f2a"), &arena);
	if (!bj_str_eq(got, bj_str_of(want)))
		fail_msg("got:\n%.*swant:\n%s", BJ_STR_FMT(got), want);
}

static void one(struct bjp_record r, const char *target, const char *want)
{
	expect_lines(&r, 1, target, want);
}

#define MORE " (more: belljar explain 3f2a)\n"

/* ---- what is said of each kind ---- */

static void every_kind_has_its_sentence(void **state)
{
	(void)state;
	one(of(BJP_READ_UNDECLARED, "/exec/t/secret.h"), "//t:c",
	    "belljar: //t:c read t/secret.h, not declared. Fix: buildozer 'add hdrs secret.h' "
	    "//t:c" MORE);
	one(of(BJP_READ_UNDECLARED, "/exec/t/secret.h"), "",
	    "belljar: read t/secret.h, not declared. Fix: declare it as an input" MORE);
	one(of(BJP_READ_UNDECLARED, "/etc/hostname"), "//t:c",
	    "belljar: //t:c reads /etc/hostname of the host, which no action may see" MORE);
	one(of(BJP_EXEC_UNDECLARED, "/exec/tools/gen"), "//tools:x",
	    "belljar: //tools:x ran tools/gen, not declared. Fix: buildozer 'add srcs gen' "
	    "//tools:x" MORE);
	one(of(BJP_EXEC_UNDECLARED, "/opt/x/gen"), "//t:c",
	    "belljar: //t:c runs /opt/x/gen of the host, which no action may see" MORE);
	one(of(BJP_WRITE_UNDECLARED, "/foo"), "//t:c",
	    "belljar: //t:c tried to write /foo, which is no output" MORE);
	one(of(BJP_WRITE_TO_INPUT, "/exec/t/a.c"), "//t:c",
	    "belljar: //t:c tried to write its input t/a.c" MORE);
	one(of(BJP_UNDECLARED_OUTPUT, "/exec/t/x.tmp"), "//t:c",
	    "belljar: //t:c made t/x.tmp, not declared and thrown away. Fix: declare it as an "
	    "output, or "
	    "write it below $TMPDIR" MORE);
	one(of(BJP_UNIX_SOCKET, "/run/docker.sock"), "//t:c",
	    "belljar: //t:c tried to reach the host's socket /run/docker.sock" MORE);
	one(of(BJP_SYSTEM_INFO, "/proc/cpuinfo"), "//t:c",
	    "belljar: //t:c asked about the machine" MORE);
	one(of(BJP_MISSING_CANDIDATE, "/exec/t/x.h"), "//t:c",
	    "belljar: //t:c looked for t/x.h and found it nowhere. Fix: if it was needed, declare "
	    "it as "
	    "an input" MORE);
}

static void kinds_with_more_to_say(void **state)
{
	(void)state;
	struct bjp_record r = of(BJP_WRITE_TO_INPUT, "/exec/t/a.c");
	r.enforced = false;
	one(r, "//t:c", "belljar: //t:c wrote its input t/a.c" MORE);
	r = of(BJP_MISSING_OUTPUT, "/exec/t/o");
	r.found = S("u/o");
	one(r, "//t:c", "belljar: //t:c did not make its output t/o; it made u/o instead" MORE);
	r.wrong_kind = true;
	r.wanted = S("file");
	r.found = S("directory");
	one(r, "//t:c",
	    "belljar: //t:c did not make its output t/o: a file was wanted, a directory was "
	    "made" MORE);
	r = of(BJP_NETWORK, "");
	r.address = S("192.0.2.1");
	r.port = 443;
	one(r, "//t:c", "belljar: //t:c tried to reach 192.0.2.1:443, which no action may" MORE);
	r.address = S("2001:db8::1");
	r.enforced = false;
	one(r, "//t:c", "belljar: //t:c reached [2001:db8::1]:443, which no action may" MORE);
	r = of(BJP_UNIX_SOCKET, "/usr/x.sock");
	r.enforced = false;
	one(r, "//t:c", "belljar: //t:c reached the host's socket /usr/x.sock" MORE);
	r = of(BJP_SYSCALL, "");
	r.operation = "io_uring_setup";
	one(r, "//t:c", "belljar: //t:c called io_uring_setup, which no action may" MORE);
	r = of(BJP_STRAY_PROCESS, "");
	r.comm = S("sleep");
	one(r, "//t:c", "belljar: //t:c left a process running: sleep" MORE);
	r.argv0 = S("/bin/sleep");
	one(r, "//t:c", "belljar: //t:c left a process running: /bin/sleep" MORE);
	r = of(BJP_RESOURCE, "");
	r.operation = "memory";
	one(r, "//t:c", "belljar: //t:c ran out of memory" MORE);
	r.hint = S("limit 64 MiB");
	one(r, "//t:c", "belljar: //t:c ran out of memory: limit 64 MiB" MORE);
}

/* ---- the line to add ---- */

static void the_fix_names_file_attribute_and_target(void **state)
{
	(void)state;
	static const struct {
		const char *path, *target, *fix;
	} rows[] = {
		{ "t/x.h", "//t:c", "buildozer 'add hdrs x.h' //t:c" },
		{ "t/x.hpp", "//t:c", "buildozer 'add hdrs x.hpp' //t:c" },
		{ "t/x.inc", "//t:c", "buildozer 'add hdrs x.inc' //t:c" },
		{ "t/x.c", "//t:c", "buildozer 'add srcs x.c' //t:c" },
		{ "t/x.txt", "//t:c", "buildozer 'add srcs x.txt' //t:c" },
		{ "t/x.txt", "//t:c_test", "buildozer 'add data x.txt' //t:c_test" },
		{ "t/x.py", "//t:c_test", "buildozer 'add srcs x.py' //t:c_test" },
		{ "t/x.h", "//t:c_test", "buildozer 'add hdrs x.h' //t:c_test" },
		{ "t/sub/x.h", "//t:c", "buildozer 'add hdrs sub/x.h' //t:c" },
		{ "u/x.h", "//t:c", "buildozer 'add hdrs //u:x.h' //t:c" },
		{ "tt/x.h", "//t:c", "buildozer 'add hdrs //tt:x.h' //t:c" },
		{ "x.h", "//t:c", "buildozer 'add hdrs //:x.h' //t:c" },
		{ "x.h", "//:c", "buildozer 'add hdrs x.h' //:c" },
		{ "d/x.h", "//:c", "buildozer 'add hdrs d/x.h' //:c" },
		{ "a/b/x.h", "//a/b", "buildozer 'add hdrs x.h' //a/b" },
		{ "bazel-out/k8-opt/bin/t/gen.h", "//t:c", "buildozer 'add hdrs gen.h' //t:c" },
		{ "bazel-out/k8-opt/genfiles/u/gen.h", "//t:c",
		  "buildozer 'add hdrs //u:gen.h' //t:c" },
		{ "bazel-out/k8-opt/odd/gen.h", "//t:c",
		  "buildozer 'add hdrs //bazel-out/k8-opt/odd:gen.h' //t:c" },
		{ "external/zlib/z/zlib.h", "//t:c", "buildozer 'add hdrs @zlib//z:zlib.h' //t:c" },
		{ "external/zlib/z/zlib.h", "@zlib//z:lib",
		  "buildozer 'add hdrs zlib.h' @zlib//z:lib" },
		{ "external/zlib/z/zlib.h", "@@zlib//:lib",
		  "buildozer 'add hdrs z/zlib.h' @@zlib//:lib" },
		{ "t/x.h", "@zlib//t:c", "buildozer 'add hdrs //t:x.h' @zlib//t:c" },
		/* not to be pasted into a shell, or no label: no command */
		{ "t/it's.h", "//t:c", "declare it as an input" },
		{ "t/a b.h", "//t:c", "declare it as an input" },
		{ "t/$(x).h", "//t:c", "declare it as an input" },
		{ "t/x.h", "//t:c;rm", "declare it as an input" },
		{ "t/x.h", "//t:'", "declare it as an input" },
		{ "t/x.h", "//t o:c", "declare it as an input" },
		{ "t/x.h", "@a'b//t:c", "declare it as an input" },
		{ "t/x.h", "//t:", "declare it as an input" },
		{ "t/x.h", "some name", "declare it as an input" },
		{ "t/x.h", "/", "declare it as an input" },
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		const char *path = bj_arena_printf(&arena, "/exec/%s", rows[i].path);
		one(of(BJP_READ_UNDECLARED, path), rows[i].target,
		    bj_arena_printf(&arena, "belljar: %s read %s, not declared. Fix: %s" MORE,
				    rows[i].target, rows[i].path, rows[i].fix));
	}
}

/* ---- how many lines ---- */

static void three_lines_at_most(void **state)
{
	(void)state;
	struct bjp_record records[] = { of(BJP_READ_UNDECLARED, "/etc/a"),
					of(BJP_READ_UNDECLARED, "/etc/b"),
					of(BJP_WRITE_UNDECLARED, "/c"),
					of(BJP_WRITE_UNDECLARED, "/d") };
	expect_lines(records, 0, "//t:c", "");
	expect_lines(records, 2, "//t:c",
		     "belljar: //t:c reads /etc/a of the host, which no action may see\n"
		     "belljar: //t:c reads /etc/b of the host, which no action may see" MORE);
	expect_lines(records, 3, "//t:c",
		     "belljar: //t:c reads /etc/a of the host, which no action may see\n"
		     "belljar: //t:c reads /etc/b of the host, which no action may see\n"
		     "belljar: //t:c tried to write /c, which is no output" MORE);
	expect_lines(records, 4, "//t:c",
		     "belljar: //t:c reads /etc/a of the host, which no action may see\n"
		     "belljar: //t:c reads /etc/b of the host, which no action may see\n"
		     "belljar: … and 2 more" MORE);
}

/* Every failing compile misses its outputs: the report has them, a person needs no line for them. */
static void outputs_that_a_failed_command_did_not_make_are_no_news(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_record records[] = { of(BJP_WRITE_UNDECLARED, "/c"),
					of(BJP_MISSING_OUTPUT, "/exec/t/a.d"),
					of(BJP_MISSING_OUTPUT, "/exec/t/a.o"),
					of(BJP_UNIX_SOCKET, "/run/x") };
	expect_lines(records + 1, 2, "//t:c", "");
	expect_lines(records, 4, "",
		     "belljar: tried to write /c, which is no output\n"
		     "belljar: tried to reach the host's socket /run/x" MORE);
	struct bjp_report report = { .records = records + 1, .n_records = 2 };
	assert_int_equal(bjp_summary_message(&report, S("/exec"), &arena).len, 0);
	report.n_records = 3;
	expect_str(bjp_summary_message(&report, S("/exec"), &arena),
		   "belljar: tried to reach the host's socket /run/x", "message");
}

static void without_an_action_nothing_to_explain(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_record r = of(BJP_WRITE_UNDECLARED, "/foo");
	struct bjp_report report = { .records = &r, .n_records = 1 };
	expect_str(bjp_summary_lines(&report, S("/exec"), S(""), S(""), &arena),
		   "belljar: tried to write /foo, which is no output\n", "no action");
}

/* Nothing of who was first or when reaches the lines (design §3.4). */
static void the_same_bytes_for_the_same_violations(void **state)
{
	(void)state;
	struct bjp_record r = of(BJP_READ_UNDECLARED, "/exec/t/x.h");
	const char *want =
		"belljar: //t:c read t/x.h, not declared. Fix: buildozer 'add hdrs x.h' //t:c" MORE;
	one(r, "//t:c", want);
	r.pid = 5;
	r.first_ns = 1;
	r.count = 1;
	r.comm = S("x");
	r.written = S("./x.h");
	one(r, "//t:c", want);
}

/* ---- hostile bytes ---- */

static void hostile_names_are_cut_and_escaped(void **state)
{
	(void)state;
	one(of(BJP_READ_UNDECLARED, "/exec/t/\x1b[2J\n\xff.h"), "//t:\x07",
	    "belljar: //t:\\x07 read t/\\x1b[2J\\n\\xff.h, not declared. Fix: declare it as an "
	    "input" MORE);
	char path[3000] = "/etc/";
	memset(path + 5, 'x', sizeof(path) - 6);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_record r[3] = { of(BJP_READ_UNDECLARED, path), of(BJP_READ_UNDECLARED, path),
				   of(BJP_READ_UNDECLARED, path) };
	r[0].zone = r[1].zone = BJP_ZONE_INPUT_ROOT;
	struct bjp_report report = { .records = r, .n_records = 3 };
	struct bj_str got =
		bjp_summary_lines(&report, S("/exec"), bj_str_of(path), S("3f2a"), &arena);
	assert_true(got.len > 500 && got.len < 1500);
	size_t n_lines = 0;
	for (size_t i = 0; i < got.len; i++)
		n_lines += got.ptr[i] == '\n';
	assert_int_equal(n_lines, 3);
}

/* ---- one line for the message ---- */

static void message(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_record r[] = { of(BJP_READ_UNDECLARED, "/exec/t/x.h"),
				  of(BJP_WRITE_UNDECLARED, "/d") };
	struct bj_str hint = S("the interpreter /x of y is not an input");
	struct bjp_report report = { 0 };
	assert_int_equal(bjp_summary_message(&report, S("/exec"), &arena).len, 0);
	report.hints = &hint;
	report.n_hints = 1;
	expect_str(bjp_summary_message(&report, S("/exec"), &arena),
		   "belljar: the interpreter /x of y is not an input", "hint");
	report.records = r;
	report.n_records = 1;
	expect_str(bjp_summary_message(&report, S("/exec"), &arena),
		   "belljar: read t/x.h, not declared", "one");
	report.n_records = 2;
	expect_str(bjp_summary_message(&report, S("/exec"), &arena),
		   "belljar: read t/x.h, not declared (and 1 more)", "two");
}

/* The root itself has no relative name. */
static void the_input_root_itself(void **state)
{
	(void)state;
	struct bjp_record r = of(BJP_WRITE_TO_INPUT, "/exec");
	one(r, "", "belljar: tried to write its input /exec" MORE);
}

static void each_allocation_fails_once(void **state)
{
	(void)state;
	struct bjp_record r[] = { of(BJP_READ_UNDECLARED, "/exec/t/x.h"),
				  of(BJP_UNDECLARED_OUTPUT, "/exec/d") };
	struct bjp_report report = { .records = r, .n_records = 2 };
	for (uint64_t n = 0;; n++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		bj_alloc_fail_after(n);
		struct bj_str lines =
			bjp_summary_lines(&report, S("/exec"), S("//t:c"), S("3f2a"), &arena);
		struct bj_str text = bjp_summary_message(&report, S("/exec"), &arena);
		if (!bj_alloc_fail_disarm()) {
			assert_true(lines.len > 0 && text.len > 0);
			break;
		}
		assert_true(lines.len == 0 || text.len == 0); /* never half a text */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_has_its_sentence),
		cmocka_unit_test(kinds_with_more_to_say),
		cmocka_unit_test(the_fix_names_file_attribute_and_target),
		cmocka_unit_test(three_lines_at_most),
		cmocka_unit_test(outputs_that_a_failed_command_did_not_make_are_no_news),
		cmocka_unit_test(without_an_action_nothing_to_explain),
		cmocka_unit_test(the_same_bytes_for_the_same_violations),
		cmocka_unit_test(hostile_names_are_cut_and_escaped),
		cmocka_unit_test(message),
		cmocka_unit_test(the_input_root_itself),
		cmocka_unit_test(each_allocation_fails_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
