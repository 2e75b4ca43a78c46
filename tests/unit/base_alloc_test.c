// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"

static void sizes_above_ptrdiff_max_are_refused(void **state)
{
	(void)state;
	volatile size_t huge = SIZE_MAX;
	assert_null(bj_malloc(huge));
	assert_null(bj_malloc((size_t)PTRDIFF_MAX + 1));
	assert_null(bj_calloc(huge / 2, 3));
	assert_null(bj_realloc(NULL, huge));
}

static void zero_bytes_give_a_unique_pointer(void **state)
{
	(void)state;
	void *a = bj_malloc(0);
	void *b = bj_calloc(0, 8);
	void *c = bj_calloc(8, 0);
	void *d = bj_realloc(bj_malloc(8), 0);
	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_non_null(d);
	assert_ptr_not_equal(a, b);
	bj_free(a);
	bj_free(b);
	bj_free(c);
	bj_free(d);
	bj_free(NULL);
}

static void calloc_is_zeroed(void **state)
{
	(void)state;
	static const char zeros[96];
	char *p = bj_calloc(12, 8);
	assert_non_null(p);
	assert_memory_equal(p, zeros, sizeof(zeros));
	bj_free(p);
}

static void a_refused_realloc_leaves_the_block(void **state)
{
	(void)state;
	char *p = bj_strdup("kept");
	assert_non_null(p);
	bj_alloc_fail_after(0);
	assert_null(bj_realloc(p, 100));
	assert_true(bj_alloc_fail_disarm());
	assert_string_equal(p, "kept");
	bj_free(p);
}

static void strndup_copies_nul_bytes_and_ends_with_one(void **state)
{
	(void)state;
	char *p = bj_strndup("a\0b", 3);
	assert_non_null(p);
	assert_memory_equal(p, "a\0b\0", 4);
	bj_free(p);
	char *empty = bj_strndup(NULL, 0);
	assert_non_null(empty);
	assert_string_equal(empty, "");
	bj_free(empty);
}

static void the_armed_allocation_fails_and_no_other(void **state)
{
	(void)state;
	bj_alloc_fail_after(2);
	void *p[4] = { bj_malloc(1), bj_calloc(1, 1), bj_malloc(1), bj_strdup("x") };
	assert_true(bj_alloc_fail_disarm());
	assert_non_null(p[0]);
	assert_non_null(p[1]);
	assert_null(p[2]);
	assert_non_null(p[3]);
	for (size_t i = 0; i < 4; i++)
		bj_free(p[i]);
}

static void disarm_says_when_nothing_failed(void **state)
{
	(void)state;
	assert_false(bj_alloc_fail_disarm());
	bj_alloc_fail_after(1);
	void *p = bj_malloc(1);
	assert_false(bj_alloc_fail_disarm());
	void *q = bj_malloc(1);
	assert_non_null(p);
	assert_non_null(q);
	bj_free(p);
	bj_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_above_ptrdiff_max_are_refused),
		cmocka_unit_test(zero_bytes_give_a_unique_pointer),
		cmocka_unit_test(calloc_is_zeroed),
		cmocka_unit_test(a_refused_realloc_leaves_the_block),
		cmocka_unit_test(strndup_copies_nul_bytes_and_ends_with_one),
		cmocka_unit_test(the_armed_allocation_fails_and_no_other),
		cmocka_unit_test(disarm_says_when_nothing_failed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
