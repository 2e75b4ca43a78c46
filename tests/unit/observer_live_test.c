// SPDX-License-Identifier: Apache-2.0
/*
 * The observer over real processes: every call of the matrix, every form of a path, and what must not disturb it. The error that the
 * record predicts is compared with the one that the child got.
 *
 * It is long because all of it runs against one child, one tree and one set of hooks, which the tables below share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/base/macros.h"
#include "tests/unit/observer-harness.h"

enum { MAX_RESULTS = 64 };

static char base[64] = "/tmp/observer_live_test.XXXXXX";
static char proj[80], missing[96], present[96], declared[96], gone_link[96], good_link[96],
	dir_link[96];
static struct observed run;
/* Shared with the child: errno of its n-th call, 0 for success. */
static int *results;
static bool has_own_network;

static const char *at(const char *name)
{
	static char paths[8][256];
	static unsigned int i;
	char *path = paths[i++ % 8];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", proj, name);
	return path;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

/* As in the jail: a network namespace with the loopback interface up, and no other. */
static bool make_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;
	bool is_up;

	if (unshare(CLONE_NEWNET) != 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
	close(fd);
	return is_up;
}

static int set_up(void **state)
{
	static const char *declared_dirs[] = { declared, gone_link, good_link, NULL };
	static const char *const toolchain[] = { "/usr", "/lib", "/lib64", "/bin", "/etc", NULL };
	static const char *const quiet[] = { "/proc", "/dev", NULL };

	(void)state;
	if (!mkdtemp(base))
		return -1;
	(void)snprintf(proj, sizeof(proj), "%s/proj", base);
	(void)snprintf(missing, sizeof(missing), "%s/undeclared.txt", proj);
	(void)snprintf(present, sizeof(present), "%s/present.txt", proj);
	(void)snprintf(declared, sizeof(declared), "%s/declared", proj);
	(void)snprintf(gone_link, sizeof(gone_link), "%s/gone_link", proj);
	(void)snprintf(good_link, sizeof(good_link), "%s/good_link", proj);
	(void)snprintf(dir_link, sizeof(dir_link), "%s/dir_link", proj);
	if (mkdir(proj, 0755) != 0 || mkdir(declared, 0755) != 0)
		return -1;
	write_file(present, "p", 0644);
	write_file(at("declared/file.txt"), "d", 0644);
	if (symlink("undeclared.txt", gone_link) != 0 ||
	    symlink("declared/file.txt", good_link) != 0 || symlink("declared", dir_link) != 0)
		return -1;
	observed_classes = (struct observed_classes){ declared_dirs, toolchain, quiet };
	results = mmap(NULL, MAX_RESULTS * sizeof(int), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return -1;
	has_own_network = make_network();
	return 0;
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
	for (int i = 0; i < MAX_RESULTS; i++)
		results[i] = -1;
}

static int result_of(long got)
{
	return got < 0 ? errno : 0;
}

static void assert_clean_exit(void)
{
	assert_true(WIFEXITED(run.status));
	assert_int_equal(WEXITSTATUS(run.status), 0);
	assert_int_equal(run.stats.n_dropped, 0);
	assert_true(run.stats.complete);
}

/* ---- the matrix of reads ---- */

static long by_open(const char *p)
{
	return syscall(SYS_open, p, O_RDONLY);
}
static long by_openat(const char *p)
{
	return syscall(SYS_openat, AT_FDCWD, p, O_RDONLY);
}
static long by_openat2(const char *p)
{
	struct open_how how = { .flags = O_RDONLY };

	return syscall(SYS_openat2, AT_FDCWD, p, &how, sizeof(how));
}
static long by_stat(const char *p)
{
	char st[256];

	return syscall(SYS_stat, p, st);
}
static long by_lstat(const char *p)
{
	char st[256];

	return syscall(SYS_lstat, p, st);
}
static long by_newfstatat(const char *p)
{
	char st[256];

	return syscall(SYS_newfstatat, AT_FDCWD, p, st, 0);
}
static long by_statx(const char *p)
{
	char st[512];

	return syscall(SYS_statx, AT_FDCWD, p, 0, 0xfff, st);
}
static long by_access(const char *p)
{
	return syscall(SYS_access, p, R_OK);
}
static long by_faccessat(const char *p)
{
	return syscall(SYS_faccessat, AT_FDCWD, p, R_OK);
}
static long by_faccessat2(const char *p)
{
	return syscall(SYS_faccessat2, AT_FDCWD, p, R_OK, AT_EACCESS);
}
static long by_readlink(const char *p)
{
	char text[8];

	return syscall(SYS_readlink, p, text, sizeof(text));
}
static long by_execve(const char *p)
{
	return syscall(SYS_execve, p, NULL, NULL);
}
static long by_chdir(const char *p)
{
	return syscall(SYS_chdir, p);
}
static long by_getxattr(const char *p)
{
	char text[8];

	return syscall(SYS_getxattr, p, "user.x", text, sizeof(text));
}
static long by_statfs(const char *p)
{
	char fs[256];

	return syscall(SYS_statfs, p, fs);
}
static long by_inotify(const char *p)
{
	return syscall(SYS_inotify_add_watch, inotify_init1(IN_CLOEXEC), p, IN_ACCESS);
}
static long by_handle(const char *p)
{
	struct {
		unsigned int n_bytes;
		int type;
		char bytes[128];
	} handle = { .n_bytes = sizeof(handle.bytes) };
	int mount_id;

	return syscall(SYS_name_to_handle_at, AT_FDCWD, p, &handle, &mount_id, 0);
}

static const struct read_call {
	const char *name;
	long (*call)(const char *path);
	enum bj_op op;
	enum bj_observe level;
} reads[] = {
	{ "open", by_open, BJ_OP_OPEN_READ, BJ_OBSERVE_DEFAULT },
	{ "openat", by_openat, BJ_OP_OPEN_READ, BJ_OBSERVE_DEFAULT },
	{ "openat2", by_openat2, BJ_OP_OPEN_READ, BJ_OBSERVE_DEFAULT },
	{ "stat", by_stat, BJ_OP_STAT, BJ_OBSERVE_DEFAULT },
	{ "lstat", by_lstat, BJ_OP_STAT, BJ_OBSERVE_DEFAULT },
	{ "newfstatat", by_newfstatat, BJ_OP_STAT, BJ_OBSERVE_DEFAULT },
	{ "statx", by_statx, BJ_OP_STAT, BJ_OBSERVE_DEFAULT },
	{ "access", by_access, BJ_OP_ACCESS, BJ_OBSERVE_DEFAULT },
	{ "faccessat", by_faccessat, BJ_OP_ACCESS, BJ_OBSERVE_DEFAULT },
	{ "faccessat2", by_faccessat2, BJ_OP_ACCESS, BJ_OBSERVE_DEFAULT },
	{ "readlink", by_readlink, BJ_OP_READLINK, BJ_OBSERVE_STRICT },
	{ "execve", by_execve, BJ_OP_EXEC, BJ_OBSERVE_DEFAULT },
	{ "chdir", by_chdir, BJ_OP_CHDIR, BJ_OBSERVE_DEFAULT },
	{ "getxattr", by_getxattr, BJ_OP_XATTR, BJ_OBSERVE_STRICT },
	{ "statfs", by_statfs, BJ_OP_STATFS, BJ_OBSERVE_STRICT },
	{ "inotify_add_watch", by_inotify, BJ_OP_INOTIFY, BJ_OBSERVE_STRICT },
	{ "name_to_handle_at", by_handle, BJ_OP_HANDLE, BJ_OBSERVE_STRICT },
};

static int read_matrix(void *path)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(reads); i++)
		results[i] = result_of(reads[i].call(path));
	return 0;
}

