// SPDX-License-Identifier: Apache-2.0
/**
 * rpc/rpc-internal.h - what the files of rpc/ share. Nobody else includes it.
 * Every tag that gRPC core hands back is a struct bj_rpc_op embedded in its owner.
 */
#ifndef BJ_RPC_RPC_INTERNAL_H
#define BJ_RPC_RPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "executor/rpc/rpc.h"

/*
 * ThreadSanitizer can't see into the system's libgrpc. These say where core hands things from one thread to another:
 * release before a tag is given to core, acquire when it comes back.
 */
#if defined(__SANITIZE_THREAD__)
#define BJ_RPC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BJ_RPC_TSAN 1
#endif
#endif
#ifdef BJ_RPC_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define BJ_RPC_GIVE(op) __tsan_release(op)
#define BJ_RPC_TAKE(op) __tsan_acquire(op)
#else
#define BJ_RPC_GIVE(op) ((void)(op))
#define BJ_RPC_TAKE(op) ((void)(op))
#endif

enum {
	BJ_RPC_MAX_RECV_BYTES = (4 << 20) + (64 << 10),
	BJ_RPC_MAX_METADATA_BYTES = 64 << 10,
	BJ_RPC_WINDOW_BYTES = 4 << 20,
	BJ_RPC_ARENA_BYTES = 64 << 20,
	BJ_RPC_MAX_ARGS = 16,
};

/** A tag. @ok: as core says, which for most operations says little. */
struct bj_rpc_op {
	void (*fn)(struct bj_rpc_op *op, bool ok);
};

/* ---- loop.c ---- */
struct bj_rpc_timer {
	uint64_t at_ns;
	uint64_t seq; /* order among equal times */
	void (*fn)(void *arg);
	void *arg;
};

struct bj_rpc_loop {
	grpc_completion_queue *cq;
	unsigned long thread; /* pthread_t */
	bool is_started;
	struct bj_rpc_timer *timers; /* binary heap by (at_ns, seq); loop thread only */
	size_t n_timers;
	size_t max_timers; /* allocated */
	uint64_t timer_seq;
};

/** A fixed list of channel arguments; core copies it. */
struct bj_rpc_args {
	grpc_arg args[BJ_RPC_MAX_ARGS];
	size_t n_args;
};
void bj_rpc_args_int(struct bj_rpc_args *args, const char *key, int value);

/* ---- call.c ---- */
enum bj_rpc_in {
	BJ_RPC_IN_IDLE,
	BJ_RPC_IN_WANTED, /* a receive is in flight */
	BJ_RPC_IN_END,	  /* nothing more will come */
};

enum bj_rpc_out {
	BJ_RPC_OUT_IDLE,      /* writable */
	BJ_RPC_OUT_BUSY,      /* a message is in flight */
	BJ_RPC_OUT_BUSY_LAST, /* the same, and `last` waits behind it */
	BJ_RPC_OUT_CLOSED,    /* the last batch was started, or never will be */
};

/** What ends our direction: a status with perhaps a message (server), or a half-close (client: all fields empty). */
struct bj_rpc_last {
	grpc_byte_buffer *msg; /* NULL: none */
	grpc_status_code code;
	grpc_slice text;
	grpc_metadata details; /* used when has_details */
	bool has_details;
};

struct bj_rpc_call {
	grpc_call *core;
	struct bj_rpc_loop *loop;     /* borrowed */
	struct bj_rpc_server *server; /* NULL: client; valid until closed() was called */
	const struct bj_rpc_handler *handler;
	void *svc;
	void *data;
	atomic_int refs;    /* one for the call's life, one per hold */
	unsigned n_pending; /* operations in flight, each with one event to come */
	enum bj_rpc_in in;
	enum bj_rpc_out out;
	bool is_client;
	bool headers_sent;
	bool is_cancelled; /* server only */
	bool is_over;	   /* the close (server) or status (client) operation came back */
	bool is_closed;	   /* closed() was called */
	uint64_t deadline_ns;
	grpc_metadata_array headers;  /* elements belong to core's call */
	grpc_metadata_array trailers; /* client */
	grpc_byte_buffer *in_msg;
	grpc_byte_buffer *out_msg;
	struct bj_rpc_last last;
	int recv_cancelled;	 /* server: written by core */
	grpc_status_code status; /* client: written by core */
	grpc_slice status_text;	 /* client: written by core */
	struct bj_rpc_op recv_op, send_op, close_op, headers_op;
	struct bj_arena arena;
};

