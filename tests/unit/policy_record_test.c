// SPDX-License-Identifier: Apache-2.0
/* What records say; searches; what a failed command may have missed; ignore lists. */
#include "policy_bench.h"

/* ---- what a record says ---- */

static void a_record_joins_attempt_and_tree_vx_101(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	struct bjp_attempt a = attempt(READ, "open", "/exec/t/secret.h", ENOENT);
	a.written = S("secret.h");
	bjp_collect(b.collector, &a);
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_READ_UNDECLARED);
	expect_str(r->path, "/exec/t/secret.h", "path");
	expect_str(r->written, "secret.h", "written");
	expect_str(r->nearest, "t/b.h", "nearest"); /* .h in the same directory */
	expect_str(r->comm, "sh", "comm");
	expect_str(r->exe, "/usr/bin/dash", "exe");
	expect_str(r->argv0, "sh", "argv0");
	expect_str(r->hint, "declare it as an input; declared nearby: t/b.h", "hint");
	assert_string_equal(r->ignore_list, "ignore.read");
	assert_true(r->in_workspace && !r->on_host && !r->on_anchor && !r->in_other_tree);
	assert_int_equal(r->zone, BJP_ZONE_INPUT_ROOT); /* vx-33 */
	assert_int_equal(r->first_ns, 1000);
	assert_int_equal(r->pid, 10);
	bench_end(&b);
}

static void another_tree_is_a_hint_beside(void **state)
{
	(void)state;
	static const struct thing things[] = { { "/exec/t/x.h", IN_WORKSPACE | OTHER_TREE } };
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	b.world = (struct world){ things, 1, 0 };
	try_it(&b, READ, "open", "/exec/t/x.h", ENOENT);
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_READ_UNDECLARED);
	assert_true(r->in_other_tree);
	assert_non_null(strstr(r->hint.ptr, "another action of this instance declares it"));
	bench_end(&b);
}

/* Evidence for the spelling when the place it leads to has none: a workspace with a real directory instead of the link. */
static void evidence_may_know_the_spelling_only(void **state)
{
	(void)state;
	static const struct thing things[] = { { "/exec/dirlink/y.h", IN_WORKSPACE } };
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	b.world = (struct world){ things, 1, 0 };
	try_it(&b, READ, "open", "/exec/dirlink/y.h", ENOENT);
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_READ_UNDECLARED);
	expect_str(r->path, "/exec/dirlink/y.h", "path");
	expect_str(r->resolved, "/exec/t/y.h", "resolved");
	bench_end(&b);
}

/* vx-99: one record for one thing, however often and by whom; the first by the clock is named. */
static void alike_attempts_are_one_record_vx_99(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	struct bjp_attempt late = attempt(READ, "open", "/etc/hostname", ENOENT);
	struct bjp_attempt early = late, by_stat = late;
	early.time_ns = 500;
	early.pid = 77;
	early.comm = S("cc1");
	by_stat.access = STAT;
	by_stat.operation = "stat";
	by_stat.error = EACCES;
	by_stat.time_ns = 2000;
	by_stat.written = S("hostname");
	bjp_collect(b.collector, &by_stat);
	bjp_collect(b.collector, &late);
	bjp_collect(b.collector, &early);
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_READ_UNDECLARED);
	assert_int_equal(r->count, 3);
	assert_int_equal(r->pid, 77);
	expect_str(r->comm, "cc1", "comm");
	assert_int_equal(r->first_ns, 500);
	assert_string_equal(r->operation, "open"); /* says more than stat */
	expect_str(r->written, "hostname", "the shortest spelling");
	assert_int_equal(r->error, ENOENT);
	assert_int_equal(b.world.n_asked, 1);
	bench_end(&b);
}

static void hostile_bytes_stay_raw(void **state)
{
	(void)state;
	static const struct thing things[] = { { "/exec/t/\x1b[2J\xff", IN_WORKSPACE } };
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	b.world = (struct world){ things, 1, 0 };
	try_it(&b, READ, "open", "/exec/t/\x1b[2J\xff", ENOENT);
	judge(&b);
	expect_str(only(&b, BJP_READ_UNDECLARED)->path, "/exec/t/\x1b[2J\xff", "raw");
	bench_end(&b);
}

/* ---- searches ---- */

