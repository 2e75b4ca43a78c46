// SPDX-License-Identifier: Apache-2.0
/*
 * What a notified call will do, asked of the jail's own file system just before it is let go on. The order in which reasons are tried is
 * the kernel's, so that the error is the one that the caller gets; tests/unit/observer_predict_test.c compares the two.
 *
 * Not predicted: search permission on the directories in between, supplementary groups, quotas, a file that is being executed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

struct guess {
	struct bj_observer *o;
	struct bj_record *record;
	const struct bj_try *try;
	const struct bj_caller *caller;
};

static void find(const struct guess *g, unsigned int flags, struct bj_found *out)
{
	if (g->try->nofollow)
		flags |= BJ_FIND_NOFOLLOW;
	bj_path_find(g->o->root_fd, g->record->joined, flags, out, g->record->resolved);
	g->record->attempt.is_dir = out->error == 0 && out->is_dir && !(flags & BJ_FIND_PARENT);
}

static void set_resolved(struct bj_record *record, const struct bj_found *found)
{
	if (found->through_link)
		record->attempt.resolved = bj_str_of(record->resolved);
	else if (found->error == 0)
		record->attempt.resolved = record->attempt.path;
}

/* Where something is to be made, removed or renamed: its parent, and the resolved name in it. */
static int check_parent(const struct guess *g, struct bj_found *parent)
{
	struct bj_record *record = g->record;
	struct bj_str last = bj_path_last(record->attempt.path);
	size_t len;

	find(g, BJ_FIND_PARENT | BJ_FIND_MOUNT, parent);
	record->mount_id = parent->mount_id;
	if (!parent->through_link)
		return parent->error;
	len = strlen(record->resolved);
	if (len > 0 && len + 1 + last.len < sizeof(record->resolved)) {
		if (len > 1)
			record->resolved[len++] = '/';
		memcpy(record->resolved + len, last.ptr, last.len);
		record->resolved[len + last.len] = '\0';
		record->attempt.resolved = bj_str_n(record->resolved, len + last.len);
	}
	return parent->error;
}

static int may_change_parent(const struct guess *g, const struct bj_found *parent)
{
	if (parent->is_read_only)
		return EROFS;
	return bj_caller_may(g->caller, parent, W_OK | X_OK) ? 0 : EACCES;
}

/* mkdir, mknod, symlink, the new name of link, open with O_CREAT of what is not there. */
static int guess_create(const struct guess *g)
{
	struct bj_found parent;
	int error = check_parent(g, &parent);

	return error ? error : may_change_parent(g, &parent);
}

static int guess_new(const struct guess *g)
{
	struct bj_found found;

	find(g, 0, &found);
	set_resolved(g->record, &found);
	if (found.error == 0)
		return EEXIST;
	return found.error == ENOENT ? guess_create(g) : found.error;
}

static int guess_remove(const struct guess *g)
{
	struct bj_found parent;
	struct bj_found found;
	int error = check_parent(g, &parent);

	if (error)
		return error;
	if (parent.is_read_only)
		return EROFS;
	bj_path_find(g->o->root_fd, g->record->joined, BJ_FIND_NOFOLLOW, &found, g->record->via);
	if (found.error)
		return found.error;
	g->record->attempt.is_dir = found.is_dir;
	if (!g->record->attempt.resolved.len)
		g->record->attempt.resolved = g->record->attempt.path;
	error = may_change_parent(g, &parent);
	if (error)
		return error;
	if (g->try->op == BJ_OP_UNLINK && found.is_dir)
		return EISDIR;
	if (g->try->op != BJ_OP_RMDIR)
		return 0;
	if (!found.is_dir)
		return ENOTDIR;
	return bj_path_has_entries(g->o->root_fd, g->record->joined) ? ENOTEMPTY : 0;
}

static int guess_rename_to(const struct guess *g)
{
	struct bj_found parent;
	struct bj_found found;
	int error = check_parent(g, &parent);

	if (error)
		return error;
	bj_path_find(g->o->root_fd, g->record->joined, BJ_FIND_NOFOLLOW, &found, g->record->via);
	g->record->attempt.is_dir = found.error == 0 && found.is_dir;
	error = may_change_parent(g, &parent);
	return error == 0 && g->try->no_replace && found.error == 0 ? EEXIST : error;
}

/* truncate, chmod, chown, utime, xattr: the object itself. */
static int guess_change(const struct guess *g)
{
	struct bj_found found;
	bool needs_write = g->try->op == BJ_OP_TRUNCATE || g->try->op == BJ_OP_SETXATTR;

	find(g, BJ_FIND_MOUNT, &found);
	set_resolved(g->record, &found);
	if (found.error)
		return found.error;
	if (g->try->op == BJ_OP_TRUNCATE && !found.is_regular)
		return found.is_dir ? EISDIR : EINVAL;
	if (found.is_read_only)
		return EROFS;
	if (needs_write)
		return bj_caller_may(g->caller, &found, W_OK) ? 0 : EACCES;
	if (g->caller->has_override)
		return 0;
	if (g->caller->uid != found.uid)
		return !g->try->is_now				? EPERM
		       : bj_caller_may(g->caller, &found, W_OK) ? 0
								: EACCES;
	/* Whom its owner may give it to depends on ids, which mean something else inside. */
	return g->try->gives_away ? -1 : 0;
}

