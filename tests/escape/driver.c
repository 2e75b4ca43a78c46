// SPDX-License-Identifier: Apache-2.0
/*
 * The escape tests of the jail: every guarantee has a test here that tries to break it.
 *
 *   driver JAIL PROBE WORK_DIR [TEST…]      a line a failure, then "N passed, N failed, N skipped"
 *
 * Run as root it tests the profile `privileged`, as anybody else `userns`. Bounds on time are
 * against hanging and generous. This file has what the tests share; they are in inside.c, apart.c
 * and life.c.
 */
#include "tests/escape/cases.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/fd.h"

struct host host;
struct slot slot, other;
static const char *test_name;
static bool test_failed, test_skipped;
static int n_passed, n_failed, n_skipped;

void failed(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	(void)printf("FAIL %s: ", test_name);
	(void)vprintf(fmt, ap);
	(void)printf("\n");
	va_end(ap);
	test_failed = true;
}

void skip(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	(void)printf("SKIP %s: ", test_name);
	(void)vprintf(fmt, ap);
	(void)printf("\n");
	va_end(ap);
	test_skipped = true;
}

/* ---- helpers ---- */

bool ran(const struct outcome *o)
{
	if (o->code < 0)
		failed("%s", o->err.msg);
	return o->code == 0;
}

void report(const struct outcome *o)
{
	failed("end %d, exit %d, stdout \"%.*s\", stderr \"%.*s\"", (int)o->result.end,
	       o->result.exit_code, (int)BJ_MIN(o->out.len, (size_t)2000),
	       o->out.data ? o->out.data : "", (int)BJ_MIN(o->errs.len, (size_t)2000),
	       o->errs.data ? o->errs.data : "");
}

bool out_is(const struct outcome *o, const char *text)
{
	return bj_str_eq(bj_buf_str(&o->out), bj_str_of(text));
}

void expect_exit(const struct action *a, int want, struct outcome *o)
{
	action_run(&slot, a, o);
	if (ran(o) && (o->result.end != BJ_END_EXITED || o->result.exit_code != want))
		report(o);
}

void probe(const char *verb, const char *a, const char *b)
{
	struct outcome o;
	struct action action = { .argv = { "./probe", verb, a, b } };
	expect_exit(&action, 0, &o);
	outcome_free(&o);
}

const char *userns_owner(void)
{
	return host.profile == BJ_PROFILE_USERNS ? "owner" : "other";
}

void sh(const char *script, struct outcome *o)
{
	struct action a = { .argv = { "/bin/sh", "-c", script } };
	action_run(&slot, &a, o);
	(void)ran(o);
}

bool file_is(const char *dir, const char *rel, const char *text)
{
	char path[512];
	struct bj_err err = BJ_ERR_NULL;
	struct bj_buf bytes = BJ_BUF_INIT(1 << 20);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, rel);
	bool same = bj_file_read_all(AT_FDCWD, path, &bytes, &err) == 0 &&
		    bj_str_eq(bj_buf_str(&bytes), bj_str_of(text));
	bj_buf_deinit(&bytes);
	return same;
}

void still_works(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/echo", "still here" } };
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "still here\n"));
	outcome_free(&o);
}

void *run_parallel(void *arg)
{
	struct parallel *p = arg;
	action_execute(p->slot, p->action, p->dir, &p->outcome);
	return NULL;
}

void in_parallel(const struct action *action, struct parallel p[2])
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++) {
		p[i] = (struct parallel){ .slot = i ? &other : &slot, .action = action };
		action_lay_out(p[i].slot, action, p[i].dir, sizeof(p[i].dir));
	}
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, run_parallel, &p[i]) == 0);
	for (int i = 0; i < 2; i++) {
		(void)pthread_join(threads[i], NULL);
		action_remove(p[i].dir);
		if (ran(&p[i].outcome) && p[i].outcome.result.exit_code != 0)
			report(&p[i].outcome);
	}
}

static bool wanted(const char *name, char **names, int n_names)
{
	for (int i = 0; i < n_names; i++) {
		if (strcmp(name, names[i]) == 0)
			return true;
	}
	return n_names == 0;
}

static void run_all(const struct test *tests, char **names, int n_names)
{
	for (const struct test *t = tests; t->name; t++) {
		if (!wanted(t->name, names, n_names))
			continue;
		test_name = t->name;
		test_failed = test_skipped = false;
		t->run();
		n_failed += test_failed;
		n_skipped += !test_failed && test_skipped;
		n_passed += !test_failed && !test_skipped;
	}
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		(void)fprintf(stderr, "usage: driver JAIL PROBE WORK_DIR [TEST...]\n");
		return 2;
	}
	/* L145: descriptors that somebody forgot to mark */
	int canary = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)dup2(canary, 100);
	(void)dup2(canary, 2048 > sysconf(_SC_OPEN_MAX) ? 101 : 1000);
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	host_enter(&host, argv[1], argv[2], argv[3], 1ull << 30);
	slot_start(&slot, &host, 1);
	slot_start(&other, &host, 2);
	run_all(inside_tests, argv + 4, argc - 4);
	run_all(apart_tests, argv + 4, argc - 4);
	run_all(life_tests, argv + 4, argc - 4);
	slot_stop(&slot);
	slot_stop(&other);
	(void)printf("%s: %d passed, %d failed, %d skipped\n", bj_jail_profile_name(host.profile),
		     n_passed, n_failed, n_skipped);
	return n_failed > 0;
}