static void a_path_search_that_hits_is_a_hint(void **state)
{
	(void)state;
	static const struct {
		const char *reason;
		bool by_exec, by_exe; /* how it is known that the program was found */
		enum bjp_access access;
		size_t n_records, n_hints;
	} rows[] = {
		{ "exec, found later", true, false, EXEC, 0, 1 },
		{ "exec, known by who acted", false, true, EXEC, 0, 1 },
		{ "stat by a shell, found later", true, false, STAT, 0, 1 },
		{ "exec, never found", false, false, EXEC, 1, 0 },
		{ "opened as a file, found elsewhere", true, false, READ, 1, 0 },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		try_it(&b, rows[i].access, "x", "/home/u/bin/python3", ENOENT);
		if (rows[i].by_exec)
			try_it(&b, EXEC, "exec", "/usr/bin/python3", 0);
		struct bjp_attempt a = attempt(READ, "open", "/exec/t/none", ENOENT);
		a.exe = S("/usr/bin/python3.11");
		a.argv0 = S("python3"); /* a link: the process has both names */
		if (rows[i].by_exe)
			bjp_collect(b.collector, &a);
		judge(&b);
		if (b.report.n_records != rows[i].n_records || b.report.n_hints != rows[i].n_hints)
			fail_msg("%s: %zu records, %zu hints", rows[i].reason, b.report.n_records,
				 b.report.n_hints);
		if (rows[i].n_hints)
			expect_str(b.report.hints[0],
				   "your PATH resolves python3 elsewhere: /home/u/bin/python3 is "
				   "not seen inside",
				   rows[i].reason);
		bench_end(&b);
	}
}

static void no_hint_where_nothing_is(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	try_it(&b, EXEC, "exec", "/opt/none/python3", ENOENT);
	try_it(&b, EXEC, "exec", "/usr/bin/python3", 0);
	judge(&b);
	assert_int_equal(b.report.n_records + b.report.n_hints, 0);
	assert_int_equal(b.report.counters.absent, 1);
	bench_end(&b);
}

static void a_stat_before_an_exec_is_one_record(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	try_it(&b, STAT, "stat", "/exec/tools/gen", ENOENT);
	try_it(&b, EXEC, "exec", "/exec/tools/gen", ENOENT);
	judge(&b);
	(void)only(&b, BJP_EXEC_UNDECLARED);
	bench_end(&b);
}

static void hints_are_bounded_and_sorted(void **state)
{
	(void)state;
	struct bench b;
	struct thing things[40];
	bench_start(&b, BJP_WRITE_SCRATCH);
	for (size_t i = 0; i < 40; i++) {
		size_t n = (i * 7) % 40; /* in no order */
		things[i] = (struct thing){ bj_arena_printf(&b.arena, "/p%02zu/tool", n), ON_HOST };
		try_it(&b, EXEC, "exec", things[i].path, ENOENT);
		try_it(&b, STAT, "stat", things[i].path, ENOENT); /* the same hint again */
	}
	b.world = (struct world){ things, 40, 0 };
	try_it(&b, EXEC, "exec", "/usr/bin/tool", 0);
	judge(&b);
	assert_int_equal(b.report.n_hints, 16);
	for (size_t i = 0; i < 16; i++)
		assert_non_null(strstr(b.report.hints[i].ptr,
				       bj_arena_printf(&b.arena, "/p%02zu/tool", i)));
	bench_end(&b);
}

/* ---- what a failed command may have missed ---- */

static void start_failed(struct bench *b)
{
	bench_start(b, BJP_WRITE_SCRATCH);
	b->outcome = (struct bjp_outcome){ .failed = true, .has_workspace = false };
}

static void a_failed_action_names_what_it_missed(void **state)
{
	(void)state;
	struct bench b;
	start_failed(&b);
	try_it(&b, READ, "open", "/exec/t/nowhere.h", ENOENT);
	try_it(&b, EXEC, "exec", "/exec/bin/helper", ENOENT);
	try_it(&b, STAT, "stat", "/exec/t/only-stat.h", ENOENT); /* stats are no candidates */
	try_it(&b, READ, "open", "/var/none.h", ENOENT);	 /* nor is the host's side */
	judge(&b);
	assert_int_equal(b.report.n_records, 2);
	expect_str(b.report.records[0].path, "/exec/bin/helper", "first");
	expect_str(b.report.records[1].path, "/exec/t/nowhere.h", "second");
	assert_int_equal(b.report.records[0].kind, BJP_MISSING_CANDIDATE);
	assert_string_equal(b.report.records[0].ignore_list, "ignore.read");
	assert_int_equal(b.report.counters.absent, 2);
	assert_false(b.report.has_unignored); /* a guess fails nobody */
	bench_end(&b);
}

