// SPDX-License-Identifier: Apache-2.0
/*
 * The notified socket calls: connect, bind, send*. What stays in the network namespace of the action is nobody's business: loopback,
 * abstract names that exist in it, netlink. The rest is handed on, with the outcome where the namespace leaves no doubt.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

enum {
	DNS_PORT = 53,
	MAX_MESSAGES = 1024, /* the kernel's own limit of sendmmsg */
	MESSAGES_AT_ONCE = 16,
};

static bool has_only_loopback(const struct bj_seen *s)
{
	struct bj_observer *o = s->o;

	if (o->has_only_loopback < 0)
		o->has_only_loopback = bj_caller_has_only_loopback(s->pid);
	return o->has_only_loopback == 1;
}

static void see_inet(const struct bj_seen *s, const struct bj_address *address, enum bj_op op)
{
	bool is_bind = op == BJ_OP_BIND;
	struct bj_record *record;

	/* To connect to "any" is to connect to oneself; to bind to it is local where there is nobody else. */
	/* Port 53 of loopback is where libc asks for a host name when no server is configured: the commonest way to the network. */
	bool is_own = address->is_loopback && address->port != DNS_PORT;

	if (is_own || (address->is_any && (!is_bind || has_only_loopback(s))))
		return;
	record = bj_seen_begin(s);
	if (!record)
		return;
	record->attempt.op = op;
	record->attempt.family = address->family;
	record->attempt.port = address->port;
	memcpy(record->attempt.address, address->text, sizeof(record->attempt.address));
	if (!address->is_loopback && has_only_loopback(s))
		record->attempt.error = is_bind ? EADDRNOTAVAIL : ENETUNREACH;
}

static void see_abstract(const struct bj_seen *s, const struct bj_address *address, enum bj_op op)
{
	struct bj_record *record;

	/* Abstract names belong to the network namespace: what can be reached, or is made, is the action's own. */
	if (op == BJ_OP_BIND || bj_caller_has_abstract(s->pid, address->text))
		return;
	record = bj_seen_begin(s);
	if (!record)
		return;
	record->attempt.op = op;
	record->attempt.family = AF_UNIX;
	record->attempt.error = ECONNREFUSED;
	memcpy(record->attempt.address, address->text, sizeof(record->attempt.address));
}

static void see_unix_path(const struct bj_seen *s, const struct bj_address *address, enum bj_op op)
{
	struct bj_place place = { .dirfd = AT_FDCWD };
	struct bj_try try = { .op = op == BJ_OP_BIND ? BJ_OP_MKNOD : BJ_OP_STAT };
	struct bj_record *record = bj_seen_begin(s);
	struct bj_attempt *a;

	if (!record)
		return;
	a = &record->attempt;
	memcpy(record->written, address->path.ptr, address->path.len);
	a->written = bj_str_n(record->written, address->path.len);
	if (!bj_seen_join(s, record, &place) || !bj_seen_normalize(s, record, false))
		return;
	a->cls = bj_seen_classify(s, a->path);
	if (a->cls == BJ_PATH_QUIET) {
		bj_seen_discard(s, record);
		return;
	}
	bj_observer_predict(s->o, record, &try, bj_seen_caller_of(s));
	a->op = op;
	a->family = AF_UNIX;
	if (a->error == EEXIST)
		a->error = EADDRINUSE;
	if (a->resolved.len > 0 && !bj_str_eq(a->resolved, a->path)) {
		enum bj_path_class there = bj_seen_classify(s, a->resolved);

		if (there == BJ_PATH_QUIET)
			bj_seen_discard(s, record);
		else if (there != BJ_PATH_UNKNOWN)
			a->cls = there;
	}
}

