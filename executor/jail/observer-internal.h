// SPDX-License-Identifier: Apache-2.0
/**
 * jail/observer-internal.h - what the files of the observer share; also for its tests.
 *
 *   observer_calls.c    which system calls are refused or seen, with their numbers and where their arguments are: data
 *   observer_filter.c   that table as a BPF program, by libseccomp, and its attachment
 *   observer.c          the supervisor: receive, decode, answer, hand on
 *   observer_decode.c   one notified call to the records it makes
 *   observer_sockets.c  the same for socket calls
 *   observer_predict.c  what the call will do: the jail's own file system asked beforehand
 *   observer_path.c     paths: lexical normal form, bases, lookups below the jail's root
 *   observer_exec.c     what an executable file needs besides itself
 *   observer_net.c      socket addresses
 *   observer_caller.c   the caller: its memory, its names
 */
#ifndef BJ_JAIL_OBSERVER_INTERNAL_H
#define BJ_JAIL_OBSERVER_INTERNAL_H

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/jail/observer.h"

/* ---- observer_calls.c: the table ---- */

enum bj_arch { BJ_ARCH_X86_64, BJ_ARCH_I386, BJ_ARCH_AARCH64, BJ_ARCH_COUNT };

/** Numbers above it are unknown to the table; the filter answers them with ENOSYS. */
enum { BJ_SYSCALL_MAX = 469 };

/** What the filter looks at besides the number. */
enum bj_call_test {
	BJ_TEST_NONE,
	BJ_TEST_OPEN_FLAGS, /* below level DEFAULT: only with an access mode, O_CREAT or O_TRUNC in test_arg */
	BJ_TEST_NAMED,	     /* only without AT_EMPTY_PATH in test_arg */
	BJ_TEST_POINTER,     /* only with test_arg != NULL */
	BJ_TEST_CLONE_NEW,   /* only with a namespace flag of clone(2) in test_arg */
	BJ_TEST_UNSHARE_NEW, /* the same for unshare(2), which has one flag more */
	BJ_TEST_TTY_INPUT,   /* only TIOCSTI and TIOCLINUX in test_arg */
	BJ_TEST_SOCKETCALL,  /* only the calls of the level, by number in test_arg */
};

/** How the supervisor reads the arguments. */
enum bj_call_shape {
	BJ_SHAPE_DENY, /* answered with `deny` */
	BJ_SHAPE_PATH, /* one path */
	BJ_SHAPE_OPEN, /* a path and open flags */
	BJ_SHAPE_OPENAT2,
	BJ_SHAPE_UNLINKAT, /* unlink or rmdir, by AT_REMOVEDIR */
	BJ_SHAPE_PAIR,	   /* rename and link */
	BJ_SHAPE_FD,	   /* an object by descriptor alone */
	BJ_SHAPE_FCHDIR,   /* not handed on; it changes what relative paths mean */
	BJ_SHAPE_EXEC,
	BJ_SHAPE_ADDRESS, /* a socket address in path_arg, its length in flags_arg */
	BJ_SHAPE_SENDMSG,
	BJ_SHAPE_SENDMMSG,
	BJ_SHAPE_SOCKET,
	BJ_SHAPE_SOCKETCALL,
};

/** Whether the last component, if it is a symbolic link, is followed. */
enum bj_call_follow {
	BJ_FOLLOW_ALWAYS,
	BJ_FOLLOW_NEVER,
	BJ_FOLLOW_UNLESS,  /* unless AT_SYMLINK_NOFOLLOW is in flags_arg */
	BJ_FOLLOW_IF,	   /* if AT_SYMLINK_FOLLOW is in flags_arg */
	BJ_FOLLOW_INOTIFY, /* unless IN_DONT_FOLLOW is in flags_arg */
};

struct bj_call {
	const char *name;
	int16_t nr[BJ_ARCH_COUNT]; /* -1: not there */
	uint8_t level; /* enum bj_observe: the lowest level that sees it; OFF for what is refused always */
	uint8_t test, test_arg; /* enum bj_call_test */
	uint8_t shape;		/* enum bj_call_shape */
	uint8_t op;		/* enum bj_op; for pairs the first path's */
	uint8_t follow;		/* enum bj_call_follow */
	int8_t dirfd_arg;	/* -1: the working directory */
	int8_t path_arg;
	int8_t flags_arg;	      /* -1: none */
	int8_t dirfd2_arg, path2_arg; /* pairs */
	uint8_t op2;
	uint16_t deny;	 /* errno of a refused call */
	bool is_silent;	 /* refused without a record: libc asks for it all the time */
	const char *why; /* reason of the refusal */
};

extern const struct bj_call bj_calls[];
extern const size_t bj_n_calls;

