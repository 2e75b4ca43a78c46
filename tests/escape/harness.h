// SPDX-License-Identifier: Apache-2.0
/**
 * tests/escape/harness.h - one slot, and actions in it, driven through jail.h alone.
 * Used by the escape driver and by the bench of the jail.
 */
#ifndef BJ_TESTS_ESCAPE_HARNESS_H
#define BJ_TESTS_ESCAPE_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/base/buf.h"
#include "executor/jail/jail.h"

/** A machine that is ready for actions: the work area and what the roots are. One per process. */
struct host {
	const char *jail_binary;
	const char *probe; /* path of the probe on the host */
	char work_dir[256];
	enum bj_jail_profile profile;
	struct bj_arena arena;
	struct bj_jail_slot_spec slot; /* template: each slot sets its own ids */
};
/** Ends the process with a text when the host cannot be had. */
void host_enter(struct host *host, const char *jail_binary, const char *probe, const char *work_dir,
		uint64_t work_bytes);

struct slot {
	struct host *host;
	struct bj_jail *jail;
	unsigned number; /* from 1; decides the ids */
	unsigned n_actions;
};
void slot_start(struct slot *slot, struct host *host, unsigned number);
void slot_stop(struct slot *slot);

enum { MAX_ARGS = 16, MAX_INPUTS = 8 };

/** An input file; path below the input root; the probe itself is always there as "probe". */
struct input {
	const char *path, *content;
	bool executable;
};

struct action {
	const char *argv[MAX_ARGS]; /* ends with NULL */
	const char *env[MAX_ARGS];  /* NULL: only PATH */
	const char *cwd;	    /* NULL: /exec */
	struct input inputs[MAX_INPUTS];
	const char *dirs[MAX_INPUTS]; /* empty directories of the tree */
	const char *writable[MAX_INPUTS];
	bool strict;
	enum bj_observe observe;
	uint64_t timeout_ms; /* 0: none */
	int cancel_fd;	     /* 0: none */
	bool keep;	     /* leave the directories for a look */
};

struct outcome {
	int code; /* of bj_jail_run */
	struct bj_err err;
	struct bj_jail_result result;
	struct bj_buf out, errs;
	uint64_t took_ns; /* the whole bj_jail_run */
	char dir[320];	  /* the action's directory on the host: lower, upper, … */
};

/** Lays out, runs, removes. The outcome is to be freed. */
void action_run(struct slot *slot, const struct action *action, struct outcome *out);
void outcome_free(struct outcome *out);

/** Lay-out and removal alone, for those who time the rest. */
void action_lay_out(struct slot *slot, const struct action *action, char *out_dir, size_t cap);
void action_remove(const char *dir);
/** The run alone; @dir from action_lay_out(). */
void action_execute(struct slot *slot, const struct action *action, const char *dir,
		    struct outcome *out);

#endif
