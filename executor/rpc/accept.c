// SPDX-License-Identifier: Apache-2.0
/*
 * Our own accept loop. The listener of core 1.51 never recovers from EMFILE (CVE-2023-4785), can't cap connections and
 * steals unix sockets; grpc_server_add_channel_from_fd() lets us do without it.
 *
 * Out of descriptors: accepting pauses for PAUSE_NS, while clients wait in the kernel's backlog, and is tried again.
 *
 * Counting connections: core owns an adopted descriptor and does not say when it closes it. So before the hand-over the
 * descriptor is put into our epoll set with no events. The kernel reports its hang-up (core shuts a socket down before
 * closing it) and drops the entry with the socket. The report is lost when the close comes first, so at the cap every
 * entry is asked for: EPOLL_CTL_MOD of a closed or reused descriptor says EBADF or ENOENT. Without a cap nothing is
 * counted.
 *
 * Within one round hang-ups are looked at before accepting, so a descriptor number that is used again can't be taken for
 * its predecessor.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pool.h"
#include "executor/rpc/rpc-internal.h"

#define PAUSE_NS (100 * BJ_NS_PER_MS)

enum {
	N_EVENTS = 64,
	ACCEPT_BURST = 64, /* connections a round and listener */
};

/* What an epoll event is about. */
enum source { SOURCE_WAKE, SOURCE_LISTENER, SOURCE_CONNECTION };

struct bj_rpc_acceptor {
	int epoll_fd;
	int wake_fd; /* eventfd: readable means stop */
	struct bj_rpc_listener listeners[BJ_RPC_MAX_LISTENERS];
	size_t n_listeners;
	size_t max_connections; /* 0: no limit, nothing counted */
	grpc_server *core;	/* borrowed */
	grpc_server_credentials *credentials;
	unsigned long thread; /* pthread_t */
	bool is_started;
	/* The thread's own. */
	uint64_t paused_until_ns; /* 0: accepting */
	bool *is_connection;	  /* by descriptor number */
	size_t n_numbers;	  /* of is_connection */
	size_t n_connections;
};

static uint64_t pack_source(enum source source, size_t index)
{
	return (uint64_t)source << 32 | (uint32_t)index;
}

static int watch(struct bj_rpc_acceptor *acceptor, int op, int fd, uint32_t events, uint64_t source)
{
	struct epoll_event event = { .events = events, .data.u64 = source };
	return epoll_ctl(acceptor->epoll_fd, op, fd, &event);
}

/* ---- connections ---- */

static void forget(struct bj_rpc_acceptor *acceptor, size_t fd)
{
	if (!acceptor->is_connection[fd])
		return;
	acceptor->is_connection[fd] = false;
	acceptor->n_connections--;
}

static void on_hangup(struct bj_rpc_acceptor *acceptor, size_t fd)
{
	(void)watch(acceptor, EPOLL_CTL_DEL, (int)fd, 0, 0); /* core may have closed it by now */
	forget(acceptor, fd);
}

static void sweep(struct bj_rpc_acceptor *acceptor)
{
	for (size_t fd = 0; fd < acceptor->n_numbers; fd++)
		if (acceptor->is_connection[fd] && watch(acceptor, EPOLL_CTL_MOD, (int)fd, 0,
							 pack_source(SOURCE_CONNECTION, fd)) < 0)
			forget(acceptor, fd);
}

static bool remember(struct bj_rpc_acceptor *acceptor, size_t fd)
{
	if (fd >= acceptor->n_numbers) {
		size_t n = BJ_MAX(fd + 1, 2 * acceptor->n_numbers);
		bool *grown = bj_realloc(acceptor->is_connection, n * sizeof(*grown));
		if (!grown)
			return false;
		memset(grown + acceptor->n_numbers, 0, (n - acceptor->n_numbers) * sizeof(*grown));
		acceptor->is_connection = grown;
		acceptor->n_numbers = n;
	}
	forget(acceptor, fd); /* the number was used before, so that connection is gone */
	if (watch(acceptor, EPOLL_CTL_ADD, (int)fd, 0, pack_source(SOURCE_CONNECTION, fd)) < 0)
		return false;
	acceptor->is_connection[fd] = true;
	acceptor->n_connections++;
	return true;
}

static bool is_full(struct bj_rpc_acceptor *acceptor)
{
	if (acceptor->max_connections == 0 || acceptor->n_connections < acceptor->max_connections)
		return false;
	sweep(acceptor);
	return acceptor->n_connections >= acceptor->max_connections;
}

/* No Nagle, and a peer that vanished without a word is noticed in two minutes. Fails on unix sockets, which need none. */
static void tune_tcp(int fd)
{
	static const int one = 1, idle_s = 60, interval_s = 20, n_probes = 3;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof(n_probes));
}

static void adopt(struct bj_rpc_acceptor *acceptor, int fd)
{
	if (is_full(acceptor)) {
		bj_debug("rpc: connection refused connections=%zu", acceptor->n_connections);
		close(fd);
		return;
	}
	if (acceptor->max_connections > 0 && !remember(acceptor, (size_t)fd)) {
		bj_warn("rpc: connection refused why=\"out of memory\"");
		close(fd);
		return;
	}
	tune_tcp(fd);
	grpc_server_add_channel_from_fd(acceptor->core, fd, acceptor->credentials);
}

/* ---- accepting ---- */

