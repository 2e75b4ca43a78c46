// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/arena.h"

static void allocations_are_aligned_and_apart(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t n = 0; n < 300; n++) {
		char *p = bj_arena_alloc(&arena, n);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 16, 0);
		memset(p, 0xee, n);
	}
	assert_ptr_not_equal(bj_arena_alloc(&arena, 0), bj_arena_alloc(&arena, 0));
}

static void contents_survive_later_allocations(void **state)
{
	(void)state;
	enum { N = 2000 };
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	unsigned char *blocks[N];
	for (size_t i = 0; i < N; i++) {
		size_t size = i * 7 % 513;
		blocks[i] = bj_arena_alloc(&arena, size);
		assert_non_null(blocks[i]);
		memset(blocks[i], (int)(i & 0xff), size);
	}
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < i * 7 % 513; k++)
			assert_int_equal(blocks[i][k], i & 0xff);
}

static void zalloc_is_zeroed_in_used_memory(void **state)
{
	(void)state;
	static const char zeros[512];
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	memset(bj_arena_alloc(&arena, 512), 0xff, 512);
	bj_arena_reset(&arena);
	char *p = bj_arena_zalloc(&arena, 512);
	assert_memory_equal(p, zeros, 512);
	int *ints = BJ_ARENA_ARRAY(&arena, int, 10);
	assert_memory_equal(ints, zeros, 10 * sizeof(int));
}

static void the_cap_counts_whole_chunks(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 10000);
	size_t n = 0;
	while (bj_arena_alloc(&arena, 16))
		n++;
	assert_true(arena.used_bytes <= 10000);
	assert_true(n >= 10000 / 64); /* most of the cap is for the caller, red zones included */
	assert_true(n <= 10000 / 16);
	assert_null(bj_arena_alloc(&arena, 16)); /* and it stays so */
}

static void one_allocation_may_take_the_whole_cap(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 100000);
	assert_null(bj_arena_alloc(&arena, 100000)); /* the chunk's header counts, too */
	char *p = bj_arena_alloc(&arena, 100000 - 128);
	assert_non_null(p);
	memset(p, 1, 100000 - 128);
	assert_null(bj_arena_alloc(&arena, 200));
}

static void overflowing_sizes_are_refused(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, SIZE_MAX);
	for (size_t k = 0; k < 64; k++)
		assert_null(bj_arena_alloc(&arena, SIZE_MAX - k));
	assert_null(BJ_ARENA_ARRAY(&arena, uint64_t, SIZE_MAX / 4));
	assert_null(bj_arena_memdup(&arena, "x", SIZE_MAX));
	struct bj_str s = bj_arena_str(&arena, bj_str_n("x", SIZE_MAX));
	assert_null(s.ptr);
	assert_int_equal(s.len, 0);
	assert_non_null(bj_arena_alloc(&arena, 1));
}

static void a_large_block_does_not_waste_the_head(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	assert_non_null(bj_arena_alloc(&arena, 16));
	struct bj_arena_chunk *head = arena.head;
	size_t used_before = arena.used_bytes;
	assert_non_null(bj_arena_alloc(&arena, 1000000));
	assert_ptr_equal(arena.head, head);
	assert_true(arena.used_bytes - used_before >= 1000000);
	assert_true(arena.used_bytes - used_before <= 1000000 + 128);
	size_t used = arena.used_bytes;
	assert_non_null(bj_arena_alloc(&arena, 16));
	assert_int_equal(arena.used_bytes, used);
}

static void reset_keeps_one_chunk_and_the_cap(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 64 * 1024);
	bj_arena_reset(&arena); /* an empty one */
	assert_int_equal(arena.used_bytes, 0);
	for (int round = 0; round < 50; round++) {
		size_t n = 0;
		while (n < 1000 && bj_arena_alloc(&arena, 32))
			n++;
		assert_true(n >= 500);
		struct bj_arena_chunk *head = arena.head;
		bj_arena_reset(&arena);
		assert_ptr_equal(arena.head, head);
		assert_true(arena.used_bytes > 0 && arena.used_bytes <= 64 * 1024);
	}
}

static void deinit_gives_the_cap_back(void **state)
{
	(void)state;
	struct bj_arena arena;
	bj_arena_init(&arena, 5000);
	for (int round = 0; round < 3; round++) {
		assert_non_null(bj_arena_alloc(&arena, 4000));
		assert_null(bj_arena_alloc(&arena, 4000));
		bj_arena_deinit(&arena);
		assert_null(arena.head);
		assert_int_equal(arena.used_bytes, 0);
		assert_int_equal(arena.max_bytes, 5000);
	}
	struct bj_arena null = BJ_ARENA_NULL;
	bj_arena_deinit(&null);
}

static void no_memory_is_null_and_changes_nothing(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	bj_alloc_fail_after(0);
	assert_null(bj_arena_alloc(&arena, 10));
	assert_true(bj_alloc_fail_disarm());
	assert_int_equal(arena.used_bytes, 0);
	assert_non_null(bj_arena_alloc(&arena, 10));
	size_t used = arena.used_bytes;
	bj_alloc_fail_after(0);
	assert_null(bj_arena_printf(&arena, "%99999d", 1));
	assert_true(bj_alloc_fail_disarm());
	assert_int_equal(arena.used_bytes, used);
	bj_alloc_fail_after(0);
	assert_null(bj_arena_zalloc(&arena, 99999));
	assert_true(bj_alloc_fail_disarm());
	assert_non_null(bj_arena_alloc(&arena, 99999));
}

static void texts_are_copied_with_a_nul(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	assert_string_equal(bj_arena_printf(&arena, "%s-%d", "a", -5), "a--5");
	assert_string_equal(bj_arena_printf(&arena, "%s", ""), "");
	char source[] = { 'x', '\0', 'y' };
	struct bj_str s = bj_arena_str(&arena, bj_str_n(source, 3));
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.ptr, "x\0y\0", 4);
	assert_true(s.ptr != source);
	struct bj_str empty = bj_arena_str(&arena, BJ_STR_NULL);
	assert_int_equal(empty.len, 0);
	assert_string_equal(empty.ptr, "");
	char *copy = bj_arena_memdup(&arena, source, 3);
	assert_memory_equal(copy, source, 3);
	assert_non_null(bj_arena_memdup(&arena, NULL, 0));
}

static void use_without_init(void *arg)
{
	(void)bj_arena_alloc(arg, 1);
}

static void an_uninitialised_arena_is_asserted(void **state)
{
	(void)state;
	struct bj_arena null = BJ_ARENA_NULL;
	expect_abort(use_without_init, &null);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations_are_aligned_and_apart),
		cmocka_unit_test(contents_survive_later_allocations),
		cmocka_unit_test(zalloc_is_zeroed_in_used_memory),
		cmocka_unit_test(the_cap_counts_whole_chunks),
		cmocka_unit_test(one_allocation_may_take_the_whole_cap),
		cmocka_unit_test(overflowing_sizes_are_refused),
		cmocka_unit_test(a_large_block_does_not_waste_the_head),
		cmocka_unit_test(reset_keeps_one_chunk_and_the_cap),
		cmocka_unit_test(deinit_gives_the_cap_back),
		cmocka_unit_test(no_memory_is_null_and_changes_nothing),
		cmocka_unit_test(texts_are_copied_with_a_nul),
		cmocka_unit_test(an_uninitialised_arena_is_asserted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
