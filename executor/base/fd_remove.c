// SPDX-License-Identifier: Apache-2.0
/*
 * bj_remove_tree(): depth first, without recursion, with a bounded number of descriptors.
 *
 *	levels:  top ... closed closed | open open open open  <- current
 *	                               '-- the OPEN_LEVELS deepest hold a DIR
 *
 * Going down, the shallowest open level is closed. Coming back up to a closed level, it is opened again as ".." of its
 * child, checked against the device and inode that were noted on the way down (somebody may have moved the child), and
 * read from the start: what was removed is gone, so reading resumes by itself. A directory that could not be removed is
 * noted by inode, so that reading again does not go down into it again; each directory is therefore entered once, and
 * the walk ends. No path longer than one name is ever used, so neither PATH_MAX nor the depth matters.
 *
 * Directories are opened with RESOLVE_NO_XDEV, downwards and upwards: a mount point that was left behind is an error
 * (EXDEV), never a way to somebody's files, and whatever else goes wrong the walk stays on the mount where it began.
 */
#include "executor/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/map.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; the number is the same on every architecture */
#endif

/*
 * gcc 12's analyzer forgets that a stream is stored in the array of levels, and calls it leaked wherever it looks next.
 * LeakSanitizer and the count of descriptors in the unit test say that it is not.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { OPEN_LEVELS = 16 };

struct inode_id {
	uint64_t dev;
	uint64_t ino;
};

struct level {
	struct inode_id id;
	DIR *dir;	    /* NULL: closed to save descriptors; never NULL for the current level */
	size_t name_offset; /* its name in its parent, in walk.names, NUL-terminated */
	bool has_progress;  /* an entry went since reading last started */
};

struct walk {
	int top_dirfd;	      /* borrowed */
	struct level *levels; /* owned; n_levels used of cap_levels */
	size_t n_levels;
	size_t cap_levels;
	struct bj_buf names;   /* stack of names, one a level */
	struct bj_map stuck;   /* inode_id -> non-NULL: directories that would not go */
	struct bj_arena arena; /* keys of stuck */
	int first_error;       /* errno, 0 while all is well */
};

static void note_error(struct walk *walk, int errnum)
{
	if (walk->first_error == 0)
		walk->first_error = errnum;
}

static struct inode_id id_of(const struct stat *st)
{
	return (struct inode_id){ st->st_dev, st->st_ino };
}

static struct bj_str id_key(const struct inode_id *id)
{
	return bj_str_n(id, sizeof(*id));
}

