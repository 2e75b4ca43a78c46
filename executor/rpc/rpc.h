// SPDX-License-Identifier: Apache-2.0
/**
 * rpc/rpc.h - a small service layer on gRPC C core, for servers and clients. The only header of the project that knows gRPC.
 *
 * Threading   A loop is one completion queue and one thread. A call is bound to one loop for life: every callback of
 *             that call runs on that thread, one at a time; handlers need no locks. Only functions marked [any thread]
 *             may be called from elsewhere.
 * Blocking    Callbacks must not block. Hand long work to a pool; come back with bj_rpc_post().
 * Ownership   The message given to open()/message() dies on return; take slice refs to keep data. Slices given to
 *             bj_rpc_send()/bj_rpc_reply() are consumed always, sent or not. A call dies after closed() returned and
 *             every hold is dropped; user data is the handler's to free in closed(). bj_rpc_arena() memory dies with the call.
 *             A slice's destroy function runs on any thread; what it touches must live until bj_rpc_deinit() returns.
 * Pressure    One message each way in flight. Nothing is received until bj_rpc_want(): not calling it stops the peer.
 *             bj_rpc_send() refuses while !bj_rpc_writable(); sent() says that flow control took the last message.
 * End         A server's last word (reply, finish, fail) may come while a message is in flight: it follows that message.
 *             After it the handler hears closed() only.
 * Cancel      cancelled() comes at most once, before closed(), and nothing but closed() after it. After it sends and
 *             replies are no-ops (slices are still consumed), so a late post needs no special case. closed() always
 *             comes, exactly once; only posts may run after it.
 * Process     Block signals and spawn every child before bj_rpc_init().
 */
#ifndef BJ_RPC_RPC_H
#define BJ_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <protobuf-c/protobuf-c.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/pb.h"
#include "executor/base/str.h"

struct bj_rpc_loop;
struct bj_rpc_server;
struct bj_rpc_channel;
struct bj_rpc_call;

/** Log function, and RLIMIT_NOFILE raised to its hard limit (one remedy for CVE-2023-4785). Pairs may nest. */
void bj_rpc_init(void);
/** After every loop has stopped. When the last one returns, the destroy functions of all slices have run. */
void bj_rpc_deinit(void);

/** Status text (percent-encoded) and details (base64) together: what clients that keep the usual limit of 8 KiB can take. */
enum { BJ_RPC_MAX_STATUS_BYTES = 7 << 10 };

struct bj_rpc_status {
	enum bj_code code;   /* equals grpc_status_code */
	const char *message; /* may be NULL; UTF-8 */
	/* Packed google.rpc.Status for grpc-status-details-bin, or NULL. Left out when too large. */
	const void *details;
	size_t details_len;
};

struct bj_rpc_handler { /* every member may be NULL */
	/** Server: a call has come. @req is NULL unless the kind is UNARY or SERVER_STREAM. */
	void (*open)(struct bj_rpc_call *call, grpc_byte_buffer *req);
	/**
	 * A message that was wanted; NULL: no more will come. Server: the peer half-closed; a call that broke or was
	 * cancelled never looks like that. Client: closed() follows and says why.
	 */
	void (*message)(struct bj_rpc_call *call, grpc_byte_buffer *msg);
	/** Writable again. Client streams: also once at the start, when the connection has taken the call. */
	void (*sent)(struct bj_rpc_call *call);
	/** Server: peer gone, deadline, shutdown. */
	void (*cancelled)(struct bj_rpc_call *call);
	/** Exactly once, last. Client: @status is the peer's answer. Server: CANCELLED or OK. */
	void (*closed)(struct bj_rpc_call *call, const struct bj_rpc_status *status);
};

enum bj_rpc_kind { BJ_RPC_UNARY, BJ_RPC_SERVER_STREAM, BJ_RPC_CLIENT_STREAM, BJ_RPC_BIDI };

