// SPDX-License-Identifier: Apache-2.0
/*
 * Predicted outcomes against the kernel's: an unprivileged child tries mutations of every kind in a writable directory, in one of
 * somebody else's, below a read-only mount and through links; each record must name the operation, the path and the errno.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "executor/base/macros.h"
#include "tests/unit/observer-harness.h"

enum { OTHER_UID = 65534, MAX_RESULTS = 128 };

static struct observed run;
static int *results;
static bool is_root;

static int write_proc(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? write(fd, text, strlen(text)) : -1;

	close(fd);
	return got == (ssize_t)strlen(text) ? 0 : -1;
}

/* One user, one group: root within. */
static int become_root_inside(void)
{
	char uids[32];
	char gids[32];

	(void)snprintf(uids, sizeof(uids), "0 %u 1", getuid());
	(void)snprintf(gids, sizeof(gids), "0 %u 1", getgid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
	    write_proc("/proc/self/uid_map", uids) != 0)
		return -1;
	return write_proc("/proc/self/setgroups", "deny") | write_proc("/proc/self/gid_map", gids);
}

/* A fresh tmpfs in a mount namespace of this test, at /tmp: nothing of it is left behind. */
static int mount_world(void)
{
	if (unshare(CLONE_NEWNS) != 0 && become_root_inside() != 0)
		return -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return -1;
	return mount("world", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
}

static int make_world(void)
{
	static const char *const dirs[] = { "own", "own/sub", "own/full", "theirs",
					    "ro",  "ro/dir",  "ro/full",  "quiet" };
	static const char *const files[] = { "own/file", "own/mine", "own/full/x", "theirs/file",
					     "ro/file",	 "ro/mine",  "ro/full/x" };

	for (size_t i = 0; i < BJ_ARRAY_LEN(dirs); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/tmp/%s", dirs[i]);
		if (mkdir(path, 0755) != 0)
			return -1;
	}
	for (size_t i = 0; i < BJ_ARRAY_LEN(files); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/tmp/%s", files[i]);
		if (mknod(path, S_IFREG | 0644, 0) != 0)
			return -1;
	}
	if (symlink("../theirs", "/tmp/own/to-theirs") != 0 ||
	    symlink("new-target", "/tmp/own/dangling") != 0 ||
	    symlink("file", "/tmp/own/to-file") != 0 ||
	    symlink("/tmp/quiet/x", "/tmp/own/to-quiet") != 0)
		return -1;
	if (is_root) {
		static const char *const own[] = { "own",      "own/sub", "own/full", "own/full/x",
						   "own/mine", "ro/mine", "ro/full",  "quiet" };

		for (size_t i = 0; i < BJ_ARRAY_LEN(own); i++) {
			char path[64];

			(void)snprintf(path, sizeof(path), "/tmp/%s", own[i]);
			if (chown(path, OTHER_UID, OTHER_UID) != 0)
				return -1;
		}
	}
	if (mount("/tmp/ro", "/tmp/ro", NULL, MS_BIND, NULL) != 0)
		return -1;
	return mount(NULL, "/tmp/ro", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
		     NULL);
}

static int set_up(void **state)
{
	static const char *const quiet[] = { "/tmp/quiet", "/proc", "/dev", NULL };

	(void)state;
	is_root = geteuid() == 0;
	results = mmap(NULL, MAX_RESULTS * sizeof(int), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return -1;
	if (mount_world() != 0) {
		perror("mount");
		results = NULL;
		return 0;
	}
	if (is_root) {
		/* Within a user namespace that maps one uid nobody else can be become. */
		pid_t pid = fork();
		int status;

		if (pid == 0)
			_exit(setresuid(OTHER_UID, OTHER_UID, OTHER_UID) == 0 ? 0 : 1);
		if (waitpid(pid, &status, 0) == pid && status != 0)
			is_root = false;
	}
	observed_classes = (struct observed_classes){ .quiet = quiet };
	return make_world();
}

static const char *path_of(const char *name)
{
	static char path[2][64];
	static unsigned int i;

	i = !i;
	(void)snprintf(path[i], sizeof(path[i]), "/tmp/%s", name);
	return path[i];
}

/* Calls with one path. */
static long do_open(const char *p, int flags)
{
	long fd = syscall(SYS_openat, AT_FDCWD, p, flags, 0644);

	if (fd >= 0)
		close((int)fd);
	return fd;
}

enum action {
	OPEN_W,
	OPEN_RW,
	OPEN_TRUNC,
	OPEN_CREATE,
	OPEN_EXCL,
	OPEN_NOFOLLOW,
	OPEN_DIR,
	OPEN_TMP,
	OPENAT2_W,
	CREAT,
	MKDIR,
	MKFIFO,
	SYMLINK,
	UNLINK,
	RMDIR,
	UNLINKAT_DIR,
	TRUNCATE,
	CHMOD,
	CHOWN,
	LCHOWN,
	UTIMENSAT,
	UTIME_NOW_,
	SETXATTR,
	READ,
	ACCESS_W,
	CHDIR,
};

static long act(enum action action, const char *p)
{
	struct open_how how = { .flags = O_WRONLY };
	struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	switch (action) {
	case OPEN_W:
		return do_open(p, O_WRONLY);
	case OPEN_RW:
		return do_open(p, O_RDWR);
	case OPEN_TRUNC:
		return do_open(p, O_RDONLY | O_TRUNC);
	case OPEN_CREATE:
		return do_open(p, O_WRONLY | O_CREAT);
	case OPEN_EXCL:
		return do_open(p, O_WRONLY | O_CREAT | O_EXCL);
	case OPEN_NOFOLLOW:
		return do_open(p, O_WRONLY | O_NOFOLLOW);
	case OPEN_DIR:
		return do_open(p, O_RDONLY | O_DIRECTORY | O_CREAT);
	case OPEN_TMP:
		return do_open(p, O_TMPFILE | O_RDWR);
	case OPENAT2_W:
		return syscall(SYS_openat2, AT_FDCWD, p, &how, sizeof(how));
	case CREAT:
		return syscall(SYS_creat, p, 0644);
	case MKDIR:
		return syscall(SYS_mkdir, p, 0755);
	case MKFIFO:
		return syscall(SYS_mknod, p, S_IFIFO | 0644, 0);
	case SYMLINK:
		return syscall(SYS_symlink, "text", p);
	case UNLINK:
		return syscall(SYS_unlink, p);
	case RMDIR:
		return syscall(SYS_rmdir, p);
	case UNLINKAT_DIR:
		return syscall(SYS_unlinkat, AT_FDCWD, p, AT_REMOVEDIR);
	case TRUNCATE:
		return syscall(SYS_truncate, p, 0);
	case CHMOD:
		return syscall(SYS_chmod, p, 0600);
	case CHOWN:
		return syscall(SYS_chown, p, -1, -1);
	case LCHOWN:
		return syscall(SYS_lchown, p, 0, -1);
	case UTIMENSAT:
		return syscall(SYS_utimensat, AT_FDCWD, p, times, 0);
	case UTIME_NOW_:
		return syscall(SYS_utimensat, AT_FDCWD, p, NULL, 0);
	case SETXATTR:
		return syscall(SYS_setxattr, p, "user.x", "1", 1, 0);
	case READ:
		return do_open(p, O_RDONLY);
	case ACCESS_W:
		return syscall(SYS_access, p, W_OK);
	case CHDIR:
		return syscall(SYS_chdir, p);
	}
	return -1;
}

static const struct trial {
	enum action action;
	enum bj_op op;	      /* of its record; 0: no record (quiet) */
	const char *name;     /* below /tmp */
	const char *resolved; /* NULL: the path or nothing */
	int error;	      /* by hand, for OTHER_UID; -1: what the kernel says will do */
} trials[] = {
	/* open */
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own/mine", NULL, 0 },
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own/file", NULL, EACCES },
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own/missing", NULL, ENOENT },
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own", NULL, EISDIR },
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own/file/x", NULL, ENOTDIR },
	{ OPEN_RW, BJ_OP_OPEN_WRITE, "ro/mine", NULL, EROFS },
	{ OPEN_RW, BJ_OP_OPEN_WRITE, "ro/file", NULL, EACCES },
	{ OPEN_TRUNC, BJ_OP_OPEN_WRITE, "own/mine", NULL, 0 },
	{ OPEN_TRUNC, BJ_OP_OPEN_WRITE, "theirs/file", NULL, EACCES },
	{ OPENAT2_W, BJ_OP_OPEN_WRITE, "theirs/file", NULL, EACCES },
	{ OPEN_NOFOLLOW, BJ_OP_OPEN_WRITE, "own/to-file", NULL, ELOOP },
	{ OPEN_W, BJ_OP_OPEN_WRITE, "own/to-file", "/tmp/own/file", EACCES },
	{ OPEN_TMP, BJ_OP_OPEN_CREATE, "own", NULL, 0 },
	{ OPEN_TMP, BJ_OP_OPEN_CREATE, "theirs", NULL, EACCES },
	/* open with O_CREAT */
	{ OPEN_CREATE, BJ_OP_OPEN_WRITE, "own/mine", NULL, 0 },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "own/new1", NULL, 0 },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "theirs/new", NULL, EACCES },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "ro/new", NULL, EROFS },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "none/new", NULL, ENOENT },
	{ OPEN_CREATE, BJ_OP_OPEN_WRITE, "own/file/new", NULL, ENOTDIR },
	{ OPEN_CREATE, BJ_OP_OPEN_WRITE, "own/sub/", NULL, EISDIR },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "own/to-theirs/new", "/tmp/theirs/new", EACCES },
	{ OPEN_EXCL, BJ_OP_OPEN_CREATE, "own/file", NULL, EEXIST },
	{ OPEN_EXCL, BJ_OP_OPEN_CREATE, "own/dangling", NULL, EEXIST },
	{ OPEN_EXCL, BJ_OP_OPEN_CREATE, "ro/file", NULL, EEXIST },
	{ OPEN_CREATE, BJ_OP_OPEN_CREATE, "own/dangling", "/tmp/own/new-target", 0 },
	{ OPEN_CREATE, 0, "own/to-quiet", NULL, 0 },
	{ CREAT, BJ_OP_OPEN_CREATE, "own/new2", NULL, 0 },
	{ CREAT, 0, "quiet/new", NULL, 0 },
	{ CREAT, BJ_OP_OPEN_CREATE, "own/sub/../new3", NULL, 0 },
	/* new names */
	{ MKDIR, BJ_OP_MKDIR, "own/dir1", NULL, 0 },
	{ MKDIR, BJ_OP_MKDIR, "own/dir2/", NULL, 0 },
	{ MKDIR, BJ_OP_MKDIR, "own/sub", NULL, EEXIST },
	{ MKDIR, BJ_OP_MKDIR, "own/dangling", NULL, EEXIST },
	{ MKDIR, BJ_OP_MKDIR, "theirs/dir", NULL, EACCES },
	{ MKDIR, BJ_OP_MKDIR, "ro/new", NULL, EROFS },
	{ MKDIR, BJ_OP_MKDIR, "ro/dir", NULL, EEXIST },
	{ MKDIR, BJ_OP_MKDIR, "none/x", NULL, ENOENT },
	{ MKDIR, BJ_OP_MKDIR, "own/to-theirs/dir", "/tmp/theirs/dir", EACCES },
	{ MKFIFO, BJ_OP_MKNOD, "own/fifo", NULL, 0 },
	{ MKFIFO, BJ_OP_MKNOD, "ro/fifo", NULL, EROFS },
	{ SYMLINK, BJ_OP_SYMLINK, "own/link", NULL, 0 },
	{ SYMLINK, BJ_OP_SYMLINK, "own/file", NULL, EEXIST },
	/* removals */
	{ UNLINK, BJ_OP_UNLINK, "own/link", NULL, 0 },
	{ UNLINK, BJ_OP_UNLINK, "own/missing", NULL, ENOENT },
	{ UNLINK, BJ_OP_UNLINK, "own/sub", NULL, EISDIR },
	{ UNLINK, BJ_OP_UNLINK, "theirs/file", NULL, EACCES },
	{ UNLINK, BJ_OP_UNLINK, "theirs/missing", NULL, ENOENT },
	{ UNLINK, BJ_OP_UNLINK, "ro/mine", NULL, EROFS },
	{ UNLINK, BJ_OP_UNLINK, "ro/missing", NULL, EROFS },
	{ UNLINK, BJ_OP_UNLINK, "none/x", NULL, ENOENT },
	{ UNLINK, BJ_OP_UNLINK, "own/to-theirs/file", "/tmp/theirs/file", EACCES },
	{ UNLINK, 0, "quiet/new", NULL, 0 },
	{ RMDIR, BJ_OP_RMDIR, "own/dir1", NULL, 0 },
	{ UNLINKAT_DIR, BJ_OP_RMDIR, "own/dir2", NULL, 0 },
	{ RMDIR, BJ_OP_RMDIR, "own/file", NULL, ENOTDIR },
	{ RMDIR, BJ_OP_RMDIR, "own/full", NULL, ENOTEMPTY },
	{ RMDIR, BJ_OP_RMDIR, "ro/dir", NULL, EROFS },
	/* attributes */
	{ TRUNCATE, BJ_OP_TRUNCATE, "own/mine", NULL, 0 },
	{ TRUNCATE, BJ_OP_TRUNCATE, "own/file", NULL, EACCES },
	{ TRUNCATE, BJ_OP_TRUNCATE, "own/sub", NULL, EISDIR },
	{ TRUNCATE, BJ_OP_TRUNCATE, "ro/mine", NULL, EROFS },
	{ CHMOD, BJ_OP_CHMOD, "own/mine", NULL, 0 },
	{ CHMOD, BJ_OP_CHMOD, "own/file", NULL, EPERM },
	{ CHMOD, BJ_OP_CHMOD, "ro/file", NULL, EROFS },
	{ CHMOD, BJ_OP_CHMOD, "own/missing", NULL, ENOENT },
	{ CHMOD, BJ_OP_CHMOD, "own/to-file", "/tmp/own/file", EPERM },
	{ LCHOWN, BJ_OP_CHOWN, "own/mine", NULL, EPERM },
	{ LCHOWN, BJ_OP_CHOWN, "ro/file", NULL, EROFS },
	{ UTIMENSAT, BJ_OP_UTIME, "own/mine", NULL, 0 },
	{ UTIMENSAT, BJ_OP_UTIME, "own/file", NULL, EPERM },
	{ UTIME_NOW_, BJ_OP_UTIME, "own/file", NULL, EACCES },
	{ UTIME_NOW_, BJ_OP_UTIME, "ro/mine", NULL, EROFS },
	{ SETXATTR, BJ_OP_SETXATTR, "own/file", NULL, EACCES },
	{ SETXATTR, BJ_OP_SETXATTR, "ro/mine", NULL, EROFS },
	/* reads whose outcome depends on more than existence */
	{ READ, BJ_OP_OPEN_READ, "own/file", NULL, 0 },
	{ ACCESS_W, BJ_OP_ACCESS, "own/file", NULL, EACCES },
	{ ACCESS_W, BJ_OP_ACCESS, "own/mine", NULL, 0 },
	{ ACCESS_W, BJ_OP_ACCESS, "ro/mine", NULL, EROFS },
	{ CHDIR, BJ_OP_CHDIR, "own/file", NULL, ENOTDIR },
	{ CHDIR, BJ_OP_CHDIR, "own/sub", NULL, 0 },
};

