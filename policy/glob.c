// SPDX-License-Identifier: Apache-2.0
/*
 * A matcher that never recurses and never explodes. Three kinds of token can match more than one length:
 *
 *	*     any bytes but '/'
 *	**    a whole component, with a '/' behind it: any number of whole components, none included
 *	**    elsewhere: any bytes
 *
 * When a token fails, only the newest place to go back to needs to be tried: a later `**` can take over whatever an
 * earlier one would have eaten more of, and two `*` of different components cannot trade bytes, since the '/' between
 * them stands at a fixed place. So one return point for `*` (valid up to the next '/') and one for `**` are enough,
 * and the work is bounded by |path|² × |pattern|.
 */
#include "policy/policy-internal.h"

/* One place to go back to: resume the pattern at `pattern` with the path one step further. */
struct retreat {
	size_t pattern, path;
	bool is_set;
	bool by_component; /* a step is a whole component */
};

struct matcher {
	struct bj_str pattern, path;
	size_t p, s; /* the next byte of each */
	struct retreat star, globstar;
};

static char pattern_at(const struct matcher *m, size_t i)
{
	return i < m->pattern.len ? m->pattern.ptr[i] : '\0';
}

/*
 * The set that starts at @at ("[a-z]", "[!x]", "[]]"). Return: the index behind its ']', or 0 when it has none.
 * *out_hit: whether @c is in it.
 */
static size_t match_set(struct bj_str pattern, size_t at, char c, bool *out_hit)
{
	size_t i = at + 1;
	bool negated = i < pattern.len && (pattern.ptr[i] == '!' || pattern.ptr[i] == '^');
	if (negated)
		i++;
	bool hit = false;
	for (size_t first = i; i < pattern.len; i++) {
		if (pattern.ptr[i] == ']' && i > first) {
			*out_hit = hit != negated;
			return i + 1;
		}
		if (pattern.ptr[i] == '\\' && i + 1 < pattern.len)
			i++;
		unsigned char low = (unsigned char)pattern.ptr[i], high = low;
		if (i + 2 < pattern.len && pattern.ptr[i + 1] == '-' && pattern.ptr[i + 2] != ']') {
			i += 2;
			high = (unsigned char)pattern.ptr[i];
		}
		hit = hit || ((unsigned char)c >= low && (unsigned char)c <= high);
	}
	return 0;
}

/* Matches one byte of the path with the one-byte token at p; advances both. */
static bool match_one(struct matcher *m)
{
	if (m->p >= m->pattern.len || m->s >= m->path.len)
		return false;
	char token = m->pattern.ptr[m->p], c = m->path.ptr[m->s];
	size_t next = m->p + 1;
	bool hit;
	if (token == '?') {
		hit = c != '/';
	} else if (token == '[') {
		bool in_set = false;
		size_t end = match_set(m->pattern, m->p, c, &in_set);
		hit = end ? in_set && c != '/' : c == '[';
		next = end ? end : next;
	} else {
		if (token == '\\' && next < m->pattern.len)
			token = m->pattern.ptr[next++];
		hit = token == c;
	}
	if (!hit)
		return false;
	m->p = next;
	m->s++;
	return true;
}

/* Takes a run of '*' at p and sets the place to go back to. */
static void take_stars(struct matcher *m)
{
	size_t n = 0;
	while (pattern_at(m, m->p + n) == '*')
		n++;
	bool at_start = m->p == 0 || m->pattern.ptr[m->p - 1] == '/';
	bool by_component = n >= 2 && at_start && pattern_at(m, m->p + n) == '/';
	m->p += n + by_component;
	struct retreat here = { m->p, m->s, true, by_component };
	if (n >= 2) {
		m->globstar = here;
		m->star.is_set = false;
	} else {
		m->star = here;
	}
}

/* Goes back and gives the newest `*`, else the newest `**`, one step more. */
static bool retreat(struct matcher *m)
{
	if (m->star.is_set && m->star.path < m->path.len && m->path.ptr[m->star.path] != '/') {
		m->p = m->star.pattern;
		m->s = ++m->star.path;
		return true;
	}
	m->star.is_set = false;
	struct retreat *g = &m->globstar;
	if (!g->is_set || g->path >= m->path.len)
		return false;
	size_t next = g->by_component ? bj_str_find(m->path, '/', g->path) : g->path;
	if (next >= m->path.len)
		return false;
	g->path = next + 1;
	m->p = g->pattern;
	m->s = g->path;
	return true;
}

/* A last component `**` covers its directory too. */
static bool rest_covers_parent(const struct matcher *m)
{
	struct bj_str rest = bj_str_sub(m->pattern, m->p, m->pattern.len);
	return m->p > 0 && bj_str_eq(rest, BJ_STR_LIT("/**"));
}

bool bjp_glob_match(struct bj_str pattern, struct bj_str path)
{
	if (bj_str_has_suffix(pattern, BJ_STR_LIT("/**/*")))
		pattern.len -= 2; /* vx-57: the directory itself is meant too */
	struct matcher m = { .pattern = pattern, .path = path };
	for (;;) {
		if (m.s == path.len && (m.p == pattern.len || rest_covers_parent(&m)))
			return true;
		if (pattern_at(&m, m.p) == '*')
			take_stars(&m);
		else if (!match_one(&m) && !retreat(&m))
			return false;
	}
}

static const char *glob_fault(struct bj_str pattern, size_t *out_at)
{
	*out_at = 0;
	if (pattern.len == 0)
		return "is empty";
	if (pattern.len > BJP_PATTERN_BYTES)
		return "is longer than 1024 bytes";
	if (pattern.ptr[0] == '~')
		return "starts with \"~\": the home of whoever asks is not inside, name the path";
	for (size_t i = 0; i < pattern.len; i++) {
		*out_at = i;
		bool ignored;
		char c = pattern.ptr[i];
		if (c == '\0')
			return "holds a NUL byte";
		if (c == '\\' && ++i == pattern.len)
			return "ends in a backslash";
		if (c == '[') {
			size_t end = match_set(pattern, i, 'a', &ignored);
			if (end == 0)
				return "has a set without \"]\"";
			i = end - 1;
		}
	}
	*out_at = 0;
	for (struct bj_str rest = pattern; rest.len > 0;) {
		if (bj_str_eq(bj_str_cut(&rest, '/'), BJ_STR_LIT("..")))
			return "has a \"..\" component, which no clean path has";
		*out_at = pattern.len - rest.len;
	}
	return NULL;
}

int bjp_glob_check(struct bj_str pattern, struct bj_err *err)
{
	size_t at;
	const char *fault = glob_fault(pattern, &at);
	if (!fault)
		return 0;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 64 * 1024);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "pattern %s %s (at offset %zu)",
			  bjp_quote(&arena, pattern), fault, at);
}
