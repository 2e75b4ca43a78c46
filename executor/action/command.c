// SPDX-License-Identifier: Apache-2.0
/* The command behind the walls: its spec, its streams, its end. */
#include <poll.h>
#include <stdio.h>

#include "executor/action/life-internal.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"

/* Output up to here stays in memory until it is stored; beyond it goes through a store writer as it comes. */
enum { STREAM_HEAD_BYTES = 64 << 10, LOST_JAIL_WAIT_MS = 1000 };

/* The disk is everybody's. */
#define STREAM_MAX_BYTES (UINT64_C(1) << 30)

/* A command without PATH gets this one, as design §7 decides; HOME and TMPDIR are never added. */
#define DEFAULT_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

/* ---- streams ---- */

static void stream_init(struct stream *stream)
{
	*stream = (struct stream){ .head = BJ_BUF_INIT(STREAM_HEAD_BYTES), .last = '\n' };
}

void stream_deinit(struct stream *stream)
{
	bj_buf_deinit(&stream->head);
	bj_store_writer_abort(stream->writer);
	stream->writer = NULL;
}

static int stream_spill(struct life *life, struct stream *stream, struct bj_err *err)
{
	int r = bj_store_writer_new(life->runner->opts.store, life->request->action.fn, UINT64_MAX,
				    &stream->writer, err);

	return r < 0 ? r
		     : bj_store_writer_append(stream->writer, stream->head.data, stream->head.len,
					      err);
}

static int stream_append(struct life *life, struct stream *stream, const char *data, size_t n,
			 struct bj_err *err)
{
	int r = 0;

	if (n == 0)
		return 0;
	if (n > STREAM_MAX_BYTES - stream->size_bytes)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "the command printed more than %llu bytes",
				  (unsigned long long)STREAM_MAX_BYTES);
	stream->last = data[n - 1];
	stream->size_bytes += n;
	if (!stream->writer && stream->head.len + n <= STREAM_HEAD_BYTES) {
		if (!bj_buf_append(&stream->head, data, n))
			return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
					  "out of memory for the command's output");
		return 0;
	}
	if (!stream->writer)
		r = stream_spill(life, stream, err);
	return r < 0 ? r : bj_store_writer_append(stream->writer, data, n, err);
}

static int on_output(void *ctx, int which, const void *data, size_t n, struct bj_err *err)
{
	struct life *life = ctx;

	return stream_append(life, which == 2 ? &life->err : &life->out, data, n, err);
}

/* ---- the spec ---- */

static bool has_path(const re_command *command)
{
	for (size_t i = 0; i < command->n_environment_variables; i++)
		if (strcmp(command->environment_variables[i]->name, "PATH") == 0)
			return true;
	return false;
}

static bool fill_env(struct life *life, struct bj_jail_spec *spec)
{
	const re_command *c = life->command;

	spec->env = BJ_ARENA_ARRAY(life->arena, struct bj_str, c->n_environment_variables + 1);
	if (!spec->env)
		return false;
	for (size_t i = 0; i < c->n_environment_variables; i++) {
		const char *pair =
			bj_arena_printf(life->arena, "%s=%s", c->environment_variables[i]->name,
					c->environment_variables[i]->value);

		if (!pair)
			return false;
		spec->env[spec->n_env++] = bj_str_of(pair);
	}
	if (!has_path(c))
		spec->env[spec->n_env++] = BJ_STR_LIT(DEFAULT_PATH);
	return true;
}

static bool fill_argv(struct life *life, struct bj_jail_spec *spec)
{
	const re_command *c = life->command;

	spec->argv = BJ_ARENA_ARRAY(life->arena, struct bj_str, c->n_arguments);
	if (!spec->argv)
		return false;
	for (size_t i = 0; i < c->n_arguments; i++)
		spec->argv[i] = bj_str_of(c->arguments[i]);
	spec->n_argv = c->n_arguments;
	return true;
}

static bool fill_spec(struct life *life, struct bj_jail_spec *spec)
{
	const char *dir = life->command->working_directory;
	const char *cwd =
		dir[0] ? bj_arena_printf(life->arena, BJ_JAIL_ROOT "/%s", dir) : BJ_JAIL_ROOT;
	const struct bj_str *parents;
	size_t n_parents;

	if (!cwd || !fill_argv(life, spec) || !fill_env(life, spec))
		return false;
	spec->cwd = bj_str_of(cwd);
	spec->lower = bj_str_of(life->layout.lower);
	spec->upper = bj_str_of(life->layout.upper);
	spec->ovl = bj_str_of(life->layout.ovl);
	spec->tmp = bj_str_of(life->layout.tmp);
	spec->shm = bj_str_of(life->layout.shm);
	spec->write_mode =
		life->settings.write == BJP_WRITE_STRICT ? BJ_WRITE_STRICT : BJ_WRITE_SCRATCH;
	spec->observe =
		(enum bj_observe)
			life->settings.observe; /* the two enums are one vocabulary, in one order */
	if (spec->write_mode == BJ_WRITE_STRICT) {
		bjp_writable_dirs(life->policy, &parents, &n_parents);
		spec->writable = (struct bj_str *)(uintptr_t)parents;
		spec->n_writable = n_parents;
	}
	return true;
}

