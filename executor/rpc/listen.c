// SPDX-License-Identifier: Apache-2.0
/*
 * Listening sockets. TCP: every address that the host name means gets a socket, all on one port; SO_REUSEADDR against
 * connections of a former process in TIME_WAIT, never SO_REUSEPORT, so that a port in use is an error.
 *
 * Unix sockets outlive their process as a file, and bind() refuses the name then. Removing the file blindly would steal
 * the name from a server that is alive, so:
 *
 *	lock PATH.lock  - held: one of ours is alive                        -> ALREADY_EXISTS
 *	connect to PATH - accepted: somebody else's server is alive         -> ALREADY_EXISTS
 *	                  refused: a dead socket                            -> unlink
 *	PATH is no socket                                                   -> INVALID_ARGUMENT, and it stays
 *	bind, listen; at the end unlink PATH if it is still our inode, unlink PATH.lock, unlock
 *
 * The lock file is removed under the lock; whoever gets the lock of a removed file sees that by its inode and starts
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/rpc/rpc-internal.h"

enum { BACKLOG = 1024, PORT_TRIES = 16, LOCK_TRIES = 16 };

static enum bj_code bind_code(int errnum)
{
	return errnum == EADDRINUSE ? BJ_ALREADY_EXISTS : BJ_UNAVAILABLE;
}

void bj_rpc_listener_close(struct bj_rpc_listener *listener)
{
	bj_close_fdp(&listener->fd);
	struct stat st;
	if (listener->path && lstat(listener->path, &st) == 0 && st.st_dev == listener->dev &&
	    st.st_ino == listener->ino)
		(void)unlink(listener->path); /* a stale file does no harm */
	if (listener->lock_path)
		(void)unlink(listener->lock_path);
	bj_close_fdp(&listener->lock_fd);
	bj_freep(&listener->path);
	bj_freep(&listener->lock_path);
}

/* ---- unix ---- */

/* The descriptor of a lock that is ours and still has its name; -EWOULDBLOCK when another holds it; else -errno. */
static int take_lock(const char *lock_path)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		bj_cleanup(bj_close_fdp) int fd =
			open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		struct stat held, named;
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &held) < 0)
			return -errno;
		if (lstat(lock_path, &named) == 0 && held.st_dev == named.st_dev &&
		    held.st_ino == named.st_ino)
			return BJ_STEAL_FD(fd);
	}
	return -EWOULDBLOCK; /* others come and go at every try: it is in use */
}

static bool is_alive(const struct sockaddr_un *sun)
{
	bj_cleanup(bj_close_fdp) int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return true; /* can't tell: don't steal */
	/* EAGAIN: the backlog is full, so somebody listens. */
	return connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 || errno == EAGAIN;
}

/* Makes the name free for bind(). */
static int clear_name(const struct sockaddr_un *sun, struct bj_err *err)
{
	struct stat st;
	if (lstat(sun->sun_path, &st) < 0)
		return errno == ENOENT
			       ? 0
			       : bj_err_set_at(err, BJ_UNAVAILABLE, errno, __FILE__, __LINE__,
					       "look at \"%s\": %m", sun->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "\"%s\" is not a socket",
				  sun->sun_path);
	if (is_alive(sun))
		return bj_err_set(err, BJ_ALREADY_EXISTS, "a server listens on \"%s\"",
				  sun->sun_path);
	if (unlink(sun->sun_path) < 0)
		return bj_err_set_at(err, BJ_UNAVAILABLE, errno, __FILE__, __LINE__,
				     "remove the dead socket \"%s\": %m", sun->sun_path);
	return 0;
}

