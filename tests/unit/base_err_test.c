// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/err.h"

static void set_fills_everything_and_returns_minus_code(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	assert_false(bj_err_is_set(&err));
	uint32_t line = __LINE__ + 1;
	int r = bj_err_set(&err, BJ_NOT_FOUND, "no blob %d", 7);
	assert_int_equal(r, -5);
	assert_true(bj_err_is_set(&err));
	assert_int_equal(err.code, BJ_NOT_FOUND);
	assert_int_equal(err.sys_errno, 0);
	assert_int_equal(err.line, line);
	assert_string_equal(err.file, __FILE__);
	assert_string_equal(err.msg, "no blob 7");
}

static void set_at_keeps_the_errno_given(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	int r = bj_err_set_at(&err, BJ_PERMISSION_DENIED, EACCES, "f.c", 9, "no");
	assert_int_equal(r, -BJ_PERMISSION_DENIED);
	assert_int_equal(err.sys_errno, EACCES);
	assert_int_equal(err.line, 9);
	assert_string_equal(err.file, "f.c");
}

static void errno_chooses_the_code_and_appends_the_reason(void **state)
{
	(void)state;
	static const struct {
		int errnum;
		enum bj_code code;
		const char *msg;
	} rows[] = {
		{ ENOSPC, BJ_RESOURCE_EXHAUSTED, "open \"x\": No space left on device" },
		{ EDQUOT, BJ_RESOURCE_EXHAUSTED, "open \"x\": Disk quota exceeded" },
		{ ENOMEM, BJ_RESOURCE_EXHAUSTED, "open \"x\": Cannot allocate memory" },
		{ EMFILE, BJ_RESOURCE_EXHAUSTED, "open \"x\": Too many open files" },
		{ ENFILE, BJ_RESOURCE_EXHAUSTED, "open \"x\": Too many open files in system" },
		{ EINTR, BJ_CANCELLED, "open \"x\": Interrupted system call" },
		{ ECANCELED, BJ_CANCELLED, "open \"x\": Operation canceled" },
		{ ENOENT, BJ_INTERNAL, "open \"x\": No such file or directory" },
		{ EIO, BJ_INTERNAL, "open \"x\": Input/output error" },
		{ 9999, BJ_INTERNAL, "open \"x\": errno 9999" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_err err = BJ_ERR_NULL;
		assert_int_equal(bj_err_errno(&err, rows[i].errnum, "open \"%s\"", "x"),
				 -(int)rows[i].code);
		assert_int_equal(err.code, rows[i].code);
		assert_int_equal(err.sys_errno, rows[i].errnum);
		assert_string_equal(err.msg, rows[i].msg);
	}
}

static void wrap_puts_context_in_front(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	(void)bj_err_errno(&err, ENOENT, "open \"%s\"", "a");
	uint32_t line = err.line;
	assert_int_equal(bj_err_wrap(&err, "stage %s", "inputs"), -BJ_INTERNAL);
	assert_int_equal(bj_err_wrap(&err, "action %d", 3), -BJ_INTERNAL);
	assert_string_equal(err.msg,
			    "action 3: stage inputs: open \"a\": No such file or directory");
	assert_int_equal(err.line, line);
	assert_int_equal(err.sys_errno, ENOENT);
}

static void wrap_may_quote_the_text_itself(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	(void)bj_err_set(&err, BJ_ABORTED, "inner");
	(void)bj_err_wrap(&err, "<%s>", err.msg);
	assert_string_equal(err.msg, "<inner>: inner");
}

static void fill(char *text, size_t len, char c)
{
	memset(text, c, len);
	text[len] = '\0';
}

static void text_is_cut_at_1023_bytes_with_dots(void **state)
{
	(void)state;
	char text[1100];
	struct bj_err err = BJ_ERR_NULL;
	fill(text, 1023, 'a'); /* fits exactly */
	(void)bj_err_set(&err, BJ_UNKNOWN, "%s", text);
	assert_string_equal(err.msg, text);

	bj_err_clear(&err);
	fill(text, 1024, 'a'); /* one too many */
	(void)bj_err_set(&err, BJ_UNKNOWN, "%s", text);
	assert_int_equal(strlen(err.msg), 1023);
	assert_string_equal(err.msg + 1019, "a...");
}

static void errno_text_survives_the_cut(void **state)
{
	(void)state;
	char text[1100];
	struct bj_err err = BJ_ERR_NULL;
	fill(text, 1099, 'a');
	(void)bj_err_errno(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.msg), 1023);
	const char *tail = "a...: Input/output error";
	assert_string_equal(err.msg + 1023 - strlen(tail), tail);
}

