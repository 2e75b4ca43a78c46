// SPDX-License-Identifier: Apache-2.0
/*
 * Waiters and what they are told.
 *
 * Every state of an operation is an immutable, counted bj_update. Telling means appending it to each waiter's small list and linking
 * the waiter into the engine's ready list; one thread, the teller, takes waiters from that list and runs their callbacks without the
 * lock, one at a time. So a waiter sees states in order and never two callbacks at once, whoever produced the states. A list of four is
 * enough because an operation passes each stage at most once.
 *
 * bj_engine_leave() must guarantee that no callback runs after it returned: it unlinks the waiter, and if the teller is inside its
 * callback right now, waits for `told`.
 */
#include "executor/action/engine-internal.h"

#include "executor/base/alloc.h"
#include "executor/base/clock.h"

struct update {
	struct bj_update pub; /* first: the two are one object */
	atomic_uint refs;
	char name[BJ_OP_NAME_BYTES];
};

/* The strings stand behind the struct, in one allocation. */
struct bj_update *update_new(const struct operation *op, enum bj_stage stage,
			     struct bj_str response, struct bj_str metadata)
{
	struct update *u =
		bj_malloc(bj_size_add(sizeof(*u), bj_size_add(response.len, metadata.len)));
	if (!u)
		return NULL;
	char *tail = (char *)(u + 1);
	atomic_init(&u->refs, 1);
	memcpy(u->name, op->name, sizeof(u->name));
	if (response.len)
		memcpy(tail, response.ptr, response.len);
	if (metadata.len)
		memcpy(tail + response.len, metadata.ptr, metadata.len);
	u->pub = (struct bj_update){
		.name = u->name,
		.action = op->request.action,
		.stage = stage,
		.response = bj_str_n(tail, response.len),
		.metadata = bj_str_n(tail + response.len, metadata.len),
	};
	return &u->pub;
}

const struct bj_update *bj_update_ref(const struct bj_update *update)
{
	struct update *u =
		BJ_CONTAINER_OF((struct bj_update *)(uintptr_t)update, struct update, pub);

	atomic_fetch_add(&u->refs, 1);
	return update;
}

void bj_update_unref(const struct bj_update *update)
{
	if (!update)
		return;
	struct update *u =
		BJ_CONTAINER_OF((struct bj_update *)(uintptr_t)update, struct update, pub);

	if (atomic_fetch_sub(&u->refs, 1) == 1)
		bj_free(u);
}

struct bj_waiter *waiter_new(struct bj_engine *engine, bj_update_fn fn, void *ctx)
{
	struct bj_waiter *waiter = BJ_NEW(struct bj_waiter);

	if (!waiter)
		return NULL;
	waiter->engine = engine;
	waiter->fn = fn;
	waiter->ctx = ctx;
	return waiter;
}

static void ready_push_locked(struct bj_waiter *waiter)
{
	struct bj_engine *engine = waiter->engine;

	if (waiter->is_ready)
		return;
	waiter->is_ready = true;
	waiter->next_ready = NULL;
	*engine->ready_tail = waiter;
	engine->ready_tail = &waiter->next_ready;
	pthread_cond_signal(&engine->tell);
}

static void ready_remove_locked(struct bj_waiter *waiter)
{
	struct bj_engine *engine = waiter->engine;

	if (!waiter->is_ready)
		return;
	for (struct bj_waiter **p = &engine->ready; *p; p = &(*p)->next_ready) {
		if (*p != waiter)
			continue;
		*p = waiter->next_ready;
		if (engine->ready_tail == &waiter->next_ready)
			engine->ready_tail = p;
		break;
	}
	waiter->is_ready = false;
}

static void waiter_tell_locked(struct bj_waiter *waiter, struct bj_update *update)
{
	bj_assert(waiter->pending.n < BJ_ARRAY_LEN(waiter->pending.updates));
	(void)bj_update_ref(update); /* the same pointer comes back */
	waiter->pending.updates[waiter->pending.n++] = update;
	ready_push_locked(waiter);
}

void waiters_tell_locked(struct operation *op, struct bj_update *update)
{
	for (struct bj_waiter *w = op->waiters; w; w = w->next)
		waiter_tell_locked(w, update);
}

void waiter_attach_locked(struct bj_waiter *waiter, struct operation *op)
{
	waiter->op = op;
	waiter->next = op->waiters;
	op->waiters = waiter;
	op_abandon_locked(waiter->engine, op, BJ_NEVER_NS);
	if (op->latest)
		waiter_tell_locked(waiter, op->latest);
}

static void waiter_detach_locked(struct bj_waiter *waiter)
{
	struct operation *op = waiter->op;

	if (!op)
		return;
	for (struct bj_waiter **p = &op->waiters; *p; p = &(*p)->next) {
		if (*p == waiter) {
			*p = waiter->next;
			break;
		}
	}
	waiter->op = NULL;
	if (!op->waiters && op->stage != BJ_STAGE_COMPLETED) {
		op_abandon_locked(waiter->engine, op,
				  bj_deadline_ns(waiter->engine->opts.cancel_grace_ns));
		pthread_cond_signal(&waiter->engine->tell);
	}
}

bool deliver_one_locked(struct bj_engine *engine)
{
	struct bj_waiter *waiter = engine->ready;

	if (!waiter)
		return false;
	ready_remove_locked(waiter);
	struct bj_update *update = waiter->pending.updates[0];

	waiter->pending.n--;
	for (size_t i = 0; i < waiter->pending.n; i++)
		waiter->pending.updates[i] = waiter->pending.updates[i + 1];
	waiter->is_delivering = true;
	pthread_mutex_unlock(&engine->mu);
	waiter->fn(waiter->ctx, update);
	bj_update_unref(update);
	pthread_mutex_lock(&engine->mu);
	waiter->is_delivering = false;
	if (waiter->pending.n && !waiter->is_gone)
		ready_push_locked(waiter);
	pthread_cond_broadcast(&engine->told);
	return true;
}

void bj_engine_leave(struct bj_waiter *waiter)
{
	struct bj_engine *engine = waiter->engine;

	pthread_mutex_lock(&engine->mu);
	waiter->is_gone = true;
	ready_remove_locked(waiter);
	waiter_detach_locked(waiter);
	while (waiter->is_delivering)
		pthread_cond_wait(&engine->told, &engine->mu);
	engine->n_waiters--;
	pthread_cond_broadcast(&engine->told);
	pthread_mutex_unlock(&engine->mu);
	for (size_t i = 0; i < waiter->pending.n; i++)
		bj_update_unref(waiter->pending.updates[i]);
	bj_free(waiter);
}
