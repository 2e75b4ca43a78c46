// SPDX-License-Identifier: Apache-2.0
/*
 * The store as its users see it: blobs in and out, refusals, the action cache.
 */
#include "tests/unit/cas_test_util.h"

#include <sys/mman.h>

/* SHA-256 of "hello\n" and of nothing. */
static const char hello_hex[] = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
static const char empty_hex[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void put_and_read(void **state)
{
	struct fix *fix = *state;
	struct bj_digest want = digest_of_hex(hello_hex, 6), got;
	assert_false(bj_store_has(fix->store, &want));
	struct bj_str data = BJ_STR_NULL;
	assert_int_equal(bj_store_read(fix->store, &want, 100, &data, &fix->arena, &fix->err),
			 BJ_STORE_E_MISSING);
	EXPECT_OK(fix, bj_store_put(fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("hello\n"), &want,
				    &got, &fix->err));
	assert_true(bj_digest_eq(&got, &want));
	assert_true(bj_store_has(fix->store, &want));
	expect_blob(fix, &want, BJ_STR_LIT("hello\n"));
	struct stat st;
	assert_int_equal(lstat(blob_path(fix, &want), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0444);
	assert_int_equal(st.st_size, 6);
}

static void mode_does_not_depend_on_the_umask(void **state)
{
	struct fix *fix = *state;
	mode_t old = umask(0077);
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	(void)umask(old);
	struct stat st;
	assert_int_equal(lstat(blob_path(fix, &digest), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0444);
}

static void a_wrong_size_is_another_blob(void **state)
{
	struct fix *fix = *state;
	(void)put(fix, BJ_STR_LIT("hello\n"));
	struct bj_digest wrong = digest_of_hex(hello_hex, 7);
	int fd = -1;
	assert_false(bj_store_has(fix->store, &wrong));
	assert_int_equal(bj_store_open_blob(fix->store, &wrong, &fd, &fix->err),
			 BJ_STORE_E_MISSING);
	assert_int_equal(fd, -1);
}

static void put_of_other_bytes_is_refused(void **state)
{
	struct fix *fix = *state;
	struct bj_digest want = digest_of_hex(hello_hex, 6), longer = digest_of_hex(hello_hex, 7);
	struct bj_digest got = { .size_bytes = 77 };
	EXPECT_ERR(fix,
		   bj_store_put(fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("hellO\n"), &want, &got,
				&fix->err),
		   BJ_INVALID_ARGUMENT, hello_hex);
	EXPECT_ERR(fix,
		   bj_store_put(fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("hello\n"), &longer, &got,
				&fix->err),
		   BJ_INVALID_ARGUMENT, "be03/7, got the bytes of 5891");
	EXPECT_ERR(fix,
		   bj_store_put(fix->store, (enum bj_digest_fn)9, BJ_STR_LIT("x"), NULL, &got,
				&fix->err),
		   BJ_INVALID_ARGUMENT, "function 9");
	assert_int_equal(got.size_bytes, 77);
	assert_false(bj_store_has(fix->store, &want));
	assert_false(bj_store_has(fix->store, &longer));
	assert_int_equal(stats_of(fix).n_blobs, 0);
	assert_int_equal(count_files(fix, "tmp"), 0);
}

static void the_empty_blob_is_always_there(void **state)
{
	struct fix *fix = *state;
	struct bj_digest empty = digest_of_hex(empty_hex, 0);
	char c;
	struct stat st;
	assert_true(bj_store_has(fix->store, &empty));
	assert_true(bj_store_pin(fix->store, &empty));
	bj_store_unpin(fix->store, &empty);
	bj_store_discard(fix->store, &empty);
	for (int i = 0; i < 2; i++) {
		int fd = -1;
		EXPECT_OK(fix, bj_store_open_blob(fix->store, &empty, &fd, &fix->err));
		assert_int_equal(read(fd, &c, 1), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		close(fd);
	}
	expect_blob(fix, &empty, BJ_STR_LIT(""));
	(void)put(fix, BJ_STR_LIT(""));
	assert_int_equal(stats_of(fix).n_blobs, 0);
	/* Another size under its hash, or another hash with its size, is not it. */
	struct bj_digest other = digest_of_hex(empty_hex, 1);
	assert_false(bj_store_has(fix->store, &other));
	other = digest_of_hex(hello_hex, 0);
	assert_false(bj_store_has(fix->store, &other));
}

static void unsupported_digests_are_missing(void **state)
{
	struct fix *fix = *state;
	struct bj_digest none = { .fn = BJ_DIGEST_UNKNOWN };
	struct bj_digest odd = digest_of_hex(hello_hex, 6);
	int fd = -1;
	odd.hash_len = 31;
	assert_false(bj_store_has(fix->store, &none));
	assert_false(bj_store_pin(fix->store, &odd));
	assert_int_equal(bj_store_open_blob(fix->store, &odd, &fd, &fix->err), BJ_STORE_E_MISSING);
	bj_store_discard(fix->store, &none);
}

static void read_refuses_what_is_larger(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	struct bj_str data = BJ_STR_NULL;
	EXPECT_OK(fix, bj_store_read(fix->store, &digest, 6, &data, &fix->arena, &fix->err));
	EXPECT_ERR(fix, bj_store_read(fix->store, &digest, 5, &data, &fix->arena, &fix->err),
		   BJ_RESOURCE_EXHAUSTED, hello_hex);
	struct bj_digest huge = digest_of_hex(hello_hex, INT64_MAX);
	assert_int_equal(bj_store_read(fix->store, &huge, 5, &data, &fix->arena, &fix->err),
			 BJ_STORE_E_MISSING);
	struct bj_arena small;
	bj_arena_init(&small, 3);
	EXPECT_ERR(fix, bj_store_read(fix->store, &digest, 6, &data, &small, &fix->err),
		   BJ_RESOURCE_EXHAUSTED, "no memory");
	bj_arena_deinit(&small);
}

static void an_open_blob_outlives_its_removal(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	int fd = -1;
	char data[8];
	EXPECT_OK(fix, bj_store_open_blob(fix->store, &digest, &fd, &fix->err));
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	bj_store_discard(fix->store, &digest);
	assert_false(bj_store_has(fix->store, &digest));
	assert_false(file_exists(blob_path(fix, &digest)));
	assert_int_equal(read(fd, data, sizeof(data)), 6);
	close(fd);
	assert_int_equal(stats_of(fix).n_blobs, 0);
	assert_int_equal(stats_of(fix).n_bytes, 0);
}

/* ---- damage that is found while the store is open ---- */

static void damage_is_found_and_dropped(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	struct bj_str data = BJ_STR_NULL;
	int fd = -1;
	flip_bit(blob_path(fix, &digest), 2);
	EXPECT_ERR(fix, bj_store_read(fix->store, &digest, 6, &data, &fix->arena, &fix->err),
		   BJ_DATA_LOSS, hello_hex);
	assert_false(bj_store_has(fix->store, &digest));
	assert_int_equal(stats_of(fix).n_damaged, 1);

	(void)put(fix, BJ_STR_LIT("hello\n"));
	expect_blob(fix, &digest, BJ_STR_LIT("hello\n"));
	assert_int_equal(chmod(blob_path(fix, &digest), 0644), 0);
	assert_int_equal(truncate(blob_path(fix, &digest), 3), 0);
	EXPECT_ERR(fix, bj_store_open_blob(fix->store, &digest, &fd, &fix->err), BJ_DATA_LOSS,
		   hello_hex);
	assert_int_equal(fd, -1);
	assert_false(bj_store_has(fix->store, &digest));
}

static void a_file_removed_behind_our_back_is_missing(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	int fd = -1;
	assert_int_equal(unlink(blob_path(fix, &digest)), 0);
	assert_int_equal(bj_store_open_blob(fix->store, &digest, &fd, &fix->err),
			 BJ_STORE_E_MISSING);
	assert_false(bj_store_has(fix->store, &digest));
	(void)put(fix, BJ_STR_LIT("hello\n"));
	expect_blob(fix, &digest, BJ_STR_LIT("hello\n"));
}

/* ---- writers ---- */

static struct bj_store_writer *new_writer(struct fix *fix, uint64_t size_limit)
{
	struct bj_store_writer *writer = NULL;
	EXPECT_OK(fix, bj_store_writer_new(fix->store, BJ_DIGEST_SHA256, size_limit, &writer,
					   &fix->err));
	return writer;
}

/* Sizes around the writer's buffer, in pieces of one byte, of a prime, and whole. */
static void writers_take_any_size_in_any_pieces(void **state)
{
	static const size_t sizes[] = { 1, 65535, 65536, 65537, 131072, 300000 };
	static const size_t pieces[] = { 1, 7919, 65536, 1000000 };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(sizes); i++) {
		for (size_t j = 0; j < BJ_ARRAY_LEN(pieces); j++) {
			struct bj_str data = make_blob(fix, sizes[i], i * 10 + j + 1);
			struct bj_digest want = bj_digest_of(BJ_DIGEST_SHA256, data), got;
			struct bj_store_writer *writer = new_writer(fix, sizes[i]);
			for (size_t at = 0; at < data.len; at += pieces[j]) {
				size_t n = BJ_MIN(pieces[j], data.len - at);
				EXPECT_OK(fix, bj_store_writer_append(writer, data.ptr + at, n,
								      &fix->err));
			}
			assert_int_equal(bj_store_writer_size(writer), data.len);
			EXPECT_OK(fix, bj_store_writer_commit(writer, &want, &got, &fix->err));
			assert_true(bj_digest_eq(&got, &want));
			expect_blob(fix, &want, data);
		}
	}
	assert_int_equal(count_files(fix, "tmp"), 0);
}

static void a_writer_of_nothing_makes_the_empty_blob(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest;
	EXPECT_OK(fix, bj_store_writer_commit(new_writer(fix, 0), NULL, &digest, &fix->err));
	assert_true(bj_digest_is_empty(&digest));
	struct bj_store_writer *writer = new_writer(fix, 0);
	EXPECT_OK(fix, bj_store_writer_append(writer, NULL, 0, &fix->err));
	EXPECT_OK(fix, bj_store_writer_commit(writer, NULL, NULL, &fix->err));
}

static void a_writer_that_lied_leaves_nothing(void **state)
{
	static const size_t sizes[] = { 6, 200000 };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(sizes); i++) {
		struct bj_str data = make_blob(fix, sizes[i], 5);
		struct bj_digest got, want = bj_digest_of(BJ_DIGEST_SHA256, data);
		struct bj_digest real = want;
		want.hash[3] ^= 1;
		struct bj_store_writer *writer = new_writer(fix, UINT64_MAX);
		EXPECT_OK(fix, bj_store_writer_append(writer, data.ptr, data.len, &fix->err));
		EXPECT_ERR(fix, bj_store_writer_commit(writer, &want, &got, &fix->err),
			   BJ_INVALID_ARGUMENT, "expected blob");
		assert_false(bj_store_has(fix->store, &want));
		assert_false(bj_store_has(fix->store, &real));
	}
	assert_int_equal(count_files(fix, "tmp"), 0);
	assert_int_equal(stats_of(fix).n_blobs, 0);
}

static void more_than_announced_is_refused(void **state)
{
	struct fix *fix = *state;
	struct bj_store_writer *writer = new_writer(fix, 5);
	EXPECT_OK(fix, bj_store_writer_append(writer, "hello", 5, &fix->err));
	EXPECT_ERR(fix, bj_store_writer_append(writer, "\n", 1, &fix->err), BJ_INVALID_ARGUMENT,
		   "more than the 5");
	assert_int_equal(bj_store_writer_size(writer), 5);
	struct bj_digest digest;
	EXPECT_ERR(fix, bj_store_writer_commit(writer, NULL, &digest, &fix->err),
		   BJ_FAILED_PRECONDITION, "failed");
}

static void an_aborted_writer_leaves_nothing(void **state)
{
	struct fix *fix = *state;
	struct bj_str data = make_blob(fix, 200000, 1);
	struct bj_store_writer *writer = new_writer(fix, UINT64_MAX);
	EXPECT_OK(fix, bj_store_writer_append(writer, data.ptr, data.len, &fix->err));
	assert_int_equal(count_files(fix, "tmp"), 1);
	bj_store_writer_abort(writer);
	bj_store_writer_abort(NULL);
	assert_int_equal(count_files(fix, "tmp"), 0);
}

/* Two at once, as two clients that upload the same output: both succeed, one file. */
static void two_writers_of_one_blob_both_succeed(void **state)
{
	static const size_t sizes[] = { 6, 200000 };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(sizes); i++) {
		struct bj_str data = make_blob(fix, sizes[i], i);
		struct bj_store_writer *writers[2] = { new_writer(fix, UINT64_MAX),
						       new_writer(fix, UINT64_MAX) };
		struct bj_digest digests[2];
		for (size_t k = 0; k < 2; k++)
			EXPECT_OK(fix, bj_store_writer_append(writers[k], data.ptr, data.len,
							      &fix->err));
		for (size_t k = 0; k < 2; k++)
			EXPECT_OK(fix,
				  bj_store_writer_commit(writers[k], NULL, &digests[k], &fix->err));
		assert_true(bj_digest_eq(&digests[0], &digests[1]));
		expect_blob(fix, &digests[0], data);
	}
	assert_int_equal(stats_of(fix).n_blobs, 2);
	assert_int_equal(count_files(fix, "tmp"), 0);
}

static void put_fd_copies_from_the_start(void **state)
{
	struct fix *fix = *state;
	struct bj_str data = make_blob(fix, 150000, 9);
	struct bj_digest want = bj_digest_of(BJ_DIGEST_SHA256, data), got;
	int fd = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(write(fd, data.ptr, data.len), data.len);
	assert_int_equal(lseek(fd, 70, SEEK_SET), 70);
	EXPECT_OK(fix, bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, fd, &got, &fix->err));
	assert_true(bj_digest_eq(&got, &want));
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 70);
	expect_blob(fix, &want, data);
	assert_int_equal(ftruncate(fd, 0), 0);
	EXPECT_OK(fix, bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, fd, &got, &fix->err));
	assert_true(bj_digest_is_empty(&got));
	close(fd);
}

