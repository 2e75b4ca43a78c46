// SPDX-License-Identifier: Apache-2.0
/* ContentAddressableStorage: FindMissingBlobs, BatchUpdateBlobs, BatchReadBlobs. GetTree is tree.c's. */
#include <stdio.h>

#include "executor/service/resource.h"
#include "executor/service/service-internal.h"
#include "google/rpc/status.pb-c.h"

static int no_memory(struct unary *u)
{
	return bj_err_set(&u->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the reply");
}

static Google__Rpc__Status *status_pb(struct unary *u, const struct bj_err *err)
{
	Google__Rpc__Status *status = BJ_ARENA_NEW(u->arena, Google__Rpc__Status);

	if (!status)
		return NULL;
	google__rpc__status__init(status);
	status->code = (int32_t)err->code;
	if (bj_err_is_set(err)) {
		char *text = bj_str_dup(u->arena, bj_str_printable(u->arena, bj_str_of(err->msg),
								   sizeof(err->msg)));

		if (text)
			status->message = text;
	}
	return status;
}

/* ---- FindMissingBlobs ---- */

static int find_missing(struct unary *u)
{
	const BJ_RE(FindMissingBlobsRequest) *req =
		(const BJ_RE(FindMissingBlobsRequest) *)u->request;
	BJ_RE(FindMissingBlobsResponse) *reply =
		BJ_ARENA_NEW(u->arena, BJ_RE(FindMissingBlobsResponse));
	enum bj_digest_fn fn;
	int r = request_digest_fn((int)req->digest_function,
				  "FindMissingBlobsRequest.digest_function", &fn, &u->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name),
				      "FindMissingBlobsRequest.instance_name", &u->err);
	if (r < 0)
		return r;
	if (!reply)
		return no_memory(u);
	build__bazel__remote__execution__v2__find_missing_blobs_response__init(reply);
	reply->missing_blob_digests = BJ_ARENA_ARRAY(u->arena, re_digest *, req->n_blob_digests);
	if (!reply->missing_blob_digests)
		return no_memory(u);
	for (size_t i = 0; i < req->n_blob_digests; i++) {
		struct bj_digest digest;
		char what[48];

		(void)snprintf(what, sizeof(what), "blob_digests[%zu]", i);
		r = bj_digest_from_pb(fn, req->blob_digests[i], what, &digest, &u->err);
		if (r < 0)
			return r;
		if (!bj_store_has(u->services->opts.store, &digest))
			reply->missing_blob_digests[reply->n_missing_blob_digests++] =
				req->blob_digests[i];
	}
	u->reply = &reply->base;
	return 0;
}

/* ---- BatchUpdateBlobs ---- */

/* The error is this blob's own status. */
static int update_one(struct unary *u, enum bj_digest_fn fn,
		      const BJ_RE(BatchUpdateBlobsRequest__Request) * req, size_t i,
		      struct bj_err *err)
{
	struct bj_digest digest;
	char what[48];

	(void)snprintf(what, sizeof(what), "requests[%zu].digest", i);
	if (req->compressor != BUILD__BAZEL__REMOTE__EXECUTION__V2__COMPRESSOR__VALUE__IDENTITY)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "requests[%zu].compressor: only IDENTITY is supported", i);
	int r = bj_digest_from_pb(fn, req->digest, what, &digest, err);

	return r < 0 ? r
		     : bj_store_put(u->services->opts.store, fn,
				    bj_str_n(req->data.data, req->data.len), &digest, NULL, err);
}

static int update_all(struct unary *u, enum bj_digest_fn fn,
		      const BJ_RE(BatchUpdateBlobsRequest) * req,
		      BJ_RE(BatchUpdateBlobsResponse) * reply)
{
	reply->responses = BJ_ARENA_ARRAY(u->arena, BJ_RE(BatchUpdateBlobsResponse__Response) *,
					  req->n_requests);
	if (!reply->responses)
		return no_memory(u);
	for (size_t i = 0; i < req->n_requests; i++) {
		BJ_RE(BatchUpdateBlobsResponse__Response) *one =
			BJ_ARENA_NEW(u->arena, BJ_RE(BatchUpdateBlobsResponse__Response));
		struct bj_err err = BJ_ERR_NULL;

		if (!one)
			return no_memory(u);
		build__bazel__remote__execution__v2__batch_update_blobs_response__response__init(
			one);
		if (update_one(u, fn, req->requests[i], i, &err) == 0)
			bj_assert(!bj_err_is_set(&err));
		one->digest = req->requests[i]->digest;
		one->status = status_pb(u, &err);
		if (!one->status)
			return no_memory(u);
		reply->responses[reply->n_responses++] = one;
	}
	return 0;
}

static int batch_update(struct unary *u)
{
	const BJ_RE(BatchUpdateBlobsRequest) *req =
		(const BJ_RE(BatchUpdateBlobsRequest) *)u->request;
	BJ_RE(BatchUpdateBlobsResponse) *reply =
		BJ_ARENA_NEW(u->arena, BJ_RE(BatchUpdateBlobsResponse));
	enum bj_digest_fn fn;
	uint64_t total = 0;
	int r = request_digest_fn((int)req->digest_function,
				  "BatchUpdateBlobsRequest.digest_function", &fn, &u->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name),
				      "BatchUpdateBlobsRequest.instance_name", &u->err);
	if (r < 0)
		return r;
	/* Spec: INVALID_ARGUMENT "The client attempted to upload more than the server supported limit." */
	for (size_t i = 0; i < req->n_requests; i++)
		total += req->requests[i]->data.len;
	if (total > BJ_MAX_BATCH_BYTES)
		return bj_err_set(&u->err, BJ_INVALID_ARGUMENT,
				  "requests: %llu bytes are above max_batch_total_size_bytes, %d",
				  (unsigned long long)total, BJ_MAX_BATCH_BYTES);
	if (!reply)
		return no_memory(u);
	build__bazel__remote__execution__v2__batch_update_blobs_response__init(reply);
	r = update_all(u, fn, req, reply);
	u->reply = &reply->base;
	return r;
}