/** With one reference; NULL without memory. */
struct bj_rpc_call *bj_rpc_call_new(struct bj_rpc_loop *loop);
/** Starts a batch whose event comes to @op; counts it. */
void bj_rpc_call_batch(struct bj_rpc_call *call, const grpc_op *ops, size_t n_ops,
		       struct bj_rpc_op *op);
/** The same, for a batch that is counted already, or that is not counted (a post). */
void bj_rpc_start_batch(struct bj_rpc_call *call, const grpc_op *ops, size_t n_ops,
			struct bj_rpc_op *op);
/** The parts of a batch; each returns how many operations it wrote (0 or 1). */
size_t bj_rpc_op_headers(struct bj_rpc_call *call, grpc_op *op);
size_t bj_rpc_op_message(struct bj_rpc_call *call, grpc_op *op, grpc_byte_buffer *msg);
/** A buffer of slices that are consumed; NULL for @slices NULL. */
grpc_byte_buffer *bj_rpc_buffer(grpc_slice *slices, size_t n_slices);
/** Server: a call that came: asks for its end, then opens it. @req is consumed. */
void bj_rpc_call_open(struct bj_rpc_call *call, enum bj_rpc_kind kind, grpc_byte_buffer *req);
/** To be called at the end of every event: calls closed() and drops the call's own reference when all is over. */
void bj_rpc_call_settle(struct bj_rpc_call *call);
/** Event functions that client.c starts batches with. */
void bj_rpc_on_recv(struct bj_rpc_op *op, bool ok);
void bj_rpc_on_send(struct bj_rpc_op *op, bool ok);
void bj_rpc_on_close(struct bj_rpc_op *op, bool ok);
void bj_rpc_on_headers(struct bj_rpc_op *op, bool ok);

/* ---- server.c ---- */
/** A call of @server was closed. */
void bj_rpc_server_call_closed(struct bj_rpc_server *server);

/* ---- listen.c ---- */
/** A listening socket. */
struct bj_rpc_listener {
	int fd;
	int lock_fd;	   /* unix sockets: held lock on lock_path; else -EBADF */
	char *path;	   /* unix sockets: to be unlinked; else NULL */
	char *lock_path;   /* the same */
	uint64_t dev, ino; /* of path as we bound it */
};
enum { BJ_RPC_MAX_LISTENERS = 16 };

/**
 * bj_rpc_listen() - sockets for one address, as bj_rpc_server_listen() says.
 * @listeners: room for BJ_RPC_MAX_LISTENERS - *n_listeners more (a host name may mean several)
 */
BJ_MUST_USE int bj_rpc_listen(const char *addr, struct bj_rpc_listener *listeners,
			      size_t *n_listeners, int *out_port, struct bj_err *err);
/** Closes, unlinks the socket if it is still ours, releases the lock. */
void bj_rpc_listener_close(struct bj_rpc_listener *listener);

/* ---- accept.c ---- */
struct bj_rpc_acceptor;
/** @max_connections: 0 for no limit */
BJ_MUST_USE int bj_rpc_acceptor_new(size_t max_connections, struct bj_rpc_acceptor **out_acceptor,
				    struct bj_err *err);
BJ_MUST_USE int bj_rpc_acceptor_listen(struct bj_rpc_acceptor *acceptor, const char *addr,
				       int *out_port, struct bj_err *err);
BJ_MUST_USE int bj_rpc_acceptor_start(struct bj_rpc_acceptor *acceptor, grpc_server *core,
				      struct bj_err *err);
/** Joins the thread, closes the sockets, frees. Accepts NULL. */
void bj_rpc_acceptor_free(struct bj_rpc_acceptor *acceptor);

#endif
