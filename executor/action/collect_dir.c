// SPDX-License-Identifier: Apache-2.0
/*
 * An output directory as a Tree.
 *
 * A Directory's bytes hold its children's digests, so directories are finished bottom-up, by an explicit stack. Each distinct one is kept
 * once, in the order in which it was first finished; a child is always finished before any of its parents, so the reverse of that order
 * has every parent before its children and the root first: that is what is_topologically_sorted promises. Names are sorted bytewise, so
 * equal contents give equal bytes whatever order the file system lists them in.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/action/collect-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/base/map.h"
#include "executor/base/pb.h"

enum { MAX_DEPTH = 512 }; /* one open descriptor each */

/** One directory that is being read. */
struct level {
	int fd;
	const char *name; /* in the level above; of the first one: the output's path */
	char **names;	  /* sorted */
	size_t n_names, next;
	re_directory dir; /* lists have room for n_names */
};

struct done {
	struct done *older; /* the one finished before */
	struct bj_digest digest;
	struct bj_str bytes;
};

struct walk {
	struct bj_collect *c;
	struct bj_err *err;
	struct level *levels; /* MAX_DEPTH of them */
	size_t depth;
	struct bj_map by_digest;
	struct done *newest;   /* ends as the root */
	struct bj_digest last; /* of the directory finished last */
};

static int no_memory(struct walk *w)
{
	return bj_err_set(w->err, BJ_RESOURCE_EXHAUSTED, "out of memory for an output directory");
}

/* ---- texts ---- */

/* The path of @name in the newest level, cut at the left when it is long; for messages only. */
static struct bj_str shown_path(struct walk *w, const char *name)
{
	char path[COLLECT_SHOWN_BYTES];
	size_t at = sizeof(path);

	for (size_t i = w->depth;; name = w->levels[i].name) {
		size_t len = strlen(name), slash = at < sizeof(path) && len;

		if (len + slash + 3 > at) {
			at -= 3;
			memcpy(path + at, "...", 3);
			break;
		}
		if (slash)
			path[--at] = '/';
		at -= len;
		memcpy(path + at, name, len);
		if (i-- == 0)
			break;
	}
	return bj_arena_str(w->c->arena, bj_str_n(path + at, sizeof(path) - at));
}

static int fail(struct walk *w, int errnum, const char *what, const char *name)
{
	return collect_errno(w->c->arena, errnum, what, shown_path(w, name), w->err);
}

/* ---- reading one level ---- */

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a,
		      *(char *const *)b); /* unsigned bytes, as the spec's order wants */
}

static int add_name(struct walk *w, struct level *l, size_t *cap, const char *name)
{
	if (l->n_names == *cap) {
		size_t bigger = *cap ? 2 * *cap : 16;
		char **names = BJ_ARENA_ARRAY(w->c->arena, char *, bigger);

		if (!names)
			return no_memory(w);
		if (l->n_names)
			memcpy(names, l->names, l->n_names * sizeof(*names));
		l->names = names;
		*cap = bigger;
	}
	l->names[l->n_names] = bj_str_dup(w->c->arena, bj_str_of(name));
	return l->names[l->n_names++] ? 0 : no_memory(w);
}

/* Of the newest level itself. */
static int list_errno(struct walk *w, int errnum)
{
	const char *name = w->levels[--w->depth].name;
	int r = fail(w, errnum, "list output", name);

	w->depth++;
	return r;
}

static int check_name(struct walk *w, const char *name)
{
	if (bj_str_is_utf8(bj_str_of(name)))
		return 0;
	struct bj_str shown =
		bj_str_printable(w->c->arena, shown_path(w, name), 4 * COLLECT_SHOWN_BYTES);

	return bj_err_set(w->err, BJ_FAILED_PRECONDITION,
			  "\"%.*s\" of an output directory: the name is not UTF-8",
			  BJ_STR_FMT(shown));
}

static int read_names(struct walk *w, struct level *l)
{
	int copy = fcntl(l->fd, F_DUPFD_CLOEXEC, 0); /* closedir closes its own */
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	size_t cap = 0;
	int r = 0;

	if (!dir) {
		int saved = errno;

		bj_close_fdp(&copy);
		return list_errno(w, saved);
	}
	errno = 0;
	for (struct dirent *e; r == 0 && (e = readdir(dir)) != NULL; errno = 0) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = check_name(w, e->d_name);
		if (r == 0)
			r = add_name(w, l, &cap, e->d_name);
	}
	if (r == 0 && errno)
		r = list_errno(w, errno);
	(void)closedir(dir);
	if (r == 0 && l->n_names)
		qsort(l->names, l->n_names, sizeof(*l->names), by_bytes);
	return r;
}

