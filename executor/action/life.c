// SPDX-License-Identifier: Apache-2.0
/*
 * One action's life as a table.
 *
 *   START ─> FETCH ─> DERIVE ─> LAYOUT ─> RUN ─> COLLECT ─> REPORT ─> DONE
 *              └────────┴─────────┴────────┴────────┴──────────┴────────^   (failure)
 *
 * Every state has one function that does its work and one line in the table; a failure in any of them goes to DONE with its reason. What
 * must hold when a state is entered is checked after each move. BJ_TEST_STOP_IN=<state> stops the whole process (SIGSTOP) when that
 * state is entered: the seam by which tests kill the server in every state.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/action/life-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"

enum { SCRATCH_MAX_BYTES = 64 << 20 };

/* ---- the one state without a file of its own ---- */

/* "A path that is both input and output is a private copy" (design §3.1), also below an output directory. */
static bool is_private(void *ctx, struct bj_str path)
{
	const struct life *life = ctx;
	char whole[sizeof(BJ_JAIL_ROOT) + PATH_MAX];
	int n = snprintf(whole, sizeof(whole), BJ_JAIL_ROOT "/%.*s", BJ_STR_FMT(path));

	/* Longer ones cannot be laid out either. */
	return n > 0 && (size_t)n < sizeof(whole) &&
	       bjp_classify(life->policy, bj_str_n(whole, (size_t)n)) == BJP_OUTPUT;
}

/* What must be there before the run: the directories right above outputs, and in strict mode what stays writable. */
static struct bj_str *dirs_to_make(struct life *life, size_t *out_n)
{
	const struct bj_str *parents, *writable;
	size_t n_parents, n_writable = 0;

	bjp_output_parents(life->policy, &parents, &n_parents);
	if (life->settings.write == BJP_WRITE_STRICT)
		bjp_writable_dirs(life->policy, &writable, &n_writable);
	struct bj_str *all = BJ_ARENA_ARRAY(life->arena, struct bj_str, n_parents + n_writable);

	if (!all)
		return NULL;
	if (n_parents)
		memcpy(all, parents, n_parents * sizeof(*all));
	if (n_writable)
		memcpy(all + n_parents, writable, n_writable * sizeof(*all));
	*out_n = n_parents + n_writable;
	return all;
}

static int life_lay_out(struct life *life)
{
	const struct bj_runner_opts *opts = &life->runner->opts;
	struct bj_missing missing = { NULL, 0 };
	size_t n_dirs;
	struct bj_str *dirs = dirs_to_make(life, &n_dirs);
	bool own_uid = opts->slot.profile == BJ_PROFILE_PRIVILEGED;
	uid_t uid = own_uid ? opts->first_slot_uid + (uint32_t)life->slot : 0;

	if (!dirs)
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the output directories");
	int r = bj_layout_make(opts->work, &life->tree, dirs, n_dirs, uid, uid, is_private, life,
			       life->arena, &life->layout, &missing, &life->failure.err);

	if (r != BJ_LAYOUT_E_MISSING)
		return r;
	bj_failure_missing(&life->failure, missing);
	return -BJ_FAILED_PRECONDITION;
}

static const struct {
	const char *name;
	int (*work)(struct life *life);
	enum life_state next;
} life_states[] = {
	[LIFE_START] = { "start", NULL, LIFE_FETCH },
	[LIFE_FETCH] = { "fetch", life_fetch, LIFE_DERIVE },
	[LIFE_DERIVE] = { "derive", life_derive, LIFE_LAYOUT },
	[LIFE_LAYOUT] = { "layout", life_lay_out, LIFE_RUN },
	[LIFE_RUN] = { "run", life_command, LIFE_COLLECT },
	[LIFE_COLLECT] = { "collect", life_collect, LIFE_REPORT },
	[LIFE_REPORT] = { "report", life_report, LIFE_DONE },
	[LIFE_DONE] = { "done", NULL, LIFE_DONE },
};

static void life_check(const struct life *life)
{
	bool failed = bj_err_is_set(&life->failure.err);

	bj_assert(!failed || life->state == LIFE_DONE);
	bj_assert(life->state < LIFE_DERIVE || failed || (life->action && life->command));
	bj_assert(life->state < LIFE_LAYOUT || failed || (life->policy && life->collector));
	bj_assert(life->state < LIFE_RUN || failed || life->layout.upper_fd >= 0);
	bj_assert(life->state < LIFE_COLLECT || failed || life->has_run);
	bj_assert(life->state < LIFE_REPORT || failed || life->result);
}

static void stop_for_test(enum life_state state)
{
	const char *where = getenv("BJ_TEST_STOP_IN");

	if (where && strcmp(where, life_states[state].name) == 0)
		(void)raise(SIGSTOP); /* cannot fail for ourselves */
}

static void life_move(struct life *life, enum life_state to)
{
	bj_assert(to == LIFE_DONE || to == life_states[life->state].next);
	life->state = to;
	life_check(life);
	stop_for_test(to);
}

/* ---- timestamps of ExecutedActionMetadata ---- */

static Google__Protobuf__Timestamp *stamp(struct life *life, uint64_t realtime_ns)
{
	Google__Protobuf__Timestamp *t = BJ_ARENA_NEW(life->arena, Google__Protobuf__Timestamp);

	if (!t)
		return NULL; /* the field stays unset: a missing time is no reason to fail */
	google__protobuf__timestamp__init(t);
	t->seconds = (int64_t)(realtime_ns / BJ_NS_PER_SEC);
	t->nanos = (int32_t)(realtime_ns % BJ_NS_PER_SEC);
	return t;
}

