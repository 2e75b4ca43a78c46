// SPDX-License-Identifier: Apache-2.0
#include "executor/cli/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "executor/base/buf.h"
#include "executor/base/fd.h"

enum { MAX_CPUS = 8192, SMALL_FILE_BYTES = 64 << 10 };

static int no_memory(struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the settings");
}

/* ---- processors and memory ---- */

uint64_t bj_host_cpus(void)
{
	cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
	size_t size = CPU_ALLOC_SIZE(MAX_CPUS);
	int n = 0;

	if (set && sched_getaffinity(0, size, set) == 0)
		n = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	return n > 0 ? (uint64_t)n : 1;
}

/* The contents of a small file of the kernel's without the newline; empty when it cannot be read. */
static struct bj_str read_line(const char *path, struct bj_buf *buf)
{
	struct bj_err ignored = BJ_ERR_NULL;

	bj_buf_clear(buf);
	if (bj_file_read_all(AT_FDCWD, path, buf, &ignored) != 0)
		return BJ_STR_NULL;
	struct bj_str rest = bj_buf_str(buf);
	return bj_str_cut(&rest, '\n');
}

/* memory.max of one cgroup; UINT64_MAX for "max" and where there is none. */
static uint64_t cgroup_limit(struct bj_str group, struct bj_buf *buf)
{
	char path[PATH_MAX];
	uint64_t bytes;
	int n = snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/memory.max", BJ_STR_FMT(group));

	if (n < 0 || (size_t)n >= sizeof(path) || !bj_str_to_u64(read_line(path, buf), &bytes))
		return UINT64_MAX;
	return bytes;
}

/* The smallest limit of our cgroup and those above it. */
static uint64_t cgroup_bytes(void)
{
	struct bj_buf own = BJ_BUF_INIT(SMALL_FILE_BYTES), buf = BJ_BUF_INIT(SMALL_FILE_BYTES);
	struct bj_str group = read_line("/proc/self/cgroup", &own); /* v2: "0::/a/b" */
	uint64_t limit = UINT64_MAX;

	if (bj_str_has_prefix(group, BJ_STR_LIT("0::/"))) {
		group = bj_str_sub(group, 3, group.len);
		while (group.len) {
			limit = BJ_MIN(limit, cgroup_limit(group, &buf));
			while (group.len && group.ptr[--group.len] != '/')
				continue;
		}
		limit = BJ_MIN(limit, cgroup_limit(group, &buf));
	}
	bj_buf_deinit(&own);
	bj_buf_deinit(&buf);
	return limit;
}

uint64_t bj_host_memory_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	uint64_t bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes
						     : (uint64_t)1 << 30;

	return BJ_MIN(bytes, cgroup_bytes());
}

/* A number and the blanks around it off the front of @rest. */
static bool cut_number(struct bj_str *rest, uint64_t *out)
{
	size_t start = 0, end;
	while (start < rest->len && rest->ptr[start] == ' ')
		start++;
	end = bj_str_find(*rest, ' ', start);
	bool ok = bj_str_to_u64(bj_str_sub(*rest, start, end), out);
	*rest = bj_str_sub(*rest, end, rest->len);
	return ok;
}

/* "INSIDE OUTSIDE COUNT" lines. A range that is made of several lines is not looked for: nobody makes such maps. */
static bool map_holds(const char *path, uint64_t first, uint64_t n)
{
	struct bj_buf buf = BJ_BUF_INIT(SMALL_FILE_BYTES);
	struct bj_err ignored = BJ_ERR_NULL;
	bool holds = false;

	if (bj_file_read_all(AT_FDCWD, path, &buf, &ignored) == 0) {
		struct bj_str rest = bj_buf_str(&buf);
		while (rest.len && !holds) {
			struct bj_str line = bj_str_cut(&rest, '\n');
			uint64_t inside, outside, count;
			holds = cut_number(&line, &inside) && cut_number(&line, &outside) &&
				cut_number(&line, &count) && first >= inside && n <= count &&
				first - inside <= count - n;
		}
	}
	bj_buf_deinit(&buf);
	return holds;
}

bool bj_host_has_ids(uint64_t first, uint64_t n)
{
	return map_holds("/proc/self/uid_map", first, n) &&
	       map_holds("/proc/self/gid_map", first, n);
}

struct bj_str bj_host_name(struct bj_arena *arena)
{
	struct utsname name;

	if (uname(&name) == 0 && name.nodename[0]) {
		struct bj_str copy = bj_str_printable(arena, bj_str_of(name.nodename), 255);
		if (copy.len)
			return copy;
	}
	return BJ_STR_LIT("localhost");
}

