// SPDX-License-Identifier: Apache-2.0
/*
 * What must not disturb the observer, nor be disturbed by it: signals on both sides, callers that are killed, pipelines, threads, vfork,
 * sanitizers, the end of the supervisor. Waiting is always for an event; the limits against hanging are generous.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"
#include "tests/unit/observer-harness.h"

static struct observed run;
static char base[64] = "/tmp/observer_stress_test.XXXXXX";

static int set_up(void **state)
{
	static const char *const toolchain[] = { "/usr", "/lib", "/lib64", "/bin", "/etc", NULL };
	static const char *const quiet[] = { "/proc", "/dev", NULL };

	(void)state;
	observed_classes = (struct observed_classes){ .toolchain = toolchain, .quiet = quiet };
	return mkdtemp(base) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return bj_remove_tree(AT_FDCWD, base);
}

static void start(enum bj_observe level)
{
	memset(&run, 0, offsetof(struct observed, seen));
	run.level = level;
}

static int exit_code(void)
{
	return WIFEXITED(run.status) ? WEXITSTATUS(run.status) : -1;
}

static void ignore(int signal)
{
	(void)signal;
}

/* Every millisecond, without SA_RESTART: whatever can be interrupted is. */
static void start_signals(int usec)
{
	struct sigaction action = { .sa_handler = ignore };
	struct itimerval timer = { { 0, usec }, { 0, usec } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static int open_missing(const char *name, int n)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s-%d", base, name, n);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* ---- signals ---- */

static int open_many(void *arg)
{
	int n = *(const int *)arg;

	for (int i = 0; i < n; i++)
		if (open_missing("missing", i) != -1 || errno != ENOENT)
			return 1;
	return 0;
}

static void signals_to_the_supervisor(void **state)
{
	int n = 10000;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	start_signals(1000);
	observe(&run, open_many, &n);
	start_signals(0);
	assert_int_equal(exit_code(), 0);
	assert_int_equal(run.n_seen, n); /* the rest of MAX_SEEN is counted, too */
	assert_int_equal(run.stats.n_notifications, n);
	assert_true(run.stats.complete);
}

static int open_many_interrupted(void *arg)
{
	int n = *(const int *)arg;
	int n_interrupted = 0;

	start_signals(500);
	for (int i = 0; i < n; i++) {
		int got = open_missing("missing", i);

		if (got != -1 || (errno != ENOENT && errno != EINTR))
			return 1;
		if (errno == EINTR)
			n_interrupted++;
	}
	/* Once received, a notification waits for death only (5.19 and later); before that the signal may win. */
	return n_interrupted > n / 10 ? 2 : 0;
}

static void signals_to_the_caller(void **state)
{
	int n = 10000;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, open_many_interrupted, &n);
	assert_int_equal(exit_code(), 0);
	assert_in_range(run.n_seen, n * 9 / 10, n);
	assert_int_equal(run.stats.n_notifications, run.n_seen + run.stats.n_gone);
	assert_true(run.stats.complete);
}

/* ---- killed callers ---- */

static int children_killed_at_random(void *arg)
{
	unsigned int seed = 12345;
	pid_t pids[200];

	(void)arg;
	for (size_t i = 0; i < BJ_ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			for (int n = 0;; n++)
				(void)open_missing("loop", n);
		if (pids[i] < 0)
			return 1;
		/* A few at a time, so that two processors get through. */
		if (i >= 8 && kill(pids[i - 8], SIGKILL) != 0)
			return 2;
		for (int n = rand_r(&seed) % 20; n > 0; n--)
			(void)open_missing("pause", n);
	}
	for (size_t i = BJ_ARRAY_LEN(pids) - 8; i < BJ_ARRAY_LEN(pids); i++)
		if (kill(pids[i], SIGKILL) != 0)
			return 3;
	for (size_t i = 0; i < BJ_ARRAY_LEN(pids); i++) {
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i] || !WIFSIGNALED(status))
			return 4;
	}
	return 0;
}

static void callers_that_are_killed(void **state)
{
	int n = 10;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, children_killed_at_random, NULL);
	assert_int_equal(exit_code(), 0);
	assert_in_range(run.n_seen, 200, SIZE_MAX);
	assert_int_equal(run.stats.n_dropped, 0);
	assert_int_equal(run.stats.n_notifications, run.n_seen + run.stats.n_gone);
	/* The next action is none the wiser. */
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, open_many, &n);
	assert_int_equal(exit_code(), 0);
	assert_int_equal(run.n_seen, n);
}

/* ---- programs ---- */

static int shell(void *script)
{
	char *const argv[] = { "sh", "-c", script, NULL };
	char *const envp[] = { "PATH=/usr/bin:/bin", NULL };

	if (chdir(base) != 0)
		return 90;
	(void)execve("/bin/sh", argv, envp);
	return 91;
}

static void pipelines(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, shell,
		"i=0; while [ $i -lt 100 ]; do [ \"$(echo abc | cat | cat)\" = abc ] || exit 1; "
		"i=$((i+1)); done");
	assert_int_equal(exit_code(), 0);
	assert_int_equal(run.stats.n_dropped, 0);
}

