// SPDX-License-Identifier: Apache-2.0
/*
 * One action, from the executor's side: one poll loop over the zygote, init and its event socket,
 * the two pipes, the listener and cancel_fd.
 *
 *   RUN ─> STARTED (pidfd) ─> GO ─> READY (filter) ─> observer made ─> … ─> EXITED (detail)
 *       ─> init reaped ─> last bytes of the pipes
 *   timeout, cancel, error: KILL ─(2 s)─> SIGKILL to init ─(10 s)─> the slot is given up
 *
 * Nothing of the command runs before GO, and GO needs the pidfd, so that we can kill. From the
 * level on where exec is observed, GO need not wait for READY: the exec itself waits in the kernel
 * until the observer takes it. At the level `writes` it is not observed, and GO waits for the
 * observer. Init is our child (the zygote clones it with CLONE_PARENT), so that its status and
 * usage come straight from the kernel. Once it is dead every process of the action is, so what a
 * pipe holds then is all there will be: we take it and do not wait for an end of file, which a
 * descriptor in flight in some socket could hold up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/jail/jail-internal.h"
#include "executor/jail/mnt-internal.h"

enum {
	PIPE_BYTES = 1 << 20,
	CHUNK_BYTES = 64 * 1024,
	CHUNKS_A_TURN = 8, /* of one pipe before the others get their turn */
};
#define KILL_GRACE_NS (2 * BJ_NS_PER_SEC)
#define GIVE_UP_NS (12 * BJ_NS_PER_SEC)

struct run {
	struct bj_jail *jail;
	const struct bj_jail_spec *spec;
	const struct bj_jail_hooks *hooks;
	struct bj_err *err;		     /* the caller's; set at most once */
	struct bj_jail_failure *out_failure; /* the caller's, or NULL */
	int code;			     /* <0: what the run ends with, err is set */

	int event;   /* socket to init */
	int out[2];  /* read ends of stdout and stderr; -EBADF at the end of file */
	int pidfd;   /* init */
	int root_fd; /* init's root */
	int exec_fd; /* the merged input root in it, for the result */
	struct bj_observer *observer;
	bool observer_done; /* nobody uses the filter any more */

	struct bj_wire_started started;
	struct bj_wire_ready ready;
	struct bj_wire_failed failed;
	struct bj_wire_exited exited;
	int status;	   /* of init, from the kernel: exit code or signal */
	bool was_signaled; /* which of them */
	bool has_status;
	bool zygote_closed;
	struct rusage usage;
	uint64_t start_ns, end_ns;
	bool has_started, has_ready, has_go, has_failed, has_exited;
	bool has_done; /* init is dead and reaped, or there is none */
	bool event_closed;

	enum bj_jail_end forced; /* BJ_END_TIMEOUT or BJ_END_CANCELLED once decided, else 0 */
	uint64_t kill_ns;	 /* when killing began; 0: not yet */
	bool kill_hard;		 /* no grace: nothing of the command may run */
	bool sent_sigkill;
};

/* ---- ending it ---- */

static void begin_kill(struct run *r)
{
	if (r->kill_ns)
		return;
	r->kill_ns = bj_now_ns();
	if (r->has_go)
		(void)!bj_wire_send(r->event, BJ_WIRE_KILL, NULL, 0, NULL,
				    0); /* else SIGKILL follows */
}

/** Keeps the first error and ends the action. */
static void end_with(struct run *r, int code)
{
	if (r->code == 0)
		r->code = code;
	else
		bj_assert(code == r->code); /* callers set err only while there is none */
	begin_kill(r);
}

/**
 * Before GO nobody listens to KILL, and while the exec hangs nobody does; after the grace init has
 * not heeded it.
 */
