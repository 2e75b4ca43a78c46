// SPDX-License-Identifier: Apache-2.0
/**
 * action/report.h - the belljar.v1.SandboxReport of one action, and the server's memory of the last ones.
 * Owns: bj_reports owns its copies. Threads: bj_reports is thread-safe; building a report belongs to the runner's thread.
 */
#ifndef BJ_ACTION_REPORT_H
#define BJ_ACTION_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "belljar/v1/report.pb-c.h"
#include "executor/action/run.h"
#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/jail/jail.h"
#include "policy/record.h"

#define BJ_VERSION "0.1.0"

enum { BJ_REPORT_MAX_BYTES = 1 << 20, BJ_REPORTS_MAX_BYTES = 64 << 20 };

/** What the report says beside the records. */
struct bj_report_facts {
	enum bj_jail_profile profile;
	const struct bjp_settings *settings;
	const struct bj_jail_result *result; /* NULL when the command did not run */
	struct bj_str policy_digest, fingerprint;
	const struct bj_run_request *request;
	bool closed;
	uint64_t n_inputs;
};
/**
 * bj_report_new() - Paths are made valid UTF-8; raw bytes are kept beside them when they had to be altered. The violations take at most
 * BJ_REPORT_MAX_BYTES: it travels inside a result, and what does not fit is counted as dropped.
 * Return: in @arena; NULL without memory.
 */
Belljar__V1__SandboxReport *bj_report_new(const struct bj_report_facts *facts,
					  const struct bjp_report *judged, struct bj_arena *arena);
/** The readable server log: one block a record with its evidence and what to do. */
struct bj_str bj_report_text(const Belljar__V1__SandboxReport *report, struct bj_arena *arena);

/** One finished action, as `explain` shows it. Everything is packed or copied. */
struct bj_stored_report {
	struct bj_str packed; /* SandboxReport */
	struct bj_str action; /* "HASH/SIZE" */
	struct bj_str target, mnemonic, invocation;
	int exit_code;
	uint64_t finished_ns; /* real time */
	bool cached;	      /* it was a hit */
	bool has_violations;
	struct bj_str message;
};

struct bj_reports;
/** @max: the newest so many are kept, at least one, and fewer when they take more than BJ_REPORTS_MAX_BYTES. */
BJ_MUST_USE int bj_reports_new(size_t max, struct bj_reports **out_reports, struct bj_err *err);
void bj_reports_free(struct bj_reports *reports);
/** Copies. Without memory the report is not kept (the client has it). */
void bj_reports_add(struct bj_reports *reports, const struct bj_stored_report *report);

struct bj_reports_query { /* empty members match all */
	struct bj_str target, mnemonic, action_prefix, invocation;
	bool last_build; /* only those with the invocation of the newest report that has one */
	bool only_violations;
	size_t limit;	  /* 0: all */
	size_t max_bytes; /* of the reports together, the first one aside; 0: all */
};
/** Newest first, copied into @arena. */
BJ_MUST_USE int bj_reports_find(struct bj_reports *reports, const struct bj_reports_query *query,
				struct bj_arena *arena, struct bj_stored_report **out_list,
				size_t *out_n, struct bj_err *err);

#endif
