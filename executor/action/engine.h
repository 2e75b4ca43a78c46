// SPDX-License-Identifier: Apache-2.0
/**
 * action/engine.h - operations: queue, merging, slots, waiters. Knows nothing of gRPC.
 * Owns: the operations and one runner thread per slot. Threads: every call from any thread; one mutex inside; callbacks come without it held.
 *
 *   submit ──> CACHE_CHECK ──> QUEUED ──> EXECUTING ──> COMPLETED
 *                  └──── hit, failure ────────────────────┘
 * Two equal actions in flight (same instance and digest, neither do_not_cache) are one execution with several waiters. When the last waiter leaves, the action is
 * cancelled after the grace time, unless bj_engine_wait() comes back in between. A completed operation is kept for a while for late waiters.
 * Spec: REAPI v2, service Execution.
 */
#ifndef BJ_ACTION_ENGINE_H
#define BJ_ACTION_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/action/run.h"
#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/cas/digest.h"

struct bj_engine;
struct bj_pool;
struct bj_waiter;

/** Values equal REAPI's ExecutionStage.Value. */
enum bj_stage {
	BJ_STAGE_UNKNOWN = 0,
	BJ_STAGE_CACHE_CHECK = 1,
	BJ_STAGE_QUEUED = 2,
	BJ_STAGE_EXECUTING = 3,
	BJ_STAGE_COMPLETED = 4
};

struct bj_engine_opts {
	uint64_t cancel_grace_ns; /* after the last waiter left */
	uint64_t keep_done_ns;	  /* how long a completed operation can still be waited for */
	size_t max_queued;	  /* submitted and not yet running; more: RESOURCE_EXHAUSTED */
	size_t n_slots;		  /* runner threads, >= 1 */
	struct bj_pool *pool;	  /* for lookups; borrowed */
};

/** One state of an operation, immutable, counted. */
struct bj_update {
	const char
		*name; /* operation name, unique for ever (holds a random part of this process) */
	struct bj_digest action;
	enum bj_stage stage;
	struct bj_str response; /* packed ExecuteResponse when COMPLETED, else empty */
	struct bj_str metadata; /* packed ExecuteOperationMetadata */
};
const struct bj_update *bj_update_ref(const struct bj_update *update);
void bj_update_unref(const struct bj_update *update);

/** Called on some engine thread, in order, once per state that the waiter has not seen; the last one is COMPLETED. Must not block or call back into the engine. */
typedef void (*bj_update_fn)(void *ctx, const struct bj_update *update);

/** @ops: copied; its ctx is borrowed. */
BJ_MUST_USE int bj_engine_new(const struct bj_engine_opts *opts, const struct bj_runner_ops *ops,
			      struct bj_engine **out_engine, struct bj_err *err);
/**
 * Cancels everything and waits for the runners. Who still waits is told the end: UNAVAILABLE for what was queued, what the runner
 * makes of a cancel for what ran. Every waiter was given back before, or is by another thread: this waits for it. The pool must still
 * run. Accepts NULL.
 */
void bj_engine_free(struct bj_engine *engine);

struct bj_submit {
	struct bj_run_request request; /* copied */
	int32_t priority;	       /* smaller runs first; equal ones in order of arrival */
};
/**
 * bj_engine_submit() - start or join an execution.
 * @out_waiter: to be given back with bj_engine_leave(), also after COMPLETED
 * Return: 0; -RESOURCE_EXHAUSTED; -UNAVAILABLE while stopping.
 */
BJ_MUST_USE int bj_engine_submit(struct bj_engine *engine, const struct bj_submit *submit,
				 bj_update_fn fn, void *ctx, struct bj_waiter **out_waiter,
				 struct bj_err *err);
/** Joins an operation by name. Return: 0; -NOT_FOUND. */
BJ_MUST_USE int bj_engine_wait(struct bj_engine *engine, struct bj_str name, bj_update_fn fn,
			       void *ctx, struct bj_waiter **out_waiter, struct bj_err *err);
/** No callback runs after this returns (it waits for one under way, so not from inside the callback). */
void bj_engine_leave(struct bj_waiter *waiter);

#endif
