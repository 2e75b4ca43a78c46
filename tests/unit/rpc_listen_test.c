// SPDX-License-Identifier: Apache-2.0
/*
 * Listening: addresses, ports in use, unix sockets of the living and the dead, the connection cap, and running out of
 * descriptors. The last runs a server in a child, which is this program with the argument "few-descriptors".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/rpc-fixture.h"

static void hello_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	reply_text(call, "hello");
}
static const struct bj_rpc_handler hello = { .open = hello_open };
static const struct bj_rpc_method methods[] = { { "/t.T/Hello", BJ_RPC_UNARY, &hello, NULL } };

static enum bj_code say_hello(struct fixture *fixture)
{
	struct probe probe;
	probe_init(&probe);
	fixture_call(fixture, &probe, "/t.T/Hello", BJ_RPC_UNARY, 20 * 1000, "");
	probe_wait(&probe);
	enum bj_code code = probe.code;
	probe_deinit(&probe);
	return code;
}

/* A server that is only good for listening. */
struct listener {
	struct bj_rpc_loop *loop;
	struct bj_rpc_server *server;
};

static void listener_up(struct listener *listener)
{
	struct bj_err err = BJ_ERR_NULL;
	bj_rpc_init();
	assert_int_equal(bj_rpc_loop_new(&listener->loop, &err), 0);
	assert_int_equal(bj_rpc_server_new(&listener->loop, 1, NULL, &listener->server, &err), 0);
}

static void listener_down(struct listener *listener)
{
	bj_rpc_server_stop(listener->server, 0);
	bj_rpc_loop_stop(listener->loop);
	bj_rpc_deinit();
}

/* What listening on @addr says; the server is gone afterwards. */
static int try_listen(const char *addr, char *text, size_t text_size)
{
	struct listener listener;
	struct bj_err err = BJ_ERR_NULL;
	int port = -1;
	listener_up(&listener);
	int rc = bj_rpc_server_listen(listener.server, addr, &port, &err);
	if (text)
		(void)snprintf(text, text_size, "%s", err.msg);
	if (rc < 0)
		assert_int_equal(port, -1);
	listener_down(&listener);
	return rc;
}

/* ---- addresses ---- */

static void bad_addresses_are_refused(void **state)
{
	(void)state;
	/* No names here: looking one up may take long. */
	static const char *const bad[] = {
		"",	   "localhost",	     "127.0.0.1",     "127.0.0.1:",	 "127.0.0.1:-1",
		":65536",  "127.0.0.1:http", "127.0.0.1:080", "::1:80",		 "[::1",
		"[zz]:80", "[]:80",	     "unix:",	      "unix-abstract:x",
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++)
		if (try_listen(bad[i], NULL, 0) != -BJ_INVALID_ARGUMENT)
			fail_msg("\"%s\" was not refused", bad[i]);
}

static void good_addresses_serve(void **state)
{
	(void)state;
	static const char *const good[] = { "127.0.0.1:0", "localhost:0", ":0", "*:0",
					    "0.0.0.0:0" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(good); i++) {
		struct fixture fixture;
		fixture_up(&fixture, NULL, methods, 1, good[i]);
		assert_in_range(fixture.port, 1, 65535);
		assert_int_equal(say_hello(&fixture), BJ_OK);
		fixture_down(&fixture, 0);
	}
}

static int tcp_connect(int port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	return fd;
}

static void port_in_use_is_refused(void **state)
{
	(void)state;
	struct fixture fixture;
	char addr[32], text[1024];
	fixture_up(&fixture, NULL, methods, 1, NULL);
	(void)snprintf(addr, sizeof(addr), "127.0.0.1:%d", fixture.port);
	assert_int_equal(try_listen(addr, text, sizeof(text)), -BJ_ALREADY_EXISTS);
	assert_non_null(strstr(text, addr));
	assert_non_null(strstr(text, "Address already in use"));
	assert_int_equal(say_hello(&fixture), BJ_OK);
	fixture_down(&fixture, 0);
	assert_int_equal(try_listen(addr, NULL, 0), 0); /* connections in TIME_WAIT do not matter */
}

