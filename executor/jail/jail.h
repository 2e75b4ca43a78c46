// SPDX-License-Identifier: Apache-2.0
/**
 * jail/jail.h - running one command behind the walls: the executor's side.
 * Owns: a zygote process and its socket. Threads: a bj_jail belongs to one thread at a time (the
 * slot's runner).
 *
 *   executor (many threads) ──seqpacket──> belljar-jail zygote (one a slot, single-threaded)
 *                                             └─clone──> init, pid 1 of the action ──fork──> the command
 * The zygote is spawned from the main thread (the parent-death signal follows the thread), before
 * gRPC starts. If the executor dies, the zygote and every action die with it. Zygotes and inits are
 * children of the executor: nobody in it may wait for any child (waitpid(-1)) or ignore SIGCHLD.
 */
#ifndef BJ_JAIL_JAIL_H
#define BJ_JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/jail/observer.h"
#include "executor/jail/spec.h"

struct bj_jail;

/** Where a set-up step failed: what `probe` prints and what an action's error names. */
struct bj_jail_failure {
	char step[48];	  /* "mount-proc", "clone-init", "uid-map" … */
	char syscall[24]; /* "mount" */
	int sys_errno;
	char path[256]; /* object of the step, may be empty */
	char hint[256]; /* what to set; "" when nothing is known */
};

/**
 * bj_jail_start() - spawn a zygote, wait until its template stands, and try every wall once with an
 * action that does nothing.
 * @binary: path of belljar-jail
 * @out_failure: may be NULL; filled when the result is -FAILED_PRECONDITION
 * Return: 0; -FAILED_PRECONDITION (a wall cannot be had: the text has step, syscall, errno, path
 * and hint); -INTERNAL.
 */
BJ_MUST_USE int bj_jail_start(const char *binary, const struct bj_jail_slot_spec *spec,
			      struct bj_jail **out_jail, struct bj_jail_failure *out_failure,
			      struct bj_err *err);
/**
 * bj_jail_check_observer() - whether actions of this slot can be observed; the walls are known to
 * stand since bj_jail_start().
 * Return: 0; -FAILED_PRECONDITION with the step (listener refused, another supervisor …): use
 * BJ_OBSERVE_OFF, and say so.
 */
BJ_MUST_USE int bj_jail_check_observer(struct bj_jail *jail, struct bj_jail_failure *out_failure,
				       struct bj_err *err);
/** Kills the zygote and all that it runs; reaps; frees. Accepts NULL. */
void bj_jail_free(struct bj_jail *jail);

struct bj_jail_stray {
	int64_t pid; /* in the executor's pid namespace when known, else the inner one */
	char comm[17];
	char argv0[128]; /* raw bytes, NUL-terminated, cut */
};
enum { BJ_JAIL_MAX_STRAYS = 32 };

enum bj_jail_end {
	BJ_END_EXITED = 1, /* exit_code is the command's */
	BJ_END_SIGNALED,   /* signal is set, exit_code = 128 + signal */
	BJ_END_EXEC_FAILED, /* the command could not be executed: exec_errno; exit_code 127 (ENOENT, ENOTDIR) or 126 */
	BJ_END_TIMEOUT,	  /* killed at the deadline */
	BJ_END_CANCELLED, /* killed because cancel_fd became readable */
};

struct bj_jail_result {
	enum bj_jail_end end;
	int exit_code;
	int signal;
	int exec_errno;
	uint64_t wall_ns, user_ns, system_ns; /* of all processes of the action that were reaped */
	uint64_t max_rss_bytes;		      /* largest single process */
	size_t n_strays_total; /* processes alive when the command ended (killed); 0 after timeout and cancel */
	struct bj_jail_stray strays
		[BJ_JAIL_MAX_STRAYS]; /* after timeout and cancel: what was running, the command included */
	size_t n_strays;
	size_t n_killed; /* processes killed at timeout or cancel, when countable */
	struct bj_observer_stats observer;
	int exec_fd; /* O_DIRECTORY on the action's merged BJ_JAIL_ROOT, which it keeps alive after
						 the processes are gone: the caller closes it; -EBADF on failure */
};

/**
 * What the caller wants to hear while the command runs. All callbacks come on the calling thread.
 */
struct bj_jail_hooks {
	void *ctx;
	/**
	 * Bytes of the command's stdout (1) or stderr (2), in order per stream. Non-zero return:
	 * kill and end with that error.
	 */
	int (*output)(void *ctx, int stream, const void *data, size_t n_bytes, struct bj_err *err);
	/** May be NULL when observe is off. */
	const struct bj_observer_hooks *observer;
};

/**
 * bj_jail_run() - run one command to its end. Blocks.
 * @deadline_ns: absolute monotonic, BJ_NEVER_NS for none; counted by the caller from the moment it
 * wants
 * @cancel_fd: readable = cancel (an eventfd; not read here); -1 for none
 * On return every process of the action is dead, both pipes are drained, its mounts are gone from
 * all namespaces but for lazy teardown and exec_fd; the upper layer in the work area is the
 * caller's to look at and to remove.
 * Return: 0 with *out_result; -FAILED_PRECONDITION or -INTERNAL when a set-up step failed (nothing
 * of the command ran);
 * -UNAVAILABLE when the zygote or the action's init was killed by somebody else, so that the
 * command's end is not known: all of it is dead; the jail must be freed and a new one started.
 */
BJ_MUST_USE int bj_jail_run(struct bj_jail *jail, const struct bj_jail_spec *spec,
			    const struct bj_jail_hooks *hooks, uint64_t deadline_ns, int cancel_fd,
			    struct bj_jail_result *out_result, struct bj_err *err);

/**
 * bj_jail_default_roots() - the toolchain roots of design §3.1 that this host has, canonical,
 * symlinks recreated, plus the synthetic /etc files. @extra: operator's additional roots.
 */
BJ_MUST_USE int bj_jail_default_roots(const struct bj_str *extra, size_t n_extra,
				      struct bj_arena *arena, struct bj_jail_slot_spec *out_spec,
				      struct bj_err *err);

/**
 * bj_jail_enter_host() - prepare the executor's own process, once, while it is single-threaded:
 * when it is not root, an own user namespace (0 -> own uid); an own mount namespace, not
 * propagating out; a tmpfs of @work_bytes on @work_dir (created 0700), which dies with the process.
 * @out_profile: what can be given: PRIVILEGED or USERNS
 */
BJ_MUST_USE int bj_jail_enter_host(const char *work_dir, uint64_t work_bytes,
				   enum bj_jail_profile *out_profile,
				   struct bj_jail_failure *out_failure, struct bj_err *err);

#endif
