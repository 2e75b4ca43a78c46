// SPDX-License-Identifier: Apache-2.0
/*
 * The system calls that the filter knows, as data: numbers, the level that sees them, where their arguments are.
 *
 * Numbers are written down rather than asked from libseccomp at run time: the table is const, works before and after fork, and covers
 * calls that are newer than the library (tests/unit/observer_filter_test.c compares the two). Numbers from 424 on are the same everywhere.
 *
 * Errors of refused calls: ENOSYS where libc or a program falls back to something older, EPERM where the call is known to everybody and
 * an unprivileged process would be refused anyway.
 *
 * Seen or not seen: what takes a path. What takes a descriptor was seen when that was opened. Exceptions: fchmod and fchown, since a
 * descriptor opened for reading lets them change a file, and fchdir, since it changes what relative paths mean.
 */
#include <errno.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

#define NR(x86_64, i386, aarch64)                                                                  \
	{                                                                                          \
		x86_64, i386, aarch64                                                              \
	}

/* Refused whatever its arguments. */
#define DENY(name_, n64, n32, narm, errno_, why_)                                                  \
	{                                                                                          \
		.name = #name_, .nr = NR(n64, n32, narm), .level = BJ_OBSERVE_OFF,                 \
		.shape = BJ_SHAPE_DENY, .op = BJ_OP_SYSCALL, .deny = errno_, .why = why_           \
	}
/* Refused for some arguments. */
#define DENY_IF(name_, n64, n32, narm, errno_, test_, arg_, why_)                                  \
	{                                                                                          \
		.name = #name_, .nr = NR(n64, n32, narm), .level = BJ_OBSERVE_OFF,                 \
		.shape = BJ_SHAPE_DENY, .op = BJ_OP_SYSCALL, .deny = errno_, .test = test_,        \
		.test_arg = arg_, .why = why_                                                      \
	}
/* One path, with all that can be said about it. */
#define PATH(name_, n64, n32, narm, level_, op_, follow_, dirfd_, path_, flags_)                   \
	{                                                                                          \
		.name = #name_, .nr = NR(n64, n32, narm), .level = BJ_OBSERVE_##level_,            \
		.shape = BJ_SHAPE_PATH, .op = BJ_OP_##op_, .follow = BJ_FOLLOW_##follow_,          \
		.dirfd_arg = dirfd_, .path_arg = path_, .flags_arg = flags_                        \
	}
/* The stat family: not with AT_EMPTY_PATH, which is fstat. */
#define STAT(name_, n64, n32, narm, flags_)                                                        \
	{                                                                                          \
		.name = #name_, .nr = NR(n64, n32, narm), .level = BJ_OBSERVE_DEFAULT,             \
		.test = BJ_TEST_NAMED, .test_arg = flags_, .shape = BJ_SHAPE_PATH,                 \
		.op = BJ_OP_STAT, .follow = BJ_FOLLOW_UNLESS, .dirfd_arg = 0, .path_arg = 1,       \
		.flags_arg = flags_                                                                \
	}
/* Any other shape: the fields by name. */
#define CALL(name_, n64, n32, narm, level_, shape_, op_, ...)                                      \
	{                                                                                          \
		.name = #name_, .nr = NR(n64, n32, narm), .level = BJ_OBSERVE_##level_,            \
		.shape = BJ_SHAPE_##shape_, .op = BJ_OP_##op_, __VA_ARGS__                         \
	}
#define PAIR(name_, n64, n32, narm, op_, follow_, dirfd_, path_, dirfd2_, path2_, flags_)          \
	CALL(name_, n64, n32, narm, WRITES, PAIR, op_##_FROM, .op2 = BJ_OP_##op_##_TO,             \
	     .follow = BJ_FOLLOW_##follow_, .dirfd_arg = dirfd_, .path_arg = path_,                \
	     .dirfd2_arg = dirfd2_, .path2_arg = path2_, .flags_arg = flags_)

