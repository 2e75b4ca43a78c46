// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the subcommand. Each is one file of this folder and one row of a table here.
 */
#include "executor/cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: belljar COMMAND [OPTION...]\n"
			    "       belljar --help | --version\n";

int bj_cli_main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("belljar 0.1.0");
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