static void put_fd_refuses_what_is_no_file(void **state)
{
	struct fix *fix = *state;
	int fds[2];
	struct bj_digest digest;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	EXPECT_ERR(fix, bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, fds[0], &digest, &fix->err),
		   BJ_FAILED_PRECONDITION, "not a regular file");
	close(fds[0]);
	close(fds[1]);
	EXPECT_ERR(fix, bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, -1, &digest, &fix->err),
		   BJ_INTERNAL, "Bad file descriptor");
}

/* ---- the action cache ---- */

static int ac_get(struct fix *fix, const char *instance, const struct bj_digest *action,
		  struct bj_str *out_value)
{
	return bj_store_ac_get(fix->store, bj_str_of(instance), action, out_value, &fix->arena,
			       &fix->err);
}

static void ac_put(struct fix *fix, const char *instance, const struct bj_digest *action,
		   struct bj_str value)
{
	EXPECT_OK(fix, bj_store_ac_put(fix->store, bj_str_of(instance), action, value, &fix->err));
}

static void ac_entries_are_replaced(void **state)
{
	struct fix *fix = *state;
	struct bj_digest action = digest_of_hex(hello_hex, 6);
	struct bj_str value = BJ_STR_NULL;
	assert_int_equal(ac_get(fix, "", &action, &value), BJ_STORE_E_MISSING);
	ac_put(fix, "", &action, BJ_STR_LIT("one"));
	EXPECT_OK(fix, ac_get(fix, "", &action, &value));
	assert_true(bj_str_eq(value, BJ_STR_LIT("one")));
	ac_put(fix, "", &action, BJ_STR_LIT("two\0\n longer"));
	EXPECT_OK(fix, ac_get(fix, "", &action, &value));
	assert_true(bj_str_eq(value, BJ_STR_LIT("two\0\n longer")));
	assert_int_equal(stats_of(fix).n_ac_entries, 1);
	assert_int_equal(stats_of(fix).n_ac_bytes, 48 + 12); /* the header, see store_ac.c */
	assert_int_equal(stats_of(fix).n_blobs, 0);
	assert_int_equal(count_files(fix, "tmp"), 0);
}

