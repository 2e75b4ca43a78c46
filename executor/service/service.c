// SPDX-License-Identifier: Apache-2.0
#include "executor/service/service-internal.h"

#include "executor/base/alloc.h"
#include "executor/base/pb.h"

/* ---- jobs ---- */

/*
 *   IDLE ── job_start ──> BUSY ── back on the loop ──> IDLE: done()
 *     │                    ├── job_close ──> CLOSED ── back on the loop ──> release()
 *     │                    └── no memory to come back ──> LOST, and the call is cancelled ── job_close ──> release()
 *     └── job_close ──> release()
 *
 * Two threads may decide at once, one that the work is over, one that the call is; whoever comes second sees what the first did.
 */
enum job_state { JOB_IDLE, JOB_BUSY, JOB_CLOSED, JOB_LOST };

void job_init(struct job *job, struct bj_rpc_call *call)
{
	struct bj_services *services = bj_rpc_svc(call);

	job->call = call;
	job->pool = services->opts.pool;
	atomic_init(&job->state, JOB_IDLE);
}

static void job_release(struct job *job)
{
	if (job->release)
		job->release(job);
}

static void job_back(struct bj_rpc_call *call, void *arg)
{
	struct job *job = arg;

	if (atomic_exchange(&job->state, JOB_IDLE) == JOB_CLOSED)
		job_release(job);
	else
		job->done(job);
	bj_rpc_drop(call); /* the hold of job_start(); the job dies with the call's arena */
}

static void job_main(void *arg)
{
	struct job *job = arg;
	struct bj_rpc_call *call = job->call;

	job->work(job);
	if (bj_rpc_post(call, job_back, job))
		return;
	/* Out of memory: the client hears CANCELLED, and closed() cleans up. */
	if (atomic_exchange(&job->state, JOB_LOST) == JOB_CLOSED)
		job_release(job);
	else
		bj_rpc_cancel(call);
	bj_rpc_drop(call);
}

void job_start(struct job *job)
{
	struct bj_err err = BJ_ERR_NULL;

	bj_assert(atomic_exchange(&job->state, JOB_BUSY) == JOB_IDLE);
	bj_rpc_hold(job->call);
	if (bj_pool_submit(job->pool, job_main, job))
		return;
	atomic_store(&job->state, JOB_IDLE);
	(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "too many requests wait for the disk");
	bj_rpc_fail(job->call, &err);
	bj_rpc_drop(job->call);
}

void job_close(struct job *job)
{
	if (atomic_exchange(&job->state, JOB_CLOSED) != JOB_BUSY)
		job_release(job);
}

bool job_is_closed(struct job *job)
{
	return atomic_load(&job->state) == JOB_CLOSED;
}

/* ---- unary methods on the pool ---- */

static void unary_done(struct job *job)
{
	struct unary *u = BJ_CONTAINER_OF(job, struct unary, job);

	if (bj_err_is_set(&u->err))
		bj_rpc_fail(u->call, &u->err);
	else
		bj_rpc_reply_msg(u->call, u->reply);
}

static void unary_work(struct job *job)
{
	struct unary *u = BJ_CONTAINER_OF(job, struct unary, job);

	if (u->method->work(u) == 0)
		bj_assert(u->reply != NULL);
}

void unary_open(struct bj_rpc_call *call, grpc_byte_buffer *request,
		const struct unary_method *method)
{
	struct bj_arena *arena = bj_rpc_arena(call);
	struct unary *u = BJ_ARENA_NEW(arena, struct unary);
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;
	int r;

	if (!u)
		r = bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
	else
		r = bj_rpc_unpack(request, method->request_type, arena, &message, &err);
	if (r < 0) {
		bj_rpc_fail(call, &err);
		return;
	}
	*u = (struct unary){ .job = { .work = unary_work, .done = unary_done },
			     .call = call,
			     .services = bj_rpc_svc(call),
			     .method = method,
			     .arena = arena,
			     .request = message };
	job_init(&u->job, call);
	job_start(&u->job);
}

/* ---- request parts ---- */

/* Spec: with the field unset the function is told from the length of the hash, among those that existed before the field; SHA-256 is. */
int request_digest_fn(int value, const char *field, enum bj_digest_fn *out_fn, struct bj_err *err)
{
	if (value != 0 && bj_digest_fn_len((enum bj_digest_fn)value) == 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "%s: digest function %d is not supported, only SHA256 (1)", field,
				  value);
	*out_fn = BJ_DIGEST_SHA256;
	return 0;
}

void request_client_info(struct bj_rpc_call *call, struct bj_arena *arena,
			 struct bj_client_info *out_info)
{
	struct bj_str header =
		bj_rpc_metadata(call, "build.bazel.remote.execution.v2.requestmetadata-bin");
	struct bj_err ignored = BJ_ERR_NULL;
	ProtobufCMessage *message;

	*out_info = (struct bj_client_info){ 0 };
	if (!header.ptr ||
	    bj_pb_unpack(header, &build__bazel__remote__execution__v2__request_metadata__descriptor,
			 arena, &message, &ignored) < 0)
		return;
	const BJ_RE(RequestMetadata) *m = (const BJ_RE(RequestMetadata) *)message;

	*out_info = (struct bj_client_info){
		.tool = bj_str_of(m->tool_details ? m->tool_details->tool_name : NULL),
		.invocation = bj_str_of(m->tool_invocation_id),
		.correlated = bj_str_of(m->correlated_invocations_id),
		.action_id = bj_str_of(m->action_id),
		.mnemonic = bj_str_of(m->action_mnemonic),
		.target = bj_str_of(m->target_id),
		.configuration = bj_str_of(m->configuration_id),
	};
}

/* ---- registration ---- */

static int register_table(struct bj_services *services, struct bj_rpc_server *server,
			  struct service_table table, struct bj_err *err)
{
	for (size_t i = 0; i < table.n_methods; i++) {
		struct bj_rpc_method method = table.methods[i];

		method.svc = services;
		int r = bj_rpc_server_add(server, &method, 1, err);

		if (r < 0)
			return r;
	}
	return 0;
}

int bj_services_register(struct bj_services *services, struct bj_rpc_server *server,
			 struct bj_err *err)
{
	const struct service_table tables[] = {
		service_capabilities(), service_health(),    service_cas(),
		service_tree(),		service_read(),	     service_write(),
		service_action_cache(), service_execution(), service_explain(),
	};
	/* Without an engine the last two are left out: their methods are unknown then, UNIMPLEMENTED. */
	size_t n = services->opts.engine ? BJ_ARRAY_LEN(tables) : BJ_ARRAY_LEN(tables) - 2;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = register_table(services, server, tables[i], err);
	return r;
}
