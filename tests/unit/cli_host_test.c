// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <sched.h>
#include <sys/stat.h>

#include "executor/cli/host.h"

static void local_addresses(void **state)
{
	(void)state;
	static const struct {
		const char *address;
		bool is_local;
	} rows[] = {
		{ "127.0.0.1:8980", true },
		{ "127.255.0.9:0", true },
		{ "localhost:8980", true },
		{ "LocalHost:1", true },
		{ "[::1]:8980", true },
		{ "[::ffff:127.0.0.1]:1", true },
		{ "unix:/run/s", true },
		{ "unix:relative", true },
		{ "0.0.0.0:8980", false },
		{ "[::]:8980", false },
		{ ":8980", false },
		{ "*:8980", false },
		{ "128.0.0.1:1", false },
		{ "192.168.0.1:1", false },
		{ "[fe80::1]:1", false },
		{ "[::ffff:10.0.0.1]:1", false },
		/* What a name means is decided elsewhere, and may change. */
		{ "localhost.example.com:1", false },
		{ "build.example.com:1", false },
		{ "127.0.0.1.example.com:1", false },
		{ "127.1:1", false },
		{ "", false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		if (bj_host_is_local(bj_str_of(rows[i].address)) != rows[i].is_local)
			fail_msg("\"%s\" is %slocal", rows[i].address,
				 rows[i].is_local ? "" : "not ");
}

static int one_cpu(void *arg)
{
	(void)arg;
	cpu_set_t set;
	CHILD_CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	uint64_t all = (uint64_t)CPU_COUNT(&set);
	CHILD_CHECK(bj_host_cpus() == all);
	size_t first = 0;
	while (!CPU_ISSET(first, &set))
		first++;
	CPU_ZERO(&set);
	CPU_SET(first, &set);
	CHILD_CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
	CHILD_CHECK(bj_host_cpus() == 1);
	return 0;
}

static void cpus_are_those_we_may_use(void **state)
{
	(void)state;
	expect_child_ok(one_cpu, NULL, "");
}

static void memory_is_plausible(void **state)
{
	(void)state;
	uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	assert_true(bj_host_memory_bytes() <= physical);
	assert_true(bj_host_memory_bytes() >= 1 << 20);
}

/* A fresh user namespace has one user. */
static int lonely(void *arg)
{
	(void)arg;
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER) < 0)
		return CHILD_SKIPPED;
	CHILD_CHECK(!bj_host_has_ids(0, 1)); /* nothing is mapped yet */
	int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	CHILD_CHECK(write(fd, "deny", 4) == 4);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	int n = snprintf(map, sizeof(map), "5 %u 1\n", (unsigned)uid);
	CHILD_CHECK(write(fd, map, (size_t)n) == n);
	CHILD_CHECK(!bj_host_has_ids(5, 1)); /* no group yet */
	fd = open("/proc/self/gid_map", O_WRONLY | O_CLOEXEC);
	n = snprintf(map, sizeof(map), "5 %u 1\n", (unsigned)gid);
	CHILD_CHECK(write(fd, map, (size_t)n) == n);
	CHILD_CHECK(bj_host_has_ids(5, 1));
	CHILD_CHECK(!bj_host_has_ids(4, 1));
	CHILD_CHECK(!bj_host_has_ids(6, 1));
	CHILD_CHECK(!bj_host_has_ids(5, 2));
	CHILD_CHECK(!bj_host_has_ids(0, UINT64_MAX));
	return 0;
}

static void ids_of_a_user_namespace(void **state)
{
	(void)state;
	expect_child_ok(lonely, NULL, "no user namespaces here");
}

struct store_case {
	const char *xdg, *home, *wanted;
};

/* As an ordinary user; root's answer never depends on the environment. */
static int store_dir(void *arg)
{
	const struct store_case *c = arg;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	struct bj_str dir;

	bj_arena_init(&arena, 0);
	if (geteuid() == 0) {
		CHILD_CHECK(bj_host_store_dir(&arena, &dir, &err) == 0);
		CHILD_CHECK(bj_str_eq(dir, BJ_STR_LIT("/var/cache/belljar")));
		CHILD_CHECK(setuid(54321) == 0); /* nobody's, so without a home in passwd */
	}
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	if (c->xdg)
		setenv("XDG_CACHE_HOME", c->xdg, 1);
	if (c->home)
		setenv("HOME", c->home, 1);
	CHILD_CHECK(bj_host_store_dir(&arena, &dir, &err) == 0);
	CHILD_CHECK(bj_str_eq(dir, bj_str_of(c->wanted)));
	bj_arena_deinit(&arena);
	return 0;
}