static void ac_keys_are_instance_and_whole_digest(void **state)
{
	struct fix *fix = *state;
	struct bj_digest action = digest_of_hex(hello_hex, 6), larger = digest_of_hex(hello_hex, 7);
	struct bj_str value = BJ_STR_NULL;
	ac_put(fix, "a", &action, BJ_STR_LIT("value"));
	assert_int_equal(ac_get(fix, "", &action, &value), BJ_STORE_E_MISSING);
	assert_int_equal(ac_get(fix, "a/b", &action, &value), BJ_STORE_E_MISSING);
	assert_int_equal(ac_get(fix, "a", &larger, &value), BJ_STORE_E_MISSING);
	ac_put(fix, "../../../x", &action, BJ_STR_LIT("climber"));
	EXPECT_OK(fix, ac_get(fix, "../../../x", &action, &value));
	assert_true(bj_str_eq(value, BJ_STR_LIT("climber")));
	EXPECT_OK(fix, ac_get(fix, "a", &action, &value));
	assert_true(bj_str_eq(value, BJ_STR_LIT("value")));
	assert_int_equal(stats_of(fix).n_ac_entries, 2);
	/* A blob of the action's digest is something else. */
	assert_false(bj_store_has(fix->store, &action));
}

/* bazel#8125: an empty result served as a hit makes the outputs vanish. */
static void an_empty_ac_entry_is_a_miss(void **state)
{
	struct fix *fix = *state;
	struct bj_digest action = digest_of_hex(hello_hex, 6);
	struct bj_str value = BJ_STR_NULL;
	ac_put(fix, "", &action, BJ_STR_LIT(""));
	assert_int_equal(ac_get(fix, "", &action, &value), BJ_STORE_E_MISSING);
}

