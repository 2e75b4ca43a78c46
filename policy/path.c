// SPDX-License-Identifier: Apache-2.0
#include "policy/policy-internal.h"

#include <stdlib.h>

/* Appends the components of @path to the @len bytes at @out, a clean absolute path without its leading "/" alone. */
static size_t push_components(char *out, size_t len, struct bj_str path)
{
	while (path.len > 0) {
		struct bj_str name = bj_str_cut(&path, '/');
		if (name.len == 0 || bj_str_eq(name, BJ_STR_LIT(".")))
			continue;
		if (bj_str_eq(name, BJ_STR_LIT(".."))) {
			while (len > 0 && out[--len] != '/')
				;
			continue;
		}
		out[len++] = '/';
		memcpy(out + len, name.ptr, name.len);
		len += name.len;
	}
	return len;
}

struct bj_str bjp_path_clean(struct bj_arena *arena, struct bj_str base, struct bj_str path)
{
	size_t n_bytes = bj_size_add(bj_size_add(base.len, path.len), 4);
	char *out = bj_arena_alloc(arena, n_bytes);
	if (!out)
		return BJ_STR_NULL;

	size_t len = 0;
	if (path.len == 0 || path.ptr[0] != '/')
		len = push_components(out, 0, base);
	len = push_components(out, len, path);
	if (len == 0)
		out[len++] = '/';
	out[len] = '\0';
	return bj_str_n(out, len);
}

bool bjp_path_is_below(struct bj_str path, struct bj_str top)
{
	if (bj_str_eq(top, BJ_STR_LIT("/")))
		return path.len > 0 && path.ptr[0] == '/';
	if (!bj_str_has_prefix(path, top))
		return false;
	return path.len == top.len || top.len == 0 || path.ptr[top.len] == '/';
}

struct bj_str bjp_dirname(struct bj_str path)
{
	for (size_t at = path.len; at > 0; at--) {
		if (path.ptr[at - 1] == '/')
			return bj_str_n(path.ptr, at - 1);
	}
	return bj_str_n("", 0);
}

struct bj_str bjp_basename(struct bj_str path)
{
	size_t at = path.len;
	while (at > 0 && path.ptr[at - 1] != '/')
		at--;
	return bj_str_sub(path, at, path.len);
}

static const char *component_fault(struct bj_str name)
{
	if (name.len == 0)
		return "has an empty component";
	if (name.len > BJP_NAME_BYTES)
		return "has a component of more than 255 bytes";
	if (bj_str_eq(name, BJ_STR_LIT("..")))
		return "has a \"..\" component";
	return NULL;
}

static const char *output_path_fault(struct bj_str path, const char *what)
{
	if (path.len == 0)
		return strncmp(what, "output_files", 12) == 0 ? "is empty" : NULL;
	if (path.ptr[0] == '/')
		return "is absolute";
	if (path.ptr[path.len - 1] == '/')
		return "ends in \"/\"";
	if (path.len >= BJP_PATH_BYTES)
		return "is longer than 4095 bytes";
	if (bj_str_find(path, '\0', 0) < path.len)
		return "holds a NUL byte";

	for (bool more = true; more;) {
		more = bj_str_find(path, '/', 0) < path.len;
		const char *fault = component_fault(bj_str_cut(&path, '/'));
		if (fault)
			return fault;
	}
	return NULL;
}

int bjp_output_path_check(struct bj_str path, const char *what, struct bj_err *err)
{
	const char *fault = output_path_fault(path, what);
	if (!fault)
		return 0;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 64 * 1024);
	return bj_err_set(
		err, BJ_INVALID_ARGUMENT,
		"%s: %s %s; an output path is relative to the working directory and stays below it",
		what, bjp_quote(&arena, path), fault);
}

const char *bjp_quote(struct bj_arena *arena, struct bj_str s)
{
	struct bj_str shown = bj_str_printable(arena, s, 200);
	const char *text = bj_arena_printf(arena, "\"%.*s\"", BJ_STR_FMT(shown));
	return text ? text : "(out of memory)";
}

static int by_bytes(const void *a, const void *b)
{
	return bj_str_cmp(*(const struct bj_str *)a, *(const struct bj_str *)b);
}

size_t bjp_sort_unique(struct bj_str *strs, size_t n)
{
	if (n == 0)
		return 0;
	qsort(strs, n, sizeof(strs[0]), by_bytes);
	size_t kept = 1;
	for (size_t i = 1; i < n; i++) {
		if (!bj_str_eq(strs[i], strs[kept - 1]))
			strs[kept++] = strs[i];
	}
	return kept;
}

static char fold(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool bjp_str_case_eq(struct bj_str a, struct bj_str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (fold(a.ptr[i]) != fold(b.ptr[i]))
			return false;
	}
	return true;
}

bool bjp_str_cut_prefix(struct bj_str *s, struct bj_str prefix)
{
	if (!bj_str_has_prefix(*s, prefix))
		return false;
	*s = bj_str_sub(*s, prefix.len, s->len);
	return true;
}