static int access_of_flags(int flags)
{
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return R_OK | (flags & O_TRUNC ? W_OK : 0);
	case O_WRONLY:
		return W_OK;
	default:
		return R_OK | W_OK;
	}
}

static int guess_open_existing(const struct guess *g, const struct bj_found *found)
{
	int flags = g->try->open_flags;
	int mask = access_of_flags(flags);
	bool writes = (mask & W_OK) != 0;

	if (found->is_link && !(flags & O_PATH))
		return ELOOP;
	if ((flags & O_CREAT) && found->is_dir)
		return EISDIR;
	if ((flags & O_DIRECTORY) && !found->is_dir)
		return ENOTDIR;
	if (flags & O_PATH)
		return 0;
	if (writes && found->is_dir && (flags & O_TMPFILE) != O_TMPFILE)
		return EISDIR;
	if (!bj_caller_may(g->caller, found, mask))
		return EACCES;
	return writes && found->is_read_only && (found->is_regular || found->is_dir) ? EROFS : 0;
}

static int guess_open_write(const struct guess *g)
{
	struct bj_attempt *attempt = &g->record->attempt;
	int flags = g->try->open_flags;
	struct bj_found found;

	find(g, BJ_FIND_MOUNT, &found);
	set_resolved(g->record, &found);
	if (found.error == 0) {
		if ((flags & O_CREAT) && (flags & O_EXCL)) {
			attempt->op = BJ_OP_OPEN_CREATE;
			return EEXIST;
		}
		attempt->op =
			(flags & O_TMPFILE) == O_TMPFILE ? BJ_OP_OPEN_CREATE : BJ_OP_OPEN_WRITE;
		return guess_open_existing(g, &found);
	}
	if (!(flags & O_CREAT) || found.error != ENOENT)
		return found.error;
	attempt->op = BJ_OP_OPEN_CREATE;
	if (found.through_link && attempt->resolved.len > 0) {
		/* Through a link at the end, what is made is its target. */
		memcpy(g->record->joined, g->record->resolved, attempt->resolved.len + 1);
	}
	if (bj_path_last(bj_str_of(g->record->joined)).len == 0 ||
	    g->record->joined[strlen(g->record->joined) - 1] == '/')
		return EISDIR;
	return guess_create(g);
}

static int guess_read(const struct guess *g)
{
	bool needs_mount = (g->try->access_mode & W_OK) || g->try->op == BJ_OP_LINK_FROM;
	struct bj_found found;

	find(g, needs_mount ? BJ_FIND_MOUNT : 0, &found);
	set_resolved(g->record, &found);
	g->record->mount_id = found.mount_id;
	if (found.error)
		return found.error;
	switch (g->try->op) {
	case BJ_OP_OPEN_READ:
		return guess_open_existing(g, &found);
	case BJ_OP_CHDIR:
		if (!found.is_dir)
			return ENOTDIR;
		return bj_caller_may(g->caller, &found, X_OK) ? 0 : EACCES;
	case BJ_OP_EXEC:
		return found.is_regular && bj_caller_may(g->caller, &found, X_OK) ? 0 : EACCES;
	case BJ_OP_ACCESS:
		if (!bj_caller_may(g->caller, &found, g->try->access_mode & (R_OK | W_OK | X_OK)))
			return EACCES;
		return (g->try->access_mode & W_OK) && found.is_read_only ? EROFS : 0;
	case BJ_OP_INOTIFY:
		return bj_caller_may(g->caller, &found, R_OK) ? 0 : EACCES;
	case BJ_OP_READLINK:
		return found.is_link ? 0 : EINVAL;
	case BJ_OP_LINK_FROM:
		return found.is_dir ? EPERM : 0;
	default:
		return 0;
	}
}

void bj_observer_predict(struct bj_observer *o, struct bj_record *record, const struct bj_try *try,
			 const struct bj_caller *caller)
{
	const struct guess g = { o, record, try, caller };
	int error;

	record->resolved[0] = '\0';
	switch (try->op) {
	case BJ_OP_OPEN_WRITE:
	case BJ_OP_OPEN_CREATE:
		error = guess_open_write(&g);
		break;
	case BJ_OP_MKDIR:
	case BJ_OP_MKNOD:
	case BJ_OP_SYMLINK:
	case BJ_OP_LINK_TO:
		error = guess_new(&g);
		break;
	case BJ_OP_UNLINK:
	case BJ_OP_RMDIR:
	case BJ_OP_RENAME_FROM:
		error = guess_remove(&g);
		break;
	case BJ_OP_RENAME_TO:
		error = guess_rename_to(&g);
		break;
	case BJ_OP_TRUNCATE:
	case BJ_OP_CHMOD:
	case BJ_OP_CHOWN:
	case BJ_OP_UTIME:
	case BJ_OP_SETXATTR:
		error = guess_change(&g);
		break;
	default:
		error = guess_read(&g);
		break;
	}
	record->attempt.error = error;
}
