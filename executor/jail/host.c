// SPDX-License-Identifier: Apache-2.0
/*
 * The executor's own surroundings, prepared once while it is single-threaded: rights to mount
 * (root's, or those of an own user namespace), an own mount namespace that hears of the host's
 * changes but tells it nothing, and the bounded tmpfs that is the work area.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/fd.h"
#include "executor/jail/jail-internal.h"
#include "executor/jail/mnt-internal.h"

static int put_proc(const char *path, const char *text, const char *step,
		    struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return bj_fail(failed, step, "open", errno, path);
	if (write(fd, text, strlen(text)) < 0)
		return bj_fail(failed, step, "write", errno, path);
	return 0;
}

static int become_root_inside(struct bj_wire_failed *failed)
{
	char uid_map[64], gid_map[64];
	(void)snprintf(uid_map, sizeof(uid_map), "0 %u 1\n",
		       (unsigned)geteuid()); /* two 32-bit numbers fit */
	(void)snprintf(gid_map, sizeof(gid_map), "0 %u 1\n", (unsigned)getegid());
	if (unshare(CLONE_NEWUSER) < 0)
		return bj_fail(failed, "user-namespace", "unshare", errno, "");
	if (put_proc("/proc/self/setgroups", "deny", "setgroups-deny", failed) < 0 ||
	    put_proc("/proc/self/uid_map", uid_map, "uid-map", failed) < 0)
		return -1;
	return put_proc("/proc/self/gid_map", gid_map, "gid-map", failed);
}

/**
 * How many user ids exist here: all but one of 2^32 on a host, a range or just one in a user
 * namespace.
 */
static uint64_t n_user_ids(void)
{
	struct bj_buf map = BJ_BUF_INIT(64 * 1024);
	struct bj_err ignored = BJ_ERR_NULL;
	uint64_t total = 0;
	if (bj_file_read_all(AT_FDCWD, "/proc/self/uid_map", &map, &ignored) == 0) {
		for (struct bj_str rest = bj_buf_str(&map);
		     rest.ptr;) { /* lines of "inside outside count" */
			struct bj_str line = bj_str_cut(&rest, '\n');
			uint64_t count = 0;
			while (line.len > 0 && line.ptr[line.len - 1] == ' ')
				line.len--;
			size_t at = line.len;
			while (at > 0 && line.ptr[at - 1] != ' ')
				at--;
			if (bj_str_to_u64(bj_str_sub(line, at, line.len), &count))
				total += count;
		}
	}
	bj_buf_deinit(&map);
	return total;
}

/**
 * Root of a container may lack what the privileged profile needs, capabilities or other ids than
 * its own: then it is treated as anybody else.
 */
static bool has_host_rights(void)
{
	static const unsigned needed[] = { CAP_SYS_ADMIN,    CAP_SYS_CHROOT, CAP_SETUID,
					   CAP_SETGID,	     CAP_CHOWN,	     CAP_SYS_PTRACE,
					   CAP_DAC_OVERRIDE, CAP_FOWNER,     CAP_KILL };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
	enum { ENOUGH_IDS = 65536 };
	if (geteuid() != 0 || n_user_ids() < ENOUGH_IDS || syscall(SYS_capget, &head, caps) < 0)
		return false;
	for (size_t i = 0; i < BJ_ARRAY_LEN(needed); i++) {
		if (!(caps[CAP_TO_INDEX(needed[i])].effective & CAP_TO_MASK(needed[i])))
			return false;
	}
	return true;
}

static int mount_work(const char *work_dir, uint64_t work_bytes, struct bj_wire_failed *failed)
{
	char options[96];
	/* An entry takes about a KiB of kernel memory that the size does not count. */
	uint64_t inodes = BJ_MAX(work_bytes / 1024, (uint64_t)65536);
	(void)snprintf(options, sizeof(options), "mode=0711,size=%" PRIu64 ",nr_inodes=%" PRIu64,
		       work_bytes, inodes);
	int r = bj_mkdir_p(AT_FDCWD, work_dir, 0700);
	if (r < 0)
		return bj_fail(failed, "work-area", "mkdir", -r, work_dir);
	if (unshare(CLONE_NEWNS) < 0)
		return bj_fail(failed, "mount-namespace", "unshare", errno, "");
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return bj_fail(failed, "mount-namespace", "mount", errno, "/");
	if (mount("belljar-work", work_dir, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		return bj_fail(failed, "work-area", "mount", errno, work_dir);
	return 0;
}

int bj_jail_enter_host(const char *work_dir, uint64_t work_bytes, enum bj_jail_profile *out_profile,
		       struct bj_jail_failure *out_failure, struct bj_err *err)
{
	struct bj_wire_failed failed;
	bool root = has_host_rights();
	if ((!root && become_root_inside(&failed) < 0) ||
	    mount_work(work_dir, work_bytes, &failed) < 0)
		return bj_jail_fail(&failed, BJ_FAILED_PRECONDITION, out_failure, err);
	*out_profile = root ? BJ_PROFILE_PRIVILEGED : BJ_PROFILE_USERNS;
	return 0;
}
