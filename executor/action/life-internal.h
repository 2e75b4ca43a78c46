// SPDX-License-Identifier: Apache-2.0
/**
 * action/life-internal.h - one action while it lives, shared by the files that carry it from state to state.
 * Owns: what is listed in struct life; life_clear() gives it back. Threads: the slot's runner thread.
 */
#ifndef BJ_ACTION_LIFE_INTERNAL_H
#define BJ_ACTION_LIFE_INTERNAL_H

#include "executor/action/collect.h"
#include "executor/action/fingerprint.h"
#include "executor/action/layout.h"
#include "executor/action/response.h"
#include "executor/action/runner.h"
#include "policy/record.h"

struct bj_runner {
	struct bj_runner_opts opts;
	struct bj_jail **jails;	   /* n_slots */
	struct bj_str *root_paths; /* toolchain roots as the policy wants them */
	size_t n_root_paths;
	struct bj_arena arena; /* of root_paths */
	struct bj_fingerprint *fingerprint;
};

enum life_state {
	LIFE_START,
	LIFE_FETCH,   /* Action, Command, every Directory; every file blob present? */
	LIFE_DERIVE,  /* policy from Command, tree and host settings */
	LIFE_LAYOUT,  /* input root in the work area */
	LIFE_RUN,     /* the command behind the walls */
	LIFE_COLLECT, /* outputs into the store */
	LIFE_REPORT,  /* records, result, cache */
	LIFE_DONE,
};

/** Where stdout or stderr goes: memory first, a store writer beyond a limit. */
struct stream {
	struct bj_buf head;
	struct bj_store_writer *writer; /* NULL while everything fits in head */
	char last;			/* last byte seen */
	uint64_t size_bytes;
};

struct life {
	struct bj_runner *runner;
	size_t slot;
	const struct bj_run_request *request;
	const struct bj_run_control *control;
	struct bj_arena *arena;
	enum life_state state;
	struct bj_failure failure; /* set: the action goes to DONE with it */
	struct bj_err
		timeout; /* set: it ran too long; its life goes on to the report all the same */

	char fingerprint
		[BJ_FINGERPRINT_BYTES]; /* of the toolchain when the life began; "" when not known then */

	re_action *action; /* FETCH */
	re_command *command;
	struct bj_tree tree;
	struct bj_output *outputs;
	size_t n_outputs;
	uint64_t timeout_ns; /* BJ_NEVER_NS for none */

	struct bjp_settings settings; /* DERIVE */
	struct bjp_policy *policy;
	struct bjp_collector *collector;

	struct bj_layout layout; /* LAYOUT */

	struct stream out, err; /* RUN */
	struct bj_jail_result jail;
	bool was_short; /* the work area was as good as full before or after the run */
	bool has_run;
	bool has_lost_jail;	 /* its zygote died: the slot needs a new one */
	struct bj_arena scratch; /* short-lived strings of the observer's callbacks */

	re_action_result *result; /* COLLECT, REPORT */
	re_action_metadata *metadata;
	struct bjp_report judged;
	Belljar__V1__SandboxReport *report;
	struct bj_str message;
	struct bj_digest log_digest;
	bool has_log;
	bool closed;
};

/* life.c, runner.c */
struct bj_str life_run(struct bj_runner *runner, size_t slot, const struct bj_run_request *request,
		       const struct bj_run_control *control, struct bj_arena *arena);
int runner_renew_jail(struct bj_runner *runner, size_t slot, struct bj_err *err);
/** onViolation=fail: this instead of 0, told apart from every code that tools use. */
enum { VIOLATION_EXIT_CODE = 121 };
/** An ExecuteResponse: with the Operation around it, it stays below the 4 MiB that gRPC clients take by default. */
enum { RESPONSE_MAX_BYTES = (4 << 20) - (64 << 10) };

/* fetch.c: reading and checking what the client declared. Each returns 0 or a negative code with life->failure set. */
int life_fetch(struct life *life);
/** Only the Action: for the lookup before queueing. @out_missing set and 1 returned when it is not in the store. */
int fetch_action(struct bj_store *store, const struct bj_digest *digest, struct bj_arena *arena,
		 re_action **out_action, struct bj_err *err);
/** The Command of an Action. @out_digest: set for 0 and 1. Return: as fetch_action(), and -INVALID_ARGUMENT for its digest. */
int fetch_command(struct bj_store *store, enum bj_digest_fn fn, const re_action *action,
		  struct bj_arena *arena, struct bj_digest *out_digest, re_command **out_command,
		  struct bj_err *err);
/** Action.timeout in ns, BJ_NEVER_NS when unset; above @max_ns -INVALID_ARGUMENT. */
int fetch_timeout(const re_action *action, uint64_t max_ns, uint64_t default_ns, uint64_t *out_ns,
		  struct bj_err *err);

/* derive.c */
int life_derive(struct life *life);
/** The settings that a platform asks for, on top of the operator's. */
int derive_settings(const struct bj_runner *runner, const re_action *action,
		    const re_command *command, struct bj_arena *arena, struct bjp_settings *out,
		    struct bj_err *err);

/* command.c: the jail's spec and the run itself */
int life_command(struct life *life);
void stream_deinit(struct stream *stream);

/* witness.c: from the observer to the policy's collector, and evidence about the host */
struct bj_observer_hooks witness_hooks(struct life *life);
struct bjp_evidence witness_evidence(void *ctx /* struct life */, struct bj_str path);

/* finish.c: collection, records, result */
int life_collect(struct life *life);
int life_report(struct life *life);

/* cached.c: the action cache as Execute sees it */
enum { CACHED_E_MISS = 1 };
/** A hit that is complete, of our own making and of today's toolchain, judged again under @settings. Return: 0 hit, CACHED_E_MISS, negative. */
int cached_lookup(struct bj_runner *runner, const struct bj_run_request *request,
		  const struct bjp_settings *settings, struct bj_arena *arena,
		  struct bj_str *out_response, struct bj_err *err);
int cached_store(struct life *life, struct bj_err *err);

#endif
