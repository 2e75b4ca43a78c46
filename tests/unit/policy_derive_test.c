// SPDX-License-Identifier: Apache-2.0
#include "policy_test_util.h"

static const char *class_name(enum bjp_class cls)
{
	static const char *const names[] = { "undeclared",  "input",	 "output", "output_dir",
					     "env_scratch", "toolchain", "system" };
	return names[cls];
}

/* ---- classes, zones, writes: (path, class, zone, may it be written) ---- */

static const struct {
	const char *path;
	enum bjp_class cls;
	enum bjp_zone zone;
	bool may_write;
} places[] = {
	/* vx-30: the input tree, exactly */
	{ "/exec", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/t", BJP_INPUT, BJP_ZONE_INPUT_ROOT, true }, /* holds an output */
	{ "/exec/t/a.c", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/t/empty", BJP_INPUT, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/t/link", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/dirlink", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/bazel-out", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false }, /* never declared itself */
	{ "/exec/bazel-out/k8/bin/t", BJP_INPUT, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/bin/t/gen.h", BJP_INPUT, BJP_ZONE_INPUT_ROOT, false },
	/* vx-32: what is not declared is not there */
	{ "/exec/t/secret.h", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, true }, /* beside t/both.txt */
	{ "/exec/secret", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/t/a.c/below", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, true },
	{ "/execute", BJP_UNDECLARED, BJP_ZONE_HOST, false }, /* vx-54 */
	{ "/exec/tt", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	/* vx-31, vx-58: outputs, what is below them, and the directories that hold them */
	{ "/exec/bazel-out/k8/bin/t/a.o", BJP_OUTPUT, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/bin/t/a.o.tmp", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/bin/t/tree", BJP_OUTPUT, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/bin/t/tree/x/y", BJP_OUTPUT, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/bin/t/tree/old", BJP_OUTPUT, BJP_ZONE_INPUT_ROOT, true }, /* L18 */
	{ "/exec/bazel-out/k8/bin/t/trees", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/t/both.txt", BJP_OUTPUT, BJP_ZONE_INPUT_ROOT, true }, /* input and output */
	{ "/exec/gen", BJP_OUTPUT_DIR, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/gen/deep", BJP_OUTPUT_DIR, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/gen/other", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/gen/deep/other/x", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, true },
	/* scratch that the environment names */
	{ "/exec/_tmp", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/_tmp/0123", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/_tmp/0123/x/y", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/_tmp/other", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/bazel-out/k8/testlogs/t/c/test.xml", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/testlogs/t/c/test.log", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/bazel-out/k8/testlogs/t/c/test.outputs/a", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT,
	  true },
	{ "/exec/bazel-out/k8/testlogs/t/other", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	{ "/exec/w/test.warnings", BJP_ENV_SCRATCH, BJP_ZONE_INPUT_ROOT, true },
	{ "/exec/w/other", BJP_UNDECLARED, BJP_ZONE_INPUT_ROOT, false },
	/* outside */
	{ "/usr/bin/gcc", BJP_TOOLCHAIN, BJP_ZONE_TOOLCHAIN, false },
	{ "/usr", BJP_TOOLCHAIN, BJP_ZONE_TOOLCHAIN, false },
	{ "/lib64/ld.so", BJP_TOOLCHAIN, BJP_ZONE_TOOLCHAIN, false },
	{ "/etc/passwd", BJP_TOOLCHAIN, BJP_ZONE_TOOLCHAIN, false },
	{ "/etc/hostname", BJP_UNDECLARED, BJP_ZONE_HOST, false },
	{ "/etc", BJP_SYSTEM, BJP_ZONE_SYSTEM, false }, /* above a root, so it is there */
	{ "/", BJP_SYSTEM, BJP_ZONE_SYSTEM, false },
	{ "/opt/jdk", BJP_SYSTEM, BJP_ZONE_SYSTEM, false },
	{ "/opt/jdk/lib", BJP_UNDECLARED, BJP_ZONE_HOST, false },
	{ "/opt/jdk/bin/java", BJP_TOOLCHAIN, BJP_ZONE_TOOLCHAIN, false },
	{ "/tmp", BJP_SYSTEM, BJP_ZONE_SYSTEM, true },
	{ "/tmp/mine/x", BJP_SYSTEM, BJP_ZONE_SYSTEM, true },
	{ "/tmpfs", BJP_UNDECLARED, BJP_ZONE_HOST, false },
	{ "/dev/shm/x", BJP_SYSTEM, BJP_ZONE_SYSTEM, true },
	{ "/dev/null", BJP_SYSTEM, BJP_ZONE_SYSTEM, false },
	{ "/proc/self/status", BJP_SYSTEM, BJP_ZONE_SYSTEM, false },
	{ "/home/u/.ssh/id", BJP_UNDECLARED, BJP_ZONE_HOST, false },
};

static void places_table_vx_30_31_32_54_58(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = action_declared();
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (size_t i = 0; i < BJ_ARRAY_LEN(places); i++) {
		struct bj_str path = bj_str_of(places[i].path);
		enum bjp_class cls = bjp_classify(policy, path);
		if (cls != places[i].cls)
			fail_msg("%s: class %s, want %s", places[i].path, class_name(cls),
				 class_name(places[i].cls));
		if (bjp_zone(policy, path) != places[i].zone)
			fail_msg("%s: zone %s", places[i].path,
				 bjp_zone_name(bjp_zone(policy, path)));
		if (bjp_may_write(policy, path) != places[i].may_write)
			fail_msg("%s: may write %d", places[i].path, !places[i].may_write);
	}
}

static void zone_names(void **state)
{
	(void)state;
	assert_string_equal(bjp_zone_name(BJP_ZONE_INPUT_ROOT), "input_root");
	assert_string_equal(bjp_zone_name(BJP_ZONE_TOOLCHAIN), "toolchain");
	assert_string_equal(bjp_zone_name(BJP_ZONE_HOST), "host");
	assert_string_equal(bjp_zone_name(BJP_ZONE_SYSTEM), "system");
}

/* vx-23, bug log L07: outputs count from the working directory, inputs from the root. */
static void outputs_count_from_the_working_directory_vx_23(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = action_declared();
	declared.working_dir = S("w/x");
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	assert_int_equal(bjp_classify(policy, S("/exec/w/x/t/both.txt")), BJP_OUTPUT);
	assert_int_equal(bjp_classify(policy, S("/exec/t/both.txt")), BJP_INPUT);
	assert_int_equal(bjp_classify(policy, S("/exec/w/x/_tmp/0123")), BJP_ENV_SCRATCH);
	const struct bj_str *dirs;
	size_t n;
	bjp_output_parents(policy, &dirs, &n);
	assert_int_equal(n, 3);
	expect_str(dirs[0], "w/x/bazel-out/k8/bin/t", "first");
	expect_str(dirs[1], "w/x/gen/deep", "second");
	expect_str(dirs[2], "w/x/t", "third");
}

/* Bug log L05: the parents are made, the leaf is not; each once. */
static void output_parents_sorted_and_unique(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	static const struct bj_str outputs[] = { BJ_STR_LIT("z/f"),   BJ_STR_LIT("a/b/out"),
						 BJ_STR_LIT("a/b/g"), BJ_STR_LIT("top"),
						 BJ_STR_LIT("./a/h"), BJ_STR_LIT("a/b/g") };
	struct bjp_declared declared = { .exec_root = S("/exec"),
					 .outputs = outputs,
					 .n_outputs = 6 };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	const struct bj_str *dirs;
	size_t n;
	bjp_output_parents(policy, &dirs, &n);
	assert_int_equal(n, 3);
	expect_str(dirs[0], "a", "first");
	expect_str(dirs[1], "a/b", "second");
	expect_str(dirs[2], "z", "third");
	assert_true(bjp_may_write(policy, S("/exec/anything"))); /* "top" is held by the root */
}

/* What strict mode leaves writable; none below another. */
static void writable_directories(void **state)
{
	(void)state;
	static const char *const want[] = {
		"_tmp/0123", "bazel-out/k8/bin/t", "bazel-out/k8/testlogs/t/c", "gen/deep", "t",
		"w",
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = action_declared();
	const struct bj_str *dirs;
	size_t n;
	bjp_writable_dirs(must_derive(&declared, &arena), &dirs, &n);
	assert_int_equal(n, BJ_ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++)
		expect_str(dirs[i], want[i], "writable");

	static const struct bj_str outputs[] = { BJ_STR_LIT("a/b/f"), BJ_STR_LIT("a-b/f"),
						 BJ_STR_LIT("a/f") };
	declared = (struct bjp_declared){ .exec_root = S("/exec"),
					  .outputs = outputs,
					  .n_outputs = 3 };
	bjp_writable_dirs(must_derive(&declared, &arena), &dirs, &n);
	assert_int_equal(n, 2);
	expect_str(dirs[0], "a", "covers a/b");
	expect_str(dirs[1], "a-b", "is not below a");

	static const struct bj_str top[] = { BJ_STR_LIT("a/f"), BJ_STR_LIT("f") };
	declared.outputs = top;
	declared.n_outputs = 2;
	bjp_writable_dirs(must_derive(&declared, &arena), &dirs, &n);
	assert_int_equal(n, 1);
	expect_str(dirs[0], ".", "all of it");
	struct bj_str text = bjp_policy_text(must_derive(&declared, &arena), &arena);
	assert_non_null(strstr(text.ptr, "write dir \"\"\nwrite dir \"a\"\n"));
}

static void nothing_declared(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = { .exec_root = S("/exec") };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	const struct bj_str *dirs;
	size_t n = 1;
	bjp_output_parents(policy, &dirs, &n);
	assert_int_equal(n, 0);
	assert_int_equal(bjp_classify(policy, S("/exec")), BJP_INPUT);
	assert_int_equal(bjp_classify(policy, S("/usr")), BJP_UNDECLARED);
	assert_false(bjp_may_write(policy, S("/exec/x")));
	assert_int_equal(bjp_nearest(policy, S("/exec/x")).len, 0);
}

static void the_whole_root_as_an_output(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	static const struct bj_str all[] = { BJ_STR_LIT("") };
	struct bjp_declared declared = action_declared();
	declared.outputs = all;
	declared.n_outputs = 1;
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	assert_int_equal(bjp_classify(policy, S("/exec/any/thing")), BJP_OUTPUT);
	assert_int_equal(bjp_classify(policy, S("/exec/t/a.c")), BJP_OUTPUT);
	assert_int_equal(bjp_classify(policy, S("/execx")), BJP_UNDECLARED);
}

/* ---- refusals ---- */

static int derive_with(const struct bjp_node *nodes, size_t n, struct bj_str output,
		       struct bj_err *err)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = { .exec_root = S("/exec"),
					 .inputs = nodes,
					 .n_inputs = n,
					 .outputs = &output,
					 .n_outputs = output.ptr ? 1 : 0 };
	struct bjp_settings settings = bjp_settings_default();
	struct bjp_policy *policy = NULL;
	*err = BJ_ERR_NULL;
	int r = bjp_derive(&declared, &settings, &arena, &policy, err);
	assert_int_equal(policy == NULL, r < 0);
	return r;
}

static void contradictions_are_refused_whichever_comes_first(void **state)
{
	(void)state;
	static const struct {
		struct bjp_node a, b;
		const char *fault; /* NULL: fine */
	} pairs[] = {
		{ { S("a"), BJP_NODE_FILE, { 0 } }, { S("a"), BJP_NODE_FILE, { 0 } }, NULL },
		{ { S("a"), BJP_NODE_DIR, { 0 } }, { S("a/b"), BJP_NODE_FILE, { 0 } }, NULL },
		{ { S("a"), BJP_NODE_SYMLINK, S("x") },
		  { S("a"), BJP_NODE_SYMLINK, S("x") },
		  NULL },
		{ { S("a"), BJP_NODE_FILE, { 0 } },
		  { S("a/b"), BJP_NODE_FILE, { 0 } },
		  "input tree: \"a\" is declared as directory and as file" },
		{ { S("a"), BJP_NODE_FILE, { 0 } },
		  { S("a"), BJP_NODE_DIR, { 0 } },
		  "input tree: \"a\" is declared as directory and as file" },
		{ { S("a/b"), BJP_NODE_SYMLINK, S("x") },
		  { S("a/b/c/d"), BJP_NODE_FILE, { 0 } },
		  "input tree: \"a/b\" is declared as directory and as symlink" },
		{ { S("a"), BJP_NODE_SYMLINK, S("x") },
		  { S("a"), BJP_NODE_SYMLINK, S("y") },
		  "input tree: \"a\" is declared as symlink and as another" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(pairs); i++) {
		for (int swap = 0; swap < 2; swap++) {
			struct bjp_node nodes[] = { swap ? pairs[i].b : pairs[i].a,
						    swap ? pairs[i].a : pairs[i].b };
			struct bj_err err;
			int r = derive_with(nodes, 2, BJ_STR_NULL, &err);
			assert_int_equal(r, pairs[i].fault ? -BJ_INVALID_ARGUMENT : 0);
			if (pairs[i].fault)
				assert_string_equal(err.msg, pairs[i].fault);
		}
	}
}

static void paths_that_are_not_clean_are_refused(void **state)
{
	(void)state;
	static const char *const paths[] = {
		"/a", "a/", "a//b", "../a", "a/../b", ".", "a/./b", ""
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(paths); i++) {
		struct bjp_node node = { bj_str_of(paths[i]), BJP_NODE_FILE, { 0 } };
		struct bj_err err;
		assert_int_equal(derive_with(&node, 1, BJ_STR_NULL, &err), -BJ_INVALID_ARGUMENT);
		expect_contains(err.msg, "is not a clean relative path");
	}
	struct bjp_node root = { S(""), BJP_NODE_DIR, { 0 } };
	struct bj_err err;
	assert_int_equal(derive_with(&root, 1, BJ_STR_NULL, &err), 0);
}

static void outputs_that_cannot_be_are_refused(void **state)
{
	(void)state;
	struct bjp_node file = { S("a/f"), BJP_NODE_FILE, { 0 } };
	struct bj_err err;
	assert_int_equal(derive_with(&file, 1, S("a/f/out"), &err), -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "\"a/f\" is an input file and cannot hold an output");
	assert_int_equal(derive_with(&file, 1, S("a/f/x/out"), &err), -BJ_INVALID_ARGUMENT);
	assert_int_equal(derive_with(&file, 1, S("a/f"), &err), 0);
	/* bjp_output_path_check() has refused it before; here it is refused all the same. */
	assert_int_equal(derive_with(&file, 1, S("../x"), &err), -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "leaves the input root");
}

static void working_directories_outside_are_refused_vx_23(void **state)
{
	(void)state;
	static const char *const dirs[] = { "..", "a/../..", "/exec/a", "/etc" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(dirs); i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bjp_declared declared = { .exec_root = S("/exec"),
						 .working_dir = bj_str_of(dirs[i]) };
		struct bjp_settings settings = bjp_settings_default();
		struct bjp_policy *policy;
		struct bj_err err = BJ_ERR_NULL;
		assert_int_equal(bjp_derive(&declared, &settings, &arena, &policy, &err),
				 -BJ_INVALID_ARGUMENT);
		expect_contains(err.msg, "is not below the input root");
	}
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = { .exec_root = S("/exec"), .working_dir = S(".") }; /* L25 */
	assert_non_null(must_derive(&declared, &arena));
}

/* ---- the environment cannot blind the report ---- */

static void scratch_that_would_blind_the_report_is_none(void **state)
{
	(void)state;
	static const char *const values[] = {
		".", "/exec", "/", "..", "/etc", "/home/u", "/usr", ""
	};
	static const char *const names[] = { "TMPDIR",		"TEST_TMPDIR",
					     "XML_OUTPUT_FILE", "TEMP",
					     "TEST_ANY_FILE",	"TEST_UNDECLARED_OUTPUTS_DIR" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(values); i++) {
		for (size_t j = 0; j < BJ_ARRAY_LEN(names); j++) {
			bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
			bj_arena_init(&arena, 0);
			struct bj_str name = bj_str_of(names[j]), value = bj_str_of(values[i]);
			struct bjp_declared declared = { .exec_root = S("/exec"),
							 .env_names = &name,
							 .env_values = &value,
							 .n_env = 1 };
			const struct bjp_policy *policy = must_derive(&declared, &arena);
			assert_int_equal(bjp_classify(policy, S("/exec/x")), BJP_UNDECLARED);
			assert_int_equal(bjp_classify(policy, S("/etc/hostname")), BJP_UNDECLARED);
			assert_false(bjp_may_write(policy, S("/exec/x")));
		}
	}
}

static void which_variables_name_scratch(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool itself, siblings;
	} rows[] = {
		{ "TMPDIR", true, false },
		{ "TMP", true, false },
		{ "TEST_TMPDIR", true, false },
		{ "XML_OUTPUT_FILE", true, true },
		{ "TEST_PREMATURE_EXIT_FILE", true, false },
		{ "TEST_SHARD_STATUS_FILE", true, false },
		{ "TEST_UNDECLARED_OUTPUTS_MANIFEST", true, false },
		{ "COVERAGE_DIR", true, false },
		{ "TEST_SRCDIR", false, false },
		{ "TEST_BINARY", false, false },
		{ "RUNFILES_DIR", false, false },
		{ "HOME", false, false },
		{ "MY_TEST_FILE", false, false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bj_str name = bj_str_of(rows[i].name), value = S("logs/f");
		struct bjp_declared declared = { .exec_root = S("/exec"),
						 .env_names = &name,
						 .env_values = &value,
						 .n_env = 1 };
		const struct bjp_policy *policy = must_derive(&declared, &arena);
		if ((bjp_classify(policy, S("/exec/logs/f")) == BJP_ENV_SCRATCH) !=
			    rows[i].itself ||
		    (bjp_classify(policy, S("/exec/logs/g")) == BJP_ENV_SCRATCH) !=
			    rows[i].siblings)
			fail_msg("%s", rows[i].name);
	}
}

/* A root below /tmp stays a toolchain root: the longer path wins. */
static void the_longest_top_wins(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	static const struct bj_str roots[] = { BJ_STR_LIT("/tmp/sdk"), BJ_STR_LIT("/tmp/sdk") };
	struct bjp_declared declared = { .exec_root = S("/tmp/deep/exec"),
					 .roots = roots,
					 .n_roots = 2 };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	assert_int_equal(bjp_zone(policy, S("/tmp/sdk/x")), BJP_ZONE_TOOLCHAIN);
	assert_false(bjp_may_write(policy, S("/tmp/sdk/x")));
	assert_int_equal(bjp_zone(policy, S("/tmp/deep/exec/x")), BJP_ZONE_INPUT_ROOT);
	assert_int_equal(bjp_zone(policy, S("/tmp/x")), BJP_ZONE_SYSTEM);
}

/* ---- text ---- */

static const char golden[] = "belljar policy 1\n"
			     "exec-root \"/exec\"\n"
			     "working-dir \"/exec/w\"\n"
			     "write strict\n"
			     "observe writes\n"
			     "on-violation fail\n"
			     "ignore.read \"a\"\n"
			     "ignore.read \"b\"\n"
			     "ignore.network \"*:53\"\n"
			     "read dir \"\"\n"
			     "read dir \"t\"\n"
			     "read file \"t/\\\"a\\\" \\\\\\n\"\n"
			     "read symlink \"t/l\" -> \"../x\"\n"
			     "read file \"t/\\xff\xc3\xa4\"\n"
			     "read system \"/dev\"\n"
			     "read system \"/proc\"\n"
			     "read system \"/tmp\"\n"
			     "read root \"/usr\"\n"
			     "write output \"w/o\"\n"
			     "write output \"w/p/q\"\n"
			     "write dir \"w\"\n"
			     "write dir \"w/p\"\n"
			     "write scratch \"/exec/w/_tmp\"\n"
			     "write scratch \"/dev/shm\"\n"
			     "write scratch \"/tmp\"\n";

/* A directory is followed by what it holds: '/' sorts below all other bytes. */
static void text_lists_inputs_as_a_tree(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	static const struct bjp_node nodes[] = {
		{ BJ_STR_LIT("ab"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("a-b"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("a/x"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("a\xff"), BJP_NODE_FILE, { NULL, 0 } }
	};
	struct bjp_declared declared = { .exec_root = S("/exec"), .inputs = nodes, .n_inputs = 4 };
	struct bj_str text = bjp_policy_text(must_derive(&declared, &arena), &arena);
	assert_non_null(strstr(text.ptr, "read dir \"\"\nread dir \"a\"\nread file \"a/x\"\n"
					 "read file \"a-b\"\nread file \"ab\"\n"
					 "read file \"a\\xff\"\n"));
}

static void text_is_golden(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_node nodes[] = { { S("t/\xff\xc3\xa4"), BJP_NODE_FILE, { 0 } },
				    { S("t/l"), BJP_NODE_SYMLINK, S("../x") },
				    { S("t/\"a\" \\\n"), BJP_NODE_FILE, { 0 } } };
	struct bj_str outputs[] = { S("p/q"), S("o"), S("o") };
	struct bj_str roots[] = { S("/usr") };
	struct bj_str name = S("TMPDIR"), value = S("_tmp");
	struct bj_str reads[] = { S("b"), S("a"), S("b") }, network[] = { S("*:53") };
	struct bjp_settings settings = { .write = BJP_WRITE_STRICT,
					 .observe = BJP_OBSERVE_WRITES,
					 .on_violation = BJP_ON_VIOLATION_FAIL,
					 .ignore_read = reads,
					 .n_ignore_read = 3,
					 .ignore_network = network,
					 .n_ignore_network = 1 };
	struct bjp_declared declared = { S("/exec"), S("w"), nodes, 3,	   outputs, 3,
					 &name,	     &value, 1,	    roots, 1 };
	struct bjp_policy *policy;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_derive(&declared, &settings, &arena, &policy, &err), 0);
	struct bj_str text = bjp_policy_text(policy, &arena);
	assert_string_equal(text.ptr, golden);
}

/* Design §3.1: the order of declarations never matters. */
static void the_order_of_declarations_does_not_matter(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_node nodes[BJ_ARRAY_LEN(action_inputs)];
	struct bj_str outputs[BJ_ARRAY_LEN(action_outputs)], roots[BJ_ARRAY_LEN(action_roots)];
	memcpy(nodes, action_inputs, sizeof(nodes));
	memcpy(outputs, action_outputs, sizeof(outputs));
	memcpy(roots, action_roots, sizeof(roots));
	struct bjp_declared declared = action_declared();
	struct bj_str want = bjp_policy_text(must_derive(&declared, &arena), &arena);
	declared.inputs = nodes;
	declared.outputs = outputs;
	declared.roots = roots;
	uint64_t seed = 5;
	for (int i = 0; i < 100; i++) {
		shuffle(nodes, BJ_ARRAY_LEN(nodes), sizeof(nodes[0]), &seed);
		shuffle(outputs, BJ_ARRAY_LEN(outputs), sizeof(outputs[0]), &seed);
		shuffle(roots, BJ_ARRAY_LEN(roots), sizeof(roots[0]), &seed);
		const struct bjp_policy *policy = must_derive(&declared, &arena);
		assert_string_equal(bjp_policy_text(policy, &arena).ptr, want.ptr);
		for (size_t j = 0; j < BJ_ARRAY_LEN(places); j++)
			assert_int_equal(bjp_classify(policy, bj_str_of(places[j].path)),
					 places[j].cls);
	}
}

/* ---- random trees against a naive oracle ---- */

enum { MAX_NODES = 40, MAX_OUTPUTS = 6, N_PROBES = 60 };

struct random_tree {
	struct bjp_node nodes[MAX_NODES];
	struct bj_str outputs[MAX_OUTPUTS];
	size_t n_nodes, n_outputs;
};

/* Files are named f…, directories d…, so that a path is never both. */
static struct bj_str random_rel(struct bj_arena *arena, uint64_t *seed, const char *leaf)
{
	char buf[64];
	size_t len = 0, depth = next_random(seed) % 4;
	for (size_t i = 0; i < depth; i++)
		len += (size_t)snprintf(buf + len, sizeof(buf) - len, "d%u/",
					next_random(seed) % 3);
	snprintf(buf + len, sizeof(buf) - len, "%s%u", leaf, next_random(seed) % 4);
	return bj_arena_str(arena, bj_str_of(buf));
}

static struct random_tree random_tree(struct bj_arena *arena, uint64_t *seed)
{
	struct random_tree tree = { .n_nodes = next_random(seed) % MAX_NODES,
				    .n_outputs = next_random(seed) % MAX_OUTPUTS };
	for (size_t i = 0; i < tree.n_nodes; i++) {
		bool is_dir = next_random(seed) % 4 == 0;
		tree.nodes[i] = (struct bjp_node){ random_rel(arena, seed, is_dir ? "d" : "f"),
						   is_dir ? BJP_NODE_DIR : BJP_NODE_FILE,
						   { NULL, 0 } };
	}
	for (size_t i = 0; i < tree.n_outputs; i++)
		tree.outputs[i] = random_rel(arena, seed, next_random(seed) % 2 ? "d" : "o");
	return tree;
}

static enum bjp_class oracle_class(const struct random_tree *tree, struct bj_str rel)
{
	for (size_t i = 0; i < tree->n_outputs; i++) {
		if (bjp_path_is_below(rel, tree->outputs[i]))
			return BJP_OUTPUT;
	}
	for (size_t i = 0; i < tree->n_nodes; i++) {
		if (bjp_path_is_below(tree->nodes[i].path, rel))
			return BJP_INPUT;
	}
	if (rel.len == 0)
		return BJP_INPUT; /* the root is there whatever is declared */
	for (size_t i = 0; i < tree->n_outputs; i++) {
		if (bjp_path_is_below(tree->outputs[i], rel))
			return BJP_OUTPUT_DIR;
	}
	return BJP_UNDECLARED;
}

static bool oracle_may_write(const struct random_tree *tree, struct bj_str rel)
{
	for (size_t i = 0; i < tree->n_outputs; i++) {
		struct bj_str out = tree->outputs[i];
		if (bjp_path_is_below(rel, out))
			return true;
	}
	for (size_t i = 0; i < tree->n_nodes; i++) {
		if (bj_str_eq(tree->nodes[i].path, rel) && tree->nodes[i].kind == BJP_NODE_FILE)
			return false;
	}
	for (size_t i = 0; i < tree->n_outputs; i++) {
		size_t slash = tree->outputs[i].len;
		while (slash > 0 && tree->outputs[i].ptr[slash - 1] != '/')
			slash--;
		struct bj_str dir = bj_str_sub(tree->outputs[i], 0, slash ? slash - 1 : 0);
		if (bjp_path_is_below(rel, dir))
			return true;
	}
	return false;
}

static struct bj_str inside(struct bj_arena *arena, struct bj_str rel)
{
	return bjp_path_clean(arena, S("/exec"), rel);
}

static void random_trees_agree_with_the_oracle(void **state)
{
	(void)state;
	uint64_t seed = 1;
	for (int round = 0; round < 400; round++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct random_tree tree = random_tree(&arena, &seed);
		struct bjp_declared declared = { .exec_root = S("/exec"),
						 .inputs = tree.nodes,
						 .n_inputs = tree.n_nodes,
						 .outputs = tree.outputs,
						 .n_outputs = tree.n_outputs };
		const struct bjp_policy *policy = must_derive(&declared, &arena);
		for (int i = 0; i < N_PROBES; i++) {
			static const char *const leaves[] = { "f", "d", "o", "x" };
			struct bj_str rel =
				random_rel(&arena, &seed, leaves[next_random(&seed) % 4]);
			if (i == 0)
				rel = bj_str_n("", 0);
			struct bj_str path = inside(&arena, rel);
			if (bjp_classify(policy, path) != oracle_class(&tree, rel))
				fail_msg("round %d: %s: got %s, want %s", round, path.ptr,
					 class_name(bjp_classify(policy, path)),
					 class_name(oracle_class(&tree, rel)));
			if (bjp_may_write(policy, path) != oracle_may_write(&tree, rel))
				fail_msg("round %d: may write %s", round, path.ptr);
		}
	}
}

/* One more declaration never takes a grant away: reads by inputs and roots, writes by outputs. */
static void grants_are_monotone(void **state)
{
	(void)state;
	uint64_t seed = 2;
	for (int round = 0; round < 200; round++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct random_tree tree = random_tree(&arena, &seed);
		if (tree.n_nodes == 0 || tree.n_outputs == 0)
			continue;
		struct bjp_declared more = { .exec_root = S("/exec"),
					     .inputs = tree.nodes,
					     .n_inputs = tree.n_nodes,
					     .outputs = tree.outputs,
					     .n_outputs = tree.n_outputs };
		struct bjp_declared fewer_inputs = more, fewer_outputs = more;
		fewer_inputs.n_inputs--;
		fewer_outputs.n_outputs--;
		const struct bjp_policy *all = must_derive(&more, &arena);
		const struct bjp_policy *less_read = must_derive(&fewer_inputs, &arena);
		const struct bjp_policy *less_write = must_derive(&fewer_outputs, &arena);
		for (int i = 0; i < N_PROBES; i++) {
			struct bj_str path = inside(&arena, random_rel(&arena, &seed, "f"));
			if (bjp_classify(less_read, path) != BJP_UNDECLARED)
				assert_int_not_equal(bjp_classify(all, path), BJP_UNDECLARED);
			if (bjp_may_write(less_write, path))
				assert_true(bjp_may_write(all, path));
		}
	}
}

/* ---- memory ---- */

static void each_allocation_fails_once(void **state)
{
	(void)state;
	struct bjp_declared declared = action_declared();
	struct bjp_settings settings = bjp_settings_default();
	/* The arena grows by chunks, so a cap of every size is what makes each single request fail. */
	size_t n_failed = 0;
	for (size_t cap = 64; cap < 40000; cap += 48) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, cap);
		struct bjp_policy *policy = NULL;
		struct bj_err err = BJ_ERR_NULL;
		int r = bjp_derive(&declared, &settings, &arena, &policy, &err);
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(policy == NULL, r < 0);
		n_failed += r < 0;
		if (r == 0) {
			struct bj_str text = bjp_policy_text(policy, &arena);
			assert_true(text.ptr == NULL || text.len > 100);
		}
	}
	assert_true(n_failed > 50);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (uint64_t n = 0;; n++) {
		bj_alloc_fail_after(n);
		struct bj_str text = bjp_policy_text(policy, &arena);
		if (!bj_alloc_fail_disarm()) {
			assert_non_null(text.ptr);
			break;
		}
		assert_null(text.ptr);
	}
}

static void many_inputs_grow_the_index(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	enum { N = 5000 };
	struct bjp_node *nodes = BJ_ARENA_ARRAY(&arena, struct bjp_node, N);
	for (size_t i = 0; i < N; i++) /* each in directories of its own, which nobody counted */
		nodes[i] = (struct bjp_node){ bj_str_of(bj_arena_printf(&arena, "a%zu/b/c/f", i)),
					      BJP_NODE_FILE,
					      { NULL, 0 } };
	struct bjp_declared declared = { .exec_root = S("/exec"), .inputs = nodes, .n_inputs = N };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (size_t i = 0; i < N; i++) {
		struct bj_str path = bj_str_of(bj_arena_printf(&arena, "/exec/a%zu/b/c/f", i));
		assert_int_equal(bjp_classify(policy, path), BJP_INPUT);
		path.len -= 2;
		assert_int_equal(bjp_classify(policy, path), BJP_INPUT);
		path.len -= 1;
		assert_int_equal(bjp_classify(policy, path), BJP_UNDECLARED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_table_vx_30_31_32_54_58),
		cmocka_unit_test(zone_names),
		cmocka_unit_test(outputs_count_from_the_working_directory_vx_23),
		cmocka_unit_test(output_parents_sorted_and_unique),
		cmocka_unit_test(writable_directories),
		cmocka_unit_test(nothing_declared),
		cmocka_unit_test(the_whole_root_as_an_output),
		cmocka_unit_test(contradictions_are_refused_whichever_comes_first),
		cmocka_unit_test(paths_that_are_not_clean_are_refused),
		cmocka_unit_test(outputs_that_cannot_be_are_refused),
		cmocka_unit_test(working_directories_outside_are_refused_vx_23),
		cmocka_unit_test(scratch_that_would_blind_the_report_is_none),
		cmocka_unit_test(which_variables_name_scratch),
		cmocka_unit_test(the_longest_top_wins),
		cmocka_unit_test(text_lists_inputs_as_a_tree),
		cmocka_unit_test(text_is_golden),
		cmocka_unit_test(the_order_of_declarations_does_not_matter),
		cmocka_unit_test(random_trees_agree_with_the_oracle),
		cmocka_unit_test(grants_are_monotone),
		cmocka_unit_test(each_allocation_fails_once),
		cmocka_unit_test(many_inputs_grow_the_index),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
