// SPDX-License-Identifier: Apache-2.0
/*
 * The action cache as Execute sees it: only what this server ran itself, under walls, with today's toolchain; judged again on every hit.
 *
 * What is stored is the result as it ran, exit code 0 and its records within. onViolation is not part of it: under `fail` the hit gets
 * the same exit code and message that the run would get now.
 */
#include "executor/action/cache.h"
#include "executor/action/life-internal.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pb.h"

int cached_store(struct life *life, struct bj_err *err)
{
	char fingerprint[BJ_FINGERPRINT_BYTES];

	/* A root that changed while the command ran: nobody knows which compiler it was. */
	if (!bj_fingerprint_get(life->runner->fingerprint, fingerprint) ||
	    strcmp(fingerprint, life->fingerprint) != 0)
		return 0;
	struct bj_cache_entry entry = {
		.result = life->result,
		.origin = BJ_CACHE_EXECUTED,
		.fingerprint = bj_str_of(fingerprint),
		.counts_as_violation = life->judged.has_unignored,
		.message =
			bjp_summary_message(&life->judged, BJ_STR_LIT(BJ_JAIL_ROOT), life->arena),
	};
	return bj_cache_put(life->runner->opts.store, life->request->instance,
			    &life->request->action, &entry, life->arena, err);
}

/* The packed SandboxReport of a result; an empty view when it has none that can be read (a client may have uploaded anything). */
static struct bj_str report_of(const re_action_result *result, struct bj_arena *arena,
			       const Belljar__V1__SandboxReport **out_report)
{
	const re_action_metadata *metadata = result->execution_metadata;
	struct bj_err ignored = BJ_ERR_NULL;
	ProtobufCMessage *message;

	for (size_t i = 0; metadata && i < metadata->n_auxiliary_metadata; i++) {
		const Google__Protobuf__Any *any = metadata->auxiliary_metadata[i];
		struct bj_str bytes = bj_str_n(any->value.data, any->value.len);

		if (!bj_str_has_suffix(bj_str_of(any->type_url),
				       BJ_STR_LIT("/belljar.v1.SandboxReport")) ||
		    bj_pb_unpack(bytes, &belljar__v1__sandbox_report__descriptor, arena, &message,
				 &ignored) < 0)
			continue;
		*out_report = (const Belljar__V1__SandboxReport *)message;
		return bytes;
	}
	return BJ_STR_NULL;
}

void bj_runner_tell_hit(struct bj_runner *runner, const struct bj_run_request *request,
			const re_action_result *result, struct bj_str message,
			struct bj_arena *arena)
{
	const Belljar__V1__SandboxReport *report = NULL;
	struct bj_str packed = report_of(result, arena, &report);
	char action[BJ_DIGEST_STR_BYTES];

	if (!report)
		return;
	bj_digest_str(&request->action, action);
	struct bj_stored_report stored = {
		.packed = packed,
		.action = bj_str_of(action),
		.target = request->client.target,
		.mnemonic = request->client.mnemonic,
		.invocation = request->client.invocation,
		.exit_code = result->exit_code,
		.finished_ns = bj_realtime_ns(),
		.cached = true,
		.has_violations = report->n_violations > 0,
		.message = message,
	};
	bj_reports_add(runner->opts.reports, &stored);
}

int cached_lookup(struct bj_runner *runner, const struct bj_run_request *request,
		  const struct bjp_settings *settings, struct bj_arena *arena,
		  struct bj_str *out_response, struct bj_err *err)
{
	struct bj_err why = BJ_ERR_NULL;
	struct bj_cache_entry entry;

	if (request->skip_cache_lookup)
		return CACHED_E_MISS;
	int r = bj_cache_get(runner->opts.store, request->instance, &request->action, arena, &entry,
			     &why);

	if (r < 0) /* a cache that cannot be read is no reason to fail: the action runs */
		bj_warn("action: cache not read error=\"%s\"", why.msg);
	if (r != 0 || entry.origin != BJ_CACHE_EXECUTED || entry.result->exit_code != 0 ||
	    !bj_runner_is_current(runner, entry.fingerprint))
		return CACHED_E_MISS;
	struct bj_response response = { .result = entry.result, .cached = true };

	if (entry.counts_as_violation && settings->on_violation == BJP_ON_VIOLATION_FAIL) {
		entry.result->exit_code = VIOLATION_EXIT_CODE;
		response.message = entry.message;
	}
	bj_runner_tell_hit(runner, request, entry.result, response.message, arena);
	*out_response = bj_pack_response(&response, arena);
	if (!out_response->ptr)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a cached result");
	return 0;
}