static void check_matrix(enum bj_observe level, size_t want)
{
	size_t n = 0;
	ssize_t i = -1;

	start(level);
	observe(&run, read_matrix, missing);
	assert_clean_exit();
	for (size_t call = 0; call < BJ_ARRAY_LEN(reads); call++) {
		assert_int_equal(results[call], ENOENT);
		if (reads[call].level > level)
			continue;
		i = find_seen(&run, (size_t)(i + 1), reads[call].op, missing);
		if (i < 0)
			fail_msg("%s has no record", reads[call].name);
		n++;
		assert_false(run.seen[i].is_touch);
		assert_int_equal(run.seen[i].error, ENOENT);
		assert_int_equal(run.seen[i].cls, BJ_PATH_UNKNOWN);
		assert_string_equal(run.seen[i].written, missing);
		assert_string_equal(run.seen[i].resolved, "");
	}
	assert_int_equal(n, want);
	assert_int_equal(run.n_seen, want); /* and nothing else */
}

static void matrix_strict(void **state)
{
	(void)state;
	check_matrix(BJ_OBSERVE_STRICT, 17);
}

static void matrix_default(void **state)
{
	(void)state;
	check_matrix(BJ_OBSERVE_DEFAULT, 12);
}

static void matrix_of_reads_at_the_level_of_writes(void **state)
{
	(void)state;
	check_matrix(BJ_OBSERVE_WRITES, 0);
}

static int read_matrix_but_exec(void *path)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(reads); i++)
		if (reads[i].op != BJ_OP_EXEC)
			results[i] = result_of(reads[i].call(path));
	return 0;
}

static void reads_of_a_declared_file_are_touches(void **state)
{
	const char *file = at("declared/file.txt");

	(void)state;
	start(BJ_OBSERVE_STRICT);
	observe(&run, read_matrix_but_exec, (void *)file);
	assert_clean_exit();
	assert_int_equal(run.n_seen, BJ_ARRAY_LEN(reads) - 1);
	for (size_t i = 0; i < run.n_seen; i++) {
		assert_true(run.seen[i].is_touch);
		assert_string_equal(run.seen[i].path, file);
	}
	start(BJ_OBSERVE_STRICT);
	run.no_touched = true;
	observe(&run, read_matrix_but_exec, (void *)file);
	assert_clean_exit();
	assert_int_equal(run.n_seen, 0);
	assert_in_range(run.stats.n_notifications, BJ_ARRAY_LEN(reads) - 1,
			BJ_ARRAY_LEN(reads) + 8);
}

