// SPDX-License-Identifier: Apache-2.0
/**
 * cli/probe-internal.h - what `belljar probe` finds out, and how it is printed.
 * Threads: one.
 */
#ifndef BJ_CLI_PROBE_INTERNAL_H
#define BJ_CLI_PROBE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/base/str.h"
#include "executor/jail/jail.h"

/** How far one profile came. Crosses a pipe between two of our processes, so there is no pointer in it. */
struct bj_probe_profile {
	char name[16];
	bool was_tried;	   /* else `text` says why not */
	bool has_walls;	   /* a jailed command ran and ended with 0 */
	bool has_observer; /* and again, watched at the default level, with nothing lost */
	struct bj_jail_failure
		failure; /* of the first step that failed; step is "" when none is known */
	char text[BJ_ERR_MSG_BYTES]; /* the same in words; "" when all went well */
};

enum { BJ_PROBE_PROFILES = 2, BJ_PROBE_MAX_LEAVING = 64 };

/** A symbolic link below a root that leads to something which exists on the host and which no action sees. */
struct bj_probe_link {
	struct bj_str path, leads_to;
};

struct bj_probe {
	struct bj_probe_profile profiles[BJ_PROBE_PROFILES];
	struct bj_jail_slot_spec roots;
	struct bj_probe_link leaving[BJ_PROBE_MAX_LEAVING];
	size_t n_leaving; /* all of them; the array holds the first ones */
};

/** Walls and observer of at least one profile. */
bool bj_probe_works(const struct bj_probe *probe);

/** Fills probe->leaving from probe->roots. A look at every file below them: about a second. */
BJ_MUST_USE int bj_probe_look_at_roots(struct bj_probe *probe, struct bj_arena *arena,
				       struct bj_err *err);

void bj_probe_print_text(const struct bj_probe *probe, FILE *out);
/** False when @out ran out. */
BJ_MUST_USE bool bj_probe_print_json(const struct bj_probe *probe, struct bj_buf *out);

#endif