/* ---- BatchReadBlobs ---- */

static int read_one(struct unary *u, const struct bj_digest *digest,
		    BJ_RE(BatchReadBlobsResponse__Response) * one)
{
	struct bj_err err = BJ_ERR_NULL;
	char text[BJ_DIGEST_STR_BYTES];
	struct bj_str data;
	int r = bj_store_read(u->services->opts.store, digest, BJ_MAX_BATCH_BYTES, &data, u->arena,
			      &err);

	if (r == 0)
		one->data = (ProtobufCBinaryData){ data.len, (uint8_t *)(uintptr_t)data.ptr };
	if (r == BJ_STORE_E_MISSING || err.code == BJ_DATA_LOSS) {
		bj_digest_str(digest, text);
		bj_err_clear(&err);
		(void)bj_err_set(&err, BJ_NOT_FOUND, "blob %s is not in the CAS", text);
	}
	one->status = status_pb(u, &err);
	return one->status ? 0 : no_memory(u);
}

static int read_all(struct unary *u, const BJ_RE(BatchReadBlobsRequest) * req,
		    const struct bj_digest *digests, BJ_RE(BatchReadBlobsResponse) * reply)
{
	reply->responses =
		BJ_ARENA_ARRAY(u->arena, BJ_RE(BatchReadBlobsResponse__Response) *, req->n_digests);
	if (!reply->responses)
		return no_memory(u);
	for (size_t i = 0; i < req->n_digests; i++) {
		BJ_RE(BatchReadBlobsResponse__Response) *one =
			BJ_ARENA_NEW(u->arena, BJ_RE(BatchReadBlobsResponse__Response));

		if (!one)
			return no_memory(u);
		build__bazel__remote__execution__v2__batch_read_blobs_response__response__init(one);
		one->digest = req->digests[i];
		int r = read_one(u, &digests[i], one);

		if (r < 0)
			return r;
		reply->responses[reply->n_responses++] = one;
	}
	return 0;
}

static int batch_read(struct unary *u)
{
	const BJ_RE(BatchReadBlobsRequest) *req = (const BJ_RE(BatchReadBlobsRequest) *)u->request;
	BJ_RE(BatchReadBlobsResponse) *reply =
		BJ_ARENA_NEW(u->arena, BJ_RE(BatchReadBlobsResponse));
	struct bj_digest *digests = BJ_ARENA_ARRAY(u->arena, struct bj_digest, req->n_digests);
	enum bj_digest_fn fn;
	uint64_t total = 0;
	int r = request_digest_fn((int)req->digest_function,
				  "BatchReadBlobsRequest.digest_function", &fn, &u->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(req->instance_name),
				      "BatchReadBlobsRequest.instance_name", &u->err);
	if (r == 0 && (!reply || !digests))
		r = no_memory(u);
	for (size_t i = 0; r == 0 && i < req->n_digests; i++) {
		char what[48];

		(void)snprintf(what, sizeof(what), "digests[%zu]", i);
		r = bj_digest_from_pb(fn, req->digests[i], what, &digests[i], &u->err);
		if (r == 0 && __builtin_add_overflow(total, digests[i].size_bytes, &total))
			total = UINT64_MAX;
	}
	if (r < 0)
		return r;
	/* Spec: INVALID_ARGUMENT "The client attempted to read more than the server supported limit." */
	if (total > BJ_MAX_BATCH_BYTES)
		return bj_err_set(&u->err, BJ_INVALID_ARGUMENT,
				  "digests: %llu bytes are above max_batch_total_size_bytes, %d",
				  (unsigned long long)total, BJ_MAX_BATCH_BYTES);
	build__bazel__remote__execution__v2__batch_read_blobs_response__init(reply);
	r = read_all(u, req, digests, reply);
	u->reply = &reply->base;
	return r;
}

/* ---- table ---- */

static const struct unary_method find_missing_method = {
	&build__bazel__remote__execution__v2__find_missing_blobs_request__descriptor, find_missing
};
static const struct unary_method batch_update_method = {
	&build__bazel__remote__execution__v2__batch_update_blobs_request__descriptor, batch_update
};
static const struct unary_method batch_read_method = {
	&build__bazel__remote__execution__v2__batch_read_blobs_request__descriptor, batch_read
};

static void on_find_missing(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &find_missing_method);
}

static void on_batch_update(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &batch_update_method);
}

static void on_batch_read(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	unary_open(call, request, &batch_read_method);
}

static const struct bj_rpc_handler find_missing_handler = { .open = on_find_missing };
static const struct bj_rpc_handler batch_update_handler = { .open = on_batch_update };
static const struct bj_rpc_handler batch_read_handler = { .open = on_batch_read };

struct service_table service_cas(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs",
		  BJ_RPC_UNARY, &find_missing_handler, NULL },
		{ "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs",
		  BJ_RPC_UNARY, &batch_update_handler, NULL },
		{ "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs",
		  BJ_RPC_UNARY, &batch_read_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
