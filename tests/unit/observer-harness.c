// SPDX-License-Identifier: Apache-2.0
/* See the header. The child tells the number of its listener through a pipe (write is not observed), and the parent takes it. */
#include "tests/unit/observer-harness.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/macros.h"

struct observed_classes observed_classes;

enum { TIME_LIMIT_SECONDS = 240 };

static bool is_below(struct bj_str path, const char *const *dirs)
{
	for (; dirs && *dirs; dirs++) {
		size_t len = strlen(*dirs);

		if (path.len >= len && memcmp(path.ptr, *dirs, len) == 0 &&
		    (path.len == len || path.ptr[len] == '/'))
			return true;
	}
	return false;
}

static enum bj_path_class classify(void *ctx, struct bj_str path)
{
	(void)ctx;
	assert_true(path.len > 0 && path.ptr[0] == '/');
	if (is_below(path, observed_classes.declared))
		return BJ_PATH_DECLARED;
	if (is_below(path, observed_classes.toolchain))
		return BJ_PATH_TOOLCHAIN;
	return is_below(path, observed_classes.quiet) ? BJ_PATH_QUIET : BJ_PATH_UNKNOWN;
}

static void copy(char *out, size_t cap, struct bj_str s)
{
	(void)snprintf(out, cap, "%.*s", BJ_STR_FMT(s));
}

static struct seen_record *next_record(struct observed *o)
{
	static struct seen_record spill;
	struct seen_record *r = o->n_seen < MAX_SEEN ? &o->seen[o->n_seen] : &spill;

	o->n_seen++;
	memset(r, 0, sizeof(*r));
	return r;
}

static void touched(void *ctx, struct bj_str path, enum bj_op op)
{
	struct seen_record *r = next_record(ctx);

	r->is_touch = true;
	r->op = op;
	copy(r->path, sizeof(r->path), path);
}

static void attempt(void *ctx, const struct bj_attempt *a)
{
	struct seen_record *r = next_record(ctx);

	r->op = a->op;
	r->cls = a->cls;
	r->error = a->error;
	r->is_dir = a->is_dir;
	r->pid = (pid_t)a->pid;
	r->family = a->family;
	r->port = a->port;
	copy(r->written, sizeof(r->written), a->written);
	copy(r->path, sizeof(r->path), a->path);
	copy(r->resolved, sizeof(r->resolved), a->resolved);
	copy(r->via, sizeof(r->via), a->via);
	copy(r->exe, sizeof(r->exe), a->exe);
	copy(r->argv0, sizeof(r->argv0), a->argv0);
	copy(r->comm, sizeof(r->comm), bj_str_of(a->comm));
	copy(r->address, sizeof(r->address), bj_str_of(a->address));
	copy(r->syscall, sizeof(r->syscall), bj_str_of(a->syscall));
}

/* One of the tests is interrupted all the time. */
static void read_all(int fd, void *buf, size_t n_bytes)
{
	ssize_t got;

	do
		got = read(fd, buf, n_bytes);
	while (got < 0 && errno == EINTR);
	if (got != (ssize_t)n_bytes)
		fail_msg("the child could not attach the filter");
}

