// SPDX-License-Identifier: Apache-2.0
/**
 * base/fd.h - file descriptors: whole reads and writes, and opening beneath a root without following links.
 * Owns nothing; every descriptor made here is CLOEXEC and belongs to the caller. Threads: any.
 */
#ifndef BJ_BASE_FD_H
#define BJ_BASE_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/base/macros.h"

struct bj_buf;
struct bj_err;

/** Writes all of it (EINTR and short writes handled). @what names the object in the error. */
BJ_MUST_USE int bj_fd_write_all(int fd, const void *data, size_t n_bytes, const char *what,
				struct bj_err *err);
/** Appends everything up to the end to @buf, whose limit gives RESOURCE_EXHAUSTED; on failure its length is as before. */
BJ_MUST_USE int bj_fd_read_all(int fd, struct bj_buf *buf, const char *what, struct bj_err *err);
/** Whole file by path (relative to @dirfd or AT_FDCWD). >0 (BJ_FD_E_MISSING) when it does not exist. */
enum { BJ_FD_E_MISSING = 1 };
BJ_MUST_USE int bj_file_read_all(int dirfd, const char *path, struct bj_buf *buf,
				 struct bj_err *err);
/**
 * Replaces a small file atomically: temporary name beside it (".bj-<pid>-<n>.tmp"; one may stay behind after a crash),
 * write, rename. @mode is set exactly, whatever the umask. No fsync.
 */
BJ_MUST_USE int bj_file_replace(int dirfd, const char *path, const void *data, size_t n_bytes,
				mode_t mode, struct bj_err *err);

/**
 * bj_open_beneath() - openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS.
 * O_CLOEXEC is added. @path: relative, NUL-terminated.
 * Return: descriptor >= 0, or -errno (no err object: callers act on the errno).
 */
int bj_open_beneath(int root_fd, const char *path, int flags, mode_t mode);

/**
 * bj_mkdir_p() - mkdir -p below @dirfd; existing directories are fine, ".." is -EINVAL.
 * Below a real descriptor no link is followed (-ENOTDIR) and an absolute path is -EINVAL; with AT_FDCWD the path is the
 * operator's own: it may be absolute and pass through links.
 * Return: 0 or -errno.
 */
int bj_mkdir_p(int dirfd, const char *path, mode_t mode);

/**
 * bj_remove_tree() - remove @name below @dirfd whatever it is: by descriptor, iteratively (any depth), no-follow,
 * giving itself u+rwx on directories on the way. Missing is success. Holds about twenty descriptors. Mount points are not
 * entered (-EXDEV). @name's last part must be a name: "", ".", ".." and a trailing '/' are -EINVAL.
 * Return: 0 or -errno of the first thing that could not be removed (the rest is still tried).
 */
int bj_remove_tree(int dirfd, const char *name);

#endif