static void foreign_address_is_unavailable(void **state)
{
	(void)state;
	assert_int_equal(try_listen("192.0.2.1:0", NULL, 0), -BJ_UNAVAILABLE); /* TEST-NET-1 */
}

/* ---- unix sockets ---- */

struct place {
	char dir[32];
	char path[64], lock[64];
	char addr[80];
};

static void place_make(struct place *place)
{
	(void)snprintf(place->dir, sizeof(place->dir), "/tmp/bj-listen-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	(void)snprintf(place->path, sizeof(place->path), "%s/socket", place->dir);
	(void)snprintf(place->lock, sizeof(place->lock), "%s/socket.lock", place->dir);
	(void)snprintf(place->addr, sizeof(place->addr), "unix:%s", place->path);
}

/* The directory must be empty: a server leaves nothing behind. */
static void place_remove(struct place *place)
{
	assert_int_equal(rmdir(place->dir), 0);
}

/* A socket file with @backlog >= 0: somebody listens as long as the result is open. */
static int foreign_socket(const char *path, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	if (backlog >= 0)
		assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static void unix_socket_serves_and_goes(void **state)
{
	(void)state;
	struct place place;
	struct fixture fixture;
	struct stat st;
	place_make(&place);
	fixture_up(&fixture, NULL, methods, 1, place.addr);
	assert_int_equal(fixture.port, 0);
	assert_int_equal(say_hello(&fixture), BJ_OK);
	assert_int_equal(lstat(place.lock, &st), 0);
	fixture_down(&fixture, 0);
	place_remove(&place);
}

static void uri_form_means_the_same(void **state)
{
	(void)state;
	struct place place;
	struct fixture fixture;
	struct stat st;
	char addr[96];
	place_make(&place);
	(void)snprintf(addr, sizeof(addr), "unix://%s", place.path);
	fixture_up(&fixture, NULL, methods, 1, addr);
	assert_int_equal(lstat(place.path, &st), 0);
	assert_int_equal(say_hello(&fixture), BJ_OK);
	fixture_down(&fixture, 0);
	place_remove(&place);
}

static void live_socket_is_not_stolen(void **state)
{
	(void)state;
	struct place place;
	struct fixture fixture;
	char text[1024];
	place_make(&place);
	fixture_up(&fixture, NULL, methods, 1, place.addr);
	assert_int_equal(try_listen(place.addr, text, sizeof(text)), -BJ_ALREADY_EXISTS);
	assert_non_null(strstr(text, place.path));
	assert_int_equal(say_hello(&fixture), BJ_OK);
	fixture_down(&fixture, 0);
	place_remove(&place);
}

static void dead_socket_is_replaced(void **state)
{
	(void)state;
	struct place place;
	struct fixture fixture;
	place_make(&place);
	close(foreign_socket(place.path, 1)); /* as a killed server leaves it: file and lock file */
	FILE *lock = fopen(place.lock, "w");
	assert_non_null(lock);
	(void)fclose(lock);
	fixture_up(&fixture, NULL, methods, 1, place.addr);
	assert_int_equal(say_hello(&fixture), BJ_OK);
	fixture_down(&fixture, 0);
	place_remove(&place);
}

static void foreign_live_socket_is_not_stolen(void **state)
{
	(void)state;
	struct place place;
	place_make(&place);
	int fd = foreign_socket(place.path, 0);
	/* The first try fills the backlog of the foreigner, the second finds it full. */
	assert_int_equal(try_listen(place.addr, NULL, 0), -BJ_ALREADY_EXISTS);
	assert_int_equal(try_listen(place.addr, NULL, 0), -BJ_ALREADY_EXISTS);
	close(fd);
	assert_int_equal(unlink(place.path), 0);
	place_remove(&place);
}

static void other_files_are_not_removed(void **state)
{
	(void)state;
	struct place place;
	place_make(&place);
	FILE *file = fopen(place.path, "w");
	assert_non_null(file);
	(void)fclose(file);
	assert_int_equal(try_listen(place.addr, NULL, 0), -BJ_INVALID_ARGUMENT);
	assert_int_equal(unlink(place.path), 0);
	assert_int_equal(symlink("nowhere", place.path), 0);
	assert_int_equal(try_listen(place.addr, NULL, 0), -BJ_INVALID_ARGUMENT);
	assert_int_equal(unlink(place.path), 0);
	place_remove(&place);
}

static void socket_of_a_successor_stays(void **state)
{
	(void)state;
	struct place place;
	struct listener listener;
	struct bj_err err = BJ_ERR_NULL;
	int port;
	place_make(&place);
	listener_up(&listener);
	assert_int_equal(bj_rpc_server_listen(listener.server, place.addr, &port, &err), 0);
	assert_int_equal(unlink(place.path), 0);
	int fd = foreign_socket(place.path, 1);
	listener_down(&listener);
	assert_int_equal(unlink(place.path), 0);
	close(fd);
	place_remove(&place);
}

static void path_limits_are_said(void **state)
{
	(void)state;
	char addr[256] = "unix:/", text[1024];
	memset(addr + 6, 'x', 107); /* with the slash one more than sun_path takes with its NUL */
	assert_int_equal(try_listen(addr, text, sizeof(text)), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(text, "1 to 107 bytes"));
	assert_int_equal(try_listen("unix:/nonexistent/socket", NULL, 0), -BJ_UNAVAILABLE);
}

static void several_addresses_at_once(void **state)
{
	(void)state;
	struct place place;
	struct listener listener;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_rpc_channel *channels[2];
	int port = 0;
	char target[32];
	place_make(&place);
	listener_up(&listener);
	assert_int_equal(bj_rpc_server_add(listener.server, methods, 1, &err), 0);
	assert_int_equal(bj_rpc_server_listen(listener.server, place.addr, &port, &err), 0);
	assert_int_equal(bj_rpc_server_listen(listener.server, "127.0.0.1:0", &port, &err), 0);
	assert_int_equal(bj_rpc_loop_start(listener.loop, &err), 0);
	assert_int_equal(bj_rpc_server_start(listener.server, &err), 0);
	(void)snprintf(target, sizeof(target), "127.0.0.1:%d", port);
	assert_int_equal(bj_rpc_channel_new(target, 0, &channels[0], &err), 0);
	assert_int_equal(bj_rpc_channel_new(place.addr, 0, &channels[1], &err), 0);
	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture = { .channel = channels[i], .client_loop = listener.loop };
		assert_int_equal(say_hello(&fixture), BJ_OK);
		bj_rpc_channel_free(channels[i]);
	}
	listener_down(&listener);
	place_remove(&place);
}

/* ---- the cap ---- */

/* An accepted connection gets SETTINGS without asking, a refused one gets its end. Waits for either. */
static bool is_accepted(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK);
	assert_true(n >= 0 || errno == ECONNRESET);
	return n > 0;
}

