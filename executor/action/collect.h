// SPDX-License-Identifier: Apache-2.0
/**
 * action/collect.h - declared outputs into the store, no-follow, beneath the root; and what was made but not declared.
 * Called when every process of the action is dead. Owns nothing. Threads: the action's runner; blocks on disk.
 * Spec: REAPI v2, Command.output_paths/output_files/output_directories and ActionResult's lists.
 *
 * Outputs are read through a descriptor on the action's own merged input root (bj_jail_result.exec_fd), which outlives its processes: the
 * kernel's overlayfs knows best what a rename or an opaque directory means. What was left is read from the upper layer alone. Every path
 * comes from an attacker: openat2 beneath the root, last component never followed, special files refused.
 */
#ifndef BJ_ACTION_COLLECT_H
#define BJ_ACTION_COLLECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/action/layout.h"
#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/cas/reapi.h"
#include "executor/cas/store.h"

enum bj_output_style { BJ_OUTPUT_PATHS, BJ_OUTPUT_FILE, BJ_OUTPUT_DIRECTORY };

struct bj_output {
	struct bj_str path; /* relative to the working directory, as declared */
	enum bj_output_style
		style; /* PATHS when Command.output_paths is used, else by the legacy field */
	bool found;    /* out: exists after the run */
};

struct bj_collect {
	struct bj_store *store;
	enum bj_digest_fn fn;
	int exec_fd;		   /* the merged input root, borrowed */
	struct bj_str working_dir; /* relative to the input root */
	bool wants_tree;	   /* OutputDirectory.tree_digest */
	bool wants_directories; /* OutputDirectory.root_directory_digest and every Directory as a blob */
	struct bj_output *outputs;
	size_t n_outputs;
	uint64_t max_bytes; /* of all outputs together, by their sizes; 0: no limit */
	uint64_t n_bytes;   /* out: so far */
	struct bj_arena *arena;
};

/**
 * bj_collect_outputs() - fill the output lists of @result (its fields point into the arena).
 * Files: output_files with is_executable. Directories: a Tree blob, canonical, topologically sorted, equal Directories once.
 * Symlinks: the link's text, never followed: output_symlinks for style PATHS, and the legacy list by the type of the target for every
 * style (a link that leads nowhere, or out of the root: the list it was declared for, of files for PATHS). A target below the jail's own
 * root is refused: it means nothing to a client. Missing ones are left out. Order: as declared.
 * Return: 0; -FAILED_PRECONDITION (a directory where a file was declared, a fifo, socket or device: path, wanted and found are named;
 * unreadable; names that are not UTF-8); -RESOURCE_EXHAUSTED; -INTERNAL. After a failure @result holds what came before it.
 */
BJ_MUST_USE int bj_collect_outputs(struct bj_collect *collect, re_action_result *result,
				   struct bj_err *err);

/** One thing that the action left in its private layer. */
struct bj_left {
	struct bj_str path;  /* relative to the input root */
	uint64_t size_bytes; /* files */
	bool is_dir, is_symlink, is_special,
		is_whiteout; /* whiteout: an input was removed or replaced by nothing */
	bool shadows_input;  /* lower has this name too: an input was changed or replaced */
};
typedef void (*bj_left_fn)(void *ctx, const struct bj_left *left);

/**
 * bj_collect_left() - walk the upper layer. Directories are told of only when they are empty, and not those that the layout made.
 * @layout: its n_left is set
 * @max: so many entries are looked at; *out_cut: there are more, or some could not be looked at
 * @fn: its @left is borrowed for the call
 */
BJ_MUST_USE int bj_collect_left(struct bj_layout *layout, size_t max, bj_left_fn fn, void *ctx,
				bool *out_cut, struct bj_err *err);

#endif
