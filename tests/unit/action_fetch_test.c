// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cas_test_util.h"

#include <limits.h>

#include "executor/action/life-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/pb.h"

#define MAX_TIMEOUT_NS (60 * BJ_NS_PER_SEC)
#define DEFAULT_TIMEOUT_NS (7 * BJ_NS_PER_SEC)

/** An action that is good until a test spoils it. */
struct scene {
	struct fix *fix;
	struct bj_runner runner;
	struct bj_run_request request;
	struct life life;
	re_directory root, sub;
	re_directory_node sub_node, *sub_nodes[1];
	re_file_node file_node, *file_nodes[1];
	re_command command;
	char *arguments[2];
	re_action action;
	Google__Protobuf__Duration timeout;
	struct bj_digest sub_digest, root_digest, command_digest, file_digest;
};

static struct bj_digest put_message(struct scene *s, const ProtobufCMessage *message)
{
	return put(s->fix, bj_pb_pack(&s->fix->arena, message));
}

static re_digest *pb(struct scene *s, const struct bj_digest *digest)
{
	return bj_digest_to_pb(&s->fix->arena, digest);
}

static struct scene *scene_new(struct fix *fix)
{
	struct scene *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->fix = fix;
	s->runner.opts.store = fix->store;
	s->runner.opts.max_timeout_ns = MAX_TIMEOUT_NS;
	s->runner.opts.default_timeout_ns = DEFAULT_TIMEOUT_NS;
	build__bazel__remote__execution__v2__directory__init(&s->root);
	build__bazel__remote__execution__v2__directory__init(&s->sub);
	build__bazel__remote__execution__v2__directory_node__init(&s->sub_node);
	build__bazel__remote__execution__v2__file_node__init(&s->file_node);
	build__bazel__remote__execution__v2__command__init(&s->command);
	build__bazel__remote__execution__v2__action__init(&s->action);
	google__protobuf__duration__init(&s->timeout);
	/* root{f, w{f}} */
	s->file_digest = put(fix, BJ_STR_LIT("hi\n"));
	s->file_node.name = (char *)(uintptr_t) "f";
	s->file_node.digest = pb(s, &s->file_digest);
	s->file_nodes[0] = &s->file_node;
	s->root.files = s->sub.files = s->file_nodes;
	s->root.n_files = s->sub.n_files = 1;
	s->sub_node.name = (char *)(uintptr_t) "w";
	s->sub_nodes[0] = &s->sub_node;
	s->root.directories = s->sub_nodes;
	s->root.n_directories = 1;
	s->arguments[0] = (char *)(uintptr_t) "/bin/true";
	s->command.arguments = s->arguments;
	s->command.n_arguments = 1;
	return s;
}

static void scene_free(struct scene *s)
{
	free(s);
}

/* Puts all of it into the store, as it stands. */
static void upload(struct scene *s)
{
	s->sub_digest = put_message(s, &s->sub.base);
	s->sub_node.digest = pb(s, &s->sub_digest);
	s->root_digest = put_message(s, &s->root.base);
	s->command_digest = put_message(s, &s->command.base);
	s->action.command_digest = pb(s, &s->command_digest);
	s->action.input_root_digest = pb(s, &s->root_digest);
	s->request.action = put_message(s, &s->action.base);
}

static int fetch(struct scene *s)
{
	s->life = (struct life){ .runner = &s->runner,
				 .request = &s->request,
				 .arena = &s->fix->arena,
				 .failure = { .err = BJ_ERR_NULL } };
	return life_fetch(&s->life);
}

static void expect_ok(struct scene *s)
{
	upload(s);
	if (fetch(s) != 0)
		fail_msg("%s", s->life.failure.err.msg);
	assert_false(bj_err_is_set(&s->life.failure.err));
}

static void expect_refused(struct scene *s, enum bj_code code, const char *text)
{
	upload(s);
	int r = fetch(s);
	if (r != -(int)code || !strstr(s->life.failure.err.msg, text))
		fail_msg("got %d \"%s\", wanted %d \"%s\"", r, s->life.failure.err.msg, -(int)code,
			 text);
	assert_int_equal(s->life.failure.err.code, code);
	assert_int_equal(s->life.failure.missing.n_digests, 0);
}