static void connections_are_capped(void **state)
{
	(void)state;
	enum { CAP = 3, ROUNDS = 50 };
	const struct bj_rpc_server_opts opts = { .max_connections = CAP };
	struct fixture fixture;
	int fds[CAP];
	fixture_up(&fixture, &opts, methods, 1, NULL);
	for (size_t i = 0; i < CAP; i++) {
		fds[i] = tcp_connect(fixture.port);
		assert_true(is_accepted(fds[i]));
	}
	assert_int_equal(say_hello(&fixture), BJ_UNAVAILABLE);
	/* Each that goes makes room for one, never for two. */
	for (size_t round = 0; round < ROUNDS; round++) {
		close(fds[round % CAP]);
		for (;;) {
			int fd = tcp_connect(fixture.port);
			fds[round % CAP] = fd;
			if (is_accepted(fd))
				break;
			close(fd);
		}
		int fd = tcp_connect(fixture.port);
		assert_false(is_accepted(fd));
		close(fd);
	}
	for (size_t i = 0; i < CAP; i++)
		close(fds[i]);
	enum bj_code code = BJ_UNAVAILABLE;
	while (code == BJ_UNAVAILABLE)
		code = say_hello(&fixture);
	assert_int_equal(code, BJ_OK);
	fixture_down(&fixture, 0);
}

/* ---- out of descriptors ---- */

enum { CHILD_SOFT_LIMIT = 48, CHILD_HARD_LIMIT = 64, N_CONNECTIONS = 100 };

