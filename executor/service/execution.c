// SPDX-License-Identifier: Apache-2.0
/*
 * Execution: a stream of Operations for one waiter of the engine.
 *
 * The engine tells states on its own thread; each is posted to the call's loop and sent when the one before has been taken. The last one has
 * done = true, and then the stream ends OK: spec, "Errors discovered … are communicated in ExecuteResponse.status", Operation.error is never set.
 */
#include "executor/action/response.h"
#include "executor/base/clock.h"
#include "executor/base/pb.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"
#include "google/longrunning/operations.pb-c.h"

enum { MAX_PENDING = 4, SEND_ARENA_BYTES = 512 << 20 }; /* one update per stage at most */

struct watching {
	struct bj_rpc_call *call;
	struct bj_waiter *waiter;
	const struct bj_update *pending[MAX_PENDING];
	size_t n_pending;
	bool is_done_sent;
};

/* ---- sending ---- */

static Google__Protobuf__Any *any_of(struct bj_arena *arena, const char *name, struct bj_str bytes)
{
	return bj_any_new(arena, name, bytes.ptr ? bytes : BJ_STR_LIT(""));
}

static bool send_operation(struct watching *w, const struct bj_update *update)
{
	Google__Longrunning__Operation op = GOOGLE__LONGRUNNING__OPERATION__INIT;
	struct bj_arena arena;
	bool ok;

	bj_arena_init(&arena, SEND_ARENA_BYTES);
	op.name = (char *)(uintptr_t)update->name;
	op.metadata = any_of(&arena, "build.bazel.remote.execution.v2.ExecuteOperationMetadata",
			     update->metadata);
	if (update->stage == BJ_STAGE_COMPLETED) {
		op.done = true;
		op.result_case = GOOGLE__LONGRUNNING__OPERATION__RESULT_RESPONSE;
		op.response = any_of(&arena, "build.bazel.remote.execution.v2.ExecuteResponse",
				     update->response);
	}
	ok = op.metadata && (!op.done || op.response) && bj_rpc_send_msg(w->call, &op.base);
	bj_arena_deinit(&arena);
	return ok;
}

static void flush(struct watching *w)
{
	struct bj_err err = BJ_ERR_NULL;

	if (!w->n_pending || w->is_done_sent || !bj_rpc_writable(w->call))
		return;
	const struct bj_update *update = w->pending[0];
	bool ok = send_operation(w, update);

	w->n_pending--;
	memmove(w->pending, w->pending + 1, w->n_pending * sizeof(*w->pending));
	if (!ok) {
		(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED,
				 "out of memory for an operation's state");
		bj_rpc_fail(w->call, &err);
		w->is_done_sent = true;
	} else if (update->stage == BJ_STAGE_COMPLETED) {
		w->is_done_sent = true;
		bj_rpc_finish(w->call, NULL);
	}
	bj_update_unref(update);
}

/* ---- from the engine's thread to the loop ---- */

static void on_update_loop(struct bj_rpc_call *call, void *arg)
{
	struct watching *w = bj_rpc_data(call);
	const struct bj_update *update = arg;

	if (w->is_done_sent || w->n_pending == MAX_PENDING) {
		bj_update_unref(update); /* closed meanwhile */
	} else {
		w->pending[w->n_pending++] = update;
		flush(w);
	}
	bj_rpc_drop(call);
}

static void on_update(void *ctx, const struct bj_update *update)
{
	struct watching *w = ctx;

	(void)bj_update_ref(update);
	bj_rpc_hold(w->call);
	if (bj_rpc_post(w->call, on_update_loop, (void *)(uintptr_t)update))
		return;
	/* A state that is lost would be waited for: without memory to tell it the stream breaks, and the client comes back. */
	bj_rpc_cancel(w->call);
	bj_update_unref(update);
	bj_rpc_drop(w->call);
}

/* ---- the handlers ---- */

/* The state and the request of a call; NULL when the call was answered with what is wrong. */
static struct watching *begin(struct bj_rpc_call *call, grpc_byte_buffer *request,
			      const ProtobufCMessageDescriptor *type,
			      ProtobufCMessage **out_message)
{
	struct watching *w = BJ_ARENA_NEW(bj_rpc_arena(call), struct watching);
	struct bj_err err = BJ_ERR_NULL;

	if (!w)
		(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
	if (!w || bj_rpc_unpack(request, type, bj_rpc_arena(call), out_message, &err) < 0) {
		bj_rpc_fail(call, &err);
		return NULL;
	}
	w->call = call;
	bj_rpc_set_data(call, w);
	return w;
}

static int submit(struct watching *w, const BJ_RE(ExecuteRequest) * req, struct bj_err *err)
{
	struct bj_services *services = bj_rpc_svc(w->call);
	struct bj_submit s = { .priority = req->execution_policy ? req->execution_policy->priority
								 : 0 };
	enum bj_digest_fn fn;
	int r = request_digest_fn((int)req->digest_function, "ExecuteRequest.digest_function", &fn,
				  err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name), "ExecuteRequest.instance_name",
				      err);
	if (r == 0)
		r = bj_digest_from_pb(fn, req->action_digest, "ExecuteRequest.action_digest",
				      &s.request.action, err);
	if (r < 0)
		return r;
	s.request.instance = bj_str_of(req->instance_name);
	s.request.skip_cache_lookup = req->skip_cache_lookup;
	s.request.queued_ns = bj_realtime_ns();
	request_client_info(w->call, bj_rpc_arena(w->call), &s.request.client);
	return bj_engine_submit(services->opts.engine, &s, on_update, w, &w->waiter, err);
}

static void on_execute(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message = NULL;
	struct watching *w =
		begin(call, request,
		      &build__bazel__remote__execution__v2__execute_request__descriptor, &message);

	if (w && submit(w, (const BJ_RE(ExecuteRequest) *)message, &err) < 0)
		bj_rpc_fail(call, &err);
}

static void on_wait(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct bj_services *services = bj_rpc_svc(call);
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message = NULL;
	struct watching *w = begin(
		call, request,
		&build__bazel__remote__execution__v2__wait_execution_request__descriptor, &message);

	if (!w)
		return;
	const BJ_RE(WaitExecutionRequest) *req = (const BJ_RE(WaitExecutionRequest) *)message;

	if (bj_engine_wait(services->opts.engine, bj_str_of(req->name), on_update, w, &w->waiter,
			   &err) < 0)
		bj_rpc_fail(call, &err);
}

static void on_sent(struct bj_rpc_call *call)
{
	struct watching *w = bj_rpc_data(call);

	if (w)
		flush(w);
}

/* After leave() no callback comes; posts that are under way find is_done_sent. */
static void on_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct watching *w = bj_rpc_data(call);

	(void)status;
	if (!w)
		return;
	if (w->waiter)
		bj_engine_leave(w->waiter);
	w->waiter = NULL;
	w->is_done_sent = true;
	for (size_t i = 0; i < w->n_pending; i++)
		bj_update_unref(w->pending[i]);
	w->n_pending = 0;
}

static const struct bj_rpc_handler execute_handler = { .open = on_execute,
						       .sent = on_sent,
						       .closed = on_closed };
static const struct bj_rpc_handler wait_handler = { .open = on_wait,
						    .sent = on_sent,
						    .closed = on_closed };

struct service_table service_execution(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/build.bazel.remote.execution.v2.Execution/Execute", BJ_RPC_SERVER_STREAM,
		  &execute_handler, NULL },
		{ "/build.bazel.remote.execution.v2.Execution/WaitExecution", BJ_RPC_SERVER_STREAM,
		  &wait_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
