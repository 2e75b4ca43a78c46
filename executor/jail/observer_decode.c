// SPDX-License-Identifier: Apache-2.0
/*
 * One notified call: its arguments read, its paths made absolute and classified, the few that matter looked up. What comes out stands in
 * o->records and is handed on by observer.c once the caller was still there to be answered.
 *
 *   arguments ──> written path ──> joined (base + written; the kernel's own links replaced) ──> path (lexical)
 *       classify(path): QUIET, toolchain reads ──> nothing       declared reads, if no links ──> touched
 *                       everything else ──> predict ──> classify(resolved) ──> attempt, touched or nothing
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/macros.h"
#include "executor/base/map.h"
#include "executor/jail/observer-internal.h"

enum {
	MAX_PROC_LINKS = 4,   /* /proc/self/cwd/proc/self/cwd/… */
	MAX_INTERPRETERS = 2, /* an interpreter that is a script */
};

static int flags_of(const struct bj_seen *s)
{
	return s->call->flags_arg >= 0 ? (int)bj_seen_arg(s, s->call->flags_arg) : 0;
}

struct bj_record *bj_seen_begin(const struct bj_seen *s)
{
	struct bj_record *record;

	if (s->o->n_records == BJ_MAX_RECORDS) {
		s->o->pending_dropped++;
		return NULL;
	}
	record = &s->o->records[s->o->n_records++];
	memset(&record->attempt, 0, sizeof(record->attempt));
	record->attempt.error = -1;
	record->is_gone = false;
	record->is_touch = false;
	record->mount_id = 0;
	record->touch_link = false;
	record->touch_target = false;
	return record;
}

void bj_seen_discard(const struct bj_seen *s, struct bj_record *record)
{
	record->is_gone = true;
	while (s->o->n_records > 0 && s->o->records[s->o->n_records - 1].is_gone)
		s->o->n_records--;
}

void bj_seen_lose(const struct bj_seen *s, struct bj_record *record)
{
	bj_seen_discard(s, record);
	s->o->pending_dropped++;
}

const struct bj_caller *bj_seen_caller_of(const struct bj_seen *s)
{
	return bj_caller_get(&s->o->callers, s->pid);
}

/* ---- from arguments to an absolute path ---- */

static ssize_t read_base(const struct bj_seen *s, int dirfd, char *buf)
{
	char name[24];

	if (dirfd == AT_FDCWD)
		return bj_cwds_get(&s->o->cwds, s->pid, buf, PATH_MAX);
	(void)snprintf(name, sizeof(name), "fd/%d", dirfd);
	return bj_caller_readlink(s->pid, name, buf, PATH_MAX);
}

/* A process by its number in the jail: its links are read through the jail's own /proc. */
static ssize_t read_inner_link(const struct bj_seen *s, const struct bj_proc_path *proc,
			       const char *name, char *buf)
{
	struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT };
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	char path[64];
	ssize_t len;

	(void)snprintf(path, sizeof(path), "/proc/%lld/%s", (long long)proc->pid, name);
	fd = (int)syscall(SYS_openat2, s->o->root_fd, path, &how, sizeof(how));
	len = fd >= 0 ? readlinkat(fd, "", buf, PATH_MAX - 1) : -1;
	if (len >= 0)
		buf[len] = '\0';
	return len;
}

static ssize_t read_proc_link(const struct bj_seen *s, const struct bj_proc_path *proc, char *buf)
{
	char name[24] = "cwd";

	if (proc->link == BJ_PROC_ROOT) {
		buf[0] = '/';
		buf[1] = '\0';
		return 1;
	}
	if (proc->link == BJ_PROC_EXE)
		return -ENOENT;
	if (proc->link == BJ_PROC_FD)
		(void)snprintf(name, sizeof(name), "fd/%d", proc->fd);
	return proc->is_self ? bj_caller_readlink(s->pid, name, buf, PATH_MAX)
			     : read_inner_link(s, proc, name, buf);
}

static struct bj_str joined_of(const struct bj_record *record)
{
	return bj_str_n(record->joined, strlen(record->joined));
}

