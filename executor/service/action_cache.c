// SPDX-License-Identifier: Apache-2.0
/* ActionCache. What a client uploads is served here, never to Execute: action/cache.h keeps them apart. */
#include "executor/action/cache.h"
#include "executor/base/map.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"

/* Inlined bytes together: with the digests of a large result it still fits a message of 4 MiB. */
enum { INLINE_MAX_BYTES = 1 << 20 };

/* ---- GetActionResult ---- */

/* Spec: "The server MAY omit inlining, even if requested, and MUST do so if inlining would cause the response to exceed message size
 * limits." What cannot be read is simply not inlined: the digest is there. */
static void inline_blob(struct unary *u, const re_digest *pb, ProtobufCBinaryData *out,
			size_t *budget)
{
	struct bj_err ignored = BJ_ERR_NULL;
	struct bj_digest digest;
	struct bj_str data;

	if (!pb || bj_digest_from_pb(BJ_DIGEST_SHA256, pb, "digest", &digest, &ignored) < 0 ||
	    digest.size_bytes > *budget ||
	    bj_store_read(u->services->opts.store, &digest, *budget, &data, u->arena, &ignored) !=
		    0)
		return;
	*out = (ProtobufCBinaryData){ data.len, (uint8_t *)(uintptr_t)data.ptr };
	*budget -= data.len;
}

static void inline_files(struct unary *u, const BJ_RE(GetActionResultRequest) * req,
			 re_action_result *result, size_t *budget)
{
	struct bj_map wanted = BJ_MAP_NULL; /* both lists are the client's, and may be long */

	for (size_t i = 0; i < req->n_inline_output_files; i++)
		if (!bj_map_put(&wanted, bj_str_of(req->inline_output_files[i]), u, NULL))
			break; /* without memory for the table fewer are inlined */
	for (size_t i = 0; wanted.n_entries && i < result->n_output_files; i++)
		if (bj_map_get(&wanted, bj_str_of(result->output_files[i]->path)))
			inline_blob(u, result->output_files[i]->digest,
				    &result->output_files[i]->contents, budget);
	bj_map_deinit(&wanted);
}

/* What this server ran with another toolchain than today's is no result of today. What a client uploaded is that client's word. */
static bool is_stale(const struct unary *u, const struct bj_cache_entry *entry)
{
	return u->services->opts.runner && entry->origin == BJ_CACHE_EXECUTED &&
	       !bj_runner_is_current(u->services->opts.runner, entry->fingerprint);
}

/* A hit is judged again under today's policy; as a miss here, the client asks Execute, which tells it what was touched. */
static bool fails_today(struct unary *u, const struct bj_digest *action)
{
	return u->services->opts.runner &&
	       bj_runner_fails_violations(u->services->opts.runner, action, u->arena);
}

/* Bazel asks here before it asks Execute: a build that is served from the cache has its violations all the same. */
static void tell_hit(struct unary *u, const BJ_RE(GetActionResultRequest) * req,
		     const struct bj_digest *action, const struct bj_cache_entry *entry)
{
	struct bj_run_request asked = {
		.instance = bj_str_of(req->instance_name),
		.action = *action,
	};

	if (!u->services->opts.runner || entry->origin != BJ_CACHE_EXECUTED)
		return;
	request_client_info(u->call, u->arena, &asked.client);
	bj_runner_tell_hit(u->services->opts.runner, &asked, entry->result, entry->message,
			   u->arena);
}

static int get_result(struct unary *u)
{
	const BJ_RE(GetActionResultRequest) *req =
		(const BJ_RE(GetActionResultRequest) *)u->request;
	struct bj_cache_entry entry = { 0 };
	struct bj_digest action;
	enum bj_digest_fn fn;
	char text[BJ_DIGEST_STR_BYTES];
	size_t budget = INLINE_MAX_BYTES;
	int r = request_digest_fn((int)req->digest_function,
				  "GetActionResultRequest.digest_function", &fn, &u->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name),
				      "GetActionResultRequest.instance_name", &u->err);
	if (r == 0)
		r = bj_digest_from_pb(fn, req->action_digest,
				      "GetActionResultRequest.action_digest", &action, &u->err);
	if (r == 0)
		r = bj_cache_get(u->services->opts.store, bj_str_of(req->instance_name), &action,
				 u->arena, &entry, &u->err);
	if (r < 0)
		return r;
	if (r == BJ_CACHE_E_MISS || is_stale(u, &entry) ||
	    (entry.counts_as_violation && fails_today(u, &action))) {
		bj_digest_str(&action, text);
		return bj_err_set(&u->err, BJ_NOT_FOUND, "no result of action %s is cached", text);
	}
	bj_assert(entry.result);
	tell_hit(u, req, &action, &entry);
	if (req->inline_stdout)
		inline_blob(u, entry.result->stdout_digest, &entry.result->stdout_raw, &budget);
	if (req->inline_stderr)
		inline_blob(u, entry.result->stderr_digest, &entry.result->stderr_raw, &budget);
	inline_files(u, req, entry.result, &budget);
	u->reply = &entry.result->base;
	return 0;
}

/* ---- UpdateActionResult ---- */

static int update_result(struct unary *u)
{
	const BJ_RE(UpdateActionResultRequest) *req =
		(const BJ_RE(UpdateActionResultRequest) *)u->request;
	struct bj_cache_entry entry = { .result = req->action_result, .origin = BJ_CACHE_UPLOADED };
	struct bj_digest action;
	enum bj_digest_fn fn;
	int r = request_digest_fn((int)req->digest_function,
				  "UpdateActionResultRequest.digest_function", &fn, &u->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name),
				      "UpdateActionResultRequest.instance_name", &u->err);
	if (r == 0)
		r = bj_digest_from_pb(fn, req->action_digest,
				      "UpdateActionResultRequest.action_digest", &action, &u->err);
	if (r < 0)
		return r;
	if (!req->action_result)
		return bj_err_set(&u->err, BJ_INVALID_ARGUMENT,
				  "UpdateActionResultRequest.action_result is not set");
	r = bj_result_check(u->services->opts.store, fn, req->action_result, NULL, &u->err);
	if (r == 0)
		r = bj_cache_put(u->services->opts.store, bj_str_of(req->instance_name), &action,
				 &entry, u->arena, &u->err);
	u->reply = &req->action_result->base;
	return r;
}

static const struct unary_method get_method = {
	&build__bazel__remote__execution__v2__get_action_result_request__descriptor, get_result
};
static const struct unary_method update_method = {
	&build__bazel__remote__execution__v2__update_action_result_request__descriptor,
	update_result
};

static void on_get(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &get_method);
}

static void on_update(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &update_method);
}

static const struct bj_rpc_handler get_handler = { .open = on_get };
static const struct bj_rpc_handler update_handler = { .open = on_update };

struct service_table service_action_cache(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/build.bazel.remote.execution.v2.ActionCache/GetActionResult", BJ_RPC_UNARY,
		  &get_handler, NULL },
		{ "/build.bazel.remote.execution.v2.ActionCache/UpdateActionResult", BJ_RPC_UNARY,
		  &update_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
