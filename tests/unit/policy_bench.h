// SPDX-License-Identifier: Apache-2.0
/**
 * policy_bench.h - one action under observation: collect, judge with evidence from a list, look at the report.
 */
#ifndef BJ_TESTS_UNIT_POLICY_BENCH_H
#define BJ_TESTS_UNIT_POLICY_BENCH_H

#include "policy_test_util.h"

#define READ BJP_ACCESS_READ
#define STAT BJP_ACCESS_STAT
#define EXEC BJP_ACCESS_EXEC
#define WRITE BJP_ACCESS_WRITE
#define CREATE BJP_ACCESS_CREATE
#define REMOVE BJP_ACCESS_REMOVE
#define META BJP_ACCESS_META

/* ---- evidence by a list of paths ---- */

enum { ON_HOST = 1, IN_WORKSPACE = 2, ON_ANCHOR = 4, OTHER_TREE = 8, A_DIR = 16 };

struct thing {
	const char *path;
	unsigned what;
};

struct world {
	const struct thing *things;
	size_t n_things;
	size_t n_asked;
};

/* What every test's world holds. */
static const struct thing common[] = {
	{ "/exec/t/secret.h", IN_WORKSPACE },
	{ "/exec/secret/x.h", IN_WORKSPACE },
	{ "/exec/tools/gen", IN_WORKSPACE },
	{ "/exec/t/subdir", IN_WORKSPACE | A_DIR },
	{ "/exec/t/foreign.h", OTHER_TREE },
	{ "/etc/hostname", ON_HOST },
	{ "/home/u/.ssh/id", ON_HOST },
	{ "/home/u/bin/python3", ON_HOST },
	{ "/home/u/bin/mytool", ON_HOST },
	{ "/home/u", ON_HOST | A_DIR },
	{ "/srv/secret/key", ON_ANCHOR },
	{ "/etc/profile", ON_HOST },
	{ "/etc/gitconfig", ON_HOST },
	{ "/etc/ld.so.preload", ON_HOST },
	{ "/sys/fs/cgroup/cpu.max", ON_HOST },
	{ "/var/lib/data", ON_HOST },
	{ "/tmp/golden", ON_HOST },
	{ "@/host/bus", ON_HOST },
	{ "/run/docker.sock", ON_HOST },
	{ "/run/nscd/socket", ON_HOST },
	{ "/var/run/nscd/socket", ON_HOST },
	{ "/usr/include/stdio.h", ON_HOST },
};

BJ_UNUSED static struct bjp_evidence look(void *ctx, struct bj_str path)
{
	struct world *world = ctx;
	struct bjp_evidence e = { 0 };
	world->n_asked++;
	for (size_t i = 0; i < world->n_things; i++) {
		unsigned what = world->things[i].what;
		if (bj_str_eq(path, bj_str_of(world->things[i].path)))
			e = (struct bjp_evidence){ what & ON_HOST, what & IN_WORKSPACE,
						   what & ON_ANCHOR, what & OTHER_TREE,
						   what & A_DIR };
	}
	return e;
}

/* ---- one action under observation ---- */

struct bench {
	struct bj_arena arena;
	struct bjp_settings settings;
	struct bjp_policy *policy;
	struct bjp_collector *collector;
	struct bjp_outcome outcome;
	struct world world;
	struct bjp_report report;
};

BJ_UNUSED static void bench_start(struct bench *b, enum bjp_write_mode write)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bjp_declared declared = action_declared();
	*b = (struct bench){ .settings = bjp_settings_default(),
			     .outcome = { .failed = false, .has_workspace = true },
			     .world = { common, BJ_ARRAY_LEN(common), 0 } };
	b->settings.write = write;
	bj_arena_init(&b->arena, 0);
	assert_int_equal(bjp_derive(&declared, &b->settings, &b->arena, &b->policy, &err), 0);
	assert_int_equal(bjp_collector_new(b->policy, &b->settings, &b->collector, &err), 0);
}

BJ_UNUSED static void bench_end(struct bench *b)
{
	bjp_collector_free(b->collector);
	bj_arena_deinit(&b->arena);
}

BJ_UNUSED static struct bjp_attempt attempt(enum bjp_access access, const char *operation,
					    const char *path, int error)
{
	return (struct bjp_attempt){ .access = access,
				     .operation = operation,
				     .written = bj_str_of(path),
				     .path = bj_str_of(path),
				     .error = error,
				     .pid = 10,
				     .comm = S("sh"),
				     .exe = S("/usr/bin/dash"),
				     .argv0 = S("sh"),
				     .time_ns = 1000 };
}

BJ_UNUSED static void try_it(struct bench *b, enum bjp_access access, const char *operation,
			     const char *path, int error)
{
	struct bjp_attempt a = attempt(access, operation, path, error);
	bjp_collect(b->collector, &a);
}

BJ_UNUSED static void judge(struct bench *b)
{
	struct bj_err err = BJ_ERR_NULL;
	if (bjp_judge(b->collector, &b->outcome, look, &b->world, &b->arena, &b->report, &err) < 0)
		fail_msg("judge: %s", err.msg);
}

BJ_UNUSED static const struct bjp_record *only(const struct bench *b, enum bjp_kind kind)
{
	if (b->report.n_records != 1)
		fail_msg("%zu records", b->report.n_records);
	if (b->report.records[0].kind != kind)
		fail_msg("got %s, want %s", bjp_kind_name(b->report.records[0].kind),
			 bjp_kind_name(kind));
	return &b->report.records[0];
}

#endif
