// SPDX-License-Identifier: Apache-2.0
#include "executor/service/resource.h"

#include <stdio.h>

#include "executor/base/arena.h"

enum { NAME_SHOWN_BYTES = 300, MAX_SEGMENTS = 64 };

struct segments {
	struct bj_str s[MAX_SEGMENTS];
	size_t n;
};

static bool is(struct bj_str s, const char *word)
{
	return bj_str_eq(s, bj_str_of(word));
}

static bool is_reserved(struct bj_str s)
{
	static const char *const words[] = {
		"blobs",      "uploads",      "actions",	  "actionResults",
		"operations", "capabilities", "compressed-blobs",
	};

	for (size_t i = 0; i < BJ_ARRAY_LEN(words); i++)
		if (is(s, words[i]))
			return true;
	return false;
}

static int refuse(struct bj_str name, const char *why, struct bj_err *err)
{
	char text[NAME_SHOWN_BYTES * 4 + 8];
	struct bj_arena arena;

	bj_arena_init(&arena, 64 << 10);
	struct bj_str safe = bj_str_printable(&arena, name, NAME_SHOWN_BYTES);

	(void)snprintf(text, sizeof(text), "%.*s", BJ_STR_FMT(safe));
	bj_arena_deinit(&arena);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "resource_name \"%s\": %s", text, why);
}

static int split(struct bj_str name, struct segments *out, struct bj_err *err)
{
	struct bj_str rest = name;

	out->n = 0;
	if (name.len == 0)
		return refuse(name, "is empty", err);
	do {
		if (out->n == MAX_SEGMENTS)
			return refuse(name, "has too many segments", err);
		out->s[out->n++] = bj_str_cut(&rest, '/');
	} while (rest.ptr);
	return 0;
}

/* All before @first: the instance. Its segments are not empty, or two names would mean one instance. */
static int take_instance(struct bj_str name, const struct segments *seg, size_t first,
			 struct bj_str *out, struct bj_err *err)
{
	for (size_t i = 0; i < first; i++)
		if (seg->s[i].len == 0)
			return refuse(name, "has an empty segment in the instance name", err);
	if (first == 0) {
		*out = BJ_STR_NULL;
		return 0;
	}
	const struct bj_str *last = &seg->s[first - 1];

	*out = bj_str_n(name.ptr, (size_t)(last->ptr + last->len - name.ptr));
	return 0;
}

/* [{function}/]{hash}/{size} at @at. @out_end: the segment after. */
static int take_digest(struct bj_str name, const struct segments *seg, size_t at,
		       struct bj_digest *out, size_t *out_end, struct bj_err *err)
{
	int64_t size;

	if (at < seg->n && bj_digest_fn_name(BJ_DIGEST_SHA256) &&
	    is(seg->s[at], bj_digest_fn_name(BJ_DIGEST_SHA256)))
		at++;
	if (at + 2 > seg->n)
		return refuse(name, "has no {hash}/{size} after \"blobs\"", err);
	if (!bj_str_to_i64(seg->s[at + 1], &size))
		return refuse(name, "has a size that is no number", err);
	*out_end = at + 2;
	return bj_digest_parse(BJ_DIGEST_SHA256, seg->s[at], size, "resource_name", out, err);
}

static size_t find_reserved(const struct segments *seg)
{
	size_t i = 0;

	while (i < seg->n && !is_reserved(seg->s[i]))
		i++;
	return i;
}

static int check_keyword(struct bj_str name, const struct segments *seg, size_t at,
			 const char *word, struct bj_err *err)
{
	char why[64];

	if (at < seg->n && is(seg->s[at], "compressed-blobs"))
		return bj_err_set(
			err, BJ_UNIMPLEMENTED,
			"resource_name: compressed blobs are not supported, nor advertised");
	if (at < seg->n && is(seg->s[at], word))
		return 0;
	(void)snprintf(why, sizeof(why), "has no \"%s\" segment where it should be", word);
	return refuse(name, why, err);
}

int bj_resource_parse_read(struct bj_str name, struct bj_resource *out, struct bj_err *err)
{
	struct segments seg;
	size_t end;
	int r = split(name, &seg, err);

	if (r < 0)
		return r;
	size_t first = find_reserved(&seg);

	*out = (struct bj_resource){ 0 };
	r = check_keyword(name, &seg, first, "blobs", err);
	if (r == 0)
		r = take_instance(name, &seg, first, &out->instance, err);
	if (r == 0)
		r = take_digest(name, &seg, first + 1, &out->digest, &end, err);
	if (r == 0 && end != seg.n)
		return refuse(name, "goes on after the size", err);
	return r;
}

/* Spec: "{uuid}" is a UUID by RFC 4122; peers take anything that is one segment, and so do we: it only keeps uploads apart. */
int bj_resource_parse_write(struct bj_str name, struct bj_resource *out, struct bj_err *err)
{
	struct segments seg;
	size_t end;
	int r = split(name, &seg, err);

	if (r < 0)
		return r;
	size_t first = find_reserved(&seg);

	*out = (struct bj_resource){ 0 };
	r = check_keyword(name, &seg, first, "uploads", err);
	if (r == 0 && (first + 1 >= seg.n || seg.s[first + 1].len == 0))
		r = refuse(name, "has no {uuid} after \"uploads\"", err);
	if (r == 0)
		r = check_keyword(name, &seg, first + 2, "blobs", err);
	if (r == 0)
		r = take_instance(name, &seg, first, &out->instance, err);
	if (r == 0)
		out->uuid = seg.s[first + 1];
	return r < 0 ? r : take_digest(name, &seg, first + 3, &out->digest, &end, err);
}

int bj_instance_check(struct bj_str instance, const char *what, struct bj_err *err)
{
	struct bj_str rest = instance;

	if (instance.len == 0)
		return 0;
	do {
		struct bj_str segment = bj_str_cut(&rest, '/');

		if (segment.len == 0 || is_reserved(segment))
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "%s: an instance name has no empty segment and none of "
					  "the reserved words (blobs, uploads …)",
					  what);
	} while (rest.ptr);
	return 0;
}
