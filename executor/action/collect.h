// SPDX-License-Identifier: Apache-2.0
/**
 * action/collect.h - declared outputs into the store, no-follow, beneath the root; and what was made but not declared.
 * Called when every process of the action is dead. Owns nothing. Threads: the action's runner; blocks on disk.
 * Spec: REAPI v2, Command.output_paths/output_files/output_directories and ActionResult's lists.
 *
 * The action's view is lower + upper (overlayfs): a name is what upper says (file, directory, symlink, or a whiteout: a character device 0:0),
 * else what lower says; a directory of upper with the opaque attribute hides lower's. Collection walks these two by descriptor and never
 * mounts anything. Every path comes from an attacker: openat2 beneath, no symlink followed, special files refused, sizes re-checked.
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
	struct bj_str path;         /* relative to the working directory, as declared */
	enum bj_output_style style; /* PATHS when Command.output_paths is used, else by the legacy field */
	bool found;                 /* out: exists after the run */
};

struct bj_collect {
	struct bj_store *store;
	enum bj_digest_fn fn;
	const struct bj_layout *layout;
	struct bj_str working_dir;      /* relative to the input root */
	struct bj_output *outputs;
	size_t n_outputs;
	struct bj_arena *arena;
};

/**
 * bj_collect_outputs() - fill the output lists of @result (its fields point into the arena).
 * Files: output_files with is_executable. Directories: a Tree blob, canonical, topologically sorted, equal Directories once; its
 * Directory blobs are stored too. Symlinks: the link's text, never followed: output_symlinks for style PATHS, else the legacy list by the
 * type of the target (dangling: output_file_symlinks). Missing ones are left out. Order: as declared.
 * Return: 0; -FAILED_PRECONDITION (a directory where a file was declared, a fifo, socket or device: path, wanted and found are named;
 * unreadable); -RESOURCE_EXHAUSTED; -INTERNAL.
 */
BJ_MUST_USE int bj_collect_outputs(struct bj_collect *collect, re_action_result *result,
				   struct bj_err *err);

/** One thing that the action left in its private layer. */
struct bj_left {
	struct bj_str path;  /* relative to the input root */
	uint64_t size_bytes; /* files */
	bool is_dir, is_symlink, is_special, is_whiteout; /* whiteout: an input was removed or replaced by nothing */
	bool shadows_input;  /* lower has this name too: an input was changed or replaced */
};
typedef void (*bj_left_fn)(void *ctx, const struct bj_left *left);

/** Walks the upper layer (bounded by @max entries, true in *out_cut beyond); directories are reported only when they are empty. */
BJ_MUST_USE int bj_collect_left(const struct bj_layout *layout, size_t max, bj_left_fn fn, void *ctx, struct bj_arena *arena,
				bool *out_cut, struct bj_err *err);

#endif
