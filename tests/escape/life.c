// SPDX-License-Identifier: Apache-2.0
/*
 * How actions end, what is counted, and who dies with whom.
 */
#include "tests/escape/cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"

/* ---- the end of the command ---- */

static void check_end(const char *script, enum bj_jail_end end, int exit_code, int sig)
{
	struct outcome o;
	sh(script, &o);
	if (o.code == 0 &&
	    (o.result.end != end || o.result.exit_code != exit_code || o.result.signal != sig))
		failed("%s: end %d exit %d signal %d", script, (int)o.result.end,
		       o.result.exit_code, o.result.signal);
	outcome_free(&o);
}

static void test_exit_codes(void)
{
	check_end("exit 0", BJ_END_EXITED, 0, 0);
	check_end("exit 255", BJ_END_EXITED, 255, 0);
	check_end("exit 125", BJ_END_EXITED, 125, 0);
	check_end("exit 127", BJ_END_EXITED, 127, 0);
	check_end("exit 139", BJ_END_EXITED, 139, 0);
	check_end("kill -SEGV $$", BJ_END_SIGNALED, 139, SIGSEGV);
	check_end("kill -KILL $$", BJ_END_SIGNALED, 137, SIGKILL);
	check_end("kill -TERM $$", BJ_END_SIGNALED, 143, SIGTERM);
}

static void test_stray(void)
{
	/* L58, L59, L62: the result is the command's, it is prompt, and names who was left */
	struct outcome o;
	sh("echo a; setsid sleep 600 & while ! grep -qs sleep /proc/$!/comm; do :; done; echo b; "
	   "exit 3",
	   &o);
	CHECK(o.result.end == BJ_END_EXITED && o.result.exit_code == 3);
	CHECK(out_is(&o, "a\nb\n"));
	CHECK(o.took_ns < PROMPT_MS * BJ_NS_PER_MS);
	CHECK(o.result.n_strays_total == 1 && o.result.n_strays == 1);
	CHECK(strcmp(o.result.strays[0].comm, "sleep") == 0 &&
	      strcmp(o.result.strays[0].argv0, "sleep") == 0);
	outcome_free(&o);
}

static void test_swarm(void)
{
	struct outcome o;
	struct action a = { .argv = { "./probe", "swarm" } };
	expect_exit(&a, 0, &o);
	CHECK(o.result.n_strays_total >= 40 && o.result.n_strays == BJ_JAIL_MAX_STRAYS);
	CHECK(o.took_ns < PROMPT_MS * BJ_NS_PER_MS);
	outcome_free(&o);
}

static void test_timeout(void)
{
	/* L63: all of it dies, what was said is kept */
	struct outcome o;
	struct action a = {
		.argv = { "/bin/sh", "-c",
			  "echo said; trap '' TERM INT; sleep 600 & sleep 600; echo never" },
		.timeout_ms = 400
	};
	action_run(&slot, &a, &o);
	if (ran(&o)) {
		CHECK(o.result.end == BJ_END_TIMEOUT && o.result.exit_code == 137);
		CHECK(o.took_ns >= 400 * BJ_NS_PER_MS && o.took_ns < PROMPT_MS * BJ_NS_PER_MS);
		CHECK(out_is(&o, "said\n"));
		CHECK(o.result.n_killed == 3);
	}
	outcome_free(&o);
	still_works();
}

static void test_timeout_before_start(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/sh", "-c", "echo never" } };
	char dir[320];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	/*
	 * gone by the time that anything can be up: two runs of which the first is stopped at once
	 */
	a.timeout_ms = 1;
	int fd = eventfd(1, EFD_CLOEXEC);
	a.cancel_fd = fd;
	action_execute(&slot, &a, dir, &o);
	if (ran(&o))
		CHECK(o.result.end == BJ_END_CANCELLED || o.result.end == BJ_END_TIMEOUT);
	CHECK(out_is(&o, ""));
	(void)close(fd);
	action_remove(dir);
	outcome_free(&o);
	still_works();
}

static void *cancel_soon(void *arg)
{
	uint64_t one = 1;
	(void)usleep(200000);
	(void)!write(*(int *)arg, &one, sizeof(one));
	return NULL;
}

static void test_cancel(void)
{
	struct outcome o;
	int fd = eventfd(0, EFD_CLOEXEC);
	struct action a = { .argv = { "/bin/sleep", "600" }, .cancel_fd = fd };
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, cancel_soon, &fd) == 0);
	action_run(&slot, &a, &o);
	(void)pthread_join(thread, NULL);
	if (ran(&o))
		CHECK(o.result.end == BJ_END_CANCELLED && o.took_ns < PROMPT_MS * BJ_NS_PER_MS);
	(void)close(fd);
	outcome_free(&o);
}