/** Looked at and left alone, with the reason: what a reader would expect in the table and does not find. */
struct bj_call_note {
	const char *name;
	const char *why;
};
extern const struct bj_call_note bj_calls_allowed[];
extern const size_t bj_n_calls_allowed;

/** Call numbers of socketcall(2) that a level sees. */
size_t bj_socketcalls(enum bj_observe level, uint8_t out_calls[8]);

/* ---- observer_filter.c ---- */

/** Longest program that can come out; the kernel's limit is 4096. */
enum { BJ_FILTER_MAX = 2048 };

/** The filter of a machine that need not be this one: BJ_ARCH_X86_64 (with its 32-bit calls) or BJ_ARCH_AARCH64. */
BJ_MUST_USE int bj_observer_filter_new_for(enum bj_arch arch, enum bj_observe level,
					   struct bj_observer_filter **out_filter,
					   struct bj_err *err);
const struct sock_fprog *bj_observer_filter_program(const struct bj_observer_filter *filter);

/* ---- observer_path.c ---- */

/** A working directory and a path may each be PATH_MAX long. */
enum { BJ_PATH_BUF = 2 * PATH_MAX };

/**
 * bj_path_join() - @path as it stands if it is absolute, else below @base (absolute); NUL-terminated. Nothing is removed.
 * Return: length, or -ENAMETOOLONG.
 */
ssize_t bj_path_join(struct bj_str base, struct bj_str path, char *out, size_t cap);

/**
 * bj_path_normalize() - the lexical normal form of an absolute path: no "//", "." or "..", no slash at the end.
 * @out: may not overlap @path; NUL-terminated
 * Return: length >= 1, or -ENAMETOOLONG; -EINVAL when @path is not absolute.
 */
ssize_t bj_path_normalize(struct bj_str path, char *out, size_t cap);

/** True and the parts set when @path (absolute) begins with /proc/self/, /proc/thread-self/, /proc/<digits>/ or /dev/{fd,std…}. */
enum bj_proc_link { BJ_PROC_CWD = 1, BJ_PROC_ROOT, BJ_PROC_FD, BJ_PROC_EXE };
struct bj_proc_path {
	enum bj_proc_link link;
	bool is_self; /* else pid is a number in the jail's own namespace */
	int64_t pid;
	int fd;		    /* BJ_PROC_FD */
	struct bj_str rest; /* what follows, with its leading slash, or empty */
};
bool bj_path_parse_proc(struct bj_str path, struct bj_proc_path *out);

/** What the jail's own file system says. */
struct bj_found {
	int error;	   /* 0, or why it cannot be reached; -1: cannot be said */
	bool through_link; /* a symbolic link was followed on the way */
	bool is_dir, is_link, is_regular;
	bool is_read_only; /* its mount or file system is; only with BJ_FIND_MOUNT */
	uint64_t mount_id; /* only with BJ_FIND_MOUNT; 0: unknown */
	mode_t mode;
	uid_t uid;
	gid_t gid;
};
enum { BJ_FIND_NOFOLLOW = 1, BJ_FIND_MOUNT = 2, BJ_FIND_PARENT = 4 };

/**
 * bj_path_find() - look a path up as a process inside would, root at @root_fd.
 * @path: absolute, not normalised (the kernel's meaning of ".." counts); NUL-terminated
 * @flags: BJ_FIND_PARENT looks up what holds the last component
 * @resolved: BJ_PATH_BUF bytes; where it was found or, when a link leads to nothing, where it would be; "" when that is not known. Only
 *   written when through_link
 */
void bj_path_find(int root_fd, const char *path, unsigned int flags, struct bj_found *out,
		  char *resolved);

/** True when the last component is a symbolic link, or one before it is. */
bool bj_path_is_link(int root_fd, const char *path);
/** True when @path (a directory, last component not followed) holds anything. */
bool bj_path_has_entries(int root_fd, const char *path);

/** The last component of a path without the slashes at its end, and where it begins. Empty for "/". */
struct bj_str bj_path_last(struct bj_str path);

/* ---- observer_exec.c ---- */

enum { BJ_EXEC_HEAD = 256 };
/**
 * bj_exec_interpreter() - the interpreter that a `#!` line or an ELF program header names.
 * @head: the first bytes of the file; @read_at: reads more of it (for ELF headers), returns bytes or < 0
 * @out: BJ_EXEC_HEAD bytes, NUL-terminated
 * Return: length > 0; 0 when it needs none (or is not understood).
 */
typedef ssize_t bj_read_at_fn(void *ctx, void *buf, size_t n_bytes, uint64_t offset);
size_t bj_exec_interpreter(bj_read_at_fn *read_at, void *ctx, char *out);
/** The same of the file @path below @root_fd, which must be a regular one. */
size_t bj_exec_interpreter_of(int root_fd, const char *path, char *out);

