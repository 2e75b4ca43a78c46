// SPDX-License-Identifier: Apache-2.0
/**
 * base/err.h - one error value: a google.rpc code, an errno, a place and a text.
 * Owns: nothing; the struct lives on the caller's stack and needs no cleanup.
 * Threads: an error belongs to one thread.
 *
 * The convention of every function that takes a `struct bj_err *err`:
 *   0   success, outputs set, err untouched
 *   <0  failure: the result is -(enum bj_code), err is set exactly once, outputs untouched;
 *       forwarded upwards, with bj_err_wrap() where context helps, and never matched except at a boundary
 *   >0  an outcome that the header documents: err untouched, handled by the direct caller, never forwarded
 */
#ifndef BJ_BASE_ERR_H
#define BJ_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "executor/base/macros.h"

/** Values equal google.rpc.Code, so that the RPC boundary is a cast. */
enum bj_code {
	BJ_OK = 0,
	BJ_CANCELLED = 1,
	BJ_UNKNOWN = 2,
	BJ_INVALID_ARGUMENT = 3,
	BJ_DEADLINE_EXCEEDED = 4,
	BJ_NOT_FOUND = 5,
	BJ_ALREADY_EXISTS = 6,
	BJ_PERMISSION_DENIED = 7,
	BJ_RESOURCE_EXHAUSTED = 8,
	BJ_FAILED_PRECONDITION = 9,
	BJ_ABORTED = 10,
	BJ_OUT_OF_RANGE = 11,
	BJ_UNIMPLEMENTED = 12,
	BJ_INTERNAL = 13,
	BJ_UNAVAILABLE = 14,
	BJ_DATA_LOSS = 15,
	BJ_UNAUTHENTICATED = 16,
};

enum { BJ_ERR_MSG_BYTES = 1024 };

struct bj_err {
	enum bj_code code; /* BJ_OK while unset */
	int sys_errno;	   /* 0 unless a system call was the origin */
	uint32_t line;	   /* where it was first set */
	const char *file;  /* static storage */
	char msg[BJ_ERR_MSG_BYTES]; /* NUL-terminated, cut with "..." when too long; valid UTF-8 is not promised */
};

#define BJ_ERR_NULL ((struct bj_err){ .code = BJ_OK })

static inline bool bj_err_is_set(const struct bj_err *err)
{
	return err->code != BJ_OK;
}

/** Every error is a negative result: said to the compiler and the analyzers, which do not look into another file. */
static inline int bj_err_negative(int result)
{
	if (result >= 0)
		__builtin_unreachable();
	return result;
}

/**
 * bj_err_set() - set an error at its origin.
 * @err: must be unset (asserted: the first error wins)
 * Return: -code, so that a caller can `return bj_err_set(...)`.
 */
#define bj_err_set(err, code, ...)                                                                 \
	bj_err_negative(bj_err_set_at((err), (code), 0, __FILE__, __LINE__, __VA_ARGS__))

/**
 * bj_err_errno() - set an error whose origin is a failed system call; ": <strerror>" is appended.
 * The code is chosen from the errno: ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE -> RESOURCE_EXHAUSTED;
 * EINTR, ECANCELED -> CANCELLED; everything else INTERNAL. Use bj_err_set_at() for another code.
 */
#define bj_err_errno(err, errnum, ...)                                                             \
	bj_err_negative(bj_err_errno_at((err), (errnum), __FILE__, __LINE__, __VA_ARGS__))

/** bj_err_wrap() - put "context: " before the text of an error that is set; returns its -code. */
int bj_err_wrap(struct bj_err *err, const char *fmt, ...) BJ_PRINTF(2, 3);

int bj_err_set_at(struct bj_err *err, enum bj_code code, int sys_errno, const char *file, int line,
		  const char *fmt, ...) BJ_PRINTF(6, 7);
int bj_err_errno_at(struct bj_err *err, int errnum, const char *file, int line, const char *fmt,
		    ...) BJ_PRINTF(5, 6);

/** Forgets an error that its caller has handled (a retry, an expected failure). */
void bj_err_clear(struct bj_err *err);

/** "INVALID_ARGUMENT" …; "CODE_<n>" never: unknown values give "UNKNOWN". Static storage. */
const char *bj_code_name(enum bj_code code);

#endif
