// SPDX-License-Identifier: Apache-2.0
/**
 * policy/policy.h - what an action may touch, derived from what it declares. Pure: no I/O, no clock, no threads.
 * Owns: nothing; everything lives in the arena that the caller gives. Depends on executor/base only.
 * Threads: a policy is immutable once derived, so it may be shared for reading.
 *
 * Three baselines (never hand-written):
 *   allowRead   every path of the input tree, the operator's toolchain roots, private /tmp, /dev, /proc
 *   allowWrite  declared outputs, the directories that hold them, /tmp, /dev/shm, the scratch that the environment names
 *   denyRead    everything else: it does not exist inside
 * Paths match on whole components ("/a" is not above "/ab"); deny beats allow; the order of rules never matters.
 * All paths are as seen inside the jail: absolute, the input root at `exec_root`.
 */
#ifndef BJP_POLICY_H
#define BJP_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/str.h"

/* ---- vocabulary: one set of names for properties, config, hints and reports (design §3.1) ---- */

enum bjp_write_mode { BJP_WRITE_SCRATCH, BJP_WRITE_STRICT };
enum bjp_observe { BJP_OBSERVE_OFF, BJP_OBSERVE_WRITES, BJP_OBSERVE_DEFAULT, BJP_OBSERVE_STRICT };
enum bjp_on_violation { BJP_ON_VIOLATION_REPORT, BJP_ON_VIOLATION_FAIL, BJP_ON_VIOLATION_OFF };

/** What one action asks for, or what the operator set as defaults. */
struct bjp_settings {
	enum bjp_write_mode write;
	enum bjp_observe observe;
	enum bjp_on_violation on_violation;
	struct bj_str *
		ignore_read; /* patterns: globs on paths inside, a final `**` component covers its directory too */
	size_t n_ignore_read;
	struct bj_str *ignore_write;
	size_t n_ignore_write;
	struct bj_str
		*ignore_network; /* "ADDRESS", "ADDRESS:PORT", "[ADDRESS]:PORT", "*:PORT", "*" */
	size_t n_ignore_network;
};
/** scratch, default, report, nothing ignored. */
struct bjp_settings bjp_settings_default(void);

/** What the operator lets an action ask for. */
struct bjp_bounds {
	enum bjp_observe min_observe; /* an action may not be observed less */
	bool may_ignore;	      /* actions may extend the ignore lists */
	enum bjp_on_violation
		min_on_violation; /* FAIL here means that an action cannot relax to report */
};

struct bjp_property {
	struct bj_str name, value;
};

/**
 * bjp_settings_apply() - apply an action's platform properties on top of the operator's settings.
 * Known: sandbox.write, sandbox.observe, sandbox.onViolation, sandbox.ignore.{read,write,network} (lists by comma or repetition),
 * sandbox.allow.* and the rest of design §3.1 (refused with a clear text when this build cannot give them: never silently weaker),
 * OSFamily=linux, ISA=x86-64|…, container-image (empty only), dockerNetwork=off, network=none|off, block-network, Pool … as a table.
 * Return: 0; -INVALID_ARGUMENT (malformed value: names property, value and the values it knows);
 * -FAILED_PRECONDITION (beyond a bound, not available here, or an unknown property: names it and the known ones).
 */
BJ_MUST_USE int bjp_settings_apply(struct bjp_settings *settings, const struct bjp_bounds *bounds,
				   const struct bjp_property *props, size_t n_props,
				   struct bj_arena *arena, struct bj_err *err);

const char *bjp_write_mode_name(enum bjp_write_mode mode);
const char *bjp_observe_name(enum bjp_observe level);
const char *bjp_on_violation_name(enum bjp_on_violation mode);
/** True and *out set for the exact names; false and untouched otherwise. */
BJ_MUST_USE bool bjp_write_mode_parse(struct bj_str name, enum bjp_write_mode *out_mode);
BJ_MUST_USE bool bjp_observe_parse(struct bj_str name, enum bjp_observe *out_level);
BJ_MUST_USE bool bjp_on_violation_parse(struct bj_str name, enum bjp_on_violation *out_mode);

/* ---- paths ---- */

/**
 * bjp_path_clean() - absolute and lexically normal: "//", "." removed, ".." resolved (never above "/").
 * @base: absolute directory for a relative @path. Empty @path gives @base. Return: view in @arena; ptr NULL without memory.
 */
