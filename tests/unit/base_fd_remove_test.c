// SPDX-License-Identifier: Apache-2.0
/*
 * bj_remove_tree() against what a hostile action can leave behind. readdir() and fdopendir() are replaced here, so that
 * a test can move a directory away in the middle of the walk, or have an open fail.
 */
#include "tests/unit/base_test_util.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "executor/base/alloc.h"
#include "executor/base/fd.h"

/* ---- replaced calls ---- */

static struct {
	int calls_until;      /* before that many calls of readdir() … */
	void (*fn)(void);     /* … this runs, once */
	int fdopendirs_until; /* that many succeed, the next fails; -1: none */
	const char *name;     /* when an entry of this name was read … */
	void (*after)(void);  /* … this runs, once */
} hook = { .fdopendirs_until = -1 };

struct dirent *readdir(DIR *dir)
{
	static struct dirent *(*real)(DIR *);
	if (!real)
		real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
	if (hook.fn && hook.calls_until-- == 0) {
		void (*fn)(void) = hook.fn;
		hook.fn = NULL;
		fn();
	}
	struct dirent *entry = real(dir);
	if (entry && hook.after && strcmp(entry->d_name, hook.name) == 0) {
		void (*after)(void) = hook.after;
		hook.after = NULL;
		after();
	}
	return entry;
}

DIR *fdopendir(int fd)
{
	static DIR *(*real)(int);
	if (!real)
		real = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
	if (hook.fdopendirs_until >= 0 && hook.fdopendirs_until-- == 0) {
		errno = ENOMEM;
		return NULL;
	}
	return real(fd);
}

/* ---- trees ---- */

struct dir {
	char path[4096];
	int fd;
};

static struct dir *top; /* of the running test */

static int make_dir(void **state)
{
	static struct dir dir;
	dir.fd = make_temp_dir(dir.path);
	top = &dir;
	*state = &dir;
	return 0;
}

static int drop_dir(void **state)
{
	struct dir *dir = *state;
	close(dir->fd);
	return bj_remove_tree(AT_FDCWD, dir->path);
}

static void make_file(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	close(fd);
}

static bool exists(int dirfd, const char *name)
{
	struct stat st;
	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* @name below @dirfd, and @depth directories "d" in it, each with a file, a directory before and one after "d". */
static void make_deep(int dirfd, const char *name, int depth, bool has_siblings)
{
	assert_int_equal(mkdirat(dirfd, name, 0755), 0);
	int at = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth; i++) {
		if (has_siblings) {
			make_file(at, "file");
			assert_int_equal(mkdirat(at, "a", 0755), 0);
			assert_int_equal(mkdirat(at, "a/x", 0755), 0);
			make_file(at, "a/x/y");
			assert_int_equal(mkdirat(at, "z", 0755), 0);
		}
		assert_int_equal(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		close(at);
		at = next;
	}
	close(at);
}

static size_t count_fds(void)
{
	size_t n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- ordinary things ---- */

static void missing_is_success(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(bj_remove_tree(dir->fd, "no"), 0);
	assert_int_equal(bj_remove_tree(dir->fd, "no/where"), 0);
}

static void names_that_are_no_names_are_refused(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "d", 0755), 0);
	make_file(dir->fd, "d/f");
	static const char *const bad[] = { "", ".", "..", "/", "d/", "d/.", "d/.." };
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++)
		assert_int_equal(bj_remove_tree(dir->fd, bad[i]), -EINVAL);
	assert_true(exists(dir->fd, "d/f"));
	assert_int_equal(bj_remove_tree(-1, "x"), -EBADF);
	assert_int_equal(bj_remove_tree(dir->fd, "d/f/x"), -ENOTDIR);
}

static void every_kind_of_file_goes(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "t", 0755), 0);
	make_file(dir->fd, "t/file");
	assert_int_equal(mkdirat(dir->fd, "t/empty", 0755), 0);
	assert_int_equal(mkfifoat(dir->fd, "t/fifo", 0644), 0);
	assert_int_equal(symlinkat("nowhere", dir->fd, "t/dangling"), 0);
	assert_int_equal(mknodat(dir->fd, "t/socket", S_IFSOCK | 0644, 0), 0);
	make_file(dir->fd, "t/\xff\n \\");
	make_file(dir->fd, "t/...");
	char long_name[2 + 255 + 1] = "t/"; /* as long as names can be */
	memset(long_name + 2, 'n', 255);
	long_name[2 + 255] = '\0';
	assert_int_equal(mkdirat(dir->fd, long_name, 0755), 0);
	assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
	assert_false(exists(dir->fd, "t"));
	make_file(dir->fd, "single");
	assert_int_equal(bj_remove_tree(dir->fd, "single"), 0);
	assert_false(exists(dir->fd, "single"));
}

