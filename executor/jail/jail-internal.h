// SPDX-License-Identifier: Apache-2.0
/**
 * jail/jail-internal.h - shared by the executor's side: the jail object, failures with hints.
 */
#ifndef BJ_JAIL_JAIL_INTERNAL_H
#define BJ_JAIL_JAIL_INTERNAL_H

#include <sys/types.h>

#include "executor/base/buf.h"
#include "executor/jail/jail.h"
#include "executor/jail/wire-internal.h"

struct bj_jail {
	pid_t pid;    /* zygote; -1 once reaped */
	int sock;     /* seqpacket to it */
	int unreaped; /* pidfd of an init that outlived its run; -EBADF: none */
	enum bj_jail_profile profile;
	uint32_t slot_uid, slot_gid;
	char *work_dir;	    /* owned copy */
	struct bj_buf spec; /* encoded, reused from action to action */
};

/**
 * bj_jail_run(), and the failed step as data. @out_failure: may be NULL.
 */
BJ_MUST_USE int bj_jail_run_reporting(struct bj_jail *jail, const struct bj_jail_spec *spec,
				      const struct bj_jail_hooks *hooks, uint64_t deadline_ns,
				      int cancel_fd, struct bj_jail_result *out_result,
				      struct bj_jail_failure *out_failure, struct bj_err *err);

/**
 * bj_jail_check() - an action that does everything but exec: each wall is tried by the code that
 * builds it later.
 * @level: OFF for the walls alone, DEFAULT with the observer
 * Return: 0; -FAILED_PRECONDITION, -INTERNAL, -UNAVAILABLE.
 */
BJ_MUST_USE int bj_jail_check(struct bj_jail *jail, enum bj_observe level,
			      struct bj_jail_failure *out_failure, struct bj_err *err);

/** What to set when @step failed with @sys_errno; "" when nothing is known. Static storage. */
const char *bj_jail_hint(const char *step, const char *syscall, int sys_errno);

/**
 * A failed step as data and as an error. @code: FAILED_PRECONDITION or INTERNAL. @out: may be NULL.
 * Return: -code.
 */
int bj_jail_fail(const struct bj_wire_failed *failed, enum bj_code code,
		 struct bj_jail_failure *out, struct bj_err *err);

#endif