static void push_kill(struct run *r)
{
	bool due = !r->has_go || r->kill_hard || bj_now_ns() >= r->kill_ns + KILL_GRACE_NS;
	if (!r->kill_ns || !due || r->sent_sigkill || r->pidfd < 0)
		return;
	r->sent_sigkill = true;
	(void)pidfd_send_signal(r->pidfd, SIGKILL, NULL,
				0); /* fails only when it is dead already */
}

/* ---- starting it ---- */

static int open_pipe(const struct bj_jail *jail, int *out_read, int *out_write, struct bj_err *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return bj_err_errno(err, errno, "jail: pipe");
	*out_read = fds[0];
	*out_write = fds[1];
	(void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES); /* an optimisation */
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
		return bj_err_errno(err, errno, "jail: fcntl");
	/* The command may open /dev/stdout anew: then the pipe's owner counts. */
	if (jail->profile == BJ_PROFILE_PRIVILEGED &&
	    fchown(fds[1], jail->slot_uid, jail->slot_gid) < 0)
		return bj_err_errno(err, errno, "jail: chown of a pipe");
	return 0;
}

static int send_run(struct run *r, const int fds[3])
{
	struct bj_jail *jail = r->jail;
	bj_buf_clear(&jail->spec);
	int code = bj_jail_spec_encode(r->spec, &jail->spec, r->err);
	if (code < 0)
		return code;
	code = bj_wire_send(jail->sock, BJ_WIRE_RUN, jail->spec.data, jail->spec.len, fds, 3);
	if (code == -EPIPE || code == -ECONNRESET)
		return bj_err_set(r->err, BJ_UNAVAILABLE, "jail: the slot's belljar-jail is gone");
	return code < 0 ? bj_err_errno(r->err, -code, "jail: spec to belljar-jail") : 0;
}

static int start(struct run *r)
{
	if (r->spec->observe != BJ_OBSERVE_OFF && !r->hooks->observer)
		return bj_err_set(r->err, BJ_INVALID_ARGUMENT,
				  "jail: observe is %s without observer hooks",
				  bj_observe_name(r->spec->observe));
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return bj_err_errno(r->err, errno, "jail: socketpair");
	r->event = pair[0];
	bj_cleanup(bj_close_fdp) int theirs = pair[1];
	bj_cleanup(bj_close_fdp) int out = -EBADF;
	bj_cleanup(bj_close_fdp) int err = -EBADF;
	int code = open_pipe(r->jail, &r->out[0], &out, r->err);
	if (code == 0)
		code = open_pipe(r->jail, &r->out[1], &err, r->err);
	return code < 0 ? code : send_run(r, (const int[3]){ out, err, theirs });
}

/** A step on our side failed before the command could do anything. */
static void fail_step(struct run *r, const char *step, const char *call, int errnum)
{
	if (!r->has_failed)
		(void)bj_fail(&r->failed, step, call, errnum, "");
	r->has_failed = true;
	r->kill_hard = true;
	begin_kill(r);
}

static bool is_dead(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	return poll(&p, 1, 0) != 0;
}

/** Init's root, by its pid: ours to use only if it was still init's when we had opened it. */
static int open_init_root(struct run *r)
{
	char path[40];
	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)r->started.pid); /* an int */
	r->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->root_fd < 0)
		return errno;
	return is_dead(r->pidfd) ? ESRCH : 0;
}

static bool start_observer(struct run *r)
{
	int errnum = open_init_root(r);
	if (errnum) {
		fail_step(r, "observer-root", "open", errnum);
		return false;
	}
	/* The command shares its descriptors with init until it execs. */
	int listener = pidfd_getfd(r->pidfd, r->ready.listener, 0);
	if (listener < 0) {
		fail_step(r, "observer-listener", "pidfd_getfd", errno);
		return false;
	}
	int code = bj_observer_new(listener, r->root_fd, r->spec->observe, r->hooks->observer,
				   &r->observer, r->err);
	if (code < 0) {
		r->kill_hard = true;
		end_with(r, code);
		return false;
	}
	return true;
}