static void no_candidates_when_it_passed_or_a_workspace_can_tell(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.outcome = (struct bjp_outcome){ .failed = i, .has_workspace = i };
		try_it(&b, READ, "open", "/exec/t/nowhere.h", ENOENT);
		judge(&b);
		assert_int_equal(b.report.n_records, 0);
		assert_int_equal(b.report.counters.absent, 1);
		bench_end(&b);
	}
}

/* gcc looks for a header in several directories and finds it in one: the misses before are steps on the way. */
static void steps_of_a_search_are_no_candidates(void **state)
{
	(void)state;
	struct bench b;
	start_failed(&b);
	try_it(&b, READ, "open", "/exec/inc1/b.h", ENOENT);
	try_it(&b, READ, "open", "/exec/inc1/gen.h", ENOENT);
	try_it(&b, READ, "open", "/exec/inc1/stdio.h", ENOENT);
	try_it(&b, READ, "open", "/exec/inc1/lost.h", ENOENT);
	try_it(&b, READ, "open", "/exec/t/b.h", 0);
	bjp_collect_known(b.collector, S("/exec/bazel-out/k8/bin/t/gen.h"), BJP_INPUT);
	bjp_collect_known(b.collector, S("/usr/local/include/stdio.h"), BJP_TOOLCHAIN);
	bjp_collect_known(b.collector, S("/usr/include/stdio.h"), BJP_TOOLCHAIN);
	bjp_collect_known(b.collector, S("/usr/include/lost.h"), BJP_TOOLCHAIN);
	bjp_collect_known(b.collector, S("/usr/include/lost.h"), BJP_TOOLCHAIN);
	bjp_collect_known(b.collector, S("/exec/elsewhere/lost.h"), BJP_UNDECLARED);
	try_it(&b, READ, "open", "/usr/include/other.h", -1);
	judge(&b);
	expect_str(only(&b, BJP_MISSING_CANDIDATE)->path, "/exec/inc1/lost.h", "lost");
	bench_end(&b);
}

static void candidates_are_bounded_and_ranked(void **state)
{
	(void)state;
	struct bench b;
	start_failed(&b);
	for (int i = 0; i < 40; i++) {
		struct bjp_attempt a = attempt(READ, "open", "", ENOENT);
		a.path = bj_str_of(
			bj_arena_printf(&b.arena, "/exec/t/%02d%s", i, i == 3 ? ".h" : ""));
		a.time_ns = (uint64_t)i;
		bjp_collect(b.collector, &a);
	}
	judge(&b);
	assert_int_equal(b.report.n_records, 16);
	expect_str(b.report.records[0].path, "/exec/t/03.h", "looks like a source, so it stays");
	expect_str(b.report.records[1].path, "/exec/t/25", "then those tried last");
	expect_str(b.report.records[15].path, "/exec/t/39", "the very last");
	assert_int_equal(b.report.counters.absent, 24);
	bench_end(&b);
}

/*
 * Ignore lists: the report, never the wall (vx-47); globs, not parts of a command line (vx-48); every spelling (vx-50); matched
 * when judged, so that files made later are covered (vx-55).
 */

