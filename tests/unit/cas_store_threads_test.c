// SPDX-License-Identifier: Apache-2.0
/*
 * Eight threads on one store. Each test ends by looking at the books: what the index counts is what lies on the disk.
 */
#include "tests/unit/cas_test_util.h"

#include <pthread.h>

enum { N_THREADS = 8 };

struct job {
	struct fix *fix;
	size_t index;
	uint64_t
		n_wrong; /* what must not happen: counted, for assertions belong to the main thread */
	uint64_t n_good;
};

static void run_threads(struct fix *fix, void *(*fn)(void *arg), struct job jobs[N_THREADS])
{
	pthread_t threads[N_THREADS];
	for (size_t i = 0; i < N_THREADS; i++) {
		jobs[i] = (struct job){ .fix = fix, .index = i };
		assert_int_equal(pthread_create(&threads[i], NULL, fn, &jobs[i]), 0);
	}
	for (size_t i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (size_t i = 0; i < N_THREADS; i++)
		assert_int_equal(jobs[i].n_wrong, 0);
}

/* Every entry has its file, every file its entry, and the sums are right. */
static void check_books(struct fix *fix)
{
	uint64_t n_blobs = 0, n_bytes = 0, n_files = 0, n_linked = 0;
	size_t pos = 0;
	for (const struct bj_map_slot *slot; (slot = bj_map_next(&fix->store->map, &pos));) {
		const struct bj_store_entry *entry = slot->value;
		struct bj_store_key key = bj_store_entry_key(entry);
		struct bj_digest digest = bj_store_key_digest(&key);
		assert_int_equal(entry->state, BJ_ENTRY_PRESENT);
		assert_true(file_exists(blob_path(fix, &digest)));
		n_blobs++;
		n_bytes += entry->size_bytes;
	}
	for (size_t i = 0; i < fix->store->lru.n_slots; i++) {
		const struct bj_store_lru_slot *slot = &fix->store->lru.slots[i];
		assert_int_equal(slot->entry->lru_index, i);
		assert_true(slot->stamp_ns <= slot->entry->stamp_ns);
		assert_true(i == 0 ||
			    fix->store->lru.slots[(i - 1) / 2].stamp_ns <= slot->stamp_ns);
		n_linked++;
	}
	for (unsigned int i = 0; i < 256; i++) {
		char name[32], path[8192];
		(void)snprintf(name, sizeof(name), "blobs/sha256/%02x", i);
		(void)snprintf(path, sizeof(path), "%s/%s", fix->root, name);
		if (file_exists(path))
			n_files += count_files(fix, name);
	}
	assert_int_equal(stats_of(fix).n_blobs, n_blobs);
	assert_int_equal(stats_of(fix).n_bytes, n_bytes);
	assert_int_equal(n_files, n_blobs);
	assert_int_equal(n_linked, n_blobs);
	assert_int_equal(fix->store->reserved_bytes, 0);
	assert_int_equal(count_files(fix, "tmp"), 0);
}

/* A small blob that can be checked without being remembered: its content follows from its number. */
enum { N_NUMBERS = 40, BLOB_BYTES = 600 };

static struct bj_str numbered(char out[BLOB_BYTES], size_t number)
{
	for (size_t i = 0; i < BLOB_BYTES; i++)
		out[i] = (char)('!' + (number * 2 + i) % 90);
	return bj_str_n(out, BLOB_BYTES);
}

/* ---- all store the same ---- */

static void *put_the_same(void *arg)
{
	struct job *job = arg;
	char data[BLOB_BYTES];
	for (size_t i = 0; i < N_NUMBERS; i++) {
		struct bj_err err = BJ_ERR_NULL;
		struct bj_digest digest;
		struct bj_str blob = numbered(data, i);
		int r = bj_store_put(job->fix->store, BJ_DIGEST_SHA256, blob, NULL, &digest, &err);
		job->n_wrong += r != 0 || !bj_store_has(job->fix->store, &digest);
	}
	return NULL;
}

static void writers_of_the_same_blobs_all_succeed(void **state)
{
	struct fix *fix = *state;
	struct job jobs[N_THREADS];
	run_threads(fix, put_the_same, jobs);
	assert_int_equal(stats_of(fix).n_blobs, N_NUMBERS);
	check_books(fix);
}

/* ---- storing, reading and evicting at once ---- */

static int read_numbered(struct fix *fix, size_t number, struct bj_arena *arena)
{
	char data[BLOB_BYTES];
	struct bj_str want = numbered(data, number), got = BJ_STR_NULL;
	struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, want);
	struct bj_err err = BJ_ERR_NULL;
	int r = bj_store_read(fix->store, &digest, SIZE_MAX, &got, arena, &err);
	if (r == 0 && !bj_str_eq(got, want))
		r = -BJ_INTERNAL;
	bj_arena_reset(arena);
	return r;
}