struct bj_rpc_method {
	const char *path; /* "/package.Service/Method", static storage */
	enum bj_rpc_kind kind;
	const struct bj_rpc_handler *handler;
	void *svc; /* for bj_rpc_svc(); borrowed, outlives the server */
};

/* ---- loops ---- */
BJ_MUST_USE int bj_rpc_loop_new(struct bj_rpc_loop **out_loop, struct bj_err *err);
BJ_MUST_USE int bj_rpc_loop_start(struct bj_rpc_loop *loop, struct bj_err *err);
/** After servers, channels and holds are gone: drains, joins, frees. Accepts NULL. */
void bj_rpc_loop_stop(struct bj_rpc_loop *loop);
/** [loop thread] fn(arg) once, @delay_ms from now; a timer that is pending at stop is dropped without a call. */
BJ_MUST_USE bool bj_rpc_timer(struct bj_rpc_loop *loop, uint64_t delay_ms, void (*fn)(void *),
			      void *arg);

/* ---- server ---- */
struct bj_rpc_server_opts { /* 0 means the default in brackets */
	int max_recv_bytes; /* [4 MiB + 64 KiB: a batch of the advertised size with its framing] */
	int max_streams;    /* per connection [1000] */
	int max_metadata_bytes; /* [64 KiB]: above it 1.51 closes the whole connection */
	int max_connections; /* [no limit] plaintext listeners only; above it new ones are closed at once */
	int keepalive_ms;	  /* [off] */
	int keepalive_timeout_ms; /* [20 s] */
	int min_ping_ms;	  /* [1 s] clients may ping this often */
	int window_bytes;	  /* [4 MiB] */
};
/** @loops: borrowed, not yet started. */
BJ_MUST_USE int bj_rpc_server_new(struct bj_rpc_loop *const *loops, size_t n_loops,
				  const struct bj_rpc_server_opts *opts,
				  struct bj_rpc_server **out_server, struct bj_err *err);
/** Before start. @methods is copied. */
BJ_MUST_USE int bj_rpc_server_add(struct bj_rpc_server *server, const struct bj_rpc_method *methods,
				  size_t n_methods, struct bj_err *err);
/**
 * Listen on "HOST:PORT" (0 picks a port) or "unix:PATH", plaintext: our own accept loop, so that running out of
 * descriptors pauses accepting and never kills the listener; no SO_REUSEPORT stealing; a live unix socket is not stolen.
 * May be called several times, before start.
 * @out_port: the bound port, 0 for unix sockets
 * Return: 0, -INVALID_ARGUMENT (address), -ALREADY_EXISTS (in use), -UNAVAILABLE.
 */
BJ_MUST_USE int bj_rpc_server_listen(struct bj_rpc_server *server, const char *addr, int *out_port,
				     struct bj_err *err);
BJ_MUST_USE int bj_rpc_server_start(struct bj_rpc_server *server, struct bj_err *err);
/**
 * Not on a loop thread, while the loops run: stops accepting, GOAWAY, waits @grace_ms for running calls, then cancels the
 * rest, waits and frees. When it returns closed() was called for every call. Accepts NULL.
 * bj_rpc_server_hurry() [any thread, before stop has returned] ends the grace early.
 */
void bj_rpc_server_stop(struct bj_rpc_server *server, uint64_t grace_ms);
/**
 * All of bj_rpc_server_stop() but the freeing, which the stop afterwards does at once: who lets another thread hurry needs the
 * server to be there until that thread is known to be done.
 */
void bj_rpc_server_drain(struct bj_rpc_server *server, uint64_t grace_ms);
void bj_rpc_server_hurry(struct bj_rpc_server *server);

/* ---- client ---- */
/** @target: gRPC target, e.g. "127.0.0.1:8980" or "unix:/path". Plaintext. Own subchannel pool. */
BJ_MUST_USE int bj_rpc_channel_new(const char *target, int max_recv_bytes,
				   struct bj_rpc_channel **out_channel, struct bj_err *err);
