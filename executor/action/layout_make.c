// SPDX-License-Identifier: Apache-2.0
/*
 * One private tree per action.
 *
 * lower/ gets the declared tree and is never written again; upper/ is the action's own layer and starts with the directories that must
 * exist for its outputs. Everything is made by one walk over the sorted entries, parents before children, relative to one descriptor.
 * No path leads through a link: what stands in lower/ and upper/ was made here, and no name of a tree is both a link and a directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/action/layout-internal.h"
#include "executor/base/map.h"
#include "executor/jail/spec.h"

enum { SHOWN_BYTES = 300, MAX_LINKS = 40 /* as the kernel's */ };

static const struct timespec input_times[2] = { { .tv_sec = BJ_INPUT_MTIME },
						{ .tv_sec = BJ_INPUT_MTIME } };

/** A directory made in upper/, whose time is set at the end. */
struct made {
	struct made *next;
	const char *path;
};

struct making {
	struct bj_work *work;
	const struct bj_tree *tree;
	struct bj_layout *layout;
	uid_t uid;
	gid_t gid;
	bj_private_fn is_private; /* may be NULL */
	void *ctx;
	struct bj_map seen; /* digests of the files laid out so far; keys in the tree */
	struct bj_arena *arena;
	struct bj_map missing; /* the same of those that are not there */
	int64_t n_twins;       /* so far: each gets its own second */
	struct made *made;
	struct bj_err *err;
};

/* ---- texts ---- */

static int fail(struct making *m, int errnum, const char *what, struct bj_str path)
{
	struct bj_str shown = bj_str_printable(m->arena, path, SHOWN_BYTES);

	if (errnum == ENAMETOOLONG)
		return bj_err_set(m->err, BJ_INVALID_ARGUMENT,
				  "%s \"%.*s\": the path or a name in it is too long here", what,
				  BJ_STR_FMT(shown));
	return bj_err_errno(m->err, errnum, "%s \"%.*s\"", what, BJ_STR_FMT(shown));
}

static int no_memory(struct making *m)
{
	return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the input root");
}

/* ---- entries ---- */

