// SPDX-License-Identifier: Apache-2.0
/*
 * ByteStream.Write and QueryWriteStatus.
 *
 *   message ──> pool: append (and commit on finish_write) ──> loop: want the next one, or answer
 * One message is in memory for each stream. An upload is not resumable: what is not finished in one stream is thrown away, and QueryWriteStatus
 * says so (committed_size 0), so clients start again at offset 0. A blob that is there already is answered at once, whatever more the client
 * meant to send ("early answer"): spec, "the server … SHOULD … return the response immediately".
 */
#include "executor/base/fd.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"
#include "google/bytestream/bytestream.pb-c.h"

enum { MESSAGE_ARENA_BYTES = 32 << 20 };

struct writing {
	struct job job;
	struct bj_rpc_call *call;
	struct bj_services *services;
	struct bj_arena arena;			     /* of the current message */
	const Google__Bytestream__WriteRequest *msg; /* current */
	char *name;				     /* of the first message, in the call's arena */
	struct bj_digest digest;
	struct bj_store_writer *writer; /* NULL before the first bytes and after the end */
	uint64_t received;
	bool is_started;
	bool is_present;  /* out of the pool: the blob was there before */
	bool is_complete; /* out of the pool: published */
	struct bj_err err;
};

static void release(struct job *job)
{
	struct writing *wr = BJ_CONTAINER_OF(job, struct writing, job);

	bj_store_writer_abort(wr->writer);
	wr->writer = NULL;
	bj_arena_deinit(&wr->arena);
}

/* ---- on the pool ---- */

static int append(struct writing *wr)
{
	struct bj_err *err = &wr->err;
	size_t n = wr->msg->data.len;

	if (n > wr->digest.size_bytes - wr->received)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "resource_name \"%.300s\": more than %llu bytes were sent",
				  wr->name, (unsigned long long)wr->digest.size_bytes);
	if (!wr->writer) {
		int r = bj_store_writer_new(wr->services->opts.store, wr->digest.fn,
					    wr->digest.size_bytes, &wr->writer, err);

		if (r < 0)
			return r;
	}
	int r = n ? bj_store_writer_append(wr->writer, wr->msg->data.data, n, err) : 0;

	wr->received += r == 0 ? n : 0;
	return r;
}

static int step(struct writing *wr)
{
	if (wr->received == 0 && !wr->writer &&
	    bj_store_has(wr->services->opts.store, &wr->digest)) {
		wr->is_present = true;
		return 0;
	}
	int r = append(wr);

	if (r < 0 || !wr->msg->finish_write)
		return r;
	r = bj_store_writer_commit(BJ_STEAL_PTR(wr->writer), &wr->digest, NULL, &wr->err);
	wr->is_complete = r == 0;
	return r;
}

/* ---- on the loop ---- */

static void answer(struct writing *wr)
{
	Google__Bytestream__WriteResponse reply = GOOGLE__BYTESTREAM__WRITE_RESPONSE__INIT;

	/* Spec: for a blob that was there, committed_size is its full size, whatever was sent. */
	reply.committed_size = (int64_t)wr->digest.size_bytes;
	bj_rpc_reply_msg(wr->call, &reply.base);
}

static void on_step(struct job *job)
{
	struct writing *wr = BJ_CONTAINER_OF(job, struct writing, job);

	bj_arena_deinit(&wr->arena); /* a stream that waits for its client holds nothing */
	wr->msg = NULL;
	if (bj_err_is_set(&wr->err))
		bj_rpc_fail(wr->call, &wr->err);
	else if (wr->is_present || wr->is_complete)
		answer(wr);
	else
		bj_rpc_want(wr->call);
}

static void work(struct job *job)
{
	struct writing *wr = BJ_CONTAINER_OF(job, struct writing, job);
	int r = step(wr);

	bj_assert((r < 0) == bj_err_is_set(&wr->err));
}

static int start(struct writing *wr, struct bj_err *err)
{
	struct bj_resource resource;
	int r = bj_resource_parse_write(bj_str_of(wr->msg->resource_name), &resource, err);

	if (r < 0)
		return r;
	wr->name = bj_str_dup(bj_rpc_arena(wr->call), bj_str_of(wr->msg->resource_name));
	if (!wr->name)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
	wr->digest = resource.digest;
	wr->is_started = true;
	return 0;
}

