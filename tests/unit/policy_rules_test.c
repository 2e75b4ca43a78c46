// SPDX-License-Identifier: Apache-2.0
/* Design §3.3, rule by rule: what an attempt becomes, given what is declared and what evidence says. */
#include "policy_bench.h"

/* ---- the table: rule, request, verdict, reason ---- */

enum count { NOTHING, ABSENT, NOISE, QUIET };

static const struct rule {
	const char *reason;
	bool strict;
	enum bjp_access access;
	const char *operation, *path;
	int error;
	bool is_dir;
	int kind;		 /* 0: no record, and the attempt is counted as `count` */
	const char *record_path; /* NULL: the path */
	bool enforced;
	enum count count;
} rules[] = {
	/* reads: a probe is no violation, evidence makes one */
	{ "the workspace has it", 0, READ, "open", "/exec/t/secret.h", ENOENT, 0,
	  BJP_READ_UNDECLARED, NULL, 1, 0 },
	{ "the host has it", 0, READ, "open", "/etc/hostname", ENOENT, 0, BJP_READ_UNDECLARED, NULL,
	  1, 0 },
	{ "the home is the host's (vx-112)", 0, READ, "open", "/home/u/.ssh/id", ENOENT, 0,
	  BJP_READ_UNDECLARED, NULL, 1, 0 },
	{ "an anchor holds it", 0, READ, "open", "/srv/secret/key", ENOENT, 0, BJP_READ_UNDECLARED,
	  NULL, 1, 0 },
	{ "a stat of a file is enough", 0, STAT, "stat", "/etc/hostname", ENOENT, 0,
	  BJP_READ_UNDECLARED, NULL, 1, 0 },
	{ "vx-95: EACCES", 0, READ, "open", "/etc/hostname", EACCES, 0, BJP_READ_UNDECLARED, NULL,
	  1, 0 },
	{ "vx-95: ENOTDIR", 0, READ, "open", "/etc/hostname", ENOTDIR, 0, BJP_READ_UNDECLARED, NULL,
	  1, 0 },
	{ "vx-95: ELOOP", 0, READ, "open", "/etc/hostname", ELOOP, 0, BJP_READ_UNDECLARED, NULL, 1,
	  0 },
	{ "outcome unknown", 0, READ, "open", "/etc/hostname", -1, 0, BJP_READ_UNDECLARED, NULL, 0,
	  0 },
	{ "it is nowhere", 0, READ, "open", "/exec/t/nowhere.h", ENOENT, 0, 0, NULL, 0, ABSENT },
	{ "vx-98: nowhere on the host", 0, READ, "open", "/etc/nothing.conf", ENOENT, 0, 0, NULL, 0,
	  ABSENT },
	{ "another tree is a hint, no verdict", 0, READ, "open", "/exec/t/foreign.h", ENOENT, 0, 0,
	  NULL, 0, ABSENT },
	{ "a directory is no evidence", 0, STAT, "stat", "/home/u", ENOENT, 0, 0, NULL, 0, ABSENT },
	{ "a directory of the workspace neither", 0, STAT, "stat", "/exec/t/subdir", ENOENT, 0, 0,
	  NULL, 0, ABSENT },
	{ "the action made it itself", 0, READ, "open", "/exec/t/made.h", 0, 0, 0, NULL, 0,
	  NOTHING },
	{ "inside though no root: quiet", 0, READ, "open", "/etc/hostname", 0, 0, 0, NULL, 0,
	  NOTHING },
	{ "a directory that is there", 0, STAT, "stat", "/opt", ENOENT, 1, 0, NULL, 0, NOTHING },
	{ "declared", 0, READ, "open", "/exec/t/a.c", 0, 0, 0, NULL, 0, NOTHING },
	{ "declared, removed by the action", 0, READ, "open", "/exec/t/a.c", ENOENT, 0, 0, NULL, 0,
	  NOTHING },
	{ "an output not made yet", 0, STAT, "stat", "/exec/bazel-out/k8/bin/t/a.o", ENOENT, 0, 0,
	  NULL, 0, NOTHING },
	{ "scratch", 0, READ, "open", "/exec/_tmp/0123/x", ENOENT, 0, 0, NULL, 0, NOTHING },
	{ "the toolchain is the host's own", 0, READ, "open", "/usr/include/none.h", ENOENT, 0, 0,
	  NULL, 0, NOTHING },
	{ "private /tmp: nowhere", 0, READ, "open", "/tmp/x", ENOENT, 0, 0, NULL, 0, ABSENT },
	{ "private /tmp: the host's has it", 0, READ, "open", "/tmp/golden", ENOENT, 0,
	  BJP_READ_UNDECLARED, NULL, 1, 0 },
	{ "its own in /tmp", 0, READ, "open", "/tmp/golden", 0, 0, 0, NULL, 0, NOTHING },
	{ "the rest of the system", 0, READ, "open", "/proc/nothing", ENOENT, 0, 0, NULL, 0,
	  NOTHING },
	/* declared links that lead astray (vx-51, vx-52): the record has the path that evidence has */
	{ "a link to an undeclared file", 0, READ, "open", "/exec/t/astray", ENOENT, 0,
	  BJP_READ_UNDECLARED, "/exec/secret/x.h", 1, 0 },
	{ "the same through a directory link", 0, READ, "open", "/exec/dirlink/astray", ENOENT, 0,
	  BJP_READ_UNDECLARED, "/exec/secret/x.h", 1, 0 },
	{ "a link to the host", 0, READ, "open", "/exec/t/absolute", ENOENT, 0, BJP_READ_UNDECLARED,
	  "/etc/hostname", 1, 0 },
	{ "a link within the inputs", 0, READ, "open", "/exec/t/link", 0, 0, 0, NULL, 0, NOTHING },
	{ "undeclared behind a directory link", 0, READ, "open", "/exec/dirlink/secret.h", ENOENT,
	  0, BJP_READ_UNDECLARED, "/exec/t/secret.h", 1, 0 },
	/* exec */
	{ "a tool of the workspace", 0, EXEC, "exec", "/exec/tools/gen", ENOENT, 0,
	  BJP_EXEC_UNDECLARED, NULL, 1, 0 },
	{ "a tool of the host", 0, EXEC, "exec", "/home/u/bin/mytool", ENOENT, 0,
	  BJP_EXEC_UNDECLARED, NULL, 1, 0 },
	{ "no such tool anywhere", 0, EXEC, "exec", "/usr/local/x/mytool2", ENOENT, 0, 0, NULL, 0,
	  NOTHING },
	/* writes to inputs */
	{ "refused by the wall", 0, WRITE, "open for writing", "/exec/t/a.c", EACCES, 0,
	  BJP_WRITE_TO_INPUT, NULL, 1, 0 },
	{ "a private copy", 0, WRITE, "open for writing", "/exec/t/a.c", 0, 0, BJP_WRITE_TO_INPUT,
	  NULL, 0, 0 },
	{ "through a link", 0, WRITE, "open for writing", "/exec/t/link", EACCES, 0,
	  BJP_WRITE_TO_INPUT, "/exec/t/b.h", 1, 0 },
	{ "truncated", 0, WRITE, "truncate", "/exec/t/a.c", EROFS, 0, BJP_WRITE_TO_INPUT, NULL, 1,
	  0 },
	{ "O_CREAT of what is there", 0, CREATE, "create", "/exec/t/a.c", EACCES, 0,
	  BJP_WRITE_TO_INPUT, NULL, 1, 0 },
	{ "replaced by rename", 0, CREATE, "rename to", "/exec/t/a.c", 0, 0, BJP_WRITE_TO_INPUT,
	  NULL, 0, 0 },
	{ "a link replaced, not followed", 0, CREATE, "rename to", "/exec/t/link", 0, 0,
	  BJP_WRITE_TO_INPUT, NULL, 0, 0 },
	{ "removed", 0, REMOVE, "unlink", "/exec/t/a.c", 0, 0, BJP_WRITE_TO_INPUT, NULL, 0, 0 },
	{ "a link removed, not followed", 0, REMOVE, "unlink", "/exec/t/link", 0, 0,
	  BJP_WRITE_TO_INPUT, NULL, 0, 0 },
	{ "renamed away", 0, REMOVE, "rename from", "/exec/t/a.c", 0, 0, BJP_WRITE_TO_INPUT, NULL,
	  0, 0 },
	{ "mode changed", 0, META, "chmod", "/exec/t/a.c", EPERM, 0, BJP_WRITE_TO_INPUT, NULL, 1,
	  0 },
	{ "removed twice", 0, REMOVE, "unlink", "/exec/t/a.c", ENOENT, 0, 0, NULL, 0, QUIET },
	{ "times are no part of a result", 0, META, "set times", "/exec/t/a.c", 0, 0, 0, NULL, 0,
	  NOISE },
	{ "mkdir -p over the tree", 0, CREATE, "mkdir", "/exec/t", EEXIST, 0, 0, NULL, 0, NOISE },
	{ "mode of a directory", 0, META, "chmod", "/exec/t", 0, 0, 0, NULL, 0, QUIET },
	{ "rmdir of what is not empty", 0, REMOVE, "rmdir", "/exec/t", ENOTEMPTY, 0, 0, NULL, 0,
	  QUIET },
	{ "rmdir of an input directory", 0, REMOVE, "rmdir", "/exec/t/empty", 0, 0,
	  BJP_WRITE_TO_INPUT, NULL, 0, 0 },
	{ "input and output: its own copy", 0, WRITE, "open for writing", "/exec/t/both.txt", 0, 0,
	  0, NULL, 0, QUIET },
	{ "input below an output (L18)", 0, REMOVE, "unlink", "/exec/bazel-out/k8/bin/t/tree/old",
	  0, 0, 0, NULL, 0, QUIET },
	/* writes elsewhere in the input root */
	{ "an output (vx-89)", 0, CREATE, "create", "/exec/bazel-out/k8/bin/t/a.o", 0, 0, 0, NULL,
	  0, QUIET },
	{ "beside an output (vx-58)", 0, CREATE, "create", "/exec/bazel-out/k8/bin/t/a.o.tmp", 0, 0,
	  0, NULL, 0, QUIET },
	{ "named by the environment", 0, CREATE, "mkdir", "/exec/_tmp/0123", 0, 0, 0, NULL, 0,
	  QUIET },
	{ "scratch mode: seen at the end", 0, CREATE, "create", "/exec/x.tmp", 0, 0, 0, NULL, 0,
	  QUIET },
	{ "strict: refused", 1, CREATE, "create", "/exec/x.tmp", EROFS, 0, BJP_WRITE_UNDECLARED,
	  NULL, 1, 0 },
	{ "strict: mkdir refused", 1, CREATE, "mkdir", "/exec/gen/other", EROFS, 0,
	  BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ "strict: beside an output", 1, CREATE, "create", "/exec/gen/deep/x", 0, 0, 0, NULL, 0,
	  QUIET },
	{ "strict: its parent is missing", 1, CREATE, "create", "/exec/none/x", ENOENT, 0, 0, NULL,
	  0, QUIET },
	{ "strict: scratch of the environment", 1, CREATE, "create", "/exec/_tmp/0123/x", 0, 0, 0,
	  NULL, 0, QUIET },
	{ "strict: an input is an input", 1, WRITE, "open for writing", "/exec/t/a.c", EROFS, 0,
	  BJP_WRITE_TO_INPUT, NULL, 1, 0 },
	/* writes outside (bug log L125) */
	{ "mkdir /foo", 0, CREATE, "mkdir", "/foo", EROFS, 0, BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ ": > /etc/x", 0, CREATE, "create", "/etc/x", EROFS, 0, BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ "a cache in the home", 0, CREATE, "mkdir", "/home/u/.cache", ENOENT, 0,
	  BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ "into the toolchain", 0, CREATE, "create", "/usr/lib/x", EROFS, 0, BJP_WRITE_UNDECLARED,
	  NULL, 1, 0 },
	{ "mkdir -p /usr/lib", 0, CREATE, "mkdir", "/usr/lib", EEXIST, 0, 0, NULL, 0, NOISE },
	{ "through a declared link to the host (vx-118)", 0, CREATE, "create", "/exec/t/absolute",
	  EROFS, 0, BJP_WRITE_UNDECLARED, "/etc/hostname", 1, 0 },
	{ "mkdir of what is there, whatever is said", 0, CREATE, "mkdir", "/usr/lib", EROFS, 1, 0,
	  NULL, 0, NOISE },
	{ "rm -f of what is nowhere", 0, REMOVE, "unlink", "/var/lib/none", ENOENT, 0, 0, NULL, 0,
	  ABSENT },
	{ "rm -f of what the host has", 0, REMOVE, "unlink", "/var/lib/data", ENOENT, 0,
	  BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ "a lock that the host has", 0, WRITE, "open for writing", "/var/lib/data", ENOENT, 0,
	  BJP_WRITE_UNDECLARED, NULL, 1, 0 },
	{ "rm of a tool", 0, REMOVE, "unlink", "/usr/bin/gcc", EROFS, 0, BJP_WRITE_UNDECLARED, NULL,
	  1, 0 },
	{ "/tmp is private", 0, CREATE, "create", "/tmp/x", 0, 0, 0, NULL, 0, QUIET },
	{ "/dev/shm is private", 0, CREATE, "create", "/dev/shm/x", 0, 0, 0, NULL, 0, QUIET },
	{ "/dev/null keeps nothing", 0, WRITE, "open for writing", "/dev/null", 0, 0, 0, NULL, 0,
	  NOISE },
	{ "/dev/tty", 0, WRITE, "open for writing", "/dev/tty", ENXIO, 0, 0, NULL, 0, NOISE },
	{ "its own /proc", 0, WRITE, "open for writing", "/proc/self/oom_score_adj", 0, 0, 0, NULL,
	  0, NOISE },
	{ "Python beside its sources", 0, CREATE, "mkdir", "/usr/lib/python3/__pycache__", EROFS, 0,
	  0, NULL, 0, NOISE },
	{ "another device", 0, CREATE, "mknod", "/dev/sda", EPERM, 0, BJP_WRITE_UNDECLARED, NULL, 1,
	  0 },
	/* noise, each with its reason in noise.c (vx-15) */
	{ "login shells", 0, READ, "open", "/etc/profile", ENOENT, 0, 0, NULL, 0, NOISE },
	{ "the loader", 0, STAT, "access", "/etc/ld.so.preload", ENOENT, 0, 0, NULL, 0, NOISE },
	{ "JVM and node count cpus", 0, READ, "open", "/sys/fs/cgroup/cpu.max", ENOENT, 0, 0, NULL,
	  0, NOISE },
	{ "Python's cache", 0, READ, "open", "/exec/t/__pycache__/m.cpython-311.pyc", ENOENT, 0, 0,
	  NULL, 0, NOISE },
};

