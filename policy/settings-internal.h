// SPDX-License-Identifier: Apache-2.0
/**
 * policy/settings-internal.h - the table of platform properties that an action may carry.
 * Threads: any; the tables are constant.
 */
#ifndef BJP_SETTINGS_INTERNAL_H
#define BJP_SETTINGS_INTERNAL_H

#include "policy/policy.h"

/** What a property means here. */
enum bjp_prop_rule {
	BJP_PROP_WRITE, /* the first six set something */
	BJP_PROP_OBSERVE,
	BJP_PROP_ON_VIOLATION,
	BJP_PROP_IGNORE_READ,
	BJP_PROP_IGNORE_WRITE,
	BJP_PROP_IGNORE_NETWORK,
	BJP_PROP_BOOL,	/* "true" or "false"; only `accepts` can be given */
	BJP_PROP_WORD,	/* a word or a list; only `accepts` can be given */
	BJP_PROP_PLACE, /* chooses among machines or caches: one machine fits every value */
};

struct bjp_prop {
	const char *name;
	enum bjp_prop_rule rule;
	const char *
		accepts; /* BOOL, WORD: by comma, letter case ignored; an empty entry accepts the empty value */
	const char *why; /* completes "…: " when a value is refused */
};

/** Ours, "sandbox.…", first; then what other executors have taught clients to send. */
extern const struct bjp_prop bjp_props[];
extern const size_t bjp_n_props;

const struct bjp_prop *bjp_prop_find(struct bj_str name);
/** The known name that is a slip of the finger away, or NULL. */
const char *bjp_prop_near(struct bj_str name);
/** Is @value an entry of the comma list @list? */
bool bjp_word_in(struct bj_str value, const char *list);

#endif
