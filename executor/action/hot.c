// SPDX-License-Identifier: Apache-2.0
/*
 * There are no pins: a link that finds its file evicted (ENOENT) makes it again and retries. Two threads that miss the same blob both
 * copy it and rename onto the same name; the bytes are equal, so the loser's work is only wasted.
 */
#include "executor/action/hot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/action/layout.h"
#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/base/map.h"

enum { COPY_BYTES = 256 << 10, LINK_TRIES = 4 };

struct entry {
	struct entry *newer, *older; /* use order */
	uint64_t size_bytes;
	char name[BJ_HOT_NAME_BYTES]; /* file name and map key */
};

struct bj_hot {
	struct bj_store *store;
	int dir_fd;
	uint64_t max_bytes;
	atomic_ullong next_temp;
	pthread_mutex_t mu; /* guards all below */
	struct bj_map by_name;
	struct entry *newest, *oldest;
	uint64_t used_bytes;
};

/* ---- index ---- */

static void unlink_entry_locked(struct bj_hot *hot, struct entry *e)
{
	*(e->newer ? &e->newer->older : &hot->newest) = e->older;
	*(e->older ? &e->older->newer : &hot->oldest) = e->newer;
}

static void push_newest_locked(struct bj_hot *hot, struct entry *e)
{
	e->newer = NULL;
	e->older = hot->newest;
	*(hot->newest ? &hot->newest->newer : &hot->oldest) = e;
	hot->newest = e;
}

static void evict_locked(struct bj_hot *hot)
{
	while (hot->used_bytes > hot->max_bytes && hot->oldest != hot->newest) {
		struct entry *e = hot->oldest;

		unlink_entry_locked(hot, e);
		(void)bj_map_remove(&hot->by_name, bj_str_of(e->name));
		hot->used_bytes -= e->size_bytes;
		(void)unlinkat(hot->dir_fd, e->name, 0); /* gone already is as good */
		bj_free(e);
	}
}

static bool touch(struct bj_hot *hot, const char *name)
{
	pthread_mutex_lock(&hot->mu);
	struct entry *e = bj_map_get(&hot->by_name, bj_str_of(name));

	if (e) {
		unlink_entry_locked(hot, e);
		push_newest_locked(hot, e);
	}
	pthread_mutex_unlock(&hot->mu);
	return e != NULL;
}

/* Without memory for the entry the file stays unknown and is made again next time: slower, not wrong. */
static void remember(struct bj_hot *hot, const char *name, uint64_t size_bytes)
{
	struct entry *e = BJ_NEW(struct entry);

	if (!e)
		return;
	memcpy(e->name, name, strlen(name) + 1);
	e->size_bytes = size_bytes;
	pthread_mutex_lock(&hot->mu);
	if (bj_map_get(&hot->by_name, bj_str_of(e->name)) ||
	    !bj_map_put(&hot->by_name, bj_str_of(e->name), e, NULL)) {
		pthread_mutex_unlock(&hot->mu);
		bj_free(e);
		return;
	}
	push_newest_locked(hot, e);
	hot->used_bytes += size_bytes;
	evict_locked(hot);
	pthread_mutex_unlock(&hot->mu);
}

/* ---- making files ---- */

static void make_name(const struct bj_digest *digest, bool is_executable,
		      char name[BJ_HOT_NAME_BYTES])
{
	char hex[2 * BJ_HASH_MAX_BYTES + 1];

	bj_digest_hex(digest, hex);
	(void)snprintf(name, BJ_HOT_NAME_BYTES, "%s-%" PRIu64 "%s", hex, digest->size_bytes,
		       is_executable ? "x" : "");
}

static int copy_hashing(int from, int to, struct bj_hasher *hasher, uint64_t *out_size,
			struct bj_err *err)
{
	bj_cleanup(bj_freep) char *buf = bj_malloc(COPY_BYTES);
	uint64_t size = 0;

	if (!buf)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a copy");
	for (;;) {
		ssize_t n = read(from, buf, COPY_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bj_err_errno(err, errno, "read a blob");
		if (n == 0)
			break;
		bj_hasher_update(hasher, buf, (size_t)n);
		int r = bj_fd_write_all(to, buf, (size_t)n, "work area", err);

		if (r < 0)
			return r;
		size += (uint64_t)n;
	}
	*out_size = size;
	return 0;
}

static int set_mode_and_time(int fd, bool is_executable, int64_t mtime_s, struct bj_err *err)
{
	struct timespec times[2] = { { .tv_sec = mtime_s }, { .tv_sec = mtime_s } };

	if (fchmod(fd, is_executable ? 0555 : 0444) < 0 || futimens(fd, times) < 0)
		return bj_err_errno(err, errno, "set mode and time of an input");
	return 0;
}

/* Bytes that do not hash to their name are as good as missing: the client uploads them again. */
static int fill(const struct bj_digest *digest, int blob_fd, int to, struct bj_err *err)
{
	struct bj_hasher *hasher;
	uint64_t size = 0;
	int r = bj_hasher_new(digest->fn, &hasher, err);

	if (r < 0)
		return r;
	r = copy_hashing(blob_fd, to, hasher, &size, err);
	struct bj_digest got = bj_hasher_finish(hasher);

	bj_hasher_free(hasher);
	if (r < 0)
		return r;
	return bj_digest_eq(&got, digest) && size == digest->size_bytes ? 0 : BJ_HOT_E_MISSING;
}

static int open_blob(struct bj_hot *hot, const struct bj_digest *digest, int *out_fd,
		     struct bj_err *err)
{
	int r = bj_store_open_blob(hot->store, digest, out_fd, err);

