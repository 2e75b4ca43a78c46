// SPDX-License-Identifier: Apache-2.0
/*
 * Operations and the threads that move them.
 *
 * An operation is born in bj_engine_submit() and belongs to the engine until the teller forgets it. A pool thread looks it up in the
 * action cache; nobody has been told its name until then, so a submission that finds an equal action in flight can still hand its waiter
 * over to that one and vanish. Runner threads, one per slot, take the best queued operation. The teller thread runs the callbacks and
 * the deadlines: the grace after the last waiter left, and the forgetting of completed operations.
 *
 * Who may free an operation: only the teller (or bj_engine_free), and only when it is not busy: `is_busy` is held by a lookup or a
 * runner working outside the lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "executor/action/engine-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pool.h"

enum { OP_ARENA_MAX_BYTES = 1 << 20, RESPONSE_ARENA_MAX_BYTES = 256 << 20 };

struct runner_arg {
	struct bj_engine *engine;
	size_t slot;
};

/* ---- the stages: allowed moves and what must hold in each ---- */

static bool stage_may_move(enum bj_stage from, enum bj_stage to)
{
	static const bool moves[5][5] = {
		[BJ_STAGE_UNKNOWN] = { [BJ_STAGE_CACHE_CHECK] = true },
		[BJ_STAGE_CACHE_CHECK] = { [BJ_STAGE_QUEUED] = true, [BJ_STAGE_COMPLETED] = true },
		[BJ_STAGE_QUEUED] = { [BJ_STAGE_EXECUTING] = true, [BJ_STAGE_COMPLETED] = true },
		[BJ_STAGE_EXECUTING] = { [BJ_STAGE_COMPLETED] = true },
	};
	return moves[from][to];
}

static void op_check_locked(const struct operation *op)
{
	bj_assert(op->stage != BJ_STAGE_COMPLETED || (!op->is_mergeable && op->latest));
	bj_assert(op->waiters == NULL || op->abandoned_ns == BJ_NEVER_NS);
	bj_assert(!op->is_mergeable || op->merge_key.ptr != NULL);
}

static void op_move_locked(struct operation *op, enum bj_stage to)
{
	bj_assert(stage_may_move(op->stage, to));
	op->stage = to;
}

/* ---- birth and death ---- */

static bool copy_str(struct bj_arena *arena, struct bj_str *s)
{
	*s = bj_arena_str(arena, *s);
	return s->ptr != NULL;
}

static bool copy_request(struct operation *op, const struct bj_run_request *from)
{
	struct bj_run_request *to = &op->request;
	struct bj_client_info *c = &to->client;
	struct bj_arena *arena = &op->arena;

	*to = *from;
	return copy_str(arena, &to->instance) && copy_str(arena, &c->tool) &&
	       copy_str(arena, &c->invocation) && copy_str(arena, &c->correlated) &&
	       copy_str(arena, &c->action_id) && copy_str(arena, &c->mnemonic) &&
	       copy_str(arena, &c->target) && copy_str(arena, &c->configuration);
}

/* Instance and digest: the digest has a fixed length per function, so that the two cannot run into each other. */
static bool make_merge_key(struct operation *op)
{
	const struct bj_digest *d = &op->request.action;
	size_t len = bj_size_add(op->request.instance.len,
				 (size_t)d->hash_len + 1 + sizeof(d->size_bytes));
	char *key = bj_arena_alloc(&op->arena, len);

	if (!key)
		return false;
	size_t at = 0;
	key[at++] = (char)d->fn;
	memcpy(key + at, d->hash, d->hash_len);
	at += d->hash_len;
	memcpy(key + at, &d->size_bytes, sizeof(d->size_bytes));
	at += sizeof(d->size_bytes);
	if (op->request.instance.len)
		memcpy(key + at, op->request.instance.ptr, op->request.instance.len);
	op->merge_key = bj_str_n(key, len);
	return true;
}

static void op_free(struct operation *op)
{
	if (!op)
		return;
	if (op->cancel_fd >= 0)
		close(op->cancel_fd);
	bj_update_unref(op->latest);
	bj_arena_deinit(&op->arena);
	bj_free(op);
}

static struct operation *op_new(struct bj_engine *engine, const struct bj_submit *submit,
				struct bj_err *err)
{
	struct operation *op = BJ_NEW(struct operation);

