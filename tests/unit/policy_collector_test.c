// SPDX-License-Identifier: Apache-2.0
/* Bounds, order, memory. */
#include "policy_bench.h"

#include "executor/base/buf.h"

/* ---- bounds ---- */

static void records_are_sorted_and_bounded(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	for (int i = 299; i >= 0; i--)
		try_it(&b, CREATE, "create", bj_arena_printf(&b.arena, "/w%03d", i), EROFS);
	try_it(&b, CREATE, "create", "/usr/x", EROFS);
	try_it(&b, READ, "open", "/etc/hostname", ENOENT);
	try_it(&b, READ, "open", "/exec/t/secret.h", ENOENT);
	judge(&b);
	assert_int_equal(b.report.n_records, BJP_MAX_RECORDS);
	assert_int_equal(b.report.counters.dropped, 303 - BJP_MAX_RECORDS);
	expect_str(b.report.records[0].path, "/exec/t/secret.h", "kind, then zone");
	expect_str(b.report.records[1].path, "/etc/hostname", "host behind input root");
	expect_str(b.report.records[2].path, "/usr/x", "toolchain before host");
	expect_str(b.report.records[3].path, "/w000", "then by path");
	bench_end(&b);
}

/* vx-81: what does not fit is counted, never silently gone. */
static void candidates_are_bounded_and_counted_vx_81(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	char path[32];
	for (int i = 0; i < BJP_MAX_CANDIDATES + 10; i++) {
		snprintf(path, sizeof(path), "/exec/n%d", i);
		try_it(&b, READ, "open", path, ENOENT);
	}
	try_it(&b, READ, "open", "/exec/n0", ENOENT); /* known: still counted where it belongs */
	judge(&b);
	assert_int_equal(b.report.n_records, 0);
	assert_int_equal(b.report.counters.dropped, 10);
	assert_int_equal(b.report.counters.absent, BJP_MAX_CANDIDATES + 1);
	bench_end(&b);
}

static void long_paths_are_dropped_and_counted(void **state)
{
	(void)state;
	static char path[5000];
	struct bench b;
	memset(path, 'x', sizeof(path) - 1);
	memcpy(path, "/exec/", 6);
	bench_start(&b, BJP_WRITE_SCRATCH);
	try_it(&b, READ, "open", path, ENOENT);
	judge(&b);
	assert_int_equal(b.report.counters.dropped, 1);
	bench_end(&b);
}

static void no_evidence_function_is_no_evidence(void **state)
{
	(void)state;
	struct bench b;
	struct bj_err err = BJ_ERR_NULL;
	bench_start(&b, BJP_WRITE_SCRATCH);
	try_it(&b, READ, "open", "/etc/hostname", ENOENT);
	assert_int_equal(bjp_judge(b.collector, &b.outcome, NULL, NULL, &b.arena, &b.report, &err),
			 0);
	assert_int_equal(b.report.n_records, 0);
	assert_int_equal(b.report.counters.absent, 1);
	bjp_collector_free(NULL);
	bench_end(&b);
}

static void kind_names_are_those_of_the_wire(void **state)
{
	(void)state;
	static const char *const names[] = {
		"read_undeclared",   "exec_undeclared", "write_undeclared", "write_to_input",
		"undeclared_output", "missing_output",	"network",	    "unix_socket",
		"system_info",	     "syscall",		"stray_process",    "resource",
		"missing_candidate"
	};
	for (int i = 0; i < 13; i++)
		assert_string_equal(bjp_kind_name((enum bjp_kind)(i + 1)), names[i]);
}

/* ---- determinism: the same attempts in any order ---- */

enum { N_ATTEMPTS = 120 };

