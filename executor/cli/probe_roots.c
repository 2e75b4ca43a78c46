// SPDX-License-Identifier: Apache-2.0
/* Links below the toolchain roots that lead out of them: on the host they work, inside they dangle. */
#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "executor/cli/probe-internal.h"
#include "policy/policy.h"

/* What every action has of its own at the same place. */
static bool is_inside_anyway(struct bj_str path)
{
	return bjp_path_is_below(path, BJ_STR_LIT("/proc")) ||
	       bjp_path_is_below(path, BJ_STR_LIT("/tmp")) ||
	       bj_str_eq(path, BJ_STR_LIT("/dev/null")) || bj_str_eq(path, BJ_STR_LIT("/dev/zero"));
}

static bool is_covered(const struct bj_jail_slot_spec *roots, struct bj_str path)
{
	for (size_t i = 0; i < roots->n_roots; i++)
		if (!roots->roots[i].is_link && bjp_path_is_below(path, roots->roots[i].path))
			return true;
	for (size_t i = 0; i < roots->n_files; i++)
		if (bj_str_eq(path, roots->files[i].path))
			return true;
	return is_inside_anyway(path);
}

static bool note(struct bj_probe *probe, const char *path, const char *leads_to,
		 struct bj_arena *arena)
{
	if (probe->n_leaving < BJ_PROBE_MAX_LEAVING) {
		struct bj_probe_link *link = &probe->leaving[probe->n_leaving];
		link->path = bj_arena_str(arena, bj_str_of(path));
		link->leads_to = bj_arena_str(arena, bj_str_of(leads_to));
		if (!link->path.ptr || !link->leads_to.ptr)
			return false;
	}
	probe->n_leaving++;
	return true;
}

static bool look_at_link(struct bj_probe *probe, const char *path, struct bj_arena *arena)
{
	char real[PATH_MAX];

	if (!realpath(path, real) || is_covered(&probe->roots, bj_str_of(real)))
		return true; /* dangling here, too, or fine */
	return note(probe, path, real, arena);
}

static bool look_below(struct bj_probe *probe, char *root, struct bj_arena *arena)
{
	char *roots[] = { root, NULL };
	FTS *fts = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
	bool ok = fts != NULL;
	FTSENT *entry;

	while (ok && (entry = fts_read(fts)) != NULL) {
		if (entry->fts_info == FTS_SL || entry->fts_info == FTS_SLNONE ||
		    entry->fts_info == FTS_NSOK) {
			struct stat st;
			if (lstat(entry->fts_accpath, &st) == 0 && S_ISLNK(st.st_mode))
				ok = look_at_link(probe, entry->fts_path, arena);
		}
	}
	if (fts)
		(void)fts_close(fts); /* nothing was written */
	return ok;
}

int bj_probe_look_at_roots(struct bj_probe *probe, struct bj_arena *arena, struct bj_err *err)
{
	for (size_t i = 0; i < probe->roots.n_roots; i++) {
		const struct bj_jail_root *root = &probe->roots.roots[i];
		char *path = bj_str_dup(arena, root->path);
		bool ok = path != NULL;

		if (ok)
			ok = root->is_link ? look_at_link(probe, path, arena)
					   : look_below(probe, path, arena);
		if (!ok)
			return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
					  "no memory to look at \"%.*s\"", BJ_STR_FMT(root->path));
	}
	return 0;
}
