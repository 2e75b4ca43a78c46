// SPDX-License-Identifier: Apache-2.0
/*
 * What the observer costs: loops of open+close, attach, and a command of one's own, by level. Prints a table of minima and medians over
 * rounds in which the variants take turns; look at ratios and differences, not at single figures.
 *
 *	observer_bench [ROUNDS [COMMAND [ARGUMENT...]]]
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

enum { LOOPS = 5000, MAX_ROUNDS = 200 };

struct variant {
	const char *name;
	bool has_filter;
	enum bj_observe level;
	struct bj_observer_filter *filter;
};

static struct variant variants[] = {
	{ "none", false, BJ_OBSERVE_OFF, NULL },
	{ "off (deny only)", true, BJ_OBSERVE_OFF, NULL },
	{ "writes", true, BJ_OBSERVE_WRITES, NULL },
	{ "default", true, BJ_OBSERVE_DEFAULT, NULL },
	{ "strict", true, BJ_OBSERVE_STRICT, NULL },
};

struct job {
	const char *name;
	int (*body)(void *arg);
	void *arg;
	uint64_t per; /* divisor: loops */
};

/* Shared with the children. */
struct shared {
	uint64_t attach_ns, body_ns;
	uint64_t n_attempts, n_touches;
};
static struct shared *shared;

static enum bj_path_class classify(void *ctx, struct bj_str path)
{
	(void)ctx;
	if (bj_str_has_prefix(path, BJ_STR_LIT("/usr/")) ||
	    bj_str_has_prefix(path, BJ_STR_LIT("/etc/")) ||
	    bj_str_has_prefix(path, BJ_STR_LIT("/lib")) ||
	    bj_str_has_prefix(path, BJ_STR_LIT("/bin/")))
		return BJ_PATH_TOOLCHAIN;
	if (bj_str_has_prefix(path, BJ_STR_LIT("/proc/")) ||
	    bj_str_has_prefix(path, BJ_STR_LIT("/dev/")))
		return BJ_PATH_QUIET;
	return bj_str_eq(path, BJ_STR_LIT("/tmp/observer_bench.declared")) ? BJ_PATH_DECLARED
									   : BJ_PATH_UNKNOWN;
}

static void touched(void *ctx, struct bj_str path, enum bj_op op)
{
	(void)ctx;
	(void)path;
	(void)op;
	shared->n_touches++;
}

static void attempt(void *ctx, const struct bj_attempt *a)
{
	(void)ctx;
	(void)a;
	shared->n_attempts++;
}

static void supervise(int listener, enum bj_observe level)
{
	static const struct bj_observer_hooks hooks = { .classify = classify,
							.touched = touched,
							.attempt = attempt };
	struct bj_err err = BJ_ERR_NULL;
	struct bj_observer *observer;
	int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct pollfd poll_fd = { .fd = listener, .events = POLLIN };

	if (bj_observer_new(listener, root_fd, level, &hooks, &observer, &err) != 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	do {
		if (poll(&poll_fd, 1, -1) < 0)
			continue;
		if ((poll_fd.revents & POLLIN) && bj_observer_handle(observer, &err) != 0) {
			fprintf(stderr, "%s\n", err.msg);
			exit(1);
		}
	} while (!(poll_fd.revents & POLLHUP) || (poll_fd.revents & POLLIN));
	bj_observer_free(observer);
	close(root_fd);
}

static BJ_NORETURN void child(const struct variant *v, const struct job *job, const int pipes[2][2])
{
	int listener = -1;
	char go;
	uint64_t start;

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	start = bj_now_ns();
	if (v->has_filter)
		listener = bj_observer_attach(v->filter);
	shared->attach_ns = bj_now_ns() - start;
	if (write(pipes[0][1], &listener, sizeof(listener)) != sizeof(listener) ||
	    read(pipes[1][0], &go, 1) != 1)
		_exit(1);
	if (listener >= 0)
		close(listener);
	start = bj_now_ns();
	shared->body_ns = start;
	if (job->body(job->arg) != 0)
		_exit(1);
	shared->body_ns = bj_now_ns() - start;
	_exit(0);
}

/* Nanoseconds of the body (for a command: from its exec to its end). */
static uint64_t run_once(const struct variant *v, const struct job *job)
{
	int pipes[2][2];
	int listener = -1;
	pid_t pid;
	int status;

	if (pipe(pipes[0]) != 0 || pipe(pipes[1]) != 0)
		exit(1);
	pid = fork();
	if (pid == 0)
		child(v, job, pipes);
	if (read(pipes[0][0], &listener, sizeof(listener)) != sizeof(listener))
		exit(1);
	if (listener >= 0) {
		int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

		listener = (int)syscall(SYS_pidfd_getfd, pidfd, listener, 0);
		close(pidfd);
	}
	if (write(pipes[1][1], "g", 1) != 1)
		exit(1);
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	if (listener >= 0)
		supervise(listener, v->level);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "%s under %s: status %#x\n", job->name, v->name,
			(unsigned int)status);
		exit(1);
	}
	/* An exec'd command could not write its own end. */
	return job->per == 0 ? bj_now_ns() - shared->body_ns : shared->body_ns;
}

