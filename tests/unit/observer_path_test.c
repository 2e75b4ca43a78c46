// SPDX-License-Identifier: Apache-2.0
/* Paths: the lexical normal form, the kernel's own links, and lookups below a root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/fd.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

static void normal_forms(void **state)
{
	static const char *const cases[][2] = {
		{ "/", "/" },
		{ "//", "/" },
		{ "/.", "/" },
		{ "/..", "/" },
		{ "/../..", "/" },
		{ "/a", "/a" },
		{ "/a/", "/a" },
		{ "//a//b///", "/a/b" },
		{ "/a/./b/.", "/a/b" },
		{ "/a/../b", "/b" },
		{ "/a/b/../..", "/" },
		{ "/a/b/../../../c", "/c" },
		{ "/a/..b/...", "/a/..b/..." },
		{ "/.a/.", "/.a" },
		{ "/a b/\xc3\xa9\n", "/a b/\xc3\xa9\n" },
		{ "/exec/../exec/x/", "/exec/x" },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(cases); i++) {
		ssize_t len = bj_path_normalize(bj_str_of(cases[i][0]), out, sizeof(out));

		assert_string_equal(out, cases[i][1]);
		assert_int_equal(len, strlen(cases[i][1]));
	}
}

static void a_path_that_is_not_absolute(void **state)
{
	char out[8];

	(void)state;
	assert_int_equal(bj_path_normalize(bj_str_of("a"), out, sizeof(out)), -EINVAL);
	assert_int_equal(bj_path_normalize(bj_str_of(""), out, sizeof(out)), -EINVAL);
	assert_int_equal(bj_path_normalize(BJ_STR_NULL, out, sizeof(out)), -EINVAL);
}

static void the_room_for_the_normal_form(void **state)
{
	char out[6];

	(void)state;
	assert_int_equal(bj_path_normalize(bj_str_of("/abcd"), out, sizeof(out)), 5);
	assert_string_equal(out, "/abcd");
	assert_int_equal(bj_path_normalize(bj_str_of("/abcde"), out, sizeof(out)), -ENAMETOOLONG);
	assert_int_equal(bj_path_normalize(bj_str_of("/abc/../abcd"), out, sizeof(out)), 5);
	assert_int_equal(bj_path_normalize(bj_str_of("/"), out, 1), -EINVAL);
	assert_int_equal(bj_path_normalize(bj_str_of("/"), out, 2), 1);
}

static void joining(void **state)
{
	char out[16];

	(void)state;
	assert_int_equal(bj_path_join(bj_str_of("/w"), bj_str_of("a"), out, sizeof(out)), 4);
	assert_string_equal(out, "/w/a");
	assert_int_equal(bj_path_join(bj_str_of("/w"), bj_str_of("/a"), out, sizeof(out)), 2);
	assert_string_equal(out, "/a");
	assert_int_equal(bj_path_join(bj_str_of("/w"), bj_str_of(""), out, sizeof(out)), 2);
	assert_string_equal(out, "/w");
	assert_int_equal(bj_path_join(bj_str_of("/w"), bj_str_of("../x/"), out, sizeof(out)), 8);
	assert_string_equal(out, "/w/../x/");
	assert_int_equal(bj_path_join(bj_str_of("/1234567"), bj_str_of("9abcde"), out, sizeof(out)),
			 15);
	assert_int_equal(
		bj_path_join(bj_str_of("/1234567"), bj_str_of("9abcdef"), out, sizeof(out)),
		-ENAMETOOLONG);
	assert_int_equal(
		bj_path_join(bj_str_of("/w"), bj_str_of("/23456789abcdef"), out, sizeof(out)), 15);
	assert_int_equal(
		bj_path_join(bj_str_of("/w"), bj_str_of("/23456789abcdef0"), out, sizeof(out)),
		-ENAMETOOLONG);
}

static void last_components(void **state)
{
	static const char *const cases[][2] = {
		{ "/", "" },	 { "//", "" },	    { "/a", "a" },
		{ "/a/b", "b" }, { "/a/b//", "b" }, { "/a/..", ".." },
	};

	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(cases); i++)
		assert_true(
			bj_str_eq(bj_path_last(bj_str_of(cases[i][0])), bj_str_of(cases[i][1])));
}

static void links_of_the_kernel(void **state)
{
	static const struct {
		const char *path;
		int link; /* 0: none */
		bool is_self;
		int64_t pid;
		int fd;
		const char *rest;
	} cases[] = {
		{ "/proc/self/cwd", BJ_PROC_CWD, true, 0, -1, "" },
		{ "/proc/self/cwd/x/y", BJ_PROC_CWD, true, 0, -1, "/x/y" },
		{ "//proc/./self//cwd/../z", BJ_PROC_CWD, true, 0, -1, "/../z" },
		{ "/proc/thread-self/root/etc", BJ_PROC_ROOT, true, 0, -1, "/etc" },
		{ "/proc/self/fd/17/a", BJ_PROC_FD, true, 0, 17, "/a" },
		{ "/proc/12/cwd/a", BJ_PROC_CWD, false, 12, -1, "/a" },
		{ "/proc/self/exe", BJ_PROC_EXE, true, 0, -1, "" },
		{ "/dev/fd/3", BJ_PROC_FD, true, 0, 3, "" },
		{ "/dev/fd/3/a", BJ_PROC_FD, true, 0, 3, "/a" },
		{ "/dev/stdin", BJ_PROC_FD, true, 0, 0, "" },
		{ "/dev/stderr", BJ_PROC_FD, true, 0, 2, "" },
		{ "/dev/stdout/a", 0, false, 0, 0, NULL },
		{ "/dev/null", 0, false, 0, 0, NULL },
		{ "/dev/fd", 0, false, 0, 0, NULL },
		{ "/dev/fd/x", 0, false, 0, 0, NULL },
		{ "/dev/fd/4294967296", 0, false, 0, 0, NULL },
		{ "/proc/self/maps", 0, false, 0, 0, NULL },
		{ "/proc/self/fd", 0, false, 0, 0, NULL },
		{ "/proc/self/fd/-1", 0, false, 0, 0, NULL },
		{ "/proc/selfish/cwd", 0, false, 0, 0, NULL },
		{ "/proc/self/cwdx", 0, false, 0, 0, NULL },
		{ "/proc/99999999999999999999/cwd", 0, false, 0, 0, NULL },
		{ "/exec/proc/self/cwd", 0, false, 0, 0, NULL },
		{ "/", 0, false, 0, 0, NULL },
	};

	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(cases); i++) {
		struct bj_proc_path got;

		if (!bj_path_parse_proc(bj_str_of(cases[i].path), &got)) {
			if (cases[i].link != 0)
				fail_msg("%s is not seen", cases[i].path);
			continue;
		}
		if (cases[i].link == 0)
			fail_msg("%s is taken for a link", cases[i].path);
		assert_int_equal(got.link, cases[i].link);
		assert_int_equal(got.is_self, cases[i].is_self);
		assert_int_equal(got.pid, cases[i].pid);
		assert_int_equal(got.fd, cases[i].fd);
		assert_true(bj_str_eq(got.rest, bj_str_of(cases[i].rest)));
	}
}

