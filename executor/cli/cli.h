// SPDX-License-Identifier: Apache-2.0
/**
 * cli/cli.h - the command line: finds the subcommand and runs it.
 * Threads: main thread only, before any other exists.
 */
#ifndef BJ_CLI_CLI_H
#define BJ_CLI_CLI_H

/**
 * bj_cli_main() - run what the arguments ask for.
 * @argc: as main() got it
 * @argv: borrowed
 * Return: the exit status of the process: 0, 1 (failed) or 2 (the arguments are wrong).
 */
int bj_cli_main(int argc, char **argv);

#endif