static void store_dir_by_environment(void **state)
{
	(void)state;
	struct store_case cases[] = {
		{ "/x", "/h", "/x/belljar" },
		{ NULL, "/h", "/h/.cache/belljar" },
		{ "", "/h", "/h/.cache/belljar" },
		{ "relative", "/h", "/h/.cache/belljar" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(cases); i++)
		expect_child_ok(store_dir, &cases[i], "");
}

static void directories_are_made_real(void **state)
{
	(void)state;
	char dir[4096], path[4200];
	int dir_fd = make_temp_dir(dir);
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	struct bj_str real, link_to;

	bj_arena_init(&arena, 0);
	assert_int_equal(mkdirat(dir_fd, "d", 0700), 0);
	assert_int_equal(symlinkat("d", dir_fd, "l"), 0);
	close(openat(dir_fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	snprintf(path, sizeof(path), "%s/d", dir);
	assert_int_equal(bj_host_real_dir(bj_str_of(path), "workspace", &arena, &real, &err), 0);
	snprintf(path, sizeof(path), "%s/./l/", dir);
	assert_int_equal(bj_host_real_dir(bj_str_of(path), "workspace", &arena, &link_to, &err), 0);
	assert_true(bj_str_eq(real, link_to));

	snprintf(path, sizeof(path), "%s/f", dir);
	assert_int_equal(bj_host_real_dir(bj_str_of(path), "workspace", &arena, &real, &err),
			 -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "workspace \""));
	assert_non_null(strstr(err.msg, "/f\": Not a directory"));
	bj_err_clear(&err);
	snprintf(path, sizeof(path), "%s/none", dir);
	assert_int_equal(bj_host_real_dir(bj_str_of(path), "workspace", &arena, &real, &err),
			 -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "/none\": No such file or directory"));

	assert_int_equal(unlinkat(dir_fd, "f", 0), 0);
	assert_int_equal(unlinkat(dir_fd, "l", 0), 0);
	assert_int_equal(unlinkat(dir_fd, "d", AT_REMOVEDIR), 0);
	assert_int_equal(rmdir(dir), 0);
	close(dir_fd);
	bj_arena_deinit(&arena);
}

/* Neither this test's directory nor the one named has it: both paths are in the text. */
static void jail_binary_is_looked_for(void **state)
{
	(void)state;
	char dir[4096], path[4200];
	int dir_fd = make_temp_dir(dir);
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	struct bj_str found;

	bj_arena_init(&arena, 0);
	snprintf(path, sizeof(path), "%s/belljar", dir);
	assert_int_equal(bj_host_jail_binary(path, &arena, &found, &err), -BJ_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, dir));
	assert_non_null(strstr(err.msg, "--jail=PATH"));
	bj_err_clear(&err);

	int fd = openat(dir_fd, "belljar-jail", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(bj_host_jail_binary(path, &arena, &found, &err), -BJ_FAILED_PRECONDITION);
	bj_err_clear(&err);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	assert_int_equal(bj_host_jail_binary(path, &arena, &found, &err), 0);
	assert_true(bj_str_has_suffix(found, BJ_STR_LIT("/belljar-jail")));
	assert_int_equal(found.ptr[0], '/');

	/* Found by PATH: only /proc can say where it is, and there it is not. */
	assert_int_equal(bj_host_jail_binary("belljar", &arena, &found, &err),
			 -BJ_FAILED_PRECONDITION);
	assert_int_equal(unlinkat(dir_fd, "belljar-jail", 0), 0);
	assert_int_equal(rmdir(dir), 0);
	close(dir_fd);
	bj_arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(local_addresses),
		cmocka_unit_test(cpus_are_those_we_may_use),
		cmocka_unit_test(memory_is_plausible),
		cmocka_unit_test(ids_of_a_user_namespace),
		cmocka_unit_test(store_dir_by_environment),
		cmocka_unit_test(directories_are_made_real),
		cmocka_unit_test(jail_binary_is_looked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