/* ---- lookups: a small tree that is the root of the world ---- */

static char root_dir[] = "/tmp/observer_path_test.XXXXXX";
static int root_fd = -1;

static int make_tree(void **state)
{
	static const char *const links[][2] = {
		{ "to-file", "dir/file" },    { "to-dir", "dir" },
		{ "absolute", "/dir/file" },  { "nowhere", "dir/missing" },
		{ "nowhere-abs", "/gone/x" }, { "loop", "loop" },
		{ "dir/up", "../dir" },	      { "chain", "to-dir/up/missing" },
		{ "out", "../../../dir" },
	};

	(void)state;
	if (!mkdtemp(root_dir))
		return -1;
	root_fd = open(root_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || mkdirat(root_fd, "dir", 0755) != 0 ||
	    mkdirat(root_fd, "dir/sub", 0755) != 0)
		return -1;
	if (mknodat(root_fd, "dir/file", S_IFREG | 0640, 0) != 0)
		return -1;
	for (size_t i = 0; i < BJ_ARRAY_LEN(links); i++)
		if (symlinkat(links[i][1], root_fd, links[i][0]) != 0)
			return -1;
	return 0;
}

static int remove_tree(void **state)
{
	(void)state;
	close(root_fd);
	return bj_remove_tree(AT_FDCWD, root_dir);
}

struct find_case {
	const char *path;
	unsigned int flags;
	int error;
	bool through_link, is_dir, is_link;
	const char *resolved; /* NULL: not asked */
};

