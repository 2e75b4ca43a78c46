// SPDX-License-Identifier: Apache-2.0
/*
 * Between the observer, which sees, and the policy, which judges.
 *
 * The observer's callbacks come while the command waits for an answer, so they only look up and append. Evidence (is it on the host? in
 * the client's workspace?) is asked for after the command has ended, once for each path.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/action/life-internal.h"
#include "executor/base/clock.h"

static enum bj_path_class classify(void *ctx, struct bj_str path)
{
	static const enum bj_path_class classes[] = {
		[BJP_UNDECLARED] = BJ_PATH_UNKNOWN, [BJP_INPUT] = BJ_PATH_DECLARED,
		[BJP_OUTPUT] = BJ_PATH_QUIET,	    [BJP_OUTPUT_DIR] = BJ_PATH_QUIET,
		[BJP_ENV_SCRATCH] = BJ_PATH_QUIET,  [BJP_TOOLCHAIN] = BJ_PATH_TOOLCHAIN,
		[BJP_SYSTEM] = BJ_PATH_QUIET,
	};
	const struct life *life = ctx;
	enum bjp_class cls = bjp_classify(life->policy, path);

	/* A search that ends here explains the names that it did not find on the way. */
	if (cls == BJP_INPUT || cls == BJP_TOOLCHAIN)
		bjp_collect_known(life->collector, path, cls);
	return classes[cls];
}

static enum bjp_access access_of(enum bj_op op)
{
	switch (op) {
	case BJ_OP_OPEN_READ:
	case BJ_OP_INOTIFY:
	case BJ_OP_HANDLE:
		return BJP_ACCESS_READ;
	case BJ_OP_EXEC:
		return BJP_ACCESS_EXEC;
	case BJ_OP_OPEN_WRITE:
	case BJ_OP_TRUNCATE:
		return BJP_ACCESS_WRITE;
	case BJ_OP_OPEN_CREATE:
	case BJ_OP_MKDIR:
	case BJ_OP_MKNOD:
	case BJ_OP_SYMLINK:
	case BJ_OP_LINK_TO:
	case BJ_OP_RENAME_TO:
		return BJP_ACCESS_CREATE;
	case BJ_OP_UNLINK:
	case BJ_OP_RMDIR:
	case BJ_OP_RENAME_FROM:
		return BJP_ACCESS_REMOVE;
	case BJ_OP_CHMOD:
	case BJ_OP_CHOWN:
	case BJ_OP_UTIME:
	case BJ_OP_SETXATTR:
		return BJP_ACCESS_META;
	default:
		return BJP_ACCESS_STAT;
	}
}

static struct bjp_attempt translate(const struct bj_attempt *a)
{
	return (struct bjp_attempt){
		.access = access_of(a->op),
		.operation = bj_op_name(a->op),
		.written = a->written,
		.path = a->path,
		.resolved = a->resolved,
		.error = a->error,
		.is_dir = a->is_dir,
		.pid = a->pid,
		.comm = bj_str_of(a->comm),
		.exe = a->exe,
		.argv0 = a->argv0,
		.via = a->via,
		.time_ns = bj_realtime_ns(),
	};
}

static void on_attempt(void *ctx, const struct bj_attempt *a)
{
	struct life *life = ctx;
	struct bjp_attempt attempt = translate(a);

	if (a->family == AF_UNIX && !attempt.path.len)
		attempt.path = attempt.written =
			bj_str_of(a->address); /* abstract: '@' and a name */
	switch (a->op) {
	case BJ_OP_CONNECT:
	case BJ_OP_BIND:
	case BJ_OP_SEND:
		bjp_collect_network(life->collector, &attempt, a->family == AF_UNIX,
				    bj_str_of(a->address), a->port);
		break;
	case BJ_OP_SYSCALL:
		bjp_collect_syscall(life->collector, &attempt, a->syscall);
		break;
	case BJ_OP_SOCKET:
		break; /* a socket that is not connected touches nothing */
	default:
		bjp_collect(life->collector, &attempt);
	}
}

struct bj_observer_hooks witness_hooks(struct life *life)
{
	return (struct bj_observer_hooks){ .ctx = life,
					   .classify = classify,
					   .attempt = on_attempt };
}

/* ---- evidence ---- */

