// SPDX-License-Identifier: Apache-2.0
/* Network, sockets, system calls, and what is known when the action has ended. */
#include "policy_bench.h"

/* ---- network (vx-76, bug log L120) ---- */

static void network_table_vx_76(void **state)
{
	(void)state;
	static const struct {
		const char *operation, *address;
		int error;
		bool record, success;
	} rows[] = {
		{ "connect", "192.0.2.1", ENETUNREACH, true, false },
		{ "connect", "2001:db8::1", ENETUNREACH, true, false },
		{ "send", "8.8.8.8", ENETUNREACH, true, false },
		{ "connect", "192.0.2.1", 0, true, true },
		{ "connect", "192.0.2.1", EINPROGRESS, true, true },
		{ "connect", "192.0.2.1", -1, true, false },
		{ "connect", "127.0.0.1", 0, false, false },
		{ "connect", "127.9.9.9", ECONNREFUSED, false, false },
		{ "connect", "::1", 0, false, false },
		{ "connect", "::ffff:127.0.0.1", 0, false, false }, /* vx-75 */
		{ "connect", "::FFFF:127.0.0.1", 0, false, false },
		{ "connect", "::ffff:192.0.2.1", ENETUNREACH, true, false },
		{ "connect", "0.0.0.0", 0, false, false },
		{ "connect", "::", 0, false, false },
		{ "connect", "1270.0.0.1", ENETUNREACH, true, false },
		{ "bind", "192.0.2.1", EADDRNOTAVAIL, false, false },
		{ "connect", "", EAFNOSUPPORT, false, false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		struct bjp_attempt a = attempt(READ, rows[i].operation, "", rows[i].error);
		bjp_collect_network(b.collector, &a, false, bj_str_of(rows[i].address), 443);
		judge(&b);
		if (b.report.n_records != rows[i].record ||
		    b.report.network_success != rows[i].success)
			fail_msg("%s %s: %zu records, success %d", rows[i].operation,
				 rows[i].address, b.report.n_records, b.report.network_success);
		if (rows[i].record) {
			const struct bjp_record *r = only(&b, BJP_NETWORK);
			expect_str(r->address, rows[i].address, "address");
			assert_int_equal(r->port, 443);
			assert_int_equal(r->path.len, 0);
			assert_int_equal(r->zone, BJP_ZONE_HOST);
			assert_int_equal(r->enforced, rows[i].error > 0);
			assert_string_equal(r->ignore_list, "ignore.network");
		}
		bench_end(&b);
	}
}

static void network_is_joined_by_address_and_port(void **state)
{
	(void)state;
	static const char too_long[200];
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	struct bjp_attempt a = attempt(READ, "connect", "", ENETUNREACH);
	bjp_collect_network(b.collector, &a, false, S("192.0.2.1"), 80);
	bjp_collect_network(b.collector, &a, false, S("192.0.2.1"), 80);
	bjp_collect_network(b.collector, &a, false, S("192.0.2.1"), 81);
	bjp_collect_network(b.collector, &a, false, bj_str_n(too_long, sizeof(too_long)),
			    81); /* no address */
	judge(&b);
	assert_int_equal(b.report.n_records, 2);
	assert_int_equal(b.report.records[0].count, 2);
	assert_int_equal(b.report.counters.dropped, 1);
	bench_end(&b);
}

/* vx-40, vx-42, bug log L128: sockets of the host. */
static void unix_sockets_vx_40(void **state)
{
	(void)state;
	static const struct {
		const char *reason, *path, *address;
		int error;
		bool record, success;
	} rows[] = {
		{ "the host has it", "/run/docker.sock", "", ENOENT, true, false },
		{ "nobody has it", "/run/none.sock", "", ENOENT, false, false },
		{ "the name service cache", "/run/nscd/socket", "", ENOENT, false, false },
		{ "by its old name", "/var/run/nscd/socket", "", ENOENT, false, false },
		{ "its own", "/tmp/x.sock", "", 0, false, false },
		{ "abstract, nobody has it", "@/org/bus", "@/org/bus", ECONNREFUSED, false, false },
		{ "abstract, the host has it", "@/host/bus", "@/host/bus", ECONNREFUSED, true,
		  false },
		{ "abstract, its own", "@/host/bus", "@/host/bus", 0, false, false },
		{ "unnamed", "", "", 0, false, false },
		{ "a socket in a root answers: that is the host", "/usr/run/x.sock", "", 0, true,
		  true },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		struct bjp_attempt a = attempt(READ, "connect", rows[i].path, rows[i].error);
		bjp_collect_network(b.collector, &a, true, bj_str_of(rows[i].address), 0);
		judge(&b);
		if (b.report.n_records != rows[i].record ||
		    b.report.network_success != rows[i].success)
			fail_msg("%s: %zu records", rows[i].reason, b.report.n_records);
		if (rows[i].record) {
			const struct bjp_record *r = only(&b, BJP_UNIX_SOCKET);
			expect_str(r->path, rows[i].path, rows[i].reason);
			expect_str(r->address, rows[i].path, rows[i].reason);
		}
		bench_end(&b);
	}
}

/* A socket that is made is a write: judged by where. */
static void bound_sockets_are_writes(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		int error;
		bool record;
	} rows[] = { { "/run/x.sock", EROFS, true },
		     { "/tmp/x.sock", 0, false },
		     { "/exec/x.sock", 0, false },
		     { "@name", 0, false } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		struct bjp_attempt a = attempt(READ, "bind", rows[i].path, rows[i].error);
		bjp_collect_network(b.collector, &a, true, S(""), 0);
		judge(&b);
		assert_int_equal(b.report.n_records, rows[i].record);
		if (rows[i].record)
			expect_str(only(&b, BJP_WRITE_UNDECLARED)->path, rows[i].path, "path");
		bench_end(&b);
	}
}