static void reads_of_what_is_there_undeclared(void **state)
{
	(void)state;
	start(BJ_OBSERVE_STRICT);
	observe(&run, read_matrix_but_exec, present);
	assert_clean_exit();
	for (size_t call = 0; call < BJ_ARRAY_LEN(reads); call++) {
		ssize_t i = find_seen(&run, 0, reads[call].op, present);

		if (reads[call].op == BJ_OP_EXEC)
			continue;
		assert_true(i >= 0);
		/* An attribute that is not there, and file systems without handles, are not the path's affair. */
		if (reads[call].op != BJ_OP_XATTR && reads[call].op != BJ_OP_HANDLE)
			assert_int_equal(run.seen[i].error, results[call]);
		assert_string_equal(run.seen[i].resolved, present);
		assert_false(run.seen[i].is_dir);
	}
}

static void reads_of_the_toolchain_and_of_quiet_places(void **state)
{
	(void)state;
	start(BJ_OBSERVE_STRICT);
	observe(&run, read_matrix_but_exec, "/usr/include/none.h");
	assert_clean_exit();
	assert_int_equal(run.n_seen, 0);
	start(BJ_OBSERVE_STRICT);
	observe(&run, read_matrix_but_exec, "/proc/self/none");
	assert_clean_exit();
	assert_int_equal(run.n_seen, 0);
}

/* ---- forms of a path ---- */

static int many_forms(void *arg)
{
	struct open_how how = { .flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT };
	char path[128];
	int fd = open(base, O_PATH | O_DIRECTORY);
	int here = open(declared, O_PATH | O_DIRECTORY);

	(void)arg;
	if (chdir(declared) != 0)
		return 1;
	results[0] = result_of(by_open("../undeclared.txt"));
	results[1] = result_of(syscall(SYS_openat, fd, "proj/undeclared.txt", O_RDONLY));
	results[2] = result_of(by_open("/proc/self/cwd/../undeclared.txt"));
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/../undeclared.txt", here);
	results[3] = result_of(by_open(path));
	(void)snprintf(path, sizeof(path), "/dev/fd/%d/proj/undeclared.txt", fd);
	results[4] = result_of(by_open(path));
	(void)snprintf(path, sizeof(path), "/proc/%d/cwd/../undeclared.txt", (int)getpid());
	results[5] = result_of(by_open(path));
	results[6] = result_of(
		syscall(SYS_openat2, fd, "/../proj//./undeclared.txt", &how, sizeof(how)));
	results[7] = result_of(by_open("./..//./undeclared.txt"));
	(void)snprintf(path, sizeof(path), "/proc/self/root%s", missing);
	results[8] = result_of(by_open(path));
	/* From here on nothing is seen. */
	results[9] = result_of(by_open("/proc/self/maps"));
	results[10] = result_of(by_open("/proc/self/exe"));
	results[11] = result_of(by_open("/dev/null"));
	results[12] = result_of(by_open("file.txt")); /* a touch */
	return 0;
}

static void forms_of_one_path(void **state)
{
	size_t n = 0;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, many_forms, NULL);
	assert_clean_exit();
	for (int i = 0; i < 9; i++)
		assert_int_equal(results[i], ENOENT);
	for (int i = 9; i < 13; i++)
		assert_int_equal(results[i], 0);
	for (ssize_t i = -1; (i = find_seen(&run, (size_t)(i + 1), BJ_OP_OPEN_READ, missing)) >= 0;
	     n++) {
		assert_int_equal(run.seen[i].error, ENOENT);
		assert_false(run.seen[i].is_touch);
	}
	if (n != 9)
		print_seen(&run);
	assert_int_equal(n, 9);
	assert_int_equal(count_seen(&run, BJ_OP_OPEN_READ, at("declared/file.txt")), 1);
	assert_int_equal(find_seen(&run, 0, 0, "/proc/self/maps"), -1);
	assert_int_equal(find_seen(&run, 0, 0, "/dev/null"), -1);
}

/* Every way in which a relative path can come to mean something else, with an open before and after. */
static int moving(void *arg)
{
	int here;
	int pid;

	(void)arg;
	if (chdir(proj) != 0 || (here = open(".", O_PATH | O_DIRECTORY)) < 0)
		return 1;
	(void)by_open("in-proj");
	if (mkdir("walk", 0755) != 0 || chdir("walk") != 0)
		return 2;
	(void)by_open("in-walk");
	(void)by_open("in-walk");
	if (rename("../walk", "../ran") != 0)
		return 3;
	(void)by_open("in-ran");
	if (fchdir(here) != 0)
		return 4;
	(void)by_open("in-proj");
	/* Somebody else who shares the directory changes it. */
	pid = (int)syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(chdir("ran") == 0 ? 0 : 1);
	if (waitpid(pid, NULL, 0) != pid)
		return 5;
	(void)by_open("in-ran");
	/* Somebody else renames it and dies. */
	pid = fork();
	if (pid == 0)
		_exit(rename("../ran", "../walked") == 0 ? 0 : 1);
	if (waitpid(pid, NULL, 0) != pid)
		return 6;
	(void)by_open("in-walked");
	if (rmdir("../walked") != 0)
		return 7;
	(void)by_open("in-walked");
	return 0;
}