	if (!op) {
		(void)bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for an operation");
		return NULL;
	}
	bj_arena_init(&op->arena, OP_ARENA_MAX_BYTES);
	op->abandoned_ns = BJ_NEVER_NS;
	op->forget_ns = BJ_NEVER_NS;
	op->priority = submit->priority;
	op->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (op->cancel_fd < 0) {
		(void)bj_err_errno(err, errno, "eventfd for an operation");
	} else if (!copy_request(op, &submit->request) || !make_merge_key(op)) {
		(void)bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for an operation");
	} else {
		pthread_mutex_lock(&engine->mu);
		op->seq = engine->next_seq++;
		pthread_mutex_unlock(&engine->mu);
		(void)snprintf(op->name, sizeof(op->name), "operations/%016" PRIx64 "-%" PRIu64,
			       engine->run_id, op->seq);
		return op;
	}
	op_free(op);
	return NULL;
}

static void list_append_locked(struct op_list *list, struct operation *op)
{
	op->next = NULL;
	op->prev = list->tail;
	if (list->tail)
		list->tail->next = op;
	else
		list->head = op;
	list->tail = op;
}

static void list_remove_locked(struct op_list *list, struct operation *op)
{
	if (op->prev)
		op->prev->next = op->next;
	else
		list->head = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		list->tail = op->prev;
}

void op_abandon_locked(struct bj_engine *engine, struct operation *op, uint64_t at_ns)
{
	if ((op->abandoned_ns == BJ_NEVER_NS) == (at_ns == BJ_NEVER_NS))
		return;
	op->abandoned_ns = at_ns;
	if (at_ns == BJ_NEVER_NS)
		engine->n_abandoned--;
	else
		engine->n_abandoned++;
}

/* Takes it out of everything but the list it is in. */
static void op_forget_locked(struct bj_engine *engine, struct op_list *list, struct operation *op)
{
	op_abandon_locked(engine, op, BJ_NEVER_NS);
	list_remove_locked(list, op);
	(void)bj_map_remove(&engine->by_name, bj_str_of(op->name));
	op_free(op);
}

/* ---- queue ---- */

static bool runs_before(const struct operation *a, const struct operation *b)
{
	return a->priority != b->priority ? a->priority < b->priority : a->seq < b->seq;
}

static void queue_insert_locked(struct bj_engine *engine, struct operation *op)
{
	struct operation **p = &engine->queue;

	if (engine->queue_tail && runs_before(engine->queue_tail, op))
		p = &engine->queue_tail
			     ->next_queued; /* the usual case: one priority, in order of arrival */
	else
		while (*p && runs_before(*p, op))
			p = &(*p)->next_queued;
	op->next_queued = *p;
	*p = op;
	if (!op->next_queued)
		engine->queue_tail = op;
	pthread_cond_signal(&engine->work);
}

static bool queue_remove_locked(struct bj_engine *engine, struct operation *op)
{
	struct operation *before = NULL;

	for (struct operation **p = &engine->queue; *p; before = *p, p = &(*p)->next_queued) {
		if (*p != op)
			continue;
		*p = op->next_queued;
		if (engine->queue_tail == op)
			engine->queue_tail = before;
		op->next_queued = NULL;
		return true;
	}
	return false;
}

/* ---- states told ---- */

/* Without memory for an update the waiters would hang: a server that cannot allocate 100 bytes for them stops instead. */
static void op_publish_locked(struct bj_engine *engine, struct operation *op,
			      struct bj_str response)
{
	struct bj_arena arena;

	bj_arena_init(&arena, OP_ARENA_MAX_BYTES);
	struct bj_str metadata =
		engine->ops.metadata(engine->ops.ctx, &op->request, (int)op->stage, &arena);
	struct bj_update *update = update_new(op, op->stage, response, metadata);

	bj_arena_deinit(&arena);
	bj_assert(update != NULL);
	bj_update_unref(op->latest);
	op->latest = update;
	waiters_tell_locked(op, update);
	op_check_locked(op);
}

static void merge_leave_locked(struct bj_engine *engine, struct operation *op)
{
	if (!op->is_mergeable)
		return;
	(void)bj_map_remove(&engine->in_flight, op->merge_key);
	op->is_mergeable = false;
}

