// SPDX-License-Identifier: Apache-2.0
/*
 * What the action left in its private layer. The upper layer of overlayfs holds exactly what was created, changed or removed: a removed
 * name is a character device 0:0, everything else is itself. Walked with an explicit stack of descriptors, bounded in depth and number.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/action/collect-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/fd.h"

enum { MAX_DEPTH = 512 };

struct level {
	DIR *dir;
	struct bj_str path;
	size_t n_entries;
};

struct walk {
	const struct bj_layout *layout;
	struct level *levels;
	size_t depth, n_seen, max;
	bj_left_fn fn;
	void *ctx;
	struct bj_arena *arena;
	bool cut;
};

static bool lower_has(const struct walk *w, const char *path)
{
	struct stat st;

	return fstatat(w->layout->lower_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void report(struct walk *w, const char *path, const struct stat *st)
{
	bool is_whiteout = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
	struct bj_left left = {
		.path = bj_str_of(path),
		.size_bytes = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
		.is_dir = S_ISDIR(st->st_mode),
		.is_symlink = S_ISLNK(st->st_mode),
		.is_whiteout = is_whiteout,
		.is_special = !is_whiteout && !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) &&
			      !S_ISLNK(st->st_mode),
		.shadows_input = lower_has(w, path),
	};
	w->fn(w->ctx, &left);
}

/* @fd is taken over in every case. Too deep, or not to be listed: cut, which the caller is told. */
static void push(struct walk *w, int fd, struct bj_str path)
{
	DIR *dir = w->depth < MAX_DEPTH ? fdopendir(fd) : NULL;

	if (!dir) {
		close(fd);
		w->cut = true;
		return;
	}
	w->levels[w->depth++] = (struct level){ .dir = dir, .path = path };
}

static void visit(struct walk *w, struct level *l, const char *name)
{
	struct stat st;
	const char *path = bj_arena_printf(w->arena, "%.*s%s%s", BJ_STR_FMT(l->path),
					   l->path.len ? "/" : "", name);

	if (!path || ++w->n_seen > w->max) {
		w->cut = true;
		return;
	}
	if (fstatat(dirfd(l->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* every process is dead: it cannot vanish, and what cannot be looked at is nothing */
	if (!S_ISDIR(st.st_mode)) {
		report(w, path, &st);
		return;
	}
	int fd = openat(dirfd(l->dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		w->cut = true;
	else
		push(w, fd, bj_str_of(path));
}

static void pop(struct walk *w)
{
	struct level *l = &w->levels[--w->depth];
	struct stat st;

	/* An empty directory is a thing of its own; others show in what they hold. */
	if (l->n_entries == 0 && l->path.len && fstat(dirfd(l->dir), &st) == 0)
		report(w, l->path.ptr, &st);
	(void)closedir(l->dir);
}

static void step(struct walk *w)
{
	struct level *l = &w->levels[w->depth - 1];
	struct dirent *e = readdir(l->dir);

	if (!e || w->n_seen > w->max) {
		pop(w);
		return;
	}
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return;
	l->n_entries++;
	visit(w, l, e->d_name);
}

int bj_collect_left(const struct bj_layout *layout, size_t max, bj_left_fn fn, void *ctx,
		    struct bj_arena *arena, bool *out_cut, struct bj_err *err)
{
	struct walk w = { .layout = layout, .max = max, .fn = fn, .ctx = ctx, .arena = arena };
	int fd = openat(layout->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return bj_err_errno(err, errno, "open the action's layer");
	w.levels = BJ_NEW_ARRAY(struct level, MAX_DEPTH);
	if (!w.levels) {
		close(fd);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a walk");
	}
	push(&w, fd, BJ_STR_NULL);
	while (w.depth)
		step(&w);
	bj_free(w.levels);
	*out_cut = w.cut;
	return 0;
}