static void a_shell_that_kills_itself(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, shell, "kill -SEGV $$");
	assert_true(WIFSIGNALED(run.status));
	assert_int_equal(WTERMSIG(run.status), SIGSEGV);
}

static void a_program_with_the_address_sanitizer(void **state)
{
	(void)state;
	if (access("/usr/bin/cc", X_OK) != 0)
		skip_or_fail("no C compiler");
	start(BJ_OBSERVE_OFF);
	observe(&run, shell,
		"printf 'int main(void){return 0;}' >a.c && exec /usr/bin/cc -fsanitize=address -o "
		"a a.c");
	if (exit_code() != 0)
		skip_or_fail("no address sanitizer");
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, shell, "./a 2>err; code=$?; cat err; [ -s err ] && exit 80; exit $code");
	assert_int_equal(exit_code(), 0);
}

static int trace_a_child(void *arg)
{
	pid_t pid = fork();
	int status;

	(void)arg;
	if (pid == 0) {
		if (syscall(SYS_ptrace, 0 /* PTRACE_TRACEME */, 0, NULL, NULL) != 0)
			_exit(1);
		raise(SIGSTOP);
		_exit(open_missing("traced", 1) == -1 && errno == ENOENT ? 33 : 2);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 1;
	/* PTRACE_SYSCALL until it exits. */
	while (WIFSTOPPED(status)) {
		if (syscall(SYS_ptrace, 24, pid, NULL, NULL) != 0 ||
		    waitpid(pid, &status, 0) != pid)
			return 2;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 33 ? 0 : 3;
}

static void a_debugger_inside(void **state)
{
	char path[128];

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, trace_a_child, NULL);
	assert_int_equal(exit_code(), 0);
	(void)snprintf(path, sizeof(path), "%s/traced-1", base);
	assert_int_equal(count_seen(&run, BJ_OP_OPEN_READ, path), 1);
}

/* ---- threads and vfork ---- */

enum { N_THREADS = 8, OPENS_PER_THREAD = 500 };

static void *thread_body(void *arg)
{
	const char *name = arg;

	for (int i = 0; i < OPENS_PER_THREAD; i++)
		if (open_missing(name, i) != -1 || errno != ENOENT)
			return (void *)name;
	return NULL;
}

static int threads(void *arg)
{
	static char names[N_THREADS][32];
	pthread_t ids[N_THREADS];
	int result = 0;

	(void)arg;
	for (int i = 0; i < N_THREADS; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "t%d", i);
		if (pthread_create(&ids[i], NULL, thread_body, names[i]) != 0)
			return 1; /* clone3 is refused: libc must have fallen back */
	}
	for (int i = 0; i < N_THREADS; i++) {
		void *failed;

		(void)pthread_join(ids[i], &failed);
		result |= failed != NULL;
	}
	return result;
}

static void calls_of_many_threads(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, threads, NULL);
	assert_int_equal(exit_code(), 0);
	assert_in_range(run.n_seen, N_THREADS * OPENS_PER_THREAD,
			N_THREADS * OPENS_PER_THREAD + 20);
	assert_true(run.stats.complete);
	/* Threads are told as their process. */
	for (size_t i = 1; i < run.n_seen && i < MAX_SEEN; i++)
		assert_int_equal(run.seen[i].pid, run.seen[0].pid);
	for (int i = 0; i < N_THREADS; i++) {
		char path[128];

		for (int n = 0; n < OPENS_PER_THREAD; n++) {
			(void)snprintf(path, sizeof(path), "%s/t%d-%d", base, i, n);
			if (count_seen(&run, BJ_OP_OPEN_READ, path) != 1)
				fail_msg("%s", path);
		}
	}
}

static int vfork_and_exec(void *arg)
{
	static char program[128];
	char *const argv[] = { program, NULL };
	int status;
	pid_t pid;

	(void)arg;
	(void)snprintf(program, sizeof(program), "%s/no-such-program", base);
	pid = vfork(); /* NOLINT: what is tested */
	if (pid == 0) {
		(void)execve(program, argv, argv + 1);
		_exit(errno == ENOENT ? 44 : 45); /* NOLINT: errno is a call; harmless here */
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 44
		       ? 0
		       : 1;
}

static void the_child_of_vfork(void **state)
{
	ssize_t i;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, vfork_and_exec, NULL);
	assert_int_equal(exit_code(), 0);
	i = find_seen(&run, 0, BJ_OP_EXEC, NULL);
	assert_true(i >= 0);
	assert_int_equal(run.seen[i].error, ENOENT);
	assert_string_equal(run.seen[i].comm,
			    "observer_stress"); /* 15 bytes: the old image still */
}

/* ---- names follow an exec ---- */

static void names_of_the_caller(void **state)
{
	ssize_t i;
	char path[128];

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, shell, "cat sh-child; exec cat same-pid");
	(void)snprintf(path, sizeof(path), "%s/sh-child", base);
	i = find_seen(&run, 0, BJ_OP_OPEN_READ, path);
	assert_true(i >= 0);
	assert_string_equal(run.seen[i].comm, "cat");
	assert_string_equal(run.seen[i].argv0, "cat");
	assert_string_equal(run.seen[i].exe, "/usr/bin/cat");
	(void)snprintf(path, sizeof(path), "%s/same-pid", base);
	i = find_seen(&run, 0, BJ_OP_OPEN_READ, path);
	assert_true(i >= 0);
	assert_string_equal(run.seen[i].comm, "cat");
}