/* Serves until its stdin ends. */
static int child_main(void)
{
	const struct rlimit limit = { CHILD_SOFT_LIMIT, CHILD_HARD_LIMIT };
	struct rlimit raised;
	struct fixture fixture;
	char byte;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 2;
	fixture_up(&fixture, NULL, methods, 1, NULL);
	if (getrlimit(RLIMIT_NOFILE, &raised) < 0 || raised.rlim_cur != CHILD_HARD_LIMIT)
		return 3; /* bj_rpc_init() raises it */
	(void)printf("%d\n", fixture.port);
	(void)fflush(stdout);
	ssize_t n = read(STDIN_FILENO, &byte, 1);
	fixture_down(&fixture, 0);
	return n == 0 ? 0 : 4;
}

struct child {
	pid_t pid;
	int to_fd, from_fd;
	int port;
};

/* A line of digits. */
static int read_number(int fd)
{
	char line[16];
	uint64_t number = 0;
	size_t len = 0;
	while (len < sizeof(line) && read(fd, &line[len], 1) == 1 && line[len] != '\n')
		len++;
	assert_true(bj_str_to_u64(bj_str_n(line, len), &number));
	return (int)number;
}

static void child_start(struct child *child)
{
	extern char **environ;
	char self[] = "/proc/self/exe", mode[] = "few-descriptors";
	char *const argv[] = { self, mode, NULL };
	int to[2], from[2];
	posix_spawn_file_actions_t actions;
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO), 0);
	assert_int_equal(posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO), 0);
	assert_int_equal(posix_spawn(&child->pid, self, &actions, NULL, argv, environ), 0);
	(void)posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(from[1]);
	child->to_fd = to[1];
	child->from_fd = from[0];
	child->port = read_number(from[0]);
}

static void child_end(struct child *child)
{
	int status = -1;
	close(child->to_fd);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(child->from_fd);
}

static bool is_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, 0) == 1;
}

static void server_outlives_lack_of_descriptors(void **state)
{
	(void)state;
	struct child child;
	int fds[N_CONNECTIONS];
	child_start(&child);
	for (size_t i = 0; i < N_CONNECTIONS; i++)
		fds[i] = tcp_connect(child.port); /* the kernel's backlog takes them */
	assert_true(is_accepted(fds[0]));
	assert_false(is_readable(fds[N_CONNECTIONS - 1])); /* more than there can be */
	/* Those that wait get in as others go, so the accept loop goes on after EMFILE. */
	for (size_t i = 0; i + 1 < N_CONNECTIONS; i++)
		close(fds[i]);
	assert_true(is_accepted(fds[N_CONNECTIONS - 1]));
	close(fds[N_CONNECTIONS - 1]);

	struct fixture own; /* its client is what we need */
	struct bj_err err = BJ_ERR_NULL;
	char target[32];
	fixture_up(&own, NULL, methods, 1, NULL);
	(void)snprintf(target, sizeof(target), "127.0.0.1:%d", child.port);
	struct fixture theirs = { .client_loop = own.client_loop };
	assert_int_equal(bj_rpc_channel_new(target, 0, &theirs.channel, &err), 0);
	assert_int_equal(say_hello(&theirs), BJ_OK);
	bj_rpc_channel_free(theirs.channel);
	fixture_down(&own, 0);
	child_end(&child);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_addresses_are_refused),
		cmocka_unit_test(good_addresses_serve),
		cmocka_unit_test(port_in_use_is_refused),
		cmocka_unit_test(foreign_address_is_unavailable),
		cmocka_unit_test(unix_socket_serves_and_goes),
		cmocka_unit_test(uri_form_means_the_same),
		cmocka_unit_test(live_socket_is_not_stolen),
		cmocka_unit_test(dead_socket_is_replaced),
		cmocka_unit_test(foreign_live_socket_is_not_stolen),
		cmocka_unit_test(other_files_are_not_removed),
		cmocka_unit_test(socket_of_a_successor_stays),
		cmocka_unit_test(path_limits_are_said),
		cmocka_unit_test(several_addresses_at_once),
		cmocka_unit_test(connections_are_capped),
		cmocka_unit_test(server_outlives_lack_of_descriptors),
	};
	if (argc == 2 && strcmp(argv[1], "few-descriptors") == 0)
		return child_main();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
