// SPDX-License-Identifier: Apache-2.0
#include "executor/base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/str-internal.h"
#include "executor/base/str.h"

#define TEXT_MAX_BYTES ((size_t)4096)
#define PREFIX_MAX_BYTES ((size_t)96)

static const char *const level_names[] = {
	[BJ_LOG_DEBUG] = "debug",
	[BJ_LOG_INFO] = "info",
	[BJ_LOG_WARN] = "warn",
	[BJ_LOG_ERROR] = "error",
};

static _Atomic int min_level = BJ_LOG_INFO;

void bj_log_set_level(enum bj_log_level level)
{
	atomic_store(&min_level, (int)level);
}

bool bj_log_parse_level(const char *name, enum bj_log_level *out_level)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*out_level = (enum bj_log_level)i;
			return true;
		}
	}
	return false;
}

/* "2026-11-30T22:30:00.123Z info " */
static size_t put_prefix(char *out, enum bj_log_level level)
{
	uint64_t now_ns = bj_realtime_ns();
	time_t seconds = (time_t)(now_ns / BJ_NS_PER_SEC);
	uint64_t ms = now_ns % BJ_NS_PER_SEC / BJ_NS_PER_MS;
	struct tm tm;
	if (!gmtime_r(&seconds, &tm))
		memset(&tm, 0, sizeof(tm)); /* a year beyond int: the line matters more */
	int n = snprintf(out, PREFIX_MAX_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03" PRIu64 "Z %s ",
			 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
			 tm.tm_sec, ms, level_names[level]);
	return n > 0 ? BJ_MIN((size_t)n, PREFIX_MAX_BYTES - 1) : 0;
}

/* Copies @text with everything hidden escaped, at most TEXT_MAX_BYTES; returns the length. */
static size_t put_text(char *out, struct bj_str text)
{
	size_t at = 0;
	for (size_t in = 0; in < text.len;) {
		char shown[BJ_SHOWN_BYTES];
		size_t len;
		in += bj_str_show_char(bj_str_sub(text, in, text.len), shown, &len);
		if (len > TEXT_MAX_BYTES - at)
			break;
		memcpy(out + at, shown, len);
		at += len;
	}
	return at;
}

void bj_log(enum bj_log_level level, const char *fmt, ...)
{
	if ((int)level < atomic_load(&min_level))
		return;
	int saved_errno = errno; /* a log line between a call and the look at errno does no harm */

	char text[TEXT_MAX_BYTES + 1];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	size_t text_len = n < 0 ? 0 : BJ_MIN((size_t)n, sizeof(text) - 1);

	char line[PREFIX_MAX_BYTES + TEXT_MAX_BYTES + 1];
	size_t len = put_prefix(line, level);
	len += put_text(line + len, bj_str_n(text, text_len));
	line[len++] = '\n';

	ssize_t written;
	do {
		written = write(STDERR_FILENO, line, len);
	} while (written < 0 && errno == EINTR);
	errno = saved_errno;
}
