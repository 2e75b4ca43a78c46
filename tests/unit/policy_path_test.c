// SPDX-License-Identifier: Apache-2.0
#include "policy_test_util.h"

/* ---- bjp_path_clean ---- */

static void clean_table(void **state)
{
	(void)state;
	static const struct {
		const char *base, *path, *want;
	} rows[] = {
		{ "/exec", "", "/exec" },
		{ "/exec", ".", "/exec" },
		{ "/exec", "a", "/exec/a" },
		{ "/exec", "./a/./b/.", "/exec/a/b" },
		{ "/exec", "a//b///c/", "/exec/a/b/c" },
		{ "/exec/w", "../a", "/exec/a" },
		{ "/exec/w", "a/../../b", "/exec/b" },
		{ "/exec", "../../../..", "/" },
		{ "/exec", "..", "/" },
		{ "/exec", "/", "/" },
		{ "/exec", "//", "/" },
		{ "/exec", "/a/../..", "/" },
		{ "/exec", "/etc/./hostname", "/etc/hostname" },
		{ "/exec", "...", "/exec/..." },
		{ "/exec", "..a/.b", "/exec/..a/.b" },
		{ "/", "a", "/a" },
		{ "/", "", "/" },
		{ "/exec//w/./", "a", "/exec/w/a" },
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_str(bjp_path_clean(&arena, bj_str_of(rows[i].base), bj_str_of(rows[i].path)),
			   rows[i].want, rows[i].path);
}

static void clean_keeps_any_byte(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_str got = bjp_path_clean(&arena, S("/exec"), bj_str_n("a\0b/\xff\n", 6));
	assert_int_equal(got.len, 12);
	assert_memory_equal(got.ptr, "/exec/a\0b/\xff\n", 12);
}

/* A random path of few letters, so that dots and slashes meet often. */
static struct bj_str random_path(char *buf, size_t max, uint64_t *seed)
{
	static const char letters[] = "//..ab";
	size_t len = next_random(seed) % max;
	for (size_t i = 0; i < len; i++)
		buf[i] = letters[next_random(seed) % 6];
	return bj_str_n(buf, len);
}

static bool has_name(struct bj_str path, const char *name)
{
	while (path.len > 0) {
		if (bj_str_eq(bj_str_cut(&path, '/'), bj_str_of(name)))
			return true;
	}
	return false;
}

static void clean_is_idempotent(void **state)
{
	(void)state;
	uint64_t seed = 7;
	char buf[24];
	for (int i = 0; i < 20000; i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bj_str raw = random_path(buf, sizeof(buf), &seed);
		struct bj_str once = bjp_path_clean(&arena, S("/exec/w"), raw);
		struct bj_str twice = bjp_path_clean(&arena, S("/elsewhere"), once);
		assert_true(bj_str_eq(once, twice));
		assert_true(once.len >= 1 && once.ptr[0] == '/');
		assert_true(once.len == 1 || once.ptr[once.len - 1] != '/');
		assert_false(has_name(once, ".") || has_name(once, ".."));
		assert_null(strstr(once.ptr, "//"));
	}
}

static void clean_without_memory(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	bj_alloc_fail_after(0);
	struct bj_str got = bjp_path_clean(&arena, S("/exec"), S("a"));
	assert_true(bj_alloc_fail_disarm());
	assert_null(got.ptr);
}

/* ---- bjp_path_is_below ---- */

/* vx-54: a grant is a whole component, "/a" is not above "/ab". */
static void below_is_by_whole_components_vx_54(void **state)
{
	(void)state;
	static const struct {
		const char *path, *top;
		bool want;
	} rows[] = {
		{ "/a", "/a", true },	    { "/a/b", "/a", true },	{ "/ab", "/a", false },
		{ "/", "/", true },	    { "/a", "/", true },	{ "/", "/a", false },
		{ "/a", "/a/b", false },    { "", "/", false },		{ "a", "/", false },
		{ "/a/b/c", "/a/b", true }, { "/a/bc", "/a/b", false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		if (bjp_path_is_below(bj_str_of(rows[i].path), bj_str_of(rows[i].top)) !=
		    rows[i].want)
			fail_msg("%s below %s", rows[i].path, rows[i].top);
	}
}

/* ---- bjp_output_path_check: bug log L21 ---- */

static void output_path_table(void **state)
{
	(void)state;
	static const struct {
		const char *path, *what, *fault; /* NULL: accepted */
	} rows[] = {
		{ "a", "output_paths[0]", NULL },
		{ "a/b.c", "output_paths[0]", NULL },
		{ "./a", "output_paths[0]", NULL },
		{ ".", "output_directories[0]", NULL },
		{ "", "output_paths[0]", NULL },
		{ "", "output_directories[0]", NULL },
		{ "..a/b..", "output_paths[0]", NULL },
		{ "", "output_files[2]", "output_files[2]: \"\" is empty" },
		{ "/x", "output_paths[0]", "is absolute" },
		{ "/", "output_paths[0]", "is absolute" },
		{ "../x", "output_paths[3]", "output_paths[3]: \"../x\" has a \"..\" component" },
		{ "a/../../x", "output_paths[0]", "has a \"..\" component" },
		{ "a/..", "output_paths[0]", "has a \"..\" component" },
		{ "a/../b", "output_paths[0]", "has a \"..\" component" },
		{ "a/", "output_paths[0]", "ends in \"/\"" },
		{ "a//b", "output_paths[0]", "has an empty component" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_err err = BJ_ERR_NULL;
		int r = bjp_output_path_check(bj_str_of(rows[i].path), rows[i].what, &err);
		if (!rows[i].fault) {
			assert_int_equal(r, 0);
			assert_false(bj_err_is_set(&err));
			continue;
		}
		assert_int_equal(r, -BJ_INVALID_ARGUMENT);
		expect_contains(err.msg, rows[i].fault);
	}
}

static void output_path_limits(void **state)
{
	(void)state;
	static char text[5000];
	memset(text, 'n', sizeof(text));
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_output_path_check(bj_str_n(text, 255), "o", &err), 0);
	assert_int_equal(bjp_output_path_check(bj_str_n(text, 256), "o", &err),
			 -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "more than 255 bytes");
	for (size_t i = 100; i < sizeof(text); i += 100)
		text[i] = '/';
	err = BJ_ERR_NULL;
	assert_int_equal(bjp_output_path_check(bj_str_n(text, 4095), "o", &err), 0);
	assert_int_equal(bjp_output_path_check(bj_str_n(text, 4096), "o", &err),
			 -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "longer than 4095 bytes");
	err = BJ_ERR_NULL;
	assert_int_equal(bjp_output_path_check(bj_str_n("a\0b", 3), "o", &err),
			 -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "NUL");
}

/* vx-53: hostile bytes of a client reach no terminal. */
static void output_path_is_shown_safely(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_output_path_check(S("\x1b[31m/../x"), "o", &err),
			 -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "\\x1b[31m/../x");
	bj_alloc_fail_after(0);
	err = BJ_ERR_NULL;
	assert_int_equal(bjp_output_path_check(S("/x"), "o", &err), -BJ_INVALID_ARGUMENT);
	(void)bj_alloc_fail_disarm();
	expect_contains(err.msg, "is absolute");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean_table),
		cmocka_unit_test(clean_keeps_any_byte),
		cmocka_unit_test(clean_is_idempotent),
		cmocka_unit_test(clean_without_memory),
		cmocka_unit_test(below_is_by_whole_components_vx_54),
		cmocka_unit_test(output_path_table),
		cmocka_unit_test(output_path_limits),
		cmocka_unit_test(output_path_is_shown_safely),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
