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
	struct bj_buf spec; /* encoded, reused from action to action */
};

/** What to set when @step failed with @sys_errno; "" when nothing is known. Static storage. */
const char *bj_jail_hint(const char *step, const char *syscall, int sys_errno);

/** A failed step as data and as an error. @code: FAILED_PRECONDITION or INTERNAL. @out: may be NULL. Return: -code. */
int bj_jail_fail(const struct bj_wire_failed *failed, enum bj_code code,
		 struct bj_jail_failure *out, struct bj_err *err);

#endif
