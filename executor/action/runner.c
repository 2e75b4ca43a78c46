// SPDX-License-Identifier: Apache-2.0
#include "executor/action/runner.h"

#include "executor/action/fingerprint.h"
#include "executor/action/life-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"

/* ---- the ops ---- */

/* What a failed lookup leaves: a final response with its reason. */
static int final_failure(const struct bj_failure *failure, struct bj_arena *arena,
			 struct bj_str *out_response, struct bj_err *err)
{
	struct bj_response response = { .failure = failure };

	*out_response = bj_pack_response(&response, arena);
	if (!out_response->ptr)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a response");
	return BJ_RUN_E_FINAL;
}

/*
 * The operator's settings and the platform's. An older client's platform stands in the Command only; when that cannot be read nothing is
 * said here, since the run will.
 */
static int todays_settings(struct bj_runner *runner, enum bj_digest_fn fn, const re_action *action,
			   struct bj_arena *arena, struct bjp_settings *out, struct bj_err *err)
{
	struct bj_err ignored = BJ_ERR_NULL;
	re_command *command = NULL;
	struct bj_digest digest;

	if (!action->platform &&
	    fetch_command(runner->opts.store, fn, action, arena, &digest, &command, &ignored) != 0)
		command = NULL;
	return derive_settings(runner, action, command, arena, out, err);
}

/* Only what decides about caching and merging, and what needs no tree: everything else is checked when the action has its slot. */
static int lookup_action(struct bj_runner *runner, struct bj_run_request *request,
			 struct bj_arena *arena, struct bj_failure *failure,
			 struct bj_str *out_response)
{
	struct bj_err *err = &failure->err;
	struct bjp_settings settings;
	re_action *action;
	uint64_t timeout_ns;
	int r = fetch_action(runner->opts.store, &request->action, arena, &action, err);

	if (r > 0) {
		bj_failure_missing(failure, (struct bj_missing){ &request->action, 1 });
		return -BJ_FAILED_PRECONDITION;
	}
	if (r == 0)
		r = fetch_timeout(action, runner->opts.max_timeout_ns,
				  runner->opts.default_timeout_ns, &timeout_ns, err);
	if (r < 0)
		return r;
	request->do_not_cache = action->do_not_cache;
	r = todays_settings(runner, request->action.fn, action, arena, &settings, err);
	if (r < 0)
		return r;
	if (action->do_not_cache)
		return CACHED_E_MISS;
	return cached_lookup(runner, request, &settings, arena, out_response, err);
}

static int op_lookup(void *ctx, struct bj_run_request *request, struct bj_arena *arena,
		     struct bj_str *out_response, struct bj_err *err)
{
	struct bj_failure failure = { .err = BJ_ERR_NULL };
	int r = lookup_action(ctx, request, arena, &failure, out_response);

	if (r < 0)
		return final_failure(&failure, arena, out_response, err);
	return r == CACHED_E_MISS ? 0 : BJ_RUN_E_FINAL;
}

static struct bj_str op_run(void *ctx, size_t slot, const struct bj_run_request *request,
			    const struct bj_run_control *control, struct bj_arena *arena)
{
	return life_run(ctx, slot, request, control, arena);
}

static struct bj_str op_failure(void *ctx, const struct bj_run_request *request,
				const struct bj_err *why, struct bj_arena *arena)
{
	struct bj_failure failure = { .err = *why };
	struct bj_response response = { .failure = &failure };

	(void)ctx;
	(void)request;
	return bj_pack_response(&response, arena);
}

static struct bj_str op_metadata(void *ctx, const struct bj_run_request *request, int stage,
				 struct bj_arena *arena)
{
	(void)ctx;
	return bj_pack_operation_metadata(request, stage, arena);
}

struct bj_runner_ops bj_runner_ops(struct bj_runner *runner)
{
	return (struct bj_runner_ops){
		.ctx = runner,
		.lookup = op_lookup,
		.run = op_run,
		.failure = op_failure,
		.metadata = op_metadata,
	};
}

/* ---- the slots ---- */

static struct bj_jail_slot_spec slot_spec(const struct bj_runner *runner, size_t slot)
{
	struct bj_jail_slot_spec spec = runner->opts.slot;

