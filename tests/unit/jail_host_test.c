// SPDX-License-Identifier: Apache-2.0
/*
 * What the executor's side decides without a jail: the roots of this host, and the hints.
 */
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

#include "executor/base/arena.h"
#include "executor/base/fd.h"
#include "executor/jail/jail-internal.h"

static const struct bj_jail_root *find(const struct bj_jail_slot_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_roots; i++) {
		if (bj_str_eq(spec->roots[i].path, bj_str_of(path)))
			return &spec->roots[i];
	}
	return NULL;
}

static bool has_file(const struct bj_jail_slot_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_files; i++) {
		if (bj_str_eq(spec->files[i].path, bj_str_of(path)))
			return true;
	}
	return false;
}

static void the_hosts_roots(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_jail_slot_spec spec = { .slot_uid = 5 };
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_jail_default_roots(NULL, 0, &arena, &spec, &err), 0);
	assert_int_equal(spec.slot_uid, 5); /* only roots and files are set */
	const struct bj_jail_root *usr = find(&spec, "/usr");
	assert_non_null(usr);
	assert_false(usr->is_link || usr->is_file);
	struct stat st;
	if (lstat("/bin", &st) == 0 && S_ISLNK(st.st_mode)) {
		const struct bj_jail_root *bin = find(&spec, "/bin");
		assert_non_null(bin);
		assert_true(bin->is_link);
	}
	static const char *const never[] = {
		"/",	       "/etc",	     "/home",	   "/root", "/etc/passwd",
		"/etc/shadow", "/etc/hosts", "/etc/group", "/var",  "/etc/nsswitch.conf",
		"/tmp",	       "/run"
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(never); i++)
		assert_null(find(&spec, never[i]));
	static const char *const files[] = { "/etc/passwd", "/etc/group", "/etc/hosts",
					     "/etc/nsswitch.conf", "/etc/resolv.conf" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(files); i++)
		assert_true(has_file(&spec, files[i]));
}

static void roots_are_valid_for_the_codec(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_jail_slot_spec spec = { .profile = BJ_PROFILE_USERNS,
					  .work_dir = BJ_STR_LIT("/w") };
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_jail_default_roots(NULL, 0, &arena, &spec, &err), 0);
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(1 << 20);
	assert_int_equal(bj_jail_slot_spec_encode(&spec, &wire, &err), 0);
}

struct tree {
	char dir[64];
	char sub[96], link[96];
};

static void make_tree(struct tree *t)
{
	strncpy(t->dir, "/tmp/bj-roots-XXXXXX", sizeof(t->dir));
	assert_non_null(mkdtemp(t->dir));
	assert_true(snprintf(t->sub, sizeof(t->sub), "%s/tools", t->dir) > 0);
	assert_true(snprintf(t->link, sizeof(t->link), "%s/current", t->dir) > 0);
	assert_int_equal(mkdir(t->sub, 0755), 0);
	assert_int_equal(symlink("tools", t->link), 0);
}

static void an_extra_root_is_mounted_where_it_really_is(void **state)
{
	(void)state;
	struct tree t;
	make_tree(&t);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_jail_slot_spec spec = { 0 };
	struct bj_err err = BJ_ERR_NULL;
	struct bj_str extra[] = { bj_str_of(t.link), BJ_STR_LIT("/usr/bin") };
	assert_int_equal(bj_jail_default_roots(extra, 2, &arena, &spec, &err), 0);
	const struct bj_jail_root *real = find(&spec, t.sub);
	assert_non_null(real);
	assert_false(real->is_link);
	const struct bj_jail_root *link = find(&spec, t.link);
	assert_non_null(link);
	assert_true(link->is_link);
	assert_true(bj_str_eq(link->target, bj_str_of(t.sub)));
	assert_null(find(&spec, "/usr/bin")); /* below /usr, which is there */
	assert_int_equal(bj_remove_tree(AT_FDCWD, t.dir), 0);
}

static void extra_roots_that_cannot_be(void **state)
{
	(void)state;
	static const struct bj_str bad[] = {
		{ "relative", 8 }, { "", 0 }, { "/", 1 }, { "/usr/..", 7 }, { "/no/such/root", 13 }
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bj_jail_slot_spec spec = { 0 };
		struct bj_err err = BJ_ERR_NULL;
		assert_int_equal(bj_jail_default_roots(&bad[i], 1, &arena, &spec, &err),
				 -BJ_INVALID_ARGUMENT);
		assert_null(spec.roots);
	}
}

static void a_limit_of_namespaces_is_not_a_disk(void **state)
{
	(void)state; /* L134 */
	assert_non_null(strstr(bj_jail_hint("user-namespace", "unshare", ENOSPC),
			       "user.max_user_namespaces"));
	assert_non_null(strstr(bj_jail_hint("clone-init", "clone3", ENOSPC), "not a disk"));
}

static void hints_name_what_to_set(void **state)
{
	(void)state;
	assert_non_null(strstr(bj_jail_hint("mount-proc", "fsmount", EPERM), "/proc"));
	assert_non_null(strstr(bj_jail_hint("uid-map", "write", EPERM), "SETUID"));
	assert_non_null(strstr(bj_jail_hint("anything", "fsopen", ENOSYS), "6.1"));
	assert_string_equal(bj_jail_hint("mount-proc", "fsmount", ENOENT), "");
}

static void a_failure_is_data_and_text(void **state)
{
	(void)state;
	struct bj_wire_failed failed = { .step = "uid-map",
					 .syscall = "write",
					 .path = "/proc/self/uid_map",
					 .sys_errno = EPERM };
	struct bj_jail_failure out;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_jail_fail(&failed, BJ_FAILED_PRECONDITION, &out, &err),
			 -BJ_FAILED_PRECONDITION);
	assert_string_equal(out.step, "uid-map");
	assert_string_equal(out.syscall, "write");
	assert_string_equal(out.path, "/proc/self/uid_map");
	assert_int_equal(out.sys_errno, EPERM);
	assert_int_equal(err.sys_errno, EPERM);
	assert_non_null(strstr(err.msg,
			       "uid-map: write \"/proc/self/uid_map\": Operation not permitted ("));
	assert_non_null(strstr(err.msg, out.hint));
}

static void a_failure_without_end_is_cut(void **state)
{
	(void)state;
	struct bj_wire_failed failed = { .sys_errno = EIO };
	memset(failed.step, 'a', sizeof(failed.step)); /* no NUL: the other side may be anybody */
	memset(failed.syscall, 'b', sizeof(failed.syscall));
	memset(failed.path, 'c', sizeof(failed.path));
	struct bj_jail_failure out;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_jail_fail(&failed, BJ_INTERNAL, &out, &err), -BJ_INTERNAL);
	assert_int_equal(strlen(out.step), sizeof(out.step) - 1);
	assert_int_equal(strlen(out.path), sizeof(out.path) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hosts_roots),
		cmocka_unit_test(roots_are_valid_for_the_codec),
		cmocka_unit_test(an_extra_root_is_mounted_where_it_really_is),
		cmocka_unit_test(extra_roots_that_cannot_be),
		cmocka_unit_test(a_limit_of_namespaces_is_not_a_disk),
		cmocka_unit_test(hints_name_what_to_set),
		cmocka_unit_test(a_failure_is_data_and_text),
		cmocka_unit_test(a_failure_without_end_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
