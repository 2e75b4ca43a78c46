// SPDX-License-Identifier: Apache-2.0
/*
 * The zygote of one slot: builds the template once, then runs one action after the other.
 *
 *   RUN -> decode -> layers (work_ns) -> setns(clean_ns)
 *       -> clone(VM|PARENT|NEWNS|NEWPID|NEWIPC) -> setns(work_ns) -> STARTED + pidfd
 *       -> wait for init's or the executor's end -> tidy up, while the executor handles the result
 *
 * Init shares our memory and has its own stack: no page table is copied and none torn down, which
 * is a third of what an action costs. So, as long as init lives, we allocate nothing, free nothing
 * and change nothing that it reads. (errno is shared, too: each side sets it only when a call
 * fails, and we make none then that may fail while init still runs.)
 *
 * Failures before the clone are answered with FAILED and leave the zygote fit for the next action.
 * A failure afterwards that makes the next action's walls doubtful ends the process: the executor
 * sees the closed socket and starts a new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

struct zygote {
	int sock;
	struct bj_arena slot_arena;   /* holds the slot spec */
	struct bj_arena action_arena; /* one action */
	struct bj_buf large;	      /* a spec that came in a memfd */
	struct bj_jail_slot_spec slot;
	struct bj_template template;
	struct bj_net net;
	struct bj_userns userns;
	char *init_stack_top;
	bool has_ns_ioctl; /* known before the first action: a failing call would set init's errno */
	struct bj_observer_filter *filters[4]; /* by level; made at first use */
};

#define PIDFD_GET_MNT_NAMESPACE_IOCTL _IO(0xFF, 3) /* Linux 6.11; not in our libc */
enum { INIT_STACK_BYTES = 256 * 1024 };

static char inline_body[BJ_WIRE_INLINE_BYTES];

static int fail_errno(const char *step, const struct bj_err *err, struct bj_wire_failed *failed)
{
	return bj_fail(failed, step, "", err->sys_errno ? err->sys_errno : EINVAL, err->msg);
}

/**
 * The body, wherever it travelled. The copy is ours: the sender cannot change it under the decoder.
 */
static int message_body(struct zygote *z, const struct bj_wire_msg *msg, struct bj_str *out,
			struct bj_wire_failed *failed)
{
	if (!msg->in_memfd) {
		*out = bj_str_n(inline_body, msg->n_bytes);
		return 0;
	}
	bj_buf_clear(&z->large);
	char *at = bj_buf_reserve(&z->large, msg->n_bytes);
	if (!at)
		return bj_fail(failed, "spec", "malloc", ENOMEM, "");
	for (size_t done = 0; done < msg->n_bytes;) {
		ssize_t n = pread(msg->fds[0], at + done, msg->n_bytes - done, (off_t)done);
		if (n <= 0 && errno != EINTR)
			return bj_fail(failed, "spec", "pread", n == 0 ? EIO : errno, "");
		done += n > 0 ? (size_t)n : 0;
	}
	bj_buf_commit(&z->large, msg->n_bytes);
	*out = bj_buf_str(&z->large);
	return 0;
}

/* ---- one action ---- */

static char **pointers(struct bj_arena *arena, const struct bj_str *strings, size_t n)
{
	char **out = BJ_ARENA_ARRAY(arena, char *, n + 1);
	for (size_t i = 0; out && i < n; i++)
		out[i] = (char *)(uintptr_t)strings[i].ptr; /* the codec puts a NUL behind each */
	return out;
}

static int get_filter(struct zygote *z, enum bj_observe level, struct bj_wire_failed *failed)
{
	if (z->filters[level])
		return 0;
	struct bj_err err = BJ_ERR_NULL;
	if (bj_observer_filter_new(level, &z->filters[level], &err) < 0)
		return fail_errno("seccomp-filter", &err, failed);
	return 0;
}

static int enter(int ns, struct bj_wire_failed *failed)
{
	return setns(ns, CLONE_NEWNS) < 0 ? bj_fail(failed, "mount-namespace", "setns", errno, "")
					  : 0;
}

static int init_entry(void *arg)
{
	bj_init_main(arg);
}

/** Return: pid of init, or -1. */
static pid_t clone_init(const struct zygote *z, struct bj_init *init, int *out_pidfd,
			struct bj_wire_failed *failed)
{
	/*
	 * The executor as the parent: the kernel's word on the action's end reaches it without us
	 * in between.
	 */
	enum {
		FLAGS = CLONE_VM | CLONE_PARENT | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
			CLONE_PIDFD
	};
	pid_t pid = clone(init_entry, z->init_stack_top, FLAGS | SIGCHLD, init, out_pidfd);
	return pid > 0 ? pid : bj_fail(failed, "clone-init", "clone", errno, "");
}

