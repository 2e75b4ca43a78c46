// SPDX-License-Identifier: Apache-2.0
/**
 * action/response.h - packing ExecuteResponse and ExecuteOperationMetadata.
 * Owns nothing: the bytes live in the arena. Threads: the arena's owner.
 * Spec: REAPI v2, messages ExecuteResponse, ExecuteOperationMetadata; google.rpc.Status, PreconditionFailure.
 */
#ifndef BJ_ACTION_RESPONSE_H
#define BJ_ACTION_RESPONSE_H

#include <stdbool.h>

#include "executor/action/run.h"
#include "executor/cas/reapi.h"
#include "executor/cas/tree.h"
#include "google/protobuf/any.pb-c.h"

/** Why an action did not give a plain result. */
struct bj_failure {
	struct bj_err err;	   /* BJ_OK: none */
	struct bj_missing missing; /* blobs to name, with FAILED_PRECONDITION */
};

struct bj_response {
	const struct bj_failure *failure; /* NULL or unset: status OK */
	re_action_result *result;	  /* NULL without one; kept beside a failure (timeout) */
	bool cached;
	struct bj_str message;	/* may be empty */
	struct bj_str log_name; /* server_logs entry; empty without one */
	struct bj_digest log_digest;
};

/** "blobs missing" as an error: FAILED_PRECONDITION; the text counts them and names the first. */
void bj_failure_missing(struct bj_failure *failure, struct bj_missing missing);

/** Packed google.rpc.Status: code, text, and a PreconditionFailure with one MISSING violation for each missing blob. */
struct bj_str bj_pack_status(const struct bj_failure *failure, struct bj_arena *arena);
struct bj_str bj_pack_response(const struct bj_response *response, struct bj_arena *arena);
struct bj_str bj_pack_operation_metadata(const struct bj_run_request *request, int stage,
					 struct bj_arena *arena);
/** @value packed as google.protobuf.Any of type "type.googleapis.com/<full name>"; NULL without memory. */

Google__Protobuf__Any *bj_any_new(struct bj_arena *arena, const char *full_name,
				  struct bj_str value);

#endif
