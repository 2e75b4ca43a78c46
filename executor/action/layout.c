// SPDX-License-Identifier: Apache-2.0
/*
 * One private tree per action.
 *
 * lower/ gets the declared tree and is never written again; upper/ is the action's own layer and starts with the directories that must
 * exist for its outputs. Everything is made by one walk over the sorted entries, parents before children, relative to one descriptor.
 */
#include "executor/action/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/action/hot.h"
#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"
#include "executor/base/map.h"
#include "executor/base/pool.h"

/* Up to so many entries a tree is removed at once; larger ones go to the janitor. */
enum { INLINE_REMOVE_ENTRIES = 20 };

struct bj_work {
	struct bj_hot *hot;
	int dir_fd; /* the work area */
	atomic_ullong next_id;
	atomic_ullong n_trash;
	pthread_t janitor;
	bool has_janitor;
	pthread_mutex_t mu;
	pthread_cond_t trash; /* something was thrown away, or stopping */
	uint64_t n_waiting;   /* entries in trash/ not yet looked at */
	bool is_stopping;
};

/* ---- janitor ---- */

/* Names are numbers, so the oldest waiting one is next; what a removal leaves behind is logged and stays until the work area dies. */
static void *janitor_main(void *arg)
{
	struct bj_work *work = arg;
	unsigned long long next = 0;

	pthread_mutex_lock(&work->mu);
	for (;;) {
		while (!work->n_waiting && !work->is_stopping)
			pthread_cond_wait(&work->trash, &work->mu);
		if (work->is_stopping)
			break; /* the tmpfs goes away with the process */
		work->n_waiting--;
		pthread_mutex_unlock(&work->mu);
		char name[40];

		(void)snprintf(name, sizeof(name), "trash/%llu", next++);
		int r = bj_remove_tree(work->dir_fd, name);

		if (r < 0)
			bj_warn("work: trash not removed name=%s error=\"%s\"", name, strerror(-r));
		pthread_mutex_lock(&work->mu);
	}
	pthread_mutex_unlock(&work->mu);
	return NULL;
}

static int throw_away(struct bj_work *work, const char *dir)
{
	char name[40];

	pthread_mutex_lock(&work->mu);
	unsigned long long id = atomic_load(&work->n_trash);

	(void)snprintf(name, sizeof(name), "trash/%llu", id);
	int r = renameat(work->dir_fd, dir, work->dir_fd, name) < 0 ? -errno : 0;

	if (r == 0) {
		atomic_store(&work->n_trash, id + 1);
		work->n_waiting++;
		pthread_cond_signal(&work->trash);
	}
	pthread_mutex_unlock(&work->mu);
	return r;
}

/* ---- life of the work area ---- */

static int make_dir(int dir_fd, const char *name, mode_t mode, struct bj_err *err)
{
	if (mkdirat(dir_fd, name, mode) < 0 && errno != EEXIST)
		return bj_err_errno(err, errno, "make \"%s\" in the work area", name);
	return 0;
}

static int open_parts(struct bj_work *work, const char *dir, uint64_t hot_bytes,
		      struct bj_store *store, struct bj_err *err)
{
	unsigned long janitor;

	work->dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (work->dir_fd < 0)
		return bj_err_errno(err, errno, "open the work area \"%s\"", dir);
	int r = make_dir(work->dir_fd, "hot", 0711, err);

	if (r == 0)
		r = make_dir(work->dir_fd, "actions", 0711, err);
	if (r == 0)
		r = make_dir(work->dir_fd, "trash", 0700, err);
	if (r < 0)
		return r;
	int hot_fd = openat(work->dir_fd, "hot", O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	if (hot_fd < 0)
		return bj_err_errno(err, errno, "open hot in the work area");
	r = bj_hot_new(hot_fd, hot_bytes, store, &work->hot, err);
	if (r < 0) {
		close(hot_fd);
		return r;
	}
	r = bj_thread_start("bj-janitor", janitor_main, work, &janitor, err);
	if (r < 0)
		return r;
	work->janitor = janitor;
	work->has_janitor = true;
	return 0;
}

int bj_work_open(const char *work_dir, uint64_t hot_bytes, struct bj_store *store,
		 struct bj_work **out_work, struct bj_err *err)
{
	struct bj_work *work = BJ_NEW(struct bj_work);

	if (!work)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the work area");
	work->dir_fd = -EBADF;
	if (pthread_mutex_init(&work->mu, NULL) || pthread_cond_init(&work->trash, NULL)) {
		bj_free(work);
		return bj_err_set(err, BJ_INTERNAL, "work area: cannot make its locks");
	}
	int r = open_parts(work, work_dir, hot_bytes, store, err);

