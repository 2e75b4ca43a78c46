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
#include "policy/policy.h"

/* A rename anywhere in the system makes a beneath-walk over ".." start again; so many in a row do not happen. */
enum { WALK_TRIES = 128 };

/*
 * Beneath the root. Links on the way may be followed as long as they stay beneath: an input tree may have its outputs' directory behind
 * one. Return: descriptor or -errno.
 */
static int open_beneath(const struct bj_collect *c, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned int)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	int fd = -1;

	for (int i = 0; i < WALK_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, c->exec_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd < 0 ? -errno : fd;
}

/* The last component as it is. */
static int open_output(const struct bj_collect *c, const char *path, int flags)
{
	return open_beneath(c, path, flags | O_NOFOLLOW);
}

/* ---- refusals ---- */

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

static const char *wanted_name(enum bj_output_style style)
{
	static const char *const names[] = {
		[BJ_OUTPUT_PATHS] = "a file, directory or symlink",
		[BJ_OUTPUT_FILE] = "a file",
		[BJ_OUTPUT_DIRECTORY] = "a directory",
	};
	return names[style];
}

int collect_refuse(struct bj_arena *arena, struct bj_str path, const char *wanted, mode_t found,
		   struct bj_err *err)
{
	struct bj_str shown = bj_str_printable(arena, path, COLLECT_SHOWN_BYTES);

	return bj_err_set(err, BJ_FAILED_PRECONDITION, "output \"%.*s\" is a %s, wanted %s",
			  BJ_STR_FMT(shown), kind_name(found), wanted);
}

int collect_errno(struct bj_arena *arena, int errnum, const char *what, struct bj_str path,
		  struct bj_err *err)
{
	struct bj_str shown = bj_str_printable(arena, path, COLLECT_SHOWN_BYTES);

	if (errnum == EACCES || errnum == EPERM)
		return bj_err_set(err, BJ_FAILED_PRECONDITION, "%s \"%.*s\": the action shut it",
				  what, BJ_STR_FMT(shown));
	return bj_err_errno(err, errnum, "%s \"%.*s\"", what, BJ_STR_FMT(shown));
}

static int no_memory(struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the outputs");
}

/* ---- files ---- */

/* A sparse file costs the action nothing, and us a day. */
static int count_bytes(struct bj_collect *c, int fd, struct bj_str path, struct bj_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return collect_errno(c->arena, errno, "look at output", path, err);
	if (!c->max_bytes || (uint64_t)st.st_size <= c->max_bytes - c->n_bytes) {
		c->n_bytes += (uint64_t)st.st_size;
		return 0;
	}
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
			  "output \"%.*s\" of %llu bytes: all outputs together may have %llu",
			  BJ_STR_FMT(bj_str_printable(c->arena, path, COLLECT_SHOWN_BYTES)),
			  (unsigned long long)st.st_size, (unsigned long long)c->max_bytes);
}

int collect_file(struct bj_collect *c, int fd, struct bj_str path, struct bj_digest *out_digest,
		 struct bj_err *err)
{
	int r = count_bytes(c, fd, path, err);

	if (r < 0)
		return r;
	r = bj_store_put_fd(c->store, c->fn, fd, out_digest, err);
	return r < 0 ? bj_err_wrap(
			       err, "store output \"%.*s\"",
			       BJ_STR_FMT(bj_str_printable(c->arena, path, COLLECT_SHOWN_BYTES)))
		     : 0;
}

static int add_file(struct bj_collect *c, struct bj_output *o, const char *full,
		    const struct stat *st, re_action_result *result, struct bj_err *err)
{
	struct bj_digest digest;
	re_output_file *file = BJ_ARENA_NEW(c->arena, re_output_file);
	bj_cleanup(bj_close_fdp) int fd = open_output(c, full, O_RDONLY | O_NONBLOCK);

	if (!file)
		return no_memory(err);
	if (fd < 0)
		return collect_errno(c->arena, -fd, "open output", o->path, err);
	int r = collect_file(c, fd, o->path, &digest, err);

	if (r < 0)
		return r;
	build__bazel__remote__execution__v2__output_file__init(file);
	file->path = bj_str_dup(c->arena, o->path);
	file->digest = bj_digest_to_pb(c->arena, &digest);
	file->is_executable = (st->st_mode & 0111) != 0;
	if (!file->path || !file->digest)
		return no_memory(err);
	result->output_files[result->n_output_files++] = file;
	return 0;
}

/* ---- symlinks ---- */

/* Why a link's text cannot be given to a client; NULL when it can. */
static const char *target_fault(struct bj_arena *arena, struct bj_str target)
{
	if (!bj_str_is_utf8(target))
		return "which is not UTF-8";
	if (target.ptr[0] != '/')
		return NULL;
	struct bj_str clean = bjp_path_clean(arena, BJ_STR_LIT("/"), target);

	if (!clean.ptr || bjp_path_is_below(clean, BJ_STR_LIT(BJ_JAIL_ROOT)))
		return "which means nothing outside the sandbox: make it relative";
	return NULL;
}