/* Follows symlinks as the client's own tools would. Anything but "it is not there" that keeps us from looking is no evidence. */
static bool look(const char *path, struct bjp_evidence *evidence)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode)) {
		evidence->is_dir = true;
		return false;
	}
	return true;
}

static bool look_below(const char *dir, const char *rel, struct bjp_evidence *evidence)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, rel);

	return dir[0] && n > 0 && (size_t)n < sizeof(path) && look(path, evidence);
}

/*
 * Bazel runs actions in <output base>/execroot/<name>: sources of the main repository, external/ and bazel-out/. The workspace has the first
 * itself; its convenience link bazel-out leads to the execroot that holds the other two. Newer Bazels keep external repositories in
 * <output base>/external only.
 */
static bool look_in_execroot(const char *workspace, const char *rel, struct bjp_evidence *evidence)
{
	char link[PATH_MAX], execroot[PATH_MAX];
	int n = snprintf(link, sizeof(link), "%s/bazel-out", workspace);

	if (n < 0 || (size_t)n >= sizeof(link))
		return false;
	ssize_t len = readlink(link, execroot, sizeof(execroot) - 1);

	if (len <= 0 || (size_t)len >= sizeof(execroot) - 1 || execroot[0] != '/')
		return false;
	execroot[len] = '\0';
	char *slash = strrchr(execroot, '/'); /* …/execroot/<name>/bazel-out */

	*slash = '\0';
	if (look_below(execroot, rel, evidence))
		return true;
	slash = strrchr(execroot, '/');
	if (!slash)
		return false;
	*slash = '\0';
	slash = strrchr(execroot, '/');
	if (!slash || strncmp(rel, "external/", 9) != 0)
		return false;
	*slash = '\0';
	return look_below(execroot, rel, evidence);
}

static void look_in_workspaces(const struct bj_runner *runner, const char *rel,
			       struct bjp_evidence *evidence)
{
	for (size_t i = 0; i < runner->opts.n_workspaces && !evidence->in_workspace; i++) {
		const char *dir = runner->opts.workspaces[i].ptr;

		evidence->in_workspace =
			look_below(dir, rel, evidence) || look_in_execroot(dir, rel, evidence);
	}
}

/*
 * An abstract socket has no path, only a name in the network namespace: the action's own is empty, so if the host's has the name, that is
 * where the action wanted to go. The last column of /proc/net/unix, where NUL bytes stand as '@'.
 */
static bool host_has_abstract(struct bj_str name)
{
	bool found = false;
	char *line = NULL;
	size_t cap = 0;
	FILE *f = fopen("/proc/net/unix", "re");

	while (f && !found && getline(&line, &cap, f) > 0) {
		struct bj_str s = bj_str_of(line);

		if (s.len && s.ptr[s.len - 1] == '\n')
			s.len--;
		found = bj_str_has_suffix(s, name) && s.len > name.len &&
			s.ptr[s.len - name.len - 1] == ' ';
	}
	free(line); /* getline's own memory */
	if (f)
		(void)fclose(f); /* read only */
	return found;
}

struct bjp_evidence witness_evidence(void *ctx, struct bj_str path)
{
	const struct life *life = ctx;
	const struct bj_runner *runner = life->runner;
	struct bjp_evidence evidence = { 0 };
	char text[PATH_MAX];

	if (path.len >= sizeof(text) || memchr(path.ptr, '\0', path.len))
		return evidence;
	if (path.len && path.ptr[0] == '@') {
		evidence.on_host = runner->opts.tell_host && host_has_abstract(path);
		return evidence;
	}
	memcpy(text, path.ptr, path.len);
	text[path.len] = '\0';
	if (bjp_path_is_below(path, BJ_STR_LIT(BJ_JAIL_ROOT))) {
		if (path.len > sizeof(BJ_JAIL_ROOT))
			look_in_workspaces(runner, text + sizeof(BJ_JAIL_ROOT), &evidence);
		return evidence;
	}
	bool found = look(text, &evidence);

	evidence.on_host = found && runner->opts.tell_host;
	for (size_t i = 0; i < runner->opts.n_anchors; i++)
		evidence.on_anchor = evidence.on_anchor ||
				     (found && bjp_path_is_below(path, runner->opts.anchors[i]));
	return evidence;
}