static void relative_paths_follow_the_working_directory(void **state)
{
	static const char *const want[] = { "in-proj",		"walk/in-walk",	   "walk/in-walk",
					    "ran/in-ran",	"in-proj",	   "ran/in-ran",
					    "walked/in-walked", "walked/in-walked" };
	ssize_t i = -1;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, moving, NULL);
	assert_clean_exit();
	for (size_t n = 0; n < BJ_ARRAY_LEN(want); n++) {
		do
			i = find_seen(&run, (size_t)(i + 1), BJ_OP_OPEN_READ, NULL);
		while (i >= 0 && strcmp(run.seen[i].written, ".") == 0);
		assert_true(i >= 0);
		assert_string_equal(run.seen[i].path, at(want[n]));
	}
}

static int odd_names(void *arg)
{
	(void)arg;
	(void)by_open(at("\xc3\xa9.txt"));
	(void)by_open(at("a\nb\x1b[31m"));
	(void)by_open(at("\xff\xfe"));
	return 0;
}

static void names_are_bytes(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, odd_names, NULL);
	assert_clean_exit();
	assert_int_equal(run.n_seen, 3);
	assert_string_equal(run.seen[0].path, at("\xc3\xa9.txt"));
	assert_string_equal(run.seen[1].path, at("a\nb\x1b[31m"));
	assert_string_equal(run.seen[2].path, at("\xff\xfe"));
}

/* ---- links ---- */

static int links(void *arg)
{
	(void)arg;
	results[0] = result_of(by_open(gone_link));
	results[1] = result_of(by_lstat(gone_link));
	results[2] = result_of(by_open(at("dir_link/file.txt")));
	results[3] = result_of(by_open(at("dir_link/none.txt")));
	results[4] = result_of(by_open(good_link));
	results[5] = result_of(by_open(good_link));
	results[6] = result_of(by_open(gone_link));
	return 0;
}

static void links_are_followed(void **state)
{
	ssize_t i;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, links, NULL);
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	assert_int_equal(results[1], 0);
	/* A declared link to what is not there: the link is used, and both spellings are told. */
	i = find_seen(&run, 0, BJ_OP_OPEN_READ, gone_link);
	assert_int_equal(i, 0);
	assert_true(run.seen[0].is_touch);
	assert_false(run.seen[1].is_touch);
	assert_string_equal(run.seen[1].path, gone_link);
	assert_string_equal(run.seen[1].resolved, missing);
	assert_int_equal(run.seen[1].error, ENOENT);
	/* lstat of the link sees the link. */
	assert_true(run.seen[2].is_touch);
	assert_string_equal(run.seen[2].path, gone_link);
	/* A path through a link is what it resolves to. */
	assert_true(run.seen[3].is_touch);
	assert_string_equal(run.seen[3].path, at("declared/file.txt"));
	assert_false(run.seen[4].is_touch);
	assert_string_equal(run.seen[4].path, at("dir_link/none.txt"));
	assert_string_equal(run.seen[4].resolved, at("declared/none.txt"));
	assert_int_equal(run.seen[4].cls, BJ_PATH_DECLARED);
	/* A good link is used, and its target, which is told once. */
	assert_string_equal(run.seen[5].path, good_link);
	assert_string_equal(run.seen[6].path, at("declared/file.txt"));
	assert_string_equal(run.seen[7].path, good_link);
	assert_true(run.seen[5].is_touch && run.seen[6].is_touch && run.seen[7].is_touch);
	/* One that leads nowhere is told each time. */
	assert_string_equal(run.seen[8].path, gone_link);
	assert_string_equal(run.seen[9].resolved, missing);
	assert_false(run.seen[9].is_touch);
	assert_int_equal(run.n_seen, 10);
}

static int many_declared(void *arg)
{
	char name[64];

	(void)arg;
	/* More than the set of those that were looked at holds; some of them twice. */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4000; i++) {
			(void)snprintf(name, sizeof(name), "declared/many-%d", i);
			if (by_stat(at(name)) != -1 || errno != ENOENT)
				return 1;
		}
	}
	return 0;
}

static void more_declared_files_than_are_kept_in_mind(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, many_declared, NULL);
	assert_clean_exit();
	assert_int_equal(run.n_seen, 8000);
	for (size_t i = 0; i < MAX_SEEN; i++)
		assert_true(run.seen[i].is_touch);
}

/* ---- exec ---- */

static int try_exec(void *path)
{
	char *const argv[] = { "name-of-argv0", NULL };

	if (chdir(proj) != 0)
		return 90;
	(void)execve(path, argv, argv + 1);
	results[0] = errno;
	return 0;
}

static void exec_of_a_script_without_its_interpreter(void **state)
{
	const char *script = at("declared/script");
	ssize_t i;

	(void)state;
	write_file(script, "#!./tools/python9 -x\n", 0755);
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, try_exec, (void *)script);
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	i = find_seen(&run, 0, BJ_OP_EXEC, at("tools/python9"));
	assert_true(i > 0);
	assert_int_equal(run.seen[i].error, ENOENT);
	assert_string_equal(run.seen[i].written, "./tools/python9");
	assert_string_equal(run.seen[i].via, script);
	i = find_seen(&run, 0, BJ_OP_EXEC, script);
	assert_true(i >= 0);
	assert_true(run.seen[i].is_touch);
}