/* /proc/self/cwd/x is x in the working directory (Bazel's compile actions set PWD so), /dev/fd/3/x is x below descriptor 3. */
static bool replace_proc_links(const struct bj_seen *s, struct bj_record *record, bool nofollow)
{
	struct bj_proc_path proc;
	char target[PATH_MAX];

	for (int i = 0; i < MAX_PROC_LINKS; i++) {
		ssize_t len;

		if (!bj_path_parse_proc(joined_of(record), &proc) ||
		    (nofollow && proc.rest.len == 0))
			return true;
		len = read_proc_link(s, &proc, target);
		if (len < 0 || target[0] != '/')
			return true; /* a pipe, a socket, a descriptor that is not open: a name of /proc and no more */
		/* The buffer of `resolved` is free at this time. */
		len = snprintf(record->resolved, sizeof(record->resolved), "%s%.*s", target,
			       BJ_STR_FMT(proc.rest));
		if (len < 0 || (size_t)len >= sizeof(record->joined))
			return false;
		memcpy(record->joined, record->resolved, (size_t)len + 1);
	}
	return true;
}

bool bj_seen_join(const struct bj_seen *s, struct bj_record *record, const struct bj_place *place)
{
	char base[PATH_MAX];
	struct bj_str written = record->attempt.written;
	ssize_t len = 0;

	if (place->in_root || written.len == 0 || written.ptr[0] != '/') {
		len = read_base(s, place->dirfd, base);
		if (len < 0 || base[0] != '/') {
			/* Not open, or no directory: the call fails. A working directory is always there, though. */
			if (place->dirfd == AT_FDCWD || len == -ENAMETOOLONG || len == -EACCES ||
			    len == -EPERM)
				bj_seen_lose(s, record);
			else
				bj_seen_discard(s, record);
			return false;
		}
	}
	if (place->in_root) {
		ssize_t n = bj_path_join(bj_str_n("", 0), written, record->resolved,
					 sizeof(record->resolved));

		if (n < 0 || (n = bj_path_normalize(bj_str_n(record->resolved, (size_t)n),
						    record->joined, sizeof(record->joined))) < 0) {
			bj_seen_lose(s, record);
			return false;
		}
		memcpy(record->resolved, record->joined + 1, (size_t)n);
		written = bj_str_n(record->resolved, (size_t)n - 1);
	}
	if (bj_path_join(bj_str_n(base, (size_t)len), written, record->joined,
			 sizeof(record->joined)) < 0) {
		bj_seen_lose(s, record);
		return false;
	}
	return true;
}

bool bj_seen_normalize(const struct bj_seen *s, struct bj_record *record, bool nofollow)
{
	bool is_magic = strncmp(record->joined, "/proc/", 6) == 0 ||
			strncmp(record->joined, "/dev/", 5) == 0;
	ssize_t len = -1;

	if (!is_magic || replace_proc_links(s, record, nofollow))
		len = bj_path_normalize(joined_of(record), record->path, sizeof(record->path));
	if (len < 0) {
		bj_seen_lose(s, record);
		return false;
	}
	record->attempt.path = bj_str_n(record->path, (size_t)len);
	return true;
}

/* The path that the caller names. Return: NULL when there is none to speak of. */
static struct bj_record *read_path(const struct bj_seen *s, const struct bj_place *place,
				   bool nofollow)
{
	struct bj_record *record = bj_seen_begin(s);
	ssize_t len;

	if (!record)
		return NULL;
	len = place->address ? bj_caller_read_string(s->pid, place->address, record->written,
						     sizeof(record->written))
			     : -EFAULT;
	if (len < 0 && place->address < BJ_NULL_PAGE_BYTES &&
	    !(place->may_be_empty && !place->address)) {
		bj_seen_discard(s, record);
		return NULL;
	}
	if (len < 0 && place->address) {
		bj_seen_lose(s, record);
		return NULL;
	}
	len = BJ_MAX(len, 0);
	if (len == 0 && !place->may_be_empty) {
		bj_seen_discard(s, record); /* ENOENT, whatever there is */
		return NULL;
	}
	record->attempt.written = bj_str_n(record->written, (size_t)len);
	if (!bj_seen_join(s, record, place) || !bj_seen_normalize(s, record, nofollow))
		return NULL;
	return record;
}

/* ---- what it means ---- */

enum bj_path_class bj_seen_classify(const struct bj_seen *s, struct bj_str path)
{
	return s->o->hooks.classify(s->o->hooks.ctx, path);
}

/* A read of what is declared. */
static void touch(const struct bj_seen *s, struct bj_record *record, struct bj_str path)
{
	record->attempt.path = path;
	record->is_touch = true;
	if (!s->o->hooks.touched)
		bj_seen_discard(s, record);
}

