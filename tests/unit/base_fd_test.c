// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "executor/base/alloc.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/base/fd.h"

struct dir {
	char path[4096];
	int fd;
};

static int make_dir(void **state)
{
	struct dir *dir = bj_malloc(sizeof(*dir));
	assert_non_null(dir);
	dir->fd = make_temp_dir(dir->path);
	*state = dir;
	return 0;
}

static int drop_dir(void **state)
{
	struct dir *dir = *state;
	close(dir->fd);
	int r = bj_remove_tree(AT_FDCWD, dir->path);
	bj_free(dir);
	return r;
}

static void put_file(int dirfd, const char *name, const char *text)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void assert_file(int dirfd, const char *name, const char *text)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_buf buf = BJ_BUF_INIT(1000);
	assert_int_equal(bj_file_read_all(dirfd, name, &buf, &err), 0);
	assert_string_equal(bj_buf_cstr(&buf), text);
	bj_buf_deinit(&buf);
}

static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	assert_non_null(dir);
	size_t n = 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

/* ---- reading and writing ---- */

static volatile sig_atomic_t n_alarms;

static void count_alarm(int sig)
{
	(void)sig;
	n_alarms++;
}

struct reader {
	int fd;
	size_t n_bytes;
	bool is_in_order;
};

static void *read_slowly(void *arg)
{
	struct reader *reader = arg;
	unsigned char block[1000];
	ssize_t n;
	reader->is_in_order = true;
	while ((n = read(reader->fd, block, sizeof(block))) > 0)
		for (ssize_t i = 0; i < n; i++)
			reader->is_in_order &= block[i] == reader->n_bytes++ % 251;
	return NULL;
}

/* A timer without SA_RESTART cuts writes to a pipe short and makes them fail with EINTR. */
static void write_all_outlives_interruptions(void **state)
{
	(void)state;
	enum { SIZE = 4 << 20 };
	unsigned char *data = bj_malloc(SIZE);
	assert_non_null(data);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = (unsigned char)(i % 251);

	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	struct reader reader = { .fd = ends[0] };
	sigset_t alarm_set;
	sigemptyset(&alarm_set);
	sigaddset(&alarm_set, SIGALRM);
	pthread_t thread;
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &alarm_set, NULL), 0); /* not the reader's */
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL), 0);

	struct sigaction action = { .sa_handler = count_alarm };
	assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	struct itimerval timer = { { 0, 500 }, { 0, 500 } };
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
	struct bj_err err = BJ_ERR_NULL;
	size_t n_rounds = 0;
	while (n_alarms < 20) { /* so that the test cannot pass without interruptions */
		assert_int_equal(bj_fd_write_all(ends[1], data, 251 * 16000, "pipe", &err), 0);
		n_rounds++;
	}
	struct itimerval off = { { 0, 0 }, { 0, 0 } };
	assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
	close(ends[1]);
	pthread_join(thread, NULL);
	assert_int_equal(reader.n_bytes, n_rounds * 251 * 16000);
	assert_true(reader.is_in_order);
	close(ends[0]);
	bj_free(data);
}

