// SPDX-License-Identifier: Apache-2.0
/**
 * policy/collect-internal.h - how attempts and facts get into the collector's table.
 * Threads: the collector's owner.
 */
#ifndef BJP_COLLECT_INTERNAL_H
#define BJP_COLLECT_INTERNAL_H

#include "policy/record-internal.h"

/** The candidate of (kind, path), made when new (then *out_new). NULL: no room; it is counted as dropped. */
struct bjp_candidate *bjp_candidate_at(struct bjp_collector *collector, enum bjp_kind kind,
				       struct bj_str path, bool *out_new);
/** Copies @s into *kept unless it says that already; left empty without memory. */
void bjp_keep(struct bjp_collector *collector, struct bj_str *kept, struct bj_str s);

#endif
