// SPDX-License-Identifier: Apache-2.0
/**
 * cli/flags.h - a subcommand's flags as a table, and the parser over it.
 * Owns: nothing; values borrow from argv, lists live in the arena. Threads: one.
 *
 * Every flag is --name=VALUE or --name VALUE; a switch is --name alone. "--" ends the flags. Names are never abbreviated:
 * a script that works today works with the next release, which may know more names.
 */
#ifndef BJ_CLI_FLAGS_H
#define BJ_CLI_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"

enum bj_flag_kind {
	BJ_FLAG_SWITCH, /* bool */
	BJ_FLAG_TEXT,	/* const char *, not empty; at most once */
	BJ_FLAG_LIST,	/* struct bj_flag_list; repeatable */
	BJ_FLAG_NUMBER, /* uint64_t between min and max; at most once */
};

struct bj_flag_list {
	const char **items;
	size_t n;
};

struct bj_flag {
	const char *name; /* without "--" */
	enum bj_flag_kind kind;
	size_t offset;		/* of the value in the caller's struct */
	uint64_t min, max;	/* NUMBER */
	const char *value_name; /* "ADDR"; NULL for a switch */
	const char *help;	/* one line; further ones after '\n' */
};

/** What a subcommand is, for the parser and for --help. */
struct bj_command {
	const char *name;
	const char *summary;  /* one line */
	const char *operands; /* "[ACTION_PREFIX]", "" for none */
	size_t max_operands;
	const char *details; /* after the flags: exit status, examples */
	const struct bj_flag *flags;
	size_t n_flags;
	void (*help)(struct bj_buf *out); /* what comes between flags and details; may be NULL */
	int (*run)(const struct bj_command *command, int argc, char **argv); /* exit status */
};

/**
 * bj_flags_parse() - fill @out_values from the arguments after the subcommand's name.
 * @out_values: the struct that the offsets mean, zeroed by the caller
 * @out_operands: what is no flag, in order
 * Return: 0; -INVALID_ARGUMENT naming the argument, and for an unknown flag the known ones.
 */
BJ_MUST_USE int bj_flags_parse(const struct bj_command *command, int argc, char **argv,
			       struct bj_arena *arena, void *out_values,
			       struct bj_flag_list *out_operands, struct bj_err *err);

/** True when "--help" or "-h" stands among the flags. */
bool bj_flags_want_help(int argc, char **argv);
/** The text of `belljar NAME --help`. */
void bj_flags_help(const struct bj_command *command, struct bj_buf *out);

#endif