static int try_all(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < BJ_ARRAY_LEN(trials); i++)
		results[i] = act(trials[i].action, path_of(trials[i].name)) < 0 ? errno : 0;
	return 0;
}

static void start(void)
{
	if (!results)
		skip_or_fail("no mount namespace can be made");
	memset(&run, 0, offsetof(struct observed, seen));
	run.level = BJ_OBSERVE_DEFAULT;
	run.uid = is_root ? OTHER_UID : 0;
}

static void single_paths(void **state)
{
	size_t next = 0;

	(void)state;
	start();
	observe(&run, try_all, NULL);
	assert_true(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0);
	assert_true(run.stats.complete);
	for (size_t i = 0; i < BJ_ARRAY_LEN(trials); i++) {
		const struct trial *trial = &trials[i];
		const struct seen_record *r = &run.seen[next];
		const char *path = path_of(trial->name);

		if (is_root && results[i] != trial->error)
			fail_msg("trial %zu, %s: the kernel says %d", i, path, results[i]);
		if (trial->op == 0)
			continue;
		next++;
		/* Where everything is permitted, what was to be made may have been made by an earlier trial. */
		if (next > run.n_seen || strcmp(r->written, path) != 0 ||
		    (is_root && r->op != trial->op))
			fail_msg("trial %zu: the record is %s %s", i, bj_op_name(r->op),
				 r->written);
		/* Who may give a file to whom depends on ids that mean something else inside. */
		if (r->error == -1 && trial->action == LCHOWN)
			continue;
		if (r->error != results[i])
			fail_msg("trial %zu, %s %s: predicted %d, was %d", i, bj_op_name(r->op),
				 path, r->error, results[i]);
		if (trial->resolved)
			assert_string_equal(r->resolved, trial->resolved);
	}
	assert_int_equal(next, run.n_seen);
}

