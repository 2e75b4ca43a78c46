// SPDX-License-Identifier: Apache-2.0
/*
 * Eviction: by bytes, least recently used first, never what is pinned, and in the same order after a restart.
 */
#include "tests/unit/cas_test_util.h"

static const char hello_hex[] = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

enum { LIMIT = 1000 };

static int setup_limited(void **state)
{
	(void)fix_setup_closed(state);
	fix_open(*state, LIMIT);
	return 0;
}

/* Looks without counting as a use. */
static bool is_on_disk(struct fix *fix, const struct bj_digest *digest)
{
	return file_exists(blob_path(fix, digest));
}

static void the_oldest_goes_first(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digests[12];
	for (size_t i = 0; i < 12; i++)
		digests[i] = put_random(fix, 100, i);
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(is_on_disk(fix, &digests[i]), i >= 2);
	assert_int_equal(stats_of(fix).n_blobs, 10);
	assert_int_equal(stats_of(fix).n_bytes, LIMIT);
	assert_int_equal(stats_of(fix).n_evicted, 2);
	assert_false(bj_store_has(fix->store, &digests[0]));
	assert_int_equal(fix->store->map.n_entries, 10);
}

/* Every way to use a blob counts: a question, opening, reading, and storing it again. */
static void a_use_makes_it_the_newest(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digests[10];
	struct bj_str data = BJ_STR_NULL;
	int fd = -1;
	for (size_t i = 0; i < 10; i++)
		digests[i] = put_random(fix, 100, i);
	assert_true(bj_store_has(fix->store, &digests[0]));
	EXPECT_OK(fix, bj_store_open_blob(fix->store, &digests[1], &fd, &fix->err));
	close(fd);
	EXPECT_OK(fix, bj_store_read(fix->store, &digests[2], 100, &data, &fix->arena, &fix->err));
	(void)put_random(fix, 100, 3);
	(void)put_random(fix, 600, 100);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(is_on_disk(fix, &digests[i]), i < 4);
}

static void one_large_blob_evicts_many(void **state)
{
	struct fix *fix = *state;
	for (size_t i = 0; i < 10; i++)
		(void)put_random(fix, 100, i);
	struct bj_digest big = put_random(fix, LIMIT, 100);
	assert_true(is_on_disk(fix, &big));
	assert_int_equal(stats_of(fix).n_blobs, 1);
	assert_int_equal(stats_of(fix).n_evicted, 10);
}

static void what_cannot_fit_is_refused_and_evicts_nothing(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_random(fix, 100, 1);
	struct bj_str data = make_blob(fix, LIMIT + 1, 2);
	struct bj_store_writer *writer = NULL;
	EXPECT_ERR(fix, bj_store_put(fix->store, BJ_DIGEST_SHA256, data, NULL, NULL, &fix->err),
		   BJ_RESOURCE_EXHAUSTED, "1001 bytes does not fit into a store of 1000");
	EXPECT_OK(fix, bj_store_writer_new(fix->store, BJ_DIGEST_SHA256, UINT64_MAX, &writer,
					   &fix->err));
	EXPECT_OK(fix, bj_store_writer_append(writer, data.ptr, LIMIT, &fix->err));
	EXPECT_ERR(fix, bj_store_writer_append(writer, data.ptr, 1, &fix->err),
		   BJ_RESOURCE_EXHAUSTED, "does not fit");
	bj_store_writer_abort(writer);
	assert_true(is_on_disk(fix, &digest));
	assert_int_equal(stats_of(fix).n_evicted, 0);
}

/* ---- pins ---- */

