// SPDX-License-Identifier: Apache-2.0
/*
 * The client's side. A unary call is one batch with one event. A stream's first batches are all counted before the
 * first is started, and the sending one comes last: from the moment that core has a tag, the loop thread may already be
 * in our callbacks, and the starting thread must not touch the call any more.
 */
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/rpc/rpc-internal.h"

struct bj_rpc_channel {
	grpc_channel *core;
};

/* ---- channels ---- */

static void make_args(int max_recv_bytes, struct bj_rpc_args *args)
{
	bj_rpc_args_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			max_recv_bytes > 0 ? max_recv_bytes : BJ_RPC_MAX_RECV_BYTES);
	bj_rpc_args_int(args, GRPC_ARG_MAX_METADATA_SIZE, BJ_RPC_MAX_METADATA_BYTES);
	bj_rpc_args_int(args, GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, BJ_RPC_WINDOW_BYTES);
	bj_rpc_args_int(args, GRPC_ARG_HTTP2_BDP_PROBE, 0);
	/* Channels to one target would share a connection, and with it the loop that polls it. */
	bj_rpc_args_int(args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	/* Core would send even a connection to loopback through http_proxy, and ask DNS for a configuration. */
	bj_rpc_args_int(args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	bj_rpc_args_int(args, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
	bj_rpc_args_int(args, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
	bj_rpc_args_int(args, GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
			1 << GRPC_COMPRESS_NONE);
}

int bj_rpc_channel_new(const char *target, int max_recv_bytes, struct bj_rpc_channel **out_channel,
		       struct bj_err *err)
{
	struct bj_rpc_channel *channel = BJ_NEW(struct bj_rpc_channel);
	if (!channel)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for a channel to \"%s\"",
				  target);
	struct bj_rpc_args args = { .n_args = 0 };
	make_args(max_recv_bytes, &args);
	grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
	channel->core = grpc_channel_create(
		target, credentials,
		&(grpc_channel_args){ .num_args = args.n_args, .args = args.args });
	grpc_channel_credentials_release(credentials);
	*out_channel = channel;
	return 0;
}

void bj_rpc_channel_free(struct bj_rpc_channel *channel)
{
	if (!channel)
		return;
	grpc_channel_destroy(channel->core);
	bj_free(channel);
}

/* ---- calls ---- */

static grpc_op op_status(struct bj_rpc_call *call)
{
	grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };
	op.data.recv_status_on_client.trailing_metadata = &call->trailers;
	op.data.recv_status_on_client.status = &call->status;
	op.data.recv_status_on_client.status_details = &call->status_text;
	return op;
}

static grpc_op op_headers(struct bj_rpc_call *call)
{
	grpc_op op = { .op = GRPC_OP_RECV_INITIAL_METADATA };
	op.data.recv_initial_metadata.recv_initial_metadata = &call->headers;
	return op;
}

static grpc_op op_message(struct bj_rpc_call *call)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };
	op.data.recv_message.recv_message = &call->in_msg;
	return op;
}

static void on_unary(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_call *call = BJ_CONTAINER_OF(op, struct bj_rpc_call, send_op);
	(void)ok; /* the status says it */
	grpc_byte_buffer *msg = BJ_STEAL_PTR(call->in_msg);
	call->n_pending--;
	call->is_over = true;
	call->in = BJ_RPC_IN_END;
	if (call->out_msg)
		grpc_byte_buffer_destroy(BJ_STEAL_PTR(call->out_msg));
	if (msg && call->handler->message)
		call->handler->message(call, msg);
	if (msg)
		grpc_byte_buffer_destroy(msg);
	bj_rpc_call_settle(call);
}