static void exec_of_a_script_whose_interpreter_is_absent_from_the_toolchain(void **state)
{
	const char *script = at("script");

	(void)state;
	write_file(script, "#!/usr/bin/no-such-interpreter\n", 0755);
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, try_exec, (void *)script);
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	assert_true(find_seen(&run, 0, BJ_OP_EXEC, "/usr/bin/no-such-interpreter") >= 0);
	unlink(script);
}

static void exec_of_a_script_with_a_script_as_interpreter(void **state)
{
	const char *script = at("declared/outer");
	char inner[128];

	(void)state;
	(void)snprintf(inner, sizeof(inner), "#!%s\n", at("declared/inner"));
	write_file(script, inner, 0755);
	write_file(at("declared/inner"), "#!/exec/none\n", 0755);
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, try_exec, (void *)script);
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	assert_true(run.seen[find_seen(&run, 0, BJ_OP_EXEC, at("declared/inner"))].is_touch);
	assert_true(find_seen(&run, 0, BJ_OP_EXEC, "/exec/none") >= 0);
}

static void exec_of_what_is_not_there_and_of_what_may_not_be(void **state)
{
	ssize_t i;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, try_exec, missing);
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	i = find_seen(&run, 0, BJ_OP_EXEC, missing);
	assert_true(i >= 0);
	assert_int_equal(run.seen[i].error, ENOENT);
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, try_exec, present);
	assert_int_equal(results[0], EACCES);
	i = find_seen(&run, 0, BJ_OP_EXEC, present);
	assert_true(i >= 0);
	assert_int_equal(run.seen[i].error, EACCES);
}

#if defined(__x86_64__)
/* A static program by hand: open(argument 1) and exit. No libc, no loader. */
static void write_static_program(const char *path)
{
	static const unsigned char program[] = {
		/* ELF header */
		0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x3e, 0, 1, 0, 0, 0,
		0x78, 0, 0x40, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0x40, 0, 0x38, 0, 1, 0, 0, 0, 0, 0, 0, 0,
		/* one loadable segment at 0x400000, read and execute */
		1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0,
		0x40, 0, 0, 0, 0, 0, 0x97, 0, 0, 0, 0, 0, 0, 0, 0x97, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
		0, 0, 0, 0, 0, 0,
		/* mov rdi,[rsp+8]; xor esi,esi; mov eax,2; syscall */
		0x48, 0x8b, 0x7c, 0x24, 0x08, 0x31, 0xf6, 0xb8, 2, 0, 0, 0, 0x0f, 0x05,
		/* neg eax; mov edi,eax; mov eax,231; syscall: exit with the errno */
		0xf7, 0xd8, 0x89, 0xc7, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05,
		/* padding */
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, program, sizeof(program)), sizeof(program));
	close(fd);
}

static int exec_static(void *path)
{
	char *const argv[] = { missing, NULL };

	(void)execve(path, argv, argv + 1);
	return 99;
}

static void a_static_program(void **state)
{
	const char *program = at("declared/static");
	ssize_t i;

	(void)state;
	write_static_program(program);
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, exec_static, (void *)program);
	assert_true(WIFEXITED(run.status));
	assert_int_equal(WEXITSTATUS(run.status), ENOENT);
	i = find_seen(&run, 0, BJ_OP_OPEN_READ, missing);
	assert_true(i >= 0);
	/* Who did it is the new program. */
	assert_string_equal(run.seen[i].comm, "static");
	assert_string_equal(run.seen[i].exe, program);
	assert_string_equal(run.seen[i].argv0, missing);
}

/* int 0x80 enters the kernel as a 32-bit call, whoever makes it; pointers must be short. */
static long call32(long nr, long a, long b, long c)
{
	long got;

	__asm__ volatile("int $0x80" : "=a"(got) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
	return (int)got;
}

static int as_32bit(void *arg)
{
	char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	uint32_t *words = (uint32_t *)(low + 4096);
	struct sockaddr_in *address = (struct sockaddr_in *)(low + 5000);

	(void)arg;
	if (low == MAP_FAILED)
		return 1;
	memcpy(low, missing, strlen(missing) + 1);
	if (call32(20, 0, 0, 0) != getpid())
		return 42; /* the kernel has no 32-bit entry */
	results[0] = (int)-call32(5, (long)low, O_RDONLY, 0);
	results[1] = (int)-call32(195, (long)low, (long)words, 0);	/* stat64 */
	results[2] = (int)-call32(39, (long)low, 0700, 0);		/* mkdir */
	results[3] = (int)-call32(40, (long)low, 0, 0);			/* rmdir */
	results[4] = (int)-call32(21, (long)low, (long)low, (long)low); /* mount */
	results[5] = (int)-call32(425, 1, 0, 0);			/* io_uring_setup */
	results[6] = (int)-call32(9999, 0, 0, 0);
	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(80) };
	address->sin_addr.s_addr = htonl(0xc0000201);
	words[0] = (uint32_t)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
	words[1] = (uint32_t)(uintptr_t)address;
	words[2] = sizeof(*address);
	results[7] = (int)-call32(102, 3, (long)words, 0); /* socketcall(connect) */
	/* sendmsg with a 32-bit header: name, length of name, … */
	words[0] = (uint32_t)syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0);
	words[1] = (uint32_t)(uintptr_t)(words + 8);
	words[2] = 0;
	memset(words + 8, 0, 28);
	words[8] = (uint32_t)(uintptr_t)address;
	words[9] = sizeof(*address);
	results[8] = (int)-call32(102, 16, (long)words, 0);
	return 0;
}

