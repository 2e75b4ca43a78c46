// SPDX-License-Identifier: Apache-2.0
/*
 * Paths as an action may write them: the normal form has its properties whatever the bytes, and is its own normal form. The input is a base
 * and a path, parted by the first NUL.
 */
#include <stdlib.h>
#include <string.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checked with a model that is as plain as can be: parts on a stack. */
static void check_normal(struct bj_str path, const char *out, size_t len)
{
	struct bj_str parts[512];
	size_t n = 0;
	size_t total = 0;
	struct bj_str rest = path;
	size_t at = 0;

	while (rest.len > 0) {
		struct bj_str part = bj_str_cut(&rest, '/');

		if (part.len == 0 || bj_str_eq(part, BJ_STR_LIT(".")))
			continue;
		if (bj_str_eq(part, BJ_STR_LIT(".."))) {
			n -= n > 0;
			continue;
		}
		if (n == BJ_ARRAY_LEN(parts))
			return;
		parts[n++] = part;
	}
	for (size_t i = 0; i < n; i++)
		total += 1 + parts[i].len;
	bj_assert(len == (n == 0 ? 1 : total) && out[0] == '/' && out[len] == '\0');
	for (size_t i = 0; i < n; i++) {
		bj_assert(out[at] == '/');
		bj_assert(memcmp(out + at + 1, parts[i].ptr, parts[i].len) == 0);
		at += 1 + parts[i].len;
	}
}

static void check_proc(struct bj_str path)
{
	struct bj_proc_path proc;

	if (!bj_path_parse_proc(path, &proc))
		return;
	bj_assert(proc.link >= BJ_PROC_CWD && proc.link <= BJ_PROC_EXE);
	bj_assert((proc.link == BJ_PROC_FD) == (proc.fd >= 0));
	/* What is left is the end of the path, and begins with a slash. */
	bj_assert(proc.rest.len == 0 || (proc.rest.ptr[0] == '/' &&
					 proc.rest.ptr + proc.rest.len == path.ptr + path.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char joined[600];
	char normal[600];
	char again[600];
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	struct bj_str base = bj_str_n(data, nul ? (size_t)(nul - data) : 0);
	struct bj_str path =
		bj_str_n(data + (nul ? base.len + 1 : 0), size - (nul ? base.len + 1 : 0));
	ssize_t len = bj_path_join(base, path, joined, sizeof(joined));
	struct bj_str last;

	if (len < 0)
		return 0;
	bj_assert(joined[len] == '\0');
	path = bj_str_n(joined, (size_t)len);
	check_proc(path);
	len = bj_path_normalize(path, normal, sizeof(normal));
	bj_assert((len < 0) == (path.len == 0 || path.ptr[0] != '/'));
	if (len < 0)
		return 0;
	check_normal(path, normal, (size_t)len);
	bj_assert(bj_path_normalize(bj_str_n(normal, (size_t)len), again, sizeof(again)) == len);
	bj_assert(memcmp(normal, again, (size_t)len + 1) == 0);
	last = bj_path_last(bj_str_n(normal, (size_t)len));
	bj_assert(memchr(last.ptr, '/', last.len) == NULL && (last.len > 0 || len == 1));
	/* Room that is just enough, and just not. */
	if (len > 1) {
		bj_assert(bj_path_normalize(bj_str_n(normal, (size_t)len), again,
					    (size_t)len + 1) == len);
		bj_assert(bj_path_normalize(bj_str_n(normal, (size_t)len), again, (size_t)len) < 0);
	}
	return 0;
}