/* The slot of a declared path in the set of those that need no look any more: its own, or a free one. */
static uint64_t *plain_slot(const struct bj_seen *s, struct bj_str path, uint64_t *out_hash)
{
	uint64_t hash = bj_hash(path) | 1; /* 0 is a free slot */
	size_t i = (size_t)hash % BJ_N_PLAIN;

	while (s->o->plain[i] != 0 && s->o->plain[i] != hash)
		i = (i + 1) % BJ_N_PLAIN;
	*out_hash = hash;
	return &s->o->plain[i];
}

static void remember_plain(const struct bj_seen *s, struct bj_str path)
{
	uint64_t hash;
	uint64_t *slot = plain_slot(s, path, &hash);

	if (*slot != 0 || s->o->n_plain >= BJ_N_PLAIN / 4 * 3)
		return;
	*slot = hash;
	s->o->n_plain++;
}

/* A declared path may be a link, and the link lead nowhere: looked at once. */
static bool needs_following(const struct bj_seen *s, const struct bj_record *record)
{
	struct bj_str path = record->attempt.path;
	uint64_t hash;

	if (s->o->hooks.follows_links || *plain_slot(s, path, &hash) != 0)
		return false;
	if (bj_path_is_link(s->o->root_fd, record->joined))
		return true;
	remember_plain(s, path);
	return false;
}

/* A read of a declared link that was followed. */
static bool judge_link(const struct bj_seen *s, struct bj_record *record)
{
	struct bj_attempt *a = &record->attempt;
	enum bj_path_class there =
		a->resolved.len > 0 ? bj_seen_classify(s, a->resolved) : BJ_PATH_UNKNOWN;

	if (a->error == 0 || there == BJ_PATH_QUIET || there == BJ_PATH_TOOLCHAIN) {
		record->touch_target = there == BJ_PATH_DECLARED;
		if (a->error == 0)
			remember_plain(s, a->path);
		touch(s, record, a->path);
		return true;
	}
	record->touch_link = true;
	a->cls = there;
	return true;
}

/* Links were followed: the place that they lead to decides. Return: false when there is nothing to hand on. */
static bool judge_resolved(const struct bj_seen *s, struct bj_record *record, bool is_write)
{
	struct bj_attempt *a = &record->attempt;
	enum bj_path_class there = bj_seen_classify(s, a->resolved);

	if (is_write) {
		if (there != BJ_PATH_UNKNOWN)
			a->cls = there;
		return there != BJ_PATH_QUIET;
	}
	if (there == BJ_PATH_QUIET || there == BJ_PATH_TOOLCHAIN)
		return false;
	if (there == BJ_PATH_DECLARED && a->error == 0)
		touch(s, record, a->resolved);
	else
		a->cls = there;
	return true;
}

static bool judge_predicted(const struct bj_seen *s, struct bj_record *record, bool is_write)
{
	struct bj_attempt *a = &record->attempt;

	if (!is_write && a->cls == BJ_PATH_DECLARED)
		return judge_link(s, record);
	if (a->resolved.len == 0 || bj_str_eq(a->resolved, a->path))
		return true;
	return judge_resolved(s, record, is_write);
}

/* Return: what the path is, for those who look further (exec); the record may be gone. */
static enum bj_path_class judge(const struct bj_seen *s, struct bj_record *record,
				const struct bj_try *try)
{
	struct bj_attempt *a = &record->attempt;
	bool is_write = bj_op_is_write(try->op);
	enum bj_path_class cls = bj_seen_classify(s, a->path);

	a->op = try->op;
	a->cls = cls;
	if (cls == BJ_PATH_QUIET || (cls == BJ_PATH_TOOLCHAIN && !is_write)) {
		bj_seen_discard(s, record);
		return cls;
	}
	if (!is_write && cls == BJ_PATH_DECLARED &&
	    (try->nofollow || !needs_following(s, record))) {
		touch(s, record, a->path);
		return cls;
	}
	bj_observer_predict(s->o, record, try, bj_seen_caller_of(s));
	if (!judge_predicted(s, record, is_write))
		bj_seen_discard(s, record);
	return cls;
}

static void see_path(const struct bj_seen *s, const struct bj_place *place,
		     const struct bj_try *try)
{
	struct bj_record *record = read_path(s, place, try->nofollow);

	if (record)
		judge(s, record, try);
}

static bool is_nofollow(const struct bj_seen *s)
{
	int flags = flags_of(s);

	switch ((enum bj_call_follow)s->call->follow) {
	case BJ_FOLLOW_ALWAYS:
		return false;
	case BJ_FOLLOW_NEVER:
		return true;
	case BJ_FOLLOW_UNLESS:
		return (flags & AT_SYMLINK_NOFOLLOW) != 0;
	case BJ_FOLLOW_IF:
		return (flags & AT_SYMLINK_FOLLOW) == 0;
	case BJ_FOLLOW_INOTIFY:
		return ((unsigned int)flags & IN_DONT_FOLLOW) != 0;
	}
	return false;
}