static void send_go(struct run *r)
{
	int code = bj_wire_send(r->event, BJ_WIRE_GO, NULL, 0, NULL, 0);
	if (code < 0 && code != -EPIPE) /* a dead init has said why, or its status will */
		fail_step(r, "go", "sendmsg", -code);
	r->has_go = code == 0;
}

/** What STARTED and READY, in whichever order, make possible. */
static void proceed(struct run *r)
{
	if (!r->has_started || r->kill_ns)
		return;
	if (r->has_ready && !r->observer && !start_observer(r))
		return;
	if (!r->has_go && (r->spec->observe != BJ_OBSERVE_WRITES || r->observer))
		send_go(r);
}

/* ---- messages ---- */

/** Copies the body into its place when type and size are right. */
static bool take(const struct bj_wire_msg *msg, const void *body, void *out, size_t n_bytes,
		 bool *out_has)
{
	if (msg->n_bytes != n_bytes || msg->in_memfd)
		return false;
	memcpy(out, body, n_bytes);
	*out_has = true;
	return true;
}

union body {
	struct bj_wire_failed failed;
	struct bj_wire_started started;
	struct bj_wire_ready ready;
	struct bj_wire_exited exited;
};

static bool from_zygote(struct run *r, struct bj_wire_msg *msg, const union body *b)
{
	if (msg->type == BJ_WIRE_FAILED) {
		r->has_done = true; /* there was no init */
		return take(msg, b, &r->failed, sizeof(r->failed), &r->has_failed);
	}
	if (msg->type != BJ_WIRE_STARTED || msg->n_fds != 2 || r->has_started)
		return false;
	if (!take(msg, b, &r->started, sizeof(r->started), &r->has_started))
		return false;
	r->pidfd = BJ_STEAL_FD(msg->fds[0]);
	r->exec_fd = openat(msg->fds[1], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->exec_fd < 0)
		fail_step(r, "input-root", "open", errno);
	return true;
}

static bool from_init(struct run *r, const struct bj_wire_msg *msg, const union body *b)
{
	if (msg->type == BJ_WIRE_FAILED)
		return take(msg, b, &r->failed, sizeof(r->failed), &r->has_failed);
	if (msg->type == BJ_WIRE_READY && !r->has_ready)
		return take(msg, b, &r->ready, sizeof(r->ready), &r->has_ready);
	if (msg->type == BJ_WIRE_EXITED)
		return take(msg, b, &r->exited, sizeof(r->exited), &r->has_exited);
	return false;
}

/** Takes init's status and usage. @flags: WNOHANG or 0. */
static void reap_init(struct run *r, int flags)
{
	siginfo_t info = { 0 };
	long n;
	do /* the bare call: libc's has no rusage */
		n = syscall(SYS_waitid, P_PIDFD, r->pidfd, &info, WEXITED | flags, &r->usage);
	while (n < 0 && errno == EINTR);
	if (n < 0 || info.si_pid == 0)
		return;
	r->end_ns = bj_now_ns();
	r->status = info.si_status;
	r->was_signaled = info.si_code != CLD_EXITED;
	r->has_status = r->has_done = true;
}

static void zygote_gone(struct run *r)
{
	if (r->code == 0)
		r->code = bj_err_set(r->err, BJ_UNAVAILABLE,
				     "jail: the slot's belljar-jail died while an action ran");
	r->zygote_closed = true;
	r->kill_hard = true;
	begin_kill(r);
	if (!r->has_started)
		/* our end of the event socket closes, and with it ends what may be there */
		r->has_done = true;
}

static void handle_zygote(struct run *r)
{
	union body body;
	struct bj_wire_msg msg;
	int n = bj_wire_recv(r->jail->sock, &body, sizeof(body), MSG_DONTWAIT, &msg);
	if (n == -EAGAIN)
		return;
	if (n <= 0 || !from_zygote(r, &msg, &body))
		zygote_gone(r);
	if (n > 0)
		bj_wire_drop(&msg);
}

