// SPDX-License-Identifier: Apache-2.0
/**
 * action/hot.h - blobs as files in the work area, ready to be linked into input roots.
 * Owns: <work>/hot. Threads: thread-safe; blocks on disk while a blob is copied from the store.
 *
 * One file for each (digest, executable bit), mode 0444 or 0555, owned by the executor, mtime BJ_INPUT_MTIME. Its bytes are hashed when it is
 * made, so a store file that was damaged since is found here and not by a compiler. The work area dies with the process, so the index in
 * memory is the whole truth. Above the limit the least recently used ones are unlinked; trees that link to them keep them alive.
 */
#ifndef BJ_ACTION_HOT_H
#define BJ_ACTION_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "executor/base/err.h"
#include "executor/cas/store.h"

struct bj_hot;

enum { BJ_HOT_E_MISSING = 1, BJ_HOT_NAME_BYTES = 2 * BJ_HASH_MAX_BYTES + 24 };

/** @dir_fd: the directory, empty; taken over. */
BJ_MUST_USE int bj_hot_new(int dir_fd, uint64_t max_bytes, struct bj_store *store,
			   struct bj_hot **out_hot, struct bj_err *err);
void bj_hot_free(struct bj_hot *hot);

/**
 * bj_hot_link() - make @path below @dir_fd a hard link of the blob.
 * Return: 0; BJ_HOT_E_MISSING (not in the store any more, or damaged there); -RESOURCE_EXHAUSTED; -INTERNAL naming @path and errno.
 */
BJ_MUST_USE int bj_hot_link(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable,
			    int dir_fd, const char *path, struct bj_err *err);
/** The same as an own copy with an inode of its own and mtime @mtime_s. */
BJ_MUST_USE int bj_hot_copy(struct bj_hot *hot, const struct bj_digest *digest, bool is_executable,
			    int64_t mtime_s, int dir_fd, const char *path, struct bj_err *err);

#endif
