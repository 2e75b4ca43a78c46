// SPDX-License-Identifier: Apache-2.0
/**
 * policy_glob_oracle.h - what a glob means, said as plainly as possible: recursive and exponential, for short texts only.
 * Used by the unit test and by the fuzz target. Knows no sets.
 */
#ifndef BJ_TESTS_UNIT_POLICY_GLOB_ORACLE_H
#define BJ_TESTS_UNIT_POLICY_GLOB_ORACLE_H

#include "executor/base/str.h"

static bool oracle_at(const char *p, size_t np, const char *s, size_t ns, bool at_start);

/* `**` with a '/' behind it at the start of a component: drop any number of whole components. */
static bool oracle_components(const char *p, size_t np, const char *s, size_t ns)
{
	if (oracle_at(p, np, s, ns, true))
		return true;
	for (size_t i = 0; i < ns; i++) {
		if (s[i] == '/' && oracle_at(p, np, s + i + 1, ns - i - 1, true))
			return true;
	}
	return false;
}

static bool oracle_stars(const char *p, size_t np, const char *s, size_t ns, bool at_start)
{
	size_t n = 0;
	while (n < np && p[n] == '*')
		n++;
	if (n >= 2 && at_start && n < np && p[n] == '/')
		return oracle_components(p + n + 1, np - n - 1, s, ns);
	for (size_t i = 0; i <= ns; i++) {
		if (oracle_at(p + n, np - n, s + i, ns - i, false))
			return true;
		if (i < ns && s[i] == '/' && n == 1)
			return false;
	}
	return false;
}

static bool oracle_at(const char *p, size_t np, const char *s, size_t ns, bool at_start)
{
	if (ns == 0 && (np == 0 || (np == 3 && memcmp(p, "/**", 3) == 0)))
		return true;
	if (np == 0)
		return false;
	if (p[0] == '*')
		return oracle_stars(p, np, s, ns, at_start);
	if (ns == 0)
		return false;
	size_t used = p[0] == '\\' && np > 1 ? 2 : 1;
	bool hit = p[0] == '?' ? s[0] != '/' : p[used - 1] == s[0];
	return hit && oracle_at(p + used, np - used, s + 1, ns - 1, p[used - 1] == '/');
}

static inline bool oracle_glob(struct bj_str pattern, struct bj_str path)
{
	if (bj_str_has_suffix(pattern, BJ_STR_LIT("/**/*")))
		pattern.len -= 2;
	if (path.len == 0 && bj_str_eq(pattern, BJ_STR_LIT("/**")))
		return false; /* below "", not "" itself */
	return oracle_at(pattern.len ? pattern.ptr : "", pattern.len, path.len ? path.ptr : "",
			 path.len, true);
}

#endif