static int open_loop(void *path)
{
	for (int i = 0; i < LOOPS; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			close(fd);
	}
	return 0;
}

static int open_loop_relative(void *path)
{
	if (chdir("/tmp") != 0)
		return 1;
	return open_loop(path);
}

static int create_loop(void *path)
{
	for (int i = 0; i < LOOPS; i++) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		if (fd >= 0)
			close(fd);
	}
	return 0;
}

static int getppid_loop(void *arg)
{
	(void)arg;
	for (int i = 0; i < LOOPS; i++)
		(void)syscall(SYS_getppid);
	return 0;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static int command(void *arg)
{
	char *const *argv = arg;
	int null = open("/dev/null", O_WRONLY);

	(void)dup2(null, 1);
	(void)execvp(argv[0], argv);
	return 1;
}

static int by_value(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static void measure(const struct job *job, int rounds)
{
	static uint64_t ns[BJ_ARRAY_LEN(variants)][MAX_ROUNDS];
	double base = 0;
	bool is_attach = job->body == nothing;
	uint64_t per = job->per ? job->per : 1;

	for (int round = 0; round < rounds; round++) {
		for (size_t i = 0; i < BJ_ARRAY_LEN(variants); i++) {
			/* A different order each time. */
			size_t v = (i + (size_t)round) % BJ_ARRAY_LEN(variants);
			uint64_t body_ns = run_once(&variants[v], job);

			ns[v][round] = is_attach ? shared->attach_ns : body_ns;
		}
	}
	printf("%-34s", job->name);
	for (size_t v = 0; v < BJ_ARRAY_LEN(variants); v++) {
		double min_us, median_us;
		int middle = rounds / 2;

		qsort(ns[v], (size_t)rounds, sizeof(ns[v][0]), by_value);
		min_us = (double)ns[v][0] / (double)per / 1000;
		median_us = (double)ns[v][middle] / (double)per / 1000;
		if (v == 0)
			base = median_us;
		printf(" | %9.2f %9.2f %5.2fx", min_us, median_us, base > 0 ? median_us / base : 0);
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const char declared[] = "/tmp/observer_bench.declared";
	static const char unknown[] = "/tmp/observer_bench.unknown";
	const struct job jobs[] = {
		{ "attach", nothing, NULL, 1 },
		{ "getppid", getppid_loop, NULL, LOOPS },
		{ "open+close, toolchain", open_loop, (void *)"/usr/bin/env", LOOPS },
		{ "open, toolchain, missing", open_loop,
		  (void *)"/usr/include/observer-bench/none.h", LOOPS },
		{ "open+close, declared", open_loop, (void *)declared, LOOPS },
		{ "open+close, declared, relative", open_loop_relative,
		  (void *)"observer_bench.declared", LOOPS },
		{ "open+close, undeclared", open_loop, (void *)unknown, LOOPS },
		{ "open, undeclared, missing", open_loop, (void *)"/tmp/observer_bench.missing",
		  LOOPS },
		{ "open, undeclared, missing, relative", open_loop_relative,
		  (void *)"observer_bench.missing", LOOPS },
		{ "create+close, undeclared", create_loop, (void *)unknown, LOOPS },
	};
	struct bj_err err = BJ_ERR_NULL;
	uint64_t rounds = 15;

	if (argc > 1 &&
	    (!bj_str_to_u64(bj_str_of(argv[1]), &rounds) || rounds < 1 || rounds > MAX_ROUNDS)) {
		fprintf(stderr, "usage: observer_bench [ROUNDS [COMMAND [ARGUMENT...]]]\n");
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	for (size_t v = 0; v < BJ_ARRAY_LEN(variants); v++)
		if (bj_observer_filter_new(variants[v].level, &variants[v].filter, &err) != 0)
			return 1;
	close(open(declared, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	close(open(unknown, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	printf("%-34s", "us: min, median, ratio of medians");
	for (size_t v = 0; v < BJ_ARRAY_LEN(variants); v++)
		printf(" | %-26s", variants[v].name);
	printf("\n");
	if (argc > 2) {
		const struct job job = { argv[2], command, argv + 2, 0 };

		measure(&job, (int)rounds);
	} else {
		for (size_t i = 0; i < BJ_ARRAY_LEN(jobs); i++)
			measure(&jobs[i], (int)rounds);
	}
	(void)unlink(declared);
	(void)unlink(unknown);
	return 0;
}