static void ignored_sockets(void **state)
{
	(void)state;
	struct bj_str pattern = S("/run/*.sock");
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	b.settings.ignore_network = &pattern;
	b.settings.n_ignore_network = 1;
	struct bjp_attempt a = attempt(READ, "connect", "/run/docker.sock", ENOENT);
	bjp_collect_network(b.collector, &a, true, S(""), 0);
	judge(&b);
	assert_int_equal(b.report.n_records, 0);
	assert_int_equal(b.report.counters.ignored, 1);
	bench_end(&b);
}

/* ---- system calls and facts ---- */

/* vx-103: no list silences what has no list. */
static void refused_calls_leave_a_record_vx_103(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	struct bjp_attempt a = attempt(READ, "system call", "/ignored", ENOSYS);
	bjp_collect_syscall(b.collector, &a, "io_uring_setup");
	bjp_collect_syscall(b.collector, &a, "io_uring_setup");
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_SYSCALL);
	assert_string_equal(r->operation, "io_uring_setup");
	assert_int_equal(r->count, 2);
	assert_int_equal(r->path.len, 0);
	assert_int_equal(r->error, ENOSYS);
	assert_null(r->ignore_list);
	assert_true(b.report.has_unignored);
	bench_end(&b);
}

static void undeclared_outputs(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		bool record;
		uint64_t noise;
	} rows[] = {
		{ "t/x.tmp", true, 0 },
		{ "/exec/t/x.tmp", true, 0 },
		{ "t/__pycache__/m.pyc", false, 1 },
		{ "bazel-out/k8/bin/t/a.o", false, 0 },
		{ "_tmp/0123/x", false, 0 },
		{ "_tmp", false, 0 },
		{ "gen/deep", false, 0 },
		{ "t/a.c", false, 0 },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		bjp_collect_undeclared_output(b.collector, bj_str_of(rows[i].path), 12);
		judge(&b);
		if (b.report.n_records != rows[i].record ||
		    b.report.counters.noise != rows[i].noise)
			fail_msg("%s: %zu records", rows[i].path, b.report.n_records);
		if (rows[i].record) {
			const struct bjp_record *r = only(&b, BJP_UNDECLARED_OUTPUT);
			expect_str(r->path, "/exec/t/x.tmp", "path");
			assert_int_equal(r->size_bytes, 12);
			assert_string_equal(r->ignore_list, "ignore.write");
			assert_false(r->enforced);
		}
		bench_end(&b);
	}
}

/* Bazel's tests declare ten outputs that are often absent. */
static void missing_outputs_when_failed_or_nearly_made(void **state)
{
	(void)state;
	static const struct {
		const char *reason, *made;
		bool failed, record;
		const char *hint;
	} rows[] = {
		{ "passed: nothing to say", NULL, false, false, NULL },
		{ "failed", NULL, true, true, "" },
		{ "the same name elsewhere", "only.txt", false, true,
		  "you wrote only.txt instead" },
		{ "another ending", "gen/deep/only.md", false, true,
		  "you wrote gen/deep/only.md instead" },
		{ "another letter case", "gen/deep/ONLY.TXT", false, true,
		  "you wrote gen/deep/ONLY.TXT instead" },
		{ "something else", "gen/deep/other.txt", false, false, NULL },
		{ "another stem elsewhere", "gen/only.md", false, false, NULL },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.outcome.failed = rows[i].failed;
		bjp_collect_missing_output(b.collector, S("gen/deep/only.txt"));
		if (rows[i].made)
			bjp_collect_undeclared_output(b.collector, bj_str_of(rows[i].made), 1);
		judge(&b);
		const struct bjp_record *r = NULL;
		for (size_t j = 0; j < b.report.n_records; j++) {
			if (b.report.records[j].kind == BJP_MISSING_OUTPUT)
				r = &b.report.records[j];
		}
		if ((r != NULL) != rows[i].record)
			fail_msg("%s", rows[i].reason);
		if (r) {
			expect_str(r->path, "/exec/gen/deep/only.txt", rows[i].reason);
			expect_str(r->hint, rows[i].hint, rows[i].reason);
			expect_str(r->wanted, "gen/deep/only.txt", rows[i].reason);
			expect_str(r->found, rows[i].made ? rows[i].made : "", rows[i].reason);
			assert_false(r->wrong_kind);
			assert_null(r->ignore_list);
		}
		bench_end(&b);
	}
}