_Static_assert((int)BJ_OBSERVE_OFF == (int)BJP_OBSERVE_OFF &&
		       (int)BJ_OBSERVE_STRICT == (int)BJP_OBSERVE_STRICT,
	       "jail and policy count the observer's levels alike");

/* ---- its end ---- */

/* A command that cannot be executed is the action's failure, not the server's: exit 127 or 126 with a text, as a shell would. */
static int tell_exec_failure(struct life *life)
{
	const char *why = strerrordesc_np(life->jail.exec_errno);
	struct bj_str argv0 =
		bj_str_printable(life->arena, bj_str_of(life->command->arguments[0]), 512);
	const char *text = bj_arena_printf(life->arena, "belljar: cannot execute %.*s: %s\n",
					   BJ_STR_FMT(argv0), why ? why : "unknown error");

	if (!text)
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED, "out of memory");
	return stream_append(life, &life->err, text, strlen(text), &life->failure.err);
}

/* Not OK with the result kept beside: spec of DEADLINE_EXCEEDED. The life goes on to collection and report all the same. */
static void tell_timeout(struct life *life)
{
	(void)bj_err_set(
		&life->timeout, BJ_DEADLINE_EXCEEDED,
		"the command ran longer than its timeout of %llu ms; %zu processes were killed",
		(unsigned long long)(life->timeout_ns / BJ_NS_PER_MS), life->jail.n_killed);
	life->message = bj_arena_str(life->arena, bj_str_of(life->timeout.msg));
}

/*
 * A slot whose jail could not be renewed tries again with each action. It answers slowly then, or it would take the whole queue and
 * fail it while the other slots work.
 */
static int ensure_jail(struct life *life)
{
	struct pollfd cancel = { .fd = life->control->cancel_fd, .events = POLLIN };
	struct bj_err why = BJ_ERR_NULL;

	if (life->runner->jails[life->slot] ||
	    runner_renew_jail(life->runner, life->slot, &why) == 0)
		return 0;
	bj_error("action: slot has no jail slot=%zu error=\"%s\"", life->slot, why.msg);
	(void)poll(&cancel, 1, LOST_JAIL_WAIT_MS); /* nothing depends on how it ended */
	return bj_err_set(&life->failure.err, BJ_UNAVAILABLE,
			  "this slot's jail died and cannot be started again: %.600s", why.msg);
}

int life_command(struct life *life)
{
	struct bj_jail_spec spec = { 0 };
	struct bj_observer_hooks observer = witness_hooks(life);
	struct bj_jail_hooks hooks = { .ctx = life, .output = on_output, .observer = &observer };

	stream_init(&life->out);
	stream_init(&life->err);
	if (!fill_spec(life, &spec))
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the jail's spec");
	int r = ensure_jail(life);

	if (r < 0)
		return r;
	life->layout.n_left = UINT64_MAX; /* until it is counted */
	if (life->control->executing)
		life->control->executing(life->control->ctx);
	/* Spec: the timeout covers the execution only, not the queue, nor fetching. */
	uint64_t deadline =
		life->timeout_ns == BJ_NEVER_NS ? BJ_NEVER_NS : bj_deadline_ns(life->timeout_ns);
	life->was_short = bj_work_is_short(life->runner->opts.work);
	r = bj_jail_run(life->runner->jails[life->slot], &spec, &hooks, deadline,
			life->control->cancel_fd, &life->jail, &life->failure.err);
	life->has_lost_jail = r == -BJ_UNAVAILABLE;
	if (r < 0)
		return r;
	life->has_run = true;
	life->was_short = life->was_short || bj_work_is_short(life->runner->opts.work);
	if (life->jail.end == BJ_END_CANCELLED)
		return bj_err_set(&life->failure.err, BJ_CANCELLED,
				  "cancelled while running: no client waits for it any more");
	if (life->jail.end == BJ_END_EXEC_FAILED)
		return tell_exec_failure(life);
	if (life->jail.end == BJ_END_TIMEOUT)
		tell_timeout(life);
	return 0;
}
