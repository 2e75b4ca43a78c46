// SPDX-License-Identifier: Apache-2.0
#include "executor/service/resource.h"

#include <stdio.h>

#include "executor/base/arena.h"

enum { NAME_SHOWN_BYTES = 300, MAX_SEGMENTS = 64 };

/** A name in its parts, as far as they matter: the tail of an upload's name may be longer. */
struct segments {
	struct bj_str name;
	struct bj_str s[MAX_SEGMENTS];
	size_t n;
	bool is_cut; /* there are more */
};

static bool is(struct bj_str s, const char *word)
{
	return bj_str_eq(s, bj_str_of(word));
}

static bool is_one_of(struct bj_str s, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is(s, words[i]))
			return true;
	return false;
}

static bool is_reserved(struct bj_str s)
{
	static const char *const words[] = {
		"blobs",      "uploads",      "actions",	  "actionResults",
		"operations", "capabilities", "compressed-blobs",
	};
	return is_one_of(s, words, BJ_ARRAY_LEN(words));
}

/* Digest functions that a name may hold and that we do not have, so that the answer says so. */
static bool is_other_function(struct bj_str s)
{
	static const char *const words[] = {
		"sha1",	   "md5",	 "vso",	   "sha384",  "sha512",
		"murmur3", "sha256tree", "blake3", "gitsha1",
	};
	return is_one_of(s, words, BJ_ARRAY_LEN(words));
}

static int refuse(struct bj_str name, const char *why, struct bj_err *err)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 64 << 10);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "resource_name \"%.*s\": %s",
			  BJ_STR_FMT(bj_str_printable(&arena, name, NAME_SHOWN_BYTES)), why);
}

static int split(struct bj_str name, struct segments *out, struct bj_err *err)
{
	out->name = name;
	out->n = 0;
	out->is_cut = false;
	if (name.len == 0)
		return refuse(name, "is empty", err);
	/* Not bj_str_cut(): behind a slash at the end there is an empty segment. */
	for (size_t at = 0, end; !out->is_cut; at = end + 1) {
		end = bj_str_find(name, '/', at);
		out->s[out->n++] = bj_str_sub(name, at, end);
		if (end == name.len)
			return 0;
		out->is_cut = out->n == MAX_SEGMENTS;
	}
	return 0;
}

/* All before @first: the instance. Its segments are not empty, or two names would mean one instance. */
static int take_instance(const struct segments *seg, size_t first, struct bj_str *out,
			 struct bj_err *err)
{
	for (size_t i = 0; i < first; i++)
		if (seg->s[i].len == 0)
			return refuse(seg->name, "has an empty segment in the instance name", err);
	if (first == 0) {
		*out = BJ_STR_NULL;
		return 0;
	}
	const struct bj_str *last = &seg->s[first - 1];

	*out = bj_str_n(seg->name.ptr, (size_t)(last->ptr + last->len - seg->name.ptr));
	return bj_instance_check(*out, "resource_name", err);
}

/* [{function}/]{hash}/{size} at @at. @out_end: the segment after. */
static int take_digest(const struct segments *seg, size_t at, struct bj_digest *out,
		       size_t *out_end, struct bj_err *err)
{
	int64_t size;

	/* Spec: for SHA-256 it "MUST be omitted"; who names it all the same means nothing else. */
	if (at < seg->n && is(seg->s[at], bj_digest_fn_name(BJ_DIGEST_SHA256)))
		at++;
	if (at < seg->n && is_other_function(seg->s[at]))
		return refuse(seg->name, "names a digest function other than SHA-256", err);
	if (at + 2 > seg->n)
		return refuse(seg->name, "has no {hash}/{size} after \"blobs\"", err);
	if (!bj_str_to_i64(seg->s[at + 1], &size))
		return refuse(seg->name, "has a size that is no number", err);
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

static int check_keyword(const struct segments *seg, size_t at, const char *word,
			 struct bj_err *err)
{
	char why[64];

	if (at < seg->n && is(seg->s[at], "compressed-blobs"))
		return bj_err_set(
			err, BJ_UNIMPLEMENTED,
			"resource_name: compressed blobs are not supported, nor advertised");
	if (at < seg->n && is(seg->s[at], word))
		return 0;
	if (at == seg->n && seg->is_cut)
		return refuse(seg->name, "has too many segments", err);
	(void)snprintf(why, sizeof(why), "has no \"%s\" segment where it should be", word);
	return refuse(seg->name, why, err);
}

int bj_resource_parse_read(struct bj_str name, struct bj_resource *out, struct bj_err *err)
{
	struct bj_resource resource = { .instance = BJ_STR_NULL };
	struct segments seg;
	size_t end;
	int r = split(name, &seg, err);

	if (r < 0)
		return r;
	size_t first = find_reserved(&seg);

	r = check_keyword(&seg, first, "blobs", err);
	if (r == 0)
		r = take_instance(&seg, first, &resource.instance, err);
	if (r == 0)
		r = take_digest(&seg, first + 1, &resource.digest, &end, err);
	if (r < 0)
		return r;
	if (end != seg.n || seg.is_cut)
		return refuse(name, "goes on after the size", err);
	*out = resource;
	return 0;
}

/* Spec: "{uuid}" is a UUID by RFC 4122; peers take anything that is one segment, and so do we: it only keeps uploads apart. */
static int take_uuid(const struct segments *seg, size_t at, struct bj_str *out, struct bj_err *err)
{
	if (at >= seg->n || seg->s[at].len == 0 || is_reserved(seg->s[at]))
		return refuse(seg->name, "has no {uuid} after \"uploads\"", err);
	*out = seg->s[at];
	return 0;
}

int bj_resource_parse_write(struct bj_str name, struct bj_resource *out, struct bj_err *err)
{
	struct bj_resource resource = { .instance = BJ_STR_NULL };
	struct segments seg;
	size_t end; /* what stands behind the size is the client's own affair */
	int r = split(name, &seg, err);

	if (r < 0)
		return r;
	size_t first = find_reserved(&seg);

	r = check_keyword(&seg, first, "uploads", err);
	if (r == 0)
		r = take_uuid(&seg, first + 1, &resource.uuid, err);
	if (r == 0)
		r = check_keyword(&seg, first + 2, "blobs", err);
	if (r == 0)
		r = take_instance(&seg, first, &resource.instance, err);
	if (r == 0)
		r = take_digest(&seg, first + 3, &resource.digest, &end, err);
	if (r == 0)
		*out = resource;
	return r;
}

int bj_instance_check(struct bj_str instance, const char *what, struct bj_err *err)
{
	if (instance.len == 0)
		return 0;
	if (instance.len > BJ_INSTANCE_MAX_BYTES)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "%s: an instance name has at most %d bytes, not %zu", what,
				  BJ_INSTANCE_MAX_BYTES, instance.len);
	for (size_t at = 0, end;; at = end + 1) {
		end = bj_str_find(instance, '/', at);
		struct bj_str segment = bj_str_sub(instance, at, end);

		if (segment.len == 0 || is_reserved(segment))
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "%s: an instance name has no empty segment and none of "
					  "the reserved words (blobs, uploads …)",
					  what);
		if (end == instance.len)
			return 0;
	}
}