static void ignore_lists_vx_47_48_50_55(void **state)
{
	(void)state;
	static const struct {
		const char *reason, *pattern;
		enum bjp_access access;
		const char *written, *path, *resolved;
		bool ignored;
	} rows[] = {
		{ "absolute", "/exec/t/secret.h", READ, "x", "/exec/t/secret.h", "", true },
		{ "from the input root", "t/*.h", READ, "x", "/exec/t/secret.h", "", true },
		{ "as written", "./secret.h", READ, "./secret.h", "/exec/t/secret.h", "", true },
		{ "where the link leads", "secret/x.h", READ, "x", "/exec/t/astray", "", true },
		{ "how it was spelled", "t/astray", READ, "x", "/exec/t/astray", "", true },
		{ "a subtree", "t/**", READ, "x", "/exec/t/secret.h", "", true },
		{ "another path", "t/other.h", READ, "x", "/exec/t/secret.h", "", false },
		{ "a host path", "/etc/**", READ, "x", "/etc/hostname", "", true },
		{ "a relative pattern is no host path", "etc/**", READ, "x", "/etc/hostname", "",
		  false },
		{ "reads do not silence writes", "**", WRITE, "x", "/exec/t/a.c", "", false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		struct bj_str pattern = bj_str_of(rows[i].pattern);
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.settings.ignore_read = &pattern;
		b.settings.n_ignore_read = 1;
		struct bjp_attempt a = attempt(rows[i].access, "open", rows[i].path, ENOENT);
		a.error = rows[i].access == WRITE ? EACCES : ENOENT;
		a.written = bj_str_of(rows[i].written);
		bjp_collect(b.collector, &a);
		bjp_collect(b.collector, &a);
		judge(&b);
		if (b.report.n_records != (rows[i].ignored ? 0u : 1u) ||
		    b.report.counters.ignored != (rows[i].ignored ? 2u : 0u))
			fail_msg("%s: %zu records, %d ignored", rows[i].reason, b.report.n_records,
				 (int)b.report.counters.ignored);
		assert_int_equal(b.report.has_unignored, !rows[i].ignored);
		bench_end(&b);
	}
}

/* vx-102: reads and writes are told apart, so one list silences one of them. */
static void writes_and_candidates_have_their_lists_vx_102(void **state)
{
	(void)state;
	struct bj_str pattern = S("t/**");
	struct bench b;
	start_failed(&b);
	b.settings.ignore_write = b.settings.ignore_read = &pattern;
	b.settings.n_ignore_write = b.settings.n_ignore_read = 1;
	try_it(&b, WRITE, "open for writing", "/exec/t/a.c", EACCES);
	bjp_collect_undeclared_output(b.collector, S("t/made"), 5);
	bjp_collect_undeclared_output(b.collector, S("u/made"), 5);
	try_it(&b, READ, "open", "/exec/t/nowhere.h", ENOENT);
	judge(&b);
	expect_str(only(&b, BJP_UNDECLARED_OUTPUT)->path, "/exec/u/made", "outside the list");
	assert_int_equal(b.report.counters.ignored, 2);
	assert_int_equal(b.report.counters.absent, 1); /* a silenced guess is what it was */
	bench_end(&b);
}

static void ignored_addresses(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *address;
		uint16_t port;
		bool ignored;
	} rows[] = {
		{ "192.0.2.1", "192.0.2.1", 80, true },
		{ "192.0.2.1", "192.0.2.10", 80, false },
		{ "192.0.2.1:80", "192.0.2.1", 80, true },
		{ "192.0.2.1:81", "192.0.2.1", 80, false },
		{ "*:53", "198.51.100.7", 53, true },
		{ "*:53", "198.51.100.7", 54, false },
		{ "*", "198.51.100.7", 54, true },
		{ "[2001:db8::1]:443", "2001:db8::1", 443, true },
		{ "[2001:db8::1]:443", "2001:db8::1", 80, false },
		{ "[2001:db8::1]", "2001:DB8::1", 80, true },
		{ "2001:db8::1", "2001:db8::1", 80, true },
		{ "2001:db8::1", "2001:db8::2", 80, false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		struct bj_str pattern = bj_str_of(rows[i].pattern);
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.settings.ignore_network = &pattern;
		b.settings.n_ignore_network = 1;
		struct bjp_attempt a = attempt(READ, "connect", "", ENETUNREACH);
		bjp_collect_network(b.collector, &a, false, bj_str_of(rows[i].address),
				    rows[i].port);
		judge(&b);
		if (b.report.n_records != (rows[i].ignored ? 0u : 1u))
			fail_msg("%s against %s:%u", rows[i].pattern, rows[i].address,
				 rows[i].port);
		bench_end(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_joins_attempt_and_tree_vx_101),
		cmocka_unit_test(another_tree_is_a_hint_beside),
		cmocka_unit_test(evidence_may_know_the_spelling_only),
		cmocka_unit_test(alike_attempts_are_one_record_vx_99),
		cmocka_unit_test(hostile_bytes_stay_raw),
		cmocka_unit_test(a_path_search_that_hits_is_a_hint),
		cmocka_unit_test(no_hint_where_nothing_is),
		cmocka_unit_test(a_stat_before_an_exec_is_one_record),
		cmocka_unit_test(hints_are_bounded_and_sorted),
		cmocka_unit_test(a_failed_action_names_what_it_missed),
		cmocka_unit_test(no_candidates_when_it_passed_or_a_workspace_can_tell),
		cmocka_unit_test(steps_of_a_search_are_no_candidates),
		cmocka_unit_test(candidates_are_bounded_and_ranked),
		cmocka_unit_test(ignore_lists_vx_47_48_50_55),
		cmocka_unit_test(writes_and_candidates_have_their_lists_vx_102),
		cmocka_unit_test(ignored_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