static void check_counts(const struct rule *rule, const struct bjp_counters *c)
{
	uint64_t want[] = { rule->count == ABSENT, rule->count == NOISE, rule->count == QUIET };
	if (c->absent != want[0] || c->noise != want[1] || c->quiet_writes != want[2])
		fail_msg("%s (%s %s): absent %d, noise %d, quiet %d", rule->reason, rule->operation,
			 rule->path, (int)c->absent, (int)c->noise, (int)c->quiet_writes);
	assert_int_equal(c->ignored + c->dropped, 0);
}

static void check_rule(const struct rule *rule, const struct bench *b)
{
	const struct bjp_report *report = &b->report;
	if (report->n_records != (rule->kind ? 1u : 0u))
		fail_msg("%s (%s %s): %zu records", rule->reason, rule->operation, rule->path,
			 report->n_records);
	check_counts(rule, &report->counters);
	assert_int_equal(report->has_unignored, rule->kind != 0);
	if (!rule->kind)
		return;
	const struct bjp_record *r = &report->records[0];
	if ((int)r->kind != rule->kind || r->enforced != rule->enforced)
		fail_msg("%s (%s %s): %s, enforced %d", rule->reason, rule->operation, rule->path,
			 bjp_kind_name(r->kind), r->enforced);
	expect_str(r->path, rule->record_path ? rule->record_path : rule->path, rule->reason);
	expect_str(r->written, rule->path, rule->reason);
	assert_string_equal(r->operation, rule->operation);
	assert_int_equal(r->error, rule->error > 0 ? rule->error : 0);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->zone, bjp_zone(b->policy, r->path));
	assert_true(r->hint.len > 0);
}