static int give_to_slot(struct making *m, int dir_fd, const char *path)
{
	/* In the userns profile there is one uid, and it is ours. */
	if (m->uid != 0 && fchownat(dir_fd, path, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(m, errno, "give to the slot's uid", bj_str_of(path));
	return 0;
}

static int make_slot_dir(struct making *m, int dir_fd, const char *path, mode_t mode)
{
	if (mkdirat(dir_fd, path, mode) < 0)
		return fail(m, errno, "make the directory", bj_str_of(path));
	/* mkdir() leaves out the sticky bit, and what our umask forbids. */
	if (mode & (01000 | m->work->umask_bits) && fchmodat(dir_fd, path, mode, 0) < 0)
		return fail(m, errno, "set the mode of", bj_str_of(path));
	return give_to_slot(m, dir_fd, path);
}

static int note_missing(struct making *m, const struct bj_tree_entry *e)
{
	void *entry = (void *)(uintptr_t)e;

	return bj_map_put(&m->missing, bj_digest_key(&e->digest), entry, NULL) ? 0 : no_memory(m);
}

/* A copy has an inode of its own. One of the same content has a time of its own as well: gcc takes files with equal times and bytes,
 * under two names, for one, whatever their inodes or modes. */
static int copy_file(struct making *m, const struct bj_tree_entry *e, bool is_twin)
{
	int64_t mtime_s = BJ_INPUT_MTIME + (is_twin ? ++m->n_twins : 0);

	m->layout->n_copied++;
	m->layout->n_copied_bytes += e->digest.size_bytes;
	return bj_hot_copy(m->work->hot, &e->digest, e->is_executable, mtime_s, m->layout->lower_fd,
			   e->path.ptr, m->err);
}

/* An input that is an output as well: the action may write it in place. */
static int make_writable(struct making *m, const struct bj_tree_entry *e)
{
	int fd = m->layout->lower_fd;

	if (fchmodat(fd, e->path.ptr, e->is_executable ? 0755 : 0644, 0) < 0)
		return fail(m, errno, "set the mode of", e->path);
	return give_to_slot(m, fd, e->path.ptr);
}

static int lay_file(struct making *m, const struct bj_tree_entry *e)
{
	bool is_private = m->is_private && m->is_private(m->ctx, e->path);
	void *entry = (void *)(uintptr_t)e, *twin = NULL;
	int r;

	if (!bj_map_put(&m->seen, bj_digest_key(&e->digest), entry, &twin))
		return no_memory(m);
	if (is_private || twin) {
		r = copy_file(m, e, twin != NULL);
	} else {
		m->layout->n_linked++;
		r = bj_hot_link(m->work->hot, &e->digest, e->is_executable, m->layout->lower_fd,
				e->path.ptr, m->err);
	}
	if (r == BJ_HOT_E_MISSING)
		return note_missing(m, e);
	return r == 0 && is_private ? make_writable(m, e) : r;
}

static int lay_symlink(struct making *m, const struct bj_tree_entry *e)
{
	char *target = bj_str_dup(m->arena, e->target);

	if (!target)
		return no_memory(m);
	m->layout->n_others++;
	if (symlinkat(target, m->layout->lower_fd, e->path.ptr) < 0)
		return fail(m, errno, "make the symlink", e->path);
	if (utimensat(m->layout->lower_fd, e->path.ptr, input_times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(m, errno, "set the time of", e->path);
	return give_to_slot(m, m->layout->lower_fd, e->path.ptr);
}

static int lay_entry(struct making *m, const struct bj_tree_entry *e)
{
	if (e->path.len >= PATH_MAX)
		return fail(m, ENAMETOOLONG, "lay out", e->path);
	switch (e->kind) {
	case BJ_NODE_DIR:
		m->layout->n_others++;
		return make_slot_dir(m, m->layout->lower_fd, e->path.ptr, 0755);
	case BJ_NODE_FILE:
		return lay_file(m, e);
	default:
		return lay_symlink(m, e);
	}
}

/* Last, since making a child touches its parent. */
static int set_dir_times(struct making *m)
{
	for (size_t i = 0; i < m->tree->n_entries; i++) {
		const struct bj_tree_entry *e = &m->tree->entries[i];

		if (e->kind == BJ_NODE_DIR &&
		    utimensat(m->layout->lower_fd, e->path.ptr, input_times, 0) < 0)
			return fail(m, errno, "set the time of", e->path);
	}
	if (futimens(m->layout->lower_fd, input_times) < 0)
		return bj_err_errno(m->err, errno, "set the time of the input root");
	return 0;
}

/* ---- the directories that outputs need ---- */

/* Its time is fixed too: an input directory that holds an output shows the upper layer's. */
static int make_upper_dir(struct making *m, const char *path)
{
	struct made *made = BJ_ARENA_NEW(m->arena, struct made);

	if (!made)
		return no_memory(m);
	if (mkdirat(m->layout->upper_fd, path, 0755) < 0)
		return errno == EEXIST
			       ? 0
			       : fail(m, errno, "make the output directory", bj_str_of(path));
	if (0755 & m->work->umask_bits && fchmodat(m->layout->upper_fd, path, 0755, 0) < 0)
		return fail(m, errno, "set the mode of", bj_str_of(path));
	*made = (struct made){ m->made, path };
	m->made = made;
	m->layout->n_others++;
	return give_to_slot(m, m->layout->upper_fd, path);
}

/** Where a walk over the declared tree stands. */
struct place {
	struct bj_str done; /* relative to the input root, no link in it */
	struct bj_str todo;
	unsigned n_links;
};

/* "a/b" without its last component. */
static struct bj_str parent_of(struct bj_str path)
{
	while (path.len && path.ptr[path.len - 1] != '/')
		path.len--;
	return bj_str_sub(path, 0, path.len ? path.len - 1 : 0);
}

/* Continues with the link's target. False: it leads where we make nothing, out of the input root or in circles. */
static bool follow(struct making *m, struct place *at, struct bj_str target, bool *no_mem)
{
	static const struct bj_str root = { BJ_JAIL_ROOT, sizeof(BJ_JAIL_ROOT) - 1 };

	if (++at->n_links > MAX_LINKS || target.len + at->todo.len >= PATH_MAX)
		return false;
	if (target.len && target.ptr[0] == '/') {
		if (!bj_str_has_prefix(target, root) ||
		    (target.len > root.len && target.ptr[root.len] != '/'))
			return false;
		target = bj_str_sub(target, root.len, target.len);
		at->done = BJ_STR_NULL;
	}
	at->todo = bj_str_of(
		bj_arena_printf(m->arena, "%.*s/%.*s", BJ_STR_FMT(target), BJ_STR_FMT(at->todo)));
	*no_mem = !at->todo.ptr;
	return !*no_mem;
}

/* One component. Return: 1 go on, 0 nothing more can be made here, negative. */
static int step_output_parent(struct making *m, struct place *at)
{
	struct bj_str name = bj_str_cut(&at->todo, '/');
	bool no_mem = false;

	if (name.len == 0 || bj_str_eq(name, BJ_STR_LIT(".")))
		return 1;
	if (bj_str_eq(name, BJ_STR_LIT(".."))) {
		if (at->done.len == 0)
			return 0;
		at->done = parent_of(at->done);
		return 1;
	}
	char *path = bj_arena_printf(m->arena, "%.*s%s%.*s", BJ_STR_FMT(at->done),
				     at->done.len ? "/" : "", BJ_STR_FMT(name));

	if (!path)
		return no_memory(m);
	const struct bj_tree_entry *e = bj_tree_find(m->tree, bj_str_of(path));

	if (e && e->kind == BJ_NODE_SYMLINK) {
		bool ok = follow(m, at, e->target, &no_mem);

		return ok ? 1 : no_mem ? no_memory(m) : 0;
	}
	if (e && e->kind == BJ_NODE_FILE)
		return bj_err_set(
			m->err, BJ_INVALID_ARGUMENT,
			"an output needs \"%.*s\" as a directory, but it is an input file",
			BJ_STR_FMT(bj_str_printable(m->arena, e->path, SHOWN_BYTES)));
	int r = make_upper_dir(m, path);

	at->done = bj_str_of(path);
	return r < 0 ? r : 1;
}

/* A symlink of the input tree on the way is followed: the directory is where it leads. */
static int make_output_parent(struct making *m, struct bj_str dir)
{
	struct place at = { .todo = dir };
	const struct bj_tree_entry *whole = bj_tree_find(m->tree, dir);
	int r = 1;

	if (whole && whole->kind == BJ_NODE_DIR)
		return 0;
	while (r > 0 && at.todo.len)
		r = step_output_parent(m, &at);
	return r;
}

static int make_output_parents(struct making *m, const struct bj_str *parents, size_t n_parents)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_parents; i++) {
		r = make_output_parent(m, parents[i]);
		r = r > 0 ? 0 : r;
	}
	for (const struct made *made = m->made; r == 0 && made; made = made->next)
		if (utimensat(m->layout->upper_fd, made->path, input_times, 0) < 0)
			r = fail(m, errno, "set the time of", bj_str_of(made->path));
	if (r == 0 && futimens(m->layout->upper_fd, input_times) < 0)
		r = bj_err_errno(m->err, errno, "set the time of the input root");
	return r;
}

/* ---- the whole ---- */

static int make_plain_dir(struct making *m, const char *name, mode_t mode)
{
	if (mkdirat(m->work->dir_fd, name, mode) < 0 ||
	    fchmodat(m->work->dir_fd, name, mode, 0) < 0)
		return bj_err_errno(m->err, errno, "make \"%s\" in the work area", name);
	return 0;
}

static int make_skeleton(struct making *m)
{
	struct bj_layout *l = m->layout;
	int fd = m->work->dir_fd;
	int r = make_plain_dir(m, l->dir, 0711);

	if (r == 0)
		r = make_slot_dir(m, fd, l->lower, 0755);
	if (r == 0)
		r = make_slot_dir(m, fd, l->upper, 0755);
	if (r == 0)
		r = make_plain_dir(m, l->ovl, 0700);
	if (r == 0)
		r = make_slot_dir(m, fd, l->tmp, 01777);
	if (r == 0)
		r = make_slot_dir(m, fd, l->shm, 01777);
	if (r < 0)
		return r;
	l->lower_fd = openat(fd, l->lower, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	l->upper_fd = openat(fd, l->upper, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (l->lower_fd < 0 || l->upper_fd < 0)
		return bj_err_errno(m->err, errno, "open the input root");
	return 0;
}

static int make_all(struct making *m, const struct bj_str *parents, size_t n_parents)
{
	int r = make_skeleton(m);

	for (size_t i = 0; r == 0 && i < m->tree->n_entries; i++)
		r = lay_entry(m, &m->tree->entries[i]);
	if (r == 0 && m->missing.n_entries)
		return BJ_LAYOUT_E_MISSING;
	if (r == 0)
		r = set_dir_times(m);
	if (r == 0)
		r = make_output_parents(m, parents, n_parents);
	return r;
}

/* In the order of the tree, so that the same tree gives the same answer. */
static int list_missing(struct making *m, struct bj_missing *out)
{
	struct bj_digest *list = BJ_ARENA_ARRAY(m->arena, struct bj_digest, m->missing.n_entries);
	size_t n = 0;

	if (!list)
		return no_memory(m);
	for (size_t i = 0; i < m->tree->n_entries; i++) {
		const struct bj_tree_entry *e = &m->tree->entries[i];

		if (e->kind == BJ_NODE_FILE &&
		    bj_map_remove(&m->missing, bj_digest_key(&e->digest)))
			list[n++] = e->digest;
	}
	*out = (struct bj_missing){ list, n };
	return BJ_LAYOUT_E_MISSING;
}

static void name_parts(struct bj_layout *l, unsigned long long id)
{
	(void)snprintf(l->dir, sizeof(l->dir), "actions/%llu", id);
	(void)snprintf(l->lower, sizeof(l->lower), "%s/lower", l->dir);
	(void)snprintf(l->upper, sizeof(l->upper), "%s/upper", l->dir);
	(void)snprintf(l->ovl, sizeof(l->ovl), "%s/ovl", l->dir);
	(void)snprintf(l->tmp, sizeof(l->tmp), "%s/tmp", l->dir);
	(void)snprintf(l->shm, sizeof(l->shm), "%s/shm", l->dir);
}

int bj_layout_make(struct bj_work *work, const struct bj_tree *tree,
		   const struct bj_str *output_parents, size_t n_output_parents, uid_t uid,
		   gid_t gid, bj_private_fn is_private, void *ctx, struct bj_arena *arena,
		   struct bj_layout *out_layout, struct bj_missing *out_missing, struct bj_err *err)
{
	struct bj_layout layout = BJ_LAYOUT_NULL;
	struct making m = { .work = work,
			    .tree = tree,
			    .layout = &layout,
			    .uid = uid,
			    .gid = gid,
			    .is_private = is_private,
			    .ctx = ctx,
			    .arena = arena,
			    .err = err };

	name_parts(&layout, atomic_fetch_add(&work->next_id, 1));
	int r = make_all(&m, output_parents, n_output_parents);

	if (r == BJ_LAYOUT_E_MISSING)
		r = list_missing(&m, out_missing);
	bj_map_deinit(&m.seen);
	bj_map_deinit(&m.missing);
	if (r != 0) {
		bj_layout_drop(work, &layout);
		return r;
	}
	*out_layout = layout;
	return 0;
}