static void calls_of_32_bits(void **state)
{
	ssize_t i;

	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, as_32bit, NULL);
	if (WIFEXITED(run.status) && WEXITSTATUS(run.status) == 42)
		skip_or_fail("this kernel has no 32-bit system calls");
	assert_clean_exit();
	assert_int_equal(results[0], ENOENT);
	assert_int_equal(results[1], ENOENT);
	assert_int_equal(results[2], 0);
	assert_int_equal(results[3], 0);
	assert_int_equal(results[4], EPERM);
	assert_int_equal(results[5], ENOSYS);
	assert_int_equal(results[6], ENOSYS);
	assert_int_equal(count_seen(&run, BJ_OP_OPEN_READ, missing), 1);
	assert_int_equal(count_seen(&run, BJ_OP_STAT, missing), 1);
	i = find_seen(&run, 0, BJ_OP_MKDIR, missing);
	assert_true(i >= 0);
	assert_int_equal(run.seen[i].error, 0);
	assert_int_equal(count_seen(&run, BJ_OP_RMDIR, missing), 1);
	i = find_seen(&run, 0, BJ_OP_SYSCALL, NULL);
	assert_string_equal(run.seen[i].syscall, "mount");
	i = find_seen(&run, (size_t)(i + 1), BJ_OP_SYSCALL, NULL);
	assert_string_equal(run.seen[i].syscall, "io_uring_setup");
	i = find_seen(&run, 0, BJ_OP_CONNECT, NULL);
	assert_true(i >= 0);
	assert_string_equal(run.seen[i].address, "192.0.2.1");
	assert_int_equal(run.seen[i].port, 80);
	i = find_seen(&run, 0, BJ_OP_SEND, NULL);
	assert_true(i >= 0);
	assert_string_equal(run.seen[i].address, "192.0.2.1");
	if (has_own_network) {
		assert_int_equal(results[7], ENETUNREACH);
		assert_int_equal(results[8], ENETUNREACH);
		assert_int_equal(run.seen[i].error, ENETUNREACH);
	}
}
#endif

/* ---- refused calls ---- */

static int refused(void *arg)
{
	(void)arg;
	results[0] = result_of(syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL));
	results[1] = result_of(syscall(425, 4, NULL));
	results[2] = result_of(syscall(SYS_unshare, CLONE_NEWUSER));
	results[3] = result_of(syscall(SYS_clone, CLONE_NEWNS | 17, NULL, NULL, NULL, NULL));
	results[4] = result_of(syscall(SYS_bpf, 0, NULL, 0));
	results[5] = result_of(syscall(435, NULL, 0)); /* clone3 */
	results[6] = result_of(syscall(9999));
	results[7] = result_of(syscall(SYS_keyctl, 0, 0, 0, 0, 0));
	return 0;
}

static void refused_calls_leave_a_record(void **state)
{
	static const char *const names[] = { "mount", "io_uring_setup", "unshare", "clone",
					     "bpf",   "keyctl" };
	static const int errors[] = { EPERM, ENOSYS, EPERM, EPERM, ENOSYS, ENOSYS };
	static const int all[] = { EPERM, ENOSYS, EPERM, EPERM, ENOSYS, ENOSYS, ENOSYS, ENOSYS };

	(void)state;
	start(BJ_OBSERVE_WRITES);
	observe(&run, refused, NULL);
	assert_clean_exit();
	for (size_t i = 0; i < BJ_ARRAY_LEN(all); i++)
		assert_int_equal(results[i], all[i]);
	assert_int_equal(run.n_seen, BJ_ARRAY_LEN(names));
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		assert_int_equal(run.seen[i].op, BJ_OP_SYSCALL);
		assert_string_equal(run.seen[i].syscall, names[i]);
		assert_int_equal(run.seen[i].error, errors[i]);
	}
	start(BJ_OBSERVE_OFF);
	observe(&run, refused, NULL);
	assert_true(WIFEXITED(run.status) && WEXITSTATUS(run.status) == 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(all); i++)
		assert_int_equal(results[i], all[i]);
	assert_int_equal(run.n_seen, 0);
}

/* ---- network ---- */