/* The only file below ac/. */
static void find_ac_file(struct fix *fix, char out[8192])
{
	for (unsigned int i = 0; i < 256; i++) {
		char dir_path[8192 - 300];
		(void)snprintf(dir_path, sizeof(dir_path), "%s/ac/%02x", fix->root, i);
		DIR *dir = opendir(dir_path);
		if (!dir)
			continue; /* nothing was put there */
		for (const struct dirent *d; (d = readdir(dir));)
			if (d->d_name[0] != '.')
				(void)snprintf(out, 8192, "%s/%s", dir_path, d->d_name);
		closedir(dir);
	}
}

static void a_damaged_ac_entry_is_a_miss(void **state)
{
	struct fix *fix = *state;
	struct bj_digest action = digest_of_hex(hello_hex, 6);
	struct bj_str value = BJ_STR_NULL;
	static const int offsets[] = { 0, 8, 16, 47, 48, 52, -1, -2 };
	for (size_t i = 0; i < BJ_ARRAY_LEN(offsets); i++) {
		char path[8192] = "";
		ac_put(fix, "", &action, BJ_STR_LIT("value"));
		find_ac_file(fix, path);
		assert_int_equal(chmod(path, 0644), 0);
		if (offsets[i] >= 0)
			flip_bit(path, offsets[i]);
		else
			assert_int_equal(truncate(path, offsets[i] == -1 ? 0 : 50), 0);
		assert_int_equal(ac_get(fix, "", &action, &value), BJ_STORE_E_MISSING);
		assert_false(file_exists(path));
		assert_int_equal(stats_of(fix).n_ac_entries, 0);
	}
	assert_int_equal(stats_of(fix).n_damaged, BJ_ARRAY_LEN(offsets));
}