static void stamp_begin(struct life *life)
{
	re_action_metadata *m = life->metadata;
	uint64_t now = bj_realtime_ns();

	if (life->state == LIFE_FETCH)
		m->input_fetch_start_timestamp = stamp(life, now);
	else if (life->state == LIFE_RUN)
		m->execution_start_timestamp = stamp(life, now);
	else if (life->state == LIFE_COLLECT)
		m->output_upload_start_timestamp = stamp(life, now);
}

static Google__Protobuf__Duration *wall_duration(struct life *life)
{
	Google__Protobuf__Duration *d = BJ_ARENA_NEW(life->arena, Google__Protobuf__Duration);

	if (!d)
		return NULL;
	google__protobuf__duration__init(d);
	d->seconds = (int64_t)(life->jail.wall_ns / BJ_NS_PER_SEC);
	d->nanos = (int32_t)(life->jail.wall_ns % BJ_NS_PER_SEC);
	return d;
}

static void stamp_end(struct life *life)
{
	re_action_metadata *m = life->metadata;
	uint64_t now = bj_realtime_ns();

	if (life->state == LIFE_LAYOUT) {
		m->input_fetch_completed_timestamp = stamp(life, now);
	} else if (life->state == LIFE_RUN) {
		m->execution_completed_timestamp = stamp(life, now);
		m->virtual_execution_duration = wall_duration(life);
	} else if (life->state == LIFE_COLLECT) {
		m->output_upload_completed_timestamp = stamp(life, now);
		m->worker_completed_timestamp = stamp(life, now);
	}
}

/* ---- moving ---- */

static int life_step(struct life *life)
{
	stamp_begin(life);
	int r = life_states[life->state].work(life);

	stamp_end(life);
	return r;
}

/* ---- a dead zygote is replaced ---- */

/* Nothing of the action may have survived: the client runs it again. If this fails now, the slot's next action tries again. */
static void maybe_renew_jail(struct life *life)
{
	struct bj_err err = BJ_ERR_NULL;

	if (!life->has_lost_jail)
		return;
	if (runner_renew_jail(life->runner, life->slot, &err) < 0)
		bj_error("action: slot lost slot=%zu error=\"%s\"", life->slot, err.msg);
}

/* ---- whole ---- */

static bool life_init(struct life *life)
{
	struct bj_str worker = life->runner->opts.worker_name;

	life->metadata = BJ_ARENA_NEW(life->arena, re_action_metadata);
	if (!life->metadata)
		return false;
	build__bazel__remote__execution__v2__executed_action_metadata__init(life->metadata);
	life->metadata->worker = bj_str_dup(life->arena, worker);
	life->metadata->queued_timestamp = stamp(life, life->request->queued_ns);
	life->metadata->worker_start_timestamp = stamp(life, bj_realtime_ns());
	bj_arena_init(&life->scratch, SCRATCH_MAX_BYTES);
	if (!bj_fingerprint_get(life->runner->fingerprint, life->fingerprint))
		life->fingerprint[0] = '\0';
	return life->metadata->worker != NULL;
}

static void life_clear(struct life *life)
{
	bj_close_fdp(&life->jail.exec_fd); /* it keeps the overlay mounted over the layers below */
	bj_layout_drop(life->runner->opts.work, &life->layout);
	bjp_collector_free(life->collector);
	stream_deinit(&life->out);
	stream_deinit(&life->err);
	bj_arena_deinit(&life->scratch);
}

/* A result with tens of thousands of long output paths: the client must be told, or it waits for a message that gRPC refuses. */
static struct bj_str too_large(struct life *life, size_t len)
{
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	struct bj_response response = { .failure = &failure };

	(void)bj_err_set(&failure.err, BJ_RESOURCE_EXHAUSTED,
			 "the result of %zu bytes is larger than a message may be, %d: declare a "
			 "directory instead of its files",
			 len, RESPONSE_MAX_BYTES);
	return bj_pack_response(&response, life->arena);
}

static struct bj_str life_response(struct life *life)
{
	struct bj_response response = {
		.failure = &life->failure,
		.result = life->result,
		.message = life->message,
	};

	/* A failure leaves no result, but for the timeout's. That one explains whatever failed after it. */
	if (bj_err_is_set(&life->failure.err))
		response.result = NULL;
	if (bj_err_is_set(&life->timeout))
		life->failure.err = life->timeout;
	if (life->has_log) {
		response.log_name = BJ_STR_LIT("sandbox");
		response.log_digest = life->log_digest;
	}
	struct bj_str packed = bj_pack_response(&response, life->arena);

	return packed.len <= RESPONSE_MAX_BYTES ? packed : too_large(life, packed.len);
}

struct bj_str life_run(struct bj_runner *runner, size_t slot, const struct bj_run_request *request,
		       const struct bj_run_control *control, struct bj_arena *arena)
{
	struct life *life = bj_arena_zalloc(arena, sizeof(*life));
	int r = 0;

	if (!life)
		return BJ_STR_NULL;
	*life = (struct life){ .runner = runner,
			       .slot = slot,
			       .request = request,
			       .control = control,
			       .arena = arena,
			       .layout = BJ_LAYOUT_NULL,
			       .jail = { .exec_fd = -EBADF },
			       .failure = { .err = BJ_ERR_NULL },
			       .timeout = BJ_ERR_NULL };
	if (!life_init(life))
		r = bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
			       "out of memory for an action");
	while (r == 0 && life->state != LIFE_DONE) {
		life_move(life, life_states[life->state].next);
		r = life->state == LIFE_DONE ? 0 : life_step(life);
	}
	if (life->state != LIFE_DONE)
		life_move(life, LIFE_DONE);
	maybe_renew_jail(life);
	struct bj_str response = life_response(life);

	life_clear(life);
	return response;
}
