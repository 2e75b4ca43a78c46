// SPDX-License-Identifier: Apache-2.0
/**
 * policy/policy-internal.h - what a derived policy is made of; shared by the files of this room only.
 * Threads: as policy.h.
 */
#ifndef BJP_POLICY_INTERNAL_H
#define BJP_POLICY_INTERNAL_H

#include "executor/base/buf.h"
#include "policy/policy.h"

enum {
	BJP_PATH_BYTES = 4096,	 /* longest path that a system call takes, NUL included */
	BJP_NAME_BYTES = 255,	 /* longest component */
	BJP_MAX_LINKS = 40,	 /* symlinks that one look-up follows, as in the kernel */
	BJP_PATTERN_BYTES = 1024 /* longest glob */
};

/** What is known about one path below the input root. */
enum bjp_flag {
	BJP_F_INPUT = 1 << 0,  /* declared, or a directory above something declared */
	BJP_F_OUTPUT = 1 << 1, /* declared output: it and all below */
	BJP_F_HOLDS_OUTPUT =
		1 << 2, /* the directory right above an output: it and all below may be written */
	BJP_F_ABOVE_OUTPUT = 1 << 3, /* any directory above an output */
	BJP_F_SCRATCH = 1 << 4,	     /* named by the environment: it and all below */
	BJP_F_WRITABLE =
		1
		<< 6, /* strict mode leaves it writable: holds an output, or is scratch or holds some */
	BJP_F_ABOVE_SCRATCH = 1 << 5, /* any directory above such a path */
};

struct bjp_entry {
	struct bj_str path;	 /* relative to the input root; "" is the root itself */
	struct bj_str target;	 /* symlinks */
	enum bjp_node_kind kind; /* meaningful with BJP_F_INPUT */
	unsigned flags;
};

/** Open addressing over entries; lives in an arena, so that a policy needs no destructor (base/map.h is on the heap). */
struct bjp_slot {
	uint32_t tag;	/* upper half of the hash */
	uint32_t entry; /* index + 1; 0 is free */
};
struct bjp_index {
	struct bjp_slot *slots; /* n_slots, a power of two, at most half full */
	size_t n_slots;
	struct bjp_entry *entries;
	size_t n_entries;
};

BJ_MUST_USE bool bjp_index_init(struct bjp_index *index, size_t n_expected, struct bj_arena *arena);
const struct bjp_entry *bjp_index_get(const struct bjp_index *index, struct bj_str path);
/** The entry of @path, made with no flags when new. NULL without memory. Valid until the next call. */
struct bjp_entry *bjp_index_at(struct bjp_index *index, struct bj_str path, struct bj_arena *arena);

struct bjp_top {
	struct bj_str path; /* absolute, clean */
	enum bjp_zone zone; /* TOOLCHAIN or SYSTEM */
	bool exact;	    /* the path alone, not what is below: directories above a mount */
};

struct bjp_policy {
	struct bj_str exec_root;
	struct bj_str working_dir; /* absolute */
	struct bjp_settings settings;
	struct bjp_index index;
	size_t n_symlinks;
	bool inputs_below_outputs; /* some output is a directory of the input tree */
	struct bjp_top *tops;	   /* sorted by path */
	size_t n_tops;
	struct bj_str *scratch; /* absolute, sorted; /tmp and /dev/shm not among them */
	size_t n_scratch;
	struct bj_str *output_parents; /* relative, sorted, without "" */
	size_t n_output_parents;
	struct bj_str *writable; /* what strict mode leaves writable: relative, sorted */
	size_t n_writable;
	struct bj_str *outputs; /* relative, sorted, unique */
	size_t n_outputs;
};

/** True, and *out_rel is what follows the input root ("" for the root itself). */
bool bjp_relative(const struct bjp_policy *policy, struct bj_str path, struct bj_str *out_rel);
/** The flags of @rel and of the directories above it, those in @wanted only. */
unsigned bjp_flags_above(const struct bjp_policy *policy, struct bj_str rel, unsigned wanted);
/** Everything before the last '/', or "" when there is none. */
struct bj_str bjp_dirname(struct bj_str path);
/** Everything behind the last '/'. */
struct bj_str bjp_basename(struct bj_str path);

/** Where a walk ends; views into @walk or the path given. */
struct bjp_walk {
	char done[BJP_PATH_BYTES];
	char todo[BJP_PATH_BYTES];
	size_t done_len, todo_len;
	unsigned n_links;
};
/**
 * bjp_walk() - follow declared symlinks as the kernel would.
 * @follow_last: false leaves a link in the last place alone (unlink, rename, lstat)
 * Return: a view of @walk, or @path itself when nothing is to be followed or the walk does not end.
 */
struct bj_str bjp_walk(const struct bjp_policy *policy, struct bj_str path, bool follow_last,
		       struct bjp_walk *walk);

const struct bjp_entry *bjp_entry_of(const struct bjp_policy *policy, struct bj_str path);

/** Sorts by bytes and drops doubles; returns the new count. */
size_t bjp_sort_unique(struct bj_str *strs, size_t n);
/** "text" with what could harm a terminal or a log replaced; for messages. Never NULL. */
const char *bjp_quote(struct bj_arena *arena, struct bj_str s);
/** Bytewise, ASCII letters folded. */
bool bjp_str_case_eq(struct bj_str a, struct bj_str b);
/** A view of @s behind @prefix, when it has it. */
bool bjp_str_cut_prefix(struct bj_str *s, struct bj_str prefix);

#endif
