// SPDX-License-Identifier: Apache-2.0
/*
 * Core hands a call only to a request that was made beforehand: a slot. Each loop has one slot a method and one for all
 * unknown methods, made again first thing when it delivers. (More slots bring nothing, and without the last one a call
 * to an unknown method would hang.) A slot belongs to the server, so that taking a call needs memory for the call only,
 * and being out of it refuses that call and no other.
 *
 * n_live counts the slots that core holds and the calls whose closed() is still to come; bj_rpc_server_stop() returns
 * when it is zero, so nothing of the server or of its services is touched after it.
 */
#include <string.h>
#include <time.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/rpc/rpc-internal.h"

#define FLUSH_NS BJ_NS_PER_SEC
#define MAX_GRACE_MS (UINT64_C(1) << 40) /* 35 years, so that sums stay in range */

struct method {
	struct bj_rpc_method info;
	void *registered; /* core's handle */
};

struct slot {
	struct bj_rpc_op op;
	struct bj_rpc_server *server;
	struct bj_rpc_loop *loop;
	const struct method *method; /* NULL: every method that is not registered */
	/* What core fills in. */
	grpc_call *core;
	gpr_timespec deadline;
	grpc_metadata_array headers;
	grpc_byte_buffer *payload;
	grpc_call_details details;
};

struct bj_rpc_server {
	grpc_server *core;
	struct bj_rpc_loop **loops; /* a copy of the array */
	size_t n_loops;
	struct method *methods;
	size_t n_methods;
	struct slot *slots; /* NULL until started */
	struct bj_rpc_acceptor *acceptor;
	struct bj_rpc_op down_op;
	pthread_mutex_t mu;
	pthread_cond_t changed; /* of what follows, all guarded by mu */
	size_t n_live;		/* see above */
	bool is_stopping;
	bool is_hurried;
	bool is_down; /* core has closed every connection */
};

/* ---- making one ---- */

static int or_default(int value, int default_value)
{
	return value > 0 ? value : default_value;
}

