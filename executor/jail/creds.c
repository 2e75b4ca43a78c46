// SPDX-License-Identifier: Apache-2.0
/*
 * From the zygote's rights to none, in the order that the kernel's rules leave:
 *
 *   1. the slot's ids, keeping the capabilities (NO_SETUID_FIXUP): with them a user namespace can be made even where
 *      unprivileged ones are switched off
 *   2. the user namespace; its maps may be written from inside since they name our own ids only. /proc/self/uid_map belongs to
 *      root while we are not dumpable, hence dumpable for these three writes: nobody else is in our pid namespace yet
 *   3. no further namespaces below this one (a second wall: the seccomp filter refuses the calls)
 *   4. securebits locked, bounding set empty, all capability sets empty, no_new_privs
 *   5. not dumpable: the command will share our uid, and must neither trace us nor open /proc/1/{mem,fd,root}
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

enum {
	KEEP_CAPS_BITS = SECBIT_NO_SETUID_FIXUP,
	FINAL_BITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
		     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
};

static int take_slot_ids(const struct bj_jail_slot_spec *slot, struct bj_wire_failed *failed)
{
	uid_t uid = slot->slot_uid;
	gid_t gid = slot->slot_gid;
	if (prctl(PR_SET_SECUREBITS, KEEP_CAPS_BITS, 0, 0, 0) < 0)
		return bj_fail(failed, "slot-ids", "prctl", errno, "securebits");
	if (setgroups(0, NULL) < 0)
		return bj_fail(failed, "slot-ids", "setgroups", errno, "");
	if (setresgid(gid, gid, gid) < 0)
		return bj_fail(failed, "slot-ids", "setresgid", errno, "");
	if (setresuid(uid, uid, uid) < 0)
		return bj_fail(failed, "slot-ids", "setresuid", errno, "");
	return 0;
}

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

static int put_map(const char *path, unsigned inside, unsigned outside, const char *step,
		   struct bj_wire_failed *failed)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%u %u 1\n", inside,
		       outside); /* two 32-bit numbers fit */
	return put_proc(path, text, step, failed);
}

static int enter_user_ns(const struct bj_jail_slot_spec *slot, struct bj_wire_failed *failed)
{
	if (unshare(CLONE_NEWUSER) < 0)
		return bj_fail(failed, "user-namespace", "unshare", errno, "");
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return bj_fail(failed, "user-namespace", "prctl", errno, "dumpable");
	if (put_proc("/proc/self/setgroups", "deny", "setgroups-deny", failed) < 0 ||
	    put_map("/proc/self/uid_map", BJ_JAIL_UID, slot->slot_uid, "uid-map", failed) < 0 ||
	    put_map("/proc/self/gid_map", BJ_JAIL_GID, slot->slot_gid, "gid-map", failed) < 0)
		return -1;
	return put_proc("/proc/sys/user/max_user_namespaces", "0", "no-more-namespaces", failed);
}

static int drop_caps(struct bj_wire_failed *failed)
{
	if (prctl(PR_SET_SECUREBITS, FINAL_BITS, 0, 0, 0) < 0)
		return bj_fail(failed, "capabilities", "prctl", errno, "securebits");
	for (unsigned long cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0;)
		cap++;
	if (errno != EINVAL) /* beyond the last one that this kernel knows */
		return bj_fail(failed, "capabilities", "prctl", errno, "bounding set");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return bj_fail(failed, "capabilities", "prctl", errno, "ambient set");
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
	if (syscall(SYS_capset, &head, none) < 0)
		return bj_fail(failed, "capabilities", "capset", errno, "");
	return 0;
}

int bj_creds_drop(const struct bj_jail_slot_spec *slot, struct bj_wire_failed *failed)
{
	if (slot->profile == BJ_PROFILE_PRIVILEGED && take_slot_ids(slot, failed) < 0)
		return -1;
	if (enter_user_ns(slot, failed) < 0 || drop_caps(failed) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return bj_fail(failed, "no-new-privs", "prctl", errno, "");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return bj_fail(failed, "not-dumpable", "prctl", errno, "");
	return 0;
}
