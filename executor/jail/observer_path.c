// SPDX-License-Identifier: Apache-2.0
/*
 * Paths, in two meanings.
 *
 * Lexical: what a record and the declared tree are joined by; "a/../b" is "b" whatever a is. One function, no system call.
 *
 * The kernel's: what a lookup below the jail's root says (openat2 with RESOLVE_IN_ROOT, so that "..", absolute links and mounts mean
 * what they mean inside). The first try forbids links: most paths have none, and then the lexical form is the resolved one and a missing
 * object is missing by that very name. Only if links are met is the path looked up a second time and the result asked for; only if such
 * a lookup fails is it walked step by step, to say where the link leads.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

enum { MAX_LINKS = 40, MAX_TRIES = 8 };

/* ---- lexical ---- */

ssize_t bj_path_join(struct bj_str base, struct bj_str path, char *out, size_t cap)
{
	size_t len = 0;

	if (path.len == 0 || path.ptr[0] != '/') {
		if (base.len + 1 + path.len >= cap)
			return -ENAMETOOLONG;
		memcpy(out, base.ptr, base.len);
		len = base.len;
		if (path.len > 0)
			out[len++] = '/';
	} else if (path.len >= cap) {
		return -ENAMETOOLONG;
	}
	if (path.len > 0)
		memcpy(out + len, path.ptr, path.len);
	len += path.len;
	out[len] = '\0';
	return (ssize_t)len;
}

ssize_t bj_path_normalize(struct bj_str path, char *out, size_t cap)
{
	size_t len = 0; /* of what stands in out: "" or "/a/b" */
	size_t at = 0;

	if (path.len == 0 || path.ptr[0] != '/' || cap < 2)
		return -EINVAL;
	while (at < path.len) {
		size_t end = bj_str_find(path, '/', at);
		struct bj_str part = bj_str_sub(path, at, end);

		at = end + 1;
		if (part.len == 0 || (part.len == 1 && part.ptr[0] == '.'))
			continue;
		if (part.len == 2 && part.ptr[0] == '.' && part.ptr[1] == '.') {
			while (len > 0 && out[--len] != '/')
				;
			continue;
		}
		if (len + 1 + part.len >= cap)
			return -ENAMETOOLONG;
		out[len++] = '/';
		memcpy(out + len, part.ptr, part.len);
		len += part.len;
	}
	if (len == 0)
		out[len++] = '/';
	out[len] = '\0';
	return (ssize_t)len;
}

struct bj_str bj_path_last(struct bj_str path)
{
	size_t end = path.len;
	size_t from;

	while (end > 0 && path.ptr[end - 1] == '/')
		end--;
	from = end;
	while (from > 0 && path.ptr[from - 1] != '/')
		from--;
	return bj_str_sub(path, from, end);
}

/* ---- the kernel's own names for a process's objects ---- */

/* The next component, "//" and "." skipped; @rest is what follows it, with its slash. */
static struct bj_str next_part(struct bj_str *rest)
{
	struct bj_str part;

	do {
		size_t from = 0;
		size_t end;

		while (from < rest->len && rest->ptr[from] == '/')
			from++;
		end = bj_str_find(*rest, '/', from);
		part = bj_str_sub(*rest, from, end);
		*rest = bj_str_sub(*rest, end, rest->len);
	} while (part.len == 1 && part.ptr[0] == '.');
	return part;
}

static bool parse_dev(struct bj_str part, struct bj_proc_path *out)
{
	uint64_t fd;

	out->is_self = true;
	out->link = BJ_PROC_FD;
	if (bj_str_eq(part, BJ_STR_LIT("stdin")) && out->rest.len == 0)
		out->fd = 0;
	else if (bj_str_eq(part, BJ_STR_LIT("stdout")) && out->rest.len == 0)
		out->fd = 1;
	else if (bj_str_eq(part, BJ_STR_LIT("stderr")) && out->rest.len == 0)
		out->fd = 2;
	else if (bj_str_eq(part, BJ_STR_LIT("fd")) && bj_str_to_u64(next_part(&out->rest), &fd) &&
		 fd <= INT32_MAX)
		out->fd = (int)fd;
	else
		return false;
	return true;
}