static int talk(void *arg)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(53) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(443) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int tcp = socket(AF_INET, SOCK_STREAM, 0);
	int udp = socket(AF_INET, SOCK_DGRAM, 0);
	int tcp6 = socket(AF_INET6, SOCK_STREAM, 0);
	int local = socket(AF_UNIX, SOCK_STREAM, 0);
	int local2 = socket(AF_UNIX, SOCK_STREAM, 0);
	struct iovec iov = { "x", 1 };
	struct mmsghdr messages[20];

	(void)arg;
	in.sin_addr.s_addr = htonl(0xc6336401); /* 198.51.100.1 */
	results[0] = result_of(connect(tcp, (void *)&in, sizeof(in)));
	results[1] = result_of(sendto(udp, "x", 1, 0, (void *)&in, sizeof(in)));
	for (size_t i = 0; i < BJ_ARRAY_LEN(messages); i++)
		messages[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	messages[17].msg_hdr.msg_name = &in;
	messages[17].msg_hdr.msg_namelen = sizeof(in);
	results[2] = result_of(sendmsg(udp, &messages[17].msg_hdr, 0));
	results[3] = result_of(sendmmsg(udp, messages, BJ_ARRAY_LEN(messages), 0));
	in6.sin6_addr.s6_addr[0] = 0x20;
	in6.sin6_addr.s6_addr[15] = 1;
	results[4] = result_of(connect(tcp6, (void *)&in6, sizeof(in6)));
	/* The name server that libc falls back to is a wish for the network. */
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	(void)connect(tcp, (void *)&in, sizeof(in));
	/* Not seen: loopback, any, disconnect, netlink, send without an address. */
	in.sin_port = htons(54);
	(void)connect(tcp, (void *)&in, sizeof(in));
	in.sin_addr.s_addr = htonl(INADDR_ANY);
	(void)connect(tcp, (void *)&in, sizeof(in));
	in.sin_family = AF_UNSPEC;
	(void)connect(udp, (void *)&in, sizeof(in));
	(void)send(udp, "x", 1, 0);
	/* unix sockets */
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "/run/none/docker.sock");
	results[5] = result_of(connect(local, (void *)&un, sizeof(un)));
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", at("bound"));
	results[6] = result_of(bind(local, (void *)&un, sizeof(un)));
	results[7] = result_of(bind(local2, (void *)&un, sizeof(un)));
	memcpy(un.sun_path, "\0observer-test", 14);
	results[8] = result_of(connect(local2, (void *)&un, sizeof(sa_family_t) + 14));
	results[9] = result_of(bind(local2, (void *)&un, sizeof(sa_family_t) + 14));
	results[10] = result_of(listen(local2, 1));
	results[11] = result_of(
		connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&un, sizeof(sa_family_t) + 14));
	return 0;
}

static void network(void **state)
{
	static const struct {
		enum bj_op op;
		int family;
		const char *address, *path;
		uint16_t port;
		int result;
	} want[] = {
		{ BJ_OP_CONNECT, AF_INET, "198.51.100.1", "", 53, 0 },
		{ BJ_OP_SEND, AF_INET, "198.51.100.1", "", 53, 1 },
		{ BJ_OP_SEND, AF_INET, "198.51.100.1", "", 53, 2 },
		{ BJ_OP_SEND, AF_INET, "198.51.100.1", "", 53, -1 },
		{ BJ_OP_CONNECT, AF_INET6, "2000::1", "", 443, 4 },
		{ BJ_OP_CONNECT, AF_INET, "127.0.0.1", "", 53, -1 },
		{ BJ_OP_CONNECT, AF_UNIX, "", "/run/none/docker.sock", 0, 5 },
		{ BJ_OP_BIND, AF_UNIX, "", NULL, 0, 6 },
		{ BJ_OP_BIND, AF_UNIX, "", NULL, 0, 7 },
		{ BJ_OP_CONNECT, AF_UNIX, "@observer-test", "", 0, 8 },
	};

	(void)state;
	if (!has_own_network)
		skip_or_fail("no network namespace can be made");
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, talk, NULL);
	assert_clean_exit();
	if (run.n_seen != BJ_ARRAY_LEN(want))
		print_seen(&run);
	assert_int_equal(run.n_seen, BJ_ARRAY_LEN(want));
	for (size_t i = 0; i < BJ_ARRAY_LEN(want); i++) {
		const struct seen_record *r = &run.seen[i];

		assert_int_equal(r->op, want[i].op);
		assert_int_equal(r->family, want[i].family);
		assert_string_equal(r->address, want[i].address);
		assert_string_equal(r->path, want[i].path ? want[i].path : at("bound"));
		assert_int_equal(r->port, want[i].port);
		if (want[i].result >= 0 && r->error != results[want[i].result])
			fail_msg("record %zu predicts %d, it was %d", i, r->error,
				 results[want[i].result]);
	}
	assert_int_equal(results[11],
			 0); /* its own abstract name: reached, and nobody's business */
	unlink(at("bound"));
}

/* ---- hostile arguments ---- */

static int bad_arguments(void *arg)
{
	long page = sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sockaddr_in in = { .sin_family = AF_INET };

	(void)arg;
	if (two == MAP_FAILED || mprotect(two + page, (size_t)page, PROT_NONE) != 0)
		return 1;
	results[0] = result_of(by_open(NULL));
	results[1] = result_of(by_open(""));
	results[2] = result_of(syscall(SYS_openat, -5, "x", O_RDONLY));
	results[3] = result_of(syscall(SYS_openat, 99999, "x", O_RDONLY));
	results[4] = result_of(syscall(SYS_mkdir, (char *)8, 0700));
	results[5] = result_of(syscall(SYS_rename, NULL, "x"));
	results[6] = result_of(syscall(SYS_connect, -1, NULL, 16));
	results[7] = result_of(syscall(SYS_connect, -1, &in, 0xffffffff));
	results[8] = result_of(syscall(SYS_openat2, AT_FDCWD, "x", NULL, 24));
	results[9] = result_of(syscall(SYS_openat2, AT_FDCWD, "x", &in, 3));
	results[10] = result_of(syscall(SYS_sendmmsg, -1, NULL, 0xffffffff, 0));
	/* A path that ends with its page: read in full. */
	(void)snprintf(two + page - strlen(missing) - 1, strlen(missing) + 1, "%s", missing);
	results[11] = result_of(by_open(two + page - strlen(missing) - 1));
	return 0;
}

