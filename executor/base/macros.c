// SPDX-License-Identifier: Apache-2.0
#include "executor/base/macros.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/base/alloc.h"

/* dprintf: no stdio lock, which the failing thread may hold. */
void bj_assert_failed(const char *cond, const char *file, uint32_t line, const char *func)
{
	(void)dprintf(STDERR_FILENO, "belljar: %s:%" PRIu32 ": %s: assertion failed: %s\n", file,
		      line, func, cond); /* nothing is left to do when stderr is gone */
	abort();
}

void bj_freep(void *pp)
{
	void **p = (void **)pp;
	bj_free(*p);
	*p = NULL;
}

void bj_close_fdp(int *fd)
{
	if (*fd >= 0) {
		int saved_errno = errno;
		(void)close(*fd); /* Linux releases the descriptor whatever close says */
		errno = saved_errno;
	}
	*fd = -EBADF;
}