static int bind_unix(const struct sockaddr_un *sun, struct bj_rpc_listener *listener,
		     struct bj_err *err)
{
	struct stat st;
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0 || bind(listener->fd, (const struct sockaddr *)sun, sizeof(*sun)) < 0)
		return bj_err_set_at(err, bind_code(errno), errno, __FILE__, __LINE__,
				     "bind \"%s\": %m", sun->sun_path);
	if (lstat(sun->sun_path, &st) < 0 || listen(listener->fd, BACKLOG) < 0)
		return bj_err_set_at(err, BJ_UNAVAILABLE, errno, __FILE__, __LINE__,
				     "listen on \"%s\": %m", sun->sun_path);
	listener->dev = st.st_dev;
	listener->ino = st.st_ino;
	return 0;
}

static int lock_name(const char *path, struct bj_rpc_listener *listener, struct bj_err *err)
{
	size_t size = strlen(path) + sizeof(".lock");
	bj_cleanup(bj_freep) char *lock_path = bj_malloc(size);
	listener->path = bj_strdup(path);
	if (!lock_path || !listener->path)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to listen on \"%s\"",
				  path);
	(void)snprintf(lock_path, size, "%s.lock", path); /* fits */
	int fd = take_lock(lock_path);
	if (fd == -EWOULDBLOCK)
		return bj_err_set(err, BJ_ALREADY_EXISTS, "a server holds \"%s\"", lock_path);
	if (fd < 0)
		return bj_err_set_at(err, BJ_UNAVAILABLE, -fd, __FILE__, __LINE__,
				     "lock \"%s\": %s", lock_path, strerror(-fd));
	listener->lock_fd = fd;
	listener->lock_path = BJ_STEAL_PTR(lock_path);
	return 0;
}

static int listen_unix(const char *path, struct bj_rpc_listener *listener, struct bj_err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof(sun.sun_path))
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "a socket path has 1 to %zu bytes: \"%s\"",
				  sizeof(sun.sun_path) - 1, path);
	memcpy(sun.sun_path, path, len);
	int rc = lock_name(path, listener, err);
	if (rc == 0)
		rc = clear_name(&sun, err);
	if (rc == 0)
		rc = bind_unix(&sun, listener, err);
	return rc;
}

/* ---- TCP ---- */

/* "HOST:PORT", "[V6]:PORT", ":PORT" and "*:PORT" for every address. @host has room for the whole of @addr. */
static bool split_address(const char *addr, char *host, uint64_t *out_port)
{
	const char *colon = strrchr(addr, ':');
	if (!colon || !bj_str_to_u64(bj_str_of(colon + 1), out_port) || *out_port > UINT16_MAX)
		return false;
	struct bj_str name = bj_str_n(addr, (size_t)(colon - addr));
	if (name.len > 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
		name = bj_str_sub(name, 1, name.len - 1);
	else if (bj_str_find(name, ':', 0) < name.len)
		return false; /* a bare IPv6 address is ambiguous */
	if (bj_str_eq(name, BJ_STR_LIT("*")))
		name.len = 0;
	if (name.len)
		memcpy(host, name.ptr, name.len);
	host[name.len] = '\0';
	return true;
}

static void set_port(struct sockaddr *sa, uint16_t port)
{
	if (sa->sa_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
}

static int bound_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr = { .v6 = { 0 } };
	socklen_t len = sizeof(addr);
	if (getsockname(fd, &addr.any, &len) < 0)
		return -errno;
	return ntohs(addr.any.sa_family == AF_INET6 ? addr.v6.sin6_port : addr.v4.sin_port);
}

/* A socket that listens, or -errno. The wildcards of both families are bound apart, hence V6ONLY. */
static int listen_one(const struct addrinfo *ai)
{
	const int one = 1;
	bj_cleanup(bj_close_fdp) int fd =
		socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (ai->ai_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return BJ_STEAL_FD(fd);
}

/*
 * All addresses on one port. Those of a family that this machine lacks are passed over.
 * Return: 0 with at least one listener more and *port set; -errno of the first that failed otherwise.
 */
static int listen_list(const struct addrinfo *list, uint16_t *port,
		       struct bj_rpc_listener *listeners, size_t *n_listeners)
{
	int first_error = 0;
	size_t n_before = *n_listeners;
	for (const struct addrinfo *ai = list; ai && *n_listeners < BJ_RPC_MAX_LISTENERS;
	     ai = ai->ai_next) {
		set_port(ai->ai_addr, *port);
		int fd = listen_one(ai);
		if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) {
			first_error = first_error ? first_error : fd;
			continue;
		}
		int bound = fd < 0 ? fd : bound_port(fd);
		if (fd >= 0)
			listeners[(*n_listeners)++] =
				(struct bj_rpc_listener){ .fd = fd, .lock_fd = -EBADF };
		if (bound < 0) {
			while (*n_listeners > n_before)
				bj_rpc_listener_close(&listeners[--*n_listeners]);
			return bound;
		}
		*port = (uint16_t)bound;
	}
	return *n_listeners > n_before ? 0 : first_error ? first_error : -EADDRNOTAVAIL;
}

/* Without a name getaddrinfo() asks nobody: it gives the wildcards, or without AI_PASSIVE the loopback addresses. */
static int resolve(const char *addr, const char *host, struct addrinfo **out_list,
		   struct bj_err *err)
{
	bool is_local = strcasecmp(host, "localhost") == 0;
	bool is_literal = addr[0] == '[';
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (is_local ? 0 : AI_PASSIVE) |
			    (is_literal ? AI_NUMERICHOST : 0),
	};
	int rc = getaddrinfo(*host && !is_local ? host : NULL, "0", &hints, out_list);
	if (rc == 0)
		return 0;
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "address \"%s\": %s", addr, gai_strerror(rc));
}