static void the_nearest_miss_is_the_first_by_name(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	bjp_collect_undeclared_output(b.collector, S("z/only.txt"), 1);
	bjp_collect_undeclared_output(b.collector, S("a/only.txt"), 1);
	bjp_collect_missing_output(b.collector, S("gen/deep/only.txt"));
	judge(&b);
	assert_int_equal(b.report.n_records, 3);
	expect_str(b.report.records[2].found, "a/only.txt", "found");
	assert_true(b.report.has_unignored);
	bench_end(&b);
}

/* Bug log L03: a directory where a file was declared. */
static void outputs_of_another_kind(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	bjp_collect_output_kind(b.collector, S("p/x"), "file", "directory");
	bjp_collect_missing_output(b.collector, S("p/x"));
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_MISSING_OUTPUT);
	expect_str(r->wanted, "file", "wanted");
	expect_str(r->found, "directory", "found");
	assert_true(r->wrong_kind);
	assert_false(b.report.has_unignored);
	bench_end(&b);
}

/* vx-82, bug log L59: strays are a record, with name and pid. */
static void strays_vx_82(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	bjp_collect_stray(b.collector, 9, S("sleep"), S("/bin/sleep"));
	bjp_collect_stray(b.collector, 7, S("sleep"), S("/bin/sleep"));
	bjp_collect_stray(b.collector, 8, S("sleep"), S("/bin/sleep"));
	bjp_collect_stray(b.collector, 5, S("daemon"), S(""));
	judge(&b);
	assert_int_equal(b.report.n_records, 2);
	const struct bjp_record *r = &b.report.records[0];
	assert_int_equal(r->kind, BJP_STRAY_PROCESS);
	expect_str(r->argv0, "/bin/sleep", "argv0");
	expect_str(r->comm, "sleep", "comm");
	assert_int_equal(r->pid, 7);
	assert_int_equal(r->count, 3);
	assert_int_equal(r->path.len, 0);
	expect_str(b.report.records[1].comm, "daemon", "second");
	assert_true(b.report.has_unignored);
	bench_end(&b);
}

/* Bug log L77, L78: named, and never a reason to fail. */
static void resources_do_not_count_for_failure(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	bjp_collect_resource(b.collector, "memory", S("limit 64 MiB"));
	bjp_collect_resource(b.collector, "memory", S("a limit"));
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_RESOURCE);
	assert_string_equal(r->operation, "memory");
	expect_str(r->hint, "a limit", "the first by name");
	assert_false(b.report.has_unignored);
	bench_end(&b);
}

/* vx-92, vx-93: explainers speak when there is nothing else to say, and change no verdict. */
static void explainers_vx_92_93(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		b.outcome.failed = i > 0;
		bjp_collect_explainer(b.collector, S("the interpreter /x of y is not an input"));
		for (int j = 0; j < 20; j++)
			bjp_collect_explainer(b.collector, S("z"));
		if (i == 2)
			try_it(&b, READ, "open", "/etc/hostname", ENOENT);
		judge(&b);
		assert_int_equal(b.report.n_hints, i == 1 ? 2 : 0);
		assert_int_equal(b.report.n_records, i == 2);
		assert_int_equal(b.report.has_unignored, i == 2);
		bench_end(&b);
	}
}

/* vx-85: a script whose interpreter is not there is told apart from a script that is not there. */
static void a_missing_interpreter_is_explained_vx_85(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	b.outcome.failed = true;
	struct bjp_attempt a = attempt(EXEC, "exec", "/usr/bin/python9", ENOENT);
	a.via = S("/exec/t/run.py");
	bjp_collect(b.collector, &a);
	bjp_collect(b.collector, &a);
	judge(&b);
	assert_int_equal(b.report.n_records, 0);
	assert_int_equal(b.report.n_hints, 1);
	expect_str(b.report.hints[0],
		   "the interpreter /usr/bin/python9 of /exec/t/run.py is not there", "hint");
	bench_end(&b);

	bench_start(&b, BJP_WRITE_SCRATCH);
	a.path = S("/home/u/bin/mytool");
	bjp_collect(b.collector, &a);
	judge(&b);
	expect_str(only(&b, BJP_EXEC_UNDECLARED)->path, "/home/u/bin/mytool", "the host has it");
	bench_end(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(network_table_vx_76),
		cmocka_unit_test(network_is_joined_by_address_and_port),
		cmocka_unit_test(unix_sockets_vx_40),
		cmocka_unit_test(bound_sockets_are_writes),
		cmocka_unit_test(ignored_sockets),
		cmocka_unit_test(refused_calls_leave_a_record_vx_103),
		cmocka_unit_test(undeclared_outputs),
		cmocka_unit_test(missing_outputs_when_failed_or_nearly_made),
		cmocka_unit_test(the_nearest_miss_is_the_first_by_name),
		cmocka_unit_test(outputs_of_another_kind),
		cmocka_unit_test(strays_vx_82),
		cmocka_unit_test(resources_do_not_count_for_failure),
		cmocka_unit_test(explainers_vx_92_93),
		cmocka_unit_test(a_missing_interpreter_is_explained_vx_85),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
