// SPDX-License-Identifier: Apache-2.0
/**
 * jail/observer.h - the witness: sees attempts by seccomp user notification, decides nothing, never blocks an action.
 * Threads: the runner of the slot. The walls do not depend on it: a listener that dies makes the observed calls fail with ENOSYS,
 * and the executor kills the action then.
 *
 * Filter side (in the command's process, just before exec): bj_observer_attach(). Supervisor side (executor): bj_observer_handle()
 * for each readiness of the listener. Paths are read from the caller's memory, which another thread may change meanwhile: records can
 * be falsified by an action about itself, walls cannot.
 */
#ifndef BJ_JAIL_OBSERVER_H
#define BJ_JAIL_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/jail/spec.h"

/** Operations as records name them. */
enum bj_op {
	BJ_OP_OPEN_READ = 1,
	BJ_OP_OPEN_WRITE,
	BJ_OP_OPEN_CREATE,
	BJ_OP_STAT,
	BJ_OP_ACCESS,
	BJ_OP_READLINK,
	BJ_OP_EXEC,
	BJ_OP_CHDIR,
	BJ_OP_MKDIR,
	BJ_OP_MKNOD,
	BJ_OP_UNLINK,
	BJ_OP_RMDIR,
	BJ_OP_RENAME_FROM,
	BJ_OP_RENAME_TO,
	BJ_OP_LINK_FROM,
	BJ_OP_LINK_TO,
	BJ_OP_SYMLINK,
	BJ_OP_TRUNCATE,
	BJ_OP_CHMOD,
	BJ_OP_CHOWN,
	BJ_OP_UTIME,
	BJ_OP_XATTR,
	BJ_OP_STATFS,
	BJ_OP_INOTIFY,
	BJ_OP_HANDLE,
	BJ_OP_CONNECT,
	BJ_OP_BIND,
	BJ_OP_SEND,
	BJ_OP_SOCKET,
	BJ_OP_SYSCALL,
	BJ_OP_SETXATTR, /* sets or removes an extended attribute; BJ_OP_XATTR reads */
};
const char *bj_op_name(enum bj_op op); /* "open", "open for writing", "create", "stat", "exec" … */
bool bj_op_is_write(enum bj_op op);    /* changes the file system */

/** What the supervisor asks the executor about an absolute, normalised path inside the jail. Must be fast: no system calls. */
enum bj_path_class {
	BJ_PATH_UNKNOWN =
		0, /* not declared: existence is checked in the jail, and the attempt is handed on */
	BJ_PATH_DECLARED, /* an input or a directory of the input tree: handed on as touched() when it is a read */
	BJ_PATH_TOOLCHAIN, /* below a root that is the host's own: reads are not handed on */
	BJ_PATH_QUIET,	   /* /tmp, /dev/shm, /proc, /dev: reads and writes are not handed on */
};

/** One attempt. Views are valid during the callback only; all bytes are the action's (hostile). */
struct bj_attempt {
	enum bj_op op;
	struct bj_str written; /* path as the caller wrote it (may be relative) */
	struct bj_str
		path; /* absolute inside, "." ".." and "//" removed lexically, symlinks not resolved */
	/**
	 * After the kernel's own resolution in the jail: of the object when it exists, of what would be created, and of the missing target when
	 * a symbolic link leads there. Empty when nothing is known that `path` does not say.
	 */
	struct bj_str resolved;
	struct bj_str
		via; /* EXEC of a `#!` interpreter or ELF loader: the script or program that names it; else empty */
	enum bj_path_class
		cls; /* of `resolved` when classify() knows that and does not know `path`, else of `path` */
	int error; /* predicted outcome: 0 exists / would succeed, ENOENT, ENOTDIR, EACCES, EROFS, ELOOP …; -1 unknown */
	bool is_dir;	   /* the object exists and is a directory */
	int64_t pid;	   /* of the process, in the executor's pid namespace */
	const char *comm;  /* of the thread, from /proc, NUL-terminated */
	struct bj_str exe; /* executable of the caller as the jail sees it; may be empty */
	struct bj_str argv0;
	/* CONNECT, BIND, SEND: */
	int family; /* AF_INET, AF_INET6, AF_UNIX … */
	char address
		[64]; /* text form; for AF_UNIX the path is in `path`, '@' before an abstract name */
	uint16_t port;
	/* SYSCALL: */
	int nr;
	const char *syscall; /* "io_uring_setup" */
};

struct bj_observer_hooks {
	void *ctx;
	enum bj_path_class (*classify)(void *ctx, struct bj_str path);
	/** classify() follows declared links itself: what it calls DECLARED need not be looked at in the jail. False is always right. */
	bool follows_links;
	/** Reads of DECLARED paths (for the use report); of a link, also of what it leads to. May be NULL. */
	void (*touched)(void *ctx, struct bj_str path, enum bj_op op);
	/** Reads of UNKNOWN paths, every write outside QUIET, network, unix sockets, refused syscalls. */
	void (*attempt)(void *ctx, const struct bj_attempt *attempt);
};

struct bj_observer_stats {
	enum bj_observe level;
	uint64_t n_notifications; /* received */
	uint64_t
		n_dropped; /* of live callers: memory or working directory unreadable, too many addresses in one call: counted, never silent */
	uint64_t
		n_gone; /* the caller died or was interrupted meanwhile: its call did not happen (or is made again) */
	bool complete; /* the listener never failed, and n_dropped is 0 */
};

/* ---- filter side ---- */
/** Built once by the zygote (libseccomp, exported BPF), before any action. */
struct bj_observer_filter;
BJ_MUST_USE int bj_observer_filter_new(enum bj_observe level,
				       struct bj_observer_filter **out_filter, struct bj_err *err);
void bj_observer_filter_free(struct bj_observer_filter *filter);
/**
 * In the command's process, no_new_privs set: attach the deny part (always) and the notify part (level > OFF).
 * Async-signal-safe. Return: listener descriptor, -1 when the level is OFF (deny part attached), or -errno - 1 below -1 on failure.
 */
int bj_observer_attach(const struct bj_observer_filter *filter);

/* ---- supervisor side ---- */
struct bj_observer;
/**
 * @listener: becomes the observer's; closed on failure. @jail_root_fd: O_PATH descriptor of the action's root (borrowed), e.g. /proc/<init>/root.
 */
BJ_MUST_USE int bj_observer_new(int listener, int jail_root_fd, enum bj_observe level,
				const struct bj_observer_hooks *hooks,
				struct bj_observer **out_observer, struct bj_err *err);
void bj_observer_free(struct bj_observer *observer);
int bj_observer_fd(
	const struct bj_observer
		*observer); /* poll for POLLIN; POLLHUP: no task uses the filter any more */
/**
 * Handles one notification. Only after poll() has said POLLIN, and once for each time it says so: it would wait for one otherwise. A
 * caller that died in between is no error.
 */
BJ_MUST_USE int bj_observer_handle(struct bj_observer *observer, struct bj_err *err);
void bj_observer_stats(const struct bj_observer *observer, struct bj_observer_stats *out_stats);

#endif
