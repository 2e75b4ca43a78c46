// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/buf.h"

static void appends_add_up(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(1000);
	assert_string_equal(bj_buf_cstr(&buf), "");
	assert_true(bj_buf_append(&buf, "ab\0c", 4));
	assert_true(bj_buf_append_str(&buf, BJ_STR_LIT("de")));
	assert_true(bj_buf_append_str(&buf, BJ_STR_NULL));
	assert_true(bj_buf_append(&buf, NULL, 0));
	assert_true(bj_buf_append_cstr(&buf, "fg"));
	assert_true(bj_buf_append_char(&buf, 'h'));
	assert_true(bj_buf_printf(&buf, "%03d%s", 7, "i"));
	assert_true(bj_buf_printf(&buf, "%s", ""));
	assert_true(bj_str_eq(bj_buf_str(&buf), BJ_STR_LIT("ab\0cdefgh007i")));
	assert_memory_equal(bj_buf_cstr(&buf), "ab\0cdefgh007i\0", 14);
	bj_buf_deinit(&buf);
}

static void growth_keeps_the_bytes(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(100000);
	for (size_t i = 0; i < 100000; i++) {
		assert_true(bj_buf_append_char(&buf, (char)(i * 31)));
		assert_true(buf.len <= buf.cap && buf.cap <= buf.max_bytes);
	}
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(buf.data[i], (char)(i * 31));
	bj_buf_deinit(&buf);
}

static void the_limit_is_exact(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(10);
	assert_true(bj_buf_append(&buf, "0123456789", 10));
	assert_string_equal(bj_buf_cstr(&buf), "0123456789"); /* the NUL is outside the limit */
	assert_true(bj_buf_append(&buf, "", 0));
	assert_true(bj_buf_printf(&buf, "%s", ""));
	assert_false(bj_buf_append_char(&buf, 'x'));
	assert_int_equal(buf.len, 10);
	assert_true(buf.failed);
	bj_buf_deinit(&buf);

	assert_false(bj_buf_printf(&buf, "%s", "0123456789a"));
	bj_buf_clear(&buf);
	assert_true(bj_buf_printf(&buf, "%s", "0123456789"));
	bj_buf_deinit(&buf);
}

static void a_failure_sticks_until_cleared(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(4);
	assert_true(bj_buf_append_cstr(&buf, "ab"));
	assert_false(bj_buf_append_cstr(&buf, "cde"));
	assert_false(bj_buf_append_cstr(&buf, "c"));
	assert_false(bj_buf_printf(&buf, "c"));
	assert_null(bj_buf_reserve(&buf, 1));
	assert_null(bj_buf_reserve(&buf, 0));
	assert_int_equal(buf.len, 2);
	assert_string_equal(bj_buf_cstr(&buf), "");
	bj_buf_clear(&buf);
	assert_false(buf.failed);
	assert_int_equal(buf.len, 0);
	assert_true(bj_buf_append_cstr(&buf, "wxyz"));
	assert_string_equal(bj_buf_cstr(&buf), "wxyz");
	bj_buf_deinit(&buf);
	assert_int_equal(buf.max_bytes, 4);
	assert_null(buf.data);
}

static void a_limit_of_zero_holds_nothing(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(0);
	assert_true(bj_buf_append(&buf, "", 0));
	assert_non_null(bj_buf_reserve(&buf, 0));
	assert_string_equal(bj_buf_cstr(&buf), "");
	assert_false(bj_buf_append_char(&buf, 'x'));
	bj_buf_deinit(&buf);
}

static void reserve_then_commit(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(5000);
	char *p = bj_buf_reserve(&buf, 3000);
	assert_non_null(p);
	memset(p, 'z', 3000);
	bj_buf_commit(&buf, 2);
	assert_string_equal(bj_buf_cstr(&buf), "zz");
	assert_non_null(bj_buf_reserve(&buf, 4998));
	bj_buf_commit(&buf, 0);
	assert_int_equal(buf.len, 2);
	assert_null(bj_buf_reserve(&buf, 4999));
	bj_buf_deinit(&buf);
}

static void overflowing_sizes_are_refused(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(SIZE_MAX);
	assert_true(bj_buf_append_char(&buf, 'x'));
	assert_null(bj_buf_reserve(&buf, SIZE_MAX));
	bj_buf_clear(&buf);
	assert_null(bj_buf_reserve(&buf, SIZE_MAX));
	assert_true(buf.failed);
	bj_buf_deinit(&buf);
}

static void commit_too_much(void *arg)
{
	struct bj_buf *buf = arg;
	bj_buf_commit(buf, buf->cap - buf->len + 1);
}

static void commit_beyond_the_room_is_asserted(void **state)
{
	(void)state;
	struct bj_buf buf = BJ_BUF_INIT(100);
	assert_non_null(bj_buf_reserve(&buf, 10));
	expect_abort(commit_too_much, &buf);
	bj_buf_deinit(&buf);
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	uint64_t n = 0;
	for (;; n++) {
		struct bj_buf buf = BJ_BUF_INIT(4096);
		bj_alloc_fail_after(n);
		for (int i = 0; i < 100; i++)
			(void)bj_buf_printf(&buf, "%020d", i); /* one check at the end */
		bool did_fail = bj_alloc_fail_disarm();
		assert_int_equal(buf.failed, did_fail);
		assert_int_equal(buf.len % 20, 0);
		if (!did_fail)
			assert_int_equal(buf.len, 2000);
		bj_buf_deinit(&buf);
		if (!did_fail)
			break;
	}
	assert_int_equal(n, 4); /* 256, 512, 1024, 2048 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends_add_up),
		cmocka_unit_test(growth_keeps_the_bytes),
		cmocka_unit_test(the_limit_is_exact),
		cmocka_unit_test(a_failure_sticks_until_cleared),
		cmocka_unit_test(a_limit_of_zero_holds_nothing),
		cmocka_unit_test(reserve_then_commit),
		cmocka_unit_test(overflowing_sizes_are_refused),
		cmocka_unit_test(commit_beyond_the_room_is_asserted),
		cmocka_unit_test(each_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
