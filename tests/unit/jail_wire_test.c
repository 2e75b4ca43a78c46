// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executor/base/macros.h"
#include "executor/jail/wire-internal.h"

struct pair {
	int fd[2];
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	assert_non_null(p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->fd), 0);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;
	for (int i = 0; i < 2; i++)
		bj_close_fdp(&p->fd[i]);
	free(p);
	return 0;
}

static void a_message_comes_with_its_descriptors(void **state)
{
	struct pair *p = *state;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char body[BJ_WIRE_INLINE_BYTES];
	struct bj_wire_msg msg;
	assert_int_equal(bj_wire_send(p->fd[0], BJ_WIRE_RUN, "hello", 5, (int[]){ null, null }, 2),
			 0);
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), 0, &msg), 1);
	assert_int_equal(msg.type, BJ_WIRE_RUN);
	assert_int_equal(msg.n_bytes, 5);
	assert_false(msg.in_memfd);
	assert_memory_equal(body, "hello", 5);
	assert_int_equal(msg.n_fds, 2);
	assert_int_not_equal(msg.fds[0], msg.fds[1]);
	assert_int_equal(fcntl(msg.fds[1], F_GETFD), FD_CLOEXEC);
	int taken = msg.fds[0];
	bj_wire_drop(&msg);
	assert_int_equal(fcntl(taken, F_GETFD), -1);
	(void)close(null);
}

static void a_long_body_travels_in_a_memfd(void **state)
{
	struct pair *p = *state;
	enum { LONG = 3 * BJ_WIRE_INLINE_BYTES };
	char *sent = malloc(LONG), *got = malloc(LONG);
	assert_non_null(sent);
	assert_non_null(got);
	for (size_t i = 0; i < LONG; i++)
		sent[i] = (char)(i * 31 % 251);
	struct bj_wire_msg msg;
	assert_int_equal(bj_wire_send(p->fd[0], BJ_WIRE_RUN, sent, LONG, (int[]){ p->fd[0] }, 1),
			 0);
	assert_int_equal(bj_wire_recv(p->fd[1], NULL, 0, 0, &msg), 1);
	assert_true(msg.in_memfd);
	assert_int_equal(msg.n_bytes, LONG);
	assert_int_equal(msg.n_fds, 2);
	assert_int_equal(pread(msg.fds[0], got, LONG, 0), LONG);
	assert_memory_equal(sent, got, LONG);
	bj_wire_drop(&msg);
	free(sent);
	free(got);
}

static void the_end_and_nothing_are_told_apart(void **state)
{
	struct pair *p = *state;
	struct bj_wire_msg msg;
	char body[64];
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), MSG_DONTWAIT, &msg), -EAGAIN);
	bj_close_fdp(&p->fd[0]);
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), MSG_DONTWAIT, &msg), 0);
	assert_int_equal(bj_wire_send(p->fd[1], BJ_WIRE_GO, NULL, 0, NULL, 0), -EPIPE);
}

static void what_is_not_ours_is_refused(void **state)
{
	struct pair *p = *state;
	struct bj_wire_msg msg;
	char body[64];
	assert_int_equal(write(p->fd[0], "x", 1), 1);
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), 0, &msg), -EBADMSG);
	char junk[128] = { 0 };
	assert_int_equal(write(p->fd[0], junk, sizeof(junk)), sizeof(junk));
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), 0, &msg), -EBADMSG);
}

static void a_body_larger_than_the_room_is_refused(void **state)
{
	struct pair *p = *state;
	struct bj_wire_msg msg;
	char body[4];
	assert_int_equal(bj_wire_send(p->fd[0], BJ_WIRE_FAILED, "12345", 5, (int[]){ p->fd[0] }, 1),
			 0);
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), 0, &msg), -EBADMSG);
	/* the descriptor that came along was closed: its number is free again */
	int probe = dup(0);
	(void)close(probe);
	assert_int_equal(bj_wire_send(p->fd[0], BJ_WIRE_FAILED, "1234", 4, NULL, 0), 0);
	assert_int_equal(bj_wire_recv(p->fd[1], body, sizeof(body), 0, &msg), 1);
	int after = dup(0);
	assert_int_equal(probe, after);
	(void)close(after);
}

static void too_large_is_an_error_of_the_sender(void **state)
{
	struct pair *p = *state;
	assert_int_equal(bj_wire_send(p->fd[0], BJ_WIRE_RUN, "", (size_t)BJ_WIRE_MAX_BODY_BYTES + 1,
				      NULL, 0),
			 -EMSGSIZE);
}

static void write_and_read_speak_the_same(void **state)
{
	struct pair *p = *state;
	struct bj_wire_ready ready = { .listener = 5 }, got = { 0 };
	struct bj_wire_msg msg;
	assert_int_equal(bj_wire_write(p->fd[0], BJ_WIRE_READY, &ready, sizeof(ready)), 0);
	assert_int_equal(bj_wire_recv(p->fd[1], &got, sizeof(got), 0, &msg), 1);
	assert_int_equal(msg.type, BJ_WIRE_READY);
	assert_int_equal(msg.n_bytes, sizeof(got));
	assert_int_equal(got.listener, 5);
	assert_int_equal(bj_wire_send(p->fd[1], BJ_WIRE_GO, NULL, 0, NULL, 0), 0);
	assert_int_equal(bj_wire_read(p->fd[0]), BJ_WIRE_GO);
	assert_int_equal(bj_wire_send(p->fd[1], BJ_WIRE_FAILED, "x", 1, NULL, 0),
			 0); /* a body is not expected there */
	assert_int_equal(bj_wire_read(p->fd[0]), -EBADMSG);
	bj_close_fdp(&p->fd[1]);
	assert_int_equal(bj_wire_read(p->fd[0]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_message_comes_with_its_descriptors, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_long_body_travels_in_a_memfd, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_and_nothing_are_told_apart, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_not_ours_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_body_larger_than_the_room_is_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(too_large_is_an_error_of_the_sender, setup,
						teardown),
		cmocka_unit_test_setup_teardown(write_and_read_speak_the_same, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
