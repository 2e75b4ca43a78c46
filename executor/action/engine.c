// SPDX-License-Identifier: Apache-2.0
/*
 * The threads that move operations.
 *
 * An operation is born in bj_engine_submit() and belongs to the engine until it is forgotten. A pool thread looks it up in the action
 * cache; nobody has been told its name until then, so it can still be merged into an equal one (engine_op.c). Runner threads, one per
 * slot, take the best queued operation. The teller thread runs the callbacks and the deadlines: the grace after the last waiter left,
 * and the forgetting of completed operations.
 *
 * Who may free an operation: the lookup that merged it away, else only the teller (or bj_engine_free); and only when it is not busy:
 * `is_busy` is held by a lookup or a runner working outside the lock.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "executor/action/engine-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/pool.h"

enum {
	RESPONSE_ARENA_MAX_BYTES = 256 << 20,
	DONE_MAX_BYTES = 64 << 20, /* kept for late waiters */
	DELIVERIES_AT_ONCE = 64,   /* before deadlines are looked at again */
};
/* With less a completed operation that somebody still waits for would keep the teller busy. */
#define MIN_KEEP_DONE_NS BJ_NS_PER_MS

struct runner_arg {
	struct bj_engine *engine;
	size_t slot;
};

/* ---- lookup, on a pool thread ---- */

static void lookup_done_locked(struct bj_engine *engine, struct operation *op, int r,
			       struct bj_str response, const struct bj_err *err)
{
	struct bj_err why = BJ_ERR_NULL;

	if (r == 0 && engine->is_stopping) {
		(void)bj_err_set(&why, BJ_UNAVAILABLE, "the server is stopping");
	} else if (r == 0 && !op->waiters) { /* its name was never told: nobody can come back */
		(void)bj_err_set(&why, BJ_CANCELLED, "no client waits for it any more");
	} else if (r == 0) {
		op_enqueue_locked(engine, op);
		return;
	}
	engine->n_waiting--;
	if (r > 0)
		op_complete_locked(engine, op, response);
	else
		op_fail_locked(engine, op, r < 0 ? err : &why);
}

struct lookup_job {
	struct bj_engine *engine;
	struct operation *op;
};

static void lookup_main(void *arg)
{
	struct lookup_job job = *(struct lookup_job *)arg;
	struct bj_engine *engine = job.engine;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_str response = BJ_STR_NULL;
	struct bj_arena arena;

	bj_free(arg);
	bj_arena_init(&arena, RESPONSE_ARENA_MAX_BYTES);
	int r = engine->ops.lookup(engine->ops.ctx, &job.op->request, &arena, &response, &err);

	pthread_mutex_lock(&engine->mu);
	job.op->is_busy = false;
	lookup_done_locked(engine, job.op, r, response, &err);
	engine->n_lookups--;
	pthread_cond_broadcast(&engine->told);
	pthread_mutex_unlock(&engine->mu);
	bj_arena_deinit(&arena);
}

/* ---- runners ---- */

static void on_executing(void *ctx)
{
	struct run_ctx *c = ctx;

	pthread_mutex_lock(&c->engine->mu);
	if (c->op->stage == BJ_STAGE_QUEUED)
		op_executing_locked(c->engine, c->op);
	pthread_mutex_unlock(&c->engine->mu);
}

static void run_one(struct bj_engine *engine, size_t slot, struct operation *op)
{
	struct run_ctx ctx = { engine, op };
	struct bj_run_control control = { .cancel_fd = op->cancel_fd,
					  .ctx = &ctx,
					  .executing = on_executing };
	struct bj_arena arena;

	bj_arena_init(&arena, RESPONSE_ARENA_MAX_BYTES);
	struct bj_str response =
		engine->ops.run(engine->ops.ctx, slot, &op->request, &control, &arena);

	pthread_mutex_lock(&engine->mu);
	op->is_busy = false;
	op_complete_locked(engine, op, response);
	pthread_mutex_unlock(&engine->mu);
	bj_arena_deinit(&arena);
}