static void links_are_removed_not_followed(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "kept", 0755), 0);
	make_file(dir->fd, "kept/f");
	assert_int_equal(mkdirat(dir->fd, "t", 0755), 0);
	assert_int_equal(symlinkat("../kept", dir->fd, "t/link"), 0);
	assert_int_equal(symlinkat(dir->path, dir->fd, "t/absolute"), 0);
	assert_int_equal(linkat(dir->fd, "kept/f", dir->fd, "t/hard", 0), 0);
	assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
	assert_true(exists(dir->fd, "kept/f"));
	assert_int_equal(symlinkat("kept", dir->fd, "top"), 0);
	assert_int_equal(bj_remove_tree(dir->fd, "top"), 0);
	assert_false(exists(dir->fd, "top"));
	assert_true(exists(dir->fd, "kept/f"));
}

static void paths_may_have_several_parts(void **state)
{
	struct dir *dir = *state;
	make_deep(dir->fd, "a", 2, true);
	char path[5000];
	assert_int_equal(bj_remove_tree(dir->fd, "a/d"), 0);
	assert_true(exists(dir->fd, "a/file"));
	snprintf(path, sizeof(path), "%s/a", dir->path);
	assert_int_equal(bj_remove_tree(AT_FDCWD, path), 0);
	assert_false(exists(dir->fd, "a"));
}

static void five_thousand_entries_go(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "t", 0755), 0);
	int fd = openat(dir->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 5000; i++) {
		char name[32];
		snprintf(name, sizeof(name), "entry-%d", i);
		if (i % 5 == 0)
			assert_int_equal(mkdirat(fd, name, 0755), 0);
		else
			make_file(fd, name);
	}
	close(fd);
	assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
	assert_false(exists(dir->fd, "t"));
}

/* ---- deep ---- */

static int remove_with_few_descriptors(void *arg)
{
	struct dir *dir = arg;
	struct rlimit limit = { 3, 3 };
	while (fcntl((int)limit.rlim_cur, F_GETFD) >= 0)
		limit.rlim_cur++;
	limit.rlim_cur += 22;
	limit.rlim_max = limit.rlim_cur;
	CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	struct rlimit stack = { 1 << 20, 1 << 20 };
	CHILD_CHECK(setrlimit(RLIMIT_STACK, &stack) == 0);
	CHILD_CHECK(bj_remove_tree(dir->fd, "t") == 0);
	CHILD_CHECK(!exists(dir->fd, "t"));
	return 0;
}

static void ten_thousand_levels_go_with_22_descriptors(void **state)
{
	struct dir *dir = *state;
	make_deep(dir->fd, "t", 10000, false);
	expect_child_ok(remove_with_few_descriptors, dir, "");
}

static void siblings_at_every_level_go(void **state)
{
	struct dir *dir = *state;
	/* around the number of levels that stay open, and several times that */
	static const int depths[] = { 1, 14, 15, 16, 17, 18, 31, 33, 200 };
	for (size_t i = 0; i < BJ_ARRAY_LEN(depths); i++) {
		make_deep(dir->fd, "t", depths[i], true);
		size_t n_fds = count_fds();
		assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
		assert_int_equal(count_fds(), n_fds);
		assert_false(exists(dir->fd, "t"));
	}
}

/* ---- modes ---- */

/* Without capabilities an owner has only what the mode bits give, root or not. */
static bool drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	return syscall(SYS_capset, &header, data) == 0;
}

