// SPDX-License-Identifier: Apache-2.0
/*
 * From the zygote's rights to none, in the order that the kernel's rules leave.
 *
 * Once a slot (bj_userns_make, in a child of the zygote):
 *   1. the slot's ids, keeping the capabilities (NO_SETUID_FIXUP): with them a user namespace can be
 *      made even where unprivileged ones are switched off
 *   2. the user namespace; its maps may be written from inside, since they name our own ids only.
 *      /proc/self/uid_map belongs to root while we are not dumpable: so we are, for these writes
 *   3. no further namespaces below this one (a second wall: the seccomp filter refuses the calls)
 * Once an action (bj_creds_drop, in init):
 *   4. the slot's ids again, but for the saved group: by it init differs from the command, and the
 *      kernel's checks for prlimit and ptrace, which compare all six ids, refuse the command any
 *      right over init. Then into that user namespace, which gives all capabilities in it
 *   5. securebits locked, bounding set empty, all capability sets empty, no_new_privs
 *   6. not dumpable: the command will share our uid, and must neither trace us nor open
 *      /proc/1/{mem,fd,root}
 * In the command's process (bj_creds_same_as_command): the saved group, too.
 *
 * The actions of a slot share the user namespace, which is 60 us less for each. What an action
 * without capabilities could leave in one are keys, which the filter refuses to all (keyctl,
 * add_key, request_key), and counters, which go down with their processes.
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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

enum {
	KEEP_CAPS_BITS = SECBIT_NO_SETUID_FIXUP,
	FINAL_BITS = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
		     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
		     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
};

/**
 * @saved_gid: only ever compared, by the kernel, when somebody asks for rights over this process.
 */
static int take_slot_ids(const struct bj_jail_slot_spec *slot, gid_t saved_gid,
			 struct bj_wire_failed *failed)
{
	uid_t uid = slot->slot_uid;
	gid_t gid = slot->slot_gid;
	if (slot->profile != BJ_PROFILE_PRIVILEGED)
		return 0; /* there is only one */
	if (prctl(PR_SET_SECUREBITS, KEEP_CAPS_BITS, 0, 0, 0) < 0)
		return bj_fail(failed, "slot-ids", "prctl", errno, "securebits");
	if (setgroups(0, NULL) < 0)
		return bj_fail(failed, "slot-ids", "setgroups", errno, "");
	if (setresgid(gid, gid, saved_gid) < 0)
		return bj_fail(failed, "slot-ids", "setresgid", errno, "");
	if (setresuid(uid, uid, uid) < 0)
		return bj_fail(failed, "slot-ids", "setresuid", errno, "");
	return 0;
}

/** A group that is not the slot's. */
static gid_t foreign_gid(const struct bj_jail_slot_spec *slot)
{
	enum { NOGROUP = 65534 };
	return slot->slot_gid == NOGROUP ? NOGROUP - 1 : NOGROUP;
}

int bj_creds_same_as_command(const struct bj_jail_slot_spec *slot)
{
	if (slot->profile != BJ_PROFILE_PRIVILEGED)
		return 0;
	/*
	 * The bare call, since our memory is shared: libc's would look for threads. No right is
	 * needed: it is our own group.
	 */
	return syscall(SYS_setresgid, -1, -1, BJ_JAIL_GID) < 0 ? -errno : 0;
}

/* ---- once a slot ---- */

static int put_proc(int proc_fd, const char *path, const char *text, const char *step,
		    struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int fd = openat(proc_fd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return bj_fail(failed, step, "open", errno, path);
	if (write(fd, text, strlen(text)) < 0)
		return bj_fail(failed, step, "write", errno, path);
	return 0;
}

static int put_map(int proc_fd, const char *path, unsigned inside, unsigned outside,
		   const char *step, struct bj_wire_failed *failed)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%u %u 1\n", inside, outside); /* two 32-bit numbers */
	return put_proc(proc_fd, path, text, step, failed);
}

