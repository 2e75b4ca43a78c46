// SPDX-License-Identifier: Apache-2.0
/* Declared outputs, one by one: what is it, and how does the result say so? Directories are collect_dir.c's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/action/collect-internal.h"
#include "executor/base/fd.h"
#include "executor/jail/spec.h"

/* Beneath the root, and the last component as it is. Links on the way may be followed as long as they stay beneath: an input tree may
 * have its outputs' directory behind one. */
static int open_output(const struct bj_collect *c, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned int)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, c->exec_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static const char *kind_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	default:
		return "device";
	}
}

int collect_refuse(struct bj_arena *arena, struct bj_str path, const char *wanted, mode_t found,
		   struct bj_err *err)
{
	return bj_err_set(err, BJ_FAILED_PRECONDITION, "output \"%.*s\" is a %s, wanted %s",
			  BJ_STR_FMT(bj_str_printable(arena, path, 512)), kind_name(found), wanted);
}

/* ---- files ---- */

static int add_file(struct bj_collect *c, struct bj_output *o, const char *full,
		    const struct stat *st, re_action_result *result, struct bj_err *err)
{
	struct bj_digest digest;
	re_output_file *file = BJ_ARENA_NEW(c->arena, re_output_file);
	bj_cleanup(bj_close_fdp) int fd = open_output(c, full, O_RDONLY | O_NONBLOCK);

	if (!file)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
	if (fd < 0)
		return bj_err_errno(err, -fd, "open output \"%.*s\"",
				    BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
	int r = bj_store_put_fd(c->store, c->fn, fd, &digest, err);

	if (r < 0)
		return bj_err_wrap(err, "store output \"%.*s\"",
				   BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
	build__bazel__remote__execution__v2__output_file__init(file);
	file->path = bj_str_dup(c->arena, o->path);
	file->digest = bj_digest_to_pb(c->arena, &digest);
	file->is_executable = (st->st_mode & 0111) != 0;
	if (!file->path || !file->digest)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
	result->output_files[result->n_output_files++] = file;
	return 0;
}

/* ---- symlinks ---- */

char *collect_readlink(struct bj_arena *arena, int fd, struct bj_str path, struct bj_err *err)
{
	char text[4096];
	ssize_t n = readlinkat(fd, "", text, sizeof(text));

	if (n < 0 || (size_t)n == sizeof(text)) {
		(void)bj_err_errno(err, n < 0 ? errno : ENAMETOOLONG, "read the symlink \"%.*s\"",
				   BJ_STR_FMT(bj_str_printable(arena, path, 512)));
		return NULL;
	}
	struct bj_str target = bj_str_n(text, (size_t)n);

	if (!bj_str_is_utf8(target) || bj_str_eq(target, BJ_STR_LIT(BJ_JAIL_ROOT)) ||
	    bj_str_has_prefix(target, BJ_STR_LIT(BJ_JAIL_ROOT "/"))) {
		(void)bj_err_set(err, BJ_FAILED_PRECONDITION,
				 "output \"%.*s\" is a symlink to \"%.*s\", which means nothing "
				 "outside the sandbox: make it relative",
				 BJ_STR_FMT(bj_str_printable(arena, path, 512)),
				 BJ_STR_FMT(bj_str_printable(arena, target, 512)));
		return NULL;
	}
	char *copy = bj_str_dup(arena, target);

	if (!copy)
		(void)bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
	return copy;
}

enum target { TARGET_UNKNOWN, TARGET_DIRECTORY, TARGET_OTHER };

/* What the link leads to, as the action would see it; the target is not read. Unknown: dangling, or outside of the input root. */
static enum target target_of(const struct bj_collect *c, const char *full)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, c->exec_fd, full, &how, sizeof(how));
	struct stat st;

	if (fd < 0)
		return TARGET_UNKNOWN;
	bool ok = fstat(fd, &st) == 0;

	close(fd);
	if (!ok)
		return TARGET_UNKNOWN;
	return S_ISDIR(st.st_mode) ? TARGET_DIRECTORY : TARGET_OTHER;
}

/*
 * Spec of output_file_symlinks: "servers that wish to be compatible with v2.0 API should still populate" it beside output_symlinks; and
 * "If an output symbolic link … was found, but its target type was not a regular file, the server will return a FAILED_PRECONDITION",
 * likewise for directories. Nothing is said of a link that leads nowhere: it goes into the list that it was declared for.
 */
