// SPDX-License-Identifier: Apache-2.0
/*
 * Reading the directories into the index at open. A name says kind, hash and size; the mtime says when the blob was
 * last used. A file of another size than its name says is a leftover of a crash and is removed; a name that the store
 * would not give is not ours and is left alone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"
#include "executor/cas/store-internal.h"

enum { FAN_OUT = 256 };
#define MAX_STAMP_S (INT64_C(1) << 33) /* the year 2242 */

static void close_dir(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* read only */
}

/* "HASH"; the hash of an action cache entry is a SHA-256, whatever function made the action's digest. */
static bool parse_ac_name(struct bj_str name, struct bj_store_key *out_key)
{
	struct bj_digest digest;
	struct bj_err err = BJ_ERR_NULL;
	if (name.len != (size_t)2 * BJ_STORE_AC_HASH_BYTES)
		return false;
	if (bj_digest_parse(BJ_DIGEST_SHA256, name, 0, "name", &digest, &err) < 0)
		return false;
	*out_key = bj_store_key_blob(&digest);
	out_key->bytes[0] = BJ_STORE_KIND_AC;
	return true;
}

static bool parse_name(const char *name, bool is_ac, struct bj_store_key *out_key)
{
	struct bj_str s = bj_str_of(name);
	return is_ac ? parse_ac_name(s, out_key) : bj_store_key_parse(s, BJ_DIGEST_SHA256, out_key);
}

/* A time before 1970, or so far ahead that it leaves no room for later ones, is the oldest. */
static uint64_t stamp_of(const struct stat *st)
{
	time_t seconds = st->st_mtim.tv_sec;
	if (seconds < 0 || seconds > MAX_STAMP_S)
		return 0;
	return (uint64_t)seconds * BJ_NS_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

/* Nobody else knows the store yet; the lock is taken for the functions that want it held. */
static int add_file(struct bj_store *store, const struct bj_store_key *key, const struct stat *st,
		    const struct bj_store_marker *marker, struct bj_err *err)
{
	pthread_mutex_lock(&store->mu);
	struct bj_store_entry *entry = bj_store_add_locked(store, key);
	if (entry) {
		bool is_trusted =
			bj_store_entry_is_ac(entry) || bj_store_marker_trusts(marker, key);
		entry->size_bytes = (uint64_t)st->st_size;
		entry->stamp_ns = stamp_of(st);
		store->last_stamp_ns = BJ_MAX(store->last_stamp_ns, entry->stamp_ns);
		bj_store_move_locked(store, entry, BJ_ENTRY_PUBLISHING);
		bj_store_count_locked(store, entry);
		bj_store_move_locked(store, entry,
				     is_trusted ? BJ_ENTRY_PRESENT : BJ_ENTRY_SUSPECT);
	}
	pthread_mutex_unlock(&store->mu);
	return entry ? 0
		     : bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for the index of the store");
}

static bool is_intact(const struct bj_store_key *key, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return false;
	return key->bytes[0] == BJ_STORE_KIND_AC ||
	       (uint64_t)st->st_size == bj_store_key_digest(key).size_bytes;
}

static int scan_file(struct bj_store *store, int dir_fd, const char *dir_path, const char *name,
		     bool is_ac, const struct bj_store_marker *marker, struct bj_err *err)
{
	struct bj_store_key key;
	struct stat st;
	const char *fan = dir_path + strlen(dir_path) - 2;
	if (!parse_name(name, is_ac, &key) || memcmp(fan, name, 2) != 0)
		return 0;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return bj_err_errno(err, errno, "stat \"%s/%s\"", dir_path, name);
	if (!is_intact(&key, &st)) {
		store->stats.n_damaged++;
		bj_debug("cas: removed a damaged file=%s/%s", dir_path, name);
		int r = bj_remove_tree(dir_fd, name);
		return r < 0 ? bj_err_errno(err, -r, "remove \"%s/%s\"", dir_path, name) : 0;
	}
	if (!is_ac && st.st_size == 0) /* the empty blob is always there and is not counted */
		return 0;
	return add_file(store, &key, &st, marker, err);
}

static int scan_dir(struct bj_store *store, const char *path, bool is_ac,
		    const struct bj_store_marker *marker, struct bj_err *err)
{
	int fd = openat(store->root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) /* nothing was put there yet */
		return 0;
	if (fd < 0)
		return bj_err_errno(err, errno, "open \"%s\" of the store", path);
	bj_cleanup(close_dir) DIR *dir = fdopendir(fd);
	if (!dir) {
		int saved = errno;
		close(fd);
		return bj_err_errno(err, saved, "read \"%s\" of the store", path);
	}
	for (;;) {
		errno = 0;
		const struct dirent *d = readdir(dir);
		if (!d)
			return errno ? bj_err_errno(err, errno, "read \"%s\" of the store", path)
				     : 0;
		int r = scan_file(store, dirfd(dir), path, d->d_name, is_ac, marker, err);
		if (r < 0)
			return r;
	}
}

static int scan_fan(struct bj_store *store, const char *fan, bool is_ac,
		    const struct bj_store_marker *marker, struct bj_err *err)
{
	for (unsigned int i = 0; i < FAN_OUT; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "%s/%02x", fan, i);
		int r = scan_dir(store, path, is_ac, marker, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int bj_store_scan(struct bj_store *store, const struct bj_store_marker *marker, struct bj_err *err)
{
	int r = scan_fan(store, "blobs/sha256", false, marker, err);
	if (r == 0)
		r = scan_fan(store, "ac", true, marker, err);
	return r;
}
