// SPDX-License-Identifier: Apache-2.0
/*
 * What the command is given, and the walls around it: one probe verb or script a test.
 */
#include "tests/escape/cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/clock.h"

/* ---- what the command is given ---- */

static void test_echo(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/echo", "a  b", "" } };
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "a  b \n"));
	outcome_free(&o);
}

static void test_env_exact(void)
{
	struct outcome o;
	struct action a = { .argv = { "/usr/bin/env" }, .env = { "B=2", "A=", "X=a=b\nc" } };
	(void)setenv("SECRET", "1", 1);
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "B=2\nA=\nX=a=b\nc\n"));
	outcome_free(&o);
}

static void test_argv0_path(void)
{
	/*
	 * L51: a slash counts from the working directory, a bare name goes along PATH, relative
	 * entries too
	 */
	static const struct input script = { "w/bin/t", "#!/bin/sh\necho \"$0\"\n", true };
	static const struct input wrong = { "bin/t", "#!/bin/sh\necho BAD\n", true };
	struct outcome o;
	struct action a = { .argv = { "bin/t" }, .cwd = "/exec/w", .inputs = { script, wrong } };
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "bin/t\n"));
	outcome_free(&o);
	struct action b = { .argv = { "t" },
			    .env = { "PATH=/nonexistent:probe:bin" },
			    .cwd = "/exec/w",
			    .inputs = { script, wrong } };
	expect_exit(&b, 0, &o);
	CHECK(out_is(&o, "bin/t\n"));
	outcome_free(&o);
}

static void check_exec_failure(const struct action *a, int errnum, int exit_code)
{
	struct outcome o;
	action_run(&slot, a, &o);
	if (ran(&o) && (o.result.end != BJ_END_EXEC_FAILED || o.result.exec_errno != errnum ||
			o.result.exit_code != exit_code))
		failed("end %d errno %d exit %d", (int)o.result.end, o.result.exec_errno,
		       o.result.exit_code);
	outcome_free(&o);
}

static void test_exec_failures(void)
{
	static const struct input plain = { "plain", "#!/bin/sh\n", false };
	static const struct input lost = { "lost", "#!/no/such/interpreter\n", true };
	static const struct input odd = { "odd", "no format that a kernel knows\n", true };
	check_exec_failure(&(struct action){ .argv = { "nosuch" } }, ENOENT, 127);
	check_exec_failure(&(struct action){ .argv = { "./nosuch" } }, ENOENT, 127);
	check_exec_failure(&(struct action){ .argv = { "" } }, ENOENT, 127);
	check_exec_failure(&(struct action){ .argv = { "probe/x" } }, ENOTDIR, 127);
	check_exec_failure(&(struct action){ .argv = { "./plain" }, .inputs = { plain } }, EACCES,
			   126);
	check_exec_failure(&(struct action){ .argv = { "plain" },
					     .env = { "PATH=/exec" },
					     .inputs = { plain } },
			   EACCES, 126);
	check_exec_failure(&(struct action){ .argv = { "./lost" }, .inputs = { lost } }, ENOENT,
			   127);
	check_exec_failure(&(struct action){ .argv = { "./odd" }, .inputs = { odd } }, ENOEXEC,
			   126);
	check_exec_failure(&(struct action){ .argv = { "/exec" } }, EACCES, 126);
}

static void test_cwd_missing(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/true" }, .cwd = "/exec/not/there" };
	action_run(&slot, &a, &o);
	CHECK(o.code == -BJ_FAILED_PRECONDITION);
	CHECK(strstr(o.err.msg, "working-directory") && strstr(o.err.msg, "/exec/not/there"));
	outcome_free(&o);
	still_works(); /* the slot is fit for the next one */
}

static void test_fds(void)
{
	probe("fds", NULL,
	      NULL); /* L145; the driver holds /canary-like descriptors at 100 and 2048 */
}

static void test_devices(void)
{
	probe("devices", NULL, NULL);
}