/* Spec of WriteRequest: the name must be set in the first and must not change after; write_offset must be what was sent so far. */
static int check(struct writing *wr, struct bj_err *err)
{
	const Google__Bytestream__WriteRequest *msg = wr->msg;

	if (!wr->is_started) {
		int r = start(wr, err);

		if (r < 0)
			return r;
	} else if (msg->resource_name[0] && strcmp(msg->resource_name, wr->name) != 0) {
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "resource_name changed in the middle, from \"%.300s\"", wr->name);
	}
	if (msg->write_offset < 0 || (uint64_t)msg->write_offset != wr->received)
		return bj_err_set(
			err, BJ_INVALID_ARGUMENT,
			"write_offset is %lld, but %llu bytes were received: start again at 0",
			(long long)msg->write_offset, (unsigned long long)wr->received);
	return 0;
}

static void on_message(struct bj_rpc_call *call, grpc_byte_buffer *buffer)
{
	struct writing *wr = bj_rpc_data(call);
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message = NULL;
	int r;

	if (!buffer) {
		(void)bj_err_set(&err, BJ_INVALID_ARGUMENT,
				 "the stream ended after %llu bytes without finish_write",
				 (unsigned long long)wr->received);
		bj_rpc_fail(call, &err);
		return;
	}
	r = bj_rpc_unpack(buffer, &google__bytestream__write_request__descriptor, &wr->arena,
			  &message, &err);
	wr->msg = (const Google__Bytestream__WriteRequest *)message;
	if (r == 0)
		r = check(wr, &err);
	if (r < 0)
		bj_rpc_fail(call, &err);
	else
		job_start(&wr->job);
}

static void on_open(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct writing *wr = BJ_ARENA_NEW(bj_rpc_arena(call), struct writing);
	struct bj_err err = BJ_ERR_NULL;

	(void)request; /* NULL: messages come one by one */
	if (!wr) {
		(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
		bj_rpc_fail(call, &err);
		return;
	}
	wr->job = (struct job){ .work = work, .done = on_step, .release = release };
	wr->call = call;
	wr->services = bj_rpc_svc(call);
	job_init(&wr->job, call);
	bj_arena_init(&wr->arena, MESSAGE_ARENA_BYTES);
	bj_rpc_set_data(call, wr);
	bj_rpc_want(call);
}

static void on_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct writing *wr = bj_rpc_data(call);

	(void)status;
	if (wr)
		job_close(&wr->job);
}

/* ---- QueryWriteStatus ---- */

/* A blob that is there is complete; an upload that is under way, or was never seen, has nothing that could be resumed. */
static int query(struct unary *u)
{
	const Google__Bytestream__QueryWriteStatusRequest *req =
		(const Google__Bytestream__QueryWriteStatusRequest *)u->request;
	Google__Bytestream__QueryWriteStatusResponse *reply =
		BJ_ARENA_NEW(u->arena, Google__Bytestream__QueryWriteStatusResponse);
	struct bj_resource resource;
	int r = bj_resource_parse_write(bj_str_of(req->resource_name), &resource, &u->err);

	if (r < 0)
		return r;
	if (!reply)
		return bj_err_set(&u->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the reply");
	google__bytestream__query_write_status_response__init(reply);
	if (bj_store_has(u->services->opts.store, &resource.digest)) {
		reply->committed_size = (int64_t)resource.digest.size_bytes;
		reply->complete = true;
	}
	u->reply = &reply->base;
	return 0;
}

static const struct unary_method query_method = {
	&google__bytestream__query_write_status_request__descriptor, query
};

static void on_query(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &query_method);
}

static const struct bj_rpc_handler write_handler = { .open = on_open,
						     .message = on_message,
						     .closed = on_closed };
static const struct bj_rpc_handler query_handler = { .open = on_query };

struct service_table service_write(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/google.bytestream.ByteStream/Write", BJ_RPC_CLIENT_STREAM, &write_handler,
		  NULL },
		{ "/google.bytestream.ByteStream/QueryWriteStatus", BJ_RPC_UNARY, &query_handler,
		  NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
