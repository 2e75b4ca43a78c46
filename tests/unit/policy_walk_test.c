// SPDX-License-Identifier: Apache-2.0
/* Where declared links lead, and which input was meant. */
#include "policy_test_util.h"

/* ---- declared symlinks ---- */

static void links_are_followed_as_the_kernel_does(void **state)
{
	(void)state;
	static const struct {
		const char *path, *want;
		enum bjp_class followed;
	} rows[] = {
		{ "/exec/t/a.c", "/exec/t/a.c", BJP_INPUT },
		{ "/exec/t/link", "/exec/t/b.h", BJP_INPUT },
		{ "/exec/dirlink/link", "/exec/t/b.h", BJP_INPUT },
		{ "/exec/dirlink/none.h", "/exec/t/none.h", BJP_UNDECLARED },
		{ "/exec/t/astray", "/exec/secret/x.h", BJP_UNDECLARED },
		{ "/exec/dirlink/astray", "/exec/secret/x.h", BJP_UNDECLARED },
		{ "/exec/t/absolute", "/etc/hostname", BJP_UNDECLARED },
		{ "/exec/t/again", "/exec/t/again", BJP_INPUT }, /* a loop: left as it is */
		{ "/etc/hostname", "/etc/hostname", BJP_UNDECLARED },
		{ "/exec", "/exec", BJP_INPUT },
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = action_declared();
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_str path = bj_str_of(rows[i].path);
		expect_str(bjp_resolve_declared(policy, &arena, path), rows[i].want, rows[i].path);
		assert_int_equal(bjp_classify(policy, bjp_resolve_declared(policy, &arena, path)),
				 rows[i].followed);
	}
}

static void links_to_odd_places(void **state)
{
	(void)state;
	static const struct bjp_node nodes[] = {
		{ BJ_STR_LIT("d/sub/f"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("up"), BJP_NODE_SYMLINK, BJ_STR_LIT("d/sub/../..//.") },
		{ BJ_STR_LIT("deep"), BJP_NODE_SYMLINK, BJ_STR_LIT("d/sub") },
		{ BJ_STR_LIT("parent"), BJP_NODE_SYMLINK, BJ_STR_LIT("deep/../g") },
		{ BJ_STR_LIT("void"), BJP_NODE_SYMLINK, BJ_STR_LIT("") },
		{ BJ_STR_LIT("out"), BJP_NODE_SYMLINK, BJ_STR_LIT("../../../../../") },
		{ BJ_STR_LIT("abs"), BJP_NODE_SYMLINK, BJ_STR_LIT("/exec/deep/f") },
	};
	static const struct {
		const char *path, *want;
	} rows[] = {
		{ "/exec/up/d/sub/f", "/exec/d/sub/f" },
		{ "/exec/parent", "/exec/d/g" },
		{ "/exec/void", "/exec" },
		{ "/exec/out", "/" },
		{ "/exec/out/etc", "/etc" },
		{ "/exec/abs", "/exec/d/sub/f" },
		{ "/exec/deep", "/exec/d/sub" },
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = { .exec_root = S("/exec"),
					 .inputs = nodes,
					 .n_inputs = BJ_ARRAY_LEN(nodes) };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_str(bjp_resolve_declared(policy, &arena, bj_str_of(rows[i].path)),
			   rows[i].want, rows[i].path);
}

static void long_and_many_links_end(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_node nodes[43];
	for (int i = 0; i < 42; i++)
		nodes[i] = (struct bjp_node){ bj_str_of(bj_arena_printf(&arena, "l%d", i)),
					      BJP_NODE_SYMLINK,
					      bj_str_of(bj_arena_printf(&arena, "l%d", i + 1)) };
	char *text = bj_arena_alloc(&arena, 4090);
	memset(text, 'x', 4090);
	for (size_t i = 200; i < 4090; i += 200)
		text[i] = '/';
	nodes[42] = (struct bjp_node){ S("long"), BJP_NODE_SYMLINK, bj_str_n(text, 4080) };
	struct bjp_declared declared = { .exec_root = S("/exec"), .inputs = nodes, .n_inputs = 43 };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	expect_str(bjp_resolve_declared(policy, &arena, S("/exec/l1")), "/exec/l1", "41 links");
	expect_str(bjp_resolve_declared(policy, &arena, S("/exec/l2")), "/exec/l42", "40 links");
	expect_str(bjp_resolve_declared(policy, &arena, S("/exec/long/a-long-tail-behind-it")),
		   "/exec/long/a-long-tail-behind-it", "todo too long");
	text[4079] = 'y';
	expect_str(bjp_resolve_declared(policy, &arena, S("/exec/long")).len > 4000 ? S("long")
										    : S("short"),
		   "long", "just fits");
	char *path = bj_arena_alloc(&arena, 5000);
	memset(path, 'y', 5000);
	memcpy(path, "/exec/", 6);
	assert_int_equal(bjp_resolve_declared(policy, &arena, bj_str_n(path, 5000)).len, 5000);
}

/* ---- did you mean ---- */

static void nearest_table(void **state)
{
	(void)state;
	static const struct bjp_node nodes[] = {
		{ BJ_STR_LIT("lib/util/str.h"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("app/util/str.h"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("app/main.c"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("app/main.h"), BJP_NODE_SYMLINK, BJ_STR_LIT("x") },
		{ BJ_STR_LIT("app/Readme"), BJP_NODE_FILE, { NULL, 0 } },
		{ BJ_STR_LIT("app/dir"), BJP_NODE_DIR, { NULL, 0 } },
	};
	static const struct {
		const char *path, *want;
	} rows[] = {
		{ "/exec/app/str.h", "app/util/str.h" }, /* same name, more in common */
		{ "/exec/lib/str.h", "lib/util/str.h" },
		{ "/exec/x/str.h", "app/util/str.h" }, /* a tie: the first by name */
		{ "/exec/app/main.cc", "app/main.c" }, /* same directory */
		{ "/exec/app/mian.c", "app/main.c" },
		{ "/exec/app/README", "app/Readme" },
		{ "/exec/app/dir", "" }, /* a directory is no input to name */
		{ "/exec/app/zzz", "" },
		{ "/exec/nowhere/zzz", "" },
		{ "/usr/include/str.h", "app/util/str.h" },
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_declared declared = { .exec_root = S("/exec"),
					 .inputs = nodes,
					 .n_inputs = BJ_ARRAY_LEN(nodes) };
	const struct bjp_policy *policy = must_derive(&declared, &arena);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_str(bjp_nearest(policy, bj_str_of(rows[i].path)), rows[i].want,
			   rows[i].path);
	assert_int_equal(bjp_nearest(policy, S("/exec/app/main.c")).len > 0, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_followed_as_the_kernel_does),
		cmocka_unit_test(links_to_odd_places),
		cmocka_unit_test(long_and_many_links_end),
		cmocka_unit_test(nearest_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
