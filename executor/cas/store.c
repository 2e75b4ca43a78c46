// SPDX-License-Identifier: Apache-2.0
/*
 * Reading from the store. Asking is a look into the index; opening is one openat(2) outside the lock. Between the two
 * the blob may be evicted, so a file that is not there any more is simply missing. A file whose size or hash is wrong
 * is dropped at once: the client uploads it again, and nobody ever sees wrong bytes with OK.
 */
#include "executor/cas/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/log.h"
#include "executor/cas/store-internal.h"

/** The index has it, the directory has not; see acquire_and_open(). */
enum { OPEN_E_VANISHED = 2 };

#define HASH_CHUNK_BYTES ((size_t)128 * 1024)

static int sys_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	return openat(dirfd, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}

const struct bj_store_io bj_store_io_sys = {
	.openat = sys_openat,
	.write = write,
	.pread = pread,
	.fchmod = fchmod,
	.renameat = renameat,
	.unlinkat = unlinkat,
	.utimensat = utimensat,
	.syncfs = syncfs,
	.fsync = fsync,
};

/* ---- verification ---- */

/* Feeds the file to @hasher. More bytes than @size_bytes are not read: the size says already that it is wrong. */
static int hash_file(struct bj_store *store, int fd, uint64_t size_bytes, struct bj_hasher *hasher,
		     char *chunk, struct bj_err *err)
{
	for (uint64_t done = 0; done < size_bytes;) {
		ssize_t n = store->io->pread(fd, chunk, HASH_CHUNK_BYTES, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bj_err_errno(err, errno, "read a blob");
		if (n == 0)
			break;
		bj_hasher_update(hasher, chunk, (size_t)n);
		done += (uint64_t)n;
	}
	return 0;
}

static void free_hasher(struct bj_hasher **hasher)
{
	bj_hasher_free(*hasher);
}

static int damaged(const struct bj_digest *digest, struct bj_err *err)
{
	char name[BJ_DIGEST_STR_BYTES];
	bj_digest_str(digest, name);
	return bj_err_set(err, BJ_DATA_LOSS, "blob %s is damaged on disk, and was dropped", name);
}

/* Return: 0 when the file has the digest that its name claims, -DATA_LOSS when not, or what stopped us from looking. */
static int verify_file(struct bj_store *store, const struct bj_store_key *key, struct bj_err *err)
{
	struct bj_digest want = bj_store_key_digest(key);
	char path[BJ_STORE_PATH_BYTES];
	bj_store_key_path(key, path);
	bj_cleanup(bj_close_fdp) int fd = store->io->openat(store->root_fd, path, O_RDONLY, 0);
	struct stat st;
	if (fd < 0 && errno == ENOENT)
		return damaged(&want, err);
	if (fd < 0)
		return bj_err_errno(err, errno, "open \"%s\"", path);
	if (fstat(fd, &st) < 0)
		return bj_err_errno(err, errno, "stat \"%s\"", path);
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != want.size_bytes)
		return damaged(&want, err);

	bj_cleanup(free_hasher) struct bj_hasher *hasher = NULL;
	int r = bj_hasher_new(want.fn, &hasher, err);
	if (r < 0)
		return r;
	bj_cleanup(bj_freep) char *chunk = bj_malloc(HASH_CHUNK_BYTES);
	if (!chunk)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to verify a blob");
	r = hash_file(store, fd, want.size_bytes, hasher, chunk, err);
	if (r < 0)
		return r;
	struct bj_digest got = bj_hasher_finish(hasher);
	return bj_digest_eq(&got, &want) ? 0 : damaged(&want, err);
}

static void drop_damaged_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	store->stats.n_damaged++;
	bj_store_move_locked(store, entry, BJ_ENTRY_REMOVING);
	(void)bj_store_remove_locked(store,
				     entry); /* what stays is suspect, and found damaged again */
}

/* Makes a SUSPECT entry PRESENT, or drops it. The lock is released meanwhile. */
static int verify_locked(struct bj_store *store, struct bj_store_entry *entry, struct bj_err *err)
{
	bj_store_move_locked(store, entry, BJ_ENTRY_VERIFYING);
	int r = 0;
	if (!bj_store_entry_is_ac(entry)) { /* those carry their own checksum */
		struct bj_store_key key = bj_store_entry_key(entry);
		pthread_mutex_unlock(&store->mu);
		r = verify_file(store, &key, err);
		pthread_mutex_lock(&store->mu);
	}
	if (r == -BJ_DATA_LOSS)
		drop_damaged_locked(store, entry);
	else
		bj_store_move_locked(store, entry, r < 0 ? BJ_ENTRY_SUSPECT : BJ_ENTRY_PRESENT);
	return r;
}

