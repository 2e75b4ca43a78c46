// SPDX-License-Identifier: Apache-2.0
#include "executor/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Cuts the text to @len bytes and shows it by "..."; never in the middle of a UTF-8 sequence. */
static size_t cut_text(char *msg, size_t len)
{
	size_t keep = len - 3;
	while (keep > 0 && ((unsigned char)msg[keep] & 0xc0) == 0x80)
		keep--;
	memcpy(msg + keep, "...", 4);
	return keep + 3;
}

/* Formats into @msg of @cap bytes (the NUL included); returns the length of what stands there. */
static BJ_PRINTF(3, 0) size_t format_text(char *msg, size_t cap, const char *fmt, va_list ap)
{
	int n = vsnprintf(msg, cap, fmt, ap);
	if (n < 0) { /* only an invalid wide character could do this */
		msg[0] = '\0';
		return 0;
	}
	return (size_t)n < cap ? (size_t)n : cut_text(msg, cap - 1);
}

static void set_origin(struct bj_err *err, enum bj_code code, int sys_errno, const char *file,
		       int line)
{
	bj_assert(code != BJ_OK);
	bj_assert(!bj_err_is_set(err)); /* the first error wins; an overwrite is a bug */
	err->code = code;
	err->sys_errno = sys_errno;
	err->file = file;
	err->line = (uint32_t)line;
}

int bj_err_set_at(struct bj_err *err, enum bj_code code, int sys_errno, const char *file, int line,
		  const char *fmt, ...)
{
	set_origin(err, code, sys_errno, file, line);
	va_list ap;
	va_start(ap, fmt);
	format_text(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return -(int)code;
}

static enum bj_code code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
		return BJ_RESOURCE_EXHAUSTED;
	case EINTR:
	case ECANCELED:
		return BJ_CANCELLED;
	default:
		return BJ_INTERNAL;
	}
}

int bj_err_errno_at(struct bj_err *err, int errnum, const char *file, int line, const char *fmt,
		    ...)
{
	enum bj_code code = code_of_errno(errnum);
	set_origin(err, code, errnum, file, line);

	/* strerrordesc_np() is static text in every thread and locale, unlike strerror(). */
	char suffix[64];
	const char *desc = strerrordesc_np(errnum);
	if (desc)
		(void)snprintf(suffix, sizeof(suffix), ": %s", desc); /* glibc's are < 50 bytes */
	else
		(void)snprintf(suffix, sizeof(suffix), ": errno %d", errnum);

	/* The reason stays readable when the text is too long: the text is cut, not the reason. */
	size_t suffix_len = strlen(suffix);
	va_list ap;
	va_start(ap, fmt);
	size_t len = format_text(err->msg, sizeof(err->msg) - suffix_len, fmt, ap);
	va_end(ap);
	memcpy(err->msg + len, suffix, suffix_len + 1);
	return -(int)code;
}

int bj_err_wrap(struct bj_err *err, const char *fmt, ...)
{
	bj_assert(bj_err_is_set(err));

	char old[BJ_ERR_MSG_BYTES]; /* a copy also lets the arguments point into err->msg */
	size_t old_len = strlen(err->msg);
	memcpy(old, err->msg, old_len + 1);

	char context[BJ_ERR_MSG_BYTES];
	va_list ap;
	va_start(ap, fmt);
	size_t len = format_text(context, sizeof(context), fmt, ap);
	va_end(ap);
	memcpy(err->msg, context, len + 1);

	for (const char *p = ": "; *p && len < sizeof(err->msg) - 1; p++)
		err->msg[len++] = *p;
	size_t room = sizeof(err->msg) - 1 - len;
	size_t n = BJ_MIN(room, old_len);
	memcpy(err->msg + len, old, n);
	err->msg[len + n] = '\0';
	if (n < old_len)
		cut_text(err->msg, len + n);
	return -(int)err->code;
}

void bj_err_clear(struct bj_err *err)
{
	err->code = BJ_OK;
	err->sys_errno = 0;
	err->line = 0;
	err->file = NULL;
	err->msg[0] = '\0';
}

const char *bj_code_name(enum bj_code code)
{
	static const char *const names[] = {
		[BJ_OK] = "OK",
		[BJ_CANCELLED] = "CANCELLED",
		[BJ_UNKNOWN] = "UNKNOWN",
		[BJ_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
		[BJ_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
		[BJ_NOT_FOUND] = "NOT_FOUND",
		[BJ_ALREADY_EXISTS] = "ALREADY_EXISTS",
		[BJ_PERMISSION_DENIED] = "PERMISSION_DENIED",
		[BJ_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[BJ_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
		[BJ_ABORTED] = "ABORTED",
		[BJ_OUT_OF_RANGE] = "OUT_OF_RANGE",
		[BJ_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[BJ_INTERNAL] = "INTERNAL",
		[BJ_UNAVAILABLE] = "UNAVAILABLE",
		[BJ_DATA_LOSS] = "DATA_LOSS",
		[BJ_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};
	size_t i = (size_t)code;
	return i < BJ_ARRAY_LEN(names) ? names[i] : "UNKNOWN";
}