static int remove_unprivileged(void *arg)
{
	struct dir *dir = arg;
	CHILD_CHECK(drop_capabilities());
	int denied = openat(dir->fd, "t/m0", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHILD_CHECK(denied < 0 && errno == EACCES); /* or the test shows nothing */
	CHILD_CHECK(bj_remove_tree(dir->fd, "t") == 0);
	CHILD_CHECK(!exists(dir->fd, "t"));
	return 0;
}

/* As on a kernel before 6.6. */
static bool hide_fchmodat2(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 452, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { BJ_ARRAY_LEN(filter), filter };
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int remove_unprivileged_on_an_old_kernel(void *arg)
{
	if (!hide_fchmodat2())
		return CHILD_SKIPPED;
	CHILD_CHECK(syscall(452, AT_FDCWD, "/", 0755, 0) < 0 && errno == ENOSYS);
	return remove_unprivileged(arg);
}

static void make_locked_tree(const struct dir *dir)
{
	assert_int_equal(mkdirat(dir->fd, "t", 0755), 0);
	for (unsigned int i = 0; i < 8; i++) {
		char name[32];
		snprintf(name, sizeof(name), "t/m%u", i);
		make_deep(dir->fd, name, 20, true);
		char inner[64];
		snprintf(inner, sizeof(inner), "%s/d/d/d", name);
		assert_int_equal(fchmodat(dir->fd, inner, i << 6, 0), 0);
		assert_int_equal(fchmodat(dir->fd, name, i << 6 | 07, 0), 0);
	}
	assert_int_equal(fchmodat(dir->fd, "t", 0500, 0), 0);
}

static void directories_without_permissions_go(void **state)
{
	make_locked_tree(*state);
	expect_child_ok(remove_unprivileged, *state, "");
}

static void they_go_on_an_old_kernel_too(void **state)
{
	make_locked_tree(*state);
	expect_child_ok(remove_unprivileged_on_an_old_kernel, *state, "seccomp is refused");
}

static int remove_from_a_locked_parent(void *arg)
{
	struct dir *dir = arg;
	CHILD_CHECK(drop_capabilities());
	CHILD_CHECK(bj_remove_tree(dir->fd, "locked/t") == -EACCES);
	CHILD_CHECK(exists(dir->fd, "locked/t"));
	CHILD_CHECK(!exists(dir->fd, "locked/t/d")); /* the rest is still tried */
	CHILD_CHECK(bj_remove_tree(dir->fd, "locked/f") == -EACCES);
	return 0;
}

static void a_parent_that_is_not_ours_is_left_alone(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "locked", 0755), 0);
	make_deep(dir->fd, "locked/t", 3, true);
	make_file(dir->fd, "locked/f");
	assert_int_equal(fchmodat(dir->fd, "locked", 0555, 0), 0);
	expect_child_ok(remove_from_a_locked_parent, dir, "");
	struct stat st;
	assert_int_equal(fstatat(dir->fd, "locked", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
}

/* ---- what cannot go ---- */

/* The path "t/d/d/…" with @depth times "d". */
static void deep_path(char *path, int depth)
{
	memcpy(path, "t", 2);
	for (int i = 0; i < depth; i++)
		strncat(path, "/d", 3);
}

static int remove_around_a_mount(void *arg)
{
	struct dir *dir = arg;
	if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return CHILD_SKIPPED;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return CHILD_SKIPPED;
	char path[512];
	deep_path(path, 40);
	dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* in the new namespace */
	CHILD_CHECK(dir->fd >= 0 && fchdir(dir->fd) == 0);
	if (mount("keep", path, NULL, MS_BIND, NULL) !=
	    0) /* of the same file system: only the mount tells */
		return CHILD_SKIPPED;

	CHILD_CHECK(bj_remove_tree(dir->fd, "t") == -EXDEV);
	CHILD_CHECK(exists(dir->fd, "keep/f"));
	for (int depth = 0; depth < 40; depth++) { /* all else is gone, at every level */
		deep_path(path, depth);
		int fd = openat(dir->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHILD_CHECK(fd >= 0);
		CHILD_CHECK(!exists(fd, "a") && !exists(fd, "z") && !exists(fd, "file"));
		CHILD_CHECK(exists(fd, "d"));
		close(fd);
	}
	deep_path(path, 40);
	CHILD_CHECK(bj_remove_tree(dir->fd, path) == -EXDEV); /* as the top, too */
	CHILD_CHECK(exists(dir->fd, "keep/f"));
	return 0;
}

static void a_mount_point_is_not_entered_and_the_rest_goes(void **state)
{
	struct dir *dir = *state;
	make_deep(dir->fd, "t", 41, true);
	assert_int_equal(mkdirat(dir->fd, "keep", 0755), 0);
	make_file(dir->fd, "keep/f");
	expect_child_ok(remove_around_a_mount, dir, "no mount namespace to be had");
}

static void move_level_20_away(void)
{
	char path[512];
	deep_path(path, 20);
	CHILD_CHECK(renameat(top->fd, path, top->fd, "elsewhere/moved") == 0);
}

/*
 * In a chroot of the test's own directory: if the check on the way up were broken, the walk would go on removing what is
 * above, and as root that is the machine. There ".." of the root is the root.
 */
static int remove_while_a_directory_moves(void *arg)
{
	struct dir *dir = arg;
	if (chroot(dir->path) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(dir->path) != 0))
		return CHILD_SKIPPED;
	CHILD_CHECK(chdir("/") == 0);
	dir->fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHILD_CHECK(dir->fd >= 0);
	size_t n_fds = count_fds();
	CHILD_CHECK(bj_remove_tree(dir->fd, "t") == -ESTALE);
	CHILD_CHECK(hook.fn == NULL); /* it did happen */
	CHILD_CHECK(count_fds() == n_fds);
	CHILD_CHECK(exists(dir->fd, "elsewhere/precious"));
	CHILD_CHECK(bj_remove_tree(dir->fd, "t") == 0);
	return 0;
}

/* Somebody moves a directory on our way: going up from there must not lead us to remove what is beside it. */
static void a_directory_moved_during_the_walk_ends_it(void **state)
{
	struct dir *dir = *state;
	make_deep(dir->fd, "t", 60, false);
	assert_int_equal(mkdirat(dir->fd, "elsewhere", 0755), 0);
	make_file(dir->fd, "elsewhere/precious");
	hook.calls_until = 58 * 3;
	hook.fn = move_level_20_away;
	expect_child_ok(remove_while_a_directory_moves, dir, "no chroot to be had");
	hook.fn = NULL; /* this process's copy did not run */
}

static void swap_directory_for_link(void)
{
	assert_int_equal(unlinkat(top->fd, "t/swapped", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("../kept", top->fd, "t/swapped"), 0);
}

/* Between the look at an entry and its opening it becomes a link. */
static void a_directory_that_turns_into_a_link_is_not_followed(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "kept", 0755), 0);
	make_file(dir->fd, "kept/f");
	assert_int_equal(mkdirat(dir->fd, "t", 0755), 0);
	assert_int_equal(mkdirat(dir->fd, "t/swapped", 0755), 0);
	hook.name = "swapped";
	hook.after = swap_directory_for_link;
	assert_int_equal(bj_remove_tree(dir->fd, "t"), -ENOTDIR);
	assert_null(hook.after);
	assert_true(exists(dir->fd, "kept/f"));
	assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
	assert_true(exists(dir->fd, "kept/f"));
}

static void add_a_late_file(void)
{
	make_file(top->fd, "t/late");
}

static void a_file_added_during_the_walk_goes_too(void **state)
{
	struct dir *dir = *state;
	make_deep(dir->fd, "t", 1, true);
	hook.calls_until = 6;
	hook.fn = add_a_late_file;
	assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
	assert_null(hook.fn);
	assert_false(exists(dir->fd, "t"));
}

/* ---- faults ---- */

static void each_allocation_may_fail(void **state)
{
	struct dir *dir = *state;
	uint64_t n = 0;
	for (;; n++) {
		make_deep(dir->fd, "t", 40, true);
		size_t n_fds = count_fds();
		bj_alloc_fail_after(n);
		int r = bj_remove_tree(dir->fd, "t");
		bool did_fail = bj_alloc_fail_disarm();
		assert_int_equal(r, did_fail ? -ENOMEM : 0);
		assert_int_equal(count_fds(), n_fds);
		assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
		assert_false(exists(dir->fd, "t"));
		if (!did_fail)
			break;
	}
	assert_true(n >= 3);
}

static void each_directory_stream_may_fail(void **state)
{
	struct dir *dir = *state;
	int n = 0;
	for (;; n++) {
		make_deep(dir->fd, "t", 20, true);
		size_t n_fds = count_fds();
		hook.fdopendirs_until = n;
		int r = bj_remove_tree(dir->fd, "t");
		bool did_fail = hook.fdopendirs_until < 0;
		hook.fdopendirs_until = -1;
		assert_int_equal(r, did_fail ? -ENOMEM : 0);
		assert_int_equal(count_fds(), n_fds);
		assert_int_equal(bj_remove_tree(dir->fd, "t"), 0);
		assert_false(exists(dir->fd, "t"));
		if (!did_fail)
			break;
	}
	assert_true(n > 60); /* 81 directories are opened, and some again */
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIR_TEST(missing_is_success),
		DIR_TEST(names_that_are_no_names_are_refused),
		DIR_TEST(every_kind_of_file_goes),
		DIR_TEST(links_are_removed_not_followed),
		DIR_TEST(paths_may_have_several_parts),
		DIR_TEST(five_thousand_entries_go),
		DIR_TEST(ten_thousand_levels_go_with_22_descriptors),
		DIR_TEST(siblings_at_every_level_go),
		DIR_TEST(directories_without_permissions_go),
		DIR_TEST(they_go_on_an_old_kernel_too),
		DIR_TEST(a_parent_that_is_not_ours_is_left_alone),
		DIR_TEST(a_mount_point_is_not_entered_and_the_rest_goes),
		DIR_TEST(a_directory_moved_during_the_walk_ends_it),
		DIR_TEST(a_directory_that_turns_into_a_link_is_not_followed),
		DIR_TEST(a_file_added_during_the_walk_goes_too),
		DIR_TEST(each_allocation_may_fail),
		DIR_TEST(each_directory_stream_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
