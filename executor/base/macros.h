// SPDX-License-Identifier: Apache-2.0
/**
 * base/macros.h - attributes, cleanup and assertion macros that every room uses.
 * Owns nothing. Threads: any.
 */
#ifndef BJ_BASE_MACROS_H
#define BJ_BASE_MACROS_H

#include <stddef.h>
#include <stdint.h>

/** The result must be looked at; an ignored one is written BJ_IGNORE(f(x)) with a reason. */
#define BJ_MUST_USE __attribute__((warn_unused_result))
/** gcc does not take a cast to void for looking at the result. */
#define BJ_IGNORE(expr)                                                                            \
	do {                                                                                       \
		__typeof__(expr) bj_ignored_ = (expr);                                             \
		(void)bj_ignored_;                                                                 \
	} while (0)
/** printf-like: @fmt and @first are 1-based parameter positions. */
#define BJ_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define BJ_NORETURN __attribute__((noreturn))
#define BJ_UNUSED __attribute__((unused))

/** A local that owns: `bj_cleanup(bj_close_fdp) int fd = -EBADF;` runs the function at scope end. */
#define bj_cleanup(fn) __attribute__((cleanup(fn)))

/** Hands over a pointer: yields the old value and leaves NULL, so that the cleanup does nothing. */
#define BJ_STEAL_PTR(p)                                                                            \
	({                                                                                         \
		__typeof__(p) *bj_steal_ = &(p);                                                   \
		__typeof__(p) bj_stolen_ = *bj_steal_;                                             \
		*bj_steal_ = NULL;                                                                 \
		bj_stolen_;                                                                        \
	})

/** Hands over a file descriptor: yields the old value and leaves -EBADF. */
#define BJ_STEAL_FD(fd)                                                                            \
	({                                                                                         \
		int *bj_steal_ = &(fd);                                                            \
		int bj_stolen_ = *bj_steal_;                                                       \
		*bj_steal_ = -9 /* EBADF */;                                                       \
		bj_stolen_;                                                                        \
	})

#define BJ_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define BJ_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define BJ_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BJ_MAX(a, b) ((a) > (b) ? (a) : (b))

/** Always on, release builds included: a broken invariant prints the place and aborts. */
#define bj_assert(cond)                                                                            \
	((cond) ? (void)0 : bj_assert_failed(#cond, __FILE__, (uint32_t)__LINE__, __func__))

BJ_NORETURN void bj_assert_failed(const char *cond, const char *file, uint32_t line,
				  const char *func);

/** Saturating size arithmetic: overflow gives SIZE_MAX, which no allocator grants. */
static inline size_t bj_size_add(size_t a, size_t b)
{
	size_t r;
	return __builtin_add_overflow(a, b, &r) ? SIZE_MAX : r;
}

static inline size_t bj_size_mul(size_t a, size_t b)
{
	size_t r;
	return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

/** Cleanup functions for the common owners; each accepts the "nothing held" value. */
void bj_freep(void *pp);    /* void **: free(*pp), sets NULL */
void bj_close_fdp(int *fd); /* closes if >= 0, keeps errno, sets -EBADF */

#endif