const struct bj_call bj_calls[] = {
	/* ---- refused, ENOSYS: programs fall back ---- */
	{ .name = "clone3",
	  .nr = NR(435, 435, 435),
	  .shape = BJ_SHAPE_DENY,
	  .op = BJ_OP_SYSCALL,
	  .deny = ENOSYS,
	  .is_silent = true,
	  .why = "its flags are in memory, out of the filter's sight; libc falls back to clone" },
	DENY(io_uring_setup, 425, 425, 425, ENOSYS,
	     "ring operations pass no filter and leave no record"),
	DENY(io_uring_enter, 426, 426, 426, ENOSYS, "as io_uring_setup"),
	DENY(io_uring_register, 427, 427, 427, ENOSYS, "as io_uring_setup"),
	DENY(open_tree, 428, 428, 428, ENOSYS, "new mount API: as mount"),
	DENY(move_mount, 429, 429, 429, ENOSYS, "new mount API: as mount"),
	DENY(fsopen, 430, 430, 430, ENOSYS, "new mount API: as mount"),
	DENY(fsconfig, 431, 431, 431, ENOSYS, "new mount API: as mount"),
	DENY(fsmount, 432, 432, 432, ENOSYS, "new mount API: as mount"),
	DENY(fspick, 433, 433, 433, ENOSYS, "new mount API: as mount"),
	DENY(mount_setattr, 442, 442, 442, ENOSYS, "would make a mount writable again"),
	DENY(open_tree_attr, 467, 467, 467, ENOSYS, "new mount API: as mount"),
	DENY(keyctl, 250, 288, 219, ENOSYS, "key rings outlive the action and have no namespace"),
	DENY(add_key, 248, 286, 217, ENOSYS, "as keyctl"),
	DENY(request_key, 249, 287, 218, ENOSYS,
	     "as keyctl; also makes the kernel start a host program"),
	DENY(bpf, 321, 357, 280, ENOSYS, "kernel attack surface that no build needs"),
	DENY(perf_event_open, 298, 336, 241, ENOSYS, "sees the host; kernel attack surface"),
	DENY(userfaultfd, 323, 374, 282, ENOSYS,
	     "lets a program stop whoever reads its memory, the observer too"),
	DENY(memfd_secret, 447, 447, 447, ENOSYS, "memory that the observer cannot read"),
	DENY(kexec_load, 246, 283, 104, ENOSYS, "replaces the kernel"),
	DENY(kexec_file_load, 320, -1, 294, ENOSYS, "replaces the kernel"),
	DENY(lookup_dcookie, 212, 253, 18, ENOSYS, "gone from the kernel"),
	DENY(nfsservctl, 180, 169, 42, ENOSYS, "gone from the kernel"),
	DENY(_sysctl, 156, 149, -1, ENOSYS, "gone from the kernel"),
	DENY(uselib, 134, 86, -1, ENOSYS,
	     "maps a file by a path of its own; libc stopped using it"),
	DENY(sysfs, 139, 135, -1, ENOSYS, "obsolete"),
	DENY(ustat, 136, 62, -1, ENOSYS, "obsolete; tells about host devices by number"),
	DENY(vm86, -1, 166, -1, ENOSYS, "real mode: kernel attack surface"),
	DENY(vm86old, -1, 113, -1, ENOSYS, "real mode: kernel attack surface"),

	/* ---- refused, EPERM: policy ---- */
	DENY(mount, 165, 21, 40, EPERM, "the view of the file system is the wall"),
	DENY(umount2, 166, 52, 39, EPERM, "as mount"),
	DENY(umount, -1, 22, -1, EPERM, "as mount"),
	DENY(pivot_root, 155, 217, 41, EPERM, "as mount"),
	DENY(chroot, 161, 61, 51, EPERM, "would make paths in records mean something else"),
	DENY(setns, 308, 346, 268, EPERM, "namespaces are the wall"),
	DENY_IF(unshare, 272, 310, 97, EPERM, BJ_TEST_UNSHARE_NEW, 0,
		"a user namespace brings every capability inside it"),
	DENY_IF(clone, 56, 120, 220, EPERM, BJ_TEST_CLONE_NEW, 0, "as unshare"),
	DENY_IF(ioctl, 16, 54, 29, EPERM, BJ_TEST_TTY_INPUT, 1,
		"TIOCSTI, TIOCLINUX: type into somebody's terminal"),
	DENY(open_by_handle_at, 304, 342, 265, EPERM, "opens by inode number, past every path"),
	DENY(fanotify_init, 300, 338, 262, EPERM, "watches whole mounts"),
	DENY(fanotify_mark, 301, 339, 263, EPERM, "as fanotify_init"),
	DENY(quotactl, 179, 131, 60, EPERM, "administration"),
	DENY(quotactl_fd, 443, 443, 443, EPERM, "administration"),
	DENY(swapon, 167, 87, 224, EPERM, "administration"),
	DENY(swapoff, 168, 115, 225, EPERM, "administration"),
	DENY(reboot, 169, 88, 142, EPERM, "administration"),
	DENY(init_module, 175, 128, 105, EPERM, "administration"),
	DENY(finit_module, 313, 350, 273, EPERM, "administration"),
	DENY(delete_module, 176, 129, 106, EPERM, "administration"),
	DENY(acct, 163, 51, 89, EPERM, "administration"),
	DENY(settimeofday, 164, 79, 170, EPERM, "the clock is everybody's"),
	DENY(clock_settime, 227, 264, 112, EPERM, "the clock is everybody's"),
	DENY(clock_settime64, -1, 404, -1, EPERM, "the clock is everybody's"),
	DENY(stime, -1, 25, -1, EPERM, "the clock is everybody's"),
	DENY(sethostname, 170, 74, 161, EPERM, "the host name is a fixed value"),
	DENY(setdomainname, 171, 121, 162, EPERM, "as sethostname"),
	DENY(iopl, 172, 110, -1, EPERM, "hardware"),
	DENY(ioperm, 173, 101, -1, EPERM, "hardware"),
	DENY(syslog, 103, 103, 116, EPERM, "the host kernel's log"),
	DENY(vhangup, 153, 111, 58, EPERM, "administration"),

	/* ---- writes ---- */
	CALL(open, 2, 5, -1, WRITES, OPEN, OPEN_READ, .test = BJ_TEST_OPEN_FLAGS, .test_arg = 1,
	     .dirfd_arg = -1, .path_arg = 0, .flags_arg = 1),
	CALL(openat, 257, 295, 56, WRITES, OPEN, OPEN_READ, .test = BJ_TEST_OPEN_FLAGS,
	     .test_arg = 2, .dirfd_arg = 0, .path_arg = 1, .flags_arg = 2),
	CALL(openat2, 437, 437, 437, WRITES, OPENAT2, OPEN_READ, .dirfd_arg = 0, .path_arg = 1,
	     .flags_arg = 2),
	CALL(creat, 85, 8, -1, WRITES, OPEN, OPEN_CREATE, .dirfd_arg = -1, .path_arg = 0,
	     .flags_arg = -1),
	PATH(mkdir, 83, 39, -1, WRITES, MKDIR, NEVER, -1, 0, -1),
	PATH(mkdirat, 258, 296, 34, WRITES, MKDIR, NEVER, 0, 1, -1),
	PATH(mknod, 133, 14, -1, WRITES, MKNOD, NEVER, -1, 0, -1),
	PATH(mknodat, 259, 297, 33, WRITES, MKNOD, NEVER, 0, 1, -1),
	PATH(unlink, 87, 10, -1, WRITES, UNLINK, NEVER, -1, 0, -1),
	PATH(rmdir, 84, 40, -1, WRITES, RMDIR, NEVER, -1, 0, -1),
	CALL(unlinkat, 263, 301, 35, WRITES, UNLINKAT, UNLINK, .follow = BJ_FOLLOW_NEVER,
	     .dirfd_arg = 0, .path_arg = 1, .flags_arg = 2),
	PAIR(rename, 82, 38, -1, RENAME, NEVER, -1, 0, -1, 1, -1),
	PAIR(renameat, 264, 302, 38, RENAME, NEVER, 0, 1, 2, 3, -1),
	PAIR(renameat2, 316, 353, 276, RENAME, NEVER, 0, 1, 2, 3, 4),
	PAIR(link, 86, 9, -1, LINK, NEVER, -1, 0, -1, 1, -1),
	PAIR(linkat, 265, 303, 37, LINK, IF, 0, 1, 2, 3, 4),
	PATH(symlink, 88, 83, -1, WRITES, SYMLINK, NEVER, -1, 1, -1),
	PATH(symlinkat, 266, 304, 36, WRITES, SYMLINK, NEVER, 1, 2, -1),
	PATH(truncate, 76, 92, 45, WRITES, TRUNCATE, ALWAYS, -1, 0, -1),
	PATH(truncate64, -1, 193, -1, WRITES, TRUNCATE, ALWAYS, -1, 0, -1),
	PATH(chmod, 90, 15, -1, WRITES, CHMOD, ALWAYS, -1, 0, -1),
	PATH(fchmodat, 268, 306, 53, WRITES, CHMOD, ALWAYS, 0, 1, -1),
	PATH(fchmodat2, 452, 452, 452, WRITES, CHMOD, UNLESS, 0, 1, 3),
	CALL(fchmod, 91, 94, 52, WRITES, FD, CHMOD, .dirfd_arg = 0, .path_arg = -1,
	     .flags_arg = -1),
	PATH(chown, 92, 182, -1, WRITES, CHOWN, ALWAYS, -1, 0, -1),
	PATH(lchown, 94, 16, -1, WRITES, CHOWN, NEVER, -1, 0, -1),
	PATH(fchownat, 260, 298, 54, WRITES, CHOWN, UNLESS, 0, 1, 4),
	PATH(chown32, -1, 212, -1, WRITES, CHOWN, ALWAYS, -1, 0, -1),
	PATH(lchown32, -1, 198, -1, WRITES, CHOWN, NEVER, -1, 0, -1),
	CALL(fchown, 93, 95, 55, WRITES, FD, CHOWN, .dirfd_arg = 0, .path_arg = -1,
	     .flags_arg = -1),
	CALL(fchown32, -1, 207, -1, WRITES, FD, CHOWN, .dirfd_arg = 0, .path_arg = -1,
	     .flags_arg = -1),
	PATH(utime, 132, 30, -1, WRITES, UTIME, ALWAYS, -1, 0, -1),
	PATH(utimes, 235, 271, -1, WRITES, UTIME, ALWAYS, -1, 0, -1),
	PATH(futimesat, 261, 299, -1, WRITES, UTIME, ALWAYS, 0, 1, -1),
	/* Without a path it is futimens. */
	CALL(utimensat, 280, 320, 88, WRITES, PATH, UTIME, .test = BJ_TEST_POINTER, .test_arg = 1,
	     .follow = BJ_FOLLOW_UNLESS, .dirfd_arg = 0, .path_arg = 1, .flags_arg = 3),
	CALL(utimensat_time64, -1, 412, -1, WRITES, PATH, UTIME, .test = BJ_TEST_POINTER,
	     .test_arg = 1, .follow = BJ_FOLLOW_UNLESS, .dirfd_arg = 0, .path_arg = 1,
	     .flags_arg = 3),
	PATH(setxattr, 188, 226, 5, WRITES, SETXATTR, ALWAYS, -1, 0, -1),
	PATH(lsetxattr, 189, 227, 6, WRITES, SETXATTR, NEVER, -1, 0, -1),
	PATH(setxattrat, 463, 463, 463, WRITES, SETXATTR, UNLESS, 0, 1, 2),
	PATH(removexattr, 197, 235, 14, WRITES, SETXATTR, ALWAYS, -1, 0, -1),
	PATH(lremovexattr, 198, 236, 15, WRITES, SETXATTR, NEVER, -1, 0, -1),
	PATH(removexattrat, 466, 466, 466, WRITES, SETXATTR, UNLESS, 0, 1, 2),
	PATH(file_setattr, 469, 469, 469, WRITES, SETXATTR, UNLESS, 0, 1, 4),

	/* ---- default ---- */
	CALL(execve, 59, 11, 221, DEFAULT, EXEC, EXEC, .dirfd_arg = -1, .path_arg = 0,
	     .flags_arg = -1),
	CALL(execveat, 322, 358, 281, DEFAULT, EXEC, EXEC, .follow = BJ_FOLLOW_UNLESS,
	     .dirfd_arg = 0, .path_arg = 1, .flags_arg = 4),
	PATH(chdir, 80, 12, 49, DEFAULT, CHDIR, ALWAYS, -1, 0, -1),
	CALL(fchdir, 81, 133, 50, DEFAULT, FCHDIR, CHDIR, .path_arg = -1, .flags_arg = -1),
	PATH(stat, 4, 106, -1, DEFAULT, STAT, ALWAYS, -1, 0, -1),
	PATH(lstat, 6, 107, -1, DEFAULT, STAT, NEVER, -1, 0, -1),
	PATH(stat64, -1, 195, -1, DEFAULT, STAT, ALWAYS, -1, 0, -1),
	PATH(lstat64, -1, 196, -1, DEFAULT, STAT, NEVER, -1, 0, -1),
	PATH(oldstat, -1, 18, -1, DEFAULT, STAT, ALWAYS, -1, 0, -1),
	PATH(oldlstat, -1, 84, -1, DEFAULT, STAT, NEVER, -1, 0, -1),
	STAT(newfstatat, 262, -1, 79, 3),
	STAT(fstatat64, -1, 300, -1, 3),
	STAT(statx, 332, 383, 291, 2),
	PATH(access, 21, 33, -1, DEFAULT, ACCESS, ALWAYS, -1, 0, -1),
	PATH(faccessat, 269, 307, 48, DEFAULT, ACCESS, ALWAYS, 0, 1, -1),
	PATH(faccessat2, 439, 439, 439, DEFAULT, ACCESS, UNLESS, 0, 1, 3),
	CALL(connect, 42, 362, 203, DEFAULT, ADDRESS, CONNECT, .path_arg = 1, .flags_arg = 2),
	CALL(bind, 49, 361, 200, DEFAULT, ADDRESS, BIND, .path_arg = 1, .flags_arg = 2),
	CALL(sendto, 44, 369, 206, DEFAULT, ADDRESS, SEND, .test = BJ_TEST_POINTER, .test_arg = 4,
	     .path_arg = 4, .flags_arg = 5),
	CALL(sendmsg, 46, 370, 211, DEFAULT, SENDMSG, SEND, .path_arg = 1, .flags_arg = -1),
	CALL(sendmmsg, 307, 345, 269, DEFAULT, SENDMMSG, SEND, .path_arg = 1, .flags_arg = 2),
	CALL(socketcall, -1, 102, -1, DEFAULT, SOCKETCALL, SOCKET, .test = BJ_TEST_SOCKETCALL,
	     .test_arg = 0, .path_arg = 1, .flags_arg = 0),

	/* ---- strict ---- */
	PATH(readlink, 89, 85, -1, STRICT, READLINK, NEVER, -1, 0, -1),
	PATH(readlinkat, 267, 305, 78, STRICT, READLINK, NEVER, 0, 1, -1),
	PATH(getxattr, 191, 229, 8, STRICT, XATTR, ALWAYS, -1, 0, -1),
	PATH(lgetxattr, 192, 230, 9, STRICT, XATTR, NEVER, -1, 0, -1),
	PATH(getxattrat, 464, 464, 464, STRICT, XATTR, UNLESS, 0, 1, 2),
	PATH(listxattr, 194, 232, 11, STRICT, XATTR, ALWAYS, -1, 0, -1),
	PATH(llistxattr, 195, 233, 12, STRICT, XATTR, NEVER, -1, 0, -1),
	PATH(listxattrat, 465, 465, 465, STRICT, XATTR, UNLESS, 0, 1, 2),
	PATH(file_getattr, 468, 468, 468, STRICT, XATTR, UNLESS, 0, 1, 4),
	PATH(statfs, 137, 99, 43, STRICT, STATFS, ALWAYS, -1, 0, -1),
	PATH(statfs64, -1, 268, -1, STRICT, STATFS, ALWAYS, -1, 0, -1),
	PATH(inotify_add_watch, 254, 292, 27, STRICT, INOTIFY, INOTIFY, -1, 1, 2),
	PATH(name_to_handle_at, 303, 341, 264, STRICT, HANDLE, IF, 0, 1, 4),
	CALL(socket, 41, 359, 198, STRICT, SOCKET, SOCKET, .path_arg = -1, .flags_arg = 0),
};
const size_t bj_n_calls = BJ_ARRAY_LEN(bj_calls);

