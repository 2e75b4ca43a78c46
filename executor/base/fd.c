// SPDX-License-Identifier: Apache-2.0
#include "executor/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/base/str.h"

#define READ_CHUNK_BYTES ((size_t)64 * 1024)

int bj_fd_write_all(int fd, const void *data, size_t n_bytes, const char *what, struct bj_err *err)
{
	const char *p = data;
	while (n_bytes > 0) {
		ssize_t n = write(fd, p, n_bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return bj_err_errno(err, errno, "write %s", what);
		p += n;
		n_bytes -= (size_t)n;
	}
	return 0;
}

static ssize_t read_retrying(int fd, void *data, size_t n_bytes)
{
	ssize_t n;
	do {
		n = read(fd, data, n_bytes);
	} while (n < 0 && errno == EINTR);
	return n;
}

/* Reads once into @buf. Returns 1 for data, 0 at the end, or a failure. */
static int read_some(int fd, struct bj_buf *buf, const char *what, struct bj_err *err)
{
	/* A full buffer still has to see the end of the file, so it reads one byte elsewhere. */
	char probe = 0;
	size_t room = BJ_MIN(READ_CHUNK_BYTES, buf->max_bytes - buf->len);
	char *to = room ? bj_buf_reserve(buf, room) : &probe;
	if (!to)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "read %s: out of memory", what);
	ssize_t n = read_retrying(fd, to, room ? room : 1);
	if (n < 0)
		return bj_err_errno(err, errno, "read %s", what);
	if (n == 0)
		return 0;
	if (room == 0)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "read %s: more than %zu bytes", what,
				  buf->max_bytes);
	bj_buf_commit(buf, (size_t)n);
	return 1;
}

int bj_fd_read_all(int fd, struct bj_buf *buf, const char *what, struct bj_err *err)
{
	size_t len_before = buf->len;
	int r;
	do {
		r = read_some(fd, buf, what, err);
	} while (r > 0);
	if (r < 0)
		buf->len = len_before;
	return r;
}

int bj_file_read_all(int dirfd, const char *path, struct bj_buf *buf, struct bj_err *err)
{
	bj_cleanup(bj_close_fdp) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return BJ_FD_E_MISSING;
	if (fd < 0)
		return bj_err_errno(err, errno, "open \"%s\"", path);
	return bj_fd_read_all(fd, buf, path, err);
}

/* ---- replacing a file ---- */

enum { TEMP_TRIES = 100 };

/*
 * Creates a file with a name of its own in the directory of @path: ".bj-<pid>-<n>.tmp". Two processes can have the same
 * pid (namespaces, or one that died and left its file), hence O_EXCL and the next number.
 */
static int create_temp(int dirfd, const char *path, char temp[PATH_MAX], int *out_fd)
{
	static _Atomic uint64_t counter;
	const char *slash = strrchr(path, '/');
	size_t dir_len = slash ? (size_t)(slash - path) + 1 : 0;
	if (dir_len >= PATH_MAX)
		return -ENAMETOOLONG;
	for (int i = 0; i < TEMP_TRIES; i++) {
		int n = snprintf(temp, PATH_MAX, "%.*s.bj-%ld-%" PRIu64 ".tmp", (int)dir_len, path,
				 (long)getpid(), atomic_fetch_add(&counter, 1));
		if (n < 0 || n >= PATH_MAX)
			return -ENAMETOOLONG;
		int fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				0600);
		if (fd >= 0) {
			*out_fd = fd;
			return 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

int bj_file_replace(int dirfd, const char *path, const void *data, size_t n_bytes, mode_t mode,
		    struct bj_err *err)
{
	char temp[PATH_MAX];
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	int r = create_temp(dirfd, path, temp, &fd);
	if (r < 0)
		return bj_err_errno(err, -r, "create a temporary file for \"%s\"", path);

	r = bj_fd_write_all(fd, data, n_bytes, path, err);
	if (r == 0 && fchmod(fd, mode) < 0) /* the mode that was asked for, whatever the umask */
		r = bj_err_errno(err, errno, "set the mode of \"%s\"", path);
	if (r == 0 && renameat(dirfd, temp, dirfd, path) < 0)
		r = bj_err_errno(err, errno, "replace \"%s\"", path);
	if (r < 0)
		(void)unlinkat(dirfd, temp, 0); /* the error that counts is set already */
	return r;
}

/* ---- paths below a root ---- */

int bj_open_beneath(int root_fd, const char *path, int flags, mode_t mode)
{
	enum { RACE_TRIES = 16 };
	bool may_create = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC),
		.mode = may_create ? mode & 07777
				   : 0, /* the kernel refuses a mode without O_CREAT */
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	/* EAGAIN: a rename elsewhere made the kernel unsure about a ".."; it asks to be called again. */
	for (int i = 0;; i++) {
		long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EINTR && (errno != EAGAIN || i >= RACE_TRIES))
			return -errno;
	}
}

/* Opens directory @name in @dirfd, made first if it is missing. Returns a descriptor (O_PATH) or -errno. */
static int enter_dir(int dirfd, const char *name, mode_t mode, int nofollow)
{
	int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | nofollow;
	int fd = openat(dirfd, name, flags);
	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(dirfd, name, flags);
	}
	return fd < 0 ? -errno : fd;
}

int bj_mkdir_p(int dirfd, const char *path, mode_t mode)
{
	struct bj_str rest = bj_str_of(path);
	if (rest.len == 0)
		return -ENOENT;
	int nofollow = dirfd == AT_FDCWD ? 0 : O_NOFOLLOW;
	bj_cleanup(bj_close_fdp) int held = -EBADF;
	int at = dirfd;
	if (path[0] == '/') {
		if (dirfd != AT_FDCWD)
			return -EINVAL;
		at = held = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (held < 0)
			return -errno;
	}
	while (rest.ptr) {
		struct bj_str part = bj_str_cut(&rest, '/');
		char name[NAME_MAX + 1];
		if (part.len == 0 || bj_str_eq(part, BJ_STR_LIT(".")))
			continue;
		if (bj_str_eq(part, BJ_STR_LIT("..")))
			return -EINVAL;
		if (part.len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, part.ptr, part.len);
		name[part.len] = '\0';

		int fd = enter_dir(at, name, mode, nofollow);
		if (fd < 0)
			return fd;
		bj_close_fdp(&held);
		at = held = fd;
	}
	return 0;
}
