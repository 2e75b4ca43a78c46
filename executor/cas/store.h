// SPDX-License-Identifier: Apache-2.0
/**
 * cas/store.h - blobs by digest in one local directory; never a half blob visible; the empty blob is always there.
 * Owns: <root>/{blobs,tmp,ac,lock,clean} below the directory given to bj_store_open(). One process at a time (flock on lock).
 * Threads: shareable; every call is thread-safe unless it says otherwise. All of them may block on disk: pool threads only.
 * Spec: REAPI v2, services ContentAddressableStorage and ByteStream.
 *
 * Layout: blobs/<fn>/<first two hex>/<hash>-<size>, mode 0444 (0555 never: the executable bit belongs to a tree, not to a blob).
 * A blob is written to tmp/, hashed on the way, and renamed in only when hash and size are right. An unclean stop
 * (`clean` marker absent at open) makes every older blob suspect: it is hashed again on first use, and dropped if wrong.
 * Action results: ac/<first two hex>/<SHA-256 of instance and action digest>. A file's mtime is the time of its last use.
 */
#ifndef BJ_CAS_STORE_H
#define BJ_CAS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/cas/digest.h"

struct bj_store;
struct bj_store_writer;

enum { BJ_STORE_E_MISSING = 1 };

struct bj_store_opts {
	/* Of blobs and action cache together: the least recently used go above it. 0: no limit. */
	uint64_t max_bytes;
	uint64_t sync_interval_ns; /* new data reaches the disk about this late; 0: 5 s */
};

/**
 * Creates the directory (0700) if needed, locks it, removes leftovers of tmp/.
 * Return: 0, -FAILED_PRECONDITION (locked by another process: its pid is in the text), -INTERNAL ….
 */
BJ_MUST_USE int bj_store_open(const char *root, const struct bj_store_opts *opts,
			      struct bj_store **out_store, struct bj_err *err);
/** Marks the stop as clean. Accepts NULL. No writer may be open. */
void bj_store_close(struct bj_store *store);

/**
 * True if present; counts as a use for eviction ("servers must touch blobs on FindMissing"). A look into memory, no
 * system call, but after an unclean stop the first use of an older blob hashes it.
 */
bool bj_store_has(struct bj_store *store, const struct bj_digest *digest);

/**
 * bj_store_pin() - present, and not to be evicted until as many bj_store_unpin() came. For inputs of running actions.
 * Pinned bytes count but may exceed max_bytes.
 * Return: false when missing (nothing is pinned then). The empty blob is always there.
 */
BJ_MUST_USE bool bj_store_pin(struct bj_store *store, const struct bj_digest *digest);
void bj_store_unpin(struct bj_store *store, const struct bj_digest *digest);

/** Drops a blob that a reader found damaged: from now on it is missing. No effect when it is not there. */
void bj_store_discard(struct bj_store *store, const struct bj_digest *digest);

/**
 * bj_store_open_blob() - a read-only descriptor on a blob, positioned at 0.
 * The blob stays readable through it even if it is evicted meanwhile.
 * @out_fd: the caller closes it. For the empty blob a descriptor that reads as empty.
 * Return: 0, BJ_STORE_E_MISSING, -DATA_LOSS (found damaged now: dropped), -INTERNAL.
 */
BJ_MUST_USE int bj_store_open_blob(struct bj_store *store, const struct bj_digest *digest,
				   int *out_fd, struct bj_err *err);
/**
 * Whole small blob into @arena, hashed again on the way: never wrong bytes. @max_bytes: refuse larger ones
 * (-RESOURCE_EXHAUSTED naming the digest). *out_data is NUL-terminated behind its end.
 * Return: 0, BJ_STORE_E_MISSING, -DATA_LOSS (found damaged now: dropped), negative.
 */
BJ_MUST_USE int bj_store_read(struct bj_store *store, const struct bj_digest *digest,
			      size_t max_bytes, struct bj_str *out_data, struct bj_arena *arena,
			      struct bj_err *err);
/** Stores bytes whose digest is known or not. @want: NULL to compute; mismatch is -INVALID_ARGUMENT with both digests. */
BJ_MUST_USE int bj_store_put(struct bj_store *store, enum bj_digest_fn fn, struct bj_str data,
			     const struct bj_digest *want, struct bj_digest *out_digest,
			     struct bj_err *err);

/* ---- streaming writes (ByteStream, stdout, outputs); a writer belongs to one thread at a time ---- */
/** @size_limit: more bytes than this are refused with -INVALID_ARGUMENT (use UINT64_MAX when unknown). */
BJ_MUST_USE int bj_store_writer_new(struct bj_store *store, enum bj_digest_fn fn,
				    uint64_t size_limit, struct bj_store_writer **out_writer,
				    struct bj_err *err);
BJ_MUST_USE int bj_store_writer_append(struct bj_store_writer *writer, const void *data,
				       size_t n_bytes, struct bj_err *err);
uint64_t bj_store_writer_size(const struct bj_store_writer *writer);
/**
 * Verifies and publishes. @want: NULL to accept what came. The writer is freed in any case.
 * Return: 0 and *out_digest (may be NULL), -INVALID_ARGUMENT on mismatch (text: expected and got).
 */
BJ_MUST_USE int bj_store_writer_commit(struct bj_store_writer *writer, const struct bj_digest *want,
				       struct bj_digest *out_digest, struct bj_err *err);
/** Throws away. Accepts NULL. */
void bj_store_writer_abort(struct bj_store_writer *writer);

/** Hashes a regular file from @fd (offset 0 to end) and stores a copy. @fd stays the caller's. */
BJ_MUST_USE int bj_store_put_fd(struct bj_store *store, enum bj_digest_fn fn, int fd,
				struct bj_digest *out_digest, struct bj_err *err);

/* ---- action cache: values by action digest, same durability rules ---- */
/** @value: opaque bytes (a packed message). Replaces atomically. */
BJ_MUST_USE int bj_store_ac_put(struct bj_store *store, struct bj_str instance,
				const struct bj_digest *action, struct bj_str value,
				struct bj_err *err);
/** Return: 0, BJ_STORE_E_MISSING (also for an entry of zero bytes or damaged), negative. Entries carry their own checksum. */
BJ_MUST_USE int bj_store_ac_get(struct bj_store *store, struct bj_str instance,
				const struct bj_digest *action, struct bj_str *out_value,
				struct bj_arena *arena, struct bj_err *err);

struct bj_store_stats {
	uint64_t n_blobs;      /* the empty blob is not counted */
	uint64_t n_bytes;      /* of the blobs */
	uint64_t n_ac_entries; /* action cache */
	uint64_t n_ac_bytes;   /* their files */
	uint64_t n_evicted;    /* blobs and entries since open */
	uint64_t n_damaged;    /* found damaged and dropped since open */
	uint64_t n_suspects; /* blobs from before an unclean stop that were not hashed again yet */
};
void bj_store_stats(struct bj_store *store, struct bj_store_stats *out_stats);

/** Waits until all that was published before the call is on the disk. A background thread does this by itself. */
BJ_MUST_USE int bj_store_sync(struct bj_store *store, struct bj_err *err);

#endif