static int add_legacy(struct bj_collect *c, const struct bj_output *o, const char *full,
		      re_output_symlink *link, re_action_result *result, struct bj_err *err)
{
	enum target target = target_of(c, full);
	bool is_dir = target == TARGET_DIRECTORY ||
		      (target == TARGET_UNKNOWN && o->style == BJ_OUTPUT_DIRECTORY);

	if (o->style == BJ_OUTPUT_FILE && is_dir)
		return bj_err_set(err, BJ_FAILED_PRECONDITION,
				  "output \"%.*s\" is a symlink to a directory, wanted a file",
				  BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
	if (o->style == BJ_OUTPUT_DIRECTORY && !is_dir)
		return bj_err_set(err, BJ_FAILED_PRECONDITION,
				  "output \"%.*s\" is a symlink to a file, wanted a directory",
				  BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
	if (is_dir)
		result->output_directory_symlinks[result->n_output_directory_symlinks++] = link;
	else
		result->output_file_symlinks[result->n_output_file_symlinks++] = link;
	return 0;
}

static int add_symlink(struct bj_collect *c, struct bj_output *o, const char *full, int fd,
		       re_action_result *result, struct bj_err *err)
{
	re_output_symlink *link = BJ_ARENA_NEW(c->arena, re_output_symlink);
	char *target = collect_readlink(c->arena, fd, o->path, err);

	if (!target)
		return -(int)err->code;
	if (!link || !(build__bazel__remote__execution__v2__output_symlink__init(link),
		       link->path = bj_str_dup(c->arena, o->path)))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
	link->target = target;
	if (o->style == BJ_OUTPUT_PATHS)
		result->output_symlinks[result->n_output_symlinks++] = link;
	return add_legacy(c, o, full, link, result, err);
}

/* ---- one output ---- */

static int add_by_kind(struct bj_collect *c, struct bj_output *o, const char *full, int fd,
		       const struct stat *st, re_action_result *result, struct bj_err *err)
{
	if (S_ISLNK(st->st_mode))
		return add_symlink(c, o, full, fd, result, err);
	if (S_ISREG(st->st_mode) && o->style != BJ_OUTPUT_DIRECTORY)
		return add_file(c, o, full, st, result, err);
	if (S_ISDIR(st->st_mode) && o->style != BJ_OUTPUT_FILE) {
		bj_cleanup(bj_close_fdp) int dir_fd = open_output(c, full, O_RDONLY | O_DIRECTORY);

		if (dir_fd < 0)
			return bj_err_errno(err, -dir_fd, "open output \"%.*s\"",
					    BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
		return collect_directory(c, o, BJ_STEAL_FD(dir_fd), result, err);
	}
	static const char *const wanted[] = {
		[BJ_OUTPUT_PATHS] = "a file, directory or symlink",
		[BJ_OUTPUT_FILE] = "a file",
		[BJ_OUTPUT_DIRECTORY] = "a directory",
	};
	return collect_refuse(c->arena, o->path, wanted[o->style], st->st_mode, err);
}

static int collect_one(struct bj_collect *c, struct bj_output *o, re_action_result *result,
		       struct bj_err *err)
{
	const char *full =
		bj_arena_printf(c->arena, "%.*s%s%.*s%s", BJ_STR_FMT(c->working_dir),
				c->working_dir.len && o->path.len ? "/" : "", BJ_STR_FMT(o->path),
				c->working_dir.len || o->path.len ? "" : ".");
	struct stat st;

	if (!full)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
	bj_cleanup(bj_close_fdp) int fd = open_output(c, full, O_PATH);

	/* Spec: outputs that do not exist are left out. A way that leads out (EXDEV) or in circles (ELOOP) does not exist for us either. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EXDEV)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return bj_err_errno(err, fd < 0 ? -fd : errno, "look at output \"%.*s\"",
				    BJ_STR_FMT(bj_str_printable(c->arena, o->path, 512)));
	o->found = true;
	return add_by_kind(c, o, full, fd, &st, result, err);
}

static bool make_lists(struct bj_collect *c, re_action_result *result)
{
	result->output_files = BJ_ARENA_ARRAY(c->arena, re_output_file *, c->n_outputs);
	result->output_directories = BJ_ARENA_ARRAY(c->arena, re_output_directory *, c->n_outputs);
	result->output_symlinks = BJ_ARENA_ARRAY(c->arena, re_output_symlink *, c->n_outputs);
	result->output_file_symlinks = BJ_ARENA_ARRAY(c->arena, re_output_symlink *, c->n_outputs);
	result->output_directory_symlinks =
		BJ_ARENA_ARRAY(c->arena, re_output_symlink *, c->n_outputs);
	return result->output_files && result->output_directories && result->output_symlinks &&
	       result->output_file_symlinks && result->output_directory_symlinks;
}

int bj_collect_outputs(struct bj_collect *collect, re_action_result *result, struct bj_err *err)
{
	int r = 0;

	if (!make_lists(collect, result))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for %zu outputs",
				  collect->n_outputs);
	for (size_t i = 0; r == 0 && i < collect->n_outputs; i++)
		r = collect_one(collect, &collect->outputs[i], result, err);
	return r;
}