/* ---- calls with two paths, and without any ---- */

static const struct pair_trial {
	bool is_link;
	int flags;
	const char *from, *to;
	int error; /* for OTHER_UID */
} pairs[] = {
	{ false, 0, "own/mine", "own/mine2", 0 },     { false, 0, "own/mine2", "own/mine", 0 },
	{ false, 0, "own/missing", "own/x", ENOENT }, { false, 0, "own/mine", "theirs/x", EACCES },
	{ false, 0, "own/mine", "none/x", ENOENT },   { false, 0, "theirs/file", "own/x", EACCES },
	{ false, 1, "own/mine", "own/file", EEXIST }, { false, 0, "ro/mine", "ro/x", EROFS },
	{ false, 0, "own/mine", "ro/x", EXDEV },      { true, 0, "own/mine", "own/hard", 0 },
	{ true, 0, "own/mine", "own/file", EEXIST },  { true, 0, "own/missing", "own/y", ENOENT },
	{ true, 0, "own/mine", "theirs/y", EACCES },  { true, 0, "ro/mine", "ro/y", EROFS },
	{ true, 0, "own/mine", "ro/y", EROFS },	      { true, 0, "ro/mine", "own/z", EXDEV },
};

static int try_pairs(void *arg)
{
	int fd = open("/tmp/own/mine", O_RDONLY);
	int their_fd = open("/tmp/theirs/file", O_RDONLY);

	(void)arg;
	for (size_t i = 0; i < BJ_ARRAY_LEN(pairs); i++) {
		const char *from = path_of(pairs[i].from);
		const char *to = path_of(pairs[i].to);
		long got = pairs[i].is_link ? syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0)
					    : syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to,
						      pairs[i].flags);

		results[i] = got < 0 ? errno : 0;
	}
	results[100] = fchmod(fd, 0644) < 0 ? errno : 0;
	results[101] = fchmod(their_fd, 0600) < 0 ? errno : 0;
	results[102] = fchown(their_fd, 0, 0) < 0 ? errno : 0;
	results[103] = futimens(fd, NULL) < 0 ? errno : 0; /* by descriptor: not seen */
	return 0;
}