static void pinned_blobs_stay(void **state)
{
	struct fix *fix = *state;
	struct bj_digest first = put_random(fix, 500, 1), second = put_random(fix, 500, 2);
	assert_true(bj_store_pin(fix->store, &first));
	assert_true(bj_store_pin(fix->store, &first));
	assert_true(bj_store_pin(fix->store, &second));
	/* All is pinned: the action that makes this blob must go on, so the limit gives way. */
	struct bj_digest third = put_random(fix, 300, 3);
	assert_true(is_on_disk(fix, &first) && is_on_disk(fix, &second) && is_on_disk(fix, &third));
	assert_int_equal(stats_of(fix).n_bytes, 1300);

	bj_store_unpin(fix->store, &first);
	struct bj_digest fourth = put_random(fix, 300, 4);
	assert_true(is_on_disk(fix, &first) && is_on_disk(fix, &second) &&
		    is_on_disk(fix, &fourth));
	assert_false(is_on_disk(fix, &third));

	/* The end of a pin is a use: "fourth" is now the oldest. */
	bj_store_unpin(fix->store, &first);
	bj_store_unpin(fix->store, &second);
	struct bj_digest fifth = put_random(fix, 100, 5);
	assert_false(is_on_disk(fix, &fourth));
	assert_true(is_on_disk(fix, &fifth));
	assert_true(stats_of(fix).n_bytes <= LIMIT);
}

static void a_missing_blob_cannot_be_pinned(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	assert_false(bj_store_pin(fix->store, &hello));
	assert_int_equal(fix->store->map.n_entries, 0);
}

/* The pin belongs to the digest, not to the file: it holds when the blob is dropped and comes back. */
static void a_pin_outlives_the_loss_of_its_blob(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_random(fix, 500, 1);
	assert_true(bj_store_pin(fix->store, &digest));
	bj_store_discard(fix->store, &digest);
	assert_false(bj_store_has(fix->store, &digest));
	assert_false(bj_store_pin(fix->store, &digest));
	(void)put_random(fix, 500, 1);
	(void)put_random(fix, 500, 2);
	(void)put_random(fix, 500, 3);
	assert_true(is_on_disk(fix, &digest));
	bj_store_unpin(fix->store, &digest);
	(void)put_random(fix, 900, 4);
	assert_false(is_on_disk(fix, &digest));
	assert_int_equal(stats_of(fix).n_blobs, 1);

	digest = put_random(fix, 50, 5);
	assert_true(bj_store_pin(fix->store, &digest));
	bj_store_discard(fix->store, &digest);
	assert_int_equal(fix->store->map.n_entries, 2);
	bj_store_unpin(fix->store, &digest);
	assert_int_equal(fix->store->map.n_entries, 1);
}

static void unpin_one_too_many(void *arg)
{
	struct fix *fix = arg;
	struct bj_digest digest = put_random(fix, 50, 5);
	bj_store_unpin(fix->store, &digest);
}

static void unpin_without_pin_is_a_bug(void **state)
{
	expect_abort(unpin_one_too_many, *state);
}

/* ---- the action cache is evicted as well ---- */

static void ac_entries_count_and_go(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	struct bj_str value = make_blob(fix, 152, 1), got = BJ_STR_NULL; /* 200 with the header */
	EXPECT_OK(fix, bj_store_ac_put(fix->store, BJ_STR_LIT("a"), &hello, value, &fix->err));
	EXPECT_OK(fix, bj_store_ac_put(fix->store, BJ_STR_LIT("b"), &hello, value, &fix->err));
	(void)put_random(fix, 500, 1);
	EXPECT_OK(fix, bj_store_ac_get(fix->store, BJ_STR_LIT("a"), &hello, &got, &fix->arena,
				       &fix->err));
	(void)put_random(fix, 200, 2);
	assert_int_equal(stats_of(fix).n_ac_entries, 1);
	assert_int_equal(stats_of(fix).n_ac_bytes, 200);
	assert_int_equal(
		bj_store_ac_get(fix->store, BJ_STR_LIT("b"), &hello, &got, &fix->arena, &fix->err),
		BJ_STORE_E_MISSING);
	EXPECT_OK(fix, bj_store_ac_get(fix->store, BJ_STR_LIT("a"), &hello, &got, &fix->arena,
				       &fix->err));
	assert_true(bj_str_eq(got, value));
}

static void replacing_keeps_the_books(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	for (size_t i = 0; i < 50; i++) {
		struct bj_str value = make_blob(fix, 10 + i * 15, i);
		EXPECT_OK(fix,
			  bj_store_ac_put(fix->store, BJ_STR_LIT("a"), &hello, value, &fix->err));
		assert_int_equal(stats_of(fix).n_ac_entries, 1);
		assert_int_equal(stats_of(fix).n_ac_bytes, 48 + value.len);
	}
	assert_int_equal(fix->store->reserved_bytes, 0);
}

