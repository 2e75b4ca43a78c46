// SPDX-License-Identifier: Apache-2.0
/*
 * A network namespace that has lo and nothing else: 127.0.0.1 and ::1 work, everything else is unreachable at once.
 */
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

int bj_net_fresh(struct bj_wire_failed *failed)
{
	if (unshare(CLONE_NEWNET) < 0)
		return bj_fail(failed, "network-namespace", "unshare", errno, "");
	bj_cleanup(bj_close_fdp) int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return bj_fail(failed, "loopback-up", "socket", errno, "");
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	if (ioctl(sock, SIOCSIFFLAGS, &lo) < 0)
		return bj_fail(failed, "loopback-up", "ioctl", errno, "lo");
	return 0;
}
