// SPDX-License-Identifier: Apache-2.0
/**
 * action/run.h - the seam between the engine (who waits for what) and the runner (one action's life).
 * Owns: nothing. Threads: see each member.
 */
#ifndef BJ_ACTION_RUN_H
#define BJ_ACTION_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/cas/digest.h"

/** What the client said about itself (RequestMetadata); all may be empty. Untrusted. */
struct bj_client_info {
	struct bj_str tool, invocation, correlated, action_id, mnemonic, target, configuration;
};

struct bj_run_request {
	struct bj_str instance;
	struct bj_digest action;
	bool skip_cache_lookup; /* ExecuteRequest: do not read the action cache */
	bool do_not_cache;	/* Action: neither cache nor merge; set by lookup() */
	struct bj_client_info client;
	uint64_t queued_ns; /* real time */
};

/** How the engine steers a running action. */
struct bj_run_control {
	int cancel_fd; /* eventfd: readable = cancel */
	void *ctx;
	/** The command is about to start: the EXECUTING stage may be told. Any thread. */
	void (*executing)(void *ctx);
};

enum { BJ_RUN_E_FINAL = 1 };

/** What runs actions; the engine calls it, tests give a fake. */
struct bj_runner_ops {
	void *ctx;
	/**
	 * On a pool thread, before queueing: reads the Action (do_not_cache) and, unless skip_cache_lookup, the action cache.
	 * @out_response: packed ExecuteResponse in @arena when BJ_RUN_E_FINAL: a hit, or a failure with its details (MISSING blobs …)
	 * Return: 0 = queue it; BJ_RUN_E_FINAL; negative only for want of memory.
	 */
	int (*lookup)(void *ctx, struct bj_run_request *request, struct bj_arena *arena,
		      struct bj_str *out_response, struct bj_err *err);
	/** On the slot's thread. Every outcome is a packed ExecuteResponse (failures in its status: the spec demands it). */
	struct bj_str (*run)(void *ctx, size_t slot, const struct bj_run_request *request,
			     const struct bj_run_control *control, struct bj_arena *arena);
	/** A packed ExecuteResponse for a failure outside run(): cancelled in the queue, stopping. Any thread. */
	struct bj_str (*failure)(void *ctx, const struct bj_run_request *request,
				 const struct bj_err *err, struct bj_arena *arena);
	/** Packed ExecuteOperationMetadata. Any thread. @stage: REAPI's ExecutionStage.Value */
	struct bj_str (*metadata)(void *ctx, const struct bj_run_request *request, int stage,
				  struct bj_arena *arena);
};

#endif
