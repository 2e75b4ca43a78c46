// SPDX-License-Identifier: Apache-2.0
/**
 * action/layout.h - the input root on disk: the work area's hot blobs, and one private tree per action.
 * Owns: <work>/hot (blobs as files, mode 0444 and 0555, root-owned), <work>/actions/<id>/{lower,upper,ovl,tmp,shm}, <work>/trash.
 * Threads: shareable; hot blobs are guarded inside. Blocks on disk: runner threads only.
 *
 * Within one input root no two paths share an inode: a digest that occurs again in a tree is copied, with an mtime of its own, a second
 * after that of the copy before (gcc takes equal content and time for the same file, whatever the inode); everything else is a hard link
 * to a hot blob. All other inputs have mtime BJ_INPUT_MTIME, directories too, and those that are made for outputs. Modes do not depend
 * on the umask. Directories belong to the slot's uid so that the action may create there.
 */
#ifndef BJ_ACTION_LAYOUT_H
#define BJ_ACTION_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/cas/store.h"
#include "executor/cas/tree.h"

/** 2001-01-01T00:00:00Z: after 1980 (zip), before every output. Seconds since the epoch. */
#define BJ_INPUT_MTIME INT64_C(978307200)

struct bj_work;

/** @work_dir: the tmpfs of bj_jail_enter_host(); @hot_bytes: hot blobs are dropped, least recently used first, above it. */
BJ_MUST_USE int bj_work_open(const char *work_dir, uint64_t hot_bytes, struct bj_store *store,
			     struct bj_work **out_work, struct bj_err *err);
void bj_work_close(struct bj_work *work);

/** Where one action lives; names are relative to the work area as bj_jail_spec wants them. Embedded by value. */
struct bj_layout {
	char lower[48], upper[48], ovl[48], tmp[48], shm[48]; /* "actions/17/lower" … */
	char dir[32];					      /* "actions/17" */
	int upper_fd; /* O_DIRECTORY on upper, for the collection; -EBADF before */
	int lower_fd;
	uint64_t n_linked, n_copied, n_copied_bytes;
	uint64_t n_others; /* directories and symlinks made */
	uint64_t
		n_left; /* entries of the upper layer after a run, as bj_collect_left() counts them; UINT64_MAX: unknown */
};
#define BJ_LAYOUT_NULL ((struct bj_layout){ .upper_fd = -9, .lower_fd = -9 })

enum { BJ_LAYOUT_E_MISSING = 1 };

/** @path: relative to the input root */
typedef bool (*bj_private_fn)(void *ctx, struct bj_str path);

/**
 * bj_layout_make() - lay out one input root.
 * @output_parents: directories (relative to the root) to make in the upper layer where the tree has none; symlinks of the tree are
 *   followed as the command would, and what would lie outside of the root is not made
 * @uid, @gid: the slot's, owner of every directory
 * @is_private: says of an input file whether the action may write it, since it is an output too: such a file is a copy of
 *   its own, which belongs to the slot; may be NULL
 * @out_missing: with BJ_LAYOUT_E_MISSING: blobs evicted since they were checked (all found; in @arena)
 * A blob found damaged is dropped from the store and reported as missing.
 * Return: 0; BJ_LAYOUT_E_MISSING; -INVALID_ARGUMENT (a path or name that is too long for the kernel, an output below an input file);
 * -RESOURCE_EXHAUSTED (no space; EMLINK is handled by copying); -INTERNAL naming path and errno.
 * On failure nothing is left behind.
 */
BJ_MUST_USE int bj_layout_make(struct bj_work *work, const struct bj_tree *tree,
			       const struct bj_str *output_parents, size_t n_output_parents,
			       uid_t uid, gid_t gid, bj_private_fn is_private, void *ctx,
			       struct bj_arena *arena, struct bj_layout *out_layout,
			       struct bj_missing *out_missing, struct bj_err *err);
/**
 * bj_work_is_short() - is the work area, which all slots share, as good as full? What an action does then depends on its neighbours:
 * its result says so and is not cached.
 */
bool bj_work_is_short(const struct bj_work *work);
/** Closes the descriptors; a small tree is removed at once, another renamed to trash for the janitor thread. Accepts BJ_LAYOUT_NULL. */
void bj_layout_drop(struct bj_work *work, struct bj_layout *layout);

#endif