static struct bjp_attempt random_attempt(uint64_t *seed)
{
	static const char *const paths[] = {
		"/exec/t/secret.h",    "/exec/secret/x.h",	 "/exec/t/astray",
		"/etc/hostname",       "/exec/t/absolute",	 "/exec/tools/gen",
		"/home/u/bin/python3", "/usr/bin/python3",	 "/exec/t/a.c",
		"/exec/t/none.h",      "/exec/dirlink/secret.h", "/foo",
		"/etc/gitconfig",      "/exec/t/link",		 "/var/lib/data"
	};
	static const struct {
		enum bjp_access access;
		const char *operation;
	} ops[] = { { READ, "open" },	  { READ, "readlink" },	 { STAT, "stat" },
		    { EXEC, "exec" },	  { WRITE, "truncate" }, { CREATE, "mkdir" },
		    { CREATE, "create" }, { REMOVE, "unlink" },	 { META, "chmod" } };
	static const int errors[] = { ENOENT, ENOENT, EACCES, EROFS, 0, -1 };
	static const char *const exes[] = { "/usr/bin/git", "/usr/bin/cat", "/usr/bin/python3" };
	size_t op = next_random(seed) % BJ_ARRAY_LEN(ops);
	struct bjp_attempt a = attempt(ops[op].access, ops[op].operation,
				       paths[next_random(seed) % BJ_ARRAY_LEN(paths)],
				       errors[next_random(seed) % BJ_ARRAY_LEN(errors)]);
	a.exe = bj_str_of(exes[next_random(seed) % BJ_ARRAY_LEN(exes)]);
	if (next_random(seed) % 2)
		a.written = bj_str_sub(a.path, 1, a.path.len);
	a.pid = next_random(seed) % 5;
	a.time_ns = next_random(seed) % 50;
	return a;
}

/* The report as text, without what belongs to the process that came first. */
static struct bj_str report_text(const struct bench *b, struct bj_arena *arena)
{
	bj_cleanup(bj_buf_deinit) struct bj_buf buf = BJ_BUF_INIT(1 << 20);
	for (size_t i = 0; i < b->report.n_records; i++) {
		const struct bjp_record *r = &b->report.records[i];
		bj_buf_printf(&buf, "%s %s %.*s|%.*s|%.*s %d%d%d %d %u x%u n=%.*s h=%.*s t=%u\n",
			      bjp_kind_name(r->kind), r->operation, BJ_STR_FMT(r->path),
			      BJ_STR_FMT(r->resolved), BJ_STR_FMT(r->written), r->on_host,
			      r->in_workspace, r->enforced, r->error, r->zone, (unsigned)r->count,
			      BJ_STR_FMT(r->nearest), BJ_STR_FMT(r->hint), (unsigned)r->first_ns);
	}
	for (size_t i = 0; i < b->report.n_hints; i++)
		bj_buf_printf(&buf, "%.*s\n", BJ_STR_FMT(b->report.hints[i]));
	bj_buf_printf(&buf, "%u %u %u %u %d", (unsigned)b->report.counters.absent,
		      (unsigned)b->report.counters.noise, (unsigned)b->report.counters.ignored,
		      (unsigned)b->report.counters.quiet_writes, b->report.has_unignored);
	return bj_arena_str(arena, bj_buf_str(&buf));
}

static void the_order_of_attempts_does_not_matter(void **state)
{
	(void)state;
	uint64_t seed = 9;
	for (int round = 0; round < 60; round++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bjp_attempt attempts[N_ATTEMPTS];
		struct bj_str want = BJ_STR_NULL;
		for (size_t i = 0; i < N_ATTEMPTS; i++)
			attempts[i] = random_attempt(&seed);
		for (int order = 0; order < 4; order++) {
			struct bench b;
			bench_start(&b, round % 2 ? BJP_WRITE_STRICT : BJP_WRITE_SCRATCH);
			b.outcome = (struct bjp_outcome){ round % 3 != 0, round % 5 != 0 };
			for (size_t i = 0; i < N_ATTEMPTS; i++)
				bjp_collect(b.collector, &attempts[i]);
			judge(&b);
			struct bj_str got = report_text(&b, &arena);
			if (order == 0)
				want = got;
			assert_true(want.len > 100);
			if (!bj_str_eq(got, want))
				fail_msg("round %d:\n%s\n----\n%s", round, got.ptr, want.ptr);
			bench_end(&b);
			shuffle(attempts, N_ATTEMPTS, sizeof(attempts[0]), &seed);
		}
	}
}