static int listen_tcp(const char *addr, struct bj_rpc_listener *listeners, size_t *n_listeners,
		      int *out_port, struct bj_err *err)
{
	uint64_t wanted = 0;
	bj_cleanup(bj_freep) char *host = bj_malloc(strlen(addr) + 1);
	if (!host)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to listen on \"%s\"",
				  addr);
	if (!split_address(addr, host, &wanted))
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "\"%s\" is not HOST:PORT, [IPV6]:PORT or unix:PATH", addr);
	struct addrinfo *list = NULL;
	int rc = resolve(addr, host, &list, err);
	if (rc < 0)
		return rc;
	uint16_t port = 0;
	/* Port 0: what the first address got may be taken on the second. */
	for (int i = 0; i < PORT_TRIES; i++) {
		port = (uint16_t)wanted;
		rc = listen_list(list, &port, listeners, n_listeners);
		if (rc != -EADDRINUSE || wanted != 0)
			break;
	}
	freeaddrinfo(list);
	if (rc < 0)
		return bj_err_set_at(err, bind_code(-rc), -rc, __FILE__, __LINE__,
				     "listen on \"%s\": %s", addr, strerror(-rc));
	*out_port = port;
	return 0;
}

/* ---- either ---- */

int bj_rpc_listen(const char *addr, struct bj_rpc_listener *listeners, size_t *n_listeners,
		  int *out_port, struct bj_err *err)
{
	struct bj_str rest = bj_str_of(addr);
	if (*n_listeners == BJ_RPC_MAX_LISTENERS)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "more than %d listening sockets",
				  BJ_RPC_MAX_LISTENERS);
	if (!bj_str_has_prefix(rest, BJ_STR_LIT("unix:")))
		return listen_tcp(addr, listeners, n_listeners, out_port, err);
	const char *path = addr + strlen("unix:");
	if (bj_str_has_prefix(bj_str_of(path), BJ_STR_LIT("///")))
		path += 2; /* unix:///PATH, the form of a URI */
	struct bj_rpc_listener *listener = &listeners[*n_listeners];
	*listener = (struct bj_rpc_listener){ .fd = -EBADF, .lock_fd = -EBADF };
	int rc = listen_unix(path, listener, err);
	if (rc < 0) {
		bj_rpc_listener_close(listener);
		return rc;
	}
	(*n_listeners)++;
	*out_port = 0;
	return 0;
}