static struct bj_place place_of(const struct bj_seen *s, int dirfd_arg, int path_arg)
{
	bool has_at_flags = s->call->follow == BJ_FOLLOW_UNLESS || s->call->follow == BJ_FOLLOW_IF;

	return (struct bj_place){
		.dirfd = dirfd_arg >= 0 ? (int)bj_seen_arg(s, dirfd_arg) : AT_FDCWD,
		.address = bj_seen_arg(s, path_arg),
		.may_be_empty = has_at_flags && (flags_of(s) & AT_EMPTY_PATH),
	};
}

/* ---- the shapes ---- */

/* chown's two ids, of which -1 means "as it is". (Of 16 bits in the oldest 32-bit calls.) */
static bool gives_away(const struct bj_seen *s, int first_arg)
{
	for (int i = first_arg; i < first_arg + 2; i++) {
		uint32_t id = (uint32_t)bj_seen_arg(s, i);

		if (id != UINT32_MAX && !(s->is_32bit && id == UINT16_MAX))
			return true;
	}
	return false;
}

static void see_one_path(const struct bj_seen *s)
{
	struct bj_place place = place_of(s, s->call->dirfd_arg, s->call->path_arg);
	struct bj_try try = { .op = s->call->op, .nofollow = is_nofollow(s) };

	if (s->call->shape == BJ_SHAPE_UNLINKAT && (flags_of(s) & AT_REMOVEDIR))
		try.op = BJ_OP_RMDIR;
	if (try.op == BJ_OP_ACCESS)
		try.access_mode = (int)bj_seen_arg(s, s->call->path_arg + 1);
	if (try.op == BJ_OP_UTIME)
		try.is_now = bj_seen_arg(s, s->call->path_arg + 1) == 0;
	if (try.op == BJ_OP_CHOWN)
		try.gives_away = gives_away(s, s->call->path_arg + 1);
	if (try.op == BJ_OP_READLINK)
		place.may_be_empty = place.dirfd != AT_FDCWD;
	see_path(s, &place, &try);
}

static void see_open_flags(const struct bj_seen *s, struct bj_place *place, int flags)
{
	struct bj_try try = { .op = BJ_OP_OPEN_READ, .open_flags = flags };

	try.nofollow = (flags & O_NOFOLLOW) || ((flags & O_CREAT) && (flags & O_EXCL));
	if (!(flags & O_PATH) && (flags & (O_ACCMODE | O_CREAT | O_TRUNC)))
		try.op = BJ_OP_OPEN_WRITE;
	if (try.op == BJ_OP_OPEN_READ && s->o->level < BJ_OBSERVE_DEFAULT)
		return;
	see_path(s, place, &try);
}

static void see_open(const struct bj_seen *s)
{
	struct bj_place place = place_of(s, s->call->dirfd_arg, s->call->path_arg);

	see_open_flags(s, &place,
		       s->call->flags_arg >= 0 ? flags_of(s) : O_CREAT | O_WRONLY | O_TRUNC);
}

static void see_openat2(const struct bj_seen *s)
{
	struct bj_place place = place_of(s, s->call->dirfd_arg, s->call->path_arg);
	struct open_how how;

	if (bj_seen_arg(s, 3) < sizeof(how) || bj_seen_arg(s, 2) < BJ_NULL_PAGE_BYTES)
		return; /* EINVAL, EFAULT */
	if (bj_caller_read(s->pid, bj_seen_arg(s, 2), &how, sizeof(how)) != 0) {
		s->o->pending_dropped++;
		return;
	}
	place.in_root = (how.resolve & RESOLVE_IN_ROOT) != 0;
	see_open_flags(s, &place, (int)how.flags);
}

/* Where a name of a pair lies that needed no look so far, since nobody is told about it. */
static uint64_t mount_of(const struct bj_seen *s, struct bj_record *record, bool is_object)
{
	unsigned int flags = BJ_FIND_MOUNT | (is_object ? BJ_FIND_NOFOLLOW : BJ_FIND_PARENT);
	struct bj_found found;

	if (record->mount_id == 0) {
		bj_path_find(s->o->root_fd, record->joined, flags, &found, record->resolved);
		record->mount_id = found.mount_id;
	}
	return record->mount_id;
}