bool bj_path_parse_proc(struct bj_str path, struct bj_proc_path *out)
{
	struct bj_str rest = path;
	struct bj_str part;
	uint64_t number;

	*out = (struct bj_proc_path){ .fd = -1 };
	if (path.len < 5 || path.ptr[0] != '/')
		return false;
	part = next_part(&rest);
	if (bj_str_eq(part, BJ_STR_LIT("dev"))) {
		part = next_part(&rest);
		out->rest = rest;
		return parse_dev(part, out);
	}
	if (!bj_str_eq(part, BJ_STR_LIT("proc")))
		return false;
	part = next_part(&rest);
	if (bj_str_eq(part, BJ_STR_LIT("self")) || bj_str_eq(part, BJ_STR_LIT("thread-self"))) {
		out->is_self = true;
	} else if (bj_str_to_u64(part, &number) && number <= INT32_MAX) {
		out->pid = (int64_t)number;
	} else {
		return false;
	}
	part = next_part(&rest);
	if (bj_str_eq(part, BJ_STR_LIT("cwd"))) {
		out->link = BJ_PROC_CWD;
	} else if (bj_str_eq(part, BJ_STR_LIT("root"))) {
		out->link = BJ_PROC_ROOT;
	} else if (bj_str_eq(part, BJ_STR_LIT("exe"))) {
		out->link = BJ_PROC_EXE;
	} else if (bj_str_eq(part, BJ_STR_LIT("fd")) && bj_str_to_u64(next_part(&rest), &number) &&
		   number <= INT32_MAX) {
		out->link = BJ_PROC_FD;
		out->fd = (int)number;
	} else {
		return false;
	}
	out->rest = rest;
	return true;
}

/* ---- lookups ---- */

static int open_in_root(int root_fd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags,
				.resolve = RESOLVE_IN_ROOT | resolve };
	long fd = -1;

	/* EAGAIN: something was renamed or mounted while ".." was followed. */
	for (int i = 0; i < MAX_TRIES; i++) {
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd >= 0 ? (int)fd : -errno;
}

bool bj_path_is_link(int root_fd, const char *path)
{
	int fd = open_in_root(root_fd, path, 0, RESOLVE_NO_SYMLINKS);

	if (fd >= 0)
		close(fd);
	return fd == -ELOOP;
}

bool bj_path_has_entries(int root_fd, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	bj_cleanup(bj_close_fdp) int fd =
		(int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	/* "." and ".." come first on the file systems that there are, but need not. */
	_Alignas(8) char entries[512];
	long n = fd >= 0 ? syscall(SYS_getdents64, fd, entries, sizeof(entries)) : -1;
	size_t n_names = 0;

	for (long at = 0; at < n; n_names++) {
		uint16_t len;

		memcpy(&len, entries + at + 16, sizeof(len)); /* d_reclen, behind d_ino and d_off */
		if (len == 0)
			break;
		at += len;
	}
	return n_names > 2;
}

/* Path of an open object as the jail sees it: the kernel gives it from the root of the jail's mount namespace. */
static void path_of_fd(int root_fd, int fd, char *out)
{
	char name[32];
	char root[PATH_MAX];
	ssize_t len;
	ssize_t root_len;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = readlink(name, out, BJ_PATH_BUF - 1);
	out[len < 0 ? 0 : len] = '\0';
	/* In a jail the root is "/"; a root that is some directory of our own tree is cut off. */
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", root_fd);
	root_len = readlink(name, root, sizeof(root));
	if (len <= 0 || root_len <= 1 || len < root_len || memcmp(out, root, (size_t)root_len) != 0)
		return;
	if (len == root_len)
		strncpy(out, "/", 2);
	else if (out[root_len] == '/')
		memmove(out, out + root_len, (size_t)(len - root_len) + 1);
}

static void describe(int fd, bool with_mount, struct bj_found *out)
{
	struct statx st;
	struct statvfs fs;
	unsigned int mask =
		STATX_TYPE | STATX_MODE | STATX_UID | STATX_GID | (with_mount ? STATX_MNT_ID : 0);

	if (statx(fd, "", AT_EMPTY_PATH, mask, &st) != 0) {
		out->error = -1;
		return;
	}
	out->is_dir = S_ISDIR(st.stx_mode);
	out->is_link = S_ISLNK(st.stx_mode);
	out->is_regular = S_ISREG(st.stx_mode);
	out->mode = st.stx_mode;
	out->uid = st.stx_uid;
	out->gid = st.stx_gid;
	if (!with_mount)
		return;
	out->is_read_only = fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY);
	out->mount_id = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0;
}