int bj_store_acquire_locked(struct bj_store *store, const struct bj_store_key *key,
			    struct bj_store_entry **out_entry, struct bj_err *err)
{
	struct bj_store_entry *entry = bj_store_settle_locked(store, key);
	if (entry && entry->state == BJ_ENTRY_SUSPECT) {
		int r = verify_locked(store, entry, err);
		if (r < 0)
			return r;
	}
	if (!entry || entry->state == BJ_ENTRY_ABSENT)
		return BJ_STORE_E_MISSING;
	bj_store_touch_locked(store, entry);
	*out_entry = entry;
	return 0;
}

void bj_store_discard_key(struct bj_store *store, const struct bj_store_key *key)
{
	pthread_mutex_lock(&store->mu);
	struct bj_store_entry *entry = bj_store_settle_locked(store, key);
	if (entry && entry->state != BJ_ENTRY_ABSENT)
		drop_damaged_locked(store, entry);
	pthread_mutex_unlock(&store->mu);
}

/* ---- presence and pins ---- */

static bool can_be_here(const struct bj_digest *digest)
{
	return digest->hash_len > 0 && digest->hash_len == bj_digest_fn_len(digest->fn);
}

static bool has(struct bj_store *store, const struct bj_digest *digest, uint32_t n_pins)
{
	if (bj_digest_is_empty(digest))
		return true;
	if (!can_be_here(digest))
		return false;
	struct bj_store_key key = bj_store_key_blob(digest);
	struct bj_store_entry *entry = NULL;
	struct bj_err err = BJ_ERR_NULL;
	pthread_mutex_lock(&store->mu);
	int r = bj_store_acquire_locked(store, &key, &entry, &err);
	if (r == 0 && n_pins > 0)
		bj_store_pin_locked(store, entry);
	pthread_mutex_unlock(&store->mu);
	if (r <
	    0) /* whoever opens it gets the error; for a question the answer is "upload it again" */
		bj_debug("cas: blob unusable: %s", err.msg);
	return r == 0;
}

bool bj_store_has(struct bj_store *store, const struct bj_digest *digest)
{
	return has(store, digest, 0);
}

bool bj_store_pin(struct bj_store *store, const struct bj_digest *digest)
{
	return has(store, digest, 1);
}

void bj_store_unpin(struct bj_store *store, const struct bj_digest *digest)
{
	if (bj_digest_is_empty(digest))
		return;
	struct bj_store_key key = bj_store_key_blob(digest);
	pthread_mutex_lock(&store->mu);
	struct bj_store_entry *entry = bj_store_find_locked(store, &key);
	bj_assert(entry && entry->n_pins > 0);
	bj_store_unpin_locked(store, entry);
	pthread_mutex_unlock(&store->mu);
}

void bj_store_discard(struct bj_store *store, const struct bj_digest *digest)
{
	if (bj_digest_is_empty(digest) || !can_be_here(digest))
		return;
	struct bj_store_key key = bj_store_key_blob(digest);
	bj_store_discard_key(store, &key);
}

void bj_store_stats(struct bj_store *store, struct bj_store_stats *out_stats)
{
	pthread_mutex_lock(&store->mu);
	*out_stats = store->stats;
	pthread_mutex_unlock(&store->mu);
}

/* ---- opening ---- */

static int open_path(struct bj_store *store, const char *path, int flags, int *out_fd,
		     uint64_t *out_size_bytes, struct bj_err *err)
{
	bj_cleanup(bj_close_fdp) int fd = store->io->openat(store->root_fd, path, flags, 0444);
	struct stat st;
	if (fd < 0 && errno == ENOENT)
		return BJ_STORE_E_MISSING;
	if (fd < 0)
		return bj_err_errno(err, errno, "open \"%s\"", path);
	if (fstat(fd, &st) < 0)
		return bj_err_errno(err, errno, "stat \"%s\"", path);
	if (!S_ISREG(st.st_mode))
		return bj_err_set(err, BJ_INTERNAL, "\"%s\" is not a regular file", path);
	*out_size_bytes = (uint64_t)st.st_size;
	*out_fd = BJ_STEAL_FD(fd);
	return 0;
}

static int acquire_and_open(struct bj_store *store, const struct bj_store_key *key, int *out_fd,
			    uint64_t *out_size_bytes, struct bj_err *err)
{
	struct bj_store_entry *entry = NULL;
	pthread_mutex_lock(&store->mu);
	int r = bj_store_acquire_locked(store, key, &entry, err);
	pthread_mutex_unlock(&store->mu);
	if (r != 0)
		return r;
	char path[BJ_STORE_PATH_BYTES];
	bj_store_key_path(key, path);
	r = open_path(store, path, O_RDONLY, out_fd, out_size_bytes, err);
	return r == BJ_STORE_E_MISSING ? OPEN_E_VANISHED : r;
}

