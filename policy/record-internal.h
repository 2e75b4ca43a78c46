// SPDX-License-Identifier: Apache-2.0
/**
 * policy/record-internal.h - what the collector keeps of the attempts until they are judged.
 * Threads: the collector's owner.
 */
#ifndef BJP_RECORD_INTERNAL_H
#define BJP_RECORD_INTERNAL_H

#include "executor/base/map.h"
#include "policy/policy-internal.h"
#include "policy/record.h"

enum {
	BJP_COLLECTOR_BYTES =
		48 << 20, /* memory of one collector; beyond it attempts are dropped and counted */
	BJP_MAX_EXPLAINERS = 16,
	BJP_MAX_HINTS = 16,
	BJP_MAX_MISSING = 16, /* missing_candidate records of one action */
};

/** Which kinds of attempt have met in one candidate. */
enum bjp_saw {
	BJP_SAW_READ = 1 << 0,
	BJP_SAW_STAT = 1 << 1,
	BJP_SAW_EXEC = 1 << 2,
};

/** All attempts of one kind on one path. Strings are in the collector's arena. */
struct bjp_candidate {
	enum bjp_kind kind;
	unsigned saw;
	enum bjp_access access; /* of the attempt that names the operation */
	const char *operation;
	struct bj_str path;    /* what the verdict is about, links followed */
	struct bj_str lexical; /* the path before that, when it differs */
	struct bj_str resolved, written;
	enum bjp_zone zone;
	bool is_certain; /* a record whatever the evidence says */
	bool is_refused; /* some attempt failed */
	bool is_done;	 /* some attempt succeeded */
	int error;	 /* smallest errno seen, 0 for none */
	int64_t pid;
	struct bj_str comm, exe, argv0;
	uint64_t count; /* attempts that are not noise */
	uint64_t first_ns, last_ns;
	struct bj_str address;
	uint16_t port;
	uint64_t size_bytes;
	struct bj_str wanted, found, detail;
	const struct bjp_noise *noise; /* rule that fits the path, or NULL */
	struct bjp_candidate *next;
};

/** A base name that some look-up found. */
struct bjp_found {
	bool by_read, by_exec;
};

struct bjp_collector {
	const struct bjp_policy *policy;
	const struct bjp_settings *settings;
	struct bj_arena arena;
	struct bj_map candidates; /* key -> struct bjp_candidate */
	struct bj_map found;	  /* base name -> struct bjp_found */
	struct bj_map
		toolchain; /* path in a toolchain root that was looked up, with what outcome we were not told */
	struct bjp_candidate *first, **last;
	size_t n_candidates;
	struct bj_str last_exe, last_argv0; /* the program that was noted last */
	struct bjp_counters counters;
	struct bj_str explainers[BJP_MAX_EXPLAINERS];
	size_t n_explainers;
	bool network_success;
};

/** The candidate of (@kind, @path), or NULL. */
struct bjp_candidate *bjp_candidate_get(const struct bjp_collector *collector, enum bjp_kind kind,
					struct bj_str path);

/* ---- noise.c: what every program does, told apart by rule and reason ---- */

struct bjp_noise {
	const char *pattern; /* glob on the absolute path */
	const char *program; /* only for programs whose name starts so; NULL: for all */
	unsigned what;	     /* BJP_NOISE_READ, BJP_NOISE_WRITE, … */
	const char *reason;
};
enum { BJP_NOISE_READ = 1, BJP_NOISE_WRITE = 2, BJP_NOISE_SOCKET = 4 };

/** The rule that fits @path, or NULL. */
const struct bjp_noise *bjp_noise_find(struct bj_str path, unsigned what);
/** Does the rule hold for the program at @exe? */
bool bjp_noise_holds(const struct bjp_noise *noise, struct bj_str exe);

/* ---- write_rules.c ---- */

enum bjp_write_verdict {
	BJP_WRITE_QUIET,    /* allowed, or seen at the end of the action instead */
	BJP_WRITE_NOISE,    /* harmless */
	BJP_WRITE_IF_THERE, /* write_undeclared if the host has the path */
	BJP_WRITE_OUTSIDE,  /* write_undeclared */
	BJP_WRITE_INPUT,    /* write_to_input */
};
enum bjp_write_verdict bjp_write_judge(const struct bjp_policy *policy,
				       const struct bjp_settings *settings,
				       const struct bjp_attempt *attempt, struct bj_str path);
/** Does the operation act on a link itself when the last component is one? */
bool bjp_acts_on_link(const struct bjp_attempt *attempt);

/* ---- ignore.c ---- */

/** Is a record of this kind about a path? Others keep an address or a name where candidates have their path. */
bool bjp_has_path(enum bjp_kind kind);
/** The list that could silence a record of this kind ("ignore.read"), or NULL. */
const char *bjp_ignore_list(enum bjp_kind kind);
bool bjp_is_ignored(const struct bjp_policy *policy, const struct bjp_settings *settings,
		    const struct bjp_candidate *candidate);

/* ---- judge.c and missing.c ---- */

/** A candidate that became a record, with what was found out about it. */
struct bjp_finding {
	const struct bjp_candidate *candidate;
	enum bjp_kind kind;
	struct bjp_evidence evidence;
	struct bj_str path; /* the spelling that the evidence has */
	struct bj_str near_miss;
	uint64_t count;
};

struct bjp_trial {
	struct bjp_collector *collector;
	const struct bjp_outcome *outcome;
	bjp_evidence_fn evidence;
	void *evidence_ctx;
	struct bj_arena *arena;	      /* the report's */
	struct bjp_finding *findings; /* heap, room for every candidate */
	size_t n_findings;
	const struct bjp_candidate **lost; /* heap, looked for and found nowhere */
	size_t n_lost;
	struct bj_str hints[BJP_MAX_HINTS];
	size_t n_hints;
	struct bjp_counters counters;
};

/** Copies the findings into @report; false without memory. */
BJ_MUST_USE bool bjp_report_fill(struct bjp_trial *trial, struct bjp_report *report);
struct bjp_evidence bjp_trial_ask(const struct bjp_trial *trial, struct bj_str path);
bool bjp_evidence_holds(const struct bjp_evidence *evidence);
/** Turns some of trial->lost into findings: what a command that failed may have missed. */
void bjp_missing_select(struct bjp_trial *trial);
/** "declare it …" for a record; a view in @arena or static. */
struct bj_str bjp_record_hint(const struct bjp_record *record, struct bj_arena *arena);

/** Source header by its name? It decides between hdrs and srcs. */
bool bjp_is_header(struct bj_str path);
bool bjp_is_source(struct bj_str path);

/** Where host names are asked for. */
enum { BJP_DNS_PORT = 53 };

#endif
