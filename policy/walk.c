// SPDX-License-Identifier: Apache-2.0
/*
 * `done` is where the walk stands and has no link left in it; `todo` is what the kernel has still to look up. A link
 * that is met is taken off `done` and its text put before `todo`, so that ".." behind a link means the parent of where
 * the link leads, as in the kernel. Only declared links are known; anything else is taken for a plain name.
 */
#include "policy/policy-internal.h"

static bool walk_push_todo(struct bjp_walk *walk, struct bj_str target)
{
	size_t n_bytes = target.len + 1 + walk->todo_len;
	if (n_bytes > sizeof(walk->todo))
		return false;
	memmove(walk->todo + target.len + 1, walk->todo, walk->todo_len);
	if (target.len > 0)
		memcpy(walk->todo, target.ptr, target.len);
	walk->todo[target.len] = '/';
	walk->todo_len = n_bytes;
	return true;
}

/* Takes the first name off todo; empty names stand for "//". */
static struct bj_str walk_next(struct bjp_walk *walk, char name[BJP_PATH_BYTES])
{
	struct bj_str rest = bj_str_n(walk->todo, walk->todo_len);
	struct bj_str first = bj_str_cut(&rest, '/');
	size_t len = first.len;
	memcpy(name, walk->todo, len);
	if (rest.len > 0)
		memmove(walk->todo, rest.ptr, rest.len);
	walk->todo_len = rest.len;
	return bj_str_n(name, len);
}

static void walk_up(struct bjp_walk *walk)
{
	while (walk->done_len > 0 && walk->done[--walk->done_len] != '/')
		;
}

static bool walk_down(struct bjp_walk *walk, struct bj_str name)
{
	if (walk->done_len + 1 + name.len >= sizeof(walk->done))
		return false;
	walk->done[walk->done_len++] = '/';
	memcpy(walk->done + walk->done_len, name.ptr, name.len);
	walk->done_len += name.len;
	return true;
}

/* One name. False when the walk cannot go on (too long, too many links). */
static bool walk_step(const struct bjp_policy *policy, struct bjp_walk *walk, bool follow_last)
{
	char buf[BJP_PATH_BYTES];
	struct bj_str name = walk_next(walk, buf);
	if (name.len == 0 || bj_str_eq(name, BJ_STR_LIT(".")))
		return true;
	if (bj_str_eq(name, BJ_STR_LIT(".."))) {
		walk_up(walk);
		return true;
	}
	if (!walk_down(walk, name))
		return false;

	const struct bjp_entry *entry = bjp_entry_of(policy, bj_str_n(walk->done, walk->done_len));
	bool is_link = entry && entry->flags & BJP_F_INPUT && entry->kind == BJP_NODE_SYMLINK;
	if (!is_link || (walk->todo_len == 0 && !follow_last))
		return true;
	if (++walk->n_links > BJP_MAX_LINKS)
		return false;
	if (entry->target.len > 0 && entry->target.ptr[0] == '/')
		walk->done_len = 0;
	else
		walk_up(walk);
	return walk_push_todo(walk, entry->target);
}

struct bj_str bjp_walk(const struct bjp_policy *policy, struct bj_str path, bool follow_last,
		       struct bjp_walk *walk)
{
	if (policy->n_symlinks == 0 || path.len >= sizeof(walk->todo) ||
	    !bjp_path_is_below(path, policy->exec_root))
		return path;
	walk->done_len = 0;
	walk->n_links = 0;
	memcpy(walk->todo, path.ptr, path.len);
	walk->todo_len = path.len;
	while (walk->todo_len > 0) {
		if (!walk_step(policy, walk, follow_last))
			return path;
	}
	if (walk->n_links == 0)
		return path;
	if (walk->done_len == 0)
		walk->done[walk->done_len++] = '/';
	return bj_str_n(walk->done, walk->done_len);
}

struct bj_str bjp_resolve_declared(const struct bjp_policy *policy, struct bj_arena *arena,
				   struct bj_str path)
{
	struct bjp_walk walk;
	struct bj_str end = bjp_walk(policy, path, true, &walk);
	return end.ptr == path.ptr ? path : bj_arena_str(arena, end);
}
