// SPDX-License-Identifier: Apache-2.0
/*
 * A loop is one completion queue of gRPC core and the one thread that drains it. Core has no public timer and no public
 * way to post: timers are a heap of our own that bounds the wait for the next event, and a post is an empty batch on a
 * call (call.c), which core completes at once on the call's queue.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pool.h"
#include "executor/rpc/rpc-internal.h"

enum { LOGS_PER_MINUTE = 10 };
#define MAX_DEINIT_NS (5 * BJ_NS_PER_SEC)

/* ---- the process ---- */

/* A peer can make core complain at will, so only a few complaints a minute are shown; true for those. */
static bool is_within_log_quota(void)
{
	static _Atomic uint64_t minute;
	static atomic_uint n_shown;
	uint64_t now = bj_now_ns() / (60 * BJ_NS_PER_SEC);
	if (atomic_exchange(&minute, now) != now)
		atomic_store(&n_shown, 0); /* two threads may both do so: a few more are shown */
	return atomic_fetch_add(&n_shown, 1) < LOGS_PER_MINUTE;
}

static void log_core(gpr_log_func_args *args)
{
	bool is_shown = args->severity == GPR_LOG_SEVERITY_ERROR && is_within_log_quota();
	bj_log(is_shown ? BJ_LOG_WARN : BJ_LOG_DEBUG, "rpc: core says file=%s line=%d text=\"%s\"",
	       args->file, args->line, args->message);
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		bj_warn("rpc: descriptor limit not raised: %m");
}

static atomic_uint n_inits;

void bj_rpc_init(void)
{
	atomic_fetch_add(&n_inits, 1);
	gpr_set_log_function(log_core);
	raise_descriptor_limit();
	grpc_init();
}

/*
 * Connections are taken down on core's own threads, and each keeps core alive until then: our "blocking" shutdown does
 * not block while one does, and slices (with what their destroy functions touch) are given back after it. Core offers no
 * event for the end of that, so we look again until we are the last.
 */
void bj_rpc_deinit(void)
{
	const struct timespec nap = { .tv_nsec = (long)BJ_NS_PER_MS };
	uint64_t until_ns = bj_deadline_ns(MAX_DEINIT_NS);
	grpc_shutdown_blocking();
	if (atomic_fetch_sub(&n_inits, 1) > 1)
		return;
	while (grpc_is_initialized() && bj_now_ns() < until_ns)
		(void)nanosleep(&nap, NULL); /* a shorter nap does no harm */
	if (grpc_is_initialized())
		bj_warn("rpc: core is still in use at its end");
	grpc_init(); /* the last other user may have left the end to a thread of its own, which this takes over */
	grpc_shutdown_blocking();
}

void bj_rpc_args_int(struct bj_rpc_args *args, const char *key, int value)
{
	bj_assert(args->n_args < BJ_RPC_MAX_ARGS);
	args->args[args->n_args++] = (grpc_arg){
		.type = GRPC_ARG_INTEGER,
		.key = (char *)key, /* core copies it */
		.value.integer = value,
	};
}

/* ---- timers ---- */

static bool is_earlier(const struct bj_rpc_timer *a, const struct bj_rpc_timer *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->seq < b->seq);
}

static void swap(struct bj_rpc_timer *a, struct bj_rpc_timer *b)
{
	struct bj_rpc_timer tmp = *a;
	*a = *b;
	*b = tmp;
}

static void sift_up(struct bj_rpc_timer *heap, size_t at)
{
	while (at > 0 && is_earlier(&heap[at], &heap[(at - 1) / 2])) {
		swap(&heap[at], &heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

static void sift_down(struct bj_rpc_timer *heap, size_t n_timers, size_t at)
{
	for (;;) {
		size_t first = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < n_timers; child++)
			if (is_earlier(&heap[child], &heap[first]))
				first = child;
		if (first == at)
			return;
		swap(&heap[at], &heap[first]);
		at = first;
	}
}

static bool grow_timers(struct bj_rpc_loop *loop)
{
	size_t max = loop->max_timers ? 2 * loop->max_timers : 16;
	struct bj_rpc_timer *timers = bj_realloc(loop->timers, bj_size_mul(max, sizeof(*timers)));
	if (!timers)
		return false;
	loop->timers = timers;
	loop->max_timers = max;
	return true;
}

bool bj_rpc_timer(struct bj_rpc_loop *loop, uint64_t delay_ms, void (*fn)(void *), void *arg)
{
	if (loop->n_timers == loop->max_timers && !grow_timers(loop))
		return false;
	uint64_t delay_ns;
	if (__builtin_mul_overflow(delay_ms, BJ_NS_PER_MS, &delay_ns))
		delay_ns = BJ_NEVER_NS;
	loop->timers[loop->n_timers] = (struct bj_rpc_timer){
		.at_ns = bj_deadline_ns(delay_ns),
		.seq = loop->timer_seq++,
		.fn = fn,
		.arg = arg,
	};
	sift_up(loop->timers, loop->n_timers++);
	return true;
}

static void run_due_timers(struct bj_rpc_loop *loop)
{
	if (loop->n_timers == 0)
		return;
	uint64_t now_ns = bj_now_ns();
	while (loop->n_timers > 0 && loop->timers[0].at_ns <= now_ns) {
		struct bj_rpc_timer due = loop->timers[0];
		loop->timers[0] = loop->timers[--loop->n_timers];
		sift_down(loop->timers, loop->n_timers, 0);
		due.fn(due.arg);
	}
}

/* ---- the loop ---- */

static gpr_timespec next_timer(const struct bj_rpc_loop *loop)
{
	if (loop->n_timers == 0 || loop->timers[0].at_ns > INT64_MAX)
		return gpr_inf_future(GPR_CLOCK_MONOTONIC);
	return gpr_time_from_nanos((int64_t)loop->timers[0].at_ns, GPR_CLOCK_MONOTONIC);
}

static void *loop_main(void *arg)
{
	struct bj_rpc_loop *loop = arg;
	for (;;) {
		grpc_event event = grpc_completion_queue_next(loop->cq, next_timer(loop), NULL);
		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (event.type == GRPC_OP_COMPLETE) {
			struct bj_rpc_op *op = event.tag;
			BJ_RPC_TAKE(op);
			op->fn(op, event.success != 0);
		}
		run_due_timers(loop);
	}
}

int bj_rpc_loop_new(struct bj_rpc_loop **out_loop, struct bj_err *err)
{
	struct bj_rpc_loop *loop = BJ_NEW(struct bj_rpc_loop);
	if (!loop)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an RPC loop");
	loop->cq = grpc_completion_queue_create_for_next(NULL);
	*out_loop = loop;
	return 0;
}

int bj_rpc_loop_start(struct bj_rpc_loop *loop, struct bj_err *err)
{
	bj_assert(!loop->is_started);
	int rc = bj_thread_start("bj-rpc", loop_main, loop, &loop->thread, err);
	if (rc < 0)
		return rc;
	loop->is_started = true;
	return 0;
}

void bj_rpc_loop_stop(struct bj_rpc_loop *loop)
{
	if (!loop)
		return;
	grpc_completion_queue_shutdown(loop->cq);
	if (loop->is_started)
		(void)pthread_join((pthread_t)loop->thread, NULL); /* ours, joined once */
	else
		(void)loop_main(loop); /* drains here; always NULL */
	grpc_completion_queue_destroy(loop->cq);
	bj_free(loop->timers);
	bj_free(loop);
}
