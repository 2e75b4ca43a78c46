// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the subcommand. Each is one file of this folder and one row of a table here.
 */
#include "executor/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/action/report.h"
#include "executor/cli/cli-internal.h"
#include "executor/jail/jail.h"

enum { HELP_MAX_BYTES = 64 << 10, SHOWN_MAX_BYTES = 4096 };

static const struct bj_command *const commands[] = {
	&bj_serve_command,
	&bj_probe_command,
	&bj_explain_command,
};

static const char *started_as = "";

const char *bj_cli_argv0(void)
{
	return started_as;
}

int bj_cli_fail(const struct bj_command *command, const struct bj_err *err, int status)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_str text = bj_str_printable(&arena, bj_str_of(err->msg), SHOWN_MAX_BYTES);
	fprintf(stderr, "belljar %s: %.*s\n", command->name, BJ_STR_FMT(text));
	return status;
}

void bj_cli_print_failure(FILE *out, const struct bj_jail_failure *f)
{
	const char *name = strerrorname_np(f->sys_errno);

	fprintf(out, "  step:    %s\n", f->step);
	fprintf(out, "  syscall: %s\n", f->syscall);
	fprintf(out, "  errno:   %s (%s)\n", name ? name : "?", strerror(f->sys_errno));
	if (f->path[0])
		fprintf(out, "  path:    %s\n", f->path);
	if (f->hint[0])
		fprintf(out, "  hint:    %s\n", f->hint);
}

static void print_usage(FILE *out)
{
	fputs("usage: belljar COMMAND [FLAG...]\n"
	      "       belljar COMMAND --help\n"
	      "       belljar --help | --version\n\n",
	      out);
	for (size_t i = 0; i < BJ_ARRAY_LEN(commands); i++)
		fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
}

/* 0 only when all of it was taken: "belljar --help >/dev/full" must not look fine. */
static int flushed(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return BJ_EXIT_OK;
	fprintf(stderr, "belljar: standard output: %m\n");
	return BJ_EXIT_FAILED;
}

static int print_help(const struct bj_command *command)
{
	struct bj_buf text = BJ_BUF_INIT(HELP_MAX_BYTES);
	bj_flags_help(command, &text);
	fputs(bj_buf_cstr(&text), stdout);
	bj_buf_deinit(&text);
	return flushed();
}

/* A descriptor below 3 that is not open would be given to the next file: a store's lock as stderr, say. */
static bool have_standard_fds(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int run_command(const char *name, int argc, char **argv)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(commands); i++) {
		if (strcmp(name, commands[i]->name) != 0)
			continue;
		if (bj_flags_want_help(argc, argv))
			return print_help(commands[i]);
		return commands[i]->run(commands[i], argc, argv);
	}
	fprintf(stderr, "belljar: unknown command \"%s\"\n", name);
	print_usage(stderr);
	return BJ_EXIT_USAGE;
}

int bj_cli_main(int argc, char **argv)
{
	if (!have_standard_fds())
		return BJ_EXIT_FAILED;
	if (argc < 2) {
		print_usage(stderr);
		return BJ_EXIT_USAGE;
	}
	started_as = argv[0];
	if (strcmp(argv[1], "--version") == 0) {
		puts("belljar " BJ_VERSION);
		return flushed();
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_usage(stdout);
		return flushed();
	}
	return run_command(argv[1], argc - 2, argv + 2);
}
