// SPDX-License-Identifier: Apache-2.0
/*
 * One call, seen from its loop thread. Two directions and one end, each moved only by events of the loop:
 *
 *	in    IDLE -- bj_rpc_want() --> WANTED -- message --> IDLE
 *	                                      `-- nothing --> END
 *
 *	out   IDLE -- send --> BUSY -- taken by flow control --> IDLE, sent()
 *	       |                `-- last --> BUSY_LAST -- taken --> CLOSED
 *	       `-- last --> CLOSED
 *
 *	end   the close (server) or status (client) operation comes back: is_over. No batch is started after it.
 *	      When it has come and nothing is in flight any more: closed(), and the call drops its own reference.
 *
 * "last" is a status, perhaps with a message (server), or the half-close (client). Core allows one message in flight,
 * and a handler may want to fail while one is: so a last that comes early is kept and started when the message is
 * through.
 *
 * Core calls nothing of ours from within a start_batch, so no callback is ever entered from another.
 */
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/rpc/rpc-internal.h"

/* gcc 12's analyzer does not see that core keeps a post by the address of its member; LeakSanitizer sees it come back. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

static const char details_key[] = "grpc-status-details-bin";

/* ---- life ---- */

struct bj_rpc_call *bj_rpc_call_new(struct bj_rpc_loop *loop)
{
	struct bj_rpc_call *call = BJ_NEW(struct bj_rpc_call);
	if (!call)
		return NULL;
	call->loop = loop;
	atomic_init(&call->refs, 1);
	grpc_metadata_array_init(&call->headers);
	grpc_metadata_array_init(&call->trailers);
	call->status_text = grpc_empty_slice();
	call->last.text = grpc_empty_slice();
	call->deadline_ns = BJ_NEVER_NS;
	bj_arena_init(&call->arena, BJ_RPC_ARENA_BYTES);
	return call;
}

static void last_clear(struct bj_rpc_last *last)
{
	if (last->msg)
		grpc_byte_buffer_destroy(last->msg);
	grpc_slice_unref(last->text);
	if (last->has_details)
		grpc_slice_unref(last->details.value);
	*last = (struct bj_rpc_last){ .text = grpc_empty_slice() };
}

static void call_free(struct bj_rpc_call *call)
{
	if (call->in_msg)
		grpc_byte_buffer_destroy(call->in_msg);
	if (call->out_msg)
		grpc_byte_buffer_destroy(call->out_msg);
	last_clear(&call->last);
	grpc_slice_unref(call->status_text);
	grpc_metadata_array_destroy(&call->headers);
	grpc_metadata_array_destroy(&call->trailers);
	if (call->core)
		grpc_call_unref(call->core);
	bj_arena_deinit(&call->arena);
	bj_free(call);
}

void bj_rpc_hold(struct bj_rpc_call *call)
{
	atomic_fetch_add(&call->refs, 1);
}

void bj_rpc_drop(struct bj_rpc_call *call)
{
	if (atomic_fetch_sub(&call->refs, 1) == 1)
		call_free(call);
}

void *bj_rpc_data(struct bj_rpc_call *call)
{
	return call->data;
}

void bj_rpc_set_data(struct bj_rpc_call *call, void *data)
{
	call->data = data;
}

void *bj_rpc_svc(struct bj_rpc_call *call)
{
	return call->svc;
}

struct bj_rpc_loop *bj_rpc_call_loop(struct bj_rpc_call *call)
{
	return call->loop;
}

uint64_t bj_rpc_deadline_ns(struct bj_rpc_call *call)
{
	return call->deadline_ns;
}

bool bj_rpc_is_cancelled(struct bj_rpc_call *call)
{
	return call->is_cancelled;
}

struct bj_arena *bj_rpc_arena(struct bj_rpc_call *call)
{
	return &call->arena;
}

static struct bj_str find_metadata(const grpc_metadata_array *array, const char *key)
{
	for (size_t i = 0; i < array->count; i++) {
		const grpc_metadata *element = &array->metadata[i];
		if (grpc_slice_str_cmp(element->key, key) == 0)
			return bj_str_n(GRPC_SLICE_START_PTR(element->value),
					GRPC_SLICE_LENGTH(element->value));
	}
	return BJ_STR_NULL;
}

struct bj_str bj_rpc_metadata(struct bj_rpc_call *call, const char *key)
{
	return find_metadata(&call->headers, key);
}

/* ---- the end ---- */

