// SPDX-License-Identifier: Apache-2.0
/*
 * The allocation is always cap + 1 bytes: the spare one is for bj_buf_cstr(), which can therefore not fail, not even
 * for a buffer that is filled to its limit.
 */
#include "executor/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "executor/base/alloc.h"

#define FIRST_CAP_BYTES ((size_t)256)

void bj_buf_deinit(struct bj_buf *buf)
{
	bj_free(buf->data);
	*buf = BJ_BUF_INIT(buf->max_bytes);
}

void bj_buf_clear(struct bj_buf *buf)
{
	buf->len = 0;
	buf->failed = false;
}

static bool refuse(struct bj_buf *buf)
{
	buf->failed = true;
	return false;
}

/* Makes room for @n_bytes more. */
static bool grow(struct bj_buf *buf, size_t n_bytes)
{
	if (buf->failed)
		return false;
	if (n_bytes > buf->max_bytes - buf->len)
		return refuse(buf);
	if (n_bytes <= buf->cap - buf->len)
		return true;

	size_t need = buf->len + n_bytes;
	size_t cap = BJ_MAX(bj_size_mul(buf->cap, 2), FIRST_CAP_BYTES);
	cap = BJ_MIN(BJ_MAX(cap, need), buf->max_bytes);
	char *data = bj_realloc(buf->data, bj_size_add(cap, 1));
	if (!data)
		return refuse(buf);
	buf->data = data;
	buf->cap = cap;
	return true;
}

bool bj_buf_append(struct bj_buf *buf, const void *data, size_t n_bytes)
{
	if (!grow(buf, n_bytes))
		return false;
	if (n_bytes)
		memcpy(buf->data + buf->len, data, n_bytes);
	buf->len += n_bytes;
	return true;
}

bool bj_buf_append_str(struct bj_buf *buf, struct bj_str s)
{
	return bj_buf_append(buf, s.ptr, s.len);
}

bool bj_buf_append_cstr(struct bj_buf *buf, const char *s)
{
	return bj_buf_append(buf, s, strlen(s));
}

bool bj_buf_append_char(struct bj_buf *buf, char c)
{
	return bj_buf_append(buf, &c, 1);
}

bool bj_buf_printf(struct bj_buf *buf, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return refuse(buf);
	if (!grow(buf, (size_t)n))
		return false;
	if (n == 0)
		return true;
	va_start(ap, fmt);
	(void)vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt,
			ap); /* the NUL has the spare byte */
	va_end(ap);
	buf->len += (size_t)n;
	return true;
}

char *bj_buf_reserve(struct bj_buf *buf, size_t n_bytes)
{
	static char
		nothing[1]; /* room for no bytes in a buffer that has none: nobody may write here */
	if (!grow(buf, n_bytes))
		return NULL;
	return buf->data ? buf->data + buf->len : nothing;
}

void bj_buf_commit(struct bj_buf *buf, size_t n_bytes)
{
	bj_assert(n_bytes <= buf->cap - buf->len);
	buf->len += n_bytes;
}

const char *bj_buf_cstr(struct bj_buf *buf)
{
	if (buf->failed || !buf->data)
		return "";
	buf->data[buf->len] = '\0';
	return buf->data;
}
