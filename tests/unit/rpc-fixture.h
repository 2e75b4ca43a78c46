// SPDX-License-Identifier: Apache-2.0
/**
 * tests/unit/rpc-fixture.h - a server and a client of executor/rpc in one process, each with a loop of its own.
 * Waiting is for events, with a limit after which the test fails; nothing sleeps instead of an event.
 */
#ifndef BJ_TESTS_RPC_FIXTURE_H
#define BJ_TESTS_RPC_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs all of the above */

#include <pthread.h>
#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/buf.h"
#include "executor/base/clock.h"
#include "executor/rpc/rpc.h"

enum { FIXTURE_WAIT_S = 30 };

/** A count that one thread raises and another waits for. */
struct counter {
	pthread_mutex_t mu;
	pthread_cond_t changed;
	unsigned value;
};
#define COUNTER_INIT                                                                               \
	{                                                                                          \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                             \
	}
void counter_add(struct counter *counter);
unsigned counter_value(struct counter *counter);
/** Fails the test when @value is not reached in time. */
void counter_wait(struct counter *counter, unsigned value);

/** What a client call saw. Read it after probe_wait(). */
struct probe {
	struct counter messages; /* counted as they come */
	struct counter closed;
	struct counter sent;
	struct bj_buf received; /* all messages, each followed by '|' */
	unsigned n_ends;	/* message(NULL) */
	enum bj_code code;
	char text[2048];
	char details[8192];
	size_t details_len;
	bool wants;		  /* ask for the next message after each */
	struct bj_rpc_call *call; /* held */
};
extern const struct bj_rpc_handler probe_handler;
void probe_init(struct probe *probe);
/** Until closed(); drops the call. */
void probe_wait(struct probe *probe);
void probe_deinit(struct probe *probe);

struct fixture {
	struct bj_rpc_loop *server_loop;
	struct bj_rpc_loop *client_loop;
	struct bj_rpc_server *server;
	struct bj_rpc_channel *channel;
	int port;
	char target[128];
};

/** Everything up, @methods served on a free port of 127.0.0.1, or on @addr when it is not NULL. */
void fixture_up(struct fixture *fixture, const struct bj_rpc_server_opts *opts,
		const struct bj_rpc_method *methods, size_t n_methods, const char *addr);
/** Stops with @grace_ms and takes everything down. */
void fixture_down(struct fixture *fixture, uint64_t grace_ms);
/** Starts a call that @probe watches; @request may be NULL for none. */
void fixture_call(struct fixture *fixture, struct probe *probe, const char *path,
		  enum bj_rpc_kind kind, uint64_t timeout_ms, const char *request);

/** A server of the one method "/t.T/Do", and a probe for one call to it. */
struct solo {
	struct fixture fixture;
	struct probe probe;
};
enum { SOLO_RECV_BYTES = 64 << 10 }; /* its limit on messages */
void solo_up(struct solo *solo, enum bj_rpc_kind kind, const struct bj_rpc_handler *handler,
	     void *svc);
void solo_call(struct solo *solo, enum bj_rpc_kind kind, const char *request);
/** Waits for the end of the call. @received: all messages, each followed by '|'. */
void solo_expect(struct solo *solo, enum bj_code code, const char *received, const char *text);
/** Runs fn(call, text) on the client's loop. */
void solo_do(struct solo *solo, void (*fn)(struct bj_rpc_call *, void *), const char *text);
void solo_down(struct solo *solo);

/** What the handlers of a test tell it; goes as svc. */
struct scene {
	struct counter opened, messages, ends, sent, cancelled, closed, posted;
	enum bj_code code;	  /* of closed(), read after it was counted */
	struct bj_rpc_call *held; /* by scene_hold() */
	uint64_t deadline_ns;	  /* of the call, at open() */
};
#define SCENE_INIT                                                                                 \
	{                                                                                          \
		COUNTER_INIT, COUNTER_INIT, COUNTER_INIT, COUNTER_INIT, COUNTER_INIT,              \
			COUNTER_INIT, COUNTER_INIT, BJ_UNKNOWN, NULL, 0                            \
	}
/** Handler parts that count, and do nothing else but what their name says. */
void scene_open_hold(struct bj_rpc_call *call, grpc_byte_buffer *req); /* held, wants nothing */
void scene_open_want(struct bj_rpc_call *call, grpc_byte_buffer *req); /* held, wants one message */
void scene_message(struct bj_rpc_call *call, grpc_byte_buffer *msg);   /* and wants the next */
void scene_sent(struct bj_rpc_call *call);
void scene_cancelled(struct bj_rpc_call *call);
void scene_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status);
/** All of these but sent. */
extern const struct bj_rpc_handler scene_handler;
/** Runs fn(call, arg) on the loop of the held call, from another thread. */
void scene_post(struct scene *scene, void (*fn)(struct bj_rpc_call *, void *), void *arg);
/** Waits for closed() and drops the held call. */
void scene_end(struct scene *scene);

/** The bytes of a message, in @buf, NUL-terminated. */
const char *message_text(grpc_byte_buffer *msg, struct bj_buf *buf);
grpc_slice text_slice(const char *text);
/** @n_bytes of 'x' and a NUL; bj_free() it. */
char *letters(size_t n_bytes);
bool send_text(struct bj_rpc_call *call, const char *text);
/** On a client: sends, then half-closes while that is in flight; checks what is refused meanwhile. */
void send_then_half_close(struct bj_rpc_call *call, void *text);
void reply_text(struct bj_rpc_call *call, const char *text);

#endif
