// SPDX-License-Identifier: Apache-2.0
/*
 * What the action left in its private layer. The upper layer of overlayfs holds exactly what was created, changed or removed: a removed
 * name is a character device 0:0, everything else is itself. Walked with an explicit stack of descriptors, bounded in depth and number;
 * the path is one buffer that grows and shrinks with the walk.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/action/collect-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/buf.h"
#include "executor/base/fd.h"

enum { MAX_DEPTH = 512, PATH_MAX_BYTES = (MAX_DEPTH + 1) * (NAME_MAX + 1) };

struct level {
	DIR *dir;
	size_t path_len; /* of its own path in walk->path */
	size_t n_entries;
};

struct walk {
	const struct bj_layout *layout;
	struct level *levels;
	size_t depth, n_seen, max;
	bj_left_fn fn;
	void *ctx;
	struct bj_buf path; /* of what is looked at */
	bool cut;
};

/* A directory that replaced an input symlink has names below it that lead, in lower/, wherever the link leads: to the host. */
static bool lower_has(const struct walk *w, const char *path)
{
	bj_cleanup(bj_close_fdp) int fd =
		bj_open_beneath(w->layout->lower_fd, path, O_PATH | O_NOFOLLOW, 0);

	return fd >= 0;
}

static void report(struct walk *w, const struct stat *st)
{
	bool is_whiteout = S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
	const char *path = bj_buf_cstr(&w->path);
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

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
/* The analyzer of gcc 12 does not see that the directory lives on in the array of levels, where pop() closes it. */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif
/* @fd is taken over in every case. Too deep, or not to be listed: cut, which the caller is told. */
static void push(struct walk *w, int fd)
{
	DIR *dir = w->depth < MAX_DEPTH ? fdopendir(fd) : NULL;

	if (!dir) {
		close(fd);
		w->cut = true;
		return;
	}
	w->levels[w->depth++] = (struct level){ .dir = dir, .path_len = w->path.len };
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/* Puts the path of @name, in the level's directory, into w->path. */
static bool enter_path(struct walk *w, const struct level *l, const char *name)
{
	w->path.len = l->path_len;
	if (w->path.len)
		(void)bj_buf_append_char(&w->path, '/'); /* a refused append shows in the next */
	return bj_buf_append_cstr(&w->path, name);
}

static void visit(struct walk *w, struct level *l, const char *name)
{
	struct stat st;

	if (!enter_path(w, l, name) || ++w->n_seen > w->max) {
		w->cut = true;
		return;
	}
	if (fstatat(dirfd(l->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* every process is dead: it cannot vanish, and what cannot be looked at is nothing */
	if (!S_ISDIR(st.st_mode)) {
		report(w, &st);
		return;
	}
	int fd = openat(dirfd(l->dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		w->cut = true;
	else
		push(w, fd);
}

/* As the layout made it for an output that did not come. */
static bool is_untouched(const struct stat *st)
{
	return st->st_mtim.tv_sec == BJ_INPUT_MTIME && st->st_mtim.tv_nsec == 0;
}

static void pop(struct walk *w)
{
	struct level *l = &w->levels[--w->depth];
	struct stat st;

	/* An empty directory is a thing of its own; others show in what they hold. */
	w->path.len = l->path_len;
	if (l->n_entries == 0 && l->path_len && fstat(dirfd(l->dir), &st) == 0 &&
	    !is_untouched(&st))
		report(w, &st);
	(void)closedir(l->dir);
}

static void step(struct walk *w)
{
	struct level *l = &w->levels[w->depth - 1];

	errno = 0;
	struct dirent *e = w->n_seen > w->max || w->path.failed ? NULL : readdir(l->dir);

	if (!e) {
		w->cut = w->cut || errno != 0;
		pop(w);
		return;
	}
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return;
	l->n_entries++;
	visit(w, l, e->d_name);
}

int bj_collect_left(struct bj_layout *layout, size_t max, bj_left_fn fn, void *ctx, bool *out_cut,
		    struct bj_err *err)
{
	struct walk w = { .layout = layout,
			  .max = max,
			  .fn = fn,
			  .ctx = ctx,
			  .path = BJ_BUF_INIT(PATH_MAX_BYTES) };
	int fd = openat(layout->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return bj_err_errno(err, errno, "open the action's layer");
	w.levels = BJ_NEW_ARRAY(struct level, MAX_DEPTH);
	if (!w.levels) {
		close(fd);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a walk");
	}
	push(&w, fd);
	while (w.depth)
		step(&w);
	bj_free(w.levels);
	bj_buf_deinit(&w.path);
	layout->n_left = w.cut ? UINT64_MAX : w.n_seen;
	*out_cut = w.cut;
	return 0;
}