static void test_identity(void)
{
	struct outcome o;
	sh("id -un && id -gn && umask && hostname && pwd && echo $PPID", &o);
	CHECK(out_is(&o, "belljar\nbelljar\n0022\nbelljar\n/exec\n1\n"));
	outcome_free(&o);
}

static void test_limits(void)
{
	struct outcome o;
	sh("ulimit -c; ulimit -S -n; ulimit -s; ulimit -p", &o);
	CHECK(out_is(&o, "0\n16384\n8192\n8192\n"));
	outcome_free(&o);
}

/* ---- walls ---- */

static void test_rights(void)
{
	probe("rights", NULL, NULL);
}

static void test_setuid(void)
{
	probe("setuid", NULL, NULL); /* L126, L127 */
}

static void test_calls(void)
{
	probe("calls", NULL, NULL);
}

static void test_clone(void)
{
	probe("clone", NULL, NULL);
}

static void test_paths(void)
{
	probe("paths", host.work_dir, host.jail_binary);
}

static void test_processes(void)
{
	probe("processes", NULL, NULL);
}

static void test_init_unreachable(void)
{
	probe("init", userns_owner(), NULL);
}

static void test_init_survives(void)
{
	struct outcome o;
	struct action a = { .argv = { "./probe", "kill-init" } };
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "alive\n"));
	outcome_free(&o);
}

static void test_init_starved(void)
{
	struct outcome o;
	struct action a = { .argv = { "./probe", "starve-init" } };
	expect_exit(&a, 0, &o);
	outcome_free(&o);
	still_works();
}

static void test_no_host_sockets(void)
{
	struct outcome o;
	sh("find / -xdev -type s 2>/dev/null; find /tmp /dev /exec -type s 2>/dev/null",
	   &o); /* L128 */
	CHECK(out_is(&o, ""));
	outcome_free(&o);
}

static void test_mounts_hide_host(void)
{
	struct outcome o;
	sh("cat /proc/self/mountinfo /proc/self/mounts", &o);
	char *text = o.out.len ? strndup(o.out.data, o.out.len) : NULL;
	CHECK(text && !strstr(text, host.work_dir));
	CHECK(text && strstr(text, "lowerdir=lower,upperdir=upper,workdir=ovl"));
	free(text);
	outcome_free(&o);
}

static void test_init_tells_nothing(void)
{
	struct outcome o;
	sh("tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/comm", &o);
	char *text = o.out.len ? strndup(o.out.data, o.out.len) : NULL;
	CHECK(text && strstr(text, "belljar-jail ") && strstr(text, "belljar-init\n"));
	for (const char *c = text; c && *c; c++)
		CHECK(*c < '0' || *c > '9'); /* no pid of the host */
	free(text);
	outcome_free(&o);
}

static void test_ptrace_own(void)
{
	/* L144: inside the action tracing works */
	if (access("/usr/bin/strace", X_OK) < 0) {
		skip("no strace on this machine");
		return;
	}
	struct outcome o;
	sh("strace -o /dev/null -f /bin/true", &o);
	if (o.result.exit_code != 0)
		report(&o);
	outcome_free(&o);
}

/* ---- observer ---- */

static void test_every_level(void)
{
	for (int level = BJ_OBSERVE_OFF; level <= BJ_OBSERVE_STRICT; level++) {
		struct outcome o;
		struct action a = { .argv = { "/bin/sh", "-c",
					      "cat /etc/passwd >/dev/null; echo x > y; mkdir z; "
					      "cat nosuch 2>/dev/null; ls >/dev/null" },
				    .observe = (enum bj_observe)level };
		expect_exit(&a, 0, &o);
		CHECK(o.result.observer.level == (enum bj_observe)level);
		if (level != BJ_OBSERVE_OFF) {
			CHECK(o.result.observer.complete);
			CHECK(o.result.observer.n_notifications > 0);
		}
		outcome_free(&o);
	}
}

