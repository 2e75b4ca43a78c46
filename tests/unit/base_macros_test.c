// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"

static void overflow_saturates(void **state)
{
	(void)state;
	assert_int_equal(bj_size_add(2, 3), 5);
	assert_true(bj_size_add(SIZE_MAX, 0) == SIZE_MAX);
	assert_true(bj_size_add(SIZE_MAX - 1, 1) == SIZE_MAX);
	assert_true(bj_size_add(SIZE_MAX, SIZE_MAX) == SIZE_MAX);
	assert_int_equal(bj_size_mul(7, 6), 42);
	assert_int_equal(bj_size_mul(0, SIZE_MAX), 0);
	assert_true(bj_size_mul(SIZE_MAX / 2 + 1, 2) == SIZE_MAX);
}

static void steal_ptr_leaves_null(void **state)
{
	(void)state;
	int x = 1;
	int *p = &x;
	int *q = BJ_STEAL_PTR(p);
	assert_ptr_equal(q, &x);
	assert_null(p);
}

static void steal_fd_leaves_ebadf(void **state)
{
	(void)state;
	int fd = 5;
	assert_int_equal(BJ_STEAL_FD(fd), 5);
	assert_int_equal(fd, -EBADF);
}

static void close_fdp_closes_and_keeps_errno(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	int old = ends[0];
	errno = ENOENT;
	bj_close_fdp(&ends[0]);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ends[0], -EBADF);
	assert_int_equal(fcntl(old, F_GETFD), -1);
	bj_close_fdp(&ends[0]); /* nothing held */
	assert_int_equal(errno, EBADF);
	bj_close_fdp(&ends[1]);
}

static void freep_accepts_null_and_sets_null(void **state)
{
	(void)state;
	char *p = bj_strdup("x");
	bj_freep(&p);
	assert_null(p);
	bj_freep(&p);
	assert_null(p);
}

static void cleanup_runs_unless_stolen(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	int kept;
	{
		bj_cleanup(bj_close_fdp) int closed = ends[0];
		bj_cleanup(bj_close_fdp) int stolen = ends[1];
		kept = BJ_STEAL_FD(stolen);
		(void)closed;
	}
	assert_int_equal(fcntl(ends[0], F_GETFD), -1);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	close(kept);
}

static void container_of_finds_the_whole(void **state)
{
	(void)state;
	struct whole {
		int a;
		int b;
	} whole;
	assert_ptr_equal(BJ_CONTAINER_OF(&whole.b, struct whole, b), &whole);
}

static void assert_false_condition(void *arg)
{
	bj_assert(*(int *)arg == 2);
}

static void a_failed_assertion_aborts(void **state)
{
	(void)state;
	int one = 1;
	expect_abort(assert_false_condition, &one);
	int two = 2;
	assert_false_condition(&two);
}

/* Runs with stderr in a pipe and gives back what was printed. */
static void an_assertion_prints_place_and_condition(void **state)
{
	(void)state;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		bj_assert_failed("x > 1", "dir/file.c", 42, "func");
	}
	close(ends[1]);
	char text[256] = "";
	ssize_t n = read(ends[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	assert_string_equal(text, "belljar: dir/file.c:42: func: assertion failed: x > 1\n");
	close(ends[0]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overflow_saturates),
		cmocka_unit_test(steal_ptr_leaves_null),
		cmocka_unit_test(steal_fd_leaves_ebadf),
		cmocka_unit_test(close_fdp_closes_and_keeps_errno),
		cmocka_unit_test(freep_accepts_null_and_sets_null),
		cmocka_unit_test(cleanup_runs_unless_stolen),
		cmocka_unit_test(container_of_finds_the_whole),
		cmocka_unit_test(a_failed_assertion_aborts),
		cmocka_unit_test(an_assertion_prints_place_and_condition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
