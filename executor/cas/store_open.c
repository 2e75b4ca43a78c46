// SPDX-License-Identifier: Apache-2.0
/*
 * Opening and closing the store, and what a crash in between means.
 *
 *	open:  lock, empty tmp/, read the marker `clean`, read the directories, remove the marker (fsync)
 *	close: write last uses, syncfs, write the marker (fsync)
 *
 * The marker (store_marker.c) says: everything that is named here reached the disk whole. Its absence says that any file
 * may have a right name and wrong bytes (a rename can reach the disk before the data), so each is hashed again on first
 * use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"
#include "executor/cas/store-internal.h"

enum { DEFAULT_SYNC_S = 5 };

/* What stands below blobs/sha256/ and ac/ is made when it is first needed. */
static const char *const dirs[] = { "tmp", "blobs", "blobs/sha256", "ac" };

/* ---- directories ---- */

/* mkdir -p for a path that the operator chose: symlinks in it are theirs to use. */
static int make_root(const char *root, struct bj_err *err)
{
	bj_cleanup(bj_freep) char *path = bj_strdup(root);
	if (!path)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to open the store");
	for (char *slash = path + 1; *path && (slash = strchr(slash, '/')); slash++) {
		if (slash[strspn(slash, "/")] == '\0') /* slashes at the end: the store itself */
			break;
		*slash = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return bj_err_errno(err, errno, "make the directory \"%s\"", path);
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return bj_err_errno(err, errno, "make the store \"%s\"", path);
	return 0;
}

static int make_dir(struct bj_store *store, const char *path, struct bj_err *err)
{
	if (mkdirat(store->root_fd, path, 0700) == 0 || errno == EEXIST)
		return 0;
	return bj_err_errno(err, errno, "make the directory \"%s\" of the store", path);
}

static int make_layout(struct bj_store *store, struct bj_err *err)
{
	int r = bj_remove_tree(store->root_fd, "tmp");
	if (r < 0)
		return bj_err_errno(err, -r, "empty tmp/ of the store");
	for (size_t i = 0; i < BJ_ARRAY_LEN(dirs); i++) {
		r = make_dir(store, dirs[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the lock ---- */

static int refuse_locked(struct bj_store *store, const char *root, struct bj_err *err)
{
	char pid[24] = "";
	ssize_t n = pread(store->lock_fd, pid, sizeof(pid) - 1, 0);
	pid[n > 0 ? n : 0] = '\0';
	pid[strcspn(pid, "\n")] = '\0';
	return bj_err_set(err, BJ_FAILED_PRECONDITION, "the store \"%s\" is in use by process %s",
			  root, *pid ? pid : "(unknown)");
}

static int take_lock(struct bj_store *store, const char *root, struct bj_err *err)
{
	store->lock_fd =
		openat(store->root_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (store->lock_fd < 0)
		return bj_err_errno(err, errno, "open the lock of the store \"%s\"", root);
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return refuse_locked(store, root, err);
		return bj_err_errno(err, errno, "lock the store \"%s\"", root);
	}
	char pid[24];
	int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	/* Only for the text of refuse_locked(), so that a full disk does not keep us from opening. */
	if (ftruncate(store->lock_fd, 0) < 0 || pwrite(store->lock_fd, pid, (size_t)len, 0) < 0)
		bj_debug("cas: cannot write the pid to the lock errno=%d", errno);
	return 0;
}

/* ---- open ---- */

static struct bj_store *alloc_store(const struct bj_store_opts *opts, const struct bj_store_io *io)
{
	struct bj_store *store = BJ_NEW(struct bj_store);
	if (!store)
		return NULL;
	store->io = io;
	store->root_fd = -EBADF;
	store->lock_fd = -EBADF;
	store->max_bytes = opts && opts->max_bytes ? opts->max_bytes : UINT64_MAX;
	store->sync_interval_ns = opts && opts->sync_interval_ns ? opts->sync_interval_ns
								 : DEFAULT_SYNC_S * BJ_NS_PER_SEC;
	store->map = BJ_MAP_NULL;
	pthread_condattr_t attr;
	bj_assert(pthread_mutex_init(&store->mu, NULL) == 0);
	bj_assert(pthread_cond_init(&store->settled, NULL) == 0);
	bj_assert(pthread_condattr_init(&attr) == 0);
	bj_assert(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
	bj_assert(pthread_cond_init(&store->syncer_wake, &attr) == 0);
	(void)pthread_condattr_destroy(&attr); /* cannot fail */
	return store;
}

static void free_store(struct bj_store *store)
{
	bj_store_free_entries(store);
	(void)pthread_cond_destroy(&store->syncer_wake); /* nobody waits: cannot fail */
	(void)pthread_cond_destroy(&store->settled);
	(void)pthread_mutex_destroy(&store->mu);
	bj_close_fdp(&store->root_fd);
	bj_close_fdp(&store->lock_fd);
	bj_free(store);
}

static int open_root(struct bj_store *store, const char *root, struct bj_err *err)
{
	int r = make_root(root, err);
	if (r < 0)
		return r;
	store->root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (store->root_fd < 0)
		return bj_err_errno(err, errno, "open the store \"%s\"", root);
	return take_lock(store, root, err);
}

static int load(struct bj_store *store, struct bj_err *err)
{
	struct bj_store_marker marker = BJ_STORE_MARKER_NULL;
	int r = make_layout(store, err);
	if (r == 0)
		r = bj_store_marker_read(store, &marker, err);
	if (r == 0)
		r = bj_store_scan(store, &marker, err);
	bj_store_marker_deinit(&marker);
	if (r == 0)
		r = bj_store_syncer_start(store, err);
	if (r == 0) /* last of what can fail: an open that fails leaves a clean stop clean */
		r = bj_store_marker_remove(store, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->mu);
	bj_store_evict_locked(store, 0); /* the limit may be lower than last time */
	pthread_mutex_unlock(&store->mu);
	return 0;
}

int bj_store_open_with(const char *root, const struct bj_store_opts *opts,
		       const struct bj_store_io *io, struct bj_store **out_store,
		       struct bj_err *err)
{
	struct bj_store *store = alloc_store(opts, io);
	if (!store)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to open the store");
	int r = open_root(store, root, err);
	if (r == 0)
		r = load(store, err);
	if (r < 0) {
		bj_store_syncer_stop(store);
		free_store(store);
		return r;
	}
	*out_store = store;
	return 0;
}

int bj_store_open(const char *root, const struct bj_store_opts *opts, struct bj_store **out_store,
		  struct bj_err *err)
{
	return bj_store_open_with(root, opts, &bj_store_io_sys, out_store, err);
}

/* ---- close ---- */

static int finish(struct bj_store *store, struct bj_err *err)
{
	bj_store_persist_touches(store);
	int r = bj_store_sync(store, err);
	if (r < 0)
		return r;
	return store->has_sync_failed ? 0 : bj_store_marker_put(store, err);
}

void bj_store_close(struct bj_store *store)
{
	if (!store)
		return;
	bj_assert(atomic_load(&store->n_writers) == 0);
	bj_store_syncer_stop(store);
	struct bj_err err = BJ_ERR_NULL;
	if (finish(store, &err) < 0)
		bj_warn("cas: the stop is not clean, blobs will be hashed again: %s", err.msg);
	free_store(store);
}