static void a_good_action(void **state)
{
	struct scene *s = scene_new(*state);
	static char *paths[] = { "b/o", "o" };
	s->command.output_paths = paths;
	s->command.n_output_paths = 2;
	s->command.working_directory = (char *)(uintptr_t) "w";
	expect_ok(s);
	assert_int_equal(s->life.tree.n_entries, 3);
	assert_true(bj_str_eq(s->life.tree.entries[0].path, BJ_STR_LIT("f")));
	assert_true(bj_str_eq(s->life.tree.entries[2].path, BJ_STR_LIT("w/f")));
	assert_int_equal(s->life.n_outputs, 2);
	assert_true(bj_str_eq(s->life.outputs[0].path, BJ_STR_LIT("b/o")));
	assert_int_equal(s->life.outputs[0].style, BJ_OUTPUT_PATHS);
	assert_int_equal(s->life.timeout_ns, DEFAULT_TIMEOUT_NS);
	assert_string_equal(s->life.command->working_directory, "w");
	scene_free(s);
}

/* ---- what is missing ---- */

static void expect_missing(struct scene *s, const struct bj_digest *const *want, size_t n)
{
	assert_int_equal(fetch(s), -BJ_FAILED_PRECONDITION);
	const struct bj_missing *missing = &s->life.failure.missing;
	assert_int_equal(s->life.failure.err.code, BJ_FAILED_PRECONDITION);
	assert_int_equal(missing->n_digests, n);
	for (size_t i = 0; i < n; i++) {
		bool found = false;
		for (size_t j = 0; j < n; j++)
			found = found || bj_digest_eq(want[i], &missing->digests[j]);
		assert_true(found);
	}
}

static void drop(struct scene *s, const struct bj_digest *digest)
{
	bj_store_discard(s->fix->store, digest);
}

static void everything_missing_is_told_at_once(void **state)
{
	struct scene *s = scene_new(*state);
	upload(s);
	drop(s, &s->file_digest);
	expect_missing(s, (const struct bj_digest *[]){ &s->file_digest }, 1);
	drop(s, &s->command_digest);
	expect_missing(s, (const struct bj_digest *[]){ &s->file_digest, &s->command_digest }, 2);
	/* In the order in which a client looks at them. */
	assert_true(bj_digest_eq(&s->life.failure.missing.digests[0], &s->command_digest));
	drop(s, &s->sub_digest);
	expect_missing(
		s,
		(const struct bj_digest *[]){ &s->file_digest, &s->sub_digest, &s->command_digest },
		3);
	drop(s, &s->root_digest);
	expect_missing(s, (const struct bj_digest *[]){ &s->root_digest, &s->command_digest }, 2);
	drop(s, &s->request.action);
	expect_missing(s, (const struct bj_digest *[]){ &s->request.action }, 1);
	scene_free(s);
}

static void a_command_that_is_an_input_too_is_told_once(void **state)
{
	struct scene *s = scene_new(*state);
	s->command_digest = put_message(s, &s->command.base);
	s->file_node.digest = pb(s, &s->command_digest);
	upload(s);
	drop(s, &s->command_digest);
	expect_missing(s, (const struct bj_digest *[]){ &s->command_digest }, 1);
	scene_free(s);
}

/* Found when it is read: dropped, and the client uploads it again. */
static void what_is_damaged_is_missing(void **state)
{
	struct scene *s = scene_new(*state);
	upload(s);
	flip_bit(blob_path(s->fix, &s->command_digest), 3);
	expect_missing(s, (const struct bj_digest *[]){ &s->command_digest }, 1);
	upload(s);
	flip_bit(blob_path(s->fix, &s->request.action), 3);
	expect_missing(s, (const struct bj_digest *[]){ &s->request.action }, 1);
	upload(s);
	flip_bit(blob_path(s->fix, &s->sub_digest), 3);
	expect_missing(s, (const struct bj_digest *[]){ &s->sub_digest }, 1);
	upload(s);
	assert_int_equal(fetch(s), 0);
	scene_free(s);
}

