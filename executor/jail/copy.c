// SPDX-License-Identifier: Apache-2.0
/*
 * Copies a small part of the host's file system into the template: files of /etc, and directories
 * of links such as /etc/alternatives. Within a budget: what is larger is better mounted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

enum { MAX_DEPTH = 8, MAX_ENTRIES = 4096, MAX_BYTES = 4 << 20, UNFIT = 1 };

struct copier {
	struct bj_wire_failed *failed;
	size_t entries_left, bytes_left;
};

static int copy_entry(struct copier *c, int from, const char *name, int to, const char *to_name,
		      unsigned depth);

/** What the source refuses makes it unfit; what the destination refuses is a failure. */
static int write_failed(struct copier *c, const char *call, const char *name)
{
	return bj_fail(c->failed, "template-copy", call, errno, name);
}

static int copy_bytes(struct copier *c, int in, int out, const char *name)
{
	static char chunk[64 * 1024];
	for (;;) {
		ssize_t n = read(in, chunk, sizeof(chunk));
		if (n <= 0)
			return n < 0 ? UNFIT : 0;
		if ((size_t)n > c->bytes_left)
			return UNFIT;
		c->bytes_left -= (size_t)n;
		if (write(out, chunk, (size_t)n) != n) /* a tmpfs: short only when full */
			return write_failed(c, "write", name);
	}
}

static int copy_meta(struct copier *c, int fd, const struct stat *st, const char *name)
{
	struct timespec times[2] = { st->st_mtim, st->st_mtim };
	if (fchmod(fd, st->st_mode & 0777) < 0 || futimens(fd, times) < 0)
		return write_failed(c, "fchmod", name);
	return 0;
}

static int copy_file(struct copier *c, int in, const struct stat *st, int to, const char *to_name)
{
	bj_cleanup(bj_close_fdp) int out =
		openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return write_failed(c, "open", to_name);
	int r = copy_bytes(c, in, out, to_name);
	if (r == 0)
		r = copy_meta(c, out, st, to_name);
	if (r == UNFIT && unlinkat(to, to_name, 0) < 0)
		r = write_failed(c, "unlink", to_name);
	return r;
}

static int copy_link(struct copier *c, int from, const char *name, int to, const char *to_name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
	if (n < 0)
		return UNFIT;
	target[n] = '\0';
	return symlinkat(target, to, to_name) < 0 ? write_failed(c, "symlink", to_name) : 0;
}

static int copy_dir(struct copier *c, int in, const struct stat *st, int to, const char *to_name,
		    unsigned depth)
{
	if (depth == MAX_DEPTH)
		return UNFIT;
	if (mkdirat(to, to_name, 0700) < 0)
		return write_failed(c, "mkdir", to_name);
	bj_cleanup(bj_close_fdp) int out =
		openat(to, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0)
		return write_failed(c, "open", to_name);
	int reader = dup(in);
	DIR *dir = reader >= 0 ? fdopendir(reader) : NULL;
	if (!dir) {
		bj_close_fdp(&reader);
		return UNFIT;
	}
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(dir));) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = copy_entry(c, in, e->d_name, out, e->d_name, depth + 1);
	}
	(void)closedir(dir); /* read only */
	return r == 0 ? copy_meta(c, out, st, to_name) : r;
}

static int copy_entry(struct copier *c, int from, const char *name, int to, const char *to_name,
		      unsigned depth)
{
	struct stat st;
	if (c->entries_left-- == 0 || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return UNFIT;
	if (S_ISLNK(st.st_mode))
		return copy_link(c, from, name, to, to_name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return UNFIT;
	bj_cleanup(bj_close_fdp) int in =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) < 0)
		return UNFIT;
	if (S_ISREG(st.st_mode))
		return copy_file(c, in, &st, to, to_name);
	return S_ISDIR(st.st_mode) ? copy_dir(c, in, &st, to, to_name, depth) : UNFIT;
}

int bj_copy_tree(const char *host_path, int root_fd, const char *rel, struct bj_wire_failed *failed)
{
	struct copier c = { .failed = failed,
			    .entries_left = MAX_ENTRIES,
			    .bytes_left = MAX_BYTES };
	return copy_entry(&c, AT_FDCWD, host_path, root_fd, rel, 0);
}
