// SPDX-License-Identifier: Apache-2.0
/*
 * Writing to the store. Bytes are hashed as they come, go to tmp/, and get their name by rename(2) only when hash and
 * size are known to be right: a crash, a full disk or a lying client leaves at most a file in tmp/, which the next open
 * empties. Up to BUFFER_BYTES stay in memory until commit, so that a blob which is there already, and every small one
 * that fails, costs no disk at all.
 *
 * Two writers of one blob: the first claims the entry (PUBLISHING), the second waits for it in publish_begin() and
 * finds it PRESENT; if the first failed, the second publishes its own file. Both succeed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/log.h"
#include "executor/cas/store-internal.h"

#define BUFFER_BYTES ((size_t)64 * 1024)
#define COPY_CHUNK_BYTES ((size_t)128 * 1024)

struct bj_store_writer {
	struct bj_store *store;
	struct bj_hasher *hasher;
	uint64_t size_limit;		    /* more is refused */
	uint64_t n_bytes;		    /* appended so far */
	char *buffer;			    /* BUFFER_BYTES, or NULL while nothing came */
	size_t buffer_len;		    /* bytes not yet in the file */
	int tmp_fd;			    /* -EBADF until the first flush */
	char tmp_name[BJ_STORE_PATH_BYTES]; /* "" until the first flush */
	bool has_failed;		    /* an append failed: nothing of it is published */
};

/* ---- files in tmp/ ---- */

static int tmp_open(struct bj_store *store, int *out_fd, char *out_name, struct bj_err *err)
{
	char name[BJ_STORE_PATH_BYTES];
	(void)snprintf(name, sizeof(name), "tmp/%" PRIuFAST64,
		       atomic_fetch_add(&store->next_tmp, 1));
	int fd = store->io->openat(store->root_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0444);
	if (fd < 0)
		return bj_err_errno(err, errno, "create \"%s\" in the store", name);
	/* By hand, since the umask may have taken the bits away. */
	if (store->io->fchmod(fd, 0444) < 0) {
		int saved = errno;
		close(fd);
		(void)store->io->unlinkat(store->root_fd, name,
					  0); /* tmp/ is emptied at open anyway */
		return bj_err_errno(err, saved, "chmod \"%s\" in the store", name);
	}
	memcpy(out_name, name, sizeof(name));
	*out_fd = fd;
	return 0;
}

static void tmp_remove(struct bj_store *store, const char *name)
{
	if (store->io->unlinkat(store->root_fd, name, 0) < 0)
		bj_debug("cas: cannot remove file=%s errno=%d", name, errno);
}