const struct bj_call_note bj_calls_allowed[] = {
	{ "ptrace", "debuggers, leak checkers and strace work on the action's own processes; the "
		    "pid namespace is the wall" },
	{ "process_vm_readv", "as ptrace" },
	{ "process_vm_writev", "as ptrace" },
	{ "pidfd_getfd", "as ptrace" },
	{ "kcmp", "as ptrace" },
	{ "seccomp", "a filter of its own can only refuse more; a second listener gets EBUSY from "
		     "the kernel" },
	{ "landlock_restrict_self", "can only refuse more" },
	{ "prctl", "no_new_privs and the empty bounding set cannot be taken back" },
	{ "personality",
	  "setarch -R is used by builds; legacy executable stacks gain nothing inside" },
	{ "adjtimex",
	  "reading is innocent, setting needs a capability of the first user namespace" },
	{ "clock_adjtime", "as adjtimex" },
	{ "memfd_create", "anonymous memory of its own" },
	{ "mbind", "memory placement of its own" },
	{ "set_mempolicy", "memory placement of its own" },
	{ "modify_ldt", "Wine and old virtual machines; its own segments" },
	{ "fstat", "by descriptor: seen when it was opened" },
	{ "ftruncate", "by descriptor opened for writing: seen then" },
	{ "fstatfs", "by descriptor: seen when it was opened" },
	{ "fsetxattr", "by descriptor; what it may change the upper layer shows" },
	{ "close", "nobody retries it when a signal interrupts the notification" },
	{ "fork", "as close; has no flags to test" },
	{ "vfork", "as close; has no flags to test" },
	{ "statmount", "tells what /proc/self/mountinfo tells" },
	{ "listmount", "tells what /proc/self/mountinfo tells" },
	{ "mknod", "seen, not refused: fifos and sockets are fine, devices the kernel refuses" },
	{ "setuid", "there is one uid inside, and no capability" },
	{ "sched_setaffinity", "its own processes" },
};
const size_t bj_n_calls_allowed = BJ_ARRAY_LEN(bj_calls_allowed);

size_t bj_socketcalls(enum bj_observe level, uint8_t out_calls[8])
{
	/* bind, connect, sendto, sendmsg, sendmmsg; socket. (linux/net.h) */
	static const uint8_t calls[] = { 2, 3, 11, 16, 20, 1 };
	size_t n = level >= BJ_OBSERVE_STRICT ? 6 : level >= BJ_OBSERVE_DEFAULT ? 5 : 0;

	for (size_t i = 0; i < n; i++)
		out_calls[i] = calls[i];
	return n;
}
