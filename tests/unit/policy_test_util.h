// SPDX-License-Identifier: Apache-2.0
/**
 * policy_test_util.h - what the unit tests of policy share: a Bazel-like action, evidence from a list, random numbers.
 */
#ifndef BJ_TESTS_UNIT_POLICY_TEST_UTIL_H
#define BJ_TESTS_UNIT_POLICY_TEST_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/macros.h"
#include "policy/policy.h"
#include "policy/record.h"

#define S(text) BJ_STR_LIT(text)

/** Fails with the row's name when the strings differ. */
BJ_UNUSED static void expect_str(struct bj_str got, const char *want, const char *row)
{
	if (!bj_str_eq(got, bj_str_of(want)))
		fail_msg("%s: got \"%.*s\", want \"%s\"", row, BJ_STR_FMT(got), want);
}

BJ_UNUSED static void expect_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

/* ---- one action that most tests use ---- */

static const struct bjp_node action_inputs[] = {
	{ BJ_STR_LIT("t"), BJP_NODE_DIR, { NULL, 0 } },
	{ BJ_STR_LIT("t/a.c"), BJP_NODE_FILE, { NULL, 0 } },
	{ BJ_STR_LIT("t/b.h"), BJP_NODE_FILE, { NULL, 0 } },
	{ BJ_STR_LIT("t/both.txt"), BJP_NODE_FILE, { NULL, 0 } },
	{ BJ_STR_LIT("t/empty"), BJP_NODE_DIR, { NULL, 0 } },
	{ BJ_STR_LIT("t/link"), BJP_NODE_SYMLINK, BJ_STR_LIT("b.h") },
	{ BJ_STR_LIT("t/astray"), BJP_NODE_SYMLINK, BJ_STR_LIT("../secret/x.h") },
	{ BJ_STR_LIT("t/absolute"), BJP_NODE_SYMLINK, BJ_STR_LIT("/etc/hostname") },
	{ BJ_STR_LIT("t/again"), BJP_NODE_SYMLINK, BJ_STR_LIT("again") },
	{ BJ_STR_LIT("dirlink"), BJP_NODE_SYMLINK, BJ_STR_LIT("t") },
	{ BJ_STR_LIT("bazel-out/k8/bin/t/gen.h"), BJP_NODE_FILE, { NULL, 0 } },
	{ BJ_STR_LIT("bazel-out/k8/bin/t/tree/old"), BJP_NODE_FILE, { NULL, 0 } },
};

static const struct bj_str action_outputs[] = {
	BJ_STR_LIT("bazel-out/k8/bin/t/a.o"),
	BJ_STR_LIT("bazel-out/k8/bin/t/tree"),
	BJ_STR_LIT("gen/deep/only.txt"),
	BJ_STR_LIT("t/both.txt"),
};

static const struct bj_str action_env_names[] = {
	BJ_STR_LIT("PATH"),
	BJ_STR_LIT("TEST_TMPDIR"),
	BJ_STR_LIT("XML_OUTPUT_FILE"),
	BJ_STR_LIT("TEST_UNDECLARED_OUTPUTS_DIR"),
	BJ_STR_LIT("TEST_WARNINGS_OUTPUT_FILE"),
	BJ_STR_LIT("HOME"),
	BJ_STR_LIT("TMPDIR"),
};

static const struct bj_str action_env_values[] = {
	BJ_STR_LIT("/usr/bin:/bin"),
	BJ_STR_LIT("_tmp/0123"),
	BJ_STR_LIT("bazel-out/k8/testlogs/t/c/test.xml"),
	BJ_STR_LIT("bazel-out/k8/testlogs/t/c/test.outputs"),
	BJ_STR_LIT("w/test.warnings"),
	BJ_STR_LIT("/home/u"),
	BJ_STR_LIT("/tmp/mine"),
};

static const struct bj_str action_roots[] = {
	BJ_STR_LIT("/usr"),	   BJ_STR_LIT("/bin"),	       BJ_STR_LIT("/lib64/"),
	BJ_STR_LIT("/etc/passwd"), BJ_STR_LIT("/opt/jdk/bin"),
};

BJ_UNUSED static struct bjp_declared action_declared(void)
{
	return (struct bjp_declared){
		.exec_root = BJ_STR_LIT("/exec"),
		.inputs = action_inputs,
		.n_inputs = BJ_ARRAY_LEN(action_inputs),
		.outputs = action_outputs,
		.n_outputs = BJ_ARRAY_LEN(action_outputs),
		.env_names = action_env_names,
		.env_values = action_env_values,
		.n_env = BJ_ARRAY_LEN(action_env_names),
		.roots = action_roots,
		.n_roots = BJ_ARRAY_LEN(action_roots),
	};
}

/** Derives or fails the test. */
BJ_UNUSED static struct bjp_policy *must_derive(const struct bjp_declared *declared,
						struct bj_arena *arena)
{
	struct bjp_settings settings = bjp_settings_default();
	struct bjp_policy *policy = NULL;
	struct bj_err err = BJ_ERR_NULL;
	if (bjp_derive(declared, &settings, arena, &policy, &err) < 0)
		fail_msg("derive: %s", err.msg);
	return policy;
}

/* ---- random, the same in every run ---- */

BJ_UNUSED static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

BJ_UNUSED static void shuffle(void *items, size_t n, size_t size_bytes, uint64_t *state)
{
	char tmp[512], *bytes = items;
	assert_true(size_bytes <= sizeof(tmp));
	for (size_t i = n; i > 1; i--) {
		size_t j = next_random(state) % i;
		memcpy(tmp, bytes + j * size_bytes, size_bytes);
		memcpy(bytes + j * size_bytes, bytes + (i - 1) * size_bytes, size_bytes);
		memcpy(bytes + (i - 1) * size_bytes, tmp, size_bytes);
	}
}

#endif
