// SPDX-License-Identifier: Apache-2.0
/*
 * One operation: its stages, its place in the queue, and with whom it is merged.
 *
 * Two equal actions that overlap in time are one execution. The young one, whose name nobody knows yet, hands its waiters over and
 * vanishes: to one that is queued or runs, or to one that completed after the young one was born. (The latter was still running when
 * the young one looked into the cache, or it would have been found there.)
 *
 * The end of an operation must be told whatever happens, since clients wait for it without a limit. So it is allocated first of all:
 * `spare` says RESOURCE_EXHAUSTED, and is told when there is no memory for the real one. Earlier stages are simply left out then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "executor/action/engine-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"

enum { OP_ARENA_MAX_BYTES = 1 << 20 };

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
	bool is_done = op->stage == BJ_STAGE_COMPLETED;

	bj_assert(!is_done || (!op->is_mergeable && op->latest && !op->spare));
	bj_assert(is_done || op->spare);
	bj_assert(op->waiters == NULL || op->abandoned_ns == BJ_NEVER_NS);
	bj_assert(!op->is_mergeable || op->may_be_shared);
}

void op_move_locked(struct operation *op, enum bj_stage to)
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

/* Packed in memory of its own, so that a long request cannot take it. */
static struct bj_update *make_update(struct bj_engine *engine, const struct operation *op,
				     enum bj_stage stage, struct bj_str response)
{
	struct bj_update *update = NULL;
	struct bj_arena arena;

	bj_arena_init(&arena, OP_ARENA_MAX_BYTES);
	struct bj_str metadata =
		engine->ops.metadata(engine->ops.ctx, &op->request, (int)stage, &arena);

	if (metadata.ptr)
		update = update_new(op, stage, response, metadata);
	bj_arena_deinit(&arena);
	return update;
}

void op_free(struct operation *op)
{
	if (!op)
		return;
	bj_close_fdp(&op->cancel_fd);
	bj_update_unref(op->latest);
	bj_update_unref(op->spare);
	bj_arena_deinit(&op->arena);
	bj_free(op);
}

static int op_init(struct bj_engine *engine, struct operation *op, const struct bj_submit *submit,
		   struct bj_err *err)
{
	op->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (op->cancel_fd < 0)
		return bj_err_errno(err, errno, "eventfd for an operation");
	if (!copy_request(op, &submit->request) || !make_merge_key(op))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an operation");
	pthread_mutex_lock(&engine->mu);
	op->seq = engine->next_seq++;
	pthread_mutex_unlock(&engine->mu);
	(void)snprintf(op->name, sizeof(op->name), "operations/%016" PRIx64 "-%" PRIu64,
		       engine->run_id, op->seq); /* at most 48 bytes */
	op->spare = make_update(engine, op, BJ_STAGE_COMPLETED, engine->no_memory);
	if (!op->spare)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an operation");
	return 0;
}

struct operation *op_new(struct bj_engine *engine, const struct bj_submit *submit,
			 struct bj_err *err)
{
	struct operation *op = BJ_NEW(struct operation);

	if (!op) {
		(void)bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an operation");
		return NULL;
	}
	bj_arena_init(&op->arena, OP_ARENA_MAX_BYTES);
	op->abandoned_ns = BJ_NEVER_NS;
	op->forget_ns = BJ_NEVER_NS;
	op->born_ns = bj_now_ns();
	op->priority = submit->priority;
	if (op_init(engine, op, submit, err) == 0)
		return op;
	op_free(op);
	return NULL;
}

void list_append_locked(struct op_list *list, struct operation *op)
{
	op->next = NULL;
	op->prev = list->tail;
	if (list->tail)
		list->tail->next = op;
	else
		list->head = op;
	list->tail = op;
}

void list_remove_locked(struct op_list *list, struct operation *op)
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