/* chmod that follows no link. glibc's own goes through /proc, which a jail may lack; the kernel's is new. */
static int chmod_nofollow(int dirfd, const char *name, mode_t mode)
{
	if (syscall(SYS_fchmodat2, dirfd, name, mode, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	/* ENOSYS before 6.6; EPERM from container filters that do not know the call. */
	return fchmodat(dirfd, name, mode, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int open_dir(int dirfd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* Opens a directory so that it can be read, searched and written by its owner. Returns a descriptor or -errno. */
static int open_dir_forced(int dirfd, const char *name, struct inode_id *out_id)
{
	bj_cleanup(bj_close_fdp) int fd = open_dir(dirfd, name);
	if (fd == -EACCES && chmod_nofollow(dirfd, name, 0700) == 0)
		fd = open_dir(dirfd, name);
	if (fd < 0)
		return fd;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) != 0700)
		(void)fchmod(fd,
			     (st.st_mode & 07777) | 0700); /* if it matters, the removals fail */
	*out_id = id_of(&st);
	return BJ_STEAL_FD(fd);
}

static bool is_stuck(const struct walk *walk, const struct inode_id *id)
{
	return bj_map_get(&walk->stuck, id_key(id)) != NULL;
}

static int note_stuck(struct walk *walk, const struct inode_id *id)
{
	struct inode_id *key = bj_arena_memdup(&walk->arena, id, sizeof(*id));
	if (!key || !bj_map_put(&walk->stuck, id_key(key), key, NULL))
		return -ENOMEM;
	return 0;
}

static bool grow_levels(struct walk *walk)
{
	if (walk->n_levels < walk->cap_levels)
		return true;
	size_t cap = walk->cap_levels ? bj_size_mul(walk->cap_levels, 2) : OPEN_LEVELS;
	struct level *levels = bj_realloc(walk->levels, bj_size_mul(cap, sizeof(*levels)));
	if (!levels)
		return false;
	walk->levels = levels;
	walk->cap_levels = cap;
	return true;
}

/* Makes the directory @fd (consumed) the current level. */
static int push_level(struct walk *walk, int fd, const char *name, struct inode_id id)
{
	bj_cleanup(bj_close_fdp) int owned = fd;
	size_t name_offset = walk->names.len;
	if (!grow_levels(walk) || !bj_buf_append(&walk->names, name, strlen(name) + 1))
		return -ENOMEM;
	DIR *dir = fdopendir(owned);
	if (!dir) {
		walk->names.len = name_offset;
		return -errno;
	}
	owned = -EBADF; /* dir has it */
	walk->levels[walk->n_levels++] = (struct level){ id, dir, name_offset, false };

	if (walk->n_levels > OPEN_LEVELS) {
		struct level *far = &walk->levels[walk->n_levels - 1 - OPEN_LEVELS];
		if (far->dir)
			(void)closedir(far->dir); /* opened again on the way up */
		far->dir = NULL;
	}
	return 0;
}

static void pop_level(struct walk *walk)
{
	struct level *level = &walk->levels[--walk->n_levels];
	if (level->dir)
		(void)closedir(level->dir); /* read only: nothing is lost */
	walk->names.len = level->name_offset;
}

/*
 * Goes down into @name. Only what ends the whole walk is returned; a directory that cannot be entered is noted, and
 * what turns out not to be one, with the errno that unlink gave.
 */
static int descend(struct walk *walk, int dirfd, const char *name, int unlink_errno)
{
	struct inode_id id;
	int fd = open_dir_forced(dirfd, name, &id);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0) {
		bool is_dir = fd != -ENOTDIR && fd != -ELOOP;
		note_error(walk, is_dir || !unlink_errno ? -fd : unlink_errno);
		return 0;
	}
	if (is_stuck(walk, &id)) {
		(void)close(fd);
		return 0;
	}
	return push_level(walk, fd, name, id);
}

static int visit_entry(struct walk *walk, struct level *level, const struct dirent *entry)
{
	const char *name = entry->d_name;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	int fd = dirfd(level->dir);
	if (entry->d_type == DT_DIR)
		return descend(walk, fd, name, 0);
	if (unlinkat(fd, name, 0) == 0) {
		level->has_progress = true;
		return 0;
	}
	/* EISDIR, or a denial that comes before the look at the type: with a type unknown it may be a directory. */
	if (entry->d_type == DT_UNKNOWN || errno == EISDIR)
		return descend(walk, fd, name, errno);
	if (errno != ENOENT)
		note_error(walk, errno);
	return 0;
}

/* Opens again, from below, the closed level @want above @child. NULL with errno set on failure. */
static DIR *reopen_parent(struct inode_id want, const struct level *child)
{
	/* not across a mount: the walk did not come down one */
	int fd = open_dir(dirfd(child->dir), "..");
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	DIR *dir = NULL;
	struct stat st;
	if (fstat(fd, &st) == 0) {
		struct inode_id id = id_of(&st);
		if (id.dev == want.dev && id.ino == want.ino)
			dir = fdopendir(fd);
		else
			errno = ESTALE; /* the child was moved: what is above it is not ours */
	}
	if (!dir)
		bj_close_fdp(&fd); /* keeps errno; otherwise dir has it */
	return dir;
}

/* The current directory is read to its end: remove it and go up, or read it once more. */
static int finish_level(struct walk *walk)
{
	struct level *level = &walk->levels[walk->n_levels - 1];
	struct level *parent = walk->n_levels > 1 ? &walk->levels[walk->n_levels - 2] : NULL;
	if (parent && !parent->dir) {
		parent->dir = reopen_parent(parent->id, level);
		if (!parent->dir)
			return -errno;
	}
	int fd = parent ? dirfd(parent->dir) : walk->top_dirfd;
	if (unlinkat(fd, walk->names.data + level->name_offset, AT_REMOVEDIR) == 0) {
		if (parent)
			parent->has_progress = true;
	} else if (errno == ENOTEMPTY && level->has_progress) {
		/* Some file systems skip entries when others are removed while reading. */
		level->has_progress = false;
		rewinddir(level->dir);
		return 0;
	} else if (errno != ENOENT) {
		note_error(walk, errno);
		int r = note_stuck(walk, &level->id);
		if (r < 0)
			return r;
	}
	pop_level(walk);
	return 0;
}

static int run_walk(struct walk *walk)
{
	int r = 0;
	while (r == 0 && walk->n_levels > 0) {
		struct level *level = &walk->levels[walk->n_levels - 1];
		errno = 0;
		const struct dirent *entry = readdir(level->dir);
		if (entry) {
			r = visit_entry(walk, level, entry);
			continue;
		}
		if (errno != 0)
			note_error(walk, errno);
		r = finish_level(walk);
	}
	return r;
}

/* @unlink_errno says why @name could not be unlinked as a file. */
static int remove_directory(int top_dirfd, const char *name, int unlink_errno)
{
	struct walk walk = {
		.top_dirfd = top_dirfd,
		.names = BJ_BUF_INIT(SIZE_MAX / 2),
		.stuck = BJ_MAP_NULL,
	};
	bj_arena_init(&walk.arena, 0);
	int r = descend(&walk, top_dirfd, name, unlink_errno);
	if (r == 0)
		r = run_walk(&walk);
	if (r < 0)
		note_error(&walk, -r);

	while (walk.n_levels > 0)
		pop_level(&walk);
	bj_free(walk.levels);
	bj_buf_deinit(&walk.names);
	bj_map_deinit(&walk.stuck);
	bj_arena_deinit(&walk.arena);
	return -walk.first_error;
}

/* Opens the directory that holds @last, the last name of @path; *out_fd is an owned descriptor. */
static int open_holder(int dirfd, const char *path, const char *last, int *out_fd)
{
	size_t len = (size_t)(last - path);
	bj_cleanup(bj_freep) char *holder = len ? bj_strndup(path, len) : bj_strdup(".");
	if (!holder)
		return -ENOMEM;
	int fd = openat(dirfd, holder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*out_fd = fd;
	return 0;
}

int bj_remove_tree(int dirfd, const char *name)
{
	const char *slash = strrchr(name, '/');
	const char *last = slash ? slash + 1 : name;
	if (last[0] == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		return -EINVAL;
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	int unlink_errno = errno;
	bj_cleanup(bj_close_fdp) int holder_fd = -EBADF;
	int r = open_holder(dirfd, name, last, &holder_fd);
	return r < 0 ? r : remove_directory(holder_fd, last, unlink_errno);
}