static void op_complete_locked(struct bj_engine *engine, struct operation *op,
			       struct bj_str response)
{
	merge_leave_locked(engine, op);
	op_move_locked(op, BJ_STAGE_COMPLETED);
	op->forget_ns = bj_deadline_ns(engine->opts.keep_done_ns);
	op_abandon_locked(engine, op, BJ_NEVER_NS);
	list_remove_locked(&engine->live, op);
	list_append_locked(&engine->done, op);
	op_publish_locked(engine, op, response);
	pthread_cond_signal(&engine->tell);
}

/* The failure's text is made outside the lock where it can be; here it is small and needs no disk. */
static void op_fail_locked(struct bj_engine *engine, struct operation *op, const struct bj_err *why)
{
	struct bj_arena arena;

	bj_arena_init(&arena, OP_ARENA_MAX_BYTES);
	op_complete_locked(engine, op,
			   engine->ops.failure(engine->ops.ctx, &op->request, why, &arena));
	bj_arena_deinit(&arena);
}

static void op_cancel_locked(struct bj_engine *engine, struct operation *op)
{
	struct bj_err why = BJ_ERR_NULL;
	uint64_t one = 1;

	if (op->is_cancelled)
		return;
	op->is_cancelled = true;
	(void)!write(op->cancel_fd, &one, sizeof(one)); /* a fresh eventfd takes 8 bytes */
	if (op->stage != BJ_STAGE_QUEUED || !queue_remove_locked(engine, op))
		return; /* the lookup or the runner sees it */
	engine->n_waiting--;
	(void)bj_err_set(&why, BJ_CANCELLED,
			 "cancelled while queued: no client waits for it any more");
	op_fail_locked(engine, op, &why);
}

/* ---- lookup, on a pool thread ---- */

/* Hands all waiters of a young operation, which nobody knows by name, to the one that already runs the same action. */
static void merge_into_locked(struct operation *young, struct operation *old)
{
	while (young->waiters) {
		struct bj_waiter *w = young->waiters;

		young->waiters = w->next;
		waiter_attach_locked(w, old);
	}
}

static void op_enqueue_locked(struct bj_engine *engine, struct operation *op)
{
	bool mergeable = !op->request.do_not_cache;
	struct operation *same = mergeable ? bj_map_get(&engine->in_flight, op->merge_key) : NULL;

	if (same && !same->is_cancelled) {
		merge_into_locked(op, same);
		engine->n_waiting--;
		op_forget_locked(engine, &engine->live, op);
		return;
	}
	/* Without memory for the entry it simply is not merged with. */
	if (mergeable && !same && bj_map_put(&engine->in_flight, op->merge_key, op, NULL))
		op->is_mergeable = true;
	op_move_locked(op, BJ_STAGE_QUEUED);
	op_publish_locked(engine, op, BJ_STR_NULL);
	queue_insert_locked(engine, op);
}

static void lookup_done_locked(struct bj_engine *engine, struct operation *op, int r,
			       struct bj_str response, const struct bj_err *err)
{
	struct bj_err why = BJ_ERR_NULL;

	if (r == 0 && engine->is_stopping) {
		(void)bj_err_set(&why, BJ_UNAVAILABLE, "the server is stopping");
	} else if (r == 0 && (!op->waiters || op->is_cancelled)) {
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
	if (c->op->stage == BJ_STAGE_QUEUED) {
		op_move_locked(c->op, BJ_STAGE_EXECUTING);
		op_publish_locked(c->engine, c->op, BJ_STR_NULL);
	}
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
		struct operation *op = engine->queue;

		if (!op)
			break;
		(void)queue_remove_locked(engine, op); /* it is the head */
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

static void forget_done_locked(struct bj_engine *engine, uint64_t now)
{
	struct operation *op;

	while ((op = engine->done.head) != NULL && op->forget_ns <= now) {
		if (op->waiters || op->is_busy) { /* still looked at: its time starts again */
			list_remove_locked(&engine->done, op);
			op->forget_ns = bj_deadline_ns(engine->opts.keep_done_ns);
			list_append_locked(&engine->done, op);
			continue;
		}
		op_forget_locked(engine, &engine->done, op);
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
		while (deliver_one_locked(engine))
			;
		cancel_abandoned_locked(engine, bj_now_ns());
		forget_done_locked(engine, bj_now_ns());
		if (!engine->ready && !engine->is_stopping)
			tell_wait_locked(engine);
	}
	pthread_mutex_unlock(&engine->mu);
	return NULL;
}

/* ---- public ---- */

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

	if (!engine)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the engine");
	engine->opts = *opts;
	engine->ops = *ops;
	engine->ready_tail = &engine->ready;
	int r = engine_init_sync(engine, err);

	if (r < 0) {
		bj_free(engine);
		return r;
	}
	engine->runners = BJ_NEW_ARRAY(pthread_t, opts->n_slots);
	engine->runner_args = BJ_NEW_ARRAY(struct runner_arg, opts->n_slots);
	if (!engine->runners || !engine->runner_args)
		r = bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for %zu slots",
			       opts->n_slots);
	else if (getrandom(&engine->run_id, sizeof(engine->run_id), 0) != sizeof(engine->run_id))
		r = bj_err_errno(err, errno, "getrandom for operation names");
	else
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
	for (struct operation *op = engine->live.head, *next; op; op = next) {
		next = op->next;
		op_cancel_locked(engine, op);
	}
}