static void *put_and_read(void *arg)
{
	struct job *job = arg;
	char data[BLOB_BYTES];
	struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < 400; i++) {
		size_t number = (i * 7 + job->index * 5) % N_NUMBERS;
		struct bj_err err = BJ_ERR_NULL;
		int r = bj_store_put(job->fix->store, BJ_DIGEST_SHA256, numbered(data, number),
				     NULL, NULL, &err);
		job->n_wrong += r != 0;
		r = read_numbered(job->fix, (number + i) % N_NUMBERS, &arena);
		job->n_wrong += r < 0;
		job->n_good += r == 0;
	}
	bj_arena_deinit(&arena);
	return NULL;
}

static void eviction_under_load(void **state)
{
	struct fix *fix = *state;
	struct job jobs[N_THREADS];
	uint64_t n_good = 0;
	fix_close(fix);
	fix_open(fix, (uint64_t)BLOB_BYTES * N_NUMBERS / 4);
	run_threads(fix, put_and_read, jobs);
	for (size_t i = 0; i < N_THREADS; i++)
		n_good += jobs[i].n_good;
	assert_true(n_good > 0);
	assert_true(stats_of(fix).n_evicted > 100);
	assert_true(stats_of(fix).n_bytes <= fix->store->max_bytes);
	assert_int_equal(stats_of(fix).n_damaged, 0);
	check_books(fix);
}

/* ---- what is pinned can be read, whatever the others do ---- */

static void *pin_and_read(void *arg)
{
	struct job *job = arg;
	char data[BLOB_BYTES];
	struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < 300; i++) {
		size_t number = (i * 11 + job->index) % N_NUMBERS;
		struct bj_err err = BJ_ERR_NULL;
		struct bj_str blob = numbered(data, number);
		struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, blob);
		job->n_wrong += bj_store_put(job->fix->store, BJ_DIGEST_SHA256, blob, NULL, NULL,
					     &err) != 0;
		if (!bj_store_pin(job->fix->store, &digest))
			continue;
		job->n_wrong += read_numbered(job->fix, number, &arena) != 0;
		bj_store_unpin(job->fix->store, &digest);
		job->n_good++;
	}
	bj_arena_deinit(&arena);
	return NULL;
}

static void pins_hold_under_load(void **state)
{
	struct fix *fix = *state;
	struct job jobs[N_THREADS];
	uint64_t n_good = 0;
	fix_close(fix);
	fix_open(fix, (uint64_t)BLOB_BYTES * N_NUMBERS / 4);
	run_threads(fix, pin_and_read, jobs);
	for (size_t i = 0; i < N_THREADS; i++)
		n_good += jobs[i].n_good;
	assert_true(n_good > 100);
	check_books(fix);
}

/* ---- many first uses of suspects ---- */

static void *use_suspects(void *arg)
{
	struct job *job = arg;
	struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < N_NUMBERS; i++) {
		size_t number = (i + job->index) % N_NUMBERS;
		int r = read_numbered(job->fix, number, &arena);
		if (number % 4 == 0) /* damaged below: found by one, missing for the others */
			job->n_wrong += r != -BJ_DATA_LOSS && r != BJ_STORE_E_MISSING;
		else
			job->n_wrong += r != 0;
		job->n_good += r == -BJ_DATA_LOSS;
	}
	bj_arena_deinit(&arena);
	return NULL;
}