static void close_server_call(struct bj_rpc_call *call)
{
	struct bj_rpc_status status = { .code = call->is_cancelled ? BJ_CANCELLED : BJ_OK };
	if (call->handler->closed)
		call->handler->closed(call, &status);
	bj_rpc_server_call_closed(call->server);
	call->server = NULL;
}

static void close_client_call(struct bj_rpc_call *call)
{
	struct bj_rpc_status status = { .code = (enum bj_code)call->status };
	if (call->status > GRPC_STATUS_UNAUTHENTICATED)
		status.code = BJ_UNKNOWN;
	char *text = NULL;
	if (GRPC_SLICE_LENGTH(call->status_text))
		status.message = text = grpc_slice_to_c_string(call->status_text);
	struct bj_str details = find_metadata(&call->trailers, details_key);
	status.details = details.ptr;
	status.details_len = details.len;
	if (call->handler->closed)
		call->handler->closed(call, &status);
	gpr_free(text);
}

void bj_rpc_call_settle(struct bj_rpc_call *call)
{
	if (!call->is_over || call->n_pending > 0 || call->is_closed)
		return;
	call->is_closed = true;
	if (call->is_client)
		close_client_call(call);
	else
		close_server_call(call);
	bj_rpc_drop(call);
}

/* After a cancel, or once it has given its last word, a handler hears only closed(). */
static bool is_listening(const struct bj_rpc_call *call)
{
	if (call->is_client)
		return true;
	return !call->is_cancelled &&
	       (call->out == BJ_RPC_OUT_IDLE || call->out == BJ_RPC_OUT_BUSY);
}

void bj_rpc_on_close(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_call *call = BJ_CONTAINER_OF(op, struct bj_rpc_call, close_op);
	(void)ok; /* this operation always succeeds */
	call->n_pending--;
	call->is_over = true;
	if (!call->is_client && call->recv_cancelled) {
		bool tell = is_listening(call) && call->handler->cancelled;
		call->is_cancelled = true;
		if (tell)
			call->handler->cancelled(call);
	}
	bj_rpc_call_settle(call);
}

void bj_rpc_on_headers(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_call *call = BJ_CONTAINER_OF(op, struct bj_rpc_call, headers_op);
	(void)ok; /* a failure shows in the status */
	call->n_pending--;
	bj_rpc_call_settle(call);
}

/* ---- batches ---- */

/* A refusal means that we broke one of core's rules. */
void bj_rpc_start_batch(struct bj_rpc_call *call, const grpc_op *ops, size_t n_ops,
			struct bj_rpc_op *op)
{
	BJ_RPC_GIVE(op);
	grpc_call_error error = grpc_call_start_batch(call->core, ops, n_ops, op, NULL);
	if (error != GRPC_CALL_OK)
		bj_error("rpc: batch refused why=%s", grpc_call_error_to_string(error));
	bj_assert(error == GRPC_CALL_OK);
}

void bj_rpc_call_batch(struct bj_rpc_call *call, const grpc_op *ops, size_t n_ops,
		       struct bj_rpc_op *op)
{
	call->n_pending++;
	bj_rpc_start_batch(call, ops, n_ops, op);
}

size_t bj_rpc_op_headers(struct bj_rpc_call *call, grpc_op *op)
{
	if (call->headers_sent)
		return 0;
	call->headers_sent = true;
	*op = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
	return 1;
}

size_t bj_rpc_op_message(struct bj_rpc_call *call, grpc_op *op, grpc_byte_buffer *msg)
{
	if (!msg)
		return 0;
	call->out_msg = msg; /* until the event */
	*op = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
	op->data.send_message.send_message = msg;
	return 1;
}

static void unref_slices(grpc_slice *slices, size_t n_slices)
{
	for (size_t i = 0; i < n_slices; i++)
		grpc_slice_unref(slices[i]);
}

grpc_byte_buffer *bj_rpc_buffer(grpc_slice *slices, size_t n_slices)
{
	if (!slices)
		return NULL;
	grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(slices, n_slices);
	unref_slices(slices, n_slices); /* the buffer has its own references */
	return buffer;
}

/* ---- in ---- */

void bj_rpc_want(struct bj_rpc_call *call)
{
	if (call->in != BJ_RPC_IN_IDLE || call->is_over)
		return;
	call->in = BJ_RPC_IN_WANTED;
	grpc_op recv = { .op = GRPC_OP_RECV_MESSAGE };
	recv.data.recv_message.recv_message = &call->in_msg;
	call->recv_op.fn = bj_rpc_on_recv;
	bj_rpc_call_batch(call, &recv, 1, &call->recv_op);
}