struct action {
	struct bj_jail_spec spec;
	struct bj_init init;
	struct bj_layers layers;
	pid_t pid;
	int pidfd;
	/*
	 * init's mount namespace, held so that its teardown waits until the result is out; -1: not
	 * held
	 */
	int ns_fd;
};

static int decode_action(struct zygote *z, const struct bj_wire_msg *msg, struct action *a,
			 struct bj_wire_failed *failed)
{
	struct bj_str body = BJ_STR_NULL;
	if (message_body(z, msg, &body, failed) < 0)
		return -1;
	struct bj_err err = BJ_ERR_NULL;
	if (bj_jail_spec_decode(body, &z->action_arena, &a->spec, &err) < 0)
		return fail_errno("spec", &err, failed);
	size_t first = msg->in_memfd ? 1 : 0;
	if (msg->n_fds != first + 3)
		return bj_fail(failed, "spec", "", EBADMSG, "descriptors");
	a->init = (struct bj_init){
		.slot = &z->slot,
		.spec = &a->spec,
		.layers = &a->layers,
		.userns = &z->userns,
		.argv = pointers(&z->action_arena, a->spec.argv, a->spec.n_argv),
		.envp = pointers(&z->action_arena, a->spec.env, a->spec.n_env),
		.proc_below = z->template.proc_below,
		.stdout_fd = msg->fds[first],
		.stderr_fd = msg->fds[first + 1],
		.event_fd = msg->fds[first + 2],
	};
	if (!a->init.argv || !a->init.envp)
		return bj_fail(failed, "spec", "malloc", ENOMEM, "");
	return 0;
}

static int start_action(struct zygote *z, const struct bj_wire_msg *msg, struct action *a,
			struct bj_wire_failed *failed)
{
	if (decode_action(z, msg, a, failed) < 0 || get_filter(z, a->spec.observe, failed) < 0)
		return -1;
	a->init.filter = z->filters[a->spec.observe];
	if (bj_layers_open(&z->template, &z->slot, &a->spec, &a->layers, failed) < 0)
		return -1;
	if (enter(z->template.clean_ns, failed) < 0)
		return -1;
	a->pid = clone_init(z, &a->init, &a->pidfd, failed);
	struct bj_wire_failed back;
	if (enter(z->template.work_ns, &back) < 0)
		_exit(1); /* in the wrong namespace for ever: no action of this slot may follow */
	return a->pid < 0 ? -1 : 0;
}

/** Holds init's mount namespace, by the cheap way that newer kernels have, or through /proc. */
static int hold_mount_ns(const struct zygote *z, const struct action *a)
{
	if (z->has_ns_ioctl)
		return ioctl(a->pidfd, PIDFD_GET_MNT_NAMESPACE_IOCTL, 0);
	char path[32];
	(void)snprintf(path, sizeof(path), "%d/ns/mnt", (int)a->pid); /* an int */
	return openat(z->template.proc_fd, path, O_RDONLY | O_CLOEXEC);
}

/**
 * Sleeps until init is dead; its parent, the executor, takes the status. When the executor goes
 * first, everything goes.
 */
static void await_init(const struct zygote *z, const struct action *a)
{
	struct pollfd fds[2] = { { .fd = a->pidfd, .events = POLLIN },
				 { .fd = z->sock, .events = POLLRDHUP } };
	while (poll(fds, 2, -1) < 0 || !(fds[0].revents & POLLIN)) {
		if (fds[1].revents & (POLLRDHUP | POLLHUP | POLLERR))
			_exit(0); /* it is the executor that init dies with */
	}
}