static void set_accepting(struct bj_rpc_acceptor *acceptor, bool accepting)
{
	for (size_t i = 0; i < acceptor->n_listeners; i++)
		(void)watch(acceptor, EPOLL_CTL_MOD, acceptor->listeners[i].fd,
			    accepting ? EPOLLIN : 0,
			    pack_source(SOURCE_LISTENER, i)); /* is in the set */
}

static void pause_accepting(struct bj_rpc_acceptor *acceptor, int errnum)
{
	bj_warn("rpc: accepting pauses why=\"%s\"", strerror(errnum));
	acceptor->paused_until_ns = bj_deadline_ns(PAUSE_NS);
	set_accepting(acceptor, false);
}

static void resume_if_due(struct bj_rpc_acceptor *acceptor)
{
	if (acceptor->paused_until_ns == 0 || bj_now_ns() < acceptor->paused_until_ns)
		return;
	acceptor->paused_until_ns = 0;
	set_accepting(acceptor, true);
}

static void on_listener(struct bj_rpc_acceptor *acceptor, size_t index)
{
	for (int i = 0; i < ACCEPT_BURST && acceptor->paused_until_ns == 0; i++) {
		int fd = accept4(acceptor->listeners[index].fd, NULL, NULL,
				 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			adopt(acceptor, fd);
		else if (errno == EAGAIN)
			return;
		else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(acceptor, errno);
		/* Else: that one connection failed before we took it; on to the next. */
	}
}

/* False: stop. */
static bool run_round(struct bj_rpc_acceptor *acceptor)
{
	struct epoll_event events[N_EVENTS];
	uint64_t until_ns = acceptor->paused_until_ns ? acceptor->paused_until_ns : BJ_NEVER_NS;
	int n = epoll_wait(acceptor->epoll_fd, events, N_EVENTS, bj_poll_timeout_ms(until_ns));
	bj_assert(n >= 0 || errno == EINTR);
	for (int i = 0; i < n; i++)
		if (events[i].data.u64 >> 32 == SOURCE_CONNECTION)
			on_hangup(acceptor, (uint32_t)events[i].data.u64);
	resume_if_due(acceptor);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 >> 32 == SOURCE_WAKE)
			return false;
		if (events[i].data.u64 >> 32 == SOURCE_LISTENER)
			on_listener(acceptor, (uint32_t)events[i].data.u64);
	}
	return true;
}

static void *acceptor_main(void *arg)
{
	while (run_round(arg))
		;
	return NULL;
}

/* ---- life ---- */

int bj_rpc_acceptor_new(size_t max_connections, struct bj_rpc_acceptor **out_acceptor,
			struct bj_err *err)
{
	struct bj_rpc_acceptor *acceptor = BJ_NEW(struct bj_rpc_acceptor);
	if (!acceptor)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an RPC server");
	acceptor->max_connections = max_connections;
	acceptor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	acceptor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (acceptor->epoll_fd < 0 || acceptor->wake_fd < 0 ||
	    watch(acceptor, EPOLL_CTL_ADD, acceptor->wake_fd, EPOLLIN,
		  pack_source(SOURCE_WAKE, 0)) < 0) {
		int rc = bj_err_errno(err, errno, "make the accept loop");
		bj_rpc_acceptor_free(acceptor);
		return rc;
	}
	*out_acceptor = acceptor;
	return 0;
}

int bj_rpc_acceptor_listen(struct bj_rpc_acceptor *acceptor, const char *addr, int *out_port,
			   struct bj_err *err)
{
	size_t i = acceptor->n_listeners;
	int rc = bj_rpc_listen(addr, acceptor->listeners, &acceptor->n_listeners, out_port, err);
	if (rc < 0)
		return rc;
	for (; i < acceptor->n_listeners; i++)
		if (watch(acceptor, EPOLL_CTL_ADD, acceptor->listeners[i].fd, EPOLLIN,
			  pack_source(SOURCE_LISTENER, i)) < 0)
			return bj_err_errno(err, errno, "listen on \"%s\"", addr);
	return 0;
}

int bj_rpc_acceptor_start(struct bj_rpc_acceptor *acceptor, grpc_server *core, struct bj_err *err)
{
	acceptor->core = core;
	acceptor->credentials = grpc_insecure_server_credentials_create();
	int rc = bj_thread_start("bj-rpc-accept", acceptor_main, acceptor, &acceptor->thread, err);
	if (rc < 0)
		return rc;
	acceptor->is_started = true;
	return 0;
}

static void stop_thread(struct bj_rpc_acceptor *acceptor)
{
	const uint64_t one = 1;
	ssize_t n = write(acceptor->wake_fd, &one, sizeof(one));
	bj_assert(n == sizeof(one)); /* the first and only write to an eventfd */
	(void)pthread_join((pthread_t)acceptor->thread, NULL); /* ours, joined once */
}

void bj_rpc_acceptor_free(struct bj_rpc_acceptor *acceptor)
{
	if (!acceptor)
		return;
	if (acceptor->is_started)
		stop_thread(acceptor);
	for (size_t i = 0; i < acceptor->n_listeners; i++)
		bj_rpc_listener_close(&acceptor->listeners[i]);
	if (acceptor->credentials)
		grpc_server_credentials_release(acceptor->credentials);
	bj_close_fdp(&acceptor->epoll_fd);
	bj_close_fdp(&acceptor->wake_fd);
	bj_free(acceptor->is_connection);
	bj_free(acceptor);
}
