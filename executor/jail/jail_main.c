// SPDX-License-Identifier: Apache-2.0
/*
 * belljar-jail: the zygote of one slot. The server starts it, with its end of the socket as
 * descriptor 3; a person has no reason to.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/str.h"
#include "executor/jail/zygote-internal.h"

enum { SOCKET_FD = 3, KERNEL_NSIG = 64 };

/** What rt_sigaction(2) takes on x86-64 and arm64; all zero is SIG_DFL. */
struct kernel_sigaction {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static bool is_our_socket(void)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(SOCKET_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

/**
 * What every process of every action inherits: no descriptor of the executor, no ignored signal,
 * nothing blocked.
 */
static int clean_slate(void)
{
	/*
	 * 0 and 1 are /dev/null. 2 is what the executor has; were it closed, some descriptor of
	 * ours would become an action's stderr.
	 */
	if (fcntl(STDERR_FILENO, F_GETFD) < 0 && open("/dev/null", O_WRONLY) != STDERR_FILENO)
		return -1;
	if (close_range(SOCKET_FD + 1, ~0U, 0) < 0)
		return -1;
	if (fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC) < 0)
		return -1;
	/*
	 * The bare call: libc's signal() leaves out the two numbers that it keeps for itself, and
	 * they may be inherited as ignored.
	 */
	struct kernel_sigaction action = { 0 };
	for (int sig = 1; sig <= KERNEL_NSIG; sig++)
		(void)syscall(SYS_rt_sigaction, sig, &action, NULL,
			      sizeof(action.mask)); /* KILL and STOP refuse, rightly */
	sigset_t none;
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return -1;
	return personality(PER_LINUX) < 0 ? -1 : 0;
}

/** The executor's death is ours. It may have died before we said so. */
static bool bind_to_parent(const char *parent)
{
	uint64_t pid;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    !bj_str_to_u64(bj_str_of(parent), &pid))
		return false;
	return (uint64_t)getppid() == pid;
}

int main(int argc, char **argv)
{
	if (argc != 2 || !is_our_socket()) {
		(void)fputs("belljar-jail is started by belljar serve\n", stderr);
		return 2;
	}
	if (!bind_to_parent(argv[1]))
		return 1;
	memset(argv[1], 0,
	       strlen(argv[1])); /* every action can read /proc/1/cmdline, which is ours */
	if (clean_slate() < 0) {
		perror("belljar-jail"); /* an answer over the socket needs a slate */
		return 1;
	}
	return bj_zygote_main(SOCKET_FD);
}
