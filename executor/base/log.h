// SPDX-License-Identifier: Apache-2.0
/**
 * base/log.h - one line per event on stderr: `2026-11-30T22:30:00.123Z info room: event key=value`.
 * Libraries return errors; mains and top-level loops log them. Debug is free anywhere.
 * Threads: any; a line is written by one write(2), so lines do not mix. Control bytes in values are escaped.
 */
#ifndef BJ_BASE_LOG_H
#define BJ_BASE_LOG_H

#include <stdbool.h>

#include "executor/base/macros.h"

struct bj_err;

enum bj_log_level { BJ_LOG_DEBUG, BJ_LOG_INFO, BJ_LOG_WARN, BJ_LOG_ERROR };

/** Default BJ_LOG_INFO. Set once before threads start. */
void bj_log_set_level(enum bj_log_level level);
/** True and *out set for "debug", "info", "warn", "error". */
BJ_MUST_USE bool bj_log_parse_level(const char *name, enum bj_log_level *out_level);

#define bj_debug(...) bj_log(BJ_LOG_DEBUG, __VA_ARGS__)
#define bj_info(...) bj_log(BJ_LOG_INFO, __VA_ARGS__)
#define bj_warn(...) bj_log(BJ_LOG_WARN, __VA_ARGS__)
#define bj_error(...) bj_log(BJ_LOG_ERROR, __VA_ARGS__)

/** @fmt: "room: event key=%s …". Text beyond 4 KiB is cut. */
void bj_log(enum bj_log_level level, const char *fmt, ...) BJ_PRINTF(2, 3);

#endif
