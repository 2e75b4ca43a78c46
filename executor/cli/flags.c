// SPDX-License-Identifier: Apache-2.0
#include "executor/cli/flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26 };

struct parser {
	const struct bj_command *command;
	int argc;
	char **argv;
	int at; /* the argument under work */
	struct bj_arena *arena;
	char *values;
	bool *is_given; /* one a flag */
	struct bj_flag_list *operands;
	struct bj_err *err;
};

static int no_memory(struct parser *p)
{
	return bj_err_set(p->err, BJ_RESOURCE_EXHAUSTED, "no memory for the arguments");
}

/* What came from outside, fit for a message. */
static const char *shown(struct parser *p, struct bj_str text)
{
	const char *copy = bj_str_dup(p->arena, bj_str_printable(p->arena, text, 200));
	return copy ? copy : "";
}

static const struct bj_flag *find(const struct bj_command *command, struct bj_str name)
{
	for (size_t i = 0; i < command->n_flags; i++)
		if (bj_str_eq(name, bj_str_of(command->flags[i].name)))
			return &command->flags[i];
	return NULL;
}

static int unknown(struct parser *p, struct bj_str name)
{
	struct bj_buf known = BJ_BUF_INIT(800);
	for (size_t i = 0; i < p->command->n_flags; i++)
		(void)bj_buf_printf(&known, "--%s, ", p->command->flags[i].name);
	(void)bj_buf_append_cstr(&known, "--help");
	int r = bj_err_set(p->err, BJ_INVALID_ARGUMENT, "unknown flag \"--%s\", known: %s",
			   shown(p, name), bj_buf_cstr(&known));
	bj_buf_deinit(&known);
	return r;
}

static int list_add(struct parser *p, struct bj_flag_list *list, const char *item)
{
	if (!list->items) {
		/* More items than arguments there cannot be. */
		list->items = BJ_ARENA_ARRAY(p->arena, const char *, (size_t)p->argc);
		if (!list->items)
			return no_memory(p);
	}
	list->items[list->n++] = item;
	return 0;
}

static int set_number(struct parser *p, const struct bj_flag *flag, const char *value)
{
	uint64_t number;
	if (!bj_str_to_u64(bj_str_of(value), &number) || number < flag->min || number > flag->max)
		return bj_err_set(p->err, BJ_INVALID_ARGUMENT,
				  "--%s=%s: not a number between %" PRIu64 " and %" PRIu64,
				  flag->name, shown(p, bj_str_of(value)), flag->min, flag->max);
	memcpy(p->values + flag->offset, &number, sizeof(number));
	return 0;
}

static int set(struct parser *p, const struct bj_flag *flag, const char *value)
{
	bool *is_given = &p->is_given[flag - p->command->flags];
	char *where = p->values + flag->offset;
	const bool yes = true;

	if (*is_given && flag->kind != BJ_FLAG_LIST && flag->kind != BJ_FLAG_SWITCH)
		return bj_err_set(p->err, BJ_INVALID_ARGUMENT, "--%s is given twice", flag->name);
	*is_given = true;
	if (flag->kind == BJ_FLAG_SWITCH) {
		memcpy(where, &yes, sizeof(yes));
		return 0;
	}
	if (*value == '\0')
		return bj_err_set(p->err, BJ_INVALID_ARGUMENT, "--%s is empty, it wants %s",
				  flag->name, flag->value_name);
	if (flag->kind == BJ_FLAG_NUMBER)
		return set_number(p, flag, value);
	if (flag->kind == BJ_FLAG_LIST)
		return list_add(p, (struct bj_flag_list *)(void *)where, value);
	memcpy(where, &value, sizeof(value));
	return 0;
}