void bj_see_address(const struct bj_seen *s, uint64_t at, uint64_t n_bytes, enum bj_op op)
{
	struct bj_address address;
	char bytes[BJ_ADDRESS_BYTES];
	sa_family_t family;

	if (at < BJ_NULL_PAGE_BYTES || n_bytes < sizeof(family) || n_bytes > sizeof(bytes))
		return; /* none, EFAULT or EINVAL */
	if (bj_caller_read(s->pid, at, bytes, (size_t)n_bytes) != 0) {
		s->o->pending_dropped++;
		return;
	}
	/* UDP takes an unspecified family for IPv4. */
	memcpy(&family, bytes, sizeof(family));
	if (family == AF_UNSPEC && op == BJ_OP_SEND) {
		family = AF_INET;
		memcpy(bytes, &family, sizeof(family));
	}
	if (!bj_address_decode(bytes, (size_t)n_bytes, &address))
		return;
	switch (address.family) {
	case AF_UNSPEC: /* connect: "disconnect" */
	case AF_NETLINK:
		break;
	case AF_UNIX:
		if (address.is_abstract)
			see_abstract(s, &address, op);
		else if (address.path.len > 0)
			see_unix_path(s, &address, op);
		break;
	default:
		see_inet(s, &address, op);
		break;
	}
}

/* Name and its length stand first in struct msghdr, as wide as the caller's pointers. */
static void see_msghdr(const struct bj_seen *s, const void *bytes)
{
	uint64_t name;
	uint32_t name32[2];
	uint32_t len;

	if (s->is_32bit) {
		memcpy(name32, bytes, sizeof(name32));
		bj_see_address(s, name32[0], name32[1], BJ_OP_SEND);
		return;
	}
	memcpy(&name, bytes, sizeof(name));
	memcpy(&len, (const char *)bytes + sizeof(name), sizeof(len));
	bj_see_address(s, name, len, BJ_OP_SEND);
}

static void see_messages(const struct bj_seen *s, uint64_t at, uint64_t n_messages, size_t stride)
{
	char bytes[MESSAGES_AT_ONCE * sizeof(struct mmsghdr)];
	size_t n = (size_t)BJ_MIN(n_messages, (uint64_t)MAX_MESSAGES);

	if (at < BJ_NULL_PAGE_BYTES)
		return;
	for (size_t i = 0; i < n;) {
		size_t n_now = BJ_MIN(n - i, (size_t)MESSAGES_AT_ONCE);

		if (bj_caller_read(s->pid, at + i * stride, bytes, n_now * stride) != 0) {
			s->o->pending_dropped++;
			return;
		}
		for (size_t j = 0; j < n_now; j++)
			see_msghdr(s, bytes + j * stride);
		i += n_now;
	}
}

void bj_see_sendmsg(const struct bj_seen *s, uint64_t at)
{
	/* The kernel's msghdr of 32-bit callers has seven words. */
	see_messages(s, at, 1, s->is_32bit ? 28 : sizeof(struct msghdr));
}

void bj_see_sendmmsg(const struct bj_seen *s, uint64_t at, uint64_t n_messages)
{
	see_messages(s, at, n_messages, s->is_32bit ? 32 : sizeof(struct mmsghdr));
}

void bj_see_socket(const struct bj_seen *s, int family)
{
	struct bj_record *record;

	if (family == AF_UNIX || family == AF_NETLINK)
		return;
	record = bj_seen_begin(s);
	if (!record)
		return;
	record->attempt.op = BJ_OP_SOCKET;
	record->attempt.family = family;
}

void bj_see_socketcall(const struct bj_seen *s)
{
	static const uint8_t n_args[] = { [1] = 3, [2] = 3, [3] = 3, [11] = 6, [16] = 3, [20] = 4 };
	uint64_t which = bj_seen_arg(s, 0);
	uint32_t a[6] = { 0 };

	if (which >= sizeof(n_args) || n_args[which] == 0 || bj_seen_arg(s, 1) < BJ_NULL_PAGE_BYTES)
		return;
	if (bj_caller_read(s->pid, bj_seen_arg(s, 1), a, n_args[which] * sizeof(a[0])) != 0) {
		s->o->pending_dropped++;
		return;
	}
	switch (which) {
	case 1:
		bj_see_socket(s, (int)a[0]);
		break;
	case 2:
		bj_see_address(s, a[1], a[2], BJ_OP_BIND);
		break;
	case 3:
		bj_see_address(s, a[1], a[2], BJ_OP_CONNECT);
		break;
	case 11:
		bj_see_address(s, a[4], a[5], BJ_OP_SEND);
		break;
	case 16:
		bj_see_sendmsg(s, a[1]);
		break;
	case 20:
		bj_see_sendmmsg(s, a[1], a[2]);
		break;
	default:
		break;
	}
}