/* ---- what is malformed ---- */

static void messages_that_are_none(void **state)
{
	struct scene *s = scene_new(*state);
	upload(s);
	s->request.action = put(s->fix, BJ_STR_LIT("\xff\xff no Action"));
	assert_int_equal(fetch(s), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(s->life.failure.err.msg, "Action "));
	upload(s);
	s->command_digest = put(s->fix, BJ_STR_LIT("\xff\xff no Command"));
	s->action.command_digest = pb(s, &s->command_digest);
	s->request.action = put_message(s, &s->action.base);
	assert_int_equal(fetch(s), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(s->life.failure.err.msg, "Command "));
	scene_free(s);
}

static void digests_that_are_none(void **state)
{
	re_digest bad = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST__INIT;
	struct scene *s = scene_new(*state);
	upload(s);
	bad.hash = (char *)(uintptr_t) "5891B5";
	struct {
		re_digest **field;
		const char *text;
	} rows[] = { { &s->action.command_digest, "Action.command_digest" },
		     { &s->action.input_root_digest, "Action.input_root_digest" } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		re_digest *good = *rows[i].field;
		for (int round = 0; round < 2; round++) {
			*rows[i].field = round ? &bad : NULL;
			s->request.action = put_message(s, &s->action.base);
			assert_int_equal(fetch(s), -BJ_INVALID_ARGUMENT);
			assert_non_null(strstr(s->life.failure.err.msg, rows[i].text));
		}
		*rows[i].field = good;
	}
	scene_free(s);
}

static void timeouts(void **state)
{
	static const struct {
		int64_t seconds;
		int32_t nanos;
		uint64_t want_ns;
		const char *text; /* of the refusal */
	} rows[] = {
		{ 0, 0, DEFAULT_TIMEOUT_NS, NULL },
		{ 1, 0, BJ_NS_PER_SEC, NULL },
		{ 0, 1, 1, NULL },
		{ 60, 0, MAX_TIMEOUT_NS, NULL },
		{ 60, 1, 0, "above the server's maximum of 60 s" },
		{ 61, 0, 0, "above the server's maximum of 60 s" },
		{ INT64_MAX, 999999999, 0, "above" },
		{ -1, 0, 0, "malformed" },
		{ 1, -1, 0, "malformed" },
		{ 1, 1000000000, 0, "malformed" },
	};
	struct scene *s = scene_new(*state);
	s->action.timeout = &s->timeout;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		s->timeout.seconds = rows[i].seconds;
		s->timeout.nanos = rows[i].nanos;
		if (rows[i].text) {
			expect_refused(s, BJ_INVALID_ARGUMENT, rows[i].text);
			continue;
		}
		expect_ok(s);
		assert_int_equal(s->life.timeout_ns, rows[i].want_ns);
	}
	/* Without a maximum the largest that can be counted. */
	s->runner.opts.max_timeout_ns = UINT64_MAX;
	s->timeout = (Google__Protobuf__Duration){ s->timeout.base, 18446744073, 709551615 };
	expect_ok(s);
	assert_int_equal(s->life.timeout_ns, UINT64_MAX);
	s->timeout.nanos++;
	expect_refused(s, BJ_INVALID_ARGUMENT, "above");
	scene_free(s);
}

static void commands_that_cannot_run(void **state)
{
	struct scene *s = scene_new(*state);
	BJ_RE(Command__EnvironmentVariable) variable, *variables[] = { &variable };
	static char *properties[] = { "mtime" };
	build__bazel__remote__execution__v2__command__environment_variable__init(&variable);

	s->command.n_arguments = 0;
	expect_refused(s, BJ_INVALID_ARGUMENT, "Command.arguments");
	s->command.n_arguments = 1;
	s->arguments[0] = (char *)(uintptr_t) "";
	expect_refused(s, BJ_INVALID_ARGUMENT, "Command.arguments");
	s->arguments[0] = (char *)(uintptr_t) "true";

	s->command.environment_variables = variables;
	s->command.n_environment_variables = 1;
	expect_refused(s, BJ_INVALID_ARGUMENT, "environment_variables[0]");
	variable.name = (char *)(uintptr_t) "A=B";
	expect_refused(s, BJ_INVALID_ARGUMENT, "\"A=B\"");
	variable.name = (char *)(uintptr_t) "A";
	variable.value = (char *)(uintptr_t) "x=y";
	expect_ok(s);

	s->command.output_node_properties = properties;
	s->command.n_output_node_properties = 1;
	expect_refused(s, BJ_INVALID_ARGUMENT, "\"mtime\"");
	scene_free(s);
}