/* ---- memory ---- */

static void collect_a_bit_of_everything(struct bench *b)
{
	try_it(b, READ, "open", "/etc/hostname", ENOENT);
	try_it(b, READ, "open", "/exec/dirlink/secret.h", ENOENT);
	try_it(b, READ, "open", "/exec/t/nowhere.h", ENOENT);
	try_it(b, EXEC, "exec", "/home/u/bin/python3", ENOENT);
	try_it(b, EXEC, "exec", "/usr/bin/python3", 0);
	try_it(b, CREATE, "mkdir", "/foo", EROFS);
	struct bjp_attempt a = attempt(READ, "connect", "", ENETUNREACH);
	bjp_collect_network(b->collector, &a, false, S("192.0.2.1"), 80);
	a = attempt(READ, "connect", "/run/docker.sock", ENOENT);
	bjp_collect_network(b->collector, &a, true, S(""), 0);
	bjp_collect_syscall(b->collector, &a, "bpf");
	bjp_collect_known(b->collector, S("/usr/include/stdio.h"), BJP_TOOLCHAIN);
	bjp_collect_undeclared_output(b->collector, S("x"), 1);
	bjp_collect_missing_output(b->collector, S("gen/x"));
	bjp_collect_stray(b->collector, 1, S("a"), S("b"));
	bjp_collect_resource(b->collector, "disk", S("full"));
	bjp_collect_explainer(b->collector, S("e"));
}

static void each_allocation_fails_once(void **state)
{
	(void)state;
	size_t n_failed = 0;
	for (uint64_t n = 0;; n++) {
		struct bench b;
		struct bj_err err = BJ_ERR_NULL;
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.outcome = (struct bjp_outcome){ true, false };
		bjp_collector_free(b.collector);
		b.collector = NULL;
		bj_alloc_fail_after(n);
		int r = bjp_collector_new(b.policy, &b.settings, &b.collector, &err);
		if (r == 0) {
			collect_a_bit_of_everything(&b);
			r = bjp_judge(b.collector, &b.outcome, look, &b.world, &b.arena, &b.report,
				      &err);
		}
		bool hit = bj_alloc_fail_disarm();
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(bj_err_is_set(&err), r < 0);
		n_failed += r < 0;
		bench_end(&b);
		if (!hit) {
			assert_int_equal(r, 0);
			break;
		}
	}
	assert_true(n_failed >= 3); /* the collector and both tables of the judge */
}

static void a_small_arena_for_the_report_fails_cleanly(void **state)
{
	(void)state;
	size_t n_failed = 0;
	for (size_t cap = 64; cap < 12000; cap += 64) {
		struct bench b;
		struct bj_err err = BJ_ERR_NULL;
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.outcome = (struct bjp_outcome){ true, false };
		collect_a_bit_of_everything(&b);
		bj_cleanup(bj_arena_cleanup) struct bj_arena small;
		bj_arena_init(&small, cap);
		struct bjp_report report = { .n_records = 99 };
		int r = bjp_judge(b.collector, &b.outcome, look, &b.world, &small, &report, &err);
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(report.n_records == 99, r < 0); /* untouched on failure */
		n_failed += r < 0;
		bench_end(&b);
	}
	assert_true(n_failed > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_sorted_and_bounded),
		cmocka_unit_test(candidates_are_bounded_and_counted_vx_81),
		cmocka_unit_test(long_paths_are_dropped_and_counted),
		cmocka_unit_test(no_evidence_function_is_no_evidence),
		cmocka_unit_test(kind_names_are_those_of_the_wire),
		cmocka_unit_test(the_order_of_attempts_does_not_matter),
		cmocka_unit_test(each_allocation_fails_once),
		cmocka_unit_test(a_small_arena_for_the_report_fails_cleanly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
