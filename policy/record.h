// SPDX-License-Identifier: Apache-2.0
/**
 * policy/record.h - from attempts to violation records: collect, deduplicate, join with evidence, judge.
 * Pure: evidence about the host comes in through a callback. Owns: what it keeps, in its own arena. Threads: one owner.
 *
 * A probe is not a violation: an attempt on a path that exists nowhere is `absent`, counted. Evidence makes it a record:
 * the host has it, a deny anchor holds it, the client's workspace has it. Another action's tree is a hint, never a verdict.
 */
#ifndef BJP_RECORD_H
#define BJP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

enum bjp_kind { /* names in snake_case by bjp_kind_name(); values equal belljar.v1.Kind */
		BJP_READ_UNDECLARED = 1,
		BJP_EXEC_UNDECLARED,
		BJP_WRITE_UNDECLARED,
		BJP_WRITE_TO_INPUT,
		BJP_UNDECLARED_OUTPUT,
		BJP_MISSING_OUTPUT,
		BJP_NETWORK,
		BJP_UNIX_SOCKET,
		BJP_SYSTEM_INFO,
		BJP_SYSCALL,
		BJP_STRAY_PROCESS,
		BJP_RESOURCE,
		BJP_MISSING_CANDIDATE,
};
const char *bjp_kind_name(enum bjp_kind kind);

/** The part of an operation that matters for the verdict. */
enum bjp_access {
	BJP_ACCESS_READ = 1,
	BJP_ACCESS_STAT,
	BJP_ACCESS_EXEC,
	BJP_ACCESS_WRITE,
	BJP_ACCESS_CREATE,
	BJP_ACCESS_REMOVE,
	BJP_ACCESS_META
};

/** One attempt as the observer saw it; views are borrowed for the call. */
struct bjp_attempt {
	enum bjp_access access;
	const char *operation;	/* static: "open", "stat", "exec", "rename" … */
	struct bj_str written;	/* as the caller wrote it */
	struct bj_str path;	/* absolute, clean */
	struct bj_str resolved; /* where symlinks lead, absolute; may be empty */
	int error;		/* predicted errno, 0 success, -1 unknown */
	bool is_dir;
	int64_t pid;
	struct bj_str comm, exe, argv0;
	struct bj_str
		via; /* EXEC: the script or program whose interpreter or loader this is; may be empty */
	uint64_t time_ns; /* real time */
};

struct bjp_record {
	enum bjp_kind kind;
	const char *operation;
	struct bj_str path, resolved, written;
	enum bjp_zone zone;
	bool on_host, on_anchor, in_workspace, in_other_tree, enforced;
	struct bj_str nearest; /* relative to the input root, see bjp_nearest() */
	int error;
	int64_t pid;
	struct bj_str comm, exe, argv0;
	uint64_t count;
	uint64_t first_ns;
	struct bj_str address; /* network */
	uint16_t port;
	const char *ignore_list; /* "ignore.read", which list could silence it; NULL for none */
	struct bj_str hint;
	uint64_t size_bytes; /* undeclared_output */
	/*
	 * missing_output: the output as it was declared, and what was made instead, relative to the working directory like
	 * it (absolute if elsewhere), or empty. With wrong_kind: kinds of file, "file" and "directory".
	 */
	struct bj_str wanted, found;
	bool wrong_kind;
};

struct bjp_collector;
enum { BJP_MAX_CANDIDATES = 65536, BJP_MAX_RECORDS = 256 };

/** @policy and @settings are borrowed until bjp_collector_free(). */
BJ_MUST_USE int bjp_collector_new(const struct bjp_policy *policy,
				  const struct bjp_settings *settings,
				  struct bjp_collector **out_collector, struct bj_err *err);
void bjp_collector_free(struct bjp_collector *collector);

/**
 * bjp_collect() - Fast: two hash look-ups and no memory for what is known; deduplicates by (kind, path).
 * Beyond BJP_MAX_CANDIDATES or 48 MiB: counted as dropped.
 * Successful reads and execs are welcome too and never become records: they tell that a search ended well.
 * READ: open, readlink, chdir. STAT: stat, access. CREATE: creat, mkdir, mknod, symlink, the new name of rename and link.
 * WRITE: open for writing of what exists, truncate. REMOVE: unlink, rmdir, the old name of rename. META: chmod, chown, utime, xattr.
 * The operation names "rename", "link", "symlink", "mkdir", "mknod" (as prefixes) say that a last link is not followed, "utime" that
 * or "set times" that only times are touched.
 */