int bj_store_write_all(struct bj_store *store, int fd, const char *data, size_t n_bytes,
		       struct bj_err *err)
{
	while (n_bytes > 0) {
		ssize_t n = store->io->write(fd, data, n_bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bj_err_errno(err, errno, "write to the store");
		data += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

int bj_store_write_tmp(struct bj_store *store, struct bj_str data, char *out_name,
		       struct bj_err *err)
{
	char name[BJ_STORE_PATH_BYTES];
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	int r = tmp_open(store, &fd, name, err);
	if (r < 0)
		return r;
	r = bj_store_write_all(store, fd, data.ptr, data.len, err);
	if (r < 0) {
		tmp_remove(store, name);
		return r;
	}
	memcpy(out_name, name, sizeof(name));
	return 0;
}

/* ---- publishing ---- */

int bj_store_make_fan(struct bj_store *store, const char *path)
{
	char fan[BJ_STORE_PATH_BYTES];
	const char *slash = strrchr(path, '/');
	bj_assert(slash && slash > path);
	memcpy(fan, path, (size_t)(slash - path));
	fan[slash - path] = '\0';
	return mkdirat(store->root_fd, fan, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

static int refuse_size(const struct bj_store *store, uint64_t size_bytes, struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
			  "a blob of %" PRIu64 " bytes does not fit into a store of %" PRIu64,
			  size_bytes, store->max_bytes);
}

/* Return: 0 and an entry that nobody works on, BJ_STORE_E_PRESENT, or -RESOURCE_EXHAUSTED. */
static int claim_locked(struct bj_store *store, const struct bj_store_key *key, bool is_replacing,
			struct bj_store_entry **out_entry, struct bj_err *err)
{
	struct bj_store_entry *entry = bj_store_settle_locked(store, key);
	if (entry && entry->state == BJ_ENTRY_PRESENT && !is_replacing) {
		bj_store_touch_locked(store, entry);
		return BJ_STORE_E_PRESENT;
	}
	if (!entry)
		entry = bj_store_add_locked(store, key);
	if (!entry)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for an entry of the store");
	*out_entry = entry;
	return 0;
}

int bj_store_publish_begin(struct bj_store *store, const struct bj_store_key *key,
			   uint64_t size_bytes, bool is_replacing,
			   struct bj_store_entry **out_entry, struct bj_err *err)
{
	if (size_bytes > store->max_bytes)
		return refuse_size(store, size_bytes, err);
	struct bj_store_entry *entry = NULL;
	pthread_mutex_lock(&store->mu);
	int r = claim_locked(store, key, is_replacing, &entry, err);
	if (r == 0) {
		bj_assert(entry);
		entry->prior = entry->state;
		bj_store_move_locked(store, entry, BJ_ENTRY_PUBLISHING);
		bj_store_evict_locked(store, size_bytes);
		store->reserved_bytes += size_bytes;
		*out_entry = entry;
	}
	pthread_mutex_unlock(&store->mu);
	return r;
}

static int rename_in(struct bj_store *store, const char *tmp_name, const char *path)
{
	int r = store->io->renameat(store->root_fd, tmp_name, store->root_fd, path);
	if (r < 0 && errno == ENOENT && bj_store_make_fan(store, path) == 0)
		r = store->io->renameat(store->root_fd, tmp_name, store->root_fd, path);
	return r;
}

static int move_in(struct bj_store *store, const struct bj_store_entry *entry, const char *tmp_name,
		   struct bj_err *err)
{
	char path[BJ_STORE_PATH_BYTES];
	struct bj_store_key key = bj_store_entry_key(entry);
	bj_store_key_path(&key, path);
	if (rename_in(store, tmp_name, path) == 0)
		return 0;
	int saved = errno;
	tmp_remove(store, tmp_name);
	return bj_err_errno(err, saved, "move a blob to \"%s\"", path);
}

static void settle_published_locked(struct bj_store *store, struct bj_store_entry *entry,
				    uint64_t size_bytes)
{
	if (entry->prior != BJ_ENTRY_ABSENT)
		bj_store_uncount_locked(store, entry);
	entry->size_bytes = size_bytes;
	bj_store_count_locked(store, entry);
	bj_store_move_locked(store, entry, BJ_ENTRY_PRESENT);
	bj_store_touch_locked(store, entry);
	entry->is_touch_dirty = false; /* the file was written just now */
	if (!store->is_dirty) {
		store->is_dirty = true;
		(void)pthread_cond_signal(&store->syncer_wake); /* cannot fail */
	}
}

void bj_store_publish_cancel(struct bj_store *store, struct bj_store_entry *entry,
			     uint64_t size_bytes)
{
	pthread_mutex_lock(&store->mu);
	store->reserved_bytes -= size_bytes;
	bj_store_move_locked(store, entry, (enum bj_entry_state)entry->prior);
	bj_store_drop_if_unused_locked(store, entry);
	pthread_mutex_unlock(&store->mu);
}

int bj_store_publish_end(struct bj_store *store, struct bj_store_entry *entry, uint64_t size_bytes,
			 const char *tmp_name, struct bj_err *err)
{
	int r = move_in(store, entry, tmp_name, err);
	if (r < 0) {
		bj_store_publish_cancel(store, entry, size_bytes);
		return r;
	}
	pthread_mutex_lock(&store->mu);
	store->reserved_bytes -= size_bytes;
	settle_published_locked(store, entry, size_bytes);
	pthread_mutex_unlock(&store->mu);
	return 0;
}

/* Publishes bytes in memory under a name that they are known to have. */
static int publish_memory(struct bj_store *store, const struct bj_digest *digest,
			  struct bj_str data, struct bj_err *err)
{
	if (bj_digest_is_empty(digest))
		return 0;
	struct bj_store_key key = bj_store_key_blob(digest);
	struct bj_store_entry *entry = NULL;
	int r = bj_store_publish_begin(store, &key, data.len, false, &entry, err);
	if (r != 0)
		return r == BJ_STORE_E_PRESENT ? 0 : r;
	bj_assert(entry);
	char name[BJ_STORE_PATH_BYTES];
	r = bj_store_write_tmp(store, data, name, err);
	if (r < 0) {
		bj_store_publish_cancel(store, entry, data.len);
		return r;
	}
	return bj_store_publish_end(store, entry, data.len, name, err);
}

static int check_digest(const struct bj_digest *want, const struct bj_digest *got,
			struct bj_err *err)
{
	if (!want || bj_digest_eq(want, got))
		return 0;
	char want_name[BJ_DIGEST_STR_BYTES], got_name[BJ_DIGEST_STR_BYTES];
	bj_digest_str(want, want_name);
	bj_digest_str(got, got_name);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "expected blob %s, got the bytes of %s",
			  want_name, got_name);
}

static int check_fn(enum bj_digest_fn fn, struct bj_err *err)
{
	if (bj_digest_fn_len(fn) > 0)
		return 0;
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "digest function %d is not supported", (int)fn);
}

int bj_store_put(struct bj_store *store, enum bj_digest_fn fn, struct bj_str data,
		 const struct bj_digest *want, struct bj_digest *out_digest, struct bj_err *err)
{
	int r = check_fn(fn, err);
	if (r < 0)
		return r;
	struct bj_digest got = bj_digest_of(fn, data);
	r = check_digest(want, &got, err);
	if (r < 0)
		return r;
	r = publish_memory(store, &got, data, err);
	if (r == 0 && out_digest)
		*out_digest = got;
	return r;
}

/* ---- the writer ---- */

int bj_store_writer_new(struct bj_store *store, enum bj_digest_fn fn, uint64_t size_limit,
			struct bj_store_writer **out_writer, struct bj_err *err)
{
	struct bj_store_writer *writer = BJ_NEW(struct bj_store_writer);
	if (!writer)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to write a blob");
	writer->store = store;
	writer->size_limit = size_limit;
	writer->tmp_fd = -EBADF;
	int r = bj_hasher_new(fn, &writer->hasher, err);
	if (r < 0) {
		bj_free(writer);
		return r;
	}
	atomic_fetch_add(&store->n_writers, 1);
	*out_writer = writer;
	return 0;
}

static int flush(struct bj_store_writer *writer, const char *data, size_t n_bytes,
		 struct bj_err *err)
{
	if (writer->tmp_fd < 0) {
		int r = tmp_open(writer->store, &writer->tmp_fd, writer->tmp_name, err);
		if (r < 0)
			return r;
	}
	return bj_store_write_all(writer->store, writer->tmp_fd, data, n_bytes, err);
}

/* Fills the buffer; what does not fit goes to the file, large pieces without a copy. */
static int buffer_or_write(struct bj_store_writer *writer, const char *data, size_t n_bytes,
			   struct bj_err *err)
{
	if (writer->buffer_len + n_bytes > BUFFER_BYTES) {
		int r = flush(writer, writer->buffer, writer->buffer_len, err);
		if (r < 0)
			return r;
		writer->buffer_len = 0;
		if (n_bytes >= BUFFER_BYTES)
			return flush(writer, data, n_bytes, err);
	}
	if (!writer->buffer)
		writer->buffer = bj_malloc(BUFFER_BYTES);
	if (!writer->buffer)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to write a blob");
	memcpy(writer->buffer + writer->buffer_len, data, n_bytes);
	writer->buffer_len += n_bytes;
	return 0;
}

static int check_size(const struct bj_store_writer *writer, size_t n_bytes, struct bj_err *err)
{
	uint64_t size_bytes = 0;
	if (__builtin_add_overflow(writer->n_bytes, n_bytes, &size_bytes) ||
	    size_bytes > writer->size_limit)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "more than the %" PRIu64 " bytes that were announced",
				  writer->size_limit);
	if (size_bytes > writer->store->max_bytes)
		return refuse_size(writer->store, size_bytes, err);
	return 0;
}

int bj_store_writer_append(struct bj_store_writer *writer, const void *data, size_t n_bytes,
			   struct bj_err *err)
{
	if (n_bytes == 0)
		return 0;
	int r = check_size(writer, n_bytes, err);
	if (r == 0)
		r = buffer_or_write(writer, data, n_bytes, err);
	if (r < 0) {
		writer->has_failed = true;
		return r;
	}
	bj_hasher_update(writer->hasher, data, n_bytes);
	writer->n_bytes += n_bytes;
	return 0;
}

uint64_t bj_store_writer_size(const struct bj_store_writer *writer)
{
	return writer->n_bytes;
}

/* Publishes the file in tmp/, after the rest of the buffer went there. */
static int publish_file(struct bj_store_writer *writer, const struct bj_digest *digest,
			struct bj_err *err)
{
	struct bj_store *store = writer->store;
	int r = flush(writer, writer->buffer, writer->buffer_len, err);
	if (r < 0)
		return r;
	struct bj_store_key key = bj_store_key_blob(digest);
	struct bj_store_entry *entry = NULL;
	r = bj_store_publish_begin(store, &key, digest->size_bytes, false, &entry, err);
	if (r != 0)
		return r == BJ_STORE_E_PRESENT ? 0 : r;
	bj_assert(entry);
	r = bj_store_publish_end(store, entry, digest->size_bytes, writer->tmp_name, err);
	writer->tmp_name[0] = '\0'; /* moved in, or removed */
	return r;
}

static int writer_publish(struct bj_store_writer *writer, const struct bj_digest *want,
			  struct bj_digest *out_digest, struct bj_err *err)
{
	if (writer->has_failed)
		return bj_err_set(err, BJ_FAILED_PRECONDITION, "commit after a write that failed");
	struct bj_digest got = bj_hasher_finish(writer->hasher);
	int r = check_digest(want, &got, err);
	if (r < 0)
		return r;
	if (writer->tmp_fd >= 0)
		r = publish_file(writer, &got, err);
	else
		r = publish_memory(writer->store, &got,
				   bj_str_n(writer->buffer, writer->buffer_len), err);
	if (r == 0 && out_digest)
		*out_digest = got;
	return r;
}

int bj_store_writer_commit(struct bj_store_writer *writer, const struct bj_digest *want,
			   struct bj_digest *out_digest, struct bj_err *err)
{
	int r = writer_publish(writer, want, out_digest, err);
	bj_store_writer_abort(writer);
	return r;
}

void bj_store_writer_abort(struct bj_store_writer *writer)
{
	if (!writer)
		return;
	bj_close_fdp(&writer->tmp_fd);
	if (writer->tmp_name[0] != '\0')
		tmp_remove(writer->store, writer->tmp_name);
	atomic_fetch_sub(&writer->store->n_writers, 1);
	bj_hasher_free(writer->hasher);
	bj_free(writer->buffer);
	bj_free(writer);
}

/* ---- from a descriptor ---- */

static int copy_fd(struct bj_store_writer *writer, int fd, char *chunk, struct bj_err *err)
{
	for (;;) {
		ssize_t n = writer->store->io->pread(fd, chunk, COPY_CHUNK_BYTES,
						     (off_t)bj_store_writer_size(writer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bj_err_errno(err, errno, "read a file to store");
		if (n == 0)
			return 0;
		int r = bj_store_writer_append(writer, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
}

int bj_store_put_fd(struct bj_store *store, enum bj_digest_fn fn, int fd,
		    struct bj_digest *out_digest, struct bj_err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return bj_err_errno(err, errno, "stat a file to store");
	if (!S_ISREG(st.st_mode))
		return bj_err_set(err, BJ_FAILED_PRECONDITION, "not a regular file (mode %o)",
				  (unsigned int)st.st_mode);
	bj_cleanup(bj_freep) char *chunk = bj_malloc(COPY_CHUNK_BYTES);
	if (!chunk)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to store a file");
	struct bj_store_writer *writer = NULL;
	int r = bj_store_writer_new(store, fn, UINT64_MAX, &writer, err);
	if (r < 0)
		return r;
	bj_assert(writer);
	r = copy_fd(writer, fd, chunk, err);
	if (r < 0) {
		bj_store_writer_abort(writer);
		return r;
	}
	return bj_store_writer_commit(writer, NULL, out_digest, err);
}
