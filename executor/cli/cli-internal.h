// SPDX-License-Identifier: Apache-2.0
/**
 * cli/cli-internal.h - what the subcommands share.
 */
#ifndef BJ_CLI_CLI_INTERNAL_H
#define BJ_CLI_CLI_INTERNAL_H

#include <stdio.h>

#include "executor/base/err.h"
#include "executor/cli/flags.h"

struct bj_jail_failure;

/** Exit statuses; a subcommand may have further ones, its help says so. */
enum { BJ_EXIT_OK = 0, BJ_EXIT_FAILED = 1, BJ_EXIT_USAGE = 2 };

extern const struct bj_command bj_serve_command, bj_probe_command, bj_explain_command;

/** How this program was started, for what stands beside it. Set by bj_cli_main(). */
const char *bj_cli_argv0(void);

/** "belljar NAME: TEXT" on stderr, control bytes escaped. Return: @status. */
int bj_cli_fail(const struct bj_command *command, const struct bj_err *err, int status);

/** The step that the host refused, one line a part: step, call, errno, path, hint. */
void bj_cli_print_failure(FILE *out, const struct bj_jail_failure *failure);

#endif