	if (r == -BJ_DATA_LOSS) { /* found damaged and dropped just now */
		bj_err_clear(err);
		return BJ_HOT_E_MISSING;
	}
	return r == BJ_STORE_E_MISSING ? BJ_HOT_E_MISSING : r;
}

/* A new file below @dir_fd with the blob's verified bytes. */
static int write_file(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable,
		      int64_t mtime_s, int dir_fd, const char *path, struct bj_err *err)
{
	bj_cleanup(bj_close_fdp) int blob_fd = -EBADF;
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	int r = open_blob(hot, digest, &blob_fd, err);

	if (r != 0)
		return r;
	fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return bj_err_errno(err, errno, "create \"%.300s\"", path);
	r = fill(digest, blob_fd, fd, err);
	if (r == BJ_HOT_E_MISSING)
		bj_store_discard(hot->store, digest);
	if (r == 0)
		r = set_mode_and_time(fd, is_executable, mtime_s, err);
	if (r != 0)
		(void)unlinkat(dir_fd, path, 0); /* half a file: nothing else to be done about it */
	return r < 0 ? bj_err_wrap(err, "lay out \"%.300s\"", path) : r;
}

static int make_hot(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable,
		    const char *name, struct bj_err *err)
{
	char temp[32];

	(void)snprintf(temp, sizeof(temp), "tmp-%llu",
		       (unsigned long long)atomic_fetch_add(&hot->next_temp, 1));
	int r = write_file(hot, digest, is_executable, BJ_INPUT_MTIME, hot->dir_fd, temp, err);

	if (r != 0)
		return r;
	if (renameat(hot->dir_fd, temp, hot->dir_fd, name) < 0) {
		int saved = errno;

		(void)unlinkat(hot->dir_fd, temp, 0);
		return bj_err_errno(err, saved, "rename a hot blob");
	}
	remember(hot, name, digest->size_bytes);
	return 0;
}

/* ---- public ---- */

int bj_hot_copy(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable,
		int64_t mtime_s, int dir_fd, const char *path, struct bj_err *err)
{
	return write_file(hot, digest, is_executable, mtime_s, dir_fd, path, err);
}

int bj_hot_link(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable, int dir_fd,
		const char *path, struct bj_err *err)
{
	char name[BJ_HOT_NAME_BYTES];

	make_name(digest, is_executable, name);
	for (int i = 0; i < LINK_TRIES; i++) {
		if (!touch(hot, name)) {
			int r = make_hot(hot, digest, is_executable, name, err);

			if (r != 0)
				return r < 0 ? bj_err_wrap(err, "lay out \"%.300s\"", path) : r;
		}
		if (linkat(hot->dir_fd, name, dir_fd, path, 0) == 0)
			return 0;
		if (errno == EMLINK)
			break;
		if (errno != ENOENT)
			return bj_err_errno(err, errno, "link \"%.300s\"", path);
	}
	/* Too many links, or evicted again and again by other slots: a copy always works. */
	return bj_hot_copy(hot, digest, is_executable, BJ_INPUT_MTIME, dir_fd, path, err);
}

int bj_hot_new(int dir_fd, uint64_t max_bytes, struct bj_store *store, struct bj_hot **out_hot,
	       struct bj_err *err)
{
	struct bj_hot *hot = BJ_NEW(struct bj_hot);

	if (!hot || pthread_mutex_init(&hot->mu, NULL)) {
		bj_free(hot);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the hot blobs");
	}
	hot->store = store;
	hot->dir_fd = dir_fd;
	hot->max_bytes = max_bytes;
	*out_hot = hot;
	return 0;
}

void bj_hot_free(struct bj_hot *hot)
{
	if (!hot)
		return;
	for (struct entry *e = hot->oldest, *newer; e; e = newer) {
		newer = e->newer;
		bj_free(e);
	}
	bj_map_deinit(&hot->by_name);
	(void)pthread_mutex_destroy(&hot->mu);
	bj_close_fdp(&hot->dir_fd);
	bj_free(hot);
}