/* ---- streams and usage ---- */

static void test_flood(void)
{
	enum { N = 10 * 1000 * 1000 };
	struct outcome o;
	struct action a = { .argv = { "./probe", "flood", "10000000" } };
	expect_exit(&a, 0, &o);
	CHECK(o.out.len == N);
	uint32_t x = 1;
	for (size_t i = 0; i < o.out.len; i++) {
		x = x * 1103515245 + 12345;
		if ((unsigned char)o.out.data[i] != (unsigned char)(x >> 16)) {
			failed("byte %zu differs", i);
			break;
		}
	}
	outcome_free(&o);
}

static void test_streams_apart(void)
{
	struct outcome o;
	sh("echo out; echo err >&2; printf 'no newline\\0'", &o);
	CHECK(bj_str_eq(bj_buf_str(&o.out), bj_str_n("out\nno newline", 15)));
	CHECK(bj_str_eq(bj_buf_str(&o.errs), bj_str_of("err\n")));
	outcome_free(&o);
}

static int refuse(void *ctx, int stream, const void *data, size_t n_bytes, struct bj_err *err)
{
	(void)ctx, (void)stream, (void)data, (void)n_bytes;
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "enough");
}

static void test_output_hook_stops(void)
{
	struct action a = { .argv = { "/bin/sh", "-c", "while :; do echo spam; done" } };
	char dir[320];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	struct bj_str argv[] = { BJ_STR_LIT("/bin/sh"), BJ_STR_LIT("-c"),
				 BJ_STR_LIT("while :; do echo spam; done") };
	char lower[64], upper[64], ovl[64], tmp[64], shm[64];
	const char *base = strrchr(dir, '/') + 1;
	(void)snprintf(lower, sizeof(lower), "%.40s/lower", base);
	(void)snprintf(upper, sizeof(upper), "%.40s/upper", base);
	(void)snprintf(ovl, sizeof(ovl), "%.40s/ovl", base);
	(void)snprintf(tmp, sizeof(tmp), "%.40s/tmp", base);
	(void)snprintf(shm, sizeof(shm), "%.40s/shm", base);
	struct bj_jail_spec spec = { .argv = argv,
				     .n_argv = 3,
				     .cwd = BJ_STR_LIT("/exec"),
				     .lower = bj_str_of(lower),
				     .upper = bj_str_of(upper),
				     .ovl = bj_str_of(ovl),
				     .tmp = bj_str_of(tmp),
				     .shm = bj_str_of(shm) };
	struct bj_jail_hooks hooks = { .output = refuse };
	struct bj_jail_result result;
	struct bj_err err = BJ_ERR_NULL;
	int r = bj_jail_run(slot.jail, &spec, &hooks, BJ_NEVER_NS, -1, &result, &err);
	CHECK(r == -BJ_RESOURCE_EXHAUSTED && strcmp(err.msg, "enough") == 0);
	action_remove(dir);
	still_works();
}

static void test_usage(void)
{
	/* 300 ms of user time in an orphan; 5 % and a scheduler tick of tolerance */
	struct outcome o;
	struct action a = { .argv = { "./probe", "burn-orphan", "300" } };
	expect_exit(&a, 0, &o);
	double user = (double)o.result.user_ns / 1e6;
	if (user < 285 || user > 319)
		failed("user time %.1f ms", user);
	CHECK(o.result.wall_ns >= 285 * BJ_NS_PER_MS && o.result.wall_ns <= o.took_ns);
	CHECK(o.result.max_rss_bytes > 100 * 1024 && o.result.max_rss_bytes < 100 << 20);
	outcome_free(&o);
}

static void test_usage_of_the_killed(void)
{
	struct outcome o;
	struct action a = { .argv = { "./probe", "burn", "60000" }, .timeout_ms = 600 };
	action_run(&slot, &a, &o);
	if (ran(&o)) {
		CHECK(o.result.end == BJ_END_TIMEOUT);
		CHECK(o.result.user_ns >
		      /* a busy machine gives it little; losing it would give nothing */
		      50 * BJ_NS_PER_MS);
	}
	outcome_free(&o);
}

/* ---- the death of the executor, and of the zygote ---- */