static void working_directories(void **state)
{
	static const struct {
		const char *dir;
		const char *text; /* of the refusal */
	} rows[] = {
		{ "", NULL },
		{ ".", NULL },
		{ "w", NULL },
		{ "f", "\"f\" is no directory" },
		{ "x", "\"x\" is no directory" },
		{ "w/x", "no directory" },
		{ "w/", "Command.working_directory" },
		{ "/w", "Command.working_directory" },
		{ "..", "Command.working_directory" },
		{ "w/..", "Command.working_directory" },
		{ "./w", "no directory" },
	};
	struct scene *s = scene_new(*state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		s->command.working_directory = (char *)(uintptr_t)rows[i].dir;
		if (rows[i].text) {
			expect_refused(s, BJ_INVALID_ARGUMENT, rows[i].text);
			continue;
		}
		expect_ok(s);
		bool is_root = strcmp(rows[i].dir, "w") != 0;
		assert_string_equal(s->life.command->working_directory, is_root ? "" : "w");
	}
	scene_free(s);
}

/* ---- outputs ---- */

enum { MAX_PATHS = 4 };

static size_t count_paths(const char *const *paths)
{
	size_t n = 0;
	while (n < MAX_PATHS && paths[n])
		n++;
	return n;
}

static void output_rules(void **state)
{
	static const struct {
		const char *paths[MAX_PATHS], *files[MAX_PATHS], *dirs[MAX_PATHS];
		const char *text; /* of the refusal */
	} rows[] = {
		{ .paths = { "a", "b/c" } },
		{ .files = { "a", "b" }, .dirs = { "c" } },
		{ .paths = { "" } },
		{ .dirs = { "" } },
		{ .files = { "" }, .text = "Command.output_files[0] is empty" },
		/* L08: with output_paths the other two do not count, whatever they hold. */
		{ .paths = { "a" }, .files = { "a", "a", "/x" }, .dirs = { "a" } },
		/* L17 */
		{ .paths = { "a", "a" }, .text = "output_paths[1]: \"a\" is declared twice" },
		{ .paths = { "", "" }, .text = "declared twice" },
		{ .files = { "a", "b", "a" }, .text = "output_files[2]: \"a\" is declared twice" },
		{ .dirs = { "a", "a" }, .text = "declared twice" },
		{ .files = { "a" }, .dirs = { "a" }, .text = "declared twice" },
		/* L15: only a file may not be above another output. */
		{ .dirs = { "d", "d/e" }, .files = { "d/f" } },
		{ .paths = { "a", "a/b" } },
		{ .files = { "a", "a/b" }, .text = "\"a\" is the parent of the output \"a/b\"" },
		{ .files = { "a/b/c", "a/b" },
		  .text = "\"a/b\" is the parent of the output \"a/b/c\"" },
		{ .files = { "a" }, .dirs = { "a/b/c" }, .text = "\"a\" is the parent" },
		{ .files = { "a", "ab", "a-b", "a.b" } },
		/* L21 */
		{ .paths = { "/x" }, .text = "output_paths[0]" },
		{ .paths = { "../x" }, .text = "output_paths[0]" },
		{ .paths = { "ok", "a/../../x" }, .text = "output_paths[1]" },
		{ .files = { "x/" }, .text = "output_files[0]" },
		{ .dirs = { "a//b" }, .text = "output_directories[0]" },
	};
	struct scene *s = scene_new(*state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		s->command.output_paths = (char **)(uintptr_t)rows[i].paths;
		s->command.n_output_paths = count_paths(rows[i].paths);
		s->command.output_files = (char **)(uintptr_t)rows[i].files;
		s->command.n_output_files = count_paths(rows[i].files);
		s->command.output_directories = (char **)(uintptr_t)rows[i].dirs;
		s->command.n_output_directories = count_paths(rows[i].dirs);
		if (rows[i].text) {
			expect_refused(s, BJ_INVALID_ARGUMENT, rows[i].text);
			continue;
		}
		expect_ok(s);
		size_t n = s->command.n_output_paths
				   ? s->command.n_output_paths
				   : s->command.n_output_files + s->command.n_output_directories;
		assert_int_equal(s->life.n_outputs, n);
	}
	scene_free(s);
}

