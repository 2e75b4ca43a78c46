// SPDX-License-Identifier: Apache-2.0
/**
 * jail/mnt-internal.h - failures as data, and the new mount API in three verbs: make, clone,
 * attach. For belljar-jail only (single-threaded). Every function returns a descriptor or 0, or -1
 * with @failed filled: a step that fails means that the action is not run.
 */
#ifndef BJ_JAIL_MNT_INTERNAL_H
#define BJ_JAIL_MNT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/macros.h"
#include "executor/base/str.h"
#include "executor/jail/wire-internal.h"

/** Fills @failed (texts are cut to fit). Return: -1. */
int bj_fail(struct bj_wire_failed *failed, const char *step, const char *syscall, int errnum,
	    const char *path);

/** An option of a file system; value NULL: a flag. */
struct bj_mnt_option {
	const char *key;
	const char *value;
};

/**
 * A new file system, mounted nowhere yet. @attrs: MOUNT_ATTR_*. Return: descriptor of the mount.
 */
BJ_MUST_USE int bj_mnt_make(const char *fstype, const struct bj_mnt_option *options,
			    size_t n_options, unsigned attrs, const char *step,
			    struct bj_wire_failed *failed);
/**
 * A private copy of what is at @path with everything mounted below, attached nowhere, with @attrs
 * added all over. The last component is not followed when it is a symlink; "" with a descriptor of
 * the object itself is fine.
 */
BJ_MUST_USE int bj_mnt_clone(int dirfd, const char *path, uint64_t attrs, const char *step,
			     struct bj_wire_failed *failed);
/** Sets @attrs on the mount at (dirfd, path) only. */
BJ_MUST_USE int bj_mnt_set(int dirfd, const char *path, uint64_t attrs, const char *step,
			   struct bj_wire_failed *failed);
/** Attaches @mnt_fd at (dirfd, path); @path must exist and is not followed. */
BJ_MUST_USE int bj_mnt_attach(int mnt_fd, int dirfd, const char *path, const char *step,
			      struct bj_wire_failed *failed);

#endif
