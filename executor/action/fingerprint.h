// SPDX-License-Identifier: Apache-2.0
/**
 * action/fingerprint.h - which toolchain an action saw: a hash over the toolchain roots, taken in the background.
 * An upgraded compiler must not be served the old one's objects, so cache entries carry it and miss when it differs.
 * Owns: one thread. Threads: bj_fingerprint_get() from any thread, without blocking.
 *
 * What is hashed: for every file below every root its path, type, mode, size, mtime and symlink text (not its bytes: 100,000 stats take a
 * second, reading takes minutes). The walk is repeated when a cheap probe (mtimes of the roots' upper directories, the package database)
 * changes, and every ten minutes.
 */
#ifndef BJ_ACTION_FINGERPRINT_H
#define BJ_ACTION_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/err.h"
#include "executor/base/str.h"

struct bj_fingerprint;
enum { BJ_FINGERPRINT_BYTES = 33 }; /* 32 hex digits and a NUL */

/** @roots: absolute paths, borrowed as long as the object lives; NUL-terminated. */
BJ_MUST_USE int bj_fingerprint_start(const struct bj_str *roots, size_t n_roots,
				     struct bj_fingerprint **out_fingerprint, struct bj_err *err);
void bj_fingerprint_stop(struct bj_fingerprint *fingerprint);
/** False while the first walk, or one after a change, is under way: older entries miss then, and new ones are not written. */
BJ_MUST_USE bool bj_fingerprint_get(struct bj_fingerprint *fingerprint,
				    char out[BJ_FINGERPRINT_BYTES]);
/** Waits until it is known, but not longer than @deadline_ns. Return: known. */
bool bj_fingerprint_wait(struct bj_fingerprint *fingerprint, uint64_t deadline_ns);

#endif