static int no_more_namespaces(int proc_fd, struct bj_wire_failed *failed)
{
	return put_proc(proc_fd, "sys/user/max_user_namespaces", "0", "no-more-namespaces", failed);
}

static int enter_new_user_ns(const struct bj_jail_slot_spec *slot, int proc_fd,
			     struct bj_wire_failed *failed)
{
	if (take_slot_ids(slot, slot->slot_gid, failed) < 0)
		return -1;
	if (unshare(CLONE_NEWUSER) < 0)
		return bj_fail(failed, "user-namespace", "unshare", errno, "");
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return bj_fail(failed, "user-namespace", "prctl", errno, "dumpable");
	if (put_proc(proc_fd, "self/setgroups", "deny", "setgroups-deny", failed) < 0)
		return -1;
	if (put_map(proc_fd, "self/uid_map", BJ_JAIL_UID, slot->slot_uid, "uid-map", failed) < 0)
		return -1;
	return put_map(proc_fd, "self/gid_map", BJ_JAIL_GID, slot->slot_gid, "gid-map", failed);
}

/** What the child that makes the namespace says; then it waits until it is let go. */
struct made {
	bool ok;
	bool is_last; /* no further namespaces */
	struct bj_wire_failed failed;
};

BJ_NORETURN static void make_in_child(const struct bj_jail_slot_spec *slot, int proc_fd, int sock)
{
	struct made made = { 0 };
	struct bj_wire_failed ignored;
	char byte;
	made.ok = enter_new_user_ns(slot, proc_fd, &made.failed) == 0;
	/* A container may show /proc/sys read-only; then each init does it in its own /proc. */
	made.is_last = made.ok && no_more_namespaces(proc_fd, &ignored) == 0;
	(void)!write(sock, &made, sizeof(made)); /* the zygote sees the end otherwise */
	(void)!read(sock, &byte, 1);
	_exit(0);
}

static int take_made(pid_t child, int proc_fd, int sock, struct bj_userns *out,
		     struct bj_wire_failed *failed)
{
	struct made made;
	if (read(sock, &made, sizeof(made)) != (ssize_t)sizeof(made))
		return bj_fail(failed, "user-namespace", "read", EIO, "");
	if (!made.ok) {
		*failed = made.failed;
		return -1;
	}
	char path[32];
	(void)snprintf(path, sizeof(path), "%d/ns/user", (int)child); /* an int */
	out->fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	out->is_last = made.is_last;
	return out->fd >= 0 ? 0 : bj_fail(failed, "user-namespace", "open", errno, path);
}

int bj_userns_make(const struct bj_jail_slot_spec *slot, int proc_fd, struct bj_userns *out_userns,
		   struct bj_wire_failed *failed)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return bj_fail(failed, "user-namespace", "socketpair", errno, "");
	bj_cleanup(bj_close_fdp) int ours = pair[0];
	bj_cleanup(bj_close_fdp) int theirs = pair[1];
	pid_t child = fork();
	if (child < 0)
		return bj_fail(failed, "user-namespace", "fork", errno, "");
	if (child == 0) {
		bj_close_fdp(&ours);
		make_in_child(slot, proc_fd, theirs);
	}
	bj_close_fdp(&theirs);
	int r = take_made(child, proc_fd, ours, out_userns, failed);
	bj_close_fdp(&ours);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	return r;
}

/* ---- once an action ---- */

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

int bj_creds_drop(const struct bj_jail_slot_spec *slot, const struct bj_userns *userns,
		  struct bj_wire_failed *failed)
{
	if (take_slot_ids(slot, foreign_gid(slot), failed) < 0)
		return -1;
	if (setns(userns->fd, CLONE_NEWUSER) < 0)
		return bj_fail(failed, "user-namespace", "setns", errno, "");
	if (!userns->is_last) {
		bj_cleanup(bj_close_fdp) int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (no_more_namespaces(proc, failed) < 0)
			return -1;
	}
	if (drop_caps(failed) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return bj_fail(failed, "no-new-privs", "prctl", errno, "");
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return bj_fail(failed, "not-dumpable", "prctl", errno, "");
	return 0;
}