/* One call, one result: what keeps one name from being changed keeps the other. */
static void settle_pair(const struct bj_seen *s, struct bj_record *from, struct bj_record *to)
{
	int *errors[2] = { &from->attempt.error, &to->attempt.error };
	bool is_link = s->call->op == BJ_OP_LINK_FROM;
	int error = *errors[0] > 0 || to->is_gone ? *errors[0] : *errors[1];
	uint64_t mounts[2];

	if (from->is_gone && to->is_gone)
		return;
	if (from->is_gone || from->is_touch)
		error = *errors[1];
	/* rename says so as soon as both directories are there, link after all else but permission. */
	if (!is_link || error == 0 || error == EACCES || error == EPERM) {
		mounts[0] = mount_of(s, from, is_link);
		mounts[1] = mount_of(s, to, false);
		if (mounts[0] != 0 && mounts[1] != 0 && mounts[0] != mounts[1])
			error = EXDEV;
	}
	*errors[0] = error;
	*errors[1] = error;
}

static void see_pair(const struct bj_seen *s)
{
	const struct bj_call *call = s->call;
	struct bj_place from = place_of(s, call->dirfd_arg, call->path_arg);
	struct bj_place to = place_of(s, call->dirfd2_arg, call->path2_arg);
	bool is_link = call->op == BJ_OP_LINK_FROM;
	struct bj_try try_from = { .op = call->op, .nofollow = !is_link || is_nofollow(s) };
	struct bj_try try_to = { .op = call->op2,
				 .nofollow = true,
				 .no_replace = !is_link && (flags_of(s) & RENAME_NOREPLACE) };
	struct bj_record *records[2];

	/* AT_EMPTY_PATH is link's alone, and its first path's. */
	from.may_be_empty = from.may_be_empty && is_link;
	to.may_be_empty = false;
	records[0] = read_path(s, &from, try_from.nofollow);
	records[1] = read_path(s, &to, true);
	if (records[0])
		judge(s, records[0], &try_from);
	if (records[1])
		judge(s, records[1], &try_to);
	if (records[0] && records[1])
		settle_pair(s, records[0], records[1]);
}

static void see_fd(const struct bj_seen *s)
{
	struct bj_place place = { .dirfd = (int)bj_seen_arg(s, s->call->dirfd_arg),
				  .may_be_empty = true };
	struct bj_try try = { .op = s->call->op };

	if (try.op == BJ_OP_CHOWN)
		try.gives_away = gives_away(s, 1);
	if (place.dirfd >= 0)
		see_path(s, &place, &try);
}

/* ---- exec ---- */

/* The interpreter of the program at @path, which exists. It was not written by the caller but by the program. */
static bool see_interpreter(const struct bj_seen *s, const char *joined, struct bj_str program,
			    char *next)
{
	struct bj_place place = { .dirfd = AT_FDCWD };
	struct bj_try try = { .op = BJ_OP_EXEC };
	char name[BJ_EXEC_HEAD];
	size_t len = bj_exec_interpreter_of(s->o->root_fd, joined, name);
	struct bj_record *record = len > 0 ? bj_seen_begin(s) : NULL;
	struct bj_attempt *a;

	if (!record)
		return false;
	a = &record->attempt;
	memcpy(record->written, name, len + 1);
	a->written = bj_str_n(record->written, len);
	if (!bj_seen_join(s, record, &place) || !bj_seen_normalize(s, record, false))
		return false;
	a->op = try.op;
	a->cls = bj_seen_classify(s, a->path);
	bj_observer_predict(s->o, record, &try, bj_seen_caller_of(s));
	memcpy(next, record->joined, strlen(record->joined) + 1);
	memcpy(record->via, program.ptr, program.len);
	a->via = bj_str_n(record->via, program.len);
	if (a->error != 0)
		return false; /* handed on whatever its class: this is why the exec fails */
	if (a->cls == BJ_PATH_QUIET || a->cls == BJ_PATH_TOOLCHAIN) {
		bj_seen_discard(s, record);
		return false;
	}
	if (a->cls == BJ_PATH_DECLARED)
		touch(s, record, a->path);
	else if (!bj_str_eq(a->resolved, a->path) && !judge_resolved(s, record, false))
		bj_seen_discard(s, record);
	return true;
}