static void *runner_main(void *arg)
{
	struct runner_arg *me = arg;
	struct bj_engine *engine = me->engine;

	pthread_mutex_lock(&engine->mu);
	for (;;) {
		while (!engine->queue && !engine->is_stopping)
			pthread_cond_wait(&engine->work, &engine->mu);
		struct operation *op = queue_pop_locked(engine);

		if (!op)
			break;
		engine->n_waiting--;
		op->is_busy = true;
		pthread_mutex_unlock(&engine->mu);
		run_one(engine, me->slot, op);
		pthread_mutex_lock(&engine->mu);
	}
	pthread_mutex_unlock(&engine->mu);
	return NULL;
}

/* ---- the teller: callbacks and deadlines ---- */

static uint64_t next_deadline_locked(const struct bj_engine *engine)
{
	uint64_t at = engine->done.head ? engine->done.head->forget_ns : BJ_NEVER_NS;

	for (const struct operation *op = engine->n_abandoned ? engine->live.head : NULL; op;
	     op = op->next)
		if (!op->is_cancelled)
			at = BJ_MIN(at, op->abandoned_ns);
	return at;
}

static void cancel_abandoned_locked(struct bj_engine *engine, uint64_t now)
{
	for (struct operation *op = engine->n_abandoned ? engine->live.head : NULL, *next; op;
	     op = next) {
		next = op->next; /* a queued one moves to the done list */
		if (op->abandoned_ns <= now)
			op_cancel_locked(engine, op);
	}
}

/* Those whose time is over, and the oldest as long as all of them together hold too much. */
static void forget_done_locked(struct bj_engine *engine, uint64_t now)
{
	for (struct operation *op = engine->done.head, *next; op; op = next) {
		bool is_due = op->forget_ns <= now;

		next = op->next;
		if (!is_due && engine->done_bytes <= DONE_MAX_BYTES)
			return;
		if (!op->waiters) {
			op_forget_locked(engine, &engine->done, op);
		} else if (is_due) { /* still looked at: its time starts again */
			list_remove_locked(&engine->done, op);
			op->forget_ns = bj_deadline_ns(engine->opts.keep_done_ns);
			list_append_locked(&engine->done, op);
		}
	}
}

static void tell_wait_locked(struct bj_engine *engine)
{
	uint64_t at = next_deadline_locked(engine);

	if (at == BJ_NEVER_NS) {
		pthread_cond_wait(&engine->tell, &engine->mu);
		return;
	}
	struct timespec ts = { .tv_sec = (time_t)(at / BJ_NS_PER_SEC),
			       .tv_nsec = (long)(at % BJ_NS_PER_SEC) };
	(void)pthread_cond_timedwait(&engine->tell, &engine->mu,
				     &ts); /* ETIMEDOUT is as good as a signal */
}

static void *teller_main(void *arg)
{
	struct bj_engine *engine = arg;

	pthread_mutex_lock(&engine->mu);
	while (!engine->is_stopping) {
		for (int i = 0; i < DELIVERIES_AT_ONCE && deliver_one_locked(engine); i++)
			continue;
		cancel_abandoned_locked(engine, bj_now_ns());
		forget_done_locked(engine, bj_now_ns());
		if (!engine->ready && !engine->is_stopping)
			tell_wait_locked(engine);
	}
	pthread_mutex_unlock(&engine->mu);
	return NULL;
}

/* ---- making and freeing ---- */

static int engine_init_sync(struct bj_engine *engine, struct bj_err *err)
{
	pthread_condattr_t attr;

	if (pthread_mutex_init(&engine->mu, NULL) || pthread_condattr_init(&attr) ||
	    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) ||
	    pthread_cond_init(&engine->work, NULL) || pthread_cond_init(&engine->tell, &attr) ||
	    pthread_cond_init(&engine->told, NULL))
		return bj_err_set(err, BJ_INTERNAL, "engine: cannot make its locks");
	(void)pthread_condattr_destroy(&attr); /* cannot fail for an initialised one */
	return 0;
}