struct bj_str bjp_path_clean(struct bj_arena *arena, struct bj_str base, struct bj_str path);
/** True when @path is @top or below it, by whole components. "/" is above everything. */
bool bjp_path_is_below(struct bj_str path, struct bj_str top);
/** Glob on a whole path: `*` and `?` within a component, `**` across, [sets], backslash quotes; a final `**` component matches its directory too. */
bool bjp_glob_match(struct bj_str pattern, struct bj_str path);
/** Return: 0 or -INVALID_ARGUMENT naming the pattern and the offset. */
BJ_MUST_USE int bjp_glob_check(struct bj_str pattern, struct bj_err *err);
/**
 * Output path rules of REAPI: relative, no empty component, no trailing '/', no "." or ".." component that leaves the input root
 * (".." is refused altogether), "" only where allowed.
 * @what: "output_paths[3]" for the text
 */
BJ_MUST_USE int bjp_output_path_check(struct bj_str path, const char *what, struct bj_err *err);

/* ---- derivation ---- */

enum bjp_node_kind { BJP_NODE_DIR, BJP_NODE_FILE, BJP_NODE_SYMLINK };
struct bjp_node {
	struct bj_str path; /* relative to the input root */
	enum bjp_node_kind kind;
	struct bj_str target; /* SYMLINK */
};

struct bjp_declared {
	struct bj_str exec_root;       /* "/exec" */
	struct bj_str working_dir;     /* relative to it; may be empty */
	const struct bjp_node *inputs; /* borrowed for the policy's life */
	size_t n_inputs;
	const struct bj_str
		*outputs; /* relative to working_dir, passed by bjp_output_path_check() */
	size_t n_outputs;
	const struct bj_str *env_names, *env_values; /* n_env each */
	size_t n_env;
	const struct bj_str *roots; /* toolchain roots, absolute; single files and links too */
	size_t n_roots;
};

struct bjp_policy; /* opaque, in the arena; borrows @declared's strings and the lists of @settings */
/**
 * bjp_derive() - Return: 0; -INVALID_ARGUMENT: declarations that contradict each other (a path that is file and directory, an output
 * below an input file) or a path that is not clean; -RESOURCE_EXHAUSTED.
 */
BJ_MUST_USE int bjp_derive(const struct bjp_declared *declared, const struct bjp_settings *settings,
			   struct bj_arena *arena, struct bjp_policy **out_policy,
			   struct bj_err *err);

enum bjp_zone { BJP_ZONE_INPUT_ROOT = 1, BJP_ZONE_TOOLCHAIN, BJP_ZONE_HOST, BJP_ZONE_SYSTEM };
const char *bjp_zone_name(enum bjp_zone zone); /* "input_root" … */

enum bjp_class {
	BJP_UNDECLARED = 0,
	BJP_INPUT, /* a declared file, symlink or directory (the input root itself and every parent included) */
	BJP_OUTPUT,	 /* a declared output or below a declared output */
	BJP_OUTPUT_DIR,	 /* a directory that holds an output, not itself an input */
	BJP_ENV_SCRATCH, /* below a scratch path that the environment names */
	BJP_TOOLCHAIN,
	BJP_SYSTEM, /* /tmp, /dev, /proc */
};
/** Constant-time hash look-up for inputs; @path absolute and clean. */
enum bjp_class bjp_classify(const struct bjp_policy *policy, struct bj_str path);
enum bjp_zone bjp_zone(const struct bjp_policy *policy, struct bj_str path);
bool bjp_may_write(const struct bjp_policy *policy, struct bj_str path);
/** Follows declared symlinks lexically (at most 40); gives the path that the caller's open would end at. */
struct bj_str bjp_resolve_declared(const struct bjp_policy *policy, struct bj_arena *arena,
				   struct bj_str path);
/**
 * The declared input nearest to @path ("did you mean"): same base name, else same directory with a name that has something in common;
 * empty when none is near. Relative to the input root, as the input is declared.
 */
struct bj_str bjp_nearest(const struct bjp_policy *policy, struct bj_str path);
/**
 * Directories (relative to the input root, "" left out) that must exist before the command runs: those right above an output.
 * Sorted, unique; those above them are not listed.
 */
void bjp_output_parents(const struct bjp_policy *policy, const struct bj_str **out_dirs,
			size_t *out_n);
/**
 * The directories that must stay writable in strict mode (relative to the input root, "." for all of it), each to be made before the
 * run: those right above outputs, and the scratch that the environment names, or, for a variable that names a file, the directory
 * above it. None lies below another. Sorted, unique.
 */
void bjp_writable_dirs(const struct bjp_policy *policy, const struct bj_str **out_dirs,
		       size_t *out_n);
/** Text form, sorted, deterministic: what `policy show` prints and what the policy digest is taken over. */
struct bj_str bjp_policy_text(const struct bjp_policy *policy, struct bj_arena *arena);

#endif