int bj_store_open_key(struct bj_store *store, const struct bj_store_key *key, int *out_fd,
		      uint64_t *out_size_bytes, struct bj_err *err)
{
	int r = acquire_and_open(store, key, out_fd, out_size_bytes, err);
	if (r == OPEN_E_VANISHED) /* evicted in between, and perhaps there again: the index knows */
		r = acquire_and_open(store, key, out_fd, out_size_bytes, err);
	if (r != OPEN_E_VANISHED)
		return r;
	bj_store_discard_key(store, key); /* somebody removed the file behind our back */
	return BJ_STORE_E_MISSING;
}

/* Nobody uploads the empty blob, so its file is made when it is first wanted. */
static int open_empty(struct bj_store *store, const struct bj_digest *digest, int *out_fd,
		      struct bj_err *err)
{
	struct bj_store_key key = bj_store_key_blob(digest);
	char path[BJ_STORE_PATH_BYTES];
	uint64_t size_bytes = 0;
	bj_store_key_path(&key, path);
	int r = open_path(store, path, O_RDONLY | O_CREAT, out_fd, &size_bytes, err);
	if (r == BJ_STORE_E_MISSING && bj_store_make_fan(store, path) == 0)
		r = open_path(store, path, O_RDONLY | O_CREAT, out_fd, &size_bytes, err);
	return r == BJ_STORE_E_MISSING ? bj_err_set(err, BJ_INTERNAL, "\"%s\" cannot be made", path)
				       : r;
}

int bj_store_open_blob(struct bj_store *store, const struct bj_digest *digest, int *out_fd,
		       struct bj_err *err)
{
	if (bj_digest_is_empty(digest))
		return open_empty(store, digest, out_fd, err);
	if (!can_be_here(digest))
		return BJ_STORE_E_MISSING;
	struct bj_store_key key = bj_store_key_blob(digest);
	uint64_t size_bytes = 0;
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	int r = bj_store_open_key(store, &key, &fd, &size_bytes, err);
	if (r != 0)
		return r;
	if (size_bytes != digest->size_bytes) {
		bj_store_discard_key(store, &key);
		return damaged(digest, err);
	}
	*out_fd = BJ_STEAL_FD(fd);
	return 0;
}

/* Reads exactly @n_bytes, or fewer at the end of the file. Return: bytes read, or -1 with errno. */
static ssize_t read_whole(struct bj_store *store, int fd, char *data, size_t n_bytes)
{
	size_t done = 0;
	while (done < n_bytes) {
		ssize_t n = store->io->pread(fd, data + done, n_bytes - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int bj_store_read_fd(struct bj_store *store, int fd, size_t n_bytes, struct bj_str *out_data,
		     struct bj_arena *arena, struct bj_err *err)
{
	char *data = bj_arena_alloc(arena, bj_size_add(n_bytes, 1));
	if (!data)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for %zu bytes of a blob",
				  n_bytes);
	ssize_t n = read_whole(store, fd, data, n_bytes);
	if (n < 0)
		return bj_err_errno(err, errno, "read a blob");
	data[n] = '\0';
	*out_data = bj_str_n(data, (size_t)n);
	return 0;
}

static int refuse_large(const struct bj_digest *digest, size_t max_bytes, struct bj_err *err)
{
	char name[BJ_DIGEST_STR_BYTES];
	bj_digest_str(digest, name);
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "blob %s is larger than %zu bytes", name,
			  max_bytes);
}

int bj_store_read(struct bj_store *store, const struct bj_digest *digest, size_t max_bytes,
		  struct bj_str *out_data, struct bj_arena *arena, struct bj_err *err)
{
	if (bj_digest_is_empty(digest)) {
		*out_data = BJ_STR_LIT("");
		return 0;
	}
	if (digest->size_bytes > max_bytes)
		return bj_store_has(store, digest) ? refuse_large(digest, max_bytes, err)
						   : BJ_STORE_E_MISSING;
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	int r = bj_store_open_blob(store, digest, &fd, err);
	if (r != 0)
		return r;
	struct bj_str data = BJ_STR_NULL;
	r = bj_store_read_fd(store, fd, (size_t)digest->size_bytes, &data, arena, err);
	if (r < 0)
		return r;
	struct bj_digest got = bj_digest_of(digest->fn, data);
	if (!bj_digest_eq(&got, digest)) {
		bj_store_discard(store, digest);
		return damaged(digest, err);
	}
	*out_data = data;
	return 0;
}
