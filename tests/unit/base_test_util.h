// SPDX-License-Identifier: Apache-2.0
/**
 * base_test_util.h - what the unit tests of base share: temporary directories, children, deaths.
 */
#ifndef BJ_TESTS_UNIT_BASE_TEST_UTIL_H
#define BJ_TESTS_UNIT_BASE_TEST_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/macros.h"

/** In a child: leaves with the line number in the log when @cond does not hold. */
#define CHILD_CHECK(cond)                                                                          \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__,      \
				#cond, errno);                                                     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/** A child that returns from its function with this was not able to run its test. */
enum { CHILD_SKIPPED = 77 };

/** Runs @fn in a child; returns its wait status. */
BJ_UNUSED static int run_in_child(int (*fn)(void *arg), void *arg)
{
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn(arg));
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/** As run_in_child(), and wants success; a skip prints its reason, or fails under BJ_MUST_RUN=1. */
BJ_UNUSED static void expect_child_ok(int (*fn)(void *arg), void *arg, const char *skip_reason)
{
	int status = run_in_child(fn, arg);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CHILD_SKIPPED) {
		const char *must_run = getenv("BJ_MUST_RUN");
		if (must_run && strcmp(must_run, "1") == 0)
			fail_msg("skipped: %s", skip_reason);
		print_message("skipped: %s\n", skip_reason);
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

struct abort_call {
	void (*fn)(void *arg);
	void *arg;
};

BJ_UNUSED static int abort_child(void *arg)
{
	const struct abort_call *call = arg;
	struct rlimit none = { 0, 0 };
	(void)setrlimit(RLIMIT_CORE, &none); /* tidiness only */
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	(void)dup2(null_fd, STDERR_FILENO); /* the message is expected: keep it out of the log */
	(void)signal(SIGABRT, SIG_DFL);	    /* cmocka catches it */
	call->fn(call->arg);
	return 0;
}

/** Passes when fn(arg) dies of a failed bj_assert(). */
BJ_UNUSED static void expect_abort(void (*fn)(void *arg), void *arg)
{
	struct abort_call call = { fn, arg };
	int status = run_in_child(abort_child, &call);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

/**
 * A fresh directory in /dev/shm, since tests that make thousands of files need not wait for a disk, or below TEST_TMPDIR
 * or /tmp; its path goes to @path. Returns a descriptor.
 */
BJ_UNUSED static int make_temp_dir(char path[4096])
{
	const char *tmpdir = getenv("TEST_TMPDIR");
	const char *base = getenv("BJ_TEST_ON_DISK") || access("/dev/shm", W_OK | X_OK) != 0
				   ? (tmpdir ? tmpdir : "/tmp")
				   : "/dev/shm";
	snprintf(path, 4096, "%s/bj-test-XXXXXX", base);
	assert_non_null(mkdtemp(path));
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

#endif