static pid_t zygote_of(const struct slot *s)
{
	/* struct bj_jail is opaque: the newest child called belljar-jail */
	(void)s;
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getpid(),
		       (int)getpid());
	FILE *f = fopen(path, "re");
	pid_t last = -1;
	int pid;
	/* NOLINTNEXTLINE(cert-err34-c): numbers that the kernel printed */
	while (f && fscanf(f, "%d", &pid) == 1)
		last = pid;
	if (f)
		(void)fclose(f);
	return last;
}

static void test_zygote_dies(void)
{
	struct slot own;
	slot_start(&own, &host, 9);
	pid_t zygote = zygote_of(&own);
	if (zygote < 0) {
		skip("this kernel has no /proc/PID/task/TID/children");
		slot_stop(&own);
		return;
	}
	struct outcome o;
	struct action a = { .argv = { "/bin/sleep", "600" } };
	char dir[320];
	action_lay_out(&own, &a, dir, sizeof(dir));
	pid_t killer = fork();
	if (killer == 0) {
		(void)usleep(300000);
		(void)kill(zygote, SIGKILL);
		_exit(0);
	}
	action_execute(&own, &a, dir, &o);
	CHECK(o.code == -BJ_UNAVAILABLE);
	CHECK(o.took_ns < PROMPT_MS * BJ_NS_PER_MS);
	(void)waitpid(killer, NULL, 0);
	action_remove(dir); /* nobody holds it any more */
	outcome_free(&o);
	slot_stop(&own);
}

