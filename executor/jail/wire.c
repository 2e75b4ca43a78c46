// SPDX-License-Identifier: Apache-2.0
/*
 * One message is one datagram of a SOCK_SEQPACKET pair: a fixed head, then the body. See
 * wire-internal.h for who says what.
 */
#include "executor/jail/wire-internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "executor/base/macros.h"

enum { WIRE_MAGIC = 0x574a4231 };

struct head {
	uint32_t magic;
	uint32_t type;
	uint32_t n_bytes;  /* of the body */
	uint32_t in_memfd; /* 0 or 1 */
};

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * BJ_WIRE_MAX_FDS)];
};

static int memfd_of(const void *body, size_t n_bytes)
{
	int fd = memfd_create("belljar-spec", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < n_bytes;) {
		ssize_t n = pwrite(fd, (const char *)body + done, n_bytes - done, (off_t)done);
		if (n <= 0 && errno != EINTR) {
			int saved = n == 0 ? EIO : errno;
			(void)close(fd); /* the write's error is the one to tell */
			return -saved;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	return fd;
}

static int send_datagram(int sock, const struct head *head, const void *body, const int *fds,
			 size_t n_fds)
{
	struct iovec iov[2] = {
		{ .iov_base = (void *)(uintptr_t)head, .iov_len = sizeof(*head) },
		{ .iov_base = (void *)(uintptr_t)body,
		  .iov_len = head->in_memfd ? 0 : head->n_bytes },
	};
	union control control = { 0 };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
	if (n_fds > 0) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		struct cmsghdr *c = &control.align; /* the first */
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
	}
	for (;;) {
		if (sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

int bj_wire_send(int sock, enum bj_wire_type type, const void *body, size_t n_bytes, const int *fds,
		 size_t n_fds)
{
	bool large = n_bytes > BJ_WIRE_INLINE_BYTES;
	if (n_bytes > BJ_WIRE_MAX_BODY_BYTES)
		return -EMSGSIZE;
	bj_assert(n_fds + large <= BJ_WIRE_MAX_FDS);
	struct head head = { WIRE_MAGIC, (uint32_t)type, (uint32_t)n_bytes, large };
	if (!large)
		return send_datagram(sock, &head, body, fds, n_fds);
	int all[BJ_WIRE_MAX_FDS];
	all[0] = memfd_of(body, n_bytes);
	if (all[0] < 0)
		return all[0];
	if (n_fds > 0)
		memcpy(all + 1, fds, n_fds * sizeof(int));
	int r = send_datagram(sock, &head, NULL, all, n_fds + 1);
	(void)close(all[0]); /* the receiver has its own */
	return r;
}

int bj_wire_write(int sock, enum bj_wire_type type, const void *body, size_t n_bytes)
{
	char datagram[sizeof(struct head) + 64];
	struct head head = { WIRE_MAGIC, (uint32_t)type, (uint32_t)n_bytes, 0 };
	bj_assert(n_bytes <= 64);
	memcpy(datagram, &head, sizeof(head));
	memcpy(datagram + sizeof(head), body, n_bytes);
	ssize_t n;
	do
		n = write(sock, datagram, sizeof(head) + n_bytes);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int bj_wire_read(int sock)
{
	struct head head;
	ssize_t n;
	do
		n = read(sock, &head, sizeof(head));
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 ? 0 : -errno;
	if (n != (ssize_t)sizeof(head) || head.magic != WIRE_MAGIC || head.n_bytes > 0 ||
	    head.type > BJ_WIRE_EXITED)
		return -EBADMSG;
	return (int)head.type;
}

static void take_fds(struct msghdr *hdr, struct bj_wire_msg *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n && msg->n_fds < BJ_WIRE_MAX_FDS; i++)
			memcpy(&msg->fds[msg->n_fds++], CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
	}
}

static bool head_ok(const struct head *head, size_t n_received, const struct bj_wire_msg *msg)
{
	if (n_received < sizeof(*head) || head->magic != WIRE_MAGIC ||
	    head->n_bytes > BJ_WIRE_MAX_BODY_BYTES)
		return false;
	if (head->in_memfd)
		return n_received == sizeof(*head) && msg->n_fds > 0;
	return n_received - sizeof(*head) == head->n_bytes;
}

int bj_wire_recv(int sock, void *body, size_t cap_bytes, int flags, struct bj_wire_msg *out_msg)
{
	struct head head = { 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { body, cap_bytes } };
	union control control;
	struct msghdr hdr = { .msg_iov = iov,
			      .msg_iovlen = 2,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;
	do
		n = recvmsg(sock, &hdr, flags | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 ? 0 : (errno == ECONNRESET ? 0 : -errno);
	struct bj_wire_msg msg = { 0 };
	take_fds(&hdr, &msg);
	if ((hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || !head_ok(&head, (size_t)n, &msg)) {
		bj_wire_drop(&msg);
		return -EBADMSG;
	}
	msg.type = (enum bj_wire_type)head.type;
	msg.n_bytes = head.n_bytes;
	msg.in_memfd = head.in_memfd != 0;
	*out_msg = msg;
	return 1;
}

void bj_wire_drop(struct bj_wire_msg *msg)
{
	for (size_t i = 0; i < msg->n_fds; i++) {
		if (msg->fds[i] >= 0)
			(void)close(msg->fds[i]); /* only ever our own pipes, sockets and memfds */
		msg->fds[i] = -1;
	}
	msg->n_fds = 0;
}
