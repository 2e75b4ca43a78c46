// SPDX-License-Identifier: Apache-2.0
/*
 * The supervisor: one listener, all processes of one action.
 *
 *   poll ──> RECV ──> decode (caller's memory, classify, predict) ──> SEND ──ok──> attempt(), touched()
 *              │ENOENT: the caller was killed or interrupted first     └──ENOENT──> nothing: what was read may be another's
 *
 * Hooks that keep something run after the answer, beside the caller, who goes on meanwhile. That the answer was taken proves that the
 * caller stood still since RECV, so the pid and the memory were its own; no ID_VALID is needed.
 *
 * A call is answered with CONTINUE, which decides nothing, or, if the filter refuses it by its number, with the same errno that the filter
 * gives by itself when nobody listens. The latter is never a CONTINUE.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static const struct {
	const char *name;
	bool is_write;
} ops[] = {
	[BJ_OP_OPEN_READ] = { "open", false },
	[BJ_OP_OPEN_WRITE] = { "open for writing", true },
	[BJ_OP_OPEN_CREATE] = { "create", true },
	[BJ_OP_STAT] = { "stat", false },
	[BJ_OP_ACCESS] = { "access", false },
	[BJ_OP_READLINK] = { "readlink", false },
	[BJ_OP_EXEC] = { "exec", false },
	[BJ_OP_CHDIR] = { "chdir", false },
	[BJ_OP_MKDIR] = { "mkdir", true },
	[BJ_OP_MKNOD] = { "mknod", true },
	[BJ_OP_UNLINK] = { "unlink", true },
	[BJ_OP_RMDIR] = { "rmdir", true },
	[BJ_OP_RENAME_FROM] = { "rename from", true },
	[BJ_OP_RENAME_TO] = { "rename to", true },
	[BJ_OP_LINK_FROM] = { "link from", false },
	[BJ_OP_LINK_TO] = { "link to", true },
	[BJ_OP_SYMLINK] = { "symlink", true },
	[BJ_OP_TRUNCATE] = { "truncate", true },
	[BJ_OP_CHMOD] = { "chmod", true },
	[BJ_OP_CHOWN] = { "chown", true },
	[BJ_OP_UTIME] = { "set times", true },
	[BJ_OP_XATTR] = { "read attributes", false },
	[BJ_OP_STATFS] = { "statfs", false },
	[BJ_OP_INOTIFY] = { "watch", false },
	[BJ_OP_HANDLE] = { "name to handle", false },
	[BJ_OP_CONNECT] = { "connect", false },
	[BJ_OP_BIND] = { "bind", false },
	[BJ_OP_SEND] = { "send", false },
	[BJ_OP_SOCKET] = { "socket", false },
	[BJ_OP_SYSCALL] = { "system call", false },
	[BJ_OP_SETXATTR] = { "set attributes", true },
};

const char *bj_op_name(enum bj_op op)
{
	return (size_t)op < BJ_ARRAY_LEN(ops) && ops[op].name ? ops[op].name : "unknown";
}

bool bj_op_is_write(enum bj_op op)
{
	return (size_t)op < BJ_ARRAY_LEN(ops) && ops[op].is_write;
}

/* ---- life ---- */

static void build_index(struct bj_observer *o)
{
	bj_assert(bj_n_calls < UINT8_MAX);
	for (size_t i = 0; i < bj_n_calls; i++)
		for (size_t arch = 0; arch < BJ_ARCH_COUNT; arch++)
			if (bj_calls[i].nr[arch] >= 0)
				o->index[arch][bj_calls[i].nr[arch]] = (uint8_t)(i + 1);
}

static int allocate(struct bj_observer *o, struct bj_err *err)
{
	struct seccomp_notif_sizes sizes;

	/* The kernel writes as much as it knows about, which may be more than the header did. */
	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
		return bj_err_errno(err, errno, "ask for the sizes of system call notifications");
	o->request_bytes = BJ_MAX(sizeof(*o->request), (size_t)sizes.seccomp_notif);
	o->response_bytes = BJ_MAX(sizeof(*o->response), (size_t)sizes.seccomp_notif_resp);
	o->request = bj_calloc(1, o->request_bytes);
	o->response = bj_calloc(1, o->response_bytes);
	if (!o->request || !o->response)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the observer");
	return 0;
}

int bj_observer_new(int listener, int jail_root_fd, enum bj_observe level,
		    const struct bj_observer_hooks *hooks, struct bj_observer **out_observer,
		    struct bj_err *err)
{
	struct bj_observer *o = bj_malloc(sizeof(*o));
	int result;