static void wrap_cuts_the_end(void **state)
{
	(void)state;
	char text[1100];
	struct bj_err err = BJ_ERR_NULL;
	fill(text, 1000, 'a');
	(void)bj_err_set(&err, BJ_UNKNOWN, "%s", text);
	(void)bj_err_wrap(&err, "123456789 123456789 1"); /* 21 + 2 + 1000 = 1023 */
	assert_int_equal(strlen(err.msg), 1023);
	assert_string_equal(err.msg + 1019, "aaaa");
	(void)bj_err_wrap(&err, "x");
	assert_int_equal(strlen(err.msg), 1023);
	assert_string_equal(err.msg + 1019, "a...");
	assert_memory_equal(err.msg, "x: 123", 6);
}

static void a_context_that_fills_the_text_leaves_no_room(void **state)
{
	(void)state;
	for (size_t len = 1019; len <= 1025; len++) {
		char text[1100];
		struct bj_err err = BJ_ERR_NULL;
		(void)bj_err_set(&err, BJ_UNKNOWN, "0123456789");
		fill(text, len, 'c');
		(void)bj_err_wrap(&err, "%s", text);
		assert_int_equal(strlen(err.msg), 1023);
		assert_string_equal(err.msg + 1020, "...");
		assert_memory_equal(err.msg, "ccc", 3);
	}
}

static void the_cut_does_not_split_a_character(void **state)
{
	(void)state;
	char text[1100];
	struct bj_err err = BJ_ERR_NULL;
	for (size_t i = 0; i < 1098; i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	(void)bj_err_set(&err, BJ_UNKNOWN, "x%s", text); /* byte 1020 is the second half of one */
	assert_string_equal(err.msg + 1017, "\xc3\xa9...");
	bj_err_clear(&err);
	(void)bj_err_set(&err, BJ_UNKNOWN, "%s", text);
	assert_string_equal(err.msg + 1018, "\xc3\xa9...");
}

static void clear_makes_it_usable_again(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	(void)bj_err_errno(&err, EIO, "x");
	bj_err_clear(&err);
	assert_false(bj_err_is_set(&err));
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.msg, "");
	(void)bj_err_set(&err, BJ_ABORTED, "again");
	assert_string_equal(err.msg, "again");
}

static void overwrite(void *arg)
{
	(void)bj_err_set((struct bj_err *)arg, BJ_ABORTED, "second");
}

static void set_to_ok(void *arg)
{
	(void)bj_err_set((struct bj_err *)arg, BJ_OK, "ok is no error");
}

static void wrap_unset(void *arg)
{
	(void)bj_err_wrap(arg, "nothing");
}

static void misuse_is_asserted(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	expect_abort(wrap_unset, &err);
	expect_abort(set_to_ok, &err);
	(void)bj_err_set(&err, BJ_ABORTED, "first");
	expect_abort(overwrite, &err);
}

static void code_names_are_those_of_google_rpc(void **state)
{
	(void)state;
	assert_string_equal(bj_code_name(BJ_OK), "OK");
	assert_string_equal(bj_code_name((enum bj_code)3), "INVALID_ARGUMENT");
	assert_string_equal(bj_code_name((enum bj_code)9), "FAILED_PRECONDITION");
	assert_string_equal(bj_code_name((enum bj_code)16), "UNAUTHENTICATED");
	assert_string_equal(bj_code_name((enum bj_code)17), "UNKNOWN");
	assert_string_equal(bj_code_name((enum bj_code) - 1), "UNKNOWN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_everything_and_returns_minus_code),
		cmocka_unit_test(set_at_keeps_the_errno_given),
		cmocka_unit_test(errno_chooses_the_code_and_appends_the_reason),
		cmocka_unit_test(wrap_puts_context_in_front),
		cmocka_unit_test(wrap_may_quote_the_text_itself),
		cmocka_unit_test(text_is_cut_at_1023_bytes_with_dots),
		cmocka_unit_test(errno_text_survives_the_cut),
		cmocka_unit_test(wrap_cuts_the_end),
		cmocka_unit_test(a_context_that_fills_the_text_leaves_no_room),
		cmocka_unit_test(the_cut_does_not_split_a_character),
		cmocka_unit_test(clear_makes_it_usable_again),
		cmocka_unit_test(misuse_is_asserted),
		cmocka_unit_test(code_names_are_those_of_google_rpc),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
