// SPDX-License-Identifier: Apache-2.0
/*
 * The three mounts of one action: the input root (an overlay), /tmp and /dev/shm. Made by the
 * zygote in work_ns, attached nowhere; init attaches them in the action's namespace.
 *
 * Overlay: the lower layer is the declared tree, hard links to the store's blobs among it;
 * overlayfs opens it for reading only, so no action can reach an inode of the store. redirect_dir
 * lets a directory of the tree be renamed; it needs trusted.* attributes, which a user namespace
 * has not: there a rename of an input directory gives EXDEV, and tools copy. No option names our
 * directories but by their last component, since /proc/self/mountinfo shows them to the action.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "executor/base/fd.h"
#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

enum { LAYER_ATTRS = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

/** Length of the directory part, without the slash; 0 without one. */
static size_t dir_len(struct bj_str path)
{
	size_t len = path.len;
	while (len > 0 && path.ptr[len - 1] != '/')
		len--;
	return len > 0 ? len - 1 : 0;
}

/**
 * Goes to the directory that holds all three layers, if there is one. Return: how many bytes to
 * skip of each path, or -1.
 */
static ssize_t enter_common(const struct bj_template *t, const struct bj_jail_spec *spec,
			    struct bj_wire_failed *failed)
{
	size_t len = dir_len(spec->lower);
	struct bj_str dir = bj_str_sub(spec->lower, 0, len);
	bool common = len > 0 && bj_str_eq(dir, bj_str_sub(spec->upper, 0, dir_len(spec->upper))) &&
		      bj_str_eq(dir, bj_str_sub(spec->ovl, 0, dir_len(spec->ovl)));
	if (!common)
		return fchdir(t->work_fd) < 0 ? bj_fail(failed, "overlay", "fchdir", errno, "") : 0;
	char path[4096];
	memcpy(path, dir.ptr, len);
	path[len] = '\0';
	bj_cleanup(bj_close_fdp) int fd =
		bj_open_beneath(t->work_fd, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return bj_fail(failed, "overlay", "openat2", -fd, path);
	return fchdir(fd) < 0 ? bj_fail(failed, "overlay", "fchdir", errno, path)
			      : (ssize_t)len + 1;
}

static int open_overlay(const struct bj_template *t, const struct bj_jail_slot_spec *slot,
			const struct bj_jail_spec *spec, struct bj_wire_failed *failed)
{
	ssize_t skip = enter_common(t, spec, failed);
	if (skip < 0)
		return -1;
	struct bj_mnt_option options[8] = {
		{ "lowerdir", spec->lower.ptr + skip },
		{ "upperdir", spec->upper.ptr + skip },
		{ "workdir", spec->ovl.ptr + skip },
		{ "index", "off" },
		{ "xino", "off" },
		{ "metacopy", "off" },
	};
	size_t n = 6;
	if (slot->profile == BJ_PROFILE_PRIVILEGED)
		options[n++] = (struct bj_mnt_option){ "redirect_dir", "on" };
	else
		options[n++] = (struct bj_mnt_option){ "userxattr", NULL };
	if (!t->work_is_tmpfs) /* there sync costs nothing */
		options[n++] = (struct bj_mnt_option){ "volatile", NULL };
	return bj_mnt_make("overlay", options, n, LAYER_ATTRS, "overlay", failed);
}

/** A directory of the work area as a mount. */
static int open_dir(const struct bj_template *t, struct bj_str path, const char *step,
		    struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int dir =
		bj_open_beneath(t->work_fd, path.ptr, O_PATH | O_DIRECTORY, 0);
	if (dir < 0)
		return bj_fail(failed, step, "openat2", -dir, path.ptr);
	return bj_mnt_clone(dir, "", LAYER_ATTRS, step, failed);
}

int bj_layers_open(const struct bj_template *t, const struct bj_jail_slot_spec *slot,
		   const struct bj_jail_spec *spec, struct bj_layers *out_layers,
		   struct bj_wire_failed *failed)
{
	struct bj_layers l = BJ_LAYERS_NULL;
	l.exec_fd = open_overlay(t, slot, spec, failed);
	if (l.exec_fd >= 0)
		l.tmp_fd = open_dir(t, spec->tmp, "tmp", failed);
	if (l.tmp_fd >= 0)
		l.shm_fd = open_dir(t, spec->shm, "shm", failed);
	if (l.shm_fd < 0) {
		bj_layers_close(&l);
		return -1;
	}
	*out_layers = l;
	return 0;
}

void bj_layers_close(struct bj_layers *layers)
{
	bj_close_fdp(&layers->exec_fd);
	bj_close_fdp(&layers->tmp_fd);
	bj_close_fdp(&layers->shm_fd);
}