char *collect_readlink(struct bj_arena *arena, int fd, struct bj_str path, struct bj_err *err)
{
	char text[4096];
	ssize_t n = readlinkat(fd, "", text, sizeof(text));

	if (n <= 0 || (size_t)n == sizeof(text)) {
		(void)collect_errno(arena, n < 0 ? errno : ENAMETOOLONG, "read the symlink", path,
				    err);
		return NULL;
	}
	struct bj_str target = bj_str_n(text, (size_t)n);
	const char *fault = target_fault(arena, target);

	if (fault) {
		struct bj_str shown = bj_str_printable(arena, path, COLLECT_SHOWN_BYTES);

		(void)bj_err_set(err, BJ_FAILED_PRECONDITION,
				 "output \"%.*s\" is a symlink to \"%.*s\", %s", BJ_STR_FMT(shown),
				 BJ_STR_FMT(bj_str_printable(arena, target, 200)), fault);
		return NULL;
	}
	char *copy = bj_str_dup(arena, target);

	if (!copy)
		(void)no_memory(err);
	return copy;
}

/* What the link leads to, as the action would see it; the target is not read. 0: dangling, or outside of the input root. */
static mode_t target_type(const struct bj_collect *c, const char *full)
{
	bj_cleanup(bj_close_fdp) int fd = open_beneath(c, full, O_PATH);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/*
 * Spec of output_file_symlinks: "servers that wish to be compatible with v2.0 API should still populate" it beside output_symlinks; and
 * "If an output symbolic link … was found, but its target type was not a regular file, the server will return a FAILED_PRECONDITION",
 * likewise for directories. Nothing is said of a link that leads nowhere: it goes into the list that it was declared for.
 */
static int add_legacy(struct bj_collect *c, const struct bj_output *o, const char *full,
		      re_output_symlink *link, re_action_result *result, struct bj_err *err)
{
	mode_t type = target_type(c, full);
	bool is_dir = type == S_IFDIR || (type == 0 && o->style == BJ_OUTPUT_DIRECTORY);

	if (type && ((o->style == BJ_OUTPUT_FILE && type != S_IFREG) ||
		     (o->style == BJ_OUTPUT_DIRECTORY && type != S_IFDIR)))
		return bj_err_set(
			err, BJ_FAILED_PRECONDITION,
			"output \"%.*s\" is a symlink to a %s, wanted %s",
			BJ_STR_FMT(bj_str_printable(c->arena, o->path, COLLECT_SHOWN_BYTES)),
			kind_name(type), wanted_name(o->style));
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
	if (!link)
		return no_memory(err);
	build__bazel__remote__execution__v2__output_symlink__init(link);
	link->path = bj_str_dup(c->arena, o->path);
	link->target = target;
	if (!link->path)
		return no_memory(err);
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
		int dir_fd = open_output(c, full, O_RDONLY | O_DIRECTORY);

		if (dir_fd < 0)
			return collect_errno(c->arena, -dir_fd, "open output", o->path, err);
		return collect_directory(c, o, dir_fd, result, err);
	}
	return collect_refuse(c->arena, o->path, wanted_name(o->style), st->st_mode, err);
}

/* Relative to the input root; "." for the root itself. */
static const char *full_path(const struct bj_collect *c, const struct bj_output *o)
{
	if (c->working_dir.len == 0 && o->path.len == 0)
		return ".";
	return bj_arena_printf(c->arena, "%.*s%s%.*s", BJ_STR_FMT(c->working_dir),
			       c->working_dir.len && o->path.len ? "/" : "", BJ_STR_FMT(o->path));
}

/* Spec: outputs that do not exist are left out. A way that leads out (EXDEV), in circles or beyond what a path can say does not exist. */
static bool is_absence(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP || errnum == EXDEV ||
	       errnum == ENAMETOOLONG;
}

static int collect_one(struct bj_collect *c, struct bj_output *o, re_action_result *result,
		       struct bj_err *err)
{
	const char *full = full_path(c, o);
	struct stat st;

	if (!full)
		return no_memory(err);
	bj_cleanup(bj_close_fdp) int fd = open_output(c, full, O_PATH);

	if (fd < 0 && is_absence(-fd))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return collect_errno(c->arena, fd < 0 ? -fd : errno, "look at output", o->path,
				     err);
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

	collect->n_bytes = 0;
	if (!make_lists(collect, result))
		return no_memory(err);
	for (size_t i = 0; r == 0 && i < collect->n_outputs; i++)
		r = collect_one(collect, &collect->outputs[i], result, err);
	return r;
}