static void handle_event(struct run *r)
{
	for (;;) {
		union body body;
		struct bj_wire_msg msg;
		int n = bj_wire_recv(r->event, &body, sizeof(body), MSG_DONTWAIT, &msg);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			r->event_closed = true;
			return;
		}
		if (!from_init(r, &msg, &body))
			fail_step(r, "event", "recvmsg", EBADMSG);
		bj_wire_drop(&msg);
	}
}

/* ---- output ---- */

/** Reads at most @max_chunks. True: there is nothing more now. */
static bool read_pipe(struct run *r, int stream, int max_chunks)
{
	int *fd = &r->out[stream - 1];
	char chunk[CHUNK_BYTES];
	for (int i = 0; *fd >= 0 && i < max_chunks; i++) {
		ssize_t n = read(*fd, chunk, sizeof(chunk));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return errno == EAGAIN;
		if (n <= 0) {
			bj_close_fdp(fd);
			break;
		}
		if (r->code < 0)
			continue; /* drained, but nobody wants it */
		int code = r->hooks->output(r->hooks->ctx, stream, chunk, (size_t)n, r->err);
		if (code < 0)
			end_with(r, code);
	}
	return *fd < 0;
}

static void drain_pipes(struct run *r)
{
	for (int stream = 1; stream <= 2; stream++) {
		while (!read_pipe(r, stream, CHUNKS_A_TURN))
			continue;
		bj_close_fdp(&r->out[stream - 1]);
	}
}

/* ---- the loop ---- */

static void handle_observer(struct run *r, short revents)
{
	if (revents & POLLIN) {
		struct bj_err ignored = BJ_ERR_NULL;
		int code = bj_observer_handle(r->observer, r->code == 0 ? r->err : &ignored);
		if (code < 0) {
			/* its calls fail with ENOSYS from now on: the action must not go on */
			r->observer_done = true;
			end_with(r, r->code == 0 ? code : r->code);
		}
	} else if (revents & (POLLHUP | POLLERR)) {
		r->observer_done = true;
	}
}

enum { P_OBSERVER, P_ZYGOTE, P_INIT, P_EVENT, P_STDOUT, P_STDERR, P_CANCEL, N_POLL };

static int wait_ready(const struct run *r, struct pollfd p[N_POLL], uint64_t deadline_ns,
		      int cancel_fd)
{
	bool killing = r->kill_ns != 0;
	p[P_OBSERVER] = (struct pollfd){
		r->observer && !r->observer_done ? bj_observer_fd(r->observer) : -1, POLLIN, 0
	};
	p[P_ZYGOTE] = (struct pollfd){ r->zygote_closed ? -1 : r->jail->sock, POLLIN, 0 };
	p[P_INIT] = (struct pollfd){ r->pidfd, POLLIN, 0 };
	p[P_EVENT] = (struct pollfd){ r->event_closed ? -1 : r->event, POLLIN, 0 };
	p[P_STDOUT] = (struct pollfd){ r->out[0], POLLIN, 0 };
	p[P_STDERR] = (struct pollfd){ r->out[1], POLLIN, 0 };
	p[P_CANCEL] = (struct pollfd){ killing ? -1 : cancel_fd, POLLIN, 0 };
	if (killing)
		deadline_ns = r->kill_ns + (r->sent_sigkill ? GIVE_UP_NS : KILL_GRACE_NS);
	return poll(p, N_POLL, bj_poll_timeout_ms(deadline_ns));
}