static void run_action(struct zygote *z, const struct bj_wire_msg *msg)
{
	struct action a = { .layers = BJ_LAYERS_NULL, .pidfd = -1, .ns_fd = -1 };
	struct bj_wire_failed failed;
	bj_arena_reset(&z->action_arena);
	int r = start_action(z, msg, &a, &failed);
	struct bj_wire_started started = { .pid = a.pid };
	int sent = r < 0 ? bj_wire_send(z->sock, BJ_WIRE_FAILED, &failed, sizeof(failed), NULL, 0)
			 : bj_wire_send(z->sock, BJ_WIRE_STARTED, &started, sizeof(started),
					(const int[2]){ a.pidfd, a.layers.exec_fd }, 2);
	if (sent < 0)
		_exit(0); /* the executor is gone */
	/*
	 * Init has its own descriptors, but it reads the numbers here: only copies may be marked as
	 * closed.
	 */
	struct bj_layers layers = a.layers;
	struct bj_wire_msg done_msg = *msg;
	bj_layers_close(&layers);
	bj_wire_drop(&done_msg);
	if (r < 0)
		return;
	a.ns_fd = hold_mount_ns(z, &a);
	await_init(z, &a);

	/* The executor has its answer; what follows is off the action's path. */
	bj_close_fdp(&a.pidfd);
	bj_close_fdp(&a.ns_fd);
	/*
	 * The next action must not find what this one left: TIME_WAIT, counters, a socket in flight
	 * in another socket.
	 */
	if (!bj_net_is_untouched(&z->net) &&
	    bj_net_fresh(&z->net, z->template.proc_fd, &failed) < 0)
		_exit(1);
}

/* ---- the slot ---- */

static int receive_slot(struct zygote *z, struct bj_wire_failed *failed)
{
	struct bj_wire_msg msg = { 0 };
	struct bj_str body = BJ_STR_NULL;
	int r = bj_wire_recv(z->sock, inline_body, sizeof(inline_body), 0, &msg);
	if (r <= 0 || msg.type != BJ_WIRE_SLOT)
		return bj_fail(failed, "slot-spec", "recvmsg", r < 0 ? -r : EBADMSG, "");
	if (message_body(z, &msg, &body, failed) < 0)
		return -1;
	struct bj_err err = BJ_ERR_NULL;
	const char *copy = bj_arena_memdup(&z->slot_arena, body.ptr, body.len);
	if (!copy)
		return bj_fail(failed, "slot-spec", "malloc", ENOMEM, "");
	if (bj_jail_slot_spec_decode(bj_str_n(copy, body.len), &z->slot_arena, &z->slot, &err) < 0)
		return fail_errno("slot-spec", &err, failed);
	bj_wire_drop(&msg);
	return 0;
}

/** With a page below it that nobody may touch. */
static int make_init_stack(struct zygote *z, struct bj_wire_failed *failed)
{
	char *low = mmap(NULL, INIT_STACK_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (low == MAP_FAILED)
		return bj_fail(failed, "init-stack", "mmap", errno, "");
	if (mprotect(low, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) < 0)
		return bj_fail(failed, "init-stack", "mprotect", errno, "");
	z->init_stack_top = low + INIT_STACK_BYTES;
	return 0;
}

static bool has_ns_ioctl(void)
{
	bj_cleanup(bj_close_fdp) int pidfd = pidfd_open(getpid(), 0);
	bj_cleanup(bj_close_fdp) int ns =
		pidfd < 0 ? -1 : ioctl(pidfd, PIDFD_GET_MNT_NAMESPACE_IOCTL, 0);
	return ns >= 0;
}

static int set_up(struct zygote *z, struct bj_wire_failed *failed)
{
	if (receive_slot(z, failed) < 0)
		return -1;
	(void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */,
		      NULL); /* not the executor's keys; kernels without keys have none */
	if (bj_template_build(&z->slot, &z->template, &z->net, failed) < 0)
		return -1;
	if (bj_userns_make(&z->slot, z->template.proc_fd, &z->userns, failed) < 0)
		return -1;
	z->has_ns_ioctl = has_ns_ioctl();
	return make_init_stack(z, failed);
}

int bj_zygote_main(int sock)
{
	static struct zygote zygote;
	struct zygote *z = &zygote;
	z->sock = sock;
	z->large = BJ_BUF_INIT(BJ_WIRE_MAX_BODY_BYTES);
	bj_arena_init(&z->slot_arena, 64 << 20);
	bj_arena_init(&z->action_arena, 256 << 20);
	struct bj_wire_failed failed;
	if (set_up(z, &failed) < 0) {
		(void)!bj_wire_send(sock, BJ_WIRE_FAILED, &failed, sizeof(failed), NULL,
				    0); /* then it sees the end */
		return 1;
	}
	if (bj_wire_send(sock, BJ_WIRE_UP, NULL, 0, NULL, 0) < 0)
		return 0;
	for (;;) {
		struct bj_wire_msg msg = { 0 };
		int r = bj_wire_recv(sock, inline_body, sizeof(inline_body), 0, &msg);
		if (r <= 0 || msg.type != BJ_WIRE_RUN)
			return r == 0 ? 0 : 1;
		run_action(z, &msg);
	}
}