/* What the kernel says about where a path leads beats what the declared links say. */
static void the_kernels_own_resolution_counts(void **state)
{
	(void)state;
	static const struct {
		enum bjp_access access;
		const char *operation, *path, *resolved;
		int error, kind;
		const char *record_path;
	} rows[] = {
		{ WRITE, "open for writing", "/exec/own-link", "/exec/t/a.c", EACCES,
		  BJP_WRITE_TO_INPUT, "/exec/t/a.c" },
		{ REMOVE, "unlink", "/exec/own-link", "/exec/t/a.c", 0, 0, NULL },
		{ CREATE, "rename to", "/exec/own-link", "/exec/t/a.c", 0, 0, NULL },
		{ WRITE, "open for writing", "/exec/own-link", "/usr/lib/x", EROFS,
		  BJP_WRITE_UNDECLARED, "/usr/lib/x" },
		{ READ, "open", "/exec/t/astray", "/exec/t/b.h", EACCES, 0, NULL },
		{ READ, "open", "/exec/own-link", "/etc/hostname", EACCES, BJP_READ_UNDECLARED,
		  "/etc/hostname" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		struct bjp_attempt a =
			attempt(rows[i].access, rows[i].operation, rows[i].path, rows[i].error);
		a.resolved = bj_str_of(rows[i].resolved);
		bjp_collect(b.collector, &a);
		judge(&b);
		if (b.report.n_records != (rows[i].kind ? 1u : 0u))
			fail_msg("%s %s -> %s: %zu records", rows[i].operation, rows[i].path,
				 rows[i].resolved, b.report.n_records);
		if (rows[i].kind) {
			const struct bjp_record *r = only(&b, (enum bjp_kind)rows[i].kind);
			expect_str(r->path, rows[i].record_path, rows[i].operation);
			expect_str(r->resolved, rows[i].resolved, rows[i].operation);
			expect_str(r->written, rows[i].path, rows[i].operation);
		}
		bench_end(&b);
	}
}

static void rules_table_vx_15_51_52_58_95_98(void **state)
{
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rules); i++) {
		struct bench b;
		bench_start(&b, rules[i].strict ? BJP_WRITE_STRICT : BJP_WRITE_SCRATCH);
		struct bjp_attempt a =
			attempt(rules[i].access, rules[i].operation, rules[i].path, rules[i].error);
		a.is_dir = rules[i].is_dir;
		bjp_collect(b.collector, &a);
		judge(&b);
		check_rule(&rules[i], &b);
		bench_end(&b);
	}
}

