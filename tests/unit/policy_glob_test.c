// SPDX-License-Identifier: Apache-2.0
#include "policy_test_util.h"

#include "policy_glob_oracle.h"

struct row {
	const char *pattern, *path;
	bool want;
};

static void run_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct bj_err err = BJ_ERR_NULL;
		assert_int_equal(bjp_glob_check(bj_str_of(rows[i].pattern), &err), 0);
		if (bjp_glob_match(bj_str_of(rows[i].pattern), bj_str_of(rows[i].path)) !=
		    rows[i].want)
			fail_msg("%s against %s: want %d", rows[i].pattern, rows[i].path,
				 rows[i].want);
	}
}

static void within_a_component(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "/a/b", "/a/b", true },
		{ "/a/b", "/a/bc", false },
		{ "/a/b", "/a", false },
		{ "/a/*.h", "/a/x.h", true },
		{ "/a/*.h", "/a/.h", true },
		{ "/a/*.h", "/a/b/x.h", false },
		{ "*", "a", true },
		{ "*", "a/b", false },
		{ "*", "", true },
		{ "/*/b", "/a/b", true },
		{ "/*/b", "//b", true },
		{ "a*b*c", "a1b2b3c", true },
		{ "a*b*c", "a1b2b3", false },
		{ "?", "a", true },
		{ "?", "/", false },
		{ "?", "", false },
		{ "a?c", "abc", true },
		{ "a?c", "a/c", false },
		{ "*a*a*a*b", "aaaaaaaa", false },
	};
	run_rows(rows, BJ_ARRAY_LEN(rows));
}

static void across_components(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "**", "", true },
		{ "**", "/a/b", true },
		{ "/**", "/", true },
		{ "/**", "/a/b", true },
		{ "**/x", "x", true },
		{ "**/x", "/x", true },
		{ "**/x", "/a/b/x", true },
		{ "**/x", "/a/bx", false },
		{ "/a/**/b", "/a/b", true },
		{ "/a/**/b", "/a/1/2/b", true },
		{ "/a/**/b", "/a/xb", false },
		{ "/a/**/b/*.h", "/a/b/c/b/x.h", true },
		{ "/a/**/b/*.h", "/a/b/c/x.h", false },
		{ "a**b", "a/x/b", true },
		{ "a**b", "ab", true },
		{ "a**b/c", "a/b/b/c", true },
		{ "a**/b", "axx/y/b", true },
		{ "**/__pycache__/**", "/exec/t/__pycache__/m.pyc", true },
		{ "**/__pycache__/**", "/exec/t/__pycache__", true },
		{ "**/__pycache__/**", "/exec/t/x__pycache__/m.pyc", false },
		{ "**/a/**/b/**", "a/b", true },
		{ "**/a/**/b/**", "x/a/y/b/z", true },
		{ "**/a/**/b/**", "x/b/y/a/z", false },
	};
	run_rows(rows, BJ_ARRAY_LEN(rows));
}

/* vx-57: a grant `d` + "/" + `**` covers d itself, and so does one more "/" + `*`. */
static void a_last_globstar_covers_its_directory_vx_57(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "/d/**", "/d", true },       { "/d/**", "/d/x", true },
		{ "/d/**", "/d/x/y", true },   { "/d/**", "/dx", false },
		{ "/d/**/*", "/d", true },     { "/d/**/*", "/d/x", true },
		{ "/d/**/*", "/d/x/y", true }, { "/d/**/*", "/e", false },
		{ "d*/**", "dx", true },       { "d/*", "d", false },
	};
	run_rows(rows, BJ_ARRAY_LEN(rows));
}