void bj_rpc_on_recv(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_call *call = BJ_CONTAINER_OF(op, struct bj_rpc_call, recv_op);
	grpc_byte_buffer *msg = BJ_STEAL_PTR(call->in_msg);
	call->n_pending--;
	call->in = msg ? BJ_RPC_IN_IDLE : BJ_RPC_IN_END;
	/* Broken, not ended: a cut upload must not look complete. cancelled() tells of it; a client has its status. */
	bool is_broken = !msg && !call->is_client &&
			 (!ok || grpc_call_failed_before_recv_message(call->core));
	if (!is_broken && is_listening(call) && call->handler->message)
		call->handler->message(call, msg);
	if (msg)
		grpc_byte_buffer_destroy(msg);
	bj_rpc_call_settle(call);
}

/* ---- out ---- */

bool bj_rpc_writable(struct bj_rpc_call *call)
{
	return call->out == BJ_RPC_OUT_IDLE && !call->is_over && !call->is_cancelled;
}

bool bj_rpc_send(struct bj_rpc_call *call, grpc_slice *slices, size_t n_slices)
{
	if (!bj_rpc_writable(call)) {
		unref_slices(slices, n_slices);
		return false;
	}
	grpc_op ops[2];
	size_t n_ops = bj_rpc_op_headers(call, ops);
	n_ops += bj_rpc_op_message(call, ops + n_ops, bj_rpc_buffer(slices, n_slices));
	call->out = BJ_RPC_OUT_BUSY;
	call->send_op.fn = bj_rpc_on_send;
	bj_rpc_call_batch(call, ops, n_ops, &call->send_op);
	return true;
}

static size_t op_status(struct bj_rpc_last *last, grpc_op *op)
{
	*op = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
	op->data.send_status_from_server.status = last->code;
	if (GRPC_SLICE_LENGTH(last->text))
		op->data.send_status_from_server.status_details = &last->text;
	if (last->has_details) {
		op->data.send_status_from_server.trailing_metadata = &last->details;
		op->data.send_status_from_server.trailing_metadata_count = 1;
	}
	return 1;
}

