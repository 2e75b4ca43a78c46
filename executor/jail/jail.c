// SPDX-License-Identifier: Apache-2.0
/*
 * Starting and ending a zygote. posix_spawn (vfork underneath), so that the executor's size does
 * not matter and no descriptor without CLOEXEC gets further than the zygote's first lines.
 */
#include "executor/jail/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/fd.h"
#include "executor/jail/jail-internal.h"

enum { ZYGOTE_FD = 3 };

static int spawn_actions(posix_spawn_file_actions_t *actions, int sock)
{
	int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, sock, ZYGOTE_FD);
	/*
	 * at once, not at exec: meanwhile a copy of a descriptor for writing makes its file "busy"
	 * for others
	 */
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, ZYGOTE_FD + 1);
	return r;
}

static int spawn(const char *binary, int sock, pid_t *out_pid)
{
	char parent[24];
	(void)snprintf(parent, sizeof(parent), "%d", (int)getpid()); /* an int */
	char name[] = "belljar-jail";
	char *argv[] = { name, parent, NULL };
	char *envp[] = { NULL };
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return r;
	r = spawn_actions(&actions, sock);
	if (r == 0)
		r = posix_spawn(out_pid, binary, &actions, NULL, argv, envp);
	(void)posix_spawn_file_actions_destroy(&actions); /* frees memory only */
	return r;
}

static void reap(struct bj_jail *jail)
{
	while (jail->pid > 0 && waitpid(jail->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	jail->pid = -1;
}

/** The zygote's first word. */
static int await_up(struct bj_jail *jail, struct bj_jail_failure *out_failure, struct bj_err *err)
{
	struct bj_wire_failed failed = { 0 };
	struct bj_wire_msg msg;
	int r = bj_wire_recv(jail->sock, &failed, sizeof(failed), 0, &msg);
	if (r < 0)
		return bj_err_errno(err, -r, "jail: answer of belljar-jail");
	if (r == 0)
		return bj_err_set(err, BJ_INTERNAL,
				  "jail: belljar-jail ended before its template stood");
	bj_wire_drop(&msg);
	if (msg.type == BJ_WIRE_UP)
		return 0;
	if (msg.type != BJ_WIRE_FAILED || msg.n_bytes != sizeof(failed))
		return bj_err_set(err, BJ_INTERNAL, "jail: belljar-jail is of another version");
	return bj_jail_fail(&failed, BJ_FAILED_PRECONDITION, out_failure, err);
}

static int start(struct bj_jail *jail, const char *binary, const struct bj_jail_slot_spec *spec,
		 struct bj_jail_failure *out_failure, struct bj_err *err)
{
	int r = bj_jail_slot_spec_encode(spec, &jail->spec, err);
	if (r < 0)
		return r;
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return bj_err_errno(err, errno, "jail: socketpair");
	jail->sock = pair[0];
	bj_cleanup(bj_close_fdp) int theirs = pair[1];
	r = spawn(binary, theirs, &jail->pid);
	if (r != 0) {
		jail->pid = -1;
		return bj_err_errno(err, r, "jail: start \"%s\"", binary);
	}
	bj_close_fdp(&theirs); /* its death must show as the end of the stream */
	r = bj_wire_send(jail->sock, BJ_WIRE_SLOT, jail->spec.data, jail->spec.len, NULL, 0);
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		return bj_err_errno(err, -r, "jail: slot spec to belljar-jail");
	r = await_up(jail, out_failure, err);
	return r < 0 ? r : bj_jail_check(jail, BJ_OBSERVE_OFF, out_failure, err);
}

int bj_jail_start(const char *binary, const struct bj_jail_slot_spec *spec,
		  struct bj_jail **out_jail, struct bj_jail_failure *out_failure,
		  struct bj_err *err)
{
	struct bj_jail *jail = bj_calloc(1, sizeof(*jail));
	if (!jail)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail: no memory");
	jail->pid = -1;
	jail->sock = -EBADF;
	jail->unreaped = -EBADF;
	jail->profile = spec->profile;
	jail->slot_uid = spec->slot_uid;
	jail->slot_gid = spec->slot_gid;
	jail->spec = BJ_BUF_INIT(BJ_WIRE_MAX_BODY_BYTES);
	jail->work_dir = bj_strndup(spec->work_dir.ptr, spec->work_dir.len);
	if (!jail->work_dir) {
		bj_jail_free(jail);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail: no memory");
	}
	int r = start(jail, binary, spec, out_failure, err);
	if (r < 0) {
		bj_jail_free(jail);
		return r;
	}
	*out_jail = jail;
	return 0;
}

void bj_jail_free(struct bj_jail *jail)
{
	if (!jail)
		return;
	if (jail->pid > 0)
		(void)kill(jail->pid, SIGKILL); /* not reaped yet: the pid is ours */
	reap(jail);
	if (jail->unreaped >= 0)
		(void)waitid(P_PIDFD, (id_t)jail->unreaped, NULL,
			     WEXITED | WNOHANG); /* if it has died by now */
	bj_close_fdp(&jail->unreaped);
	bj_close_fdp(&jail->sock);
	bj_buf_deinit(&jail->spec);
	bj_free(jail->work_dir);
	bj_free(jail);
}