static void check_limits(struct run *r, const struct pollfd p[N_POLL], uint64_t deadline_ns)
{
	uint64_t now = deadline_ns == BJ_NEVER_NS && !r->kill_ns ? 0 : bj_now_ns();
	if (!r->kill_ns && (p[P_CANCEL].revents || now >= deadline_ns)) {
		r->forced = p[P_CANCEL].revents ? BJ_END_CANCELLED : BJ_END_TIMEOUT;
		begin_kill(r);
	}
	push_kill(r);
	if (r->kill_ns && now >= r->kill_ns + GIVE_UP_NS) {
		if (r->code == 0)
			r->code = bj_err_set(
				r->err, BJ_UNAVAILABLE,
				"jail: processes of the action do not die; the slot is given up");
		r->has_done = true;
	}
}

static void loop(struct run *r, uint64_t deadline_ns, int cancel_fd)
{
	while (!r->has_done) {
		struct pollfd p[N_POLL];
		if (wait_ready(r, p, deadline_ns, cancel_fd) < 0) {
			if (errno == EINTR)
				continue;
			end_with(r, r->code ? r->code : bj_err_errno(r->err, errno, "jail: poll"));
		}
		if (p[P_OBSERVER].revents)
			handle_observer(r, p[P_OBSERVER].revents);
		if (p[P_EVENT].revents)
			handle_event(r);
		if (p[P_STDOUT].revents)
			(void)read_pipe(r, 1, CHUNKS_A_TURN);
		if (p[P_STDERR].revents)
			(void)read_pipe(r, 2, CHUNKS_A_TURN);
		if (p[P_ZYGOTE].revents)
			handle_zygote(r);
		if (p[P_INIT].revents)
			reap_init(r, WNOHANG);
		proceed(r);
		check_limits(r, p, deadline_ns);
	}
}

/* ---- the result ---- */

static void copy_strays(const struct bj_wire_exited *e, struct bj_jail_result *out)
{
	out->n_strays = BJ_MIN(e->n_listed, (uint32_t)BJ_JAIL_MAX_STRAYS);
	for (size_t i = 0; i < out->n_strays; i++) {
		struct bj_jail_stray *s = &out->strays[i];
		s->pid = e->strays[i].pid;
		memcpy(s->comm, e->strays[i].comm, sizeof(s->comm));
		memcpy(s->argv0, e->strays[i].argv0, sizeof(s->argv0));
		s->comm[sizeof(s->comm) - 1] = '\0';
		s->argv0[sizeof(s->argv0) - 1] = '\0';
	}
}

/** The kernel's word on init is the code; init's own report may say why, if it agrees. */
static void judge_status(const struct run *r, struct bj_jail_result *out)
{
	const struct bj_wire_exited *e = r->has_exited ? &r->exited : NULL;
	/* init itself, by us: it had no time to report, or did not heed KILL */
	if (r->was_signaled) {
		out->end = r->forced;
		out->signal = r->status;
		out->exit_code = 128 + out->signal;
		return;
	}
	out->exit_code = r->status;
	out->end = BJ_END_EXITED;
	if (!e)
		return;
	if (e->was_killed && r->forced) {
		out->end = r->forced;
		out->signal = SIGKILL;
		out->exit_code = 128 + SIGKILL;
	} else if (e->exec_errno) {
		out->end = BJ_END_EXEC_FAILED;
		out->exec_errno = e->exec_errno;
	} else if (WIFSIGNALED(e->raw_status) && out->exit_code == 128 + WTERMSIG(e->raw_status)) {
		out->end = BJ_END_SIGNALED;
		out->signal = WTERMSIG(e->raw_status);
	}
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * BJ_NS_PER_SEC + (uint64_t)t.tv_usec * 1000;
}

/**
 * All of the namespace, by the kernel's count for init and what it reaped, without init's own part.
 */