/* Puts the text of link @fd in the place of the first @done bytes of @rest (both absolute in effect). */
static bool splice_link(int fd, const char *parent, const char *rest, char *out)
{
	char text[PATH_MAX];
	ssize_t len = readlinkat(fd, "", text, sizeof(text) - 1);
	int n;

	if (len <= 0)
		return false;
	text[len] = '\0';
	n = text[0] == '/' ? snprintf(out, BJ_PATH_BUF, "%s%s", text, rest)
			   : snprintf(out, BJ_PATH_BUF, "%s/%s%s", parent, text, rest);
	return n > 0 && n < BJ_PATH_BUF;
}

/* One step: looks for the first link in the path todo. Return: 1 a link was replaced in todo, 0 there is none (any more), -1 no. */
static int follow_one_link(int root_fd, char *todo)
{
	char prefix[BJ_PATH_BUF];
	char next[BJ_PATH_BUF];
	size_t at = 0;
	size_t len = strlen(todo);

	while (at < len) {
		size_t parent = at;
		struct stat st;
		bj_cleanup(bj_close_fdp) int fd = -EBADF;

		while (todo[at] == '/')
			at++;
		while (at < len && todo[at] != '/')
			at++;
		memcpy(prefix, todo, at);
		prefix[at] = '\0';
		fd = open_in_root(root_fd, prefix, O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
		if (fd < 0)
			return 0;
		if (fstat(fd, &st) != 0)
			return -1;
		if (!S_ISLNK(st.st_mode))
			continue;
		prefix[parent] = '\0';
		if (!splice_link(fd, prefix, todo + at, next))
			return -1;
		memcpy(todo, next, strlen(next) + 1);
		return 1;
	}
	return 0;
}

/* Where a path leads that cannot be reached: links followed as far as they go, the rest by its letters. "" if there is no end to it. */
static void follow_links(int root_fd, const char *path, char *out)
{
	char todo[BJ_PATH_BUF];
	int got = 1;

	out[0] = '\0';
	if (strlen(path) >= sizeof(todo))
		return;
	memcpy(todo, path, strlen(path) + 1);
	for (int i = 0; i < MAX_LINKS && got == 1; i++)
		got = follow_one_link(root_fd, todo);
	if (got != 0 || bj_path_normalize(bj_str_of(todo), out, BJ_PATH_BUF) < 0)
		out[0] = '\0';
}

static void find(int root_fd, const char *path, unsigned int flags, struct bj_found *out,
		 char *resolved)
{
	uint64_t open_flags = flags & BJ_FIND_NOFOLLOW ? O_NOFOLLOW : 0;
	bj_cleanup(bj_close_fdp) int fd =
		open_in_root(root_fd, path, open_flags, RESOLVE_NO_SYMLINKS);

	if (fd == -ELOOP) {
		out->through_link = true;
		resolved[0] = '\0';
		fd = open_in_root(root_fd, path, open_flags, 0);
	}
	if (fd < 0) {
		out->error = -fd;
		/* The caller's path may be shorter, for it is relative. */
		if (fd == -EAGAIN || (fd == -ENAMETOOLONG && strlen(path) >= PATH_MAX))
			out->error = -1;
		if (out->through_link && (fd == -ENOENT || fd == -ENOTDIR))
			follow_links(root_fd, path, resolved);
		return;
	}
	if (out->through_link)
		path_of_fd(root_fd, fd, resolved);
	describe(fd, (flags & BJ_FIND_MOUNT) != 0, out);
}

void bj_path_find(int root_fd, const char *path, unsigned int flags, struct bj_found *out,
		  char *resolved)
{
	char parent[BJ_PATH_BUF];
	struct bj_str last;

	*out = (struct bj_found){ .error = 0 };
	if (!(flags & BJ_FIND_PARENT)) {
		find(root_fd, path, flags, out, resolved);
		return;
	}
	last = bj_path_last(bj_str_of(path));
	if (last.len == 0)
		last.ptr = path + 1; /* the root is its own parent */
	if ((size_t)(last.ptr - path) >= sizeof(parent)) {
		out->error = ENAMETOOLONG;
		return;
	}
	memcpy(parent, path, (size_t)(last.ptr - path));
	parent[last.ptr - path] = '\0';
	find(root_fd, parent, flags & ~(unsigned int)BJ_FIND_NOFOLLOW, out, resolved);
	if (out->error == 0 && !out->is_dir)
		out->error = ENOTDIR;
}