static int parse_flag(struct parser *p, const char *arg)
{
	const char *equals = strchr(arg, '=');
	struct bj_str name =
		bj_str_n(arg + 2, equals ? (size_t)(equals - arg) - 2 : strlen(arg + 2));
	const struct bj_flag *flag = find(p->command, name);

	if (!flag)
		return unknown(p, name);
	if (flag->kind == BJ_FLAG_SWITCH) {
		if (equals)
			return bj_err_set(p->err, BJ_INVALID_ARGUMENT, "--%s takes no value: %s",
					  flag->name, shown(p, bj_str_of(arg)));
		return set(p, flag, "");
	}
	if (equals)
		return set(p, flag, equals + 1);
	/* "--store --slots 2" is a forgotten value, not a store of that name; --store=--slots says the latter. */
	if (p->at + 1 >= p->argc || strncmp(p->argv[p->at + 1], "--", 2) == 0)
		return bj_err_set(p->err, BJ_INVALID_ARGUMENT, "--%s wants %s", flag->name,
				  flag->value_name);
	return set(p, flag, p->argv[++p->at]);
}

static int parse_operand(struct parser *p, const char *arg)
{
	if (p->operands->n < p->command->max_operands)
		return list_add(p, p->operands, arg);
	return bj_err_set(p->err, BJ_INVALID_ARGUMENT, "unexpected argument \"%s\"",
			  shown(p, bj_str_of(arg)));
}

static int parse(struct parser *p)
{
	bool flags_ended = false;
	int r = 0;

	for (p->at = 0; r == 0 && p->at < p->argc; p->at++) {
		const char *arg = p->argv[p->at];
		if (!flags_ended && strcmp(arg, "--") == 0)
			flags_ended = true;
		else if (!flags_ended && strncmp(arg, "--", 2) == 0)
			r = parse_flag(p, arg);
		else if (!flags_ended && arg[0] == '-' && arg[1] != '\0')
			r = bj_err_set(p->err, BJ_INVALID_ARGUMENT,
				       "unknown flag \"%s\": flags start with \"--\"",
				       shown(p, bj_str_of(arg)));
		else
			r = parse_operand(p, arg);
	}
	return r;
}

int bj_flags_parse(const struct bj_command *command, int argc, char **argv, struct bj_arena *arena,
		   void *out_values, struct bj_flag_list *out_operands, struct bj_err *err)
{
	struct parser p = {
		.command = command,
		.argc = argc,
		.argv = argv,
		.arena = arena,
		.values = out_values,
		.is_given = BJ_ARENA_ARRAY(arena, bool, command->n_flags),
		.operands = out_operands,
		.err = err,
	};
	return p.is_given ? parse(&p) : no_memory(&p);
}

bool bj_flags_want_help(int argc, char **argv)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

static void help_flag(const struct bj_flag *flag, struct bj_buf *out)
{
	size_t start = out->len;
	struct bj_str rest = bj_str_of(flag->help);

	(void)bj_buf_printf(out, "  --%s%s%s", flag->name, flag->value_name ? "=" : "",
			    flag->value_name ? flag->value_name : "");
	size_t width = out->len - start;
	if (width >= HELP_COLUMN)
		(void)bj_buf_append_char(out, '\n');
	bool is_first = width < HELP_COLUMN;
	while (rest.len) {
		struct bj_str line = bj_str_cut(&rest, '\n');
		int pad = is_first ? HELP_COLUMN - (int)width : HELP_COLUMN;
		(void)bj_buf_printf(out, "%*s%.*s\n", pad, "", BJ_STR_FMT(line));
		is_first = false;
	}
}

void bj_flags_help(const struct bj_command *command, struct bj_buf *out)
{
	(void)bj_buf_printf(out, "usage: belljar %s [FLAG...]%s%s\n\n%s\n\n", command->name,
			    command->operands[0] ? " " : "", command->operands, command->summary);
	for (size_t i = 0; i < command->n_flags; i++)
		help_flag(&command->flags[i], out);
	if (command->help)
		command->help(out);
	if (command->details[0])
		(void)bj_buf_printf(out, "\n%s", command->details);
}
