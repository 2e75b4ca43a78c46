// SPDX-License-Identifier: Apache-2.0
/**
 * cli/explain-internal.h - from the server's reports to what `belljar explain` prints.
 * Owns: nothing; everything borrows from the reply's arena. Threads: one.
 * Strings come from the server, which had them from actions and clients: nothing here trusts them.
 */
#ifndef BJ_CLI_EXPLAIN_INTERNAL_H
#define BJ_CLI_EXPLAIN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "belljar/v1/explain.pb-c.h"
#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/str.h"

/** Reports in the order in which they are shown: by target, the targets and the actions of each newest last. */
struct bj_explained {
	const Belljar__V1__StoredReport **reports; /* each with a report inside */
	size_t n;
	size_t n_violations;
};

enum { BJ_EXPLAIN_TEXT_MAX_BYTES = 64 << 20 };

/**
 * bj_explain_order() - @reply is newest first. Of reports of one action and target only the newest stays, unless @keep_all.
 * Return: false without memory.
 */
BJ_MUST_USE bool bj_explain_order(const Belljar__V1__ListReportsResponse *reply, bool keep_all,
				  struct bj_arena *arena, struct bj_explained *out_explained);

/** Text for people; @colour adds terminal sequences. False: @out's limit or memory ran out. */
BJ_MUST_USE bool bj_explain_text(const struct bj_explained *explained, bool colour,
				 struct bj_arena *arena, struct bj_buf *out);
/** An array with one object a record; an action without any has one object whose kind is null. */
BJ_MUST_USE bool bj_explain_json(const struct bj_explained *explained, struct bj_arena *arena,
				 struct bj_buf *out);

/** "read_undeclared"; "kind_99" for one that a newer server knows. */
const char *bj_explain_kind(const Belljar__V1__Violation *v, struct bj_arena *arena);
/** "input_root" …, "" for none or unknown. */
const char *bj_explain_zone(const Belljar__V1__Violation *v);

/** The violation in one sentence, and what to do about it (may be empty): the words of the policy, as on the action's stderr. */
struct bj_sentence {
	struct bj_str what, fix;
};
struct bj_sentence bj_explain_sentence(const Belljar__V1__SandboxReport *report,
				       const Belljar__V1__Violation *v, struct bj_arena *arena);

#endif
