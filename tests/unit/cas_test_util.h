// SPDX-License-Identifier: Apache-2.0
/**
 * cas_test_util.h - what the unit tests of cas share: a store in a temporary directory, blobs, and files of it.
 */
#ifndef BJ_TESTS_UNIT_CAS_TEST_UTIL_H
#define BJ_TESTS_UNIT_CAS_TEST_UTIL_H

#include "tests/unit/base_test_util.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/fd.h"
#include "executor/cas/digest.h"
#include "executor/cas/store-internal.h"
#include "executor/cas/store.h"

/** One store and what its tests need. */
struct fix {
	char dir[4096]; /* temporary, removed at the end */
	char root[4160];
	int dir_fd;
	struct bj_store *store; /* NULL while closed */
	struct bj_arena arena;
	struct bj_err err;
};

BJ_UNUSED static void fix_open_with(struct fix *fix, uint64_t max_bytes,
				    const struct bj_store_io *io)
{
	/* The background thread would make the order of system calls a matter of luck. */
	struct bj_store_opts opts = { .max_bytes = max_bytes, .sync_interval_ns = UINT64_MAX };
	assert_null(fix->store);
	fix->err = BJ_ERR_NULL;
	if (bj_store_open_with(fix->root, &opts, io, &fix->store, &fix->err) != 0)
		fail_msg("open: %s", fix->err.msg);
}

static int sync_nothing(int fd)
{
	return fd < 0 ? -1 : 0;
}

/** The real calls but for those that wait until the whole disk has written what others left: seconds on a busy machine. */
BJ_UNUSED static struct bj_store_io test_io(void)
{
	struct bj_store_io io = bj_store_io_sys;
	io.syncfs = sync_nothing;
	io.fsync = sync_nothing;
	return io;
}

BJ_UNUSED static void fix_open(struct fix *fix, uint64_t max_bytes)
{
	static struct bj_store_io io;
	io = test_io();
	fix_open_with(fix, max_bytes, &io);
}

BJ_UNUSED static void fix_close(struct fix *fix)
{
	bj_store_close(fix->store);
	fix->store = NULL;
}

/** A closed store that does not exist yet. */
BJ_UNUSED static int fix_setup_closed(void **state)
{
	struct fix *fix = calloc(1, sizeof(*fix));
	assert_non_null(fix);
	fix->dir_fd = make_temp_dir(fix->dir);
	(void)snprintf(fix->root, sizeof(fix->root), "%s/store", fix->dir);
	bj_arena_init(&fix->arena, 0);
	fix->err = BJ_ERR_NULL;
	*state = fix;
	return 0;
}

BJ_UNUSED static int fix_setup(void **state)
{
	(void)fix_setup_closed(state);
	fix_open(*state, 0);
	return 0;
}

BJ_UNUSED static int fix_teardown(void **state)
{
	struct fix *fix = *state;
	fix_close(fix);
	bj_arena_deinit(&fix->arena);
	int r = bj_remove_tree(AT_FDCWD, fix->dir);
	close(fix->dir_fd);
	free(fix);
	return r;
}

/* ---- blobs ---- */

BJ_UNUSED static struct bj_digest put(struct fix *fix, struct bj_str data)
{
	struct bj_digest digest;
	if (bj_store_put(fix->store, BJ_DIGEST_SHA256, data, NULL, &digest, &fix->err) != 0)
		fail_msg("put: %s", fix->err.msg);
	return digest;
}

/** A blob of @n_bytes that @seed makes unlike the others. */
BJ_UNUSED static struct bj_str make_blob(struct fix *fix, size_t n_bytes, uint64_t seed)
{
	char *data = bj_arena_alloc(&fix->arena, n_bytes);
	assert_non_null(data);
	for (size_t i = 0; i < n_bytes; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		data[i] = (char)(uint8_t)(seed >> 56);
	}
	return bj_str_n(data, n_bytes);
}

BJ_UNUSED static struct bj_digest put_random(struct fix *fix, size_t n_bytes, uint64_t seed)
{
	return put(fix, make_blob(fix, n_bytes, seed));
}

BJ_UNUSED static struct bj_digest digest_of_hex(const char *hex, int64_t size_bytes)
{
	struct bj_digest digest;
	struct bj_err err = BJ_ERR_NULL;
	if (bj_digest_parse(BJ_DIGEST_SHA256, bj_str_of(hex), size_bytes, "digest", &digest,
			    &err) != 0)
		fail_msg("%s", err.msg);
	return digest;
}

/** Reads the blob and wants exactly @want. */
BJ_UNUSED static void expect_blob(struct fix *fix, const struct bj_digest *digest,
				  struct bj_str want)
{
	struct bj_str got = BJ_STR_NULL;
	if (bj_store_read(fix->store, digest, SIZE_MAX, &got, &fix->arena, &fix->err) != 0)
		fail_msg("read: %s", fix->err.msg);
	assert_true(bj_str_eq(got, want));
}

/* ---- files of the store ---- */

/** Path of a blob, as the layout in store.h promises it. */
BJ_UNUSED static const char *blob_path(struct fix *fix, const struct bj_digest *digest)
{
	char hex[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(digest, hex);
	const char *path = bj_arena_printf(&fix->arena, "%s/blobs/sha256/%.2s/%s-%" PRIu64,
					   fix->root, hex, hex, digest->size_bytes);
	assert_non_null(path);
	return path;
}

BJ_UNUSED static bool file_exists(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0;
}

/** Changes one bit of a file, whatever its mode says. */
BJ_UNUSED static void flip_bit(const char *path, off_t offset)
{
	char c;
	assert_int_equal(chmod(path, 0644), 0);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &c, 1, offset), 1);
	c = (char)(c ^ 4);
	assert_int_equal(pwrite(fd, &c, 1, offset), 1);
	close(fd);
	assert_int_equal(chmod(path, 0444), 0);
}

/** Entries of a directory below the root, without "." and "..". */
BJ_UNUSED static size_t count_files(struct fix *fix, const char *name)
{
	char path[8192];
	(void)snprintf(path, sizeof(path), "%s/%s", fix->root, name);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	size_t n = 0;
	for (const struct dirent *d; (d = readdir(dir));)
		n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
	closedir(dir);
	return n;
}

BJ_UNUSED static struct bj_store_stats stats_of(struct fix *fix)
{
	struct bj_store_stats stats;
	bj_store_stats(fix->store, &stats);
	return stats;
}

/** Wants a failure with this code whose text holds @text; forgets it. */
#define EXPECT_ERR(fix, call, want_code, text)                                                     \
	do {                                                                                       \
		int expect_r_ = (call);                                                            \
		if (expect_r_ != -(int)(want_code) || !strstr((fix)->err.msg, (text)))             \
			fail_msg("%s gave %d \"%s\", not %d with \"%s\"", #call, expect_r_,        \
				 (fix)->err.msg, -(int)(want_code), (text));                       \
		assert_int_equal((fix)->err.code, (want_code));                                    \
		bj_err_clear(&(fix)->err);                                                         \
	} while (0)

/** Wants 0. */
#define EXPECT_OK(fix, call)                                                                       \
	do {                                                                                       \
		int expect_r_ = (call);                                                            \
		if (expect_r_ != 0)                                                                \
			fail_msg("%s gave %d \"%s\"", #call, expect_r_, (fix)->err.msg);           \
	} while (0)

#define FIX_TEST(fn) cmocka_unit_test_setup_teardown(fn, fix_setup, fix_teardown)
#define FIX_TEST_CLOSED(fn) cmocka_unit_test_setup_teardown(fn, fix_setup_closed, fix_teardown)

#endif