/* ---- observer_net.c ---- */

struct bj_address {
	int family;
	char text[64];
	uint16_t port;
	struct bj_str path; /* AF_UNIX, by name: borrows from the bytes */
	bool is_abstract;
	bool is_loopback, is_any;
};
enum {
	BJ_ADDRESS_BYTES = 128
}; /* sizeof(struct sockaddr_storage): longer ones the kernel refuses */
/** Return: false when the bytes are too short to say anything. */
bool bj_address_decode(const void *bytes, size_t n_bytes, struct bj_address *out);

/* ---- observer_caller.c ---- */

/** All of it. Return: 0, -EFAULT, -ESRCH, -EPERM. */
int bj_caller_read(pid_t pid, uint64_t address, void *buf, size_t n_bytes);
/** A NUL-terminated string. Return: length without the NUL (< cap), -ENAMETOOLONG (buf holds cap - 1 bytes of it), -EFAULT, -ESRCH, -EPERM. */
ssize_t bj_caller_read_string(pid_t pid, uint64_t address, char *buf, size_t cap);
/** Target of /proc/@pid/@name, NUL-terminated, " (deleted)" removed. Return: length or -errno. */
ssize_t bj_caller_readlink(pid_t pid, const char *name, char *buf, size_t cap);

/** Who a caller is, read once and kept for a moment. */
struct bj_caller {
	pid_t pid;     /* of the thread; 0: free */
	pid_t process; /* of its process; 0: not known */
	uint64_t read_at_ns;
	uid_t uid; /* of file system checks, as this process sees it */
	gid_t gid;
	bool has_override; /* CAP_DAC_OVERRIDE in its own user namespace */
	char comm[17];
	size_t exe_len, argv0_len;
	char exe[512];
	char argv0[256];
};
enum { BJ_N_CALLERS = 32 };
struct bj_callers {
	struct bj_caller slots[BJ_N_CALLERS];
};
/** Never NULL: what cannot be read is empty. Valid until the next call. */
const struct bj_caller *bj_caller_get(struct bj_callers *callers, pid_t pid);
/** After an exec the names of everybody are doubtful (a thread may have become its leader). */
void bj_callers_forget(struct bj_callers *callers);
/**
 * Working directories, kept between calls: reading one costs a third of a whole notification, and compilers name everything relative to
 * it. What may change one is seen before it happens (chdir, fchdir, rename) and forgets all of them; it has happened for sure when the
 * same thread makes its next call, and until then nothing is kept, since who shares its directory may ask meanwhile.
 * Only where those calls are observed: from the level DEFAULT on.
 */
struct bj_cwd {
	pid_t pid; /* 0: free */
	uint64_t read_at_ns;
	size_t len;
	char path[PATH_MAX];
};
enum { BJ_N_CWDS = 16, BJ_MAX_MOVERS = 8 };
struct bj_cwds {
	bool is_off; /* for good: not at this level, or too many movers at once */
	size_t n_movers;
	pid_t movers[BJ_MAX_MOVERS]; /* threads whose last call may change a working directory */
	struct bj_cwd slots[BJ_N_CWDS];
};
/** As bj_caller_readlink(pid, "cwd", …), from memory if possible. */
ssize_t bj_cwds_get(struct bj_cwds *cwds, pid_t pid, char *buf, size_t cap);
/** @pid makes a call: whatever it did before is done. */
void bj_cwds_arrive(struct bj_cwds *cwds, pid_t pid);
/** @pid was let go on with a call that may change a working directory. */
void bj_cwds_move(struct bj_cwds *cwds, pid_t pid);
void bj_cwds_forget(struct bj_cwds *cwds);

/** True when the caller's network namespace has the loopback interface and no other. */
bool bj_caller_has_only_loopback(pid_t pid);
/** True when a socket of the caller's network namespace bears that abstract name ("@name", as bj_address gives it). */
bool bj_caller_has_abstract(pid_t pid, const char *name);
/** True when the mode bits let @caller do @mask (R_OK, W_OK, X_OK). */
bool bj_caller_may(const struct bj_caller *caller, const struct bj_found *found, int mask);

/* ---- the supervisor ---- */

/** A record in the making: an attempt with room for its texts. */
struct bj_record {
	struct bj_attempt attempt;
	bool is_gone;	   /* discarded, but not the last */
	bool is_touch;	   /* handed on as touched(path) */
	uint64_t mount_id; /* where it is, or would be made, if that was looked up; else 0 */
	bool touch_link;   /* besides the attempt: touched(path), the declared link itself */
	bool touch_target; /* besides the touch: touched(resolved) */
	char written[PATH_MAX];
	char joined[BJ_PATH_BUF]; /* absolute, not normalised */
	char path[BJ_PATH_BUF];
	char resolved[BJ_PATH_BUF];
	char via[BJ_PATH_BUF];
};
enum { BJ_MAX_RECORDS = 4 };
/** Slots of the set of declared paths that were looked at, a power of two. When it is three quarters full the rest are looked at each time. */
enum { BJ_N_PLAIN = 4096 };

