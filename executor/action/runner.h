// SPDX-License-Identifier: Apache-2.0
/**
 * action/runner.h - what a runner needs for all actions, and the bj_runner_ops that the engine calls.
 * Owns: the slots' jails. Threads: made and freed by the main thread (jails die with the thread that spawned them); the ops as run.h says.
 */
#ifndef BJ_ACTION_RUNNER_H
#define BJ_ACTION_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/action/layout.h"
#include "executor/action/report.h"
#include "executor/action/run.h"
#include "executor/cas/reapi.h"
#include "executor/cas/store.h"
#include "executor/jail/jail.h"
#include "policy/policy.h"

struct bj_runner;

struct bj_runner_opts {
	struct bj_store *store;
	struct bj_work *work;
	struct bj_reports *reports; /* where finished reports go; borrowed */
	const char *jail_binary;
	struct bj_jail_slot_spec
		slot; /* roots, files, work_dir, profile; slot_uid and slot_gid are set per slot */
	uint32_t first_slot_uid; /* privileged profile: slot N runs as first + N */
	size_t n_slots;
	struct bjp_settings settings; /* operator's defaults */
	struct bjp_bounds bounds;
	const struct bj_str *workspaces; /* absolute directories of clients' source trees */
	size_t n_workspaces;
	bool tell_host; /* "the host has it" may be told to clients (serve on loopback) */
	const struct bj_str *anchors; /* deny anchors: host directories whose files are evidence */
	size_t n_anchors;
	uint64_t max_timeout_ns;     /* larger Action.timeout: INVALID_ARGUMENT */
	uint64_t default_timeout_ns; /* for actions without one; BJ_NEVER_NS for none */
	struct bj_str
		worker_name; /* ExecutedActionMetadata.worker: results never pack to nothing */
};

/** Starts the jails, one a slot. @opts: copied; what it points to is borrowed. Return: 0; -FAILED_PRECONDITION with a filled @out_failure. */
BJ_MUST_USE int bj_runner_new(const struct bj_runner_opts *opts, struct bj_runner **out_runner,
			      struct bj_jail_failure *out_failure, struct bj_err *err);
/** Accepts NULL. No action may run. */
void bj_runner_free(struct bj_runner *runner);
/**
 * Waits, but not longer than @deadline_ns, until the toolchain's fingerprint is known: before that nothing is cached.
 * The walk takes about a second on a warm machine. Return: known.
 */
bool bj_runner_wait_fingerprint(struct bj_runner *runner, uint64_t deadline_ns);
/** Is this the fingerprint of today's toolchain? False while that is not known. */
BJ_MUST_USE bool bj_runner_is_current(struct bj_runner *runner, struct bj_str fingerprint);
/**
 * bj_runner_fails_violations() - would this action fail for a violation today? By the operator's settings and, when the Action and its
 * Command are in the store, by their platform. Blocks on disk.
 */
bool bj_runner_fails_violations(struct bj_runner *runner, const struct bj_digest *action,
				struct bj_arena *arena);
/**
 * bj_runner_tell_hit() - puts the report of a cached result among those that `explain` shows, under the name of who asked for it now.
 * @arena: for the look into the report; nothing of it is kept
 */
void bj_runner_tell_hit(struct bj_runner *runner, const struct bj_run_request *request,
			const re_action_result *result, struct bj_str message,
			struct bj_arena *arena);
/** The ops with their ctx. */
struct bj_runner_ops bj_runner_ops(struct bj_runner *runner);

#endif