static void sets_and_quotes(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "[abc]", "b", true },	       { "[abc]", "d", false },
		{ "[!abc]", "d", true },       { "[^abc]", "a", false },
		{ "[a-c]x", "bx", true },      { "[a-c]x", "dx", false },
		{ "[]a]", "]", true },	       { "[!]a]", "]", false },
		{ "[a-]", "-", true },	       { "[\\]]", "]", true },
		{ "[!a]", "/", false },	       { "[.-0]", "/", false },
		{ "\\*", "*", true },	       { "\\*", "a", false },
		{ "\\?x", "?x", true },	       { "\\[a]", "[a]", true },
		{ "a\\\\b", "a\\b", true },    { "[a][b]", "ab", true },
		{ "*[0-9].o", "x12.o", true },
	};
	run_rows(rows, BJ_ARRAY_LEN(rows));
	/* Not passed by bjp_glob_check(), but harmless: the bytes stand for themselves. */
	assert_true(bjp_glob_match(S("[a"), S("[a")));
	assert_false(bjp_glob_match(S("[a"), S("a")));
	assert_true(bjp_glob_match(S("a\\"), S("a\\")));
	assert_true(bjp_glob_match(S(""), S("")));
	assert_false(bjp_glob_match(S(""), S("a")));
}

static void faults_name_pattern_and_offset(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *fault;
	} rows[] = {
		{ "", "pattern \"\" is empty (at offset 0)" },
		{ "a/[bc", "pattern \"a/[bc\" has a set without \"]\" (at offset 2)" },
		{ "abc\\", "ends in a backslash (at offset 3)" },
		{ "~/x", "pattern \"~/x\" starts with \"~\"" },
		{ "a/../b", "has a \"..\" component, which no clean path has (at offset 2)" },
		{ "..", "has a \"..\" component, which no clean path has (at offset 0)" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_err err = BJ_ERR_NULL;
		assert_int_equal(bjp_glob_check(bj_str_of(rows[i].pattern), &err),
				 -BJ_INVALID_ARGUMENT);
		expect_contains(err.msg, rows[i].fault);
	}
	char longest[1025];
	memset(longest, 'a', sizeof(longest));
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_glob_check(bj_str_n(longest, 1024), &err), 0);
	assert_int_equal(bjp_glob_check(bj_str_n(longest, 1025), &err), -BJ_INVALID_ARGUMENT);
	err = BJ_ERR_NULL;
	assert_int_equal(bjp_glob_check(bj_str_n("a\0", 2), &err), -BJ_INVALID_ARGUMENT);
	expect_contains(err.msg, "NUL byte (at offset 1)");
}

static struct bj_str random_text(char *buf, size_t max, const char *letters, uint64_t *seed)
{
	size_t len = next_random(seed) % max;
	for (size_t i = 0; i < len; i++)
		buf[i] = letters[next_random(seed) % strlen(letters)];
	return bj_str_n(buf, len);
}

static void agrees_with_the_oracle(void **state)
{
	(void)state;
	uint64_t seed = 11;
	char p[12], s[12];
	int n_hits = 0;
	for (int i = 0; i < 400000; i++) {
		struct bj_str pattern = random_text(p, sizeof(p), "***//ab?\\", &seed);
		struct bj_str path = random_text(s, sizeof(s), "/ab", &seed);
		bool want = oracle_glob(pattern, path);
		n_hits += want;
		if (bjp_glob_match(pattern, path) != want)
			fail_msg("\"%.*s\" against \"%.*s\": want %d", BJ_STR_FMT(pattern),
				 BJ_STR_FMT(path), want);
	}
	assert_true(n_hits > 10000); /* or the test would say little */
}

/* A pattern made to explode takes no noticeable time: hangs here if the work were exponential. */
static void hostile_patterns_do_not_explode(void **state)
{
	(void)state;
	static char pattern[1001], path[4000];
	for (size_t i = 0; i < 1000; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[999] = 'b';
	memset(path, 'a', sizeof(path));
	assert_false(bjp_glob_match(bj_str_n(pattern, 1000), bj_str_n(path, sizeof(path))));
	for (size_t i = 0; i + 4 <= 1000; i += 4)
		memcpy(pattern + i, "**/a", 4);
	for (size_t i = 1; i < sizeof(path); i += 2)
		path[i] = '/';
	assert_false(bjp_glob_match(bj_str_n(pattern, 1000), bj_str_n(path, sizeof(path))));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(within_a_component),
		cmocka_unit_test(across_components),
		cmocka_unit_test(a_last_globstar_covers_its_directory_vx_57),
		cmocka_unit_test(sets_and_quotes),
		cmocka_unit_test(faults_name_pattern_and_offset),
		cmocka_unit_test(agrees_with_the_oracle),
		cmocka_unit_test(hostile_patterns_do_not_explode),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
