// SPDX-License-Identifier: Apache-2.0
/*
 * What a failed wall means and what to set, by step and errno. A hint names a sysctl or a setting
 * of the host; it never proposes to do without the wall.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "executor/jail/jail-internal.h"

struct hint {
	const char *step;	/* NULL: any */
	int sys_errno;		/* 0: any */
	const char *needs_file; /* only where this exists; NULL: always */
	const char *text;
};

static const struct hint hints[] = {
	{ "user-namespace", ENOSPC, NULL,
	  "the limit of user namespaces is reached, not a disk: raise sysctl "
	  "user.max_user_namespaces" },
	{ "clone-init", ENOSPC, NULL,
	  "a limit of namespaces is reached, not a disk: raise sysctl user.max_mnt_namespaces, "
	  "user.max_pid_namespaces, user.max_ipc_namespaces" },
	{ NULL, EUSERS, NULL,
	  "namespaces are nested too deeply or their limit is reached: see sysctl "
	  "user.max_user_namespaces" },
	{ "user-namespace", EPERM, "/proc/sys/kernel/unprivileged_userns_clone",
	  "this kernel may refuse user namespaces to ordinary users: set sysctl "
	  "kernel.unprivileged_userns_clone=1, or run as root" },
	{ "user-namespace", EPERM, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
	  "AppArmor may restrict user namespaces: set sysctl "
	  "kernel.apparmor_restrict_unprivileged_userns=0 or add a profile with 'userns,' for "
	  "belljar" },
	{ "user-namespace", EPERM, NULL,
	  "user namespaces are refused: in a container its seccomp profile must allow unshare and "
	  "clone, and no chroot may be in effect" },
	{ "uid-map", EPERM, NULL,
	  "the map of ids is refused: in a container add the capabilities SETUID, SETGID and "
	  "SETFCAP, or AppArmor restricts user namespaces "
	  "(kernel.apparmor_restrict_unprivileged_userns=0)" },
	{ "gid-map", EPERM, NULL,
	  "the map of groups is refused: in a container add the capability SETGID" },
	{ "setgroups-deny", EACCES, NULL,
	  "AppArmor restricts user namespaces: set sysctl "
	  "kernel.apparmor_restrict_unprivileged_userns=0" },
	{ "mount-proc", EPERM, NULL,
	  "a new /proc is refused because the outer one is partly masked: start the container with "
	  "an unmasked /proc (docker: --security-opt systempaths=unconfined)" },
	{ "overlay", EINVAL, NULL,
	  "overlayfs refuses the work area: it must be a tmpfs, ext4, xfs or btrfs, not itself an "
	  "overlay; see the kernel log" },
	{ "overlay", ENODEV, NULL, "this kernel has no overlayfs: load the module overlay" },
	{ "overlay", EPERM, NULL,
	  "overlayfs may not be mounted in a user namespace here: kernel 5.11 or newer is needed" },
	{ "pivot", EINVAL, NULL,
	  "pivot_root is refused: the root is an initramfs, or shared into other namespaces" },
	{ "seccomp", EINVAL, NULL,
	  "this kernel's seccomp lacks a feature: kernel 6.1 or newer is needed" },
	{ "seccomp", EBUSY, NULL,
	  "another supervisor listens already: belljar runs inside a sandbox that uses seccomp "
	  "notification; set observe to off" },
	{ "observer-listener", EPERM, NULL,
	  "the listener cannot be fetched: sysctl kernel.yama.ptrace_scope=3, or a container "
	  "without SYS_PTRACE; set observe to off" },
	{ "work-area", EPERM, NULL,
	  "mounting is refused: in a container add the capability SYS_ADMIN and allow mount in its "
	  "seccomp profile" },
	{ "mount-namespace", EPERM, NULL,
	  "mount namespaces are refused: in a container add the capability SYS_ADMIN, or allow "
	  "unshare in its seccomp profile" },
	{ "network-namespace", EPERM, NULL,
	  "network namespaces are refused: in a container allow unshare in its seccomp profile" },
	{ "network-namespace", ENOSPC, NULL,
	  "the limit of network namespaces is reached, not a disk: raise sysctl "
	  "user.max_net_namespaces" },
	{ NULL, ENOSYS, NULL,
	  "this kernel, or the seccomp profile of the container, lacks the call: kernel 6.1 or "
	  "newer is needed" },
};

const char *bj_jail_hint(const char *step, const char *syscall, int sys_errno)
{
	(void)syscall; /* the step is finer */
	for (size_t i = 0; i < BJ_ARRAY_LEN(hints); i++) {
		const struct hint *h = &hints[i];
		if (h->step && strcmp(h->step, step) != 0)
			continue;
		if (h->sys_errno && h->sys_errno != sys_errno)
			continue;
		if (h->needs_file && access(h->needs_file, F_OK) < 0)
			continue;
		return h->text;
	}
	return "";
}

int bj_jail_fail(const struct bj_wire_failed *failed, enum bj_code code,
		 struct bj_jail_failure *out, struct bj_err *err)
{
	struct bj_jail_failure f = { .sys_errno = failed->sys_errno };
	(void)snprintf(f.step, sizeof(f.step), "%.*s", (int)sizeof(failed->step) - 1, failed->step);
	(void)snprintf(f.syscall, sizeof(f.syscall), "%.*s", (int)sizeof(failed->syscall) - 1,
		       failed->syscall);
	(void)snprintf(f.path, sizeof(f.path), "%.*s", (int)sizeof(failed->path) - 1, failed->path);
	(void)snprintf(f.hint, sizeof(f.hint), "%s",
		       bj_jail_hint(f.step, f.syscall, f.sys_errno)); /* the table fits */
	if (out)
		*out = f;
	return bj_err_set_at(
		err, code, f.sys_errno, __FILE__, __LINE__, "jail: %s: %s%s%s%s: %s%s%s%s", f.step,
		f.syscall, f.path[0] ? " \"" : "", f.path, f.path[0] ? "\"" : "",
		strerror(f.sys_errno), f.hint[0] ? " (" : "", f.hint, f.hint[0] ? ")" : "");
}