static void suspects_are_hashed_once(void **state)
{
	struct fix *fix = *state;
	struct job jobs[N_THREADS];
	char data[BLOB_BYTES], marker[8192];
	uint64_t n_found = 0;
	for (size_t i = 0; i < N_NUMBERS; i++) {
		struct bj_digest digest = put(fix, numbered(data, i));
		if (i % 4 == 0)
			flip_bit(blob_path(fix, &digest), 7);
	}
	fix_close(fix);
	(void)snprintf(marker, sizeof(marker), "%s/clean", fix->root);
	assert_int_equal(unlink(marker), 0);
	fix_open(fix, 0);
	assert_int_equal(stats_of(fix).n_suspects, N_NUMBERS);
	run_threads(fix, use_suspects, jobs);
	for (size_t i = 0; i < N_THREADS; i++)
		n_found += jobs[i].n_good;
	assert_int_equal(n_found, N_NUMBERS / 4);
	assert_int_equal(stats_of(fix).n_damaged, N_NUMBERS / 4);
	assert_int_equal(stats_of(fix).n_suspects, 0);
	assert_int_equal(stats_of(fix).n_blobs, N_NUMBERS - N_NUMBERS / 4);
	check_books(fix);
}

/* ---- the action cache: a reader sees one of the values, whole ---- */

static void *replace_and_read(void *arg)
{
	struct job *job = arg;
	char data[BLOB_BYTES];
	struct bj_arena arena;
	struct bj_digest action = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("action"));
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < 200; i++) {
		struct bj_err err = BJ_ERR_NULL;
		struct bj_str got = BJ_STR_NULL;
		if (job->index < N_THREADS / 2) {
			job->n_wrong += bj_store_ac_put(job->fix->store, BJ_STR_LIT("i"), &action,
							numbered(data, job->index), &err) != 0;
			continue;
		}
		int r = bj_store_ac_get(job->fix->store, BJ_STR_LIT("i"), &action, &got, &arena,
					&err);
		bool is_whole = false;
		for (size_t k = 0; r == 0 && k < N_THREADS / 2; k++)
			is_whole = is_whole || bj_str_eq(got, numbered(data, k));
		job->n_wrong += r < 0 || (r == 0 && !is_whole);
		bj_arena_reset(&arena);
	}
	bj_arena_deinit(&arena);
	return NULL;
}

static void action_results_are_replaced_whole(void **state)
{
	struct fix *fix = *state;
	struct job jobs[N_THREADS];
	run_threads(fix, replace_and_read, jobs);
	assert_int_equal(stats_of(fix).n_ac_entries, 1);
	assert_int_equal(stats_of(fix).n_ac_bytes, 48 + BLOB_BYTES);
	assert_int_equal(stats_of(fix).n_damaged, 0);
}

/* ---- the background thread ---- */

struct sync_seen {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	uint64_t n_syncs;
};
static struct sync_seen seen = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

static int seen_syncfs(int fd)
{
	pthread_mutex_lock(&seen.mu);
	seen.n_syncs++;
	pthread_cond_broadcast(&seen.changed);
	pthread_mutex_unlock(&seen.mu);
	return fd < 0 ? -1 : 0;
}

/* The thread syncs by itself after new data, and only then. */
static void the_syncer_syncs_what_is_new(void **state)
{
	struct fix *fix = *state;
	struct bj_store_io io = test_io();
	io.syncfs = seen_syncfs;
	struct bj_store_opts opts = { .sync_interval_ns = 1 };
	EXPECT_OK(fix, bj_store_open_with(fix->root, &opts, &io, &fix->store, &fix->err));
	for (uint64_t i = 1; i <= 3; i++) {
		(void)put_random(fix, 100, i);
		struct timespec limit;
		assert_int_equal(clock_gettime(CLOCK_REALTIME, &limit), 0);
		limit.tv_sec += 60;
		pthread_mutex_lock(&seen.mu);
		while (seen.n_syncs < i &&
		       pthread_cond_timedwait(&seen.changed, &seen.mu, &limit) == 0)
			;
		pthread_mutex_unlock(&seen.mu);
		assert_int_equal(seen.n_syncs, i);
	}
	fix_close(fix);
	assert_int_equal(seen.n_syncs, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(writers_of_the_same_blobs_all_succeed),
		FIX_TEST(eviction_under_load),
		FIX_TEST(pins_hold_under_load),
		FIX_TEST(suspects_are_hashed_once),
		FIX_TEST(action_results_are_replaced_whole),
		FIX_TEST_CLOSED(the_syncer_syncs_what_is_new),
	};
	return cmocka_run_group_tests_name("cas_store_threads", tests, NULL, NULL);
}