static void test_observed_walls(void)
{
	static const char *const verbs[] = { "rights",	  "calls", "clone",   "init",
					     "processes", "fds",   "devices", "net" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(verbs); i++) {
		struct outcome o;
		struct action a = { .argv = { "./probe", verbs[i], userns_owner() },
				    .observe = BJ_OBSERVE_STRICT };
		expect_exit(&a, 0, &o);
		outcome_free(&o);
	}
}

/* ---- size of things ---- */

static void test_large_spec(void)
{
	/* an argument list far beyond a datagram: through a memfd */
	enum { LEN = 100 * 1000 };
	static char big[LEN + 1];
	memset(big, 'x', LEN);
	struct outcome o;
	struct action a = { .argv = { "/bin/sh", "-c", "echo ${#1} ${#2} ${#3}", "sh", big, big,
				      big } };
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "100000 100000 100000\n"));
	outcome_free(&o);
}

static void test_too_long_args(void)
{
	enum {
		LEN = 200 * 1000
	}; /* over MAX_ARG_STRLEN: the exec's own error, not a set-up failure */
	static char big[LEN + 1];
	memset(big, 'x', LEN);
	check_exec_failure(&(struct action){ .argv = { "/bin/true", big } }, E2BIG, 126);
}

static int no_output(void *ctx, int stream, const void *data, size_t n_bytes, struct bj_err *err)
{
	(void)ctx, (void)stream, (void)data, (void)n_bytes;
	return bj_err_set(err, BJ_INTERNAL, "nothing should have run");
}

static void test_bad_spec(void)
{
	struct bj_str argv[] = { BJ_STR_LIT("/bin/true") };
	struct bj_jail_spec spec = { .argv = argv,
				     .n_argv = 1,
				     .cwd = BJ_STR_LIT("/exec"),
				     .lower = BJ_STR_LIT("../lower"),
				     .upper = BJ_STR_LIT("u"),
				     .ovl = BJ_STR_LIT("o"),
				     .tmp = BJ_STR_LIT("t"),
				     .shm = BJ_STR_LIT("s") };
	struct bj_jail_hooks hooks = { .output = no_output };
	struct bj_jail_result result;
	struct bj_err err = BJ_ERR_NULL;
	CHECK(bj_jail_run(slot.jail, &spec, &hooks, BJ_NEVER_NS, -1, &result, &err) ==
	      -BJ_INVALID_ARGUMENT);
	still_works();
}

static void test_missing_layer(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/true" } };
	char dir[320], path[400];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	(void)snprintf(path, sizeof(path), "%s/shm", dir);
	CHECK(rmdir(path) == 0);
	action_execute(&slot, &a, dir, &o);
	CHECK(o.code == -BJ_FAILED_PRECONDITION && strstr(o.err.msg, "shm"));
	action_remove(dir);
	outcome_free(&o);
	still_works();
}

const struct test inside_tests[] = {
	TEST_CASE(echo),
	TEST_CASE(env_exact),
	TEST_CASE(argv0_path),
	TEST_CASE(exec_failures),
	TEST_CASE(cwd_missing),
	TEST_CASE(fds),
	TEST_CASE(devices),
	TEST_CASE(identity),
	TEST_CASE(limits),
	TEST_CASE(rights),
	TEST_CASE(setuid),
	TEST_CASE(calls),
	TEST_CASE(clone),
	TEST_CASE(paths),
	TEST_CASE(processes),
	TEST_CASE(init_unreachable),
	TEST_CASE(init_survives),
	TEST_CASE(init_starved),
	TEST_CASE(no_host_sockets),
	TEST_CASE(mounts_hide_host),
	TEST_CASE(init_tells_nothing),
	TEST_CASE(ptrace_own),
	TEST_CASE(every_level),
	TEST_CASE(observed_walls),
	TEST_CASE(large_spec),
	TEST_CASE(too_long_args),
	TEST_CASE(bad_spec),
	TEST_CASE(missing_layer),
	{ NULL, NULL },
};