/* ---- arguments without sense ---- */

enum { N_RANDOM_CALLS = 40000, RANDOM_BYTES = 8192 };

/*
 * Names that stay below the working directory, addresses, structures: every pointer may be any of them, or end in a hole, or be none. No
 * byte makes a path absolute or climb, so that the calls that do succeed do no harm.
 */
static void fill_random(char *bytes, size_t n, unsigned int *seed)
{
	static const char alphabet[] = "abcdefgh\0\0\1\2\12\xff\xc3\xa9 #!-~";

	for (size_t i = 0; i < n; i++)
		bytes[i] = alphabet[(size_t)rand_r(seed) % sizeof(alphabet)];
}

static long random_argument(char *bytes, unsigned int *seed)
{
	static const long plain[] = { 0,
				      1,
				      -1,
				      AT_FDCWD,
				      3,
				      7,
				      16,
				      24,
				      128,
				      4096,
				      AT_EMPTY_PATH,
				      AT_SYMLINK_NOFOLLOW,
				      0x7fffffff };
	unsigned int choice = (unsigned int)rand_r(seed) % 8;

	if (choice < 3)
		return plain[(size_t)rand_r(seed) % BJ_ARRAY_LEN(plain)];
	if (choice == 3)
		return rand_r(seed);
	if (choice == 4) /* near the end of what is mapped */
		return (long)(uintptr_t)(bytes + RANDOM_BYTES - rand_r(seed) % 64);
	return (long)(uintptr_t)(bytes + rand_r(seed) % RANDOM_BYTES);
}

static int random_calls(void *arg)
{
	unsigned int seed = 20261130;
	char *bytes = mmap(NULL, RANDOM_BYTES * 2, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	if (bytes == MAP_FAILED || munmap(bytes + RANDOM_BYTES, RANDOM_BYTES) != 0 ||
	    chdir(base) != 0)
		return 1;
	(void)syscall(SYS_close_range, 0, ~0U, 0);
	for (int i = 0; i < N_RANDOM_CALLS; i++) {
		const struct bj_call *call = &bj_calls[(size_t)rand_r(&seed) % bj_n_calls];
		long args[6];
#if defined(__x86_64__)
		int nr = call->nr[BJ_ARCH_X86_64];
#else
		int nr = call->nr[BJ_ARCH_AARCH64];
#endif

		if (call->shape == BJ_SHAPE_DENY || call->op == BJ_OP_CHDIR || nr < 0)
			continue;
		if (i % 16 == 0)
			fill_random(bytes, RANDOM_BYTES, &seed);
		for (int n = 0; n < 6; n++)
			args[n] = random_argument(bytes, &seed);
		(void)syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]);
	}
	return 0;
}

static void arguments_without_sense(void **state)
{
	(void)state;
	assert_int_equal(chmod(base, 0777), 0);
	start(BJ_OBSERVE_STRICT);
	run.uid = geteuid() == 0 ? 65534 : 0;
	observe(&run, random_calls, NULL);
	assert_int_equal(exit_code(), 0);
	assert_in_range(run.n_seen, 1000, SIZE_MAX);
	assert_in_range(run.stats.n_notifications, N_RANDOM_CALLS / 4, N_RANDOM_CALLS);
	for (size_t i = 0; i < run.n_seen && i < MAX_SEEN; i++)
		if (run.seen[i].path[0] != '\0' &&
		    strncmp(run.seen[i].path, base, strlen(base)) != 0)
			fail_msg("%s", run.seen[i].path);
}

/* ---- the end of the supervisor ---- */

static int open_until_nobody_listens(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100000000; i++) {
		if (open_missing("until", i) != -1)
			return 1;
		if (errno == ENOSYS)
			return 0;
		if (errno != ENOENT)
			return 2;
	}
	return 3;
}

static void the_supervisor_ends(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	run.stop_after = 1000;
	observe(&run, open_until_nobody_listens, NULL);
	assert_int_equal(exit_code(), 0);
	assert_in_range(run.n_seen, 1000, 1100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_to_the_supervisor),
		cmocka_unit_test(signals_to_the_caller),
		cmocka_unit_test(callers_that_are_killed),
		cmocka_unit_test(pipelines),
		cmocka_unit_test(a_shell_that_kills_itself),
		cmocka_unit_test(a_program_with_the_address_sanitizer),
		cmocka_unit_test(a_debugger_inside),
		cmocka_unit_test(calls_of_many_threads),
		cmocka_unit_test(the_child_of_vfork),
		cmocka_unit_test(names_of_the_caller),
		cmocka_unit_test(arguments_without_sense),
		cmocka_unit_test(the_supervisor_ends),
	};

	return cmocka_run_group_tests_name("observer_stress", tests, set_up, tear_down);
}
