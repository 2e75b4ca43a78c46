// SPDX-License-Identifier: Apache-2.0
/*
 * A command failed and nobody can say what its author's tree holds: which of the names that it looked for in vain did
 * it need? A search that ended well is none of it: when the same base name was found in another place (an include
 * path, a PATH), the misses before were steps on the way. Of the rest, names that look like part of a project come
 * first, then those that were tried last: most tools stop soon after the file that they miss.
 */
#include <stdlib.h>

#include "policy/record-internal.h"

static bool has_suffix_in(struct bj_str path, const char *const *suffixes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bj_str_has_suffix(path, bj_str_of(suffixes[i])))
			return true;
	}
	return false;
}

bool bjp_is_header(struct bj_str path)
{
	static const char *const suffixes[] = { ".h",	".hh",	".hpp", ".hxx", ".h++", ".H",
						".inc", ".inl", ".ipp", ".tcc", ".cuh" };
	return has_suffix_in(path, suffixes, BJ_ARRAY_LEN(suffixes));
}

bool bjp_is_source(struct bj_str path)
{
	static const char *const suffixes[] = {
		".c",  ".cc",	 ".cpp", ".cxx", ".c++", ".m",	 ".mm", ".S",	".s",	".java",
		".kt", ".scala", ".py",	 ".go",	 ".rs",	 ".ts",	 ".js", ".tsx", ".jsx", ".proto",
		".rb", ".swift", ".hs",	 ".ml",	 ".d",	 ".zig", ".sh", ".y",	".l",	".td",
	};
	return has_suffix_in(path, suffixes, BJ_ARRAY_LEN(suffixes));
}

static bool is_project_name(struct bj_str path)
{
	static const char *const suffixes[] = { ".json", ".yaml", ".yml", ".toml", ".txt",
						".cfg",	 ".xml",  ".csv", ".tmpl", ".in" };
	return bjp_is_header(path) || bjp_is_source(path) ||
	       has_suffix_in(path, suffixes, BJ_ARRAY_LEN(suffixes));
}

/* Better candidates first; total, so that the cut does not depend on the order of the attempts. */
static int by_rank(const void *a, const void *b)
{
	const struct bjp_candidate *x = *(const struct bjp_candidate *const *)a;
	const struct bjp_candidate *y = *(const struct bjp_candidate *const *)b;
	int named = (int)is_project_name(y->path) - (int)is_project_name(x->path);
	if (named != 0)
		return named;
	if (x->last_ns != y->last_ns)
		return x->last_ns > y->last_ns ? -1 : 1;
	int order = bj_str_cmp(x->path, y->path);
	return order ? order : (int)x->kind - (int)y->kind;
}

/* A toolchain root is the host's own, so what the host has there the search has found. */
static void drop_toolchain_finds(const struct bjp_trial *trial, struct bj_map *names)
{
	size_t pos = 0;
	const struct bj_map_slot *slot;
	while ((slot = bj_map_next(&trial->collector->toolchain, &pos)) != NULL) {
		struct bj_str name = bjp_basename(slot->key);
		if (!bj_map_get(names, name))
			continue;
		struct bjp_evidence e = bjp_trial_ask(trial, slot->key);
		if (e.on_host && !e.is_dir)
			(void)bj_map_remove(names, name);
	}
}

static bool was_found(const struct bjp_trial *trial, const struct bjp_candidate *c)
{
	const struct bjp_found *found = bj_map_get(&trial->collector->found, bjp_basename(c->path));
	return found && (c->kind == BJP_EXEC_UNDECLARED ? found->by_exec : found->by_read);
}

static void add_finding(struct bjp_trial *trial, const struct bjp_candidate *c)
{
	trial->counters.absent -= c->count;
	trial->findings[trial->n_findings++] = (struct bjp_finding){
		.candidate = c,
		.kind = BJP_MISSING_CANDIDATE,
		.evidence = bjp_trial_ask(trial, c->path),
		.path = c->path,
		.count = c->count,
	};
}

static bool is_ignored(const struct bjp_trial *trial, const struct bjp_candidate *c)
{
	return bjp_is_ignored(trial->collector->policy, trial->collector->settings, c);
}

void bjp_missing_select(struct bjp_trial *trial)
{
	bj_cleanup(bj_map_deinit) struct bj_map names = BJ_MAP_NULL;
	size_t n = 0;
	for (size_t i = 0; i < trial->n_lost; i++) {
		const struct bjp_candidate *c = trial->lost[i];
		if (c->zone != BJP_ZONE_INPUT_ROOT || was_found(trial, c) || is_ignored(trial, c))
			continue;
		/* Without memory there are fewer candidates, which is no verdict. */
		if (bj_map_put(&names, bjp_basename(c->path), trial, NULL))
			trial->lost[n++] = c;
	}
	drop_toolchain_finds(trial, &names);
	if (n > 0)
		qsort(trial->lost, n, sizeof(trial->lost[0]), by_rank);
	size_t n_taken = 0;
	for (size_t i = 0; i < n && n_taken < BJP_MAX_MISSING; i++) {
		if (!bj_map_get(&names, bjp_basename(trial->lost[i]->path)))
			continue;
		add_finding(trial, trial->lost[i]);
		n_taken++;
	}
}