static void start_unary(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	grpc_op ops[6];
	size_t n_ops = bj_rpc_op_headers(call, ops);
	n_ops += bj_rpc_op_message(call, ops + n_ops, req);
	ops[n_ops++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
	ops[n_ops++] = op_headers(call);
	ops[n_ops++] = op_message(call);
	ops[n_ops++] = op_status(call);
	call->in = BJ_RPC_IN_WANTED;
	call->out = BJ_RPC_OUT_CLOSED;
	call->send_op.fn = on_unary;
	bj_rpc_call_batch(call, ops, n_ops, &call->send_op);
}

static void start_stream(struct bj_rpc_call *call, enum bj_rpc_kind kind, grpc_byte_buffer *req)
{
	grpc_op send[3];
	size_t n_send = bj_rpc_op_headers(call, send);
	n_send += bj_rpc_op_message(call, send + n_send, req);
	if (kind == BJ_RPC_SERVER_STREAM)
		send[n_send++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
	grpc_op status = op_status(call), headers = op_headers(call), message = op_message(call);

	call->in = BJ_RPC_IN_WANTED;
	call->out = kind == BJ_RPC_SERVER_STREAM ? BJ_RPC_OUT_CLOSED : BJ_RPC_OUT_BUSY;
	call->close_op.fn = bj_rpc_on_close;
	call->headers_op.fn = bj_rpc_on_headers;
	call->recv_op.fn = bj_rpc_on_recv;
	call->send_op.fn = bj_rpc_on_send;
	call->n_pending = 4;
	bj_rpc_start_batch(call, &status, 1, &call->close_op);
	bj_rpc_start_batch(call, &headers, 1, &call->headers_op);
	bj_rpc_start_batch(call, &message, 1, &call->recv_op);
	bj_rpc_start_batch(call, send, n_send, &call->send_op);
}

static gpr_timespec deadline_of(uint64_t timeout_ms)
{
	if (timeout_ms == 0 || timeout_ms > INT64_MAX)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			    gpr_time_from_millis((int64_t)timeout_ms, GPR_TIMESPAN));
}

void bj_rpc_start(struct bj_rpc_channel *channel, struct bj_rpc_loop *loop, const char *path,
		  enum bj_rpc_kind kind, const struct bj_rpc_handler *handler, void *data,
		  uint64_t timeout_ms, grpc_slice *req, size_t n_req, struct bj_rpc_call **out_call)
{
	struct bj_rpc_call *call = bj_rpc_call_new(loop);
	bj_assert(call); /* there is nobody to tell */
	call->is_client = true;
	call->handler = handler;
	call->data = data;
	if (timeout_ms > 0 && timeout_ms < UINT64_MAX / BJ_NS_PER_MS)
		call->deadline_ns = bj_deadline_ns(timeout_ms * BJ_NS_PER_MS);
	call->core = grpc_channel_create_call(channel->core, NULL, GRPC_PROPAGATE_DEFAULTS,
					      loop->cq, grpc_slice_from_static_string(path), NULL,
					      deadline_of(timeout_ms), NULL);
	if (out_call) {
		bj_rpc_hold(call);
		*out_call = call;
	}
	grpc_byte_buffer *buffer = bj_rpc_buffer(req, n_req);
	if (kind == BJ_RPC_UNARY)
		start_unary(call, buffer);
	else
		start_stream(call, kind, buffer);
}

/* ---- blocking ---- */

struct unary {
	pthread_mutex_t mu;
	pthread_cond_t done;
	bool is_done;		 /* guarded by mu */
	grpc_byte_buffer *reply; /* the rest is the loop's until is_done */
	struct bj_err *err;
	int rc;
};

static void unary_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct unary *unary = bj_rpc_data(call);
	if (msg)
		unary->reply = grpc_byte_buffer_copy(msg); /* of references */
}

static void unary_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct unary *unary = bj_rpc_data(call);
	if (status->code != BJ_OK)
		unary->rc = bj_err_set(unary->err, status->code, "%s",
				       status->message ? status->message : "no text");
	pthread_mutex_lock(&unary->mu);
	unary->is_done = true;
	pthread_cond_signal(&unary->done);
	pthread_mutex_unlock(&unary->mu);
}

static const struct bj_rpc_handler unary_handler = {
	.message = unary_message,
	.closed = unary_closed,
};

int bj_rpc_unary(struct bj_rpc_channel *channel, struct bj_rpc_loop *loop, const char *path,
		 const ProtobufCMessage *req, const ProtobufCMessageDescriptor *reply_type,
		 uint64_t timeout_ms, struct bj_arena *arena, ProtobufCMessage **out_reply,
		 struct bj_err *err)
{
	struct unary unary = { .mu = PTHREAD_MUTEX_INITIALIZER,
			       .done = PTHREAD_COND_INITIALIZER,
			       .err = err };
	grpc_slice slice = bj_rpc_pack(req);
	bj_rpc_start(channel, loop, path, BJ_RPC_UNARY, &unary_handler, &unary, timeout_ms, &slice,
		     1, NULL);
	pthread_mutex_lock(&unary.mu);
	while (!unary.is_done)
		pthread_cond_wait(&unary.done, &unary.mu);
	pthread_mutex_unlock(&unary.mu);
	(void)pthread_cond_destroy(&unary.done);
	(void)pthread_mutex_destroy(&unary.mu);

	int rc = unary.rc;
	if (rc == 0)
		rc = bj_rpc_unpack(unary.reply, reply_type, arena, out_reply, err);
	if (unary.reply)
		grpc_byte_buffer_destroy(unary.reply);
	return rc;
}
