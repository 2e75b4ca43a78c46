// SPDX-License-Identifier: Apache-2.0
/**
 * action/engine-internal.h - what engine.c (threads), engine_op.c (operations) and engine_waiter.c (who is told what) share.
 * Lock: engine->mu guards everything here; functions named _locked need it held. No callback runs under it, and of the
 * runner's functions only failure() and metadata(), which pack a few bytes and touch nothing else.
 */
#ifndef BJ_ACTION_ENGINE_INTERNAL_H
#define BJ_ACTION_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "executor/action/engine.h"
#include "executor/base/map.h"

enum { BJ_OP_NAME_BYTES = 64 };

/** The engine's view of an operation. */
struct operation {
	struct operation *next_queued; /* engine->queue */
	struct operation *prev, *next; /* engine->live, or engine->done once COMPLETED */
	char name[BJ_OP_NAME_BYTES];
	enum bj_stage stage;
	struct bj_arena arena; /* the request's strings and merge_key */
	struct bj_run_request request;
	int32_t priority;
	uint64_t seq;	   /* order of arrival */
	bool is_mergeable; /* in engine->in_flight under merge_key */
	bool may_be_shared; /* was mergeable: others may have its result, if they came before it was there */
	struct bj_str merge_key;
	int cancel_fd;	   /* eventfd */
	bool is_cancelled; /* the eventfd was raised */
	uint64_t born_ns;  /* monotonic, as all times here */
	uint64_t
		abandoned_ns; /* when it is cancelled for want of waiters; BJ_NEVER_NS: it has some */
	uint64_t completed_ns;
	uint64_t forget_ns;	  /* COMPLETED: when it is dropped */
	struct bj_update *latest; /* the newest state; counted */
	struct bj_update *spare;  /* the end that can be told without memory; NULL once COMPLETED */
	size_t kept_bytes;	  /* COMPLETED: its share of engine->done_bytes */
	struct bj_waiter *waiters; /* singly linked */
	bool is_busy;		   /* a lookup or a runner works on it outside the lock */
};

struct bj_waiter {
	struct bj_waiter *next;	      /* operation->waiters */
	struct bj_waiter *next_ready; /* engine->ready */
	struct bj_engine *engine;
	struct operation *op;
	bj_update_fn fn;
	void *ctx;
	struct pending { /* states not yet told; at most one a stage, so four suffice */
		struct bj_update *updates[4];
		size_t n;
	} pending;
	bool is_ready;	    /* linked in engine->ready */
	bool is_delivering; /* its callback runs now */
	bool is_gone;	    /* bj_engine_leave() was called */
};

struct bj_engine {
	struct bj_engine_opts opts;
	struct bj_runner_ops ops;
	pthread_mutex_t mu;
	pthread_cond_t work; /* a queued operation, or stopping: runners wait here */
	pthread_cond_t tell; /* ready waiters, a new deadline, or stopping: the teller waits here */
	pthread_cond_t
		told; /* a delivery or lookup ended, a waiter left: leave() and free() wait here */
	bool is_stopping;
	struct op_list { /* doubly linked, oldest first */
		struct operation *head, *tail;
	} live, done; /* done: in the order of forget_ns, since the time to keep is one constant */
	size_t n_abandoned; /* live operations with a deadline in abandoned_ns: none means no scan */
	size_t done_bytes;  /* held by those in done */
	struct operation *queue, *queue_tail; /* QUEUED, best first */
	size_t n_waiting;		      /* CACHE_CHECK and QUEUED */
	size_t n_lookups;		      /* jobs given to the pool and not yet back */
	size_t n_waiters;		      /* given out and not yet given back */
	uint64_t next_seq;
	struct bj_map by_name;	 /* name -> operation */
	struct bj_map in_flight; /* merge key -> operation, QUEUED or EXECUTING */
	struct bj_waiter *ready, **ready_tail;
	pthread_t *runners;
	struct runner_arg *runner_args;
	size_t n_runners;
	pthread_t teller;
	bool has_teller;
	uint64_t run_id; /* random, in every name: a name of an earlier process is never found */
	struct bj_arena arena;
	struct bj_str no_memory; /* packed ExecuteResponse, for op->spare */
};

/** What control->executing() needs. */
struct run_ctx {
	struct bj_engine *engine;
	struct operation *op;
};

/* ---- engine_op.c: operations, the queue ---- */

/** A young one, linked nowhere; NULL with @err set. */
struct operation *op_new(struct bj_engine *engine, const struct bj_submit *submit,
			 struct bj_err *err);
/** Accepts NULL. It must be linked nowhere, or the engine is going. */
void op_free(struct operation *op);
/** Asserts that the table of stages has this move. */
void op_move_locked(struct operation *op, enum bj_stage to);
/** Sets or clears (BJ_NEVER_NS) the time at which an operation without waiters is cancelled. */
void op_abandon_locked(struct bj_engine *engine, struct operation *op, uint64_t at_ns);
/** Takes it out of @list (live or done) and of by_name, and frees it. Nobody waits for it or works on it. */
void op_forget_locked(struct bj_engine *engine, struct op_list *list, struct operation *op);
/** After the lookup: joins an equal operation, and then @op is gone, or goes into the queue. */
void op_enqueue_locked(struct bj_engine *engine, struct operation *op);
/** From QUEUED to EXECUTING, and told. */
void op_executing_locked(struct bj_engine *engine, struct operation *op);
/** To COMPLETED, and told. @response: packed; an empty one, which would read as OK, becomes RESOURCE_EXHAUSTED. */
void op_complete_locked(struct bj_engine *engine, struct operation *op, struct bj_str response);
void op_fail_locked(struct bj_engine *engine, struct operation *op, const struct bj_err *why);
/** Raises the eventfd; one that is queued ends now. No effect the second time. */
void op_cancel_locked(struct bj_engine *engine, struct operation *op);
/** The best one, out of the queue; NULL when it is empty. */
struct operation *queue_pop_locked(struct bj_engine *engine);
void list_append_locked(struct op_list *list, struct operation *op);
void list_remove_locked(struct op_list *list, struct operation *op);

/* ---- engine_waiter.c ---- */

/** Copies all; NULL without memory. */
struct bj_update *update_new(const struct operation *op, enum bj_stage stage,
			     struct bj_str response, struct bj_str metadata);
void waiters_tell_locked(struct operation *op, struct bj_update *update);
struct bj_waiter *waiter_new(struct bj_engine *engine, bj_update_fn fn, void *ctx);
void waiter_attach_locked(struct bj_waiter *waiter, struct operation *op);
/** Delivers one ready waiter's oldest state, dropping the lock around the callback. False: none is ready. */
bool deliver_one_locked(struct bj_engine *engine);

#endif