struct bj_observer {
	int listener;
	int root_fd; /* borrowed */
	enum bj_observe level;
	struct bj_observer_hooks hooks;
	struct bj_observer_stats stats;
	bool is_broken;	     /* the listener failed in a way that is not the caller's death */
	bool forget_callers; /* the call being handled is an exec */
	bool moves_cwd;	     /* the call being handled may change a working directory or its name */
	uint64_t pending_dropped; /* of the call being handled: counted if its caller lives */
	int8_t has_only_loopback; /* of the jail's network: -1 not asked yet */
	uint8_t index[BJ_ARCH_COUNT]
		     [BJ_SYSCALL_MAX + 1]; /* number to 1 + place in bj_calls; 0: none */
	struct seccomp_notif *request;	   /* as large as this kernel's */
	struct seccomp_notif_resp *response;
	size_t request_bytes, response_bytes;
	size_t n_records;
	size_t n_plain;
	/* What follows is large and not zeroed as a whole. */
	uint64_t plain
		[BJ_N_PLAIN]; /* hashes of declared paths that are no links, or links that lead somewhere; 0: free */
	struct bj_callers callers;
	struct bj_cwds cwds;
	struct bj_record records[BJ_MAX_RECORDS];
};

/** One notification as it is being decoded. */
struct bj_seen {
	struct bj_observer *o;
	const struct seccomp_notif *request;
	const struct bj_call *call;
	pid_t pid;
	bool is_32bit;
};

/** Where a path starts and how it is meant. */
struct bj_place {
	int dirfd;
	uint64_t address;
	bool in_root;	   /* openat2 with RESOLVE_IN_ROOT: dirfd is "/" */
	bool may_be_empty; /* AT_EMPTY_PATH: then it is dirfd itself */
};

/** Below it nothing can be mapped: the kernel will not find a path there either. */
enum { BJ_NULL_PAGE_BYTES = 4096 };

static inline uint64_t bj_seen_arg(const struct bj_seen *s, int i)
{
	return s->request->data.args[i];
}

/** A new record, the last one; NULL, and counted, when there are too many. */
struct bj_record *bj_seen_begin(const struct bj_seen *s);
/** Drops a record: there was nothing to see. */
void bj_seen_discard(const struct bj_seen *s, struct bj_record *record);
/** Drops a record: there was something, and it could not be seen. Counted. */
void bj_seen_lose(const struct bj_seen *s, struct bj_record *record);
/** record->joined from attempt.written and the place's base. False: the record is gone. */
BJ_MUST_USE bool bj_seen_join(const struct bj_seen *s, struct bj_record *record,
			      const struct bj_place *place);
/** attempt.path from record->joined. False: the record is gone. */
BJ_MUST_USE bool bj_seen_normalize(const struct bj_seen *s, struct bj_record *record,
				   bool nofollow);
enum bj_path_class bj_seen_classify(const struct bj_seen *s, struct bj_str path);
const struct bj_caller *bj_seen_caller_of(const struct bj_seen *s);

/* ---- observer_sockets.c: the notified socket calls; addresses and lengths are the caller's ---- */
void bj_see_address(const struct bj_seen *s, uint64_t at, uint64_t n_bytes, enum bj_op op);
void bj_see_sendmsg(const struct bj_seen *s, uint64_t at);
void bj_see_sendmmsg(const struct bj_seen *s, uint64_t at, uint64_t n_messages);
void bj_see_socket(const struct bj_seen *s, int family);
void bj_see_socketcall(const struct bj_seen *s);

/** observer_decode.c: fills o->records and, for a refused call, *out_errno. Nothing is handed on yet. @arch: BJ_ARCH_COUNT: none of ours. */
void bj_observer_decode(struct bj_observer *o, const struct seccomp_notif *request,
			enum bj_arch arch, int *out_errno);

/** How an attempt on a path is to be judged. */
struct bj_try {
	enum bj_op op;
	bool nofollow;
	int open_flags;	 /* OPEN_*: flags; others 0 */
	int access_mode; /* ACCESS: R_OK … */
	bool no_replace; /* RENAME_TO: an existing target is an error */
	bool is_now;	 /* UTIME: without times, for which the right to write will do */
	bool gives_away; /* CHOWN: with an id, not only -1 */
};
/** observer_predict.c: op, error, is_dir, resolved of @record from its `joined` and `path`. */
void bj_observer_predict(struct bj_observer *o, struct bj_record *record, const struct bj_try *try,
			 const struct bj_caller *caller);

#endif