/* @fd is taken over in every case. */
static int push_level(struct walk *w, int fd, const char *name)
{
	if (w->depth == MAX_DEPTH) {
		close(fd);
		return bj_err_set(w->err, BJ_FAILED_PRECONDITION,
				  "an output directory is more than %d levels deep", MAX_DEPTH);
	}
	struct level *l = &w->levels[w->depth++];

	*l = (struct level){ .fd = fd, .name = name };
	build__bazel__remote__execution__v2__directory__init(&l->dir);
	int r = read_names(w, l);

	if (r < 0)
		return r;
	l->dir.files = BJ_ARENA_ARRAY(w->c->arena, re_file_node *, l->n_names);
	l->dir.directories = BJ_ARENA_ARRAY(w->c->arena, re_directory_node *, l->n_names);
	l->dir.symlinks = BJ_ARENA_ARRAY(w->c->arena, re_symlink_node *, l->n_names);
	return l->dir.files && l->dir.directories && l->dir.symlinks ? 0 : no_memory(w);
}

/* ---- entries ---- */

static int add_file_node(struct walk *w, struct level *l, char *name, mode_t mode)
{
	re_file_node *node = BJ_ARENA_NEW(w->c->arena, re_file_node);
	struct bj_digest digest;
	bj_cleanup(bj_close_fdp) int fd =
		openat(l->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return fail(w, errno, "open output", name);
	int r = collect_file(w->c, fd, bj_str_of(name), &digest, w->err);

	if (r < 0)
		return bj_err_wrap(w->err, "%.*s", BJ_STR_FMT(shown_path(w, name)));
	if (!node)
		return no_memory(w);
	build__bazel__remote__execution__v2__file_node__init(node);
	node->name = name;
	node->digest = bj_digest_to_pb(w->c->arena, &digest);
	node->is_executable = (mode & 0111) != 0;
	l->dir.files[l->dir.n_files++] = node;
	return node->digest ? 0 : no_memory(w);
}

static int add_symlink_node(struct walk *w, struct level *l, char *name)
{
	re_symlink_node *node = BJ_ARENA_NEW(w->c->arena, re_symlink_node);
	bj_cleanup(bj_close_fdp) int fd = openat(l->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return fail(w, errno, "open output", name);
	char *target = collect_readlink(w->c->arena, fd, shown_path(w, name), w->err);

	if (!target)
		return -(int)w->err->code;
	if (!node)
		return no_memory(w);
	build__bazel__remote__execution__v2__symlink_node__init(node);
	node->name = name;
	node->target = target;
	l->dir.symlinks[l->dir.n_symlinks++] = node;
	return 0;
}

static int enter_child(struct walk *w, struct level *l, char *name)
{
	re_directory_node *node = BJ_ARENA_NEW(w->c->arena, re_directory_node);
	int fd = openat(l->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return fail(w, errno, "open output", name);
	if (!node) {
		close(fd);
		return no_memory(w);
	}
	build__bazel__remote__execution__v2__directory_node__init(node);
	node->name = name; /* the digest follows when the child is finished */
	l->dir.directories[l->dir.n_directories++] = node;
	return push_level(w, fd, name);
}

static int visit(struct walk *w, struct level *l, char *name)
{
	struct stat st;

	if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(w, errno, "look at output", name);
	if (S_ISREG(st.st_mode))
		return add_file_node(w, l, name, st.st_mode);
	if (S_ISLNK(st.st_mode))
		return add_symlink_node(w, l, name);
	if (S_ISDIR(st.st_mode))
		return enter_child(w, l, name);
	return collect_refuse(w->c->arena, shown_path(w, name), "a file, directory or symlink",
			      st.st_mode, w->err);
}

/* ---- finishing ---- */

static int remember(struct walk *w, struct bj_str bytes)
{
	w->last = bj_digest_of(w->c->fn, bytes);
	if (bj_map_get(&w->by_digest, bj_digest_key(&w->last)))
		return 0;
	struct done *d = BJ_ARENA_NEW(w->c->arena, struct done);

	if (!d)
		return no_memory(w);
	*d = (struct done){ .older = w->newest, .digest = w->last, .bytes = bytes };
	w->newest = d;
	if (!bj_map_put(&w->by_digest, bj_digest_key(&d->digest), d, NULL))
		return no_memory(w);
	return w->c->wants_directories
		       ? bj_store_put(w->c->store, w->c->fn, bytes, &d->digest, NULL, w->err)
		       : 0;
}

static int pop_level(struct walk *w)
{
	struct level *l = &w->levels[w->depth - 1];
	struct bj_str bytes = bj_pb_pack(w->c->arena, &l->dir.base);

	if (!bytes.ptr)
		return no_memory(w);
	bj_close_fdp(&l->fd);
	w->depth--;
	int r = remember(w, bytes);

	if (r < 0 || w->depth == 0)
		return r;
	struct level *parent = &w->levels[w->depth - 1];
	re_directory_node *node = parent->dir.directories[parent->dir.n_directories - 1];

	node->digest = bj_digest_to_pb(w->c->arena, &w->last);
	return node->digest ? 0 : no_memory(w);
}

static int walk_all(struct walk *w)
{
	int r = 0;

	while (r == 0 && w->depth) {
		struct level *l = &w->levels[w->depth - 1];

		r = l->next < l->n_names ? visit(w, l, l->names[l->next++]) : pop_level(w);
	}
	return r;
}

/* Root first, then the rest from the newest to the oldest: field 1 and field 2 of Tree, both length-delimited, written by hand so that
 * the bytes are those that were hashed. */
static bool append_field(struct bj_buf *buf, char tag, struct bj_str bytes)
{
	size_t n = bytes.len;

	(void)bj_buf_append_char(buf, tag); /* a refused append shows in the last one */
	while (n >= 0x80) {
		(void)bj_buf_append_char(buf, (char)(unsigned char)(n | 0x80));
		n >>= 7;
	}
	(void)bj_buf_append_char(buf, (char)n);
	return bj_buf_append_str(buf, bytes);
}

static int store_tree(struct walk *w, struct bj_digest *out_digest)
{
	struct bj_buf buf = BJ_BUF_INIT(SIZE_MAX / 2);

	bj_assert(w->newest != NULL); /* the root was finished last */
	bool ok = append_field(&buf, 0x0a, w->newest->bytes);

	for (const struct done *d = w->newest->older; d && ok; d = d->older)
		ok = append_field(&buf, 0x12, d->bytes);
	int r = ok ? bj_store_put(w->c->store, w->c->fn, bj_buf_str(&buf), NULL, out_digest, w->err)
		   : no_memory(w);

	bj_buf_deinit(&buf);
	return r;
}

static int add_result(struct walk *w, struct bj_output *output, re_action_result *result)
{
	re_output_directory *dir = BJ_ARENA_NEW(w->c->arena, re_output_directory);
	struct bj_digest tree;

	if (!dir)
		return no_memory(w);
	build__bazel__remote__execution__v2__output_directory__init(dir);
	dir->path = bj_str_dup(w->c->arena, output->path);
	if (w->c->wants_tree) {
		int r = store_tree(w, &tree);

		if (r < 0)
			return r;
		dir->tree_digest = bj_digest_to_pb(w->c->arena, &tree);
		dir->is_topologically_sorted = true;
	}
	if (w->c->wants_directories)
		dir->root_directory_digest = bj_digest_to_pb(w->c->arena, &w->last);
	if (!dir->path || (w->c->wants_tree && !dir->tree_digest) ||
	    (w->c->wants_directories && !dir->root_directory_digest))
		return no_memory(w);
	result->output_directories[result->n_output_directories++] = dir;
	return 0;
}

int collect_directory(struct bj_collect *collect, struct bj_output *output, int dir_fd,
		      re_action_result *result, struct bj_err *err)
{
	struct walk w = { .c = collect, .err = err };
	int r;

	char *name = bj_str_dup(collect->arena, output->path);

	w.levels = name ? BJ_NEW_ARRAY(struct level, MAX_DEPTH) : NULL;
	if (!w.levels) {
		close(dir_fd);
		return no_memory(&w);
	}
	r = push_level(&w, dir_fd, name);
	if (r == 0)
		r = walk_all(&w);
	if (r == 0)
		r = add_result(&w, output, result);
	while (w.depth)
		bj_close_fdp(&w.levels[--w.depth].fd);
	bj_map_deinit(&w.by_digest);
	bj_free(w.levels);
	return r < 0 ? bj_err_wrap(err, "output \"%.*s\"",
				   BJ_STR_FMT(bj_str_printable(collect->arena, output->path, 256)))
		     : 0;
}
