// SPDX-License-Identifier: Apache-2.0
/**
 * action/run.h - one action's life, from its digest to a packed ExecuteResponse: fetch, derive, lay out, run, observe, collect, report.
 * Owns: nothing beyond the call. Threads: one call per slot at a time, on the slot's runner thread. Blocks.
 *
 * States are data (run.c): a table of states, the allowed moves, and an invariant that is checked after each move.
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
	bool skip_cache_lookup;
	bool do_not_cache;      /* from the Action, known after lookup() */
	struct bj_client_info client;
	uint64_t queued_ns;     /* real time when it was queued */
};

/** How the engine steers a running action. */
struct bj_run_control {
	int cancel_fd; /* eventfd: readable = cancel */
	void *ctx;
	/** The action left the queue's hands and its command starts: EXECUTING may be told. May be NULL. */
	void (*executing)(void *ctx);
};

/** What runs actions; the engine calls it. Blocking, from any number of runner threads, one per slot at a time. */
struct bj_runner_ops {
	/**
	 * Before queueing, on a runner or pool thread: is there a cached result, and may the action be merged?
	 * @out_response: packed ExecuteResponse on a hit, allocated in @arena
	 * Return: 0 = run it; BJ_RUN_E_HIT = *out_response is final; negative = the operation fails with this error (e.g. MISSING blobs).
	 */
	int (*lookup)(void *slot, struct bj_run_request *request, struct bj_arena *arena, struct bj_str *out_response, struct bj_err *err);
	/**
	 * Run it. Every outcome becomes a packed ExecuteResponse (failures in its status, as the spec demands): never an error.
	 */
	struct bj_str (*run)(void *slot, const struct bj_run_request *request, const struct bj_run_control *control, struct bj_arena *arena);
	/** A packed ExecuteResponse for a failure outside run(): cancelled in the queue, stopping, lookup errors. */
	struct bj_str (*failure)(void *slot, const struct bj_run_request *request, const struct bj_err *err, struct bj_arena *arena);
	void (*slot_free)(void *slot);
};
enum { BJ_RUN_E_HIT = 1 };

#endif
