// SPDX-License-Identifier: Apache-2.0
/**
 * base/str.h - a borrowed view of bytes, and the few things we do with views.
 * Owns nothing: a bj_str borrows from an arena, a message or static storage, and its maker says for how long.
 * Not NUL-terminated; may hold any byte. Threads: any.
 */
#ifndef BJ_BASE_STR_H
#define BJ_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "executor/base/macros.h"

struct bj_arena;

struct bj_str {
	const char *ptr; /* may be NULL only when len is 0 */
	size_t len;	 /* bytes */
};

#define BJ_STR_NULL ((struct bj_str){ NULL, 0 })
/** A view of a string literal. */
#define BJ_STR_LIT(s) ((struct bj_str){ "" s, sizeof(s) - 1 })
/** For printf's "%.*s". */
#define BJ_STR_FMT(s) (int)(s).len, (s).len ? (s).ptr : ""

static inline struct bj_str bj_str_of(const char *cstr) /* NULL gives the empty view */
{
	return (struct bj_str){ cstr, cstr ? strlen(cstr) : 0 };
}

static inline struct bj_str bj_str_n(const void *ptr, size_t len)
{
	return (struct bj_str){ (const char *)ptr, len };
}

static inline bool bj_str_eq(struct bj_str a, struct bj_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool bj_str_has_prefix(struct bj_str s, struct bj_str prefix);
bool bj_str_has_suffix(struct bj_str s, struct bj_str suffix);
/** Bytewise order, a prefix before its extensions: <0, 0, >0. */
int bj_str_cmp(struct bj_str a, struct bj_str b);
/** Index of the first @c at or after @from, or s.len. */
size_t bj_str_find(struct bj_str s, char c, size_t from);
/** Bytes [from, to); both are clamped to the length. */
struct bj_str bj_str_sub(struct bj_str s, size_t from, size_t to);
/** Cuts off and returns what stands before the first @sep; *rest is what follows (empty, with ptr NULL, at the end). */
struct bj_str bj_str_cut(struct bj_str *rest, char sep);

/** True for well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF). NUL bytes are well-formed. */
bool bj_str_is_utf8(struct bj_str s);

/**
 * bj_str_to_u64() - strict decimal: digits only, no sign, no space, no leading zero but "0" itself, no overflow.
 * Return: true and *out_value set; false and *out_value untouched.
 */
BJ_MUST_USE bool bj_str_to_u64(struct bj_str s, uint64_t *out_value);
/** Strict decimal with an optional leading '-' (not "-0"). */
BJ_MUST_USE bool bj_str_to_i64(struct bj_str s, int64_t *out_value);

/** NUL-terminated copy in @arena; NULL when out of memory. Bytes after an embedded NUL are kept but C code will not see them. */
char *bj_str_dup(struct bj_arena *arena, struct bj_str s);

/**
 * bj_str_printable() - a copy that is safe to show: valid UTF-8 kept as it is, control characters, bidirectional
 * controls, DEL, backslash and invalid bytes as \n \t \\ or \xHH; cut at @max_bytes with "…" at the end.
 * Return: view in @arena (empty when out of memory).
 */
struct bj_str bj_str_printable(struct bj_arena *arena, struct bj_str s, size_t max_bytes);

#endif