static void write_errors_name_the_object(void **state)
{
	(void)state;
	struct bj_err err = BJ_ERR_NULL;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(bj_fd_write_all(fd, "x", 1, "blob 7", &err), -BJ_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "write blob 7: No space left on device");
	bj_err_clear(&err);
	assert_int_equal(bj_fd_write_all(fd, "x", 0, "nothing", &err), 0);
	close(fd);
	assert_int_equal(bj_fd_write_all(-1, "x", 1, "nowhere", &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, EBADF);
}

static void read_all_keeps_to_the_limit(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	put_file(dir->fd, "f", "0123456789");
	static const struct {
		size_t max_bytes;
		int result;
	} rows[] = { { 10, 0 },
		     { 11, 0 },
		     { 100000, 0 },
		     { 9, -BJ_RESOURCE_EXHAUSTED },
		     { 0, -BJ_RESOURCE_EXHAUSTED } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_buf buf = BJ_BUF_INIT(rows[i].max_bytes);
		assert_int_equal(bj_file_read_all(dir->fd, "f", &buf, &err), rows[i].result);
		assert_string_equal(bj_buf_cstr(&buf), rows[i].result ? "" : "0123456789");
		assert_int_equal(bj_err_is_set(&err), rows[i].result != 0);
		bj_err_clear(&err);
		bj_buf_deinit(&buf);
	}
}

static void read_all_appends_and_undoes_on_failure(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	put_file(dir->fd, "f", "0123456789");
	struct bj_buf buf = BJ_BUF_INIT(14);
	assert_true(bj_buf_append_cstr(&buf, "ab"));
	assert_int_equal(bj_file_read_all(dir->fd, "f", &buf, &err), 0);
	assert_string_equal(bj_buf_cstr(&buf), "ab0123456789");
	assert_int_equal(bj_file_read_all(dir->fd, "f", &buf, &err), -BJ_RESOURCE_EXHAUSTED);
	assert_string_equal(bj_buf_cstr(&buf), "ab0123456789");
	bj_err_clear(&err);
	assert_int_equal(bj_file_read_all(dir->fd, ".", &buf, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, EISDIR);
	assert_string_equal(bj_buf_cstr(&buf), "ab0123456789");
	bj_buf_deinit(&buf);
}

static void an_empty_file_fits_anywhere(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	put_file(dir->fd, "empty", "");
	struct bj_buf buf = BJ_BUF_INIT(0);
	assert_int_equal(bj_file_read_all(dir->fd, "empty", &buf, &err), 0);
	assert_int_equal(buf.len, 0);
	bj_buf_deinit(&buf);
}

static void read_without_memory_is_resource_exhausted(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	put_file(dir->fd, "f", "x");
	struct bj_buf buf = BJ_BUF_INIT(100);
	bj_alloc_fail_after(0);
	assert_int_equal(bj_file_read_all(dir->fd, "f", &buf, &err), -BJ_RESOURCE_EXHAUSTED);
	assert_true(bj_alloc_fail_disarm());
	assert_int_equal(buf.len, 0);
	bj_buf_deinit(&buf);
}

static void a_missing_file_is_an_outcome(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_buf buf = BJ_BUF_INIT(100);
	assert_int_equal(bj_file_read_all(dir->fd, "no", &buf, &err), BJ_FD_E_MISSING);
	assert_false(bj_err_is_set(&err));
	put_file(dir->fd, "f", "");
	assert_int_equal(bj_file_read_all(dir->fd, "f/x", &buf, &err), -BJ_INTERNAL);
	assert_string_equal(err.msg, "open \"f/x\": Not a directory");
}

/* ---- replacing ---- */

static void replace_makes_and_replaces(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	mode_t mask = umask(077);
	assert_int_equal(bj_file_replace(dir->fd, "f", "one", 3, 0644, &err), 0);
	assert_file(dir->fd, "f", "one");
	struct stat before;
	assert_int_equal(fstatat(dir->fd, "f", &before, 0), 0);
	assert_int_equal(before.st_mode & 07777, 0644); /* whatever the umask */
	int old = openat(dir->fd, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(bj_file_replace(dir->fd, "f", "second", 6, 0600, &err), 0);
	umask(mask);
	assert_file(dir->fd, "f", "second");
	struct stat after;
	assert_int_equal(fstatat(dir->fd, "f", &after, 0), 0);
	assert_int_equal(after.st_mode & 07777, 0600);
	assert_true(before.st_ino != after.st_ino);
	char text[8] = "";
	assert_int_equal(read(old, text, sizeof(text)), 3); /* who has it open sees the old one */
	assert_string_equal(text, "one");
	close(old);
	assert_int_equal(count_entries(dir->path), 1);
}

static void replace_works_in_a_subdirectory_and_through_no_link(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(mkdirat(dir->fd, "sub", 0755), 0);
	assert_int_equal(bj_file_replace(dir->fd, "sub/f", "x", 1, 0644, &err), 0);
	assert_file(dir->fd, "sub/f", "x");
	assert_int_equal(count_entries(dir->path), 1);

	put_file(dir->fd, "target", "kept");
	assert_int_equal(symlinkat("target", dir->fd, "link"), 0);
	assert_int_equal(bj_file_replace(dir->fd, "link", "new", 3, 0644, &err), 0);
	assert_file(dir->fd, "target", "kept");
	assert_file(dir->fd, "link", "new");
}

static void a_failed_replace_leaves_nothing_behind(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(mkdirat(dir->fd, "d", 0755), 0);
	assert_int_equal(bj_file_replace(dir->fd, "d", "x", 1, 0644, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, EISDIR);
	assert_int_equal(count_entries(dir->path), 1);
	bj_err_clear(&err);
	assert_int_equal(bj_file_replace(dir->fd, "no/f", "x", 1, 0644, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, ENOENT);
	bj_err_clear(&err);
	char path[5000];
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	path[4095] = '/';
	assert_int_equal(bj_file_replace(dir->fd, path, "x", 1, 0644, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, ENAMETOOLONG);
	bj_err_clear(&err);
	path[4095] = 'a';
	path[4080] = '/'; /* the directory fits, the temporary name does not */
	assert_int_equal(bj_file_replace(dir->fd, path, "x", 1, 0644, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, ENAMETOOLONG);
}

static void replace_steps_over_names_that_are_taken(void **state)
{
	struct dir *dir = *state;
	struct bj_err err = BJ_ERR_NULL;
	char name[64];
	for (int i = 0; i < 90; i++) {
		snprintf(name, sizeof(name), ".bj-%ld-%d.tmp", (long)getpid(), i);
		put_file(dir->fd, name, "left over");
	}
	assert_int_equal(bj_file_replace(dir->fd, "f", "x", 1, 0644, &err), 0);
	assert_int_equal(count_entries(dir->path), 91);
	for (int i = 90; i < 500; i++) {
		snprintf(name, sizeof(name), ".bj-%ld-%d.tmp", (long)getpid(), i);
		put_file(dir->fd, name, "left over");
	}
	assert_int_equal(bj_file_replace(dir->fd, "f", "y", 1, 0644, &err), -BJ_INTERNAL);
	assert_int_equal(err.sys_errno, EEXIST);
	assert_file(dir->fd, "f", "x");
}

/* ---- beneath ---- */

static void open_beneath_stays_beneath(void **state)
{
	struct dir *dir = *state;
	assert_int_equal(mkdirat(dir->fd, "root", 0755), 0);
	int root = openat(dir->fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(root, "a", 0755), 0);
	put_file(root, "a/f", "x");
	put_file(dir->fd, "outside", "x");
	assert_int_equal(symlinkat("a", root, "dirlink"), 0);
	assert_int_equal(symlinkat("a/f", root, "link"), 0);
	assert_int_equal(symlinkat("../outside", root, "out"), 0);
	static const struct {
		const char *path;
		int flags;
		int result; /* 0: a descriptor */
	} rows[] = {
		{ "a/f", O_RDONLY, 0 },
		{ ".", O_RDONLY | O_DIRECTORY, 0 },
		{ "a/../a/f", O_RDONLY, 0 },
		{ "", O_RDONLY, -ENOENT },
		{ "no", O_RDONLY, -ENOENT },
		{ "..", O_RDONLY, -EXDEV },
		{ "../outside", O_RDONLY, -EXDEV },
		{ "a/../../outside", O_RDONLY, -EXDEV },
		{ "/etc/passwd", O_RDONLY, -EXDEV },
		{ "link", O_RDONLY, -ELOOP },
		{ "dirlink/f", O_RDONLY, -ELOOP },
		{ "out", O_RDONLY, -ELOOP },
		{ "a", O_WRONLY, -EISDIR },
		{ "new/f", O_WRONLY | O_CREAT, -ENOENT },
		{ "a/f", O_WRONLY | O_CREAT | O_EXCL, -EEXIST },
		{ "out", O_WRONLY | O_CREAT, -ELOOP },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		int fd = bj_open_beneath(root, rows[i].path, rows[i].flags, 0644);
		if (rows[i].result ? fd != rows[i].result : fd < 0)
			fail_msg("\"%s\" gave %d", rows[i].path, fd);
		if (fd >= 0) {
			assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
			close(fd);
		}
	}
	close(root);
}

static void open_beneath_creates_with_the_mode(void **state)
{
	struct dir *dir = *state;
	mode_t mask = umask(022);
	int fd = bj_open_beneath(dir->fd, "new", O_WRONLY | O_CREAT | O_EXCL, S_IFREG | 0666);
	umask(mask);
	assert_true(fd >= 0);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	close(fd);
	/* a mode without O_CREAT is not an error, as with open(2) */
	fd = bj_open_beneath(dir->fd, "new", O_RDONLY, 0644);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(bj_open_beneath(-1, "new", O_RDONLY, 0), -EBADF);
}

/* ---- mkdir -p ---- */

static bool is_dir(int dirfd, const char *path)
{
	struct stat st;
	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void mkdir_p_makes_what_is_missing(void **state)
{
	struct dir *dir = *state;
	mode_t mask = umask(0);
	assert_int_equal(bj_mkdir_p(dir->fd, "a/b/c", 0750), 0);
	umask(mask);
	struct stat st;
	assert_int_equal(fstatat(dir->fd, "a/b", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_true(is_dir(dir->fd, "a/b/c"));
	assert_int_equal(bj_mkdir_p(dir->fd, "a/b/c", 0755), 0);
	assert_int_equal(bj_mkdir_p(dir->fd, "a//x/./y/", 0755), 0);
	assert_true(is_dir(dir->fd, "a/x/y"));
	assert_int_equal(bj_mkdir_p(dir->fd, ".", 0755), 0);
}

static void mkdir_p_refuses(void **state)
{
	struct dir *dir = *state;
	put_file(dir->fd, "f", "");
	assert_int_equal(mkdirat(dir->fd, "d", 0755), 0);
	assert_int_equal(symlinkat("d", dir->fd, "link"), 0);
	assert_int_equal(symlinkat("nowhere", dir->fd, "dangling"), 0);
	char long_name[300];
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(bj_mkdir_p(dir->fd, "", 0755), -ENOENT);
	assert_int_equal(bj_mkdir_p(dir->fd, "/abs", 0755), -EINVAL);
	assert_int_equal(bj_mkdir_p(dir->fd, "d/..", 0755), -EINVAL);
	assert_int_equal(bj_mkdir_p(dir->fd, "../x", 0755), -EINVAL);
	assert_int_equal(bj_mkdir_p(dir->fd, "f", 0755), -ENOTDIR);
	assert_int_equal(bj_mkdir_p(dir->fd, "f/x", 0755), -ENOTDIR);
	assert_int_equal(bj_mkdir_p(dir->fd, "link/x", 0755), -ENOTDIR);
	assert_false(is_dir(dir->fd, "d/x"));
	assert_int_equal(bj_mkdir_p(dir->fd, "dangling", 0755), -ENOTDIR);
	assert_false(is_dir(dir->fd, "nowhere"));
	assert_int_equal(bj_mkdir_p(dir->fd, long_name, 0755), -ENAMETOOLONG);
	assert_int_equal(bj_mkdir_p(-1, "x", 0755), -EBADF);
}

static void mkdir_p_trusts_the_operators_path(void **state)
{
	struct dir *dir = *state;
	char path[5000];
	assert_int_equal(mkdirat(dir->fd, "d", 0755), 0);
	assert_int_equal(symlinkat("d", dir->fd, "link"), 0);
	snprintf(path, sizeof(path), "%s/link/x/y", dir->path);
	assert_int_equal(bj_mkdir_p(AT_FDCWD, path, 0755), 0);
	assert_true(is_dir(dir->fd, "d/x/y"));
	assert_int_equal(bj_mkdir_p(AT_FDCWD, "/", 0755), 0);
}

#define DIR_TEST(f) cmocka_unit_test_setup_teardown(f, make_dir, drop_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_all_outlives_interruptions),
		cmocka_unit_test(write_errors_name_the_object),
		DIR_TEST(read_all_keeps_to_the_limit),
		DIR_TEST(read_all_appends_and_undoes_on_failure),
		DIR_TEST(an_empty_file_fits_anywhere),
		DIR_TEST(read_without_memory_is_resource_exhausted),
		DIR_TEST(a_missing_file_is_an_outcome),
		DIR_TEST(replace_makes_and_replaces),
		DIR_TEST(replace_works_in_a_subdirectory_and_through_no_link),
		DIR_TEST(a_failed_replace_leaves_nothing_behind),
		DIR_TEST(replace_steps_over_names_that_are_taken),
		DIR_TEST(open_beneath_stays_beneath),
		DIR_TEST(open_beneath_creates_with_the_mode),
		DIR_TEST(mkdir_p_makes_what_is_missing),
		DIR_TEST(mkdir_p_refuses),
		DIR_TEST(mkdir_p_trusts_the_operators_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