static void free_list(struct op_list *list)
{
	for (struct operation *op = list->head, *next; op; op = next) {
		next = op->next;
		bj_assert(!op->waiters); /* every waiter is given back before the engine goes */
		op_free(op);
	}
}

void bj_engine_free(struct bj_engine *engine)
{
	if (!engine)
		return;
	pthread_mutex_lock(&engine->mu);
	engine->is_stopping = true;
	stop_operations_locked(engine);
	while (engine->n_lookups)
		pthread_cond_wait(&engine->told, &engine->mu);
	pthread_cond_broadcast(&engine->work);
	pthread_mutex_unlock(&engine->mu);
	for (size_t i = 0; i < engine->n_runners; i++)
		(void)pthread_join(engine->runners[i], NULL); /* our own, joinable */
	pthread_mutex_lock(&engine->mu);
	pthread_cond_broadcast(&engine->tell);
	pthread_mutex_unlock(&engine->mu);
	if (engine->has_teller)
		(void)pthread_join(engine->teller, NULL);
	pthread_mutex_lock(&engine->mu);
	while (deliver_one_locked(engine))
		;
	pthread_mutex_unlock(&engine->mu);
	free_list(&engine->live);
	free_list(&engine->done);
	bj_map_deinit(&engine->by_name);
	bj_map_deinit(&engine->in_flight);
	bj_free(engine->runners);
	bj_free(engine->runner_args);
	pthread_cond_destroy(&engine->work);
	pthread_cond_destroy(&engine->tell);
	pthread_cond_destroy(&engine->told);
	pthread_mutex_destroy(&engine->mu);
	bj_free(engine);
}

static int submit_locked(struct bj_engine *engine, struct operation *op, struct bj_waiter *waiter,
			 struct lookup_job *job, struct bj_err *err)
{
	if (engine->is_stopping)
		return bj_err_set(err, BJ_UNAVAILABLE, "the server is stopping");
	if (engine->n_waiting >= engine->opts.max_queued)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "%zu actions wait already",
				  engine->n_waiting);
	if (!bj_map_put(&engine->by_name, bj_str_of(op->name), op, NULL))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for an operation");
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
		r = bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for an operation");
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

int bj_engine_wait(struct bj_engine *engine, struct bj_str name, bj_update_fn fn, void *ctx,
		   struct bj_waiter **out_waiter, struct bj_err *err)
{
	struct bj_waiter *waiter = waiter_new(engine, fn, ctx);

	if (!waiter)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a waiter");
	pthread_mutex_lock(&engine->mu);
	struct operation *op = bj_map_get(&engine->by_name, name);

	/* A name that was never told to anybody is not found: its operation may still be merged away. */
	if (op && op->latest)
		waiter_attach_locked(waiter, op);
	else
		op = NULL;
	pthread_mutex_unlock(&engine->mu);
	if (!op) {
		bj_free(waiter);
		return bj_err_set(
			err, BJ_NOT_FOUND,
			"no operation \"%.*s\": it ended long ago, or this server never had it",
			BJ_STR_FMT(bj_str_sub(name, 0, 200)));
	}
	*out_waiter = waiter;
	return 0;
}