static void make_args(const struct bj_rpc_server_opts *opts, struct bj_rpc_args *args)
{
	bj_rpc_args_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			or_default(opts->max_recv_bytes, BJ_RPC_MAX_RECV_BYTES));
	bj_rpc_args_int(args, GRPC_ARG_MAX_CONCURRENT_STREAMS, or_default(opts->max_streams, 1000));
	bj_rpc_args_int(args, GRPC_ARG_MAX_METADATA_SIZE,
			or_default(opts->max_metadata_bytes, BJ_RPC_MAX_METADATA_BYTES));
	bj_rpc_args_int(args, GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
			or_default(opts->min_ping_ms, 1000));
	bj_rpc_args_int(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
	bj_rpc_args_int(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
			or_default(opts->keepalive_timeout_ms, 20 * 1000));
	if (opts->keepalive_ms > 0)
		bj_rpc_args_int(args, GRPC_ARG_KEEPALIVE_TIME_MS, opts->keepalive_ms);
	bj_rpc_args_int(args, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
			or_default(opts->window_bytes, BJ_RPC_WINDOW_BYTES));
	bj_rpc_args_int(args, GRPC_ARG_HTTP2_BDP_PROBE, 0); /* the window is fixed */
	bj_rpc_args_int(args, GRPC_ARG_ALLOW_REUSEPORT, 0);
	/* The limit on size holds for what is on the wire: 4 MiB of gzip could be 4 GiB of message. */
	bj_rpc_args_int(args, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
	bj_rpc_args_int(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
			1 << GRPC_COMPRESS_NONE);
}

static void init_sync(struct bj_rpc_server *server)
{
	pthread_condattr_t attr;
	(void)pthread_condattr_init(&attr); /* these can't fail on Linux */
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&server->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	(void)pthread_mutex_init(&server->mu, NULL);
}

static void server_free(struct bj_rpc_server *server)
{
	bj_rpc_acceptor_free(server->acceptor);
	if (server->core)
		grpc_server_destroy(server->core);
	(void)pthread_cond_destroy(&server->changed);
	(void)pthread_mutex_destroy(&server->mu);
	bj_free(server->slots);
	bj_free(server->methods);
	bj_free(server->loops);
	bj_free(server);
}

int bj_rpc_server_new(struct bj_rpc_loop *const *loops, size_t n_loops,
		      const struct bj_rpc_server_opts *opts, struct bj_rpc_server **out_server,
		      struct bj_err *err)
{
	static const struct bj_rpc_server_opts defaults;
	bj_assert(n_loops > 0);
	if (!opts)
		opts = &defaults;
	struct bj_rpc_server *server = BJ_NEW(struct bj_rpc_server);
	if (!server)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an RPC server");
	init_sync(server);
	server->loops = BJ_NEW_ARRAY(struct bj_rpc_loop *, n_loops);
	if (!server->loops) {
		server_free(server);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an RPC server");
	}
	int rc = bj_rpc_acceptor_new((size_t)BJ_MAX(opts->max_connections, 0), &server->acceptor,
				     err);
	if (rc < 0) {
		server_free(server);
		return rc;
	}
	struct bj_rpc_args args = { .n_args = 0 };
	make_args(opts, &args);
	server->core = grpc_server_create(
		&(grpc_channel_args){ .num_args = args.n_args, .args = args.args }, NULL);
	for (size_t i = 0; i < n_loops; i++) {
		server->loops[i] = loops[i];
		grpc_server_register_completion_queue(server->core, loops[i]->cq, NULL);
	}
	server->n_loops = n_loops;
	*out_server = server;
	return 0;
}

static bool has_payload(const struct method *method)
{
	return method->info.kind == BJ_RPC_UNARY || method->info.kind == BJ_RPC_SERVER_STREAM;
}

int bj_rpc_server_add(struct bj_rpc_server *server, const struct bj_rpc_method *methods,
		      size_t n_methods, struct bj_err *err)
{
	bj_assert(!server->slots);
	size_t total = bj_size_add(server->n_methods, n_methods);
	struct method *grown =
		bj_realloc(server->methods, bj_size_mul(total, sizeof(*server->methods)));
	if (!grown)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for %zu methods", total);
	server->methods = grown;
	for (size_t i = 0; i < n_methods; i++) {
		struct method *method = &server->methods[server->n_methods];
		*method = (struct method){ .info = methods[i] };
		method->registered = grpc_server_register_method(
			server->core, methods[i].path, NULL,
			has_payload(method) ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER
					    : GRPC_SRM_PAYLOAD_NONE,
			0);
		if (!method->registered)
			return bj_err_set(err, BJ_ALREADY_EXISTS, "method %s is there already",
					  methods[i].path);
		server->n_methods++;
	}
	return 0;
}

int bj_rpc_server_listen(struct bj_rpc_server *server, const char *addr, int *out_port,
			 struct bj_err *err)
{
	bj_assert(!server->slots);
	return bj_rpc_acceptor_listen(server->acceptor, addr, out_port, err);
}

/* ---- slots ---- */

static void count_live(struct bj_rpc_server *server, int change)
{
	pthread_mutex_lock(&server->mu);
	server->n_live += (size_t)change;
	if (server->n_live == 0)
		pthread_cond_signal(&server->changed);
	pthread_mutex_unlock(&server->mu);
}

void bj_rpc_server_call_closed(struct bj_rpc_server *server)
{
	count_live(server, -1);
}

/* Core keeps the slot until its event. During a shutdown that event comes at once, not ok. */
static void arm(struct slot *slot)
{
	struct bj_rpc_server *server = slot->server;
	grpc_completion_queue *cq = slot->loop->cq;
	grpc_call_error error;
	BJ_RPC_GIVE(&slot->op);
	if (slot->method)
		error = grpc_server_request_registered_call(
			server->core, slot->method->registered, &slot->core, &slot->deadline,
			&slot->headers, has_payload(slot->method) ? &slot->payload : NULL, cq, cq,
			&slot->op);
	else
		error = grpc_server_request_call(server->core, &slot->core, &slot->details,
						 &slot->headers, cq, cq, &slot->op);
	bj_assert(error == GRPC_CALL_OK);
}

static uint64_t deadline_ns(gpr_timespec deadline)
{
	gpr_timespec at = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
	if (gpr_time_cmp(at, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0)
		return BJ_NEVER_NS;
	if (at.tv_sec < 0)
		return 0;
	return (uint64_t)at.tv_sec * BJ_NS_PER_SEC + (uint64_t)at.tv_nsec;
}

static const struct bj_rpc_handler
	no_handler; /* of unknown methods: open() is absent, which says UNIMPLEMENTED */

/* Moves what core delivered into a call of its own; NULL without memory, the call refused. */
static struct bj_rpc_call *take_call(struct slot *slot)
{
	struct bj_rpc_call *call = bj_rpc_call_new(slot->loop);
	if (!call) {
		grpc_metadata_array_destroy(&slot->headers);
		(void)grpc_call_cancel_with_status(slot->core, GRPC_STATUS_RESOURCE_EXHAUSTED,
						   "no memory", NULL); /* best effort */
		grpc_call_unref(slot->core);
	} else {
		call->core = slot->core;
		call->server = slot->server;
		call->handler = slot->method ? slot->method->info.handler : &no_handler;
		call->svc = slot->method ? slot->method->info.svc : NULL;
		call->deadline_ns =
			deadline_ns(slot->method ? slot->deadline : slot->details.deadline);
		call->headers = slot->headers;
	}
	slot->core = NULL;
	grpc_metadata_array_init(&slot->headers);
	if (!slot->method) {
		grpc_call_details_destroy(&slot->details);
		grpc_call_details_init(&slot->details);
	}
	return call;
}

static void on_slot(struct bj_rpc_op *op, bool ok)
{
	struct slot *slot = BJ_CONTAINER_OF(op, struct slot, op);
	struct bj_rpc_server *server = slot->server;
	if (!ok) { /* the server goes down */
		grpc_metadata_array_destroy(&slot->headers);
		grpc_call_details_destroy(&slot->details);
		count_live(server, -1);
		return;
	}
	struct bj_rpc_call *call = take_call(slot);
	enum bj_rpc_kind kind = slot->method ? slot->method->info.kind : BJ_RPC_BIDI;
	grpc_byte_buffer *payload = BJ_STEAL_PTR(slot->payload);
	if (call)
		count_live(server, 1);
	arm(slot);
	if (call)
		bj_rpc_call_open(call, kind, payload);
	else if (payload)
		grpc_byte_buffer_destroy(payload);
}

static void init_slot(struct slot *slot, struct bj_rpc_server *server, struct bj_rpc_loop *loop,
		      const struct method *method)
{
	*slot = (struct slot){ .op.fn = on_slot, .server = server, .loop = loop, .method = method };
	grpc_metadata_array_init(&slot->headers);
	grpc_call_details_init(&slot->details);
}

static void arm_all(struct bj_rpc_server *server)
{
	size_t n_slots = server->n_loops * (server->n_methods + 1);
	server->n_live = n_slots; /* no event can have come yet */
	for (size_t i = 0; i < n_slots; i++) {
		size_t m = i % (server->n_methods + 1);
		init_slot(&server->slots[i], server, server->loops[i / (server->n_methods + 1)],
			  m < server->n_methods ? &server->methods[m] : NULL);
	}
	for (size_t i = 0; i < n_slots; i++)
		arm(&server->slots[i]);
}

int bj_rpc_server_start(struct bj_rpc_server *server, struct bj_err *err)
{
	bj_assert(!server->slots);
	struct slot *slots =
		bj_calloc(bj_size_mul(server->n_loops, server->n_methods + 1), sizeof(*slots));
	if (!slots)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an RPC server");
	server->slots = slots;
	grpc_server_start(server->core);
	arm_all(server);
	return bj_rpc_acceptor_start(server->acceptor, server->core, err);
}

/* ---- stopping ---- */

static void on_down(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_server *server = BJ_CONTAINER_OF(op, struct bj_rpc_server, down_op);
	(void)ok;
	pthread_mutex_lock(&server->mu);
	server->is_down = true;
	pthread_cond_signal(&server->changed);
	pthread_mutex_unlock(&server->mu);
}

static bool no_calls(const struct bj_rpc_server *server)
{
	return server->n_live == 0;
}

static bool is_done(const struct bj_rpc_server *server)
{
	return server->n_live == 0 && server->is_down;
}

/* Until @reached, the time has passed or somebody hurries. True: reached. */
static bool wait_for(struct bj_rpc_server *server, bool (*reached)(const struct bj_rpc_server *),
		     uint64_t until_ns)
{
	struct timespec until = { .tv_sec = (time_t)(until_ns / BJ_NS_PER_SEC),
				  .tv_nsec = (long)(until_ns % BJ_NS_PER_SEC) };
	pthread_mutex_lock(&server->mu);
	while (!reached(server) && !server->is_hurried &&
	       pthread_cond_timedwait(&server->changed, &server->mu, &until) == 0)
		;
	bool is_reached = reached(server);
	pthread_mutex_unlock(&server->mu);
	return is_reached;
}

static void wait_done(struct bj_rpc_server *server)
{
	pthread_mutex_lock(&server->mu);
	while (!is_done(server))
		pthread_cond_wait(&server->changed, &server->mu);
	pthread_mutex_unlock(&server->mu);
}

/*
 * The grace is for calls. Once there are none, a connection has FLUSH_NS to send what it still holds; core alone would
 * wait for longer: 20 s for a peer that does not answer its ping, and for ever for a call that crosses the shutdown (one
 * that arrives between core's own look at the flag and the queue that it puts the call in is forgotten there).
 */
static void shut_down(struct bj_rpc_server *server, uint64_t grace_ms)
{
	server->down_op.fn = on_down;
	BJ_RPC_GIVE(&server->down_op);
	grpc_server_shutdown_and_notify(server->core, server->loops[0]->cq, &server->down_op);
	grace_ms = BJ_MIN(grace_ms, MAX_GRACE_MS);
	if (wait_for(server, no_calls, bj_deadline_ns(grace_ms * BJ_NS_PER_MS)) &&
	    wait_for(server, is_done, bj_deadline_ns(FLUSH_NS)))
		return;
	grpc_server_cancel_all_calls(server->core);
	wait_done(server);
}

void bj_rpc_server_drain(struct bj_rpc_server *server, uint64_t grace_ms)
{
	bj_rpc_acceptor_free(BJ_STEAL_PTR(server->acceptor));
	if (server->slots && !server->is_down)
		shut_down(server, grace_ms);
}

void bj_rpc_server_stop(struct bj_rpc_server *server, uint64_t grace_ms)
{
	if (!server)
		return;
	bj_rpc_server_drain(server, grace_ms);
	server_free(server);
}

void bj_rpc_server_hurry(struct bj_rpc_server *server)
{
	pthread_mutex_lock(&server->mu);
	server->is_hurried = true;
	pthread_cond_signal(&server->changed);
	pthread_mutex_unlock(&server->mu);
}