static void arguments_that_are_nonsense(void **state)
{
	static const int want[] = { EFAULT, ENOENT, EBADF,  EBADF,  EFAULT, EFAULT,
				    EBADF,  0,	    EFAULT, EINVAL, EBADF,  ENOENT };

	(void)state;
	start(BJ_OBSERVE_STRICT);
	observe(&run, bad_arguments, NULL);
	assert_clean_exit();
	for (size_t i = 0; i < BJ_ARRAY_LEN(want); i++)
		if (want[i] != 0)
			assert_int_equal(results[i], want[i]);
	/* Nothing but the one real path, and the second name of the rename. */
	assert_int_equal(count_seen(&run, 0, missing), 1);
	for (size_t i = 0; i < run.n_seen; i++)
		assert_true(strcmp(run.seen[i].path, missing) == 0 ||
			    run.seen[i].op == BJ_OP_RENAME_TO);
}

static int unreadable_arguments(void *arg)
{
	long page = sysconf(_SC_PAGESIZE);
	char *two = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char longest[PATH_MAX + 10];

	(void)arg;
	if (two == MAP_FAILED || munmap(two + page, (size_t)page) != 0)
		return 1;
	memset(two + page - 8, 'a', 8);
	results[0] = result_of(by_open(two + page - 8)); /* no end before the hole */
	memset(longest, 'a', sizeof(longest) - 1);
	results[1] = result_of(by_open(longest));
	results[2] = result_of(syscall(SYS_connect, -1, two + page - 4, 16));
	return 0;
}

static void what_cannot_be_read_is_counted(void **state)
{
	(void)state;
	start(BJ_OBSERVE_DEFAULT);
	observe(&run, unreadable_arguments, NULL);
	assert_int_equal(results[0], EFAULT);
	assert_int_equal(results[1], ENAMETOOLONG);
	assert_int_equal(run.n_seen, 0);
	assert_int_equal(run.stats.n_dropped, 3);
	assert_false(run.stats.complete);
}

/* ---- levels and names ---- */

static void names_of_operations(void **state)
{
	(void)state;
	for (int op = BJ_OP_OPEN_READ; op <= BJ_OP_SETXATTR; op++)
		assert_string_not_equal(bj_op_name((enum bj_op)op), "unknown");
	assert_string_equal(bj_op_name((enum bj_op)0), "unknown");
	assert_string_equal(bj_op_name((enum bj_op)(BJ_OP_SETXATTR + 1)), "unknown");
	assert_string_equal(bj_op_name((enum bj_op) - 1), "unknown");
	assert_true(bj_op_is_write(BJ_OP_RENAME_FROM));
	assert_true(bj_op_is_write(BJ_OP_OPEN_CREATE));
	assert_false(bj_op_is_write(BJ_OP_EXEC));
	assert_false(bj_op_is_write((enum bj_op)1000));
}

static void the_observer_without_memory(void **state)
{
	(void)state;
	/* Each of its allocations fails once; the listener is closed all the same. */
	for (uint64_t n = 0; n < 3; n++) {
		const struct bj_observer_hooks hooks = { 0 };
		struct bj_observer *observer = NULL;
		struct bj_err err = BJ_ERR_NULL;
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		bj_alloc_fail_after(n);
		assert_int_equal(
			bj_observer_new(fd, -1, BJ_OBSERVE_DEFAULT, &hooks, &observer, &err),
			-BJ_RESOURCE_EXHAUSTED);
		assert_true(bj_alloc_fail_disarm());
		assert_null(observer);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matrix_strict),
		cmocka_unit_test(matrix_default),
		cmocka_unit_test(matrix_of_reads_at_the_level_of_writes),
		cmocka_unit_test(reads_of_a_declared_file_are_touches),
		cmocka_unit_test(reads_of_what_is_there_undeclared),
		cmocka_unit_test(reads_of_the_toolchain_and_of_quiet_places),
		cmocka_unit_test(forms_of_one_path),
		cmocka_unit_test(relative_paths_follow_the_working_directory),
		cmocka_unit_test(names_are_bytes),
		cmocka_unit_test(links_are_followed),
		cmocka_unit_test(more_declared_files_than_are_kept_in_mind),
		cmocka_unit_test(exec_of_a_script_without_its_interpreter),
		cmocka_unit_test(exec_of_a_script_whose_interpreter_is_absent_from_the_toolchain),
		cmocka_unit_test(exec_of_a_script_with_a_script_as_interpreter),
		cmocka_unit_test(exec_of_what_is_not_there_and_of_what_may_not_be),
#if defined(__x86_64__)
		cmocka_unit_test(a_static_program),
		cmocka_unit_test(calls_of_32_bits),
#endif
		cmocka_unit_test(refused_calls_leave_a_record),
		cmocka_unit_test(network),
		cmocka_unit_test(arguments_that_are_nonsense),
		cmocka_unit_test(what_cannot_be_read_is_counted),
		cmocka_unit_test(names_of_operations),
		cmocka_unit_test(the_observer_without_memory),
	};

	return cmocka_run_group_tests_name("observer_live", tests, set_up, tear_down);
}