void bj_rpc_channel_free(struct bj_rpc_channel *channel);
/**
 * [any thread] Starts a call; one bj_rpc_want() is already made.
 * @path: static storage; @timeout_ms: 0 for none; @req: consumed slices, or NULL with n_req 0 for stream kinds
 * @out_call: may be NULL; gets the call with a hold
 */
void bj_rpc_start(struct bj_rpc_channel *channel, struct bj_rpc_loop *loop, const char *path,
		  enum bj_rpc_kind kind, const struct bj_rpc_handler *handler, void *data,
		  uint64_t timeout_ms, grpc_slice *req, size_t n_req,
		  struct bj_rpc_call **out_call);
/**
 * Blocking unary call, not on a loop thread.
 * @out_reply: unpacked in @arena. Return: 0, or the peer's status as -code with its text.
 */
BJ_MUST_USE int bj_rpc_unary(struct bj_rpc_channel *channel, struct bj_rpc_loop *loop,
			     const char *path, const ProtobufCMessage *req,
			     const ProtobufCMessageDescriptor *reply_type, uint64_t timeout_ms,
			     struct bj_arena *arena, ProtobufCMessage **out_reply,
			     struct bj_err *err);

/* ---- calls ---- */
void *bj_rpc_data(struct bj_rpc_call *call);
void bj_rpc_set_data(struct bj_rpc_call *call, void *data);
void *bj_rpc_svc(struct bj_rpc_call *call);
struct bj_rpc_loop *bj_rpc_call_loop(struct bj_rpc_call *call);
/** Absolute CLOCK_MONOTONIC ns, BJ_NEVER_NS without one. */
uint64_t bj_rpc_deadline_ns(struct bj_rpc_call *call);
bool bj_rpc_is_cancelled(struct bj_rpc_call *call);
/** Value of a request header ("-bin" values raw); empty view with ptr NULL when absent. Lives as long as the call. */
struct bj_str bj_rpc_metadata(struct bj_rpc_call *call, const char *key);
void bj_rpc_want(struct bj_rpc_call *call);
bool bj_rpc_writable(struct bj_rpc_call *call);
bool bj_rpc_send(struct bj_rpc_call *call, grpc_slice *slices, size_t n_slices);
bool bj_rpc_send_msg(struct bj_rpc_call *call, const ProtobufCMessage *msg);
void bj_rpc_half_close(struct bj_rpc_call *call); /* client */
/** Server: last message and status OK (unary). */
void bj_rpc_reply_msg(struct bj_rpc_call *call, const ProtobufCMessage *msg);
void bj_rpc_reply(struct bj_rpc_call *call, grpc_slice *slices, size_t n_slices,
		  const struct bj_rpc_status *status);
/** Server: status alone; NULL = OK. */
void bj_rpc_finish(struct bj_rpc_call *call, const struct bj_rpc_status *status);
/** Server: finish with an error's code and text (made valid UTF-8). */
void bj_rpc_fail(struct bj_rpc_call *call, const struct bj_err *err);
void bj_rpc_cancel(struct bj_rpc_call *call); /* [any thread], holding it */
void bj_rpc_hold(struct bj_rpc_call *call);   /* [any thread] */
void bj_rpc_drop(struct bj_rpc_call *call);   /* [any thread] */
/** [any thread], holding it: fn(call, arg) on the call's loop. Only false without memory. */
BJ_MUST_USE bool bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			     void *arg);

/* ---- messages ---- */
/** Capped (64 MiB) arena of the call, for one message's life or more. */
struct bj_arena *bj_rpc_arena(struct bj_rpc_call *call);
/**
 * Unpack into @arena.
 * Return: as bj_pb_unpack().
 */
BJ_MUST_USE int bj_rpc_unpack(grpc_byte_buffer *buf, const ProtobufCMessageDescriptor *type,
			      struct bj_arena *arena, ProtobufCMessage **out_msg,
			      struct bj_err *err);
/** Packs straight into a slice. */
grpc_slice bj_rpc_pack(const ProtobufCMessage *msg);

#endif