static int engine_init_memory(struct bj_engine *engine, struct bj_err *err)
{
	const struct bj_run_request nobody = { .action = bj_digest_empty(BJ_DIGEST_SHA256) };
	struct bj_err why = BJ_ERR_NULL;

	bj_arena_init(&engine->arena, 0);
	(void)bj_err_set(&why, BJ_RESOURCE_EXHAUSTED, "the server has no memory for the result");
	engine->no_memory = engine->ops.failure(engine->ops.ctx, &nobody, &why, &engine->arena);
	engine->runners = BJ_NEW_ARRAY(pthread_t, engine->opts.n_slots);
	engine->runner_args = BJ_NEW_ARRAY(struct runner_arg, engine->opts.n_slots);
	if (!engine->no_memory.ptr || !engine->runners || !engine->runner_args)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for %zu slots",
				  engine->opts.n_slots);
	if (getrandom(&engine->run_id, sizeof(engine->run_id), 0) != sizeof(engine->run_id))
		return bj_err_errno(err, errno, "getrandom for operation names");
	return 0;
}

static int engine_start(struct bj_engine *engine, struct bj_err *err)
{
	unsigned long thread;
	int r = bj_thread_start("bj-teller", teller_main, engine, &thread, err);

	if (r < 0)
		return r;
	engine->teller = thread;
	engine->has_teller = true;
	for (size_t i = 0; i < engine->opts.n_slots; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "bj-slot-%u", (unsigned int)(i % 1000));
		engine->runner_args[i] = (struct runner_arg){ engine, i };
		r = bj_thread_start(name, runner_main, &engine->runner_args[i], &thread, err);
		if (r < 0)
			return r;
		engine->runners[engine->n_runners++] = thread;
	}
	return 0;
}

int bj_engine_new(const struct bj_engine_opts *opts, const struct bj_runner_ops *ops,
		  struct bj_engine **out_engine, struct bj_err *err)
{
	struct bj_engine *engine = BJ_NEW(struct bj_engine);

	bj_assert(opts->n_slots > 0);
	if (!engine)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the engine");
	engine->opts = *opts;
	engine->opts.keep_done_ns = BJ_MAX(opts->keep_done_ns, MIN_KEEP_DONE_NS);
	engine->ops = *ops;
	engine->ready_tail = &engine->ready;
	int r = engine_init_sync(engine, err);

	if (r < 0) {
		bj_free(engine);
		return r;
	}
	r = engine_init_memory(engine, err);
	if (r == 0)
		r = engine_start(engine, err);
	if (r < 0) {
		bj_engine_free(engine);
		return r;
	}
	*out_engine = engine;
	return 0;
}

static void stop_operations_locked(struct bj_engine *engine)
{
	engine->is_stopping = true;
	for (struct operation *op = engine->live.head, *next; op; op = next) {
		next = op->next;
		op_cancel_locked(engine, op);
	}
	while (engine->n_lookups)
		pthread_cond_wait(&engine->told, &engine->mu);
}

static void join_all(struct bj_engine *engine)
{
	pthread_mutex_lock(&engine->mu);
	stop_operations_locked(engine);
	pthread_cond_broadcast(&engine->work);
	pthread_cond_broadcast(&engine->tell);
	pthread_mutex_unlock(&engine->mu);
	for (size_t i = 0; i < engine->n_runners; i++)
		(void)pthread_join(engine->runners[i], NULL); /* our own, joinable */
	if (engine->has_teller)
		(void)pthread_join(engine->teller, NULL);
}

/* From here on this thread is the teller. */
static void tell_the_rest(struct bj_engine *engine)
{
	pthread_mutex_lock(&engine->mu);
	for (;;) {
		if (deliver_one_locked(engine))
			continue;
		if (!engine->n_waiters)
			break;
		pthread_cond_wait(&engine->told, &engine->mu);
	}
	pthread_mutex_unlock(&engine->mu);
}

static void free_list(struct op_list *list)
{
	for (struct operation *op = list->head, *next; op; op = next) {
		next = op->next;
		bj_assert(!op->waiters && !op->is_busy);
		op_free(op);
	}
}