/** The child of ours with that name; -1 without one. */
static pid_t child_called(const char *name)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "re");
	pid_t found = -1;
	int pid;
	/* NOLINTNEXTLINE(cert-err34-c): numbers that the kernel printed */
	while (f && fscanf(f, "%d", &pid) == 1) {
		char comm[32] = "";
		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd >= 0 ? read(fd, comm, sizeof(comm) - 1) : 0;
		bj_close_fdp(&fd);
		comm[n > 0 ? n - 1 : 0] = '\0'; /* without the newline */
		if (strcmp(comm, name) == 0)
			found = pid;
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void *kill_init_soon(void *arg)
{
	pid_t *init = arg;
	for (int i = 0; i < 500 && *init < 0; i++) {
		(void)usleep(10000);
		*init = child_called("belljar-init");
	}
	(void)usleep(50000); /* into the command */
	if (*init > 0)
		(void)kill(*init, SIGKILL);
	return NULL;
}

/** Killed by somebody else: an error, never an exit code that the command did not give. */
static void test_init_killed_from_outside(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/sleep", "600" } };
	pthread_t thread;
	pid_t init = -1;
	CHECK(pthread_create(&thread, NULL, kill_init_soon, &init) == 0);
	action_run(&slot, &a, &o);
	(void)pthread_join(thread, NULL);
	CHECK(init > 0);
	CHECK(o.code == -BJ_UNAVAILABLE);
	outcome_free(&o);
	still_works(); /* the zygote is not hurt, though it shared init's memory */
}

/**
 * In a child: an own slot and an action whose only trace is a pipe that it holds open for writing.
 */
BJ_NORETURN static void doomed_executor(int number)
{
	struct slot own;
	slot_start(&own, &host, (unsigned)number);
	struct outcome o;
	struct action a = { .argv = { "/bin/sh", "-c", "sleep 600 & setsid sleep 600 & wait" } };
	for (;;)
		action_run(&own, &a, &o);
}

static bool descends(int pid, int ancestor)
{
	for (int depth = 0; pid > 1 && depth < 64; depth++) {
		char path[64], stat[512] = "";
		(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		FILE *f = fopen(path, "re");
		size_t n = f ? fread(stat, 1, sizeof(stat) - 1, f) : 0;
		if (f)
			(void)fclose(f);
		stat[n] = '\0';
		const char *end = strrchr(stat, ')');
		/* NOLINTNEXTLINE(cert-err34-c): a number that the kernel printed */
		if (!end || sscanf(end + 1, " %*c %d", &pid) != 1)
			return false;
		if (pid == ancestor)
			return true;
	}
	return false;
}

/** Processes that come from @ancestor. */
static int offspring(int pids[], int max, int ancestor)
{
	int n = 0;
	DIR *proc = opendir("/proc");
	for (struct dirent *e; proc && n < max && (e = readdir(proc));) {
		uint64_t pid;
		if (bj_str_to_u64(bj_str_of(e->d_name), &pid) && descends((int)pid, ancestor))
			pids[n++] = (int)pid;
	}
	if (proc)
		(void)closedir(proc);
	return n;
}

/** L65, vx-121: kill -9 of the executor at any moment takes everything along. */
static void test_executor_killed(void)
{
	for (int round = 0; round < 25; round++) {
		int hold[2];
		/* not CLOEXEC: zygote and init must drop it themselves */
		CHECK(pipe2(hold, 0) == 0);
		pid_t child = fork();
		if (child == 0) {
			(void)close(hold[0]);
			doomed_executor(30 + round);
		}
		(void)close(hold[1]);
		(void)usleep((useconds_t)(round * 1700));
		(void)kill(child, SIGKILL);
		(void)waitpid(child, NULL, 0);
		/*
		 * fork's copy in the executor is gone; the end of file comes when no process of the
		 * jail has it either
		 */
		struct pollfd p = { .fd = hold[0], .events = POLLIN };
		CHECK(poll(&p, 1, PROMPT_MS) == 1);
		(void)close(hold[0]);
	}
}

static void test_executor_killed_nobody_left(void)
{
	pid_t child = fork();
	if (child == 0)
		doomed_executor(21);
	int pids[64], n = 0;
	for (int i = 0; i < 200 && n < 5; i++) { /* zygote, init, sh, two sleeps */
		(void)usleep(20000);
		n = offspring(pids, 64, child);
	}
	CHECK(n >= 5);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	for (int i = 0; i < n; i++) {
		int tries = 0;
		while (kill(pids[i], 0) == 0 && tries++ < 100)
			(void)usleep(20000); /* they die of the kernel's signal, a moment later */
		CHECK(kill(pids[i], 0) < 0 && errno == ESRCH);
	}
}

static void test_thread_ends(void)
{
	/*
	 * L66: an action outlives nothing of its starter but the slot: run from a thread that ends,
	 * then from another
	 */
	struct action a = { .argv = { "/bin/echo", "hi" } };
	for (int i = 0; i < 3; i++) {
		struct parallel p = { .slot = &slot, .action = &a };
		action_lay_out(&slot, &a, p.dir, sizeof(p.dir));
		pthread_t thread;
		CHECK(pthread_create(&thread, NULL, run_parallel, &p) == 0);
		(void)pthread_join(thread, NULL);
		CHECK(p.outcome.code == 0 && out_is(&p.outcome, "hi\n"));
		outcome_free(&p.outcome);
		action_remove(p.dir);
	}
}

static void *close_soon(void *arg)
{
	(void)usleep(100000);
	(void)close(*(int *)arg);
	return NULL;
}

static void test_executable_held_open(void)
{
	/* L45: somebody still has the executable open for writing when the action starts */
	struct action a = { .argv = { "./x" }, .inputs = { { "x", "#!/bin/sh\nexit 7\n", true } } };
	char dir[320], path[400];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	(void)snprintf(path, sizeof(path), "%s/lower/x", dir);
	CHECK(chmod(path, 0755) == 0);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, close_soon, &fd) == 0);
	struct outcome o;
	action_execute(&slot, &a, dir, &o);
	(void)pthread_join(thread, NULL);
	CHECK(ran(&o) && o.result.end == BJ_END_EXITED && o.result.exit_code == 7);
	outcome_free(&o);
	action_remove(dir);
}

static void test_many_executables(void)
{
	/* L45: distinct executables, fresh each time, two slots at once: no ETXTBSY */
	for (int i = 0; i < 50; i++) {
		struct action a = { .argv = { "./x" },
				    .inputs = { { "x", "#!/bin/sh\nexit 0\n", true } } };
		struct parallel p[2];
		in_parallel(&a, p);
		for (int k = 0; k < 2; k++)
			outcome_free(&p[k].outcome);
	}
}

const struct test life_tests[] = {
	TEST_CASE(exit_codes),
	TEST_CASE(stray),
	TEST_CASE(swarm),
	TEST_CASE(timeout),
	TEST_CASE(timeout_before_start),
	TEST_CASE(cancel),
	TEST_CASE(flood),
	TEST_CASE(streams_apart),
	TEST_CASE(output_hook_stops),
	TEST_CASE(usage),
	TEST_CASE(usage_of_the_killed),
	TEST_CASE(zygote_dies),
	TEST_CASE(init_killed_from_outside),
	TEST_CASE(executor_killed),
	TEST_CASE(executor_killed_nobody_left),
	TEST_CASE(thread_ends),
	TEST_CASE(executable_held_open),
	TEST_CASE(many_executables),
	{ NULL, NULL },
};