/* ---- restarts ---- */

static void the_order_survives_a_restart(void **state)
{
	static const size_t order[] = { 7, 2, 9, 0, 4, 1, 8, 3, 6, 5 };
	struct fix *fix = *state;
	struct bj_digest digests[10];
	for (size_t i = 0; i < 10; i++)
		digests[i] = put_random(fix, 100, i);
	for (size_t i = 0; i < 10; i++)
		assert_true(bj_store_has(fix->store, &digests[order[i]]));
	fix_close(fix);
	fix_open(fix, LIMIT);
	for (size_t i = 0; i < 10; i++) {
		assert_true(is_on_disk(fix, &digests[order[i]]));
		(void)put_random(fix, 100, 100 + i);
		assert_false(is_on_disk(fix, &digests[order[i]]));
	}
}

static void a_lower_limit_evicts_at_open(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digests[10];
	for (size_t i = 0; i < 10; i++)
		digests[i] = put_random(fix, 100, i);
	for (size_t i = 10; i-- > 0;)
		assert_true(bj_store_has(fix->store, &digests[i]));
	fix_close(fix);
	fix_open(fix, 250);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(is_on_disk(fix, &digests[i]), i < 2);
	fix_close(fix);
	fix_open(fix, 0);
	assert_int_equal(stats_of(fix).n_blobs, 2);
}

static void many_uses_are_written_at_close(void **state)
{
	enum { N = 300 };
	struct fix *fix = *state;
	struct bj_digest digests[N];
	fix_close(fix);
	fix_open(fix, 0);
	for (size_t i = 0; i < N; i++)
		digests[i] = put_random(fix, 8, i);
	for (size_t i = N; i-- > 0;)
		assert_true(bj_store_has(fix->store, &digests[i]));
	fix_close(fix);
	fix_open(fix, 8 * (N - 10));
	for (size_t i = 0; i < N; i++)
		assert_int_equal(is_on_disk(fix, &digests[i]), i < N - 10);
}

static int n_utimes;

static int count_utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
	n_utimes++;
	return utimensat(dirfd, path, times, flags);
}

/* New blobs cost no mtime, used ones one a round, however often they were used. */
static void each_use_is_written_once(void **state)
{
	struct fix *fix = *state;
	struct bj_store_io io = test_io();
	struct bj_digest digests[3];
	io.utimensat = count_utimensat;
	fix_close(fix);
	fix_open_with(fix, LIMIT, &io);
	n_utimes = 0;
	for (size_t i = 0; i < 3; i++)
		digests[i] = put_random(fix, 100, i);
	bj_store_persist_touches(fix->store);
	assert_int_equal(n_utimes, 0);
	for (size_t i = 0; i < 5; i++)
		assert_true(bj_store_has(fix->store, &digests[1]));
	assert_true(bj_store_pin(fix->store, &digests[2]));
	bj_store_unpin(fix->store, &digests[2]);
	bj_store_persist_touches(fix->store);
	assert_int_equal(n_utimes, 2);
	bj_store_persist_touches(fix->store);
	assert_int_equal(n_utimes, 2);
	assert_true(bj_store_has(fix->store, &digests[1]));
	fix_close(fix);
	assert_int_equal(n_utimes, 3);
}

/* An odd clock, or a restored backup: any mtime is only a place in the order. */
static void odd_mtimes_are_taken(void **state)
{
	static const time_t odd[] = {
		-5, 0, 1, INT64_C(1) << 32, INT64_C(1) << 33, INT64_C(0x37fffffff)
	};
	struct fix *fix = *state;
	struct bj_digest digests[BJ_ARRAY_LEN(odd)];
	for (size_t i = 0; i < BJ_ARRAY_LEN(odd); i++)
		digests[i] = put_random(fix, 100, i);
	fix_close(fix);
	for (size_t i = 0; i < BJ_ARRAY_LEN(odd); i++) {
		struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = odd[i] } };
		assert_int_equal(utimensat(AT_FDCWD, blob_path(fix, &digests[i]), times, 0), 0);
	}
	fix_open(fix, LIMIT);
	struct bj_digest newest = put_random(fix, 100, 100);
	(void)put_random(fix, 800, 101);
	assert_true(is_on_disk(fix, &newest));
	assert_int_equal(stats_of(fix).n_blobs, 3);
	fix_close(fix);
	fix_open(fix, LIMIT);
	assert_int_equal(stats_of(fix).n_blobs, 3);
}