static void an_ac_file_under_another_name_is_not_believed(void **state)
{
	struct fix *fix = *state;
	struct bj_digest action = digest_of_hex(hello_hex, 6);
	struct bj_str value = BJ_STR_NULL;
	char first[8192] = "", second[8192] = "";
	ac_put(fix, "good", &action, BJ_STR_LIT("value"));
	find_ac_file(fix, first);
	char aside[8300];
	(void)snprintf(aside, sizeof(aside), "%s/aside", fix->dir);
	assert_int_equal(rename(first, aside), 0);
	ac_put(fix, "bad", &action, BJ_STR_LIT("value of another instance"));
	find_ac_file(fix, second);
	assert_int_equal(rename(aside, second), 0);
	assert_int_equal(ac_get(fix, "bad", &action, &value), BJ_STORE_E_MISSING);
}

/* ---- opening ---- */

static void all_is_there_after_a_restart(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put(fix, BJ_STR_LIT("hello\n"));
	struct bj_str big = make_blob(fix, 100000, 4), value = BJ_STR_NULL;
	struct bj_digest big_digest = put(fix, big);
	ac_put(fix, "i", &digest, BJ_STR_LIT("value"));
	for (int i = 0; i < 2; i++) {
		fix_close(fix);
		fix_open(fix, 0);
		assert_true(bj_store_has(fix->store, &digest));
		expect_blob(fix, &big_digest, big);
		EXPECT_OK(fix, ac_get(fix, "i", &digest, &value));
		assert_true(bj_str_eq(value, BJ_STR_LIT("value")));
		assert_int_equal(stats_of(fix).n_blobs, 2);
		assert_int_equal(stats_of(fix).n_bytes, 100006);
		assert_int_equal(stats_of(fix).n_ac_entries, 1);
	}
}