	if (spec.profile == BJ_PROFILE_PRIVILEGED)
		spec.slot_uid = spec.slot_gid = runner->opts.first_slot_uid + (uint32_t)slot;
	return spec;
}

/* The new zygote is a child of this runner thread, which lives as long as the engine: the parent-death signal stays right. */
int runner_renew_jail(struct bj_runner *runner, size_t slot, struct bj_err *err)
{
	struct bj_jail_slot_spec spec = slot_spec(runner, slot);

	bj_jail_free(BJ_STEAL_PTR(runner->jails[slot]));
	return bj_jail_start(runner->opts.jail_binary, &spec, &runner->jails[slot], NULL, err);
}

static int copy_roots(struct bj_runner *runner, struct bj_err *err)
{
	const struct bj_jail_slot_spec *slot = &runner->opts.slot;

	bj_arena_init(&runner->arena, 0);
	runner->root_paths = BJ_ARENA_ARRAY(&runner->arena, struct bj_str, slot->n_roots);
	if (!runner->root_paths)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the toolchain roots");
	for (size_t i = 0; i < slot->n_roots; i++)
		runner->root_paths[runner->n_root_paths++] = slot->roots[i].path;
	return 0;
}

static int start_jails(struct bj_runner *runner, struct bj_jail_failure *out_failure,
		       struct bj_err *err)
{
	runner->jails = BJ_NEW_ARRAY(struct bj_jail *, runner->opts.n_slots);
	if (!runner->jails)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for %zu slots",
				  runner->opts.n_slots);
	for (size_t i = 0; i < runner->opts.n_slots; i++) {
		struct bj_jail_slot_spec spec = slot_spec(runner, i);
		int r = bj_jail_start(runner->opts.jail_binary, &spec, &runner->jails[i],
				      out_failure, err);

		if (r < 0)
			return bj_err_wrap(err, "start the jail of slot %zu", i);
	}
	return 0;
}

int bj_runner_new(const struct bj_runner_opts *opts, struct bj_runner **out_runner,
		  struct bj_jail_failure *out_failure, struct bj_err *err)
{
	struct bj_runner *runner = BJ_NEW(struct bj_runner);

	if (!runner)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the runner");
	runner->opts = *opts;
	int r = copy_roots(runner, err);

	if (r == 0)
		r = start_jails(runner, out_failure, err);
	if (r == 0)
		r = bj_fingerprint_start(runner->root_paths, runner->n_root_paths,
					 &runner->fingerprint, err);
	if (r < 0) {
		bj_runner_free(runner);
		return r;
	}
	*out_runner = runner;
	return 0;
}

void bj_runner_free(struct bj_runner *runner)
{
	if (!runner)
		return;
	bj_fingerprint_stop(runner->fingerprint);
	for (size_t i = 0; runner->jails && i < runner->opts.n_slots; i++)
		bj_jail_free(runner->jails[i]);
	bj_free(runner->jails);
	bj_arena_deinit(&runner->arena);
	bj_free(runner);
}

bool bj_runner_is_current(struct bj_runner *runner, struct bj_str fingerprint)
{
	char today[BJ_FINGERPRINT_BYTES];

	return bj_fingerprint_get(runner->fingerprint, today) &&
	       bj_str_eq(fingerprint, bj_str_of(today));
}

bool bj_runner_wait_fingerprint(struct bj_runner *runner, uint64_t deadline_ns)
{
	return bj_fingerprint_wait(runner->fingerprint, deadline_ns);
}

bool bj_runner_fails_violations(struct bj_runner *runner, const struct bj_digest *digest,
				struct bj_arena *arena)
{
	struct bj_err ignored = BJ_ERR_NULL;
	struct bjp_settings settings = runner->opts.settings;
	re_action *action;

	/* An Action that is gone, or whose platform is refused today, is judged by the operator's settings alone. */
	if (fetch_action(runner->opts.store, digest, arena, &action, &ignored) == 0 &&
	    todays_settings(runner, digest->fn, action, arena, &settings, &ignored) < 0)
		settings = runner->opts.settings;
	return settings.on_violation == BJP_ON_VIOLATION_FAIL;
}