static BJ_NORETURN void child(const struct observed *o, const struct bj_observer_filter *filter,
			      const int pipes[2][2], int (*body)(void *), void *arg)
{
	char go;
	int listener;

	if (o->uid != 0 && (setgroups(0, NULL) != 0 || setresgid(o->uid, o->uid, o->uid) != 0 ||
			    setresuid(o->uid, o->uid, o->uid) != 0))
		_exit(97);
	/* Should the test fail, nothing of it is left waiting. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		_exit(98);
	listener = bj_observer_attach(filter);
	if (listener < -1)
		_exit(99);
	if (write(pipes[0][1], &listener, sizeof(listener)) != sizeof(listener) ||
	    read(pipes[1][0], &go, 1) != 1)
		_exit(96);
	if (listener >= 0)
		close(listener);
	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	_exit(body(arg));
}

static int take_listener(pid_t pid, int number)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);

	assert_true(fd >= 0);
	close(pidfd);
	return fd;
}

static void supervise(struct observed *o, struct bj_observer *observer)
{
	uint64_t deadline = bj_deadline_ns(TIME_LIMIT_SECONDS * BJ_NS_PER_SEC);
	struct pollfd poll_fd = { .fd = bj_observer_fd(observer), .events = POLLIN };
	struct bj_err err = BJ_ERR_NULL;

	for (;;) {
		int n;

		bj_observer_stats(observer, &o->stats);
		if (o->stop_after && o->stats.n_notifications >= o->stop_after)
			return;
		n = poll(&poll_fd, 1, bj_poll_timeout_ms(deadline));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail_msg("the observed child takes too long");
		if (poll_fd.revents & POLLIN) {
			if (bj_observer_handle(observer, &err) != 0)
				fail_msg("%s", err.msg);
		} else if (poll_fd.revents) {
			return;
		}
	}
}

void observe(struct observed *o, int (*body)(void *arg), void *arg)
{
	const struct bj_observer_hooks hooks = { .ctx = o,
						 .classify = classify,
						 .touched = o->no_touched ? NULL : touched,
						 .attempt = attempt };
	struct bj_observer_filter *filter = NULL;
	struct bj_observer *observer = NULL;
	struct bj_err err = BJ_ERR_NULL;
	int pipes[2][2];
	int listener;
	int root_fd = o->root_fd ? o->root_fd : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	o->n_seen = 0;
	assert_int_equal(bj_observer_filter_new(o->level, &filter, &err), 0);
	assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child(o, filter, pipes, body, arg);
	close(pipes[0][1]);
	close(pipes[1][0]);
	read_all(pipes[0][0], &listener, sizeof(listener));
	if (listener >= 0) {
		listener = take_listener(pid, listener);
		assert_int_equal(
			bj_observer_new(listener, root_fd, o->level, &hooks, &observer, &err), 0);
	}
	assert_int_equal(write(pipes[1][1], "g", 1), 1);
	if (observer)
		supervise(o, observer);
	if (observer)
		bj_observer_stats(observer, &o->stats);
	bj_observer_free(observer);
	while (waitpid(pid, &o->status, 0) < 0)
		assert_int_equal(errno, EINTR);
	bj_observer_filter_free(filter);
	close(pipes[0][0]);
	close(pipes[1][1]);
	if (!o->root_fd)
		close(root_fd);
}

ssize_t find_seen(const struct observed *o, size_t from, enum bj_op op, const char *path)
{
	for (size_t i = from; i < o->n_seen && i < MAX_SEEN; i++)
		if ((op == 0 || o->seen[i].op == op) &&
		    (!path || strcmp(o->seen[i].path, path) == 0))
			return (ssize_t)i;
	return -1;
}

size_t count_seen(const struct observed *o, enum bj_op op, const char *path)
{
	size_t n = 0;

	for (ssize_t i = -1; (i = find_seen(o, (size_t)(i + 1), op, path)) >= 0;)
		n++;
	return n;
}

void print_seen(const struct observed *o)
{
	for (size_t i = 0; i < o->n_seen && i < MAX_SEEN; i++) {
		const struct seen_record *r = &o->seen[i];

		print_message("%s %s error %d class %d written \"%s\" path \"%s\" resolved \"%s\" "
			      "via \"%s\" %s:%u %s\n",
			      r->is_touch ? "touched" : "attempt", bj_op_name(r->op), r->error,
			      r->cls, r->written, r->path, r->resolved, r->via, r->address, r->port,
			      r->syscall);
	}
}

void skip_or_fail(const char *reason)
{
	print_message("skipped: %s\n", reason);
	if (getenv("BJ_MUST_RUN"))
		fail_msg("%s", reason);
	skip();
}