static void a_second_process_is_refused_with_the_pid(void **state)
{
	struct fix *fix = *state;
	struct bj_store *second = NULL;
	char pid[32];
	(void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	EXPECT_ERR(fix, bj_store_open(fix->root, NULL, &second, &fix->err), BJ_FAILED_PRECONDITION,
		   pid);
	assert_null(second);
	fix_close(fix);
	EXPECT_OK(fix, bj_store_open(fix->root, NULL, &second, &fix->err));
	bj_store_close(second);
	bj_store_close(NULL);
}

static void open_makes_parents_and_is_private(void **state)
{
	struct fix *fix = *state;
	(void)snprintf(fix->root, sizeof(fix->root), "%s/a/b/store/", fix->dir);
	fix_open(fix, 0);
	struct stat st;
	assert_int_equal(stat(fix->root, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void open_says_what_it_cannot_do(void **state)
{
	struct fix *fix = *state;
	char path[4200];
	(void)snprintf(path, sizeof(path), "%s/file", fix->dir);
	assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
	EXPECT_ERR(fix, bj_store_open(path, NULL, &fix->store, &fix->err), BJ_INTERNAL, path);
	(void)snprintf(path, sizeof(path), "%s/file/store", fix->dir);
	EXPECT_ERR(fix, bj_store_open(path, NULL, &fix->store, &fix->err), BJ_INTERNAL,
		   "Not a directory");
	EXPECT_ERR(fix, bj_store_open("", NULL, &fix->store, &fix->err), BJ_INTERNAL,
		   "No such file");
}

/* Names that the store would not give are not ours: they are neither believed nor removed. */
static void foreign_files_are_left_alone(void **state)
{
	static const char *const names[] = {
		"README",
		"58/README",
		"58/5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
		"58/5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-06",
		"58/5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-6x",
		"58/5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03-6",
		"58/"
		"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-"
		"9999999999999999999",
		"59/5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-6",
	};
	struct fix *fix = *state;
	fix_close(fix);
	for (int i = 58; i <= 59; i++) {
		char path[8192];
		(void)snprintf(path, sizeof(path), "%s/blobs/sha256/%d", fix->root, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		char path[8192];
		(void)snprintf(path, sizeof(path), "%s/blobs/sha256/%s", fix->root, names[i]);
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, "hello\n", 6), 6);
		close(fd);
	}
	fix_open(fix, 0);
	struct bj_digest digest = digest_of_hex(hello_hex, 6);
	assert_false(bj_store_has(fix->store, &digest));
	assert_int_equal(stats_of(fix).n_blobs, 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		char path[8192];
		(void)snprintf(path, sizeof(path), "%s/blobs/sha256/%s", fix->root, names[i]);
		assert_true(file_exists(path));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(put_and_read),
		FIX_TEST(mode_does_not_depend_on_the_umask),
		FIX_TEST(a_wrong_size_is_another_blob),
		FIX_TEST(put_of_other_bytes_is_refused),
		FIX_TEST(the_empty_blob_is_always_there),
		FIX_TEST(unsupported_digests_are_missing),
		FIX_TEST(read_refuses_what_is_larger),
		FIX_TEST(an_open_blob_outlives_its_removal),
		FIX_TEST(damage_is_found_and_dropped),
		FIX_TEST(a_file_removed_behind_our_back_is_missing),
		FIX_TEST(writers_take_any_size_in_any_pieces),
		FIX_TEST(a_writer_of_nothing_makes_the_empty_blob),
		FIX_TEST(a_writer_that_lied_leaves_nothing),
		FIX_TEST(more_than_announced_is_refused),
		FIX_TEST(an_aborted_writer_leaves_nothing),
		FIX_TEST(two_writers_of_one_blob_both_succeed),
		FIX_TEST(put_fd_copies_from_the_start),
		FIX_TEST(put_fd_refuses_what_is_no_file),
		FIX_TEST(ac_entries_are_replaced),
		FIX_TEST(ac_keys_are_instance_and_whole_digest),
		FIX_TEST(an_empty_ac_entry_is_a_miss),
		FIX_TEST(a_damaged_ac_entry_is_a_miss),
		FIX_TEST(an_ac_file_under_another_name_is_not_believed),
		FIX_TEST(all_is_there_after_a_restart),
		FIX_TEST(a_second_process_is_refused_with_the_pid),
		FIX_TEST_CLOSED(open_makes_parents_and_is_private),
		FIX_TEST_CLOSED(open_says_what_it_cannot_do),
		FIX_TEST(foreign_files_are_left_alone),
	};
	return cmocka_run_group_tests_name("cas_store", tests, NULL, NULL);
}