static void two_paths(void **state)
{
	ssize_t at = -1;

	(void)state;
	start();
	run.level = BJ_OBSERVE_WRITES;
	observe(&run, try_pairs, NULL);
	assert_true(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(pairs); i++) {
		const struct pair_trial *p = &pairs[i];
		const struct seen_record *from;
		const struct seen_record *to;

		if (is_root && results[i] != p->error)
			fail_msg("pair %zu, %s: the kernel says %d", i, p->from, results[i]);
		at = find_seen(&run, (size_t)(at + 1),
			       p->is_link ? BJ_OP_LINK_FROM : BJ_OP_RENAME_FROM, path_of(p->from));
		assert_true(at >= 0);
		from = &run.seen[at++];
		to = &run.seen[at];
		assert_int_equal(to->op, p->is_link ? BJ_OP_LINK_TO : BJ_OP_RENAME_TO);
		assert_string_equal(to->path, path_of(p->to));
		if (from->error != results[i] || to->error != results[i])
			fail_msg("pair %zu, %s: predicted %d and %d, was %d", i, p->from,
				 from->error, to->error, results[i]);
	}
	assert_int_equal(results[103], 0);
	assert_int_equal(count_seen(&run, BJ_OP_UTIME, NULL), 0);
	if (!is_root)
		return; /* with every right the renames above did succeed */
	at = find_seen(&run, (size_t)(at + 1), BJ_OP_CHMOD, "/tmp/own/mine");
	assert_true(at >= 0);
	assert_int_equal(run.seen[at].error, results[100]);
	assert_string_equal(run.seen[at].written, "");
	at = find_seen(&run, (size_t)at, BJ_OP_CHMOD, "/tmp/theirs/file");
	assert_true(at >= 0);
	assert_int_equal(run.seen[at].error, results[101]);
	at = find_seen(&run, (size_t)at, BJ_OP_CHOWN, "/tmp/theirs/file");
	assert_true(at >= 0);
	assert_int_equal(run.seen[at].error, results[102]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_paths),
		cmocka_unit_test(two_paths),
	};

	return cmocka_run_group_tests_name("observer_predict", tests, set_up, NULL);
}
