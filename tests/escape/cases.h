// SPDX-License-Identifier: Apache-2.0
/**
 * tests/escape/cases.h - what the files of escape tests share: the two slots, the checks, the
 * tables. One thread, but for actions that a test runs beside each other.
 */
#ifndef BJ_TESTS_ESCAPE_CASES_H
#define BJ_TESTS_ESCAPE_CASES_H

#include "tests/escape/harness.h"

enum { PROMPT_MS = 5000 }; /* "at once", on a loaded machine */

struct test {
	const char *name;
	void (*run)(void);
};
/* clang-format off */
#define TEST_CASE(name) { #name, test_##name }
/* clang-format on */

/** Each ends with a NULL name. */
extern const struct test inside_tests[]; /* what the command is given, and the walls around it */
extern const struct test apart_tests[];	 /* inputs, and one action beside or after the other */
extern const struct test life_tests[];	 /* how actions end, what is counted, who dies with whom */

extern struct host host;
extern struct slot slot, other;

void failed(const char *fmt, ...) BJ_PRINTF(1, 2);
void skip(const char *fmt, ...) BJ_PRINTF(1, 2);

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			failed("line %d: not so: %s", __LINE__, #cond);                            \
	} while (0)

/** False, and a failure, when the action could not be run at all. */
bool ran(const struct outcome *o);
void report(const struct outcome *o);
bool out_is(const struct outcome *o, const char *text);
/** Runs and expects exit @want; the outcome is for more checks and to be freed. */
void expect_exit(const struct action *a, int want, struct outcome *o);
/** The probe's verb with up to two arguments (NULL: none); what it finds is a failure. */
void probe(const char *verb, const char *a, const char *b);
void sh(const char *script, struct outcome *o);
/** An action that must work: the slot is fit for the next one. */
void still_works(void);
bool file_is(const char *dir, const char *rel, const char *text);
/**
 * "owner" in the userns profile, where the action's uid is the one that owns everything, so that
 * what DAC refuses elsewhere is allowed; else "other".
 */
const char *userns_owner(void);

struct parallel {
	struct slot *slot;
	const struct action *action;
	struct outcome outcome;
	char dir[320];
};
/** Thread body: runs what is laid out in arg->dir. */
void *run_parallel(void *arg);
/** The same action on both slots at once. */
void in_parallel(const struct action *action, struct parallel p[2]);

#endif
