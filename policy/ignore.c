// SPDX-License-Identifier: Apache-2.0
/*
 * Ignore lists silence the report, never the wall. A pattern may spell a path in any way that the user knows it: as the
 * command wrote it, absolute, from the input root, or where links lead (vx-47, vx-50).
 */
#include "policy/record-internal.h"

const char *bjp_ignore_list(enum bjp_kind kind)
{
	switch (kind) {
	case BJP_READ_UNDECLARED:
	case BJP_EXEC_UNDECLARED:
	case BJP_MISSING_CANDIDATE:
		return "ignore.read";
	case BJP_WRITE_UNDECLARED:
	case BJP_WRITE_TO_INPUT:
	case BJP_UNDECLARED_OUTPUT:
		return "ignore.write";
	case BJP_NETWORK:
	case BJP_UNIX_SOCKET:
		return "ignore.network";
	default:
		return NULL;
	}
}

static bool matches_spelling(const struct bjp_policy *policy, struct bj_str pattern,
			     struct bj_str path)
{
	struct bj_str rel;
	if (path.len == 0)
		return false;
	return bjp_glob_match(pattern, path) ||
	       (bjp_relative(policy, path, &rel) && bjp_glob_match(pattern, rel));
}

static bool matches_path(const struct bjp_policy *policy, const struct bj_str *patterns, size_t n,
			 const struct bjp_candidate *c)
{
	for (size_t i = 0; i < n; i++) {
		struct bj_str pattern = patterns[i];
		if (matches_spelling(policy, pattern, c->path) ||
		    matches_spelling(policy, pattern, c->lexical) ||
		    matches_spelling(policy, pattern, c->resolved) ||
		    matches_spelling(policy, pattern, c->written))
			return true;
	}
	return false;
}

/* Cuts ":PORT" off "HOST:PORT" or "[HOST]:PORT"; a bare IPv6 address has several colons and no port. */
static struct bj_str cut_port(struct bj_str *host)
{
	struct bj_str port = BJ_STR_NULL;
	if (host->len > 0 && host->ptr[0] == '[') {
		size_t end = bj_str_find(*host, ']', 0);
		port = bj_str_sub(*host, end + 2, host->len);
		*host = bj_str_sub(*host, 1, end);
		return port;
	}
	size_t colon = bj_str_find(*host, ':', 0);
	if (bj_str_find(*host, ':', colon + 1) < host->len)
		return port;
	port = bj_str_sub(*host, colon + 1, host->len);
	*host = bj_str_sub(*host, 0, colon);
	return port;
}

static bool matches_address(struct bj_str pattern, const struct bjp_candidate *c)
{
	uint64_t number;
	struct bj_str host = pattern;
	struct bj_str port = cut_port(&host);
	if (port.len > 0 && !(bj_str_to_u64(port, &number) && number == c->port))
		return false;
	return bj_str_eq(host, BJ_STR_LIT("*")) || bjp_str_case_eq(host, c->address);
}

static bool matches_network(const struct bjp_settings *settings, const struct bjp_candidate *c)
{
	for (size_t i = 0; i < settings->n_ignore_network; i++) {
		if (matches_address(settings->ignore_network[i], c))
			return true;
	}
	return false;
}

bool bjp_is_ignored(const struct bjp_policy *policy, const struct bjp_settings *settings,
		    const struct bjp_candidate *candidate)
{
	const char *list = bjp_ignore_list(candidate->kind);
	if (!list)
		return false;
	if (candidate->kind == BJP_NETWORK)
		return matches_network(settings, candidate);
	if (candidate->kind == BJP_UNIX_SOCKET)
		return matches_path(policy, settings->ignore_network, settings->n_ignore_network,
				    candidate);
	if (strcmp(list, "ignore.write") == 0)
		return matches_path(policy, settings->ignore_write, settings->n_ignore_write,
				    candidate);
	return matches_path(policy, settings->ignore_read, settings->n_ignore_read, candidate);
}
