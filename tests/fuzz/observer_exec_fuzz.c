// SPDX-License-Identifier: Apache-2.0
/* Files that an action executes: scripts and ELF programs with headers of any content. */
#include <string.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
	const uint8_t *bytes;
	size_t len;
	unsigned int n_reads;
};

static ssize_t read_image(void *ctx, void *buf, size_t n_bytes, uint64_t offset)
{
	struct image *image = ctx;
	size_t n;

	/* Bounded however many headers are promised. */
	bj_assert(++image->n_reads <= 66);
	bj_assert(n_bytes <= BJ_EXEC_HEAD && offset <= INT64_MAX);
	if (offset >= image->len)
		return 0;
	n = BJ_MIN(n_bytes, image->len - (size_t)offset);
	memcpy(buf, image->bytes + offset, n);
	return (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image image = { data, size, 0 };
	char out[BJ_EXEC_HEAD];
	size_t len = bj_exec_interpreter(read_image, &image, out);

	bj_assert(len < sizeof(out));
	bj_assert(len == 0 || strlen(out) == len);
	return 0;
}