static void start_last(struct bj_rpc_call *call)
{
	grpc_op ops[3];
	size_t n_ops = 0;
	if (call->is_client) {
		ops[n_ops++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
	} else {
		n_ops += bj_rpc_op_headers(call, ops);
		n_ops += bj_rpc_op_message(call, ops + n_ops, BJ_STEAL_PTR(call->last.msg));
		n_ops += op_status(&call->last, ops + n_ops);
	}
	call->out = BJ_RPC_OUT_CLOSED;
	call->send_op.fn = bj_rpc_on_send;
	bj_rpc_call_batch(call, ops, n_ops, &call->send_op);
	last_clear(&call->last); /* core has taken references */
}

static void queue_last(struct bj_rpc_call *call)
{
	if (call->out == BJ_RPC_OUT_BUSY)
		call->out = BJ_RPC_OUT_BUSY_LAST;
	else
		start_last(call);
}

void bj_rpc_on_send(struct bj_rpc_op *op, bool ok)
{
	struct bj_rpc_call *call = BJ_CONTAINER_OF(op, struct bj_rpc_call, send_op);
	call->n_pending--;
	if (call->out_msg)
		grpc_byte_buffer_destroy(BJ_STEAL_PTR(call->out_msg));
	if (call->out == BJ_RPC_OUT_BUSY_LAST) {
		if (call->is_over) {
			call->out = BJ_RPC_OUT_CLOSED;
			last_clear(&call->last);
		} else {
			start_last(call);
		}
	} else if (call->out == BJ_RPC_OUT_BUSY) {
		call->out = BJ_RPC_OUT_IDLE;
		if (ok && bj_rpc_writable(call) && call->handler->sent)
			call->handler->sent(call);
	}
	bj_rpc_call_settle(call);
}

static bool can_end(const struct bj_rpc_call *call)
{
	return !call->is_over && !call->is_cancelled &&
	       (call->out == BJ_RPC_OUT_IDLE || call->out == BJ_RPC_OUT_BUSY);
}

void bj_rpc_half_close(struct bj_rpc_call *call)
{
	bj_assert(call->is_client);
	if (can_end(call))
		queue_last(call);
}

/* Of a status text on the wire: what is not printable ASCII takes three bytes. */
static size_t encoded_bytes(const char *text)
{
	size_t n_bytes = 0;
	for (; *text; text++)
		n_bytes += *text < ' ' || *text > '~' || *text == '%' ? 3 : 1;
	return n_bytes;
}

/* A status with larger trailers than the peer takes is lost whole, so details that do not fit are left out. */
static bool details_fit(const struct bj_rpc_status *status)
{
	size_t text_bytes = status->message ? encoded_bytes(status->message) : 0;
	size_t base64_bytes = bj_size_mul(status->details_len / 3 + 1, 4);
	return bj_size_add(text_bytes, base64_bytes) <= BJ_RPC_MAX_STATUS_BYTES;
}

static void last_set(struct bj_rpc_last *last, const struct bj_rpc_status *status)
{
	if (!status)
		return; /* it is zeroed: OK */
	last->code = (grpc_status_code)status->code;
	if (status->message)
		last->text = grpc_slice_from_copied_string(status->message);
	if (status->details_len == 0)
		return;
	if (!details_fit(status)) {
		bj_debug("rpc: status details left out bytes=%zu", status->details_len);
		return;
	}
	last->has_details = true;
	last->details.key = grpc_slice_from_static_string(details_key);
	last->details.value = grpc_slice_from_copied_buffer(status->details, status->details_len);
}

void bj_rpc_reply(struct bj_rpc_call *call, grpc_slice *slices, size_t n_slices,
		  const struct bj_rpc_status *status)
{
	bj_assert(!call->is_client);
	if (!can_end(call)) {
		unref_slices(slices, n_slices);
		return;
	}
	call->last.msg = bj_rpc_buffer(slices, n_slices);
	last_set(&call->last, status);
	queue_last(call);
}

void bj_rpc_finish(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	bj_rpc_reply(call, NULL, 0, status);
}

void bj_rpc_fail(struct bj_rpc_call *call, const struct bj_err *err)
{
	bj_assert(bj_err_is_set(err));
	bj_cleanup(bj_arena_cleanup) struct bj_arena scratch;
	bj_arena_init(&scratch, 64 << 10); /* the call's own may be the one that is full */
	struct bj_rpc_status status = { .code = err->code, .message = err->msg };
	struct bj_str text = bj_str_of(err->msg);
	if (!bj_str_is_utf8(text))
		status.message =
			bj_str_dup(&scratch, bj_str_printable(&scratch, text, sizeof(err->msg)));
	bj_rpc_finish(call, &status);
}

void bj_rpc_cancel(struct bj_rpc_call *call)
{
	(void)grpc_call_cancel(call->core, NULL); /* only fails on misuse */
}

/* ---- posts ---- */

struct post {
	struct bj_rpc_op op;
	struct bj_rpc_call *call; /* with a hold */
	void (*fn)(struct bj_rpc_call *call, void *arg);
	void *arg;
};

static void on_post(struct bj_rpc_op *op, bool ok)
{
	struct post *post = BJ_CONTAINER_OF(op, struct post, op);
	(void)ok; /* an empty batch can't fail */
	post->fn(post->call, post->arg);
	bj_rpc_drop(post->call);
	bj_free(post);
}

bool bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *), void *arg)
{
	struct post *post = bj_malloc(sizeof(*post));
	if (!post)
		return false;
	*post = (struct post){ .op.fn = on_post, .call = call, .fn = fn, .arg = arg };
	bj_rpc_hold(call);
	bj_rpc_start_batch(call, NULL, 0, &post->op);
	return true;
}

/* ---- a server's call opens ---- */

static void ask_for_end(struct bj_rpc_call *call)
{
	grpc_op close = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };
	close.data.recv_close_on_server.cancelled = &call->recv_cancelled;
	call->close_op.fn = bj_rpc_on_close;
	bj_rpc_call_batch(call, &close, 1, &call->close_op);
}

void bj_rpc_call_open(struct bj_rpc_call *call, enum bj_rpc_kind kind, grpc_byte_buffer *req)
{
	bool has_request = kind == BJ_RPC_UNARY || kind == BJ_RPC_SERVER_STREAM;
	ask_for_end(call);
	if (has_request)
		call->in = BJ_RPC_IN_END;
	if (has_request &&
	    !req) /* refused by core (too large, which it answers itself), or never sent */
		bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_INTERNAL,
							     .message = "no request message" });
	else if (call->handler->open)
		call->handler->open(call, req);
	else
		bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_UNIMPLEMENTED,
							     .message = "not implemented" });
	if (req)
		grpc_byte_buffer_destroy(req);
}
