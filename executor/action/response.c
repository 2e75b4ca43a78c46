// SPDX-License-Identifier: Apache-2.0
#include "executor/action/response.h"

#include "executor/base/pb.h"
#include "google/protobuf/any.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

enum {
	STATUS_TEXT_MAX_BYTES =
		2048, /* a longer one does not fit into HTTP/2 trailers everywhere */
	/* About 110 bytes each: the response must stay below 4 MiB. A client that uploads these learns of the rest when it tries again. */
	MISSING_MAX_TOLD = 25000,
};

void bj_failure_missing(struct bj_failure *failure, struct bj_missing missing)
{
	char first[BJ_DIGEST_STR_BYTES] = "";

	if (missing.n_digests)
		bj_digest_str(&missing.digests[0], first);
	failure->missing = missing;
	(void)bj_err_set(&failure->err, BJ_FAILED_PRECONDITION, "%zu %s not in the CAS: %s%s",
			 missing.n_digests, missing.n_digests == 1 ? "blob is" : "blobs are", first,
			 missing.n_digests > 1 ? ", …" : "");
}

Google__Protobuf__Any *bj_any_new(struct bj_arena *arena, const char *full_name,
				  struct bj_str value)
{
	Google__Protobuf__Any *any = BJ_ARENA_NEW(arena, Google__Protobuf__Any);
	char *url = bj_arena_printf(arena, "type.googleapis.com/%s", full_name);

	if (!any || !url || !value.ptr)
		return NULL;
	google__protobuf__any__init(any);
	any->type_url = url;
	any->value = (ProtobufCBinaryData){ value.len, (uint8_t *)(uintptr_t)value.ptr };
	return any;
}

/* Spec: type MISSING, subject "blobs/{hash}/{size}"; the digest function stands in the subject only for those that are not told by length. */
static Google__Rpc__PreconditionFailure__Violation *
missing_violation(struct bj_arena *arena, const struct bj_digest *digest)
{
	Google__Rpc__PreconditionFailure__Violation *v =
		BJ_ARENA_NEW(arena, Google__Rpc__PreconditionFailure__Violation);
	char text[BJ_DIGEST_STR_BYTES];

	bj_digest_str(digest, text);
	char *subject = bj_arena_printf(arena, "blobs/%s", text);

	if (!v || !subject)
		return NULL;
	google__rpc__precondition_failure__violation__init(v);
	v->type = (char *)(uintptr_t) "MISSING";
	v->subject = subject;
	v->description = (char *)(uintptr_t) "not in the CAS";
	return v;
}

static Google__Protobuf__Any *missing_detail(struct bj_arena *arena,
					     const struct bj_missing *missing)
{
	Google__Rpc__PreconditionFailure failure = GOOGLE__RPC__PRECONDITION_FAILURE__INIT;
	size_t n = BJ_MIN(missing->n_digests, (size_t)MISSING_MAX_TOLD);

	failure.violations =
		BJ_ARENA_ARRAY(arena, Google__Rpc__PreconditionFailure__Violation *, n);
	if (!failure.violations)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		failure.violations[i] = missing_violation(arena, &missing->digests[i]);
		if (!failure.violations[i])
			return NULL;
	}
	failure.n_violations = n;
	return bj_any_new(arena, "google.rpc.PreconditionFailure",
			  bj_pb_pack(arena, &failure.base));
}

/* What is fit to be shown stays as it is, or a backslash that stands for a byte already would be doubled. */
static struct bj_str status_text(struct bj_arena *arena, struct bj_str msg)
{
	bool is_fit = msg.len <= STATUS_TEXT_MAX_BYTES && bj_str_is_utf8(msg);

	for (size_t i = 0; is_fit && i < msg.len; i++)
		is_fit = (unsigned char)msg.ptr[i] >= ' ' && msg.ptr[i] != 0x7f;
	return is_fit ? msg : bj_str_printable(arena, msg, STATUS_TEXT_MAX_BYTES);
}

static void fill_status(const struct bj_failure *failure, struct bj_arena *arena,
			Google__Rpc__Status *status)
{
	char *text = bj_str_dup(arena, status_text(arena, bj_str_of(failure->err.msg)));

	status->code = (int32_t)failure->err.code;
	status->message = text ? text : (char *)(uintptr_t) "out of memory for the text";
	if (!failure->missing.n_digests)
		return;
	Google__Protobuf__Any **details = BJ_ARENA_ARRAY(arena, Google__Protobuf__Any *, 1);

	if (details && (details[0] = missing_detail(arena, &failure->missing)) != NULL) {
		status->details = details;
		status->n_details = 1;
	}
}

struct bj_str bj_pack_status(const struct bj_failure *failure, struct bj_arena *arena)
{
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

	fill_status(failure, arena, &status);
	return bj_pb_pack(arena, &status.base);
}

static bool add_log(const struct bj_response *response, struct bj_arena *arena,
		    re_execute_response *message)
{
	BJ_RE(ExecuteResponse__ServerLogsEntry) *entry =
		BJ_ARENA_NEW(arena, BJ_RE(ExecuteResponse__ServerLogsEntry));
	BJ_RE(ExecuteResponse__ServerLogsEntry) **list =
		BJ_ARENA_ARRAY(arena, BJ_RE(ExecuteResponse__ServerLogsEntry) *, 1);
	re_log_file *file = BJ_ARENA_NEW(arena, re_log_file);

	if (!entry || !list || !file)
		return false;
	build__bazel__remote__execution__v2__log_file__init(file);
	file->digest = bj_digest_to_pb(arena, &response->log_digest);
	file->human_readable = true;
	build__bazel__remote__execution__v2__execute_response__server_logs_entry__init(entry);
	entry->key = bj_str_dup(arena, response->log_name);
	entry->value = file;
	list[0] = entry;
	message->server_logs = list;
	message->n_server_logs = 1;
	return entry->key && file->digest;
}

struct bj_str bj_pack_response(const struct bj_response *response, struct bj_arena *arena)
{
	re_execute_response message = BUILD__BAZEL__REMOTE__EXECUTION__V2__EXECUTE_RESPONSE__INIT;
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;

	if (response->failure && bj_err_is_set(&response->failure->err)) {
		fill_status(response->failure, arena, &status);
		message.status = &status;
	}
	message.result = response->result;
	message.cached_result = response->cached;
	if (response->message.len) {
		char *text = bj_str_dup(arena, response->message);

		if (text)
			message.message = text;
	}
	if (response->log_name.len && !add_log(response, arena, &message))
		message.n_server_logs = 0;
	return bj_pb_pack(arena, &message.base);
}

struct bj_str bj_pack_operation_metadata(const struct bj_run_request *request, int stage,
					 struct bj_arena *arena)
{
	BJ_RE(ExecuteOperationMetadata)
	metadata = BUILD__BAZEL__REMOTE__EXECUTION__V2__EXECUTE_OPERATION_METADATA__INIT;

	metadata.stage = (BJ_RE(ExecutionStage__Value))stage;
	metadata.action_digest = bj_digest_to_pb(arena, &request->action);
	return bj_pb_pack(arena, &metadata.base);
}