void bjp_collect(struct bjp_collector *collector, const struct bjp_attempt *attempt);
/**
 * bjp_collect_known() - a path that the observer asked about and that does not come as an attempt, because it is declared (INPUT:
 * the look-up finds it) or lies in a toolchain root (evidence says later whether it was found). Other classes are ignored.
 * Without it the steps of a search that ended well (gcc's include path) may be taken for missing_candidate when the action fails.
 */
void bjp_collect_known(struct bjp_collector *collector, struct bj_str path, enum bjp_class cls);
void bjp_collect_network(struct bjp_collector *collector, const struct bjp_attempt *attempt,
			 bool is_unix, struct bj_str address, uint16_t port);
void bjp_collect_syscall(struct bjp_collector *collector, const struct bjp_attempt *attempt,
			 const char *name);
/** Facts that are not attempts. Paths are absolute or relative to the input root; what is declared or noise is left out here. */
void bjp_collect_undeclared_output(struct bjp_collector *collector, struct bj_str path,
				   uint64_t size_bytes);
void bjp_collect_missing_output(struct bjp_collector *collector, struct bj_str path);
/** Something of another kind was made: @wanted, @found are "file", "directory", "fifo" … (static). Reported whatever the outcome. */
void bjp_collect_output_kind(struct bjp_collector *collector, struct bj_str path,
			     const char *wanted, const char *found);
void bjp_collect_stray(struct bjp_collector *collector, int64_t pid, struct bj_str comm,
		       struct bj_str argv0);
void bjp_collect_resource(struct bjp_collector *collector, const char *what, struct bj_str detail);

/** A sentence for an action that failed with nothing to show ("the interpreter X of Y is not an input"); at most 16. */
void bjp_collect_explainer(struct bjp_collector *collector, struct bj_str text);

/** Evidence about one path that did not exist inside. */
struct bjp_evidence {
	bool on_host;	   /* the same absolute path on the host: a non-directory */
	bool in_workspace; /* the path mapped onto a client's source tree: a non-directory */
	bool on_anchor;	   /* below a deny anchor of the operator */
	bool in_other_tree;
	bool is_dir; /* what was found is a directory: no evidence */
};
typedef struct bjp_evidence (*bjp_evidence_fn)(void *ctx, struct bj_str path);

struct bjp_outcome {
	bool failed;	    /* non-zero exit, signal, timeout */
	bool has_workspace; /* evidence can speak for the input root */
};

struct bjp_counters {
	uint64_t absent, ignored, noise, dropped, quiet_writes; /* attempts */
};

struct bjp_report {
	struct bjp_record *records; /* sorted: kind, zone, path; at most BJP_MAX_RECORDS */
	size_t n_records;
	struct bjp_counters counters;
	struct bj_str *hints; /* free text, explainers included */
	size_t n_hints;
	bool has_unignored; /* some record counts for onViolation=fail (not missing_output, resource, missing_candidate) */
	bool network_success; /* an attempt that got out: the result is not closed */
};

/**
 * bjp_judge() - the verdicts. Deterministic: the same attempts in any order of processes give the same records but for pid, time and counts.
 * @arena: the report's memory, which outlives the collector
 */
BJ_MUST_USE int bjp_judge(struct bjp_collector *collector, const struct bjp_outcome *outcome,
			  bjp_evidence_fn evidence, void *evidence_ctx, struct bj_arena *arena,
			  struct bjp_report *out_report, struct bj_err *err);

/**
 * bjp_summary_lines() - at most three lines for stderr, the same bytes for the same violations (no pid, no time): design §3.4.
 * Outputs that a failed command did not make are left to the report, unless it made something in their place.
 * @target: Bazel's label or empty; @action_short: first digits of the action digest for `belljar explain`
 */
struct bj_str bjp_summary_lines(const struct bjp_report *report, struct bj_str exec_root,
				struct bj_str target, struct bj_str action_short,
				struct bj_arena *arena);
/** One line for ExecuteResponse.message; empty when there is nothing to say. */
struct bj_str bjp_summary_message(const struct bjp_report *report, struct bj_str exec_root,
				  struct bj_arena *arena);

#endif