	if (!o) {
		bj_close_fdp(&listener);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the observer");
	}
	/* 270 KiB, of which an action of few calls touches some pages: it need not touch them all. */
	memset(o, 0, offsetof(struct bj_observer, callers));
	bj_callers_forget(&o->callers);
	memset(&o->cwds, 0, offsetof(struct bj_cwds, slots));
	bj_cwds_forget(&o->cwds);
	o->listener = listener;
	result = allocate(o, err);
	if (result != 0) {
		bj_observer_free(o);
		return result;
	}
	o->root_fd = jail_root_fd;
	o->level = level;
	o->hooks = *hooks;
	o->stats.level = level;
	o->has_only_loopback = -1;
	o->cwds.is_off = level < BJ_OBSERVE_DEFAULT;
	build_index(o);
	/* Since Linux 6.6: the waker hands its processor to the woken, as both never run at once. Without it only slower. */
	(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	*out_observer = o;
	return 0;
}

void bj_observer_free(struct bj_observer *observer)
{
	if (!observer)
		return;
	bj_close_fdp(&observer->listener);
	bj_free(observer->request);
	bj_free(observer->response);
	bj_free(observer);
}

int bj_observer_fd(const struct bj_observer *observer)
{
	return observer->listener;
}

void bj_observer_stats(const struct bj_observer *observer, struct bj_observer_stats *out_stats)
{
	*out_stats = observer->stats;
	out_stats->complete = !observer->is_broken && observer->stats.n_dropped == 0;
}

/* ---- one notification ---- */

static enum bj_arch arch_of(uint32_t audit_arch)
{
	switch (audit_arch) {
	case AUDIT_ARCH_X86_64:
		return BJ_ARCH_X86_64;
	case AUDIT_ARCH_I386:
		return BJ_ARCH_I386;
	case AUDIT_ARCH_AARCH64:
		return BJ_ARCH_AARCH64;
	default:
		return BJ_ARCH_COUNT;
	}
}

/* Return: 1 received, 0 it is gone, <0 failed. */
static int receive(struct bj_observer *o, struct bj_err *err)
{
	for (;;) {
		memset(o->request, 0, o->request_bytes); /* the kernel insists */
		if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_RECV, o->request) == 0)
			return 1;
		if (errno == ENOENT)
			return 0;
		if (errno != EINTR) {
			o->is_broken = true;
			return bj_err_errno(err, errno, "receive a system call notification");
		}
	}
}

/* Return: 1 taken, 0 the caller is gone, <0 failed. */
static int answer(struct bj_observer *o, int error, struct bj_err *err)
{
	memset(o->response, 0, o->response_bytes);
	o->response->id = o->request->id;
	o->response->error = -error;
	o->response->flags = error ? 0U : (uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	for (;;) {
		if (ioctl(o->listener, SECCOMP_IOCTL_NOTIF_SEND, o->response) == 0)
			return 1;
		if (errno == ENOENT)
			return 0;
		if (errno != EINTR) {
			o->is_broken = true;
			return bj_err_errno(err, errno, "answer a system call notification");
		}
	}
}

static void hand_on(const struct bj_observer *o)
{
	const struct bj_observer_hooks *hooks = &o->hooks;

	for (size_t i = 0; i < o->n_records; i++) {
		const struct bj_record *record = &o->records[i];
		const struct bj_attempt *a = &record->attempt;

		if (record->is_gone)
			continue;
		if ((record->is_touch || record->touch_link) && hooks->touched)
			hooks->touched(hooks->ctx, a->path, a->op);
		if (record->is_touch && record->touch_target && hooks->touched)
			hooks->touched(hooks->ctx, a->resolved, a->op);
		if (!record->is_touch && hooks->attempt)
			hooks->attempt(hooks->ctx, a);
	}
}

/*
 * One a call: the caller has polled and polls again, which costs less than a poll of our own for a second that is hardly ever there.
 *
 * RECV would sleep if nobody waited, but after POLLIN it does not, even if the caller was killed in between: the kernel counts calls, not
 * those that still wait, so RECV says ENOENT then.
 */
int bj_observer_handle(struct bj_observer *observer, struct bj_err *err)
{
	struct bj_observer *o = observer;
	int error;
	int got = receive(o, err);

	if (got <= 0)
		return got;
	o->stats.n_notifications++;
	o->n_records = 0;
	o->pending_dropped = 0;
	o->forget_callers = false;
	o->moves_cwd = false;
	bj_observer_decode(o, o->request, arch_of(o->request->data.arch), &error);
	got = answer(o, error, err);
	if (got < 0)
		return got;
	if (got == 0) {
		o->stats.n_gone++;
		bj_callers_forget(&o->callers); /* what was read may have been another's */
		bj_cwds_forget(&o->cwds);
		return 0;
	}
	o->stats.n_dropped += o->pending_dropped;
	hand_on(o);
	if (o->forget_callers) {
		bj_callers_forget(&o->callers);
		bj_cwds_forget(&o->cwds);
	}
	if (o->moves_cwd)
		bj_cwds_move(&o->cwds, (pid_t)o->request->pid);
	return 0;
}
