// SPDX-License-Identifier: Apache-2.0
/**
 * observer-harness.h - run a function in a child that is observed by this process, and keep what was handed on.
 * No jail is needed: the root is "/". Threads: one.
 */
#ifndef BJ_TESTS_UNIT_OBSERVER_HARNESS_H
#define BJ_TESTS_UNIT_OBSERVER_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/jail/observer.h"

/** One attempt, or one touch, with copies of its texts. */
struct seen_record {
	bool is_touch;
	enum bj_op op;
	enum bj_path_class cls;
	int error;
	bool is_dir;
	pid_t pid;
	int family;
	uint16_t port;
	char written[512], path[512], resolved[512], via[512], exe[256], argv0[128];
	char comm[17], address[64], syscall[32];
};

enum { MAX_SEEN = 4096 };

struct observed {
	enum bj_observe level; /* in */
	bool no_touched;       /* in: no hook for touches */
	uid_t uid;	       /* in: become this one first; 0: stay */
	int root_fd;	       /* in: 0: "/" */
	uint64_t stop_after;   /* in: so many notifications, and the supervisor ends; 0: never */
	int status;	       /* out: of wait */
	struct bj_observer_stats stats;
	size_t n_seen; /* may exceed MAX_SEEN: the rest was not kept */
	struct seen_record seen[MAX_SEEN];
};

/** Directories whose class is told; everything else is UNKNOWN. Set by the test: arrays that end with NULL. */
struct observed_classes {
	const char *const *declared, *const *toolchain, *const *quiet;
};
extern struct observed_classes observed_classes;

/**
 * observe() - fork, attach in the child, call @body there (its result is the exit status), supervise until all of it is dead.
 * Fails the test when that takes minutes.
 */
void observe(struct observed *o, int (*body)(void *arg), void *arg);

/** The next record after @from with this op (0: any) and path (NULL: any); -1 if there is none. */
ssize_t find_seen(const struct observed *o, size_t from, enum bj_op op, const char *path);
size_t count_seen(const struct observed *o, enum bj_op op, const char *path);
void print_seen(const struct observed *o);

/** Skips the test with a reason, or fails it when BJ_MUST_RUN is set. */
void skip_or_fail(const char *reason);

#endif
