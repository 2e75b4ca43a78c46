// SPDX-License-Identifier: Apache-2.0
/** action/collect-internal.h - what collect.c, collect_dir.c and collect_left.c share. */
#ifndef BJ_ACTION_COLLECT_INTERNAL_H
#define BJ_ACTION_COLLECT_INTERNAL_H

#include <sys/stat.h>

#include "executor/action/collect.h"

enum { COLLECT_SHOWN_BYTES = 400 };

/** -FAILED_PRECONDITION naming the path, what was wanted and what was found. */
int collect_refuse(struct bj_arena *arena, struct bj_str path, const char *wanted, mode_t found,
		   struct bj_err *err);
/** "@what \"@path\": <errno>". What the action itself has shut is -FAILED_PRECONDITION. */
int collect_errno(struct bj_arena *arena, int errnum, const char *what, struct bj_str path,
		  struct bj_err *err);
/** Stores the file @fd and counts it against the limit. @path: for messages. */
int collect_file(struct bj_collect *collect, int fd, struct bj_str path,
		 struct bj_digest *out_digest, struct bj_err *err);
/** The text of the symlink that @fd (O_PATH) is; NULL with @err set. */
char *collect_readlink(struct bj_arena *arena, int fd, struct bj_str path, struct bj_err *err);
/** One output directory. @dir_fd: taken over. */
int collect_directory(struct bj_collect *collect, struct bj_output *output, int dir_fd,
		      re_action_result *result, struct bj_err *err);

#endif
