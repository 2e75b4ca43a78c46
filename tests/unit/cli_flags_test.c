// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "executor/cli/flags.h"

struct values {
	struct bj_flag_list names;
	const char *dir;
	uint64_t n;
	bool loud;
};

static const struct bj_flag flags[] = {
	{ "name", BJ_FLAG_LIST, offsetof(struct values, names), 0, 0, "NAME",
	  "a name\nor several" },
	{ "dir", BJ_FLAG_TEXT, offsetof(struct values, dir), 0, 0, "DIR", "a directory" },
	{ "a-number-with-a-long-name", BJ_FLAG_NUMBER, offsetof(struct values, n), 2, 9, "N", "n" },
	{ "loud", BJ_FLAG_SWITCH, offsetof(struct values, loud), 0, 0, NULL, "loudly" },
};

static const struct bj_command command = {
	.name = "test",
	.summary = "tests",
	.operands = "[WHAT]",
	.max_operands = 1,
	.details = "Exit status: 0.\n",
	.flags = flags,
	.n_flags = BJ_ARRAY_LEN(flags),
};

enum { MAX_ARGS = 8 };

struct parsed {
	struct bj_arena arena;
	struct values values;
	struct bj_flag_list operands;
	struct bj_err err;
	int result;
};

static struct parsed *parse(struct parsed *p, ...)
{
	char *argv[MAX_ARGS + 1];
	int argc = 0;
	va_list ap;

	memset(p, 0, sizeof(*p));
	bj_arena_init(&p->arena, 0);
	va_start(ap, p);
	while ((argv[argc] = va_arg(ap, char *)) != NULL)
		assert_true(++argc <= MAX_ARGS);
	va_end(ap);
	p->result =
		bj_flags_parse(&command, argc, argv, &p->arena, &p->values, &p->operands, &p->err);
	return p;
}

static void both_forms_of_a_value(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, "--name=a", "--dir", "d", "--name", "b=c", "--loud",
	      "--a-number-with-a-long-name=9", NULL);
	assert_int_equal(p.result, 0);
	assert_int_equal(p.values.names.n, 2);
	assert_string_equal(p.values.names.items[0], "a");
	assert_string_equal(p.values.names.items[1], "b=c");
	assert_string_equal(p.values.dir, "d");
	assert_int_equal(p.values.n, 9);
	assert_true(p.values.loud);
	assert_int_equal(p.operands.n, 0);
	bj_arena_deinit(&p.arena);
}

static void nothing_given_leaves_zero(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, NULL);
	assert_int_equal(p.result, 0);
	assert_int_equal(p.values.names.n, 0);
	assert_null(p.values.dir);
	assert_false(p.values.loud);
	bj_arena_deinit(&p.arena);
}

static void operands_stand_anywhere(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, "what", "--loud", NULL);
	assert_int_equal(p.result, 0);
	assert_int_equal(p.operands.n, 1);
	assert_string_equal(p.operands.items[0], "what");
	bj_arena_deinit(&p.arena);

	parse(&p, "--", "--loud", NULL);
	assert_int_equal(p.result, 0);
	assert_string_equal(p.operands.items[0], "--loud");
	assert_false(p.values.loud);
	bj_arena_deinit(&p.arena);

	parse(&p, "-", NULL);
	assert_int_equal(p.result, 0);
	assert_string_equal(p.operands.items[0], "-");
	bj_arena_deinit(&p.arena);
}

/* Each is refused as the user's mistake, in exactly these words. */
static void mistakes(void **state)
{
	(void)state;
	static const struct {
		const char *args[3];
		const char *text;
	} rows[] = {
		{ { "--nmae=a" },
		  "unknown flag \"--nmae\", known: --name, --dir, --a-number-with-a-long-name, "
		  "--loud, "
		  "--help" },
		{ { "--nam=a" },
		  "unknown flag \"--nam\", known: --name, --dir, --a-number-with-a-long-name, "
		  "--loud, "
		  "--help" },
		{ { "-n" }, "unknown flag \"-n\": flags start with \"--\"" },
		{ { "--dir=a", "--dir=a" }, "--dir is given twice" },
		{ { "--dir=" }, "--dir is empty, it wants DIR" },
		{ { "--name=" }, "--name is empty, it wants NAME" },
		{ { "--dir" }, "--dir wants DIR" },
		{ { "--dir", "--loud" }, "--dir wants DIR" },
		{ { "--loud=yes" }, "--loud takes no value: --loud=yes" },
		{ { "--a-number-with-a-long-name=1" },
		  "--a-number-with-a-long-name=1: not a number between 2 and 9" },
		{ { "--a-number-with-a-long-name=10" },
		  "--a-number-with-a-long-name=10: not a number between 2 and 9" },
		{ { "--a-number-with-a-long-name=+3" },
		  "--a-number-with-a-long-name=+3: not a number between 2 and 9" },
		{ { "--a-number-with-a-long-name=3x" },
		  "--a-number-with-a-long-name=3x: not a number between 2 and 9" },
		{ { "a", "b" }, "unexpected argument \"b\"" },
		{ { "a", "\033[1m" }, "unexpected argument \"\\x1b[1m\"" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct parsed p;
		parse(&p, rows[i].args[0], rows[i].args[1], rows[i].args[2]);
		assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
		assert_string_equal(p.err.msg, rows[i].text);
		bj_arena_deinit(&p.arena);
	}
}

static void help_is_wanted_before_the_end_of_flags(void **state)
{
	(void)state;
	char loud[] = "--loud", help[] = "--help", h[] = "-h", end[] = "--";
	char *yes[] = { loud, help }, *short_yes[] = { h }, *no[] = { loud, end, help };
	assert_true(bj_flags_want_help(2, yes));
	assert_true(bj_flags_want_help(1, short_yes));
	assert_false(bj_flags_want_help(3, no));
	assert_false(bj_flags_want_help(0, NULL));
}

static void help_text(void **state)
{
	(void)state;
	struct bj_buf out = BJ_BUF_INIT(4096);
	bj_flags_help(&command, &out);
	assert_string_equal(bj_buf_cstr(&out), "usage: belljar test [FLAG...] [WHAT]\n"
					       "\n"
					       "tests\n"
					       "\n"
					       "  --name=NAME             a name\n"
					       "                          or several\n"
					       "  --dir=DIR               a directory\n"
					       "  --a-number-with-a-long-name=N\n"
					       "                          n\n"
					       "  --loud                  loudly\n"
					       "\n"
					       "Exit status: 0.\n");
	bj_buf_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_forms_of_a_value),
		cmocka_unit_test(nothing_given_leaves_zero),
		cmocka_unit_test(operands_stand_anywhere),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(help_is_wanted_before_the_end_of_flags),
		cmocka_unit_test(help_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
