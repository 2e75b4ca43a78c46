// SPDX-License-Identifier: Apache-2.0
/**
 * base/buf.h - owned, growable bytes with a hard limit.
 * Owns: data. Threads: one owner.
 * Invariant: len <= cap <= max_bytes; cap + 1 bytes are allocated. Growth doubles. Once an append fails, `failed` stays set and later appends do
 * nothing, so that a chain of appends needs one check at the end.
 */
#ifndef BJ_BASE_BUF_H
#define BJ_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/macros.h"
#include "executor/base/str.h"

struct bj_buf {
	char *data;	  /* NULL while cap is 0 */
	size_t len;	  /* bytes used */
	size_t cap;	  /* bytes allocated */
	size_t max_bytes; /* hard limit */
	bool failed;	  /* an append was refused: out of memory or above max_bytes */
};

#define BJ_BUF_INIT(max) ((struct bj_buf){ NULL, 0, 0, (max), false })

void bj_buf_deinit(struct bj_buf *buf); /* frees; leaves an empty buffer with the same limit */
void bj_buf_clear(struct bj_buf *buf);	/* keeps the memory */

/** @data must not lie in @buf itself: growth moves it. */
bool bj_buf_append(struct bj_buf *buf, const void *data, size_t n_bytes);
bool bj_buf_append_str(struct bj_buf *buf, struct bj_str s);
bool bj_buf_append_cstr(struct bj_buf *buf, const char *s);
bool bj_buf_append_char(struct bj_buf *buf, char c);
bool bj_buf_printf(struct bj_buf *buf, const char *fmt, ...) BJ_PRINTF(2, 3);
/** Room for @n_bytes at the end, to be counted in with bj_buf_commit(); NULL when refused. */
char *bj_buf_reserve(struct bj_buf *buf, size_t n_bytes);
void bj_buf_commit(struct bj_buf *buf, size_t n_bytes);

static inline struct bj_str bj_buf_str(const struct bj_buf *buf)
{
	return bj_str_n(buf->data, buf->len);
}

/** NUL-terminates (the NUL is not counted) and returns data; "" for an empty or failed buffer. Valid until the next change. */
const char *bj_buf_cstr(struct bj_buf *buf);

#endif
