// SPDX-License-Identifier: Apache-2.0
/**
 * cli/serve-internal.h - what `belljar serve` is to do, complete: flags over file over defaults, each value checked.
 */
#ifndef BJ_CLI_SERVE_INTERNAL_H
#define BJ_CLI_SERVE_INTERNAL_H

#include "executor/base/log.h"
#include "executor/cli/config.h"
#include "executor/cli/flags.h"

struct bj_serve_options {
	struct bj_config config;   /* no 0 is left that means "decide" */
	struct bj_str jail_binary; /* absolute */
	struct bj_str port_file;   /* as given, may be empty */
	struct bj_str worker_name;
	enum bj_log_level log_level;
};

/** The flags of `serve`, for the table of commands. */
enum { BJ_SERVE_N_FLAGS = 9 };
extern const struct bj_flag bj_serve_flags[BJ_SERVE_N_FLAGS];

/**
 * bj_serve_options() - read flags and file, look at the host.
 * Return: 0; negative: nothing was changed anywhere. -INVALID_ARGUMENT is the user's mistake.
 */
BJ_MUST_USE int bj_serve_options(const struct bj_command *command, int argc, char **argv,
				 struct bj_arena *arena, struct bj_serve_options *out_options,
				 struct bj_err *err);

#endif