/* "/exec/w/" and the NUL leave 4087 bytes of PATH_MAX. */
static void the_longest_output(void **state)
{
	static char path[PATH_MAX];
	char *paths[] = { path };
	struct scene *s = scene_new(*state);
	memset(path, 'a', sizeof(path) - 1);
	for (size_t i = 200; i < sizeof(path) - 1; i += 200)
		path[i] = '/';
	s->command.working_directory = (char *)(uintptr_t) "w";
	s->command.output_paths = paths;
	s->command.n_output_paths = 1;
	path[4087] = '\0';
	expect_ok(s);
	path[4087] = 'a';
	path[4088] = '\0';
	expect_refused(s, BJ_INVALID_ARGUMENT, "too long for a path");
	scene_free(s);
}

/* Linear: squared it would take minutes. */
static void very_many_outputs(void **state)
{
	enum { N = 100000, PATH_BYTES = 24 };
	struct scene *s = scene_new(*state);
	char *text = calloc(N + 1, PATH_BYTES);
	char **paths = calloc(N + 1, sizeof(*paths));
	assert_true(text && paths);
	for (size_t i = 0; i <= N; i++) {
		paths[i] = text + i * PATH_BYTES;
		(void)snprintf(paths[i], PATH_BYTES, "d%zu/%06zu", i % 100, i);
	}
	s->command.output_files = paths;
	s->command.n_output_files = N + 1;
	expect_ok(s);
	assert_int_equal(s->life.n_outputs, N + 1);
	(void)snprintf(paths[7], PATH_BYTES, "d%d", 7);
	expect_refused(s, BJ_INVALID_ARGUMENT, "\"d7\" is the parent of the output \"d7/");
	free(paths);
	free(text);
	scene_free(s);
}

static void each_allocation_fails_once(void **state)
{
	static char *paths[] = { "o" };
	struct scene *s = scene_new(*state);
	bool failed = true;
	uint64_t n = 0;
	s->command.output_files = paths;
	s->command.n_output_files = 1;
	upload(s);
	for (; failed; n++) {
		struct bj_arena arena;
		bj_arena_init(&arena, 0);
		s->life = (struct life){ .runner = &s->runner,
					 .request = &s->request,
					 .arena = &arena,
					 .failure = { .err = BJ_ERR_NULL } };
		bj_alloc_fail_after(n);
		int r = life_fetch(&s->life);
		failed = bj_alloc_fail_disarm();
		assert_true(r == 0 || failed);
		assert_int_equal(bj_err_is_set(&s->life.failure.err), r < 0);
		bj_arena_deinit(&arena);
	}
	assert_true(n > 3);
	scene_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(a_good_action),
		FIX_TEST(everything_missing_is_told_at_once),
		FIX_TEST(a_command_that_is_an_input_too_is_told_once),
		FIX_TEST(what_is_damaged_is_missing),
		FIX_TEST(messages_that_are_none),
		FIX_TEST(digests_that_are_none),
		FIX_TEST(timeouts),
		FIX_TEST(commands_that_cannot_run),
		FIX_TEST(working_directories),
		FIX_TEST(output_rules),
		FIX_TEST(the_longest_output),
		FIX_TEST(very_many_outputs),
		FIX_TEST(each_allocation_fails_once),
	};
	return cmocka_run_group_tests_name("action/fetch", tests, NULL, NULL);
}
