// SPDX-License-Identifier: Apache-2.0
/*
 * The work area: what is in it from the start, and how trees leave it. layout_make.c fills one tree.
 *
 * Removing a tree costs some microseconds a name. A small one goes at once, on the slot's thread; a larger one is renamed into trash/
 * and left to the janitor, so that the slot takes its next action meanwhile. When the janitor is far behind, slots remove what they
 * made themselves: otherwise the area would fill with what nobody needs.
 */
#include "executor/action/layout-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"
#include "executor/base/pool.h"

enum {
	INLINE_REMOVE_ENTRIES = 20, /* up to so many a tree is removed at once */
	TRASH_MAX_WAITING = 256,    /* beyond it slots help themselves */
};

/* ---- janitor ---- */

/* Names are numbers, so the oldest waiting one is next; what a removal leaves behind is logged and stays until the work area dies. */
static void *janitor_main(void *arg)
{
	struct bj_work *work = arg;
	uint64_t next = 0;

	pthread_mutex_lock(&work->mu);
	for (;;) {
		while (!work->n_waiting && !work->is_stopping)
			pthread_cond_wait(&work->trash, &work->mu);
		if (work->is_stopping)
			break; /* the tmpfs goes away with the process */
		pthread_mutex_unlock(&work->mu);
		char name[40];

		(void)snprintf(name, sizeof(name), "trash/%llu", (unsigned long long)next++);
		int r = bj_remove_tree(work->dir_fd, name);

		if (r < 0)
			bj_warn("work: trash not removed name=%s error=\"%s\"", name, strerror(-r));
		pthread_mutex_lock(&work->mu);
		work->n_waiting--;
	}
	pthread_mutex_unlock(&work->mu);
	return NULL;
}

/* Return: 0, or -errno; -EAGAIN when the janitor has enough to do. */
static int throw_away(struct bj_work *work, const char *dir)
{
	char name[40];
	int r = -EAGAIN;

	pthread_mutex_lock(&work->mu);
	if (work->n_waiting < TRASH_MAX_WAITING) {
		(void)snprintf(name, sizeof(name), "trash/%llu", (unsigned long long)work->n_trash);
		r = renameat(work->dir_fd, dir, work->dir_fd, name) < 0 ? -errno : 0;
	}
	if (r == 0) {
		work->n_trash++;
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
	if (fchmodat(dir_fd, name, mode, 0) < 0)
		return bj_err_errno(err, errno, "set the mode of \"%s\" in the work area", name);
	return 0;
}

/* There is no way to ask for the umask without setting it, and other threads make files. */
static int find_umask(struct bj_work *work, struct bj_err *err)
{
	struct stat st;

	if (mkdirat(work->dir_fd, "umask", 0777) < 0 ||
	    fstatat(work->dir_fd, "umask", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    unlinkat(work->dir_fd, "umask", AT_REMOVEDIR) < 0)
		return bj_err_errno(err, errno, "make a directory in the work area");
	work->umask_bits = 0777 & ~st.st_mode;
	return 0;
}

static int open_hot(struct bj_work *work, uint64_t hot_bytes, struct bj_store *store,
		    struct bj_err *err)
{
	int fd = openat(work->dir_fd, "hot", O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return bj_err_errno(err, errno, "open hot in the work area");
	int r = bj_hot_new(fd, hot_bytes, store, &work->hot, err);

	if (r < 0)
		close(fd);
	return r;
}

static int open_parts(struct bj_work *work, const char *dir, uint64_t hot_bytes,
		      struct bj_store *store, struct bj_err *err)
{
	unsigned long janitor = 0;

	work->dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (work->dir_fd < 0)
		return bj_err_errno(err, errno, "open the work area \"%s\"", dir);
	int r = find_umask(work, err);

	if (r == 0)
		r = make_dir(work->dir_fd, "hot", 0711, err);
	if (r == 0)
		r = make_dir(work->dir_fd, "actions", 0711, err);
	if (r == 0)
		r = make_dir(work->dir_fd, "trash", 0700, err);
	if (r == 0)
		r = open_hot(work, hot_bytes, store, err);
	if (r == 0)
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

/* ---- the end of one tree ---- */

/* Nearly always empty. An action that filled them has more to remove than we would wait for. */
static bool has_empty_scratch(struct bj_work *work, const struct bj_layout *layout)
{
	return unlinkat(work->dir_fd, layout->tmp, AT_REMOVEDIR) == 0 &&
	       unlinkat(work->dir_fd, layout->shm, AT_REMOVEDIR) == 0;
}

bool bj_work_is_short(const struct bj_work *work)
{
	struct statvfs fs;

	if (fstatvfs(work->dir_fd, &fs) < 0)
		return true; /* not to be known: the careful answer */
	return fs.f_bavail < fs.f_blocks / 64 || (fs.f_files && fs.f_favail < fs.f_files / 64);
}

void bj_layout_drop(struct bj_work *work, struct bj_layout *layout)
{
	if (!layout->dir[0])
		return;
	uint64_t n = layout->n_linked + layout->n_copied + layout->n_others;
	bool is_small = n < INLINE_REMOVE_ENTRIES && layout->n_left < INLINE_REMOVE_ENTRIES &&
			has_empty_scratch(work, layout);
	int r = -EAGAIN;

	bj_close_fdp(&layout->lower_fd);
	bj_close_fdp(&layout->upper_fd);
	/* In want of room the next action must find it, not the janitor's good intention. */
	if (!is_small && !bj_work_is_short(work))
		r = throw_away(work, layout->dir);
	if (r == -EAGAIN)
		r = bj_remove_tree(work->dir_fd, layout->dir);
	if (r < 0 && r != -ENOENT)
		bj_warn("work: layout not removed dir=%s error=\"%s\"", layout->dir, strerror(-r));
	*layout = BJ_LAYOUT_NULL;
}
