// SPDX-License-Identifier: Apache-2.0
/*
 * The new mount API (5.2, mount_setattr 5.12) instead of mount(2): objects are named by
 * descriptors, so no path is walked twice and none through a link; a copy is made read-only, all of
 * it, before it is visible to anybody; and a mount can be built in one namespace and attached in
 * another, which is what keeps the work area out of the action's.
 */
#include "executor/jail/mnt-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

int bj_fail(struct bj_wire_failed *failed, const char *step, const char *syscall, int errnum,
	    const char *path)
{
	*failed = (struct bj_wire_failed){ .sys_errno = errnum };
	(void)snprintf(failed->step, sizeof(failed->step), "%s", step); /* cut is fine */
	(void)snprintf(failed->syscall, sizeof(failed->syscall), "%s", syscall);
	(void)snprintf(failed->path, sizeof(failed->path), "%s", path ? path : "");
	return -1;
}

static int configure(int fs, const struct bj_mnt_option *options, size_t n_options,
		     const char *step, struct bj_wire_failed *failed)
{
	for (size_t i = 0; i < n_options; i++) {
		const struct bj_mnt_option *o = &options[i];
		int r = o->value ? fsconfig(fs, FSCONFIG_SET_STRING, o->key, o->value, 0)
				 : fsconfig(fs, FSCONFIG_SET_FLAG, o->key, NULL, 0);
		if (r < 0)
			return bj_fail(failed, step, "fsconfig", errno, o->key);
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return bj_fail(failed, step, "fsconfig", errno, "");
	return 0;
}

int bj_mnt_make(const char *fstype, const struct bj_mnt_option *options, size_t n_options,
		unsigned attrs, const char *step, struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int fs = fsopen(fstype, FSOPEN_CLOEXEC);
	if (fs < 0)
		return bj_fail(failed, step, "fsopen", errno, fstype);
	if (configure(fs, options, n_options, step, failed) < 0)
		return -1;
	int mnt = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
	return mnt >= 0 ? mnt : bj_fail(failed, step, "fsmount", errno, fstype);
}

static int set_attr(int dirfd, const char *path, unsigned flags, uint64_t attrs,
		    uint64_t propagation)
{
	struct mount_attr attr = { .attr_set = attrs, .propagation = propagation };
	return mount_setattr(dirfd, path, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, &attr,
			     sizeof(attr));
}

int bj_mnt_clone(int dirfd, const char *path, uint64_t attrs, const char *step,
		 struct bj_wire_failed *failed)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW |
			 AT_NO_AUTOMOUNT;
	if (path[0] == '\0')
		flags |= AT_EMPTY_PATH;
	bj_cleanup(bj_close_fdp) int mnt = open_tree(dirfd, path, flags);
	if (mnt < 0)
		return bj_fail(failed, step, "open_tree", errno, path);
	if (set_attr(mnt, "", AT_EMPTY_PATH | AT_RECURSIVE, attrs, MS_PRIVATE) < 0)
		return bj_fail(failed, step, "mount_setattr", errno, path);
	return BJ_STEAL_FD(mnt);
}

int bj_mnt_set(int dirfd, const char *path, uint64_t attrs, const char *step,
	       struct bj_wire_failed *failed)
{
	unsigned flags = path[0] == '\0' ? AT_EMPTY_PATH : 0;
	if (set_attr(dirfd, path, flags, attrs, 0) < 0)
		return bj_fail(failed, step, "mount_setattr", errno, path);
	return 0;
}

int bj_mnt_attach(int mnt_fd, int dirfd, const char *path, const char *step,
		  struct bj_wire_failed *failed)
{
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (path[0] == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0u);
	if (move_mount(mnt_fd, "", dirfd, path, flags) < 0)
		return bj_fail(failed, step, "move_mount", errno, path);
	return 0;
}