	if (r < 0) {
		bj_work_close(work);
		return r;
	}
	*out_work = work;
	return 0;
}

void bj_work_close(struct bj_work *work)
{
	if (!work)
		return;
	pthread_mutex_lock(&work->mu);
	work->is_stopping = true;
	pthread_cond_signal(&work->trash);
	pthread_mutex_unlock(&work->mu);
	if (work->has_janitor)
		(void)pthread_join(work->janitor, NULL);
	bj_hot_free(work->hot);
	(void)pthread_cond_destroy(&work->trash);
	(void)pthread_mutex_destroy(&work->mu);
	bj_close_fdp(&work->dir_fd);
	bj_free(work);
}

/* ---- one layout ---- */

struct making {
	struct bj_work *work;
	const struct bj_tree *tree;
	struct bj_layout *layout;
	uid_t uid;
	gid_t gid;
	bj_private_fn is_private; /* may be NULL */
	void *ctx;
	struct bj_map seen; /* digest and executable bit of the files laid out so far */
	struct bj_arena *arena;
	struct bj_missing missing;
	size_t missing_cap;
	int64_t n_twins; /* copies so far: each gets its own second */
	struct bj_err *err;
};

static int give_to_slot(struct making *m, int dir_fd, const char *path)
{
	/* In the userns profile there is one uid, and it is ours. */
	if (m->uid != 0 && fchownat(dir_fd, path, m->uid, m->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return bj_err_errno(m->err, errno, "give \"%s\" to the slot's uid", path);
	return 0;
}

static int make_slot_dir(struct making *m, int dir_fd, const char *path, mode_t mode)
{
	if (mkdirat(dir_fd, path, mode) < 0)
		return bj_err_errno(m->err, errno, "make the directory \"%s\"", path);
	if (mode & 01000 && fchmodat(dir_fd, path, mode, 0) < 0)
		return bj_err_errno(m->err, errno, "set the mode of \"%s\"", path);
	return give_to_slot(m, dir_fd, path);
}

static int note_missing(struct making *m, const struct bj_digest *digest)
{
	for (size_t i = 0; i < m->missing.n_digests; i++)
		if (bj_digest_eq(&m->missing.digests[i], digest))
			return 0;
	if (m->missing.n_digests == m->missing_cap) {
		size_t cap = m->missing_cap ? 2 * m->missing_cap : 16;
		struct bj_digest *list = BJ_ARENA_ARRAY(m->arena, struct bj_digest, cap);

		if (!list)
			return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED,
					  "out of memory for the missing blobs");
		if (m->missing.n_digests)
			memcpy(list, m->missing.digests, m->missing.n_digests * sizeof(*list));
		m->missing.digests = list;
		m->missing_cap = cap;
	}
	m->missing.digests[m->missing.n_digests++] = *digest;
	return 0;
}

/* An input that is an output as well: the action may write it in place, so it gets its own, and no other name shares it. */
static int lay_private(struct making *m, const struct bj_tree_entry *e)
{
	int fd = m->layout->lower_fd;
	int r = bj_hot_copy(m->work->hot, &e->digest, e->is_executable, BJ_INPUT_MTIME, fd,
			    e->path.ptr, m->err);

	if (r == BJ_HOT_E_MISSING)
		return note_missing(m, &e->digest);
	if (r < 0)
		return r;
	m->layout->n_copied++;
	m->layout->n_copied_bytes += e->digest.size_bytes;
	if (fchmodat(fd, e->path.ptr, e->is_executable ? 0755 : 0644, 0) < 0)
		return bj_err_errno(m->err, errno, "set the mode of \"%s\"", e->path.ptr);
	return give_to_slot(m, fd, e->path.ptr);
}

static int lay_file(struct making *m, const struct bj_tree_entry *e)
{
	if (m->is_private && m->is_private(m->ctx, e->path))
		return lay_private(m, e);
	char *key = bj_arena_memdup(m->arena, e->digest.hash, (size_t)e->digest.hash_len + 1);
	void *twin = NULL;

	if (!key)
		return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the input root");
	key[e->digest.hash_len] = e->is_executable ? 'x' : '-';
	if (!bj_map_put(&m->seen, bj_str_n(key, (size_t)e->digest.hash_len + 1),
			(void *)(uintptr_t)e, &twin))
		return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the input root");
	int r;

	if (twin) {
		r = bj_hot_copy(m->work->hot, &e->digest, e->is_executable,
				BJ_INPUT_MTIME + ++m->n_twins, m->layout->lower_fd, e->path.ptr,
				m->err);
		m->layout->n_copied++;
		m->layout->n_copied_bytes += e->digest.size_bytes;
	} else {
		r = bj_hot_link(m->work->hot, &e->digest, e->is_executable, m->layout->lower_fd,
				e->path.ptr, m->err);
		m->layout->n_linked++;
	}
	return r == BJ_HOT_E_MISSING ? note_missing(m, &e->digest) : r;
}

static int lay_symlink(struct making *m, const struct bj_tree_entry *e)
{
	char *target = bj_str_dup(m->arena, e->target);
	struct timespec times[2] = { { .tv_sec = BJ_INPUT_MTIME }, { .tv_sec = BJ_INPUT_MTIME } };

	if (!target)
		return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the input root");
	if (symlinkat(target, m->layout->lower_fd, e->path.ptr) < 0)
		return bj_err_errno(m->err, errno, "make the symlink \"%s\"", e->path.ptr);
	if (utimensat(m->layout->lower_fd, e->path.ptr, times, AT_SYMLINK_NOFOLLOW) < 0)
		return bj_err_errno(m->err, errno, "set the time of \"%s\"", e->path.ptr);
	return give_to_slot(m, m->layout->lower_fd, e->path.ptr);
}

static int lay_entry(struct making *m, const struct bj_tree_entry *e)
{
	switch (e->kind) {
	case BJ_NODE_DIR:
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
	struct timespec times[2] = { { .tv_sec = BJ_INPUT_MTIME }, { .tv_sec = BJ_INPUT_MTIME } };

	for (size_t i = 0; i < m->tree->n_entries; i++) {
		const struct bj_tree_entry *e = &m->tree->entries[i];

		if (e->kind == BJ_NODE_DIR &&
		    utimensat(m->layout->lower_fd, e->path.ptr, times, 0) < 0)
			return bj_err_errno(m->err, errno, "set the time of \"%s\"", e->path.ptr);
	}
	if (futimens(m->layout->lower_fd, times) < 0)
		return bj_err_errno(m->err, errno, "set the time of the input root");
	return 0;
}

/* One component chain of upper/. A symlink of the input tree on the way is left alone: the directory is where it leads. */
static int make_output_parent(struct making *m, struct bj_str dir)
{
	for (size_t end = 0; end < dir.len;) {
		end = bj_str_find(dir, '/', end + 1);
		char *path = bj_str_dup(m->arena, bj_str_sub(dir, 0, end));
		const struct bj_tree_entry *e = bj_tree_find(m->tree, bj_str_sub(dir, 0, end));

		if (!path)
			return bj_err_set(m->err, BJ_RESOURCE_EXHAUSTED,
					  "out of memory for the output directories");
		if (e && e->kind == BJ_NODE_SYMLINK)
			return 0;
		if (e && e->kind == BJ_NODE_FILE)
			return bj_err_set(
				m->err, BJ_FAILED_PRECONDITION,
				"an output needs \"%s\" as a directory, but it is an input file",
				path);
		if (mkdirat(m->layout->upper_fd, path, 0755) < 0) {
			if (errno == EEXIST)
				continue;
			return bj_err_errno(m->err, errno, "make the output directory \"%s\"",
					    path);
		}
		int r = give_to_slot(m, m->layout->upper_fd, path);

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_skeleton(struct making *m)
{
	struct bj_layout *l = m->layout;
	int fd = m->work->dir_fd;
	int r = make_dir(fd, l->dir, 0711, m->err);

	if (r == 0)
		r = make_slot_dir(m, fd, l->lower, 0755);
	if (r == 0)
		r = make_slot_dir(m, fd, l->upper, 0755);
	if (r == 0)
		r = make_dir(fd, l->ovl, 0700, m->err);
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
	if (r == 0 && m->missing.n_digests)
		return BJ_LAYOUT_E_MISSING;
	if (r == 0)
		r = set_dir_times(m);
	for (size_t i = 0; r == 0 && i < n_parents; i++)
		r = make_output_parent(m, parents[i]);
	return r;
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
		   struct bj_layout *out_layout,
		   struct bj_missing *out_missing, struct bj_err *err)
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

	bj_map_deinit(&m.seen);
	if (r != 0) {
		bj_layout_drop(work, &layout);
		if (r == BJ_LAYOUT_E_MISSING)
			*out_missing = m.missing;
		return r;
	}
	*out_layout = layout;
	return 0;
}

void bj_layout_drop(struct bj_work *work, struct bj_layout *layout)
{
	bool is_small = layout->n_linked + layout->n_copied < INLINE_REMOVE_ENTRIES;
	int r;

	if (!layout->dir[0])
		return;
	bj_close_fdp(&layout->lower_fd);
	bj_close_fdp(&layout->upper_fd);
	r = is_small ? bj_remove_tree(work->dir_fd, layout->dir) : throw_away(work, layout->dir);
	if (r < 0)
		bj_warn("work: layout not removed dir=%s error=\"%s\"", layout->dir, strerror(-r));
	*layout = BJ_LAYOUT_NULL;
}
