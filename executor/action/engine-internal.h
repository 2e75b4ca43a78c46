// SPDX-License-Identifier: Apache-2.0
/**
 * action/engine-internal.h - what engine.c (operations, threads) and engine_waiter.c (who is told what) share.
 * Lock: engine->mu guards everything here; functions named _locked need it held. No callback and no runner code runs under it.
 */
#ifndef BJ_ACTION_ENGINE_INTERNAL_H
#define BJ_ACTION_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "executor/action/engine.h"
#include "executor/base/map.h"

enum { BJ_OP_NAME_BYTES = 64 };

/** The engine's view of an operation; STAGE says where it is, `in_*` where it is linked. */
struct operation {
	struct operation *next_queued; /* priority queue: ordered singly linked list */
	struct operation *prev, *next; /* engine->live, or engine->done once COMPLETED */
	char name[BJ_OP_NAME_BYTES];
	enum bj_stage stage;
	struct bj_arena arena; /* the request's strings; freed with the operation */
	struct bj_run_request request;
	int32_t priority;
	uint64_t seq;	   /* order of arrival */
	bool is_mergeable; /* in engine->in_flight under merge_key */
	struct bj_str merge_key;
	int cancel_fd;	   /* eventfd */
	bool is_cancelled; /* the eventfd was raised */
	uint64_t
		abandoned_ns; /* monotonic time at which it is cancelled for want of waiters; BJ_NEVER_NS: it has some */
	uint64_t forget_ns;	   /* COMPLETED: when it is dropped */
	struct bj_update *latest;  /* the newest state; counted */
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
	struct pending { /* states not yet told; at most one per stage, so four suffice */
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
	pthread_cond_t told; /* a delivery or a lookup ended: leave() and free() wait here */
	bool is_stopping;
	struct op_list { /* doubly linked, oldest first */
		struct operation *head, *tail;
	} live, done; /* done: in the order of forget_ns, since the time to keep is one constant */
	size_t n_abandoned; /* live operations with a deadline in abandoned_ns: none means no scan */
	struct operation *queue, *queue_tail; /* QUEUED, best first */
	size_t n_waiting;		      /* CACHE_CHECK and QUEUED */
	size_t n_lookups;		      /* jobs given to the pool and not yet back */
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
};

/** What control->executing() needs. */
struct run_ctx {
	struct bj_engine *engine;
	struct operation *op;
};

/** Sets or clears (BJ_NEVER_NS) the time at which an operation without waiters is cancelled. */
void op_abandon_locked(struct bj_engine *engine, struct operation *op, uint64_t at_ns);

/* engine_waiter.c */
struct bj_update *update_new(const struct operation *op, enum bj_stage stage,
			     struct bj_str response, struct bj_str metadata);
void waiter_tell_locked(struct bj_waiter *waiter, struct bj_update *update);
void waiters_tell_locked(struct operation *op, struct bj_update *update);
struct bj_waiter *waiter_new(struct bj_engine *engine, bj_update_fn fn, void *ctx);
void waiter_attach_locked(struct bj_waiter *waiter, struct operation *op);
void waiter_detach_locked(struct bj_waiter *waiter);
/** Delivers one ready waiter's oldest state, dropping the lock around the callback. False: none is ready. */
bool deliver_one_locked(struct bj_engine *engine);

#endif