void op_forget_locked(struct bj_engine *engine, struct op_list *list, struct operation *op)
{
	bj_assert(!op->waiters && !op->is_busy);
	op_abandon_locked(engine, op, BJ_NEVER_NS);
	list_remove_locked(list, op);
	engine->done_bytes -= op->kept_bytes;
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

struct operation *queue_pop_locked(struct bj_engine *engine)
{
	struct operation *op = engine->queue;

	if (op)
		(void)queue_remove_locked(engine, op); /* it is the head */
	return op;
}

/* ---- states told ---- */

static void publish_locked(struct operation *op, struct bj_update *update)
{
	bj_update_unref(op->latest);
	op->latest = update;
	waiters_tell_locked(op, update);
	op_check_locked(op);
}

/* A stage on the way, which may be left out. */
static void op_publish_locked(struct bj_engine *engine, struct operation *op)
{
	struct bj_update *update = make_update(engine, op, op->stage, BJ_STR_NULL);

	if (update)
		publish_locked(op, update);
	else
		bj_warn("engine: no memory to tell a stage operation=%s", op->name);
}

void op_executing_locked(struct bj_engine *engine, struct operation *op)
{
	op_move_locked(op, BJ_STAGE_EXECUTING);
	op_publish_locked(engine, op);
}

static void merge_leave_locked(struct bj_engine *engine, struct operation *op)
{
	if (!op->is_mergeable)
		return;
	(void)bj_map_remove(&engine->in_flight, op->merge_key);
	op->is_mergeable = false;
}

static struct bj_update *last_update(struct bj_engine *engine, struct operation *op,
				     struct bj_str response)
{
	struct bj_update *update =
		response.len ? make_update(engine, op, BJ_STAGE_COMPLETED, response) : NULL;

	if (!update) {
		bj_warn("engine: no memory to tell the end operation=%s", op->name);
		return BJ_STEAL_PTR(op->spare);
	}
	bj_update_unref(op->spare);
	op->spare = NULL;
	return update;
}

void op_complete_locked(struct bj_engine *engine, struct operation *op, struct bj_str response)
{
	merge_leave_locked(engine, op);
	op_move_locked(op, BJ_STAGE_COMPLETED);
	op->completed_ns = bj_now_ns();
	op->forget_ns = bj_deadline_ns(engine->opts.keep_done_ns);
	op_abandon_locked(engine, op, BJ_NEVER_NS);
	list_remove_locked(&engine->live, op);
	list_append_locked(&engine->done, op);
	bj_close_fdp(&op->cancel_fd); /* nothing is left to cancel; thousands may be kept done */
	publish_locked(op, last_update(engine, op, response));
	op->kept_bytes = sizeof(*op) + op->arena.used_bytes + op->latest->response.len +
			 op->latest->metadata.len;
	engine->done_bytes += op->kept_bytes;
	pthread_cond_signal(&engine->tell);
}

void op_fail_locked(struct bj_engine *engine, struct operation *op, const struct bj_err *why)
{
	struct bj_arena arena;

	bj_arena_init(&arena, OP_ARENA_MAX_BYTES);
	op_complete_locked(engine, op,
			   engine->ops.failure(engine->ops.ctx, &op->request, why, &arena));
	bj_arena_deinit(&arena);
}

void op_cancel_locked(struct bj_engine *engine, struct operation *op)
{
	struct bj_err why = BJ_ERR_NULL;
	uint64_t one = 1;

	if (op->is_cancelled)
		return;
	op->is_cancelled = true;
	op->may_be_shared = false;
	merge_leave_locked(engine, op);
	BJ_IGNORE(write(op->cancel_fd, &one, sizeof(one))); /* a fresh eventfd takes 8 bytes */
	if (op->stage != BJ_STAGE_QUEUED || !queue_remove_locked(engine, op))
		return; /* the lookup or the runner sees it */
	engine->n_waiting--;
	if (engine->is_stopping)
		(void)bj_err_set(&why, BJ_UNAVAILABLE, "the server is stopping");
	else
		(void)bj_err_set(&why, BJ_CANCELLED,
				 "cancelled while queued: no client waits for it any more");
	op_fail_locked(engine, op, &why);
}

/* ---- merging ---- */

static struct operation *find_completed_locked(const struct bj_engine *engine,
					       const struct operation *young)
{
	uint64_t oldest_ns;

	if (__builtin_add_overflow(young->born_ns, engine->opts.keep_done_ns, &oldest_ns))
		oldest_ns = BJ_NEVER_NS;
	/* The list is in the order of forget_ns. One that was waited for long after its end stands late in it. */
	for (struct operation *op = engine->done.tail; op && op->forget_ns >= oldest_ns;
	     op = op->prev)
		if (op->may_be_shared && op->completed_ns >= young->born_ns &&
		    bj_str_eq(op->merge_key, young->merge_key))
			return op;
	return NULL;
}

static struct operation *find_same_locked(const struct bj_engine *engine,
					  const struct operation *young)
{
	if (young->request.do_not_cache)
		return NULL;
	struct operation *same = bj_map_get(&engine->in_flight, young->merge_key);

	return same ? same : find_completed_locked(engine, young);
}

/* Hands over the waiters of a young operation, and its place in the queue if that is the better one. */
static void merge_into_locked(struct bj_engine *engine, struct operation *young,
			      struct operation *old)
{
	while (young->waiters) {
		struct bj_waiter *w = young->waiters;

		young->waiters = w->next;
		waiter_attach_locked(w, old);
	}
	if (young->priority >= old->priority || old->stage != BJ_STAGE_QUEUED ||
	    !queue_remove_locked(engine, old))
		return;
	old->priority = young->priority;
	queue_insert_locked(engine, old);
}

void op_enqueue_locked(struct bj_engine *engine, struct operation *op)
{
	struct operation *same = find_same_locked(engine, op);

	if (same) {
		merge_into_locked(engine, op, same);
		engine->n_waiting--;
		op_forget_locked(engine, &engine->live, op);
		return;
	}
	/* Without memory for the entry it simply is not merged with. */
	if (!op->request.do_not_cache && bj_map_put(&engine->in_flight, op->merge_key, op, NULL))
		op->is_mergeable = op->may_be_shared = true;
	op_move_locked(op, BJ_STAGE_QUEUED);
	op_publish_locked(engine, op);
	queue_insert_locked(engine, op);
	pthread_cond_signal(&engine->work);
}