/* ---- where things are ---- */

static const char *home_dir(void)
{
	const char *home = getenv("HOME");
	if (home && home[0] == '/')
		return home;
	const struct passwd *user = getpwuid(getuid());
	return user && user->pw_dir && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

int bj_host_store_dir(struct bj_arena *arena, struct bj_str *out_dir, struct bj_err *err)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = home_dir();
	const char *dir = NULL;

	if (geteuid() == 0)
		dir = "/var/cache/belljar";
	else if (cache && cache[0] == '/') /* the specification: a relative one is to be ignored */
		dir = bj_arena_printf(arena, "%s/belljar", cache);
	else if (home)
		dir = bj_arena_printf(arena, "%s/.cache/belljar", home);
	else
		return bj_err_set(err, BJ_FAILED_PRECONDITION,
				  "neither XDG_CACHE_HOME nor HOME says where the store is: give "
				  "--store=DIR");
	if (!dir)
		return no_memory(err);
	*out_dir = bj_str_of(dir);
	return 0;
}

/* @program's directory and "belljar-jail"; empty without a '/'. */
static struct bj_str beside(const char *program, struct bj_arena *arena)
{
	const char *slash = strrchr(program, '/');
	return slash ? bj_str_of(bj_arena_printf(arena, "%.*s/belljar-jail", (int)(slash - program),
						 program))
		     : BJ_STR_NULL;
}

static bool is_program(struct bj_str path)
{
	struct stat st;
	return path.len && stat(path.ptr, &st) == 0 && S_ISREG(st.st_mode) &&
	       access(path.ptr, X_OK) == 0;
}

int bj_host_jail_binary(const char *argv0, struct bj_arena *arena, struct bj_str *out_path,
			struct bj_err *err)
{
	char real[PATH_MAX] = "";
	struct bj_str tried[2] = { BJ_STR_NULL, BJ_STR_NULL };

	if (realpath("/proc/self/exe", real))
		tried[0] = beside(real, arena);
	if (strchr(argv0, '/'))
		tried[1] = beside(argv0, arena);
	for (size_t i = 0; i < BJ_ARRAY_LEN(tried); i++) {
		if (!is_program(tried[i]))
			continue;
		char *path = realpath(tried[i].ptr, NULL);
		*out_path = path ? bj_arena_str(arena, bj_str_of(path)) : BJ_STR_NULL;
		free(path); /* realpath's */
		if (out_path->len)
			return 0;
	}
	return bj_err_set(err, BJ_FAILED_PRECONDITION,
			  "belljar-jail is not there: tried \"%.*s\"%s%.*s%s; give --jail=PATH",
			  BJ_STR_FMT(tried[0]), tried[1].len ? " and \"" : "", BJ_STR_FMT(tried[1]),
			  tried[1].len ? "\"" : "");
}

int bj_host_real_dir(struct bj_str path, const char *what, struct bj_arena *arena,
		     struct bj_str *out_path, struct bj_err *err)
{
	struct stat st;
	const char *given = bj_str_dup(arena, path);
	if (!given)
		return no_memory(err);
	char *real = realpath(given, NULL);
	struct bj_str copy = real ? bj_arena_str(arena, bj_str_of(real)) : BJ_STR_NULL;

	free(real); /* realpath's; free() keeps errno */
	if (!copy.ptr || stat(copy.ptr, &st) < 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s \"%s\": %s", what, given,
				  strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s \"%s\": %s", what, given,
				  strerror(ENOTDIR));
	*out_path = copy;
	return 0;
}

/* ---- addresses ---- */

/* What stands before the last ':', without brackets. */
static struct bj_str host_of(struct bj_str address)
{
	size_t end = address.len;
	while (end && address.ptr[end - 1] != ':')
		end--;
	struct bj_str host = bj_str_sub(address, 0, end ? end - 1 : 0);
	if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
		host = bj_str_sub(host, 1, host.len - 1);
	return host;
}

bool bj_host_is_local(struct bj_str address)
{
	char text[INET6_ADDRSTRLEN];
	struct in_addr v4;
	struct in6_addr v6;

	if (bj_str_has_prefix(address, BJ_STR_LIT("unix:")))
		return true;
	struct bj_str host = host_of(address);
	if (host.len == 0 || host.len >= sizeof(text))
		return false;
	memcpy(text, host.ptr, host.len);
	text[host.len] = '\0';
	if (strcasecmp(text, "localhost") == 0)
		return true;
	if (inet_pton(AF_INET, text, &v4) == 1)
		return (ntohl(v4.s_addr) >> 24) == 127;
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}