static void see_exec(const struct bj_seen *s)
{
	struct bj_place place = place_of(s, s->call->dirfd_arg, s->call->path_arg);
	struct bj_try try = { .op = BJ_OP_EXEC, .nofollow = is_nofollow(s) };
	struct bj_record *record = read_path(s, &place, try.nofollow);
	char joined[BJ_PATH_BUF];
	char program[BJ_PATH_BUF];
	struct bj_str path;

	/* What runs hereafter under this pid is another program. */
	s->o->forget_callers = true;
	if (!record)
		return;
	memcpy(joined, record->joined, strlen(record->joined) + 1);
	memcpy(program, record->path, record->attempt.path.len);
	path = bj_str_n(program, record->attempt.path.len);
	if (judge(s, record, &try) == BJ_PATH_TOOLCHAIN)
		return;
	for (int i = 0; i < MAX_INTERPRETERS; i++) {
		char next[BJ_PATH_BUF];

		if (!see_interpreter(s, joined, path, next))
			return;
		memcpy(joined, next, strlen(next) + 1);
	}
}

/* ---- dispatch ---- */

static void see_denied(const struct bj_seen *s, int *out_errno)
{
	struct bj_record *record = bj_seen_begin(s);

	*out_errno = s->call->deny;
	if (!record)
		return;
	record->attempt.op = BJ_OP_SYSCALL;
	record->attempt.nr = s->request->data.nr;
	record->attempt.syscall = s->call->name;
	record->attempt.error = s->call->deny;
}

static void fill_caller(const struct bj_seen *s)
{
	for (size_t i = 0; i < s->o->n_records; i++) {
		struct bj_attempt *a = &s->o->records[i].attempt;
		const struct bj_caller *caller;

		if (s->o->records[i].is_touch || s->o->records[i].is_gone)
			continue;
		caller = bj_seen_caller_of(s);
		a->pid = caller->process > 0 ? caller->process : s->pid;
		a->comm = caller->comm;
		a->exe = bj_str_n(caller->exe, caller->exe_len);
		a->argv0 = bj_str_n(caller->argv0, caller->argv0_len);
	}
}

static void see(const struct bj_seen *s, int *out_errno)
{
	switch ((enum bj_call_shape)s->call->shape) {
	case BJ_SHAPE_DENY:
		see_denied(s, out_errno);
		break;
	case BJ_SHAPE_PATH:
	case BJ_SHAPE_UNLINKAT:
		see_one_path(s);
		break;
	case BJ_SHAPE_OPEN:
		see_open(s);
		break;
	case BJ_SHAPE_OPENAT2:
		see_openat2(s);
		break;
	case BJ_SHAPE_PAIR:
		see_pair(s);
		break;
	case BJ_SHAPE_FD:
		see_fd(s);
		break;
	case BJ_SHAPE_FCHDIR:
		break;
	case BJ_SHAPE_EXEC:
		see_exec(s);
		break;
	case BJ_SHAPE_ADDRESS:
		bj_see_address(s, bj_seen_arg(s, s->call->path_arg),
			       (uint32_t)bj_seen_arg(s, s->call->flags_arg), s->call->op);
		break;
	case BJ_SHAPE_SENDMSG:
		bj_see_sendmsg(s, bj_seen_arg(s, 1));
		break;
	case BJ_SHAPE_SENDMMSG:
		bj_see_sendmmsg(s, bj_seen_arg(s, 1), (uint32_t)bj_seen_arg(s, 2));
		break;
	case BJ_SHAPE_SOCKET:
		bj_see_socket(s, (int)bj_seen_arg(s, 0));
		break;
	case BJ_SHAPE_SOCKETCALL:
		bj_see_socketcall(s);
		break;
	}
}

void bj_observer_decode(struct bj_observer *o, const struct seccomp_notif *request,
			enum bj_arch arch, int *out_errno)
{
	int nr = request->data.nr;
	struct bj_seen s = { .o = o,
			     .request = request,
			     .pid = (pid_t)request->pid,
			     .is_32bit = arch == BJ_ARCH_I386 };

	*out_errno = 0;
	if (arch == BJ_ARCH_COUNT || nr < 0 || nr > BJ_SYSCALL_MAX || o->index[arch][nr] == 0) {
		/* Not from our filter: nobody knows what it is. */
		*out_errno = ENOSYS;
		o->pending_dropped++;
		return;
	}
	s.call = &bj_calls[o->index[arch][nr] - 1];
	bj_cwds_arrive(&o->cwds, s.pid);
	o->moves_cwd = s.call->op == BJ_OP_CHDIR || s.call->op == BJ_OP_RENAME_FROM;
	see(&s, out_errno);
	fill_caller(&s);
}