/* ---- noise that belongs to a program ---- */

static void noise_of_one_program_is_not_noise_of_another(void **state)
{
	(void)state;
	struct bench b;
	bench_start(&b, BJP_WRITE_SCRATCH);
	struct bjp_attempt a = attempt(READ, "open", "/etc/gitconfig", ENOENT);
	a.exe = S("/usr/bin/git");
	bjp_collect(b.collector, &a);
	bjp_collect(b.collector, &a);
	a.exe = S("/usr/bin/cat");
	a.pid = 44;
	bjp_collect(b.collector, &a);
	judge(&b);
	const struct bjp_record *r = only(&b, BJP_READ_UNDECLARED);
	assert_int_equal(r->count, 1);
	assert_int_equal(r->pid, 44);
	assert_int_equal(b.report.counters.noise, 2);
	bench_end(&b);
}

static void noise_alone_leaves_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *path, *exe;
		bool noise;
	} rows[] = {
		{ "/etc/gitconfig", "/usr/bin/git", true },
		{ "/etc/os-release", "/usr/lib/llvm-14/bin/clang", true },
		{ "/etc/os-release", "/usr/bin/cat", false },
		{ "/usr/lib/x/glibc-hwcaps/v3/libc.so.6", "/usr/bin/cat", false }, /* toolchain */
		{ "/opt/lib/glibc-hwcaps/x86-64-v3/libz.so", "/usr/bin/cat", true },
		{ "/home/u/.terminfo/x/xterm", "/usr/bin/cat", true },
		{ "/etc/terminfo/x/xterm", "/usr/bin/cat", true },
		{ "/run/.containerenv", "/usr/bin/node", true },
		{ "/var/run/.containerenv", "/usr/bin/node", true },
		{ "/var/runx/.containerenv", "/usr/bin/node", false },
		{ "/etc/hostname", "/usr/bin/node", false },
		{ "/home/u/.bashrc", "/bin/bash", false }, /* what a home holds changes results */
		{ "/home/u/.gitconfig", "/usr/bin/git", false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bench b;
		bench_start(&b, BJP_WRITE_SCRATCH);
		struct bjp_attempt a = attempt(READ, "open", rows[i].path, ENOENT);
		a.exe = bj_str_of(rows[i].exe);
		bjp_collect(b.collector, &a);
		judge(&b);
		if (b.report.counters.noise != rows[i].noise)
			fail_msg("%s by %s", rows[i].path, rows[i].exe);
		bench_end(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernels_own_resolution_counts),
		cmocka_unit_test(rules_table_vx_15_51_52_58_95_98),
		cmocka_unit_test(noise_of_one_program_is_not_noise_of_another),
		cmocka_unit_test(noise_alone_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