static void lookups(void **state)
{
	static const struct find_case cases[] = {
		{ "/dir/file", 0, 0, false, false, false, NULL },
		{ "/dir/../dir/./file", 0, 0, false, false, false, NULL },
		{ "/dir", 0, 0, false, true, false, NULL },
		{ "/", 0, 0, false, true, false, NULL },
		{ "/../..", 0, 0, false, true, false, NULL },
		{ "/dir/missing", 0, ENOENT, false, false, false, NULL },
		{ "/missing/../dir", 0, ENOENT, false, false, false, NULL },
		{ "/dir/file/x", 0, ENOTDIR, false, false, false, NULL },
		{ "/dir/file/", 0, ENOTDIR, false, false, false, NULL },
		/* links */
		{ "/to-file", 0, 0, true, false, false, "/dir/file" },
		{ "/to-file", BJ_FIND_NOFOLLOW, 0, false, false, true, NULL },
		{ "/to-dir/file", 0, 0, true, false, false, "/dir/file" },
		{ "/to-dir/file", BJ_FIND_NOFOLLOW, 0, true, false, false, "/dir/file" },
		{ "/to-dir/", BJ_FIND_NOFOLLOW, 0, true, true, false, "/dir" },
		{ "/absolute", 0, 0, true, false, false, "/dir/file" },
		{ "/out/file", 0, 0, true, false, false, "/dir/file" },
		{ "/dir/up/up/file", 0, 0, true, false, false, "/dir/file" },
		{ "/nowhere", 0, ENOENT, true, false, false, "/dir/missing" },
		{ "/nowhere", BJ_FIND_NOFOLLOW, 0, false, false, true, NULL },
		{ "/nowhere-abs", 0, ENOENT, true, false, false, "/gone/x" },
		{ "/to-dir/missing", 0, ENOENT, true, false, false, "/dir/missing" },
		{ "/to-dir/missing/deeper/../x", 0, ENOENT, true, false, false, "/dir/missing/x" },
		{ "/chain", 0, ENOENT, true, false, false, "/dir/missing" },
		{ "/to-file/x", 0, ENOTDIR, true, false, false, "/dir/file/x" },
		{ "/loop", 0, ELOOP, true, false, false, "" },
		{ "/loop/x", 0, ELOOP, true, false, false, "" },
		/* parents */
		{ "/dir/missing", BJ_FIND_PARENT, 0, false, true, false, NULL },
		{ "/dir/missing/", BJ_FIND_PARENT, 0, false, true, false, NULL },
		{ "/missing/x", BJ_FIND_PARENT, ENOENT, false, false, false, NULL },
		{ "/dir/file/x", BJ_FIND_PARENT, ENOTDIR, false, false, false, NULL },
		{ "/to-dir/x", BJ_FIND_PARENT, 0, true, true, false, "/dir" },
		{ "/x", BJ_FIND_PARENT, 0, false, true, false, NULL },
		{ "/", BJ_FIND_PARENT, 0, false, true, false, NULL },
	};
	static char resolved[BJ_PATH_BUF];

	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(cases); i++) {
		struct bj_found found;

		memset(resolved, 'x', sizeof(resolved));
		bj_path_find(root_fd, cases[i].path, cases[i].flags, &found, resolved);
		if (found.error != cases[i].error || found.through_link != cases[i].through_link)
			fail_msg("%s: error %d, through a link %d", cases[i].path, found.error,
				 found.through_link);
		if (found.error == 0) {
			assert_int_equal(found.is_dir, cases[i].is_dir);
			assert_int_equal(found.is_link, cases[i].is_link);
		}
		if (cases[i].resolved && strcmp(resolved, cases[i].resolved) != 0)
			fail_msg("%s: resolved to %s", cases[i].path, resolved);
	}
}

static void attributes_of_what_is_found(void **state)
{
	static char resolved[BJ_PATH_BUF];
	struct bj_found found;

	(void)state;
	bj_path_find(root_fd, "/to-file", BJ_FIND_MOUNT, &found, resolved);
	assert_int_equal(found.error, 0);
	assert_true(found.is_regular);
	assert_int_equal(found.mode & 07777, 0640);
	assert_int_equal(found.uid, geteuid());
	assert_false(found.is_read_only);
}

static void a_path_longer_than_the_kernel_takes(void **state)
{
	static char path[BJ_PATH_BUF];
	static char resolved[BJ_PATH_BUF];
	struct bj_found found;

	(void)state;
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = "/dir/../"[i % 8];
	bj_path_find(root_fd, path, 0, &found, resolved);
	assert_int_equal(found.error, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(normal_forms),
		cmocka_unit_test(a_path_that_is_not_absolute),
		cmocka_unit_test(the_room_for_the_normal_form),
		cmocka_unit_test(joining),
		cmocka_unit_test(last_components),
		cmocka_unit_test(links_of_the_kernel),
		cmocka_unit_test(lookups),
		cmocka_unit_test(attributes_of_what_is_found),
		cmocka_unit_test(a_path_longer_than_the_kernel_takes),
	};

	return cmocka_run_group_tests_name("observer_path", tests, make_tree, remove_tree);
}
