// SPDX-License-Identifier: Apache-2.0
/**
 * action/cache.h - the action cache: results with their origin, served only while they are complete.
 * Owns nothing: entries are the store's. Threads: any; blocks on disk.
 * Spec: REAPI v2, service ActionCache: "…the server … SHOULD … ensure that all referenced blobs are available at the time of returning".
 */
#ifndef BJ_ACTION_CACHE_H
#define BJ_ACTION_CACHE_H

#include <stdbool.h>

#include "executor/cas/reapi.h"
#include "executor/cas/store.h"

enum bj_cache_origin { BJ_CACHE_EXECUTED = 1, BJ_CACHE_UPLOADED = 2 };

struct bj_cache_entry {
	re_action_result *result;
	enum bj_cache_origin origin;
	struct bj_str fingerprint;
	bool counts_as_violation; /* a record of it fails the action under onViolation=fail */
	struct bj_str message;	  /* the line that says which; UTF-8 */
};

enum { BJ_CACHE_E_MISS = 1 };

/** @entry->result is packed; an all-default result is refused (-INVALID_ARGUMENT: it would read as no entry). */
BJ_MUST_USE int bj_cache_put(struct bj_store *store, struct bj_str instance,
			     const struct bj_digest *action, const struct bj_cache_entry *entry,
			     struct bj_arena *arena, struct bj_err *err);
/** An entry whose blobs are not all there, or that is damaged, is a miss. */
BJ_MUST_USE int bj_cache_get(struct bj_store *store, struct bj_str instance,
			     const struct bj_digest *action, struct bj_arena *arena,
			     struct bj_cache_entry *out_entry, struct bj_err *err);
/**
 * bj_result_check() - every path of a result as an output path may be, every digest well-formed and, unless @complete is NULL, its blob
 * present, those inside Trees and below root directories included. Memory for that is its own.
 * Return: 0 with *complete; -INVALID_ARGUMENT naming the field.
 */
BJ_MUST_USE int bj_result_check(struct bj_store *store, enum bj_digest_fn fn,
				const re_action_result *result, bool *complete, struct bj_err *err);

#endif