static void judge_usage(const struct run *r, struct bj_jail_result *out)
{
	uint64_t own_user_ns = r->has_exited ? r->exited.own_user_ns : 0;
	uint64_t own_system_ns = r->has_exited ? r->exited.own_system_ns : 0;
	out->user_ns = minus(timeval_ns(r->usage.ru_utime), own_user_ns);
	out->system_ns = minus(timeval_ns(r->usage.ru_stime), own_system_ns);
	out->max_rss_bytes = (uint64_t)r->usage.ru_maxrss * 1024;
	out->wall_ns = minus(r->end_ns, r->start_ns);
	if (r->has_exited && r->exited.wall_ns > 0)
		out->wall_ns = BJ_MIN(out->wall_ns, r->exited.wall_ns);
}

static enum bj_code failure_code(int sys_errno)
{
	return sys_errno == ENOMEM || sys_errno == EBADMSG || sys_errno == EIO ||
			       sys_errno == EMFILE || sys_errno == ENFILE
		       ? BJ_INTERNAL
		       : BJ_FAILED_PRECONDITION;
}

/**
 * Init died of a signal that we did not send: what the command's end was, nobody knows. Never an
 * exit code.
 */
static bool is_lost(const struct run *r)
{
	return r->has_status && r->was_signaled && !r->forced && !r->sent_sigkill;
}

static int judge(struct run *r, struct bj_jail_result *out_result)
{
	if (r->code < 0)
		return r->code;
	if (r->has_failed && (!r->forced || !r->has_status))
		return bj_jail_fail(&r->failed, failure_code(r->failed.sys_errno), r->out_failure,
				    r->err);
	if (is_lost(r))
		return bj_err_set(
			r->err, BJ_UNAVAILABLE,
			"jail: the action's init was killed from outside, and the action with it");
	struct bj_jail_result result = { 0 };
	judge_status(r, &result);
	judge_usage(r, &result);
	if (r->has_exited) {
		copy_strays(&r->exited, &result);
		if (r->exited.was_killed)
			result.n_killed = r->exited.n_alive;
		else
			result.n_strays_total = r->exited.n_alive;
	}
	result.observer.level = r->spec->observe;
	if (r->observer)
		bj_observer_stats(r->observer, &result.observer);
	result.exec_fd = BJ_STEAL_FD(r->exec_fd);
	*out_result = result;
	return 0;
}

int bj_jail_run_reporting(struct bj_jail *jail, const struct bj_jail_spec *spec,
			  const struct bj_jail_hooks *hooks, uint64_t deadline_ns, int cancel_fd,
			  struct bj_jail_result *out_result, struct bj_jail_failure *out_failure,
			  struct bj_err *err)
{
	struct run r = {
		.jail = jail,
		.spec = spec,
		.hooks = hooks,
		.err = err,
		.out_failure = out_failure,
		.event = -EBADF,
		.out = { -EBADF, -EBADF },
		.pidfd = -EBADF,
		.root_fd = -EBADF,
		.exec_fd = -EBADF,
		.start_ns = bj_now_ns(),
	};
	int code = start(&r);
	if (code == 0) {
		loop(&r, deadline_ns, cancel_fd);
		handle_event(&r); /* EXITED or FAILED was sent before init died */
		if (r.code == 0)
			drain_pipes(&r);
		code = judge(&r, out_result);
	}
	bj_observer_free(r.observer);
	bj_close_fdp(&r.event);
	bj_close_fdp(&r.out[0]);
	bj_close_fdp(&r.out[1]);
	if (r.has_started && !r.has_status)
		/* it did not die in time; bj_jail_free() tries again */
		jail->unreaped = BJ_STEAL_FD(r.pidfd);
	bj_close_fdp(&r.pidfd);
	bj_close_fdp(&r.root_fd);
	bj_close_fdp(&r.exec_fd);
	return code;
}

int bj_jail_run(struct bj_jail *jail, const struct bj_jail_spec *spec,
		const struct bj_jail_hooks *hooks, uint64_t deadline_ns, int cancel_fd,
		struct bj_jail_result *out_result, struct bj_err *err)
{
	return bj_jail_run_reporting(jail, spec, hooks, deadline_ns, cancel_fd, out_result, NULL,
				     err);
}