/* ---- the heap against a search ---- */

enum { N_HEAP = 200 };

static void the_heap_knows_the_oldest(void **state)
{
	struct bj_store_entry *entries[N_HEAP];
	struct bj_store_lru lru = { NULL, 0, 0 };
	uint64_t stamp = 1000, seed = 1;
	(void)state;
	assert_null(bj_store_lru_oldest(&lru));
	for (size_t i = 0; i < N_HEAP; i++) {
		entries[i] = calloc(1, sizeof(struct bj_store_entry));
		assert_non_null(entries[i]);
		entries[i]->lru_index = BJ_STORE_LRU_NONE;
		entries[i]->stamp_ns = i % 7; /* as at open: many with one time */
	}
	assert_true(bj_store_lru_reserve(&lru, N_HEAP));
	for (size_t step = 0; step < 20000; step++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		struct bj_store_entry *entry = entries[(seed >> 33) % N_HEAP];
		if (entry->lru_index == BJ_STORE_LRU_NONE)
			bj_store_lru_insert(&lru, entry);
		else if (seed >> 62 == 0)
			bj_store_lru_remove(&lru, entry);
		else
			entry->stamp_ns = ++stamp;
		if (step % 3 != 0)
			continue;
		uint64_t oldest = UINT64_MAX;
		for (size_t i = 0; i < N_HEAP; i++)
			if (entries[i]->lru_index != BJ_STORE_LRU_NONE)
				oldest = BJ_MIN(oldest, entries[i]->stamp_ns);
		const struct bj_store_entry *found = bj_store_lru_oldest(&lru);
		assert_int_equal(found ? found->stamp_ns : UINT64_MAX, oldest);
	}
	for (size_t i = 0; i < N_HEAP; i++)
		free(entries[i]);
	bj_store_lru_deinit(&lru);
}

/* ---- a file that cannot be removed ---- */

static int unlink_fails(int dirfd, const char *path, int flags)
{
	if (strncmp(path, "blobs/", 6) != 0)
		return unlinkat(dirfd, path, flags);
	errno = EIO;
	return -1;
}

static void eviction_that_cannot_remove_ends(void **state)
{
	struct fix *fix = *state;
	struct bj_store_io io = test_io();
	io.unlinkat = unlink_fails;
	fix_close(fix);
	fix_open_with(fix, LIMIT, &io);
	for (size_t i = 0; i < 15; i++)
		(void)put_random(fix, 100, i);
	assert_int_equal(stats_of(fix).n_blobs, 15);
	assert_int_equal(stats_of(fix).n_bytes, 1500);
	assert_int_equal(stats_of(fix).n_evicted, 0);
	fix_close(fix);
}

#define EVICT_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_limited, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVICT_TEST(the_oldest_goes_first),
		EVICT_TEST(a_use_makes_it_the_newest),
		EVICT_TEST(one_large_blob_evicts_many),
		EVICT_TEST(what_cannot_fit_is_refused_and_evicts_nothing),
		EVICT_TEST(pinned_blobs_stay),
		EVICT_TEST(a_missing_blob_cannot_be_pinned),
		EVICT_TEST(a_pin_outlives_the_loss_of_its_blob),
		EVICT_TEST(unpin_without_pin_is_a_bug),
		EVICT_TEST(ac_entries_count_and_go),
		EVICT_TEST(replacing_keeps_the_books),
		EVICT_TEST(the_order_survives_a_restart),
		EVICT_TEST(a_lower_limit_evicts_at_open),
		EVICT_TEST(many_uses_are_written_at_close),
		EVICT_TEST(each_use_is_written_once),
		EVICT_TEST(odd_mtimes_are_taken),
		cmocka_unit_test(the_heap_knows_the_oldest),
		EVICT_TEST(eviction_that_cannot_remove_ends),
	};
	return cmocka_run_group_tests_name("cas_store_evict", tests, NULL, NULL);
}