void bj_engine_free(struct bj_engine *engine)
{
	if (!engine)
		return;
	join_all(engine);
	tell_the_rest(engine);
	bj_assert(!engine->live.head && !engine->n_waiting);
	free_list(&engine->done);
	bj_map_deinit(&engine->by_name);
	bj_map_deinit(&engine->in_flight);
	bj_free(engine->runners);
	bj_free(engine->runner_args);
	bj_arena_deinit(&engine->arena);
	(void)pthread_cond_destroy(&engine->work);
	(void)pthread_cond_destroy(&engine->tell);
	(void)pthread_cond_destroy(&engine->told);
	(void)pthread_mutex_destroy(&engine->mu);
	bj_free(engine);
}

/* ---- coming and going ---- */

static int submit_locked(struct bj_engine *engine, struct operation *op, struct bj_waiter *waiter,
			 struct lookup_job *job, struct bj_err *err)
{
	if (engine->is_stopping)
		return bj_err_set(err, BJ_UNAVAILABLE, "the server is stopping");
	if (engine->n_waiting >= engine->opts.max_queued)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "%zu actions wait already",
				  engine->n_waiting);
	if (!bj_map_put(&engine->by_name, bj_str_of(op->name), op, NULL))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an operation");
	op_move_locked(op, BJ_STAGE_CACHE_CHECK);
	op->is_busy = true;
	if (!bj_pool_submit(engine->opts.pool, lookup_main, job)) {
		(void)bj_map_remove(&engine->by_name, bj_str_of(op->name));
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "too many requests wait for the disk");
	}
	list_append_locked(&engine->live, op);
	waiter_attach_locked(waiter, op);
	engine->n_waiting++;
	engine->n_lookups++;
	engine->n_waiters++;
	return 0;
}

int bj_engine_submit(struct bj_engine *engine, const struct bj_submit *submit, bj_update_fn fn,
		     void *ctx, struct bj_waiter **out_waiter, struct bj_err *err)
{
	struct operation *op = op_new(engine, submit, err);

	if (!op)
		return -(int)err->code;
	struct bj_waiter *waiter = waiter_new(engine, fn, ctx);
	struct lookup_job *job = BJ_NEW(struct lookup_job);
	int r;

	if (!waiter || !job) {
		r = bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an operation");
	} else {
		*job = (struct lookup_job){ engine, op };
		pthread_mutex_lock(&engine->mu);
		r = submit_locked(engine, op, waiter, job, err);
		pthread_mutex_unlock(&engine->mu);
	}
	if (r < 0) {
		bj_free(job);
		bj_free(waiter);
		op_free(op);
		return r;
	}
	*out_waiter = waiter;
	return 0;
}

/* A name that was never told to anybody is not found: its operation may still be merged away. */
static bool wait_locked(struct bj_engine *engine, struct bj_str name, struct bj_waiter *waiter)
{
	struct operation *op = bj_map_get(&engine->by_name, name);

	if (!op || !op->latest || engine->is_stopping)
		return false;
	waiter_attach_locked(waiter, op);
	engine->n_waiters++;
	return true;
}

int bj_engine_wait(struct bj_engine *engine, struct bj_str name, bj_update_fn fn, void *ctx,
		   struct bj_waiter **out_waiter, struct bj_err *err)
{
	struct bj_waiter *waiter = waiter_new(engine, fn, ctx);

	if (!waiter)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for a waiter");
	pthread_mutex_lock(&engine->mu);
	bool found = wait_locked(engine, name, waiter);

	pthread_mutex_unlock(&engine->mu);
	if (!found) {
		struct bj_str shown = bj_str_sub(name, 0, 200);

		bj_free(waiter);
		return bj_err_set(
			err, BJ_NOT_FOUND,
			"no operation \"%.*s\": it ended long ago, or this server never had it",
			BJ_STR_FMT(shown));
	}
	*out_waiter = waiter;
	return 0;
}
