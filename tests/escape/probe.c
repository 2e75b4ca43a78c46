// SPDX-License-Identifier: Apache-2.0
/*
 * The prisoner: a static program that is put in an action's input tree and tries one way out after
 * the other. `probe VERB [ARG…]` prints a line for each attempt that went otherwise than it should
 * and exits with 1 then, with 0 if all held.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_bad;

static void bad(const char *what, const char *got)
{
	printf("%s: %s\n", what, got);
	n_bad++;
}

static void expect(bool ok, const char *what)
{
	if (!ok)
		bad(what, "not so");
}

/**
 * @r: result of a call that must have failed. With @want, with this errno; else with a refusal of
 * whatever kind.
 */
static void refused_as(long r, int want, const char *what)
{
	int e = errno;
	if (r >= 0)
		bad(what, "succeeded");
	else if (want ? e != want
		      : e != EPERM && e != EACCES && e != ENOSYS && e != EROFS && e != ENOSPC &&
				 e != EUSERS)
		bad(what, strerror(e));
}

static uint64_t number(const char *digits)
{
	uint64_t n = 0;
	for (; *digits >= '0' && *digits <= '9'; digits++)
		n = n * 10 + (uint64_t)(*digits - '0');
	return n;
}

#define REFUSED(call) refused_as((long)(call), 0, #call)
#define FAILS(call, want) refused_as((long)(call), (want), #call)

static void no_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;
	if (fd >= 0 && read(fd, &byte, 1) > 0)
		bad(path, "is readable");
	if (fd >= 0)
		(void)close(fd);
}

static void no_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		bad(path, "opens for writing");
}

/* ---- rights ---- */

static void check_status_line(const char *line)
{
	static const char *const want[] = {
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000",
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1",
		"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000",
	};
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		size_t name = strcspn(want[i], "\t");
		if (strncmp(line, want[i], name) == 0 && strcmp(line, want[i]) != 0)
			bad(want[i], line);
	}
}

static void verb_rights(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];
	expect(f != NULL, "status opens");
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		check_status_line(line);
	}
	uid_t r, e, s;
	expect(getresuid(&r, &e, &s) == 0 && r == 1000 && e == 1000 && s == 1000, "uids are 1000");
	gid_t gr, ge, gs;
	expect(getresgid(&gr, &ge, &gs) == 0 && gr == 1000 && ge == 1000 && gs == 1000,
	       "gids are 1000");
	FAILS(setresgid((gid_t)-1, (gid_t)-1, 65534), EINVAL); /* init's, and not mapped */
	gid_t groups[64];
	int n = getgroups(64, groups);
	for (int i = 0; i < n; i++)
		expect(groups[i] == 1000, "no group but 1000");
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	expect((bits & (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED)) ==
		       (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED),
	       "securebits locked");
	FAILS(setuid(0), EINVAL); /* not mapped */
	FAILS(setresuid(0, 0, 0), EINVAL);
	FAILS(setgid(0), EINVAL);
	FAILS(setgroups(0, NULL), EPERM);
	FAILS(chown("/tmp", 0, 0), EINVAL);
	expect(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs");
	struct rlimit core;
	expect(getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0, "no core files");
}

static void nosuid(const char *path)
{
	struct statvfs v;
	if (statvfs(path, &v) < 0 || !(v.f_flag & ST_NOSUID))
		bad(path, "is not nosuid");
}

/** Every way to set the bit ends the same: it may be set, and has no effect. */
static void verb_setuid(void)
{
	nosuid("/");
	nosuid("/usr");
	nosuid("/exec");
	nosuid("/tmp");
	nosuid("/dev/shm");
	nosuid("/dev");
	nosuid("/proc");
	int fd = open("/tmp/s", O_WRONLY | O_CREAT | O_CLOEXEC, 04755);
	expect(fd >= 0, "create");
	expect(fchmod(fd, 06755) == 0, "fchmod");
	expect(chmod("/tmp/s", 06755) == 0, "chmod");
	expect(syscall(SYS_fchmodat, AT_FDCWD, "/tmp/s", 06755) == 0, "fchmodat");
	(void)close(fd);
}

/* ---- calls that no build needs ---- */

static void verb_calls(void)
{
	REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL));
	REFUSED(mount("/usr", "/tmp", NULL, MS_BIND, NULL));
	REFUSED(mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
	REFUSED(umount2("/proc", MNT_DETACH));
	REFUSED(umount2("/exec", MNT_DETACH));
	REFUSED(syscall(SYS_pivot_root, "/tmp", "/tmp"));
	REFUSED(chroot("/tmp"));
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(unshare(CLONE_NEWNS));
	REFUSED(unshare(CLONE_NEWNET));
	REFUSED(unshare(CLONE_NEWPID));
	REFUSED(fsopen("tmpfs", 0));
	REFUSED(open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE));
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };
	REFUSED(mount_setattr(AT_FDCWD, "/usr", 0, &attr, sizeof(attr)));
	REFUSED(sethostname("x", 1));
	REFUSED(setdomainname("x", 1));
	REFUSED(mknod("/tmp/null", S_IFCHR | 0666, makedev(1, 3)));
	REFUSED(mknod("/tmp/disk", S_IFBLK | 0666, makedev(8, 0)));
	REFUSED(syscall(SYS_bpf, 5, NULL, 0));
	REFUSED(syscall(SYS_io_uring_setup, 4, NULL));
	REFUSED(syscall(SYS_keyctl, 0, -3, 0)); /* session keyring */
	REFUSED(syscall(SYS_add_key, "user", "x", "y", 1, -3));
	REFUSED(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	REFUSED(syscall(SYS_init_module, NULL, 0, ""));
	REFUSED(syscall(SYS_finit_module, 0, "", 0));
	REFUSED(syscall(SYS_kexec_load, 0, 0, NULL, 0));
	REFUSED(syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
	REFUSED(syscall(SYS_swapon, "/tmp/x", 0));
	REFUSED(syscall(SYS_acct, "/tmp/x"));
	REFUSED(syscall(SYS_quotactl, 0x800002, NULL, 0, NULL));
	char log[16];
	REFUSED(syscall(SYS_syslog, 3, log, sizeof(log)));
	struct timeval now = { .tv_sec = 1 };
	REFUSED(settimeofday(&now, NULL));
	struct file_handle {
		unsigned bytes;
		int type;
		unsigned char handle[16];
	} h = { .bytes = 16, .type = 1 };
	REFUSED(syscall(SYS_open_by_handle_at, AT_FDCWD, &h, O_RDONLY));
	REFUSED(setpriority(PRIO_PROCESS, 0, -5));
}

static int child_of_clone(void *arg)
{
	(void)arg;
	return 0;
}

static void verb_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	REFUSED(clone(child_of_clone, stack + sizeof(stack), CLONE_NEWUSER | SIGCHLD, NULL));
	REFUSED(clone(child_of_clone, stack + sizeof(stack), CLONE_NEWNS | SIGCHLD, NULL));
	REFUSED(clone(child_of_clone, stack + sizeof(stack), CLONE_NEWNET | SIGCHLD, NULL));
	struct {
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	} args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	long r = syscall(SYS_clone3, &args, sizeof(args));
	if (r == 0)
		_exit(0);
	refused_as(r, 0, "clone3(CLONE_NEWUSER)");
	int ns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	if (ns >= 0)
		refused_as(setns(ns, 0), errno == EINVAL ? EINVAL : 0, "setns(user)");
	int mnt = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (mnt >= 0)
		REFUSED(setns(mnt, 0));
}

/* ---- init and the other processes ---- */

/**
 * @argv[0] "owner": the userns profile, where root of init's own namespace has our uid, so that DAC
 * alone does not stop us.
 */
static void verb_init(int argc, char **argv)
{
	bool owner = argc > 0 && strcmp(argv[0], "owner") == 0;
	char buf[256];
	FAILS(ptrace(PTRACE_ATTACH, 1, 0, 0), EPERM);
	FAILS(ptrace(PTRACE_SEIZE, 1, 0, 0), EPERM);
	struct iovec local = { buf, sizeof(buf) }, remote = { (void *)0x400000, 16 };
	FAILS(process_vm_readv(1, &local, 1, &remote, 1, 0), EPERM);
	FAILS(process_vm_writev(1, &local, 1, &remote, 1, 0), EPERM);
	FAILS(readlink("/proc/1/root", buf, sizeof(buf)), EACCES);
	FAILS(readlink("/proc/1/cwd", buf, sizeof(buf)), EACCES);
	FAILS(readlink("/proc/1/exe", buf, sizeof(buf)), EACCES);
	FAILS(open("/proc/1/root/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES);
	if (!owner) {
		FAILS(open("/proc/1/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EACCES);
		/* with it the action could only offer its own init to the OOM killer */
		no_write("/proc/1/oom_score_adj");
		no_write("/proc/1/clear_refs");
		struct rlimit none = { 0, 0 };
		FAILS(prlimit(1, RLIMIT_CPU, &none, NULL), EPERM);
		FAILS(prlimit(1, RLIMIT_NOFILE, &none, NULL), EPERM);
		FAILS(prlimit(1, RLIMIT_NOFILE, NULL, &none), EPERM);
	}
	FAILS(readlink("/proc/1/fd/3", buf, sizeof(buf)), EACCES);
	no_read("/proc/1/mem");
	no_write("/proc/1/mem");
	no_read("/proc/1/environ");
	no_read("/proc/1/maps");
	no_read("/proc/1/auxv");
	no_read("/proc/1/syscall");
	int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
	if (pidfd >= 0) {
		for (int fd = 0; fd < 8; fd++)
			REFUSED(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
		REFUSED(setns(pidfd, CLONE_NEWNS));
	}
}

/**
 * None of these may end init; the kernel drops them. That we still run afterwards is what the
 * driver looks at.
 */
static void verb_kill_init(void)
{
	for (int sig = 1; sig <= 64; sig++) {
		if (sig != SIGCHLD)
			(void)kill(1, sig);
	}
	for (int sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_tgkill, 1, 1, sig);
	/* time for a signal that is not dropped to be taken; we are killed with init then */
	(void)usleep(20000);
	puts("alive");
}

static void verb_processes(void)
{
	expect(getppid() == 1, "init is the parent");
	expect(getpid() == 2, "the command is pid 2");
	expect(getsid(0) == 2 && getpgrp() == 2, "an own session");
	for (int pid = 3; pid < 40000; pid++) {
		if (kill(pid, 0) == 0 || errno == EPERM)
			bad("another process", "is visible");
	}
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	refused_as(tty, ENXIO, "/dev/tty");
}

/* ---- paths ---- */

static void absent(const char *path)
{
	struct stat st;
	if (lstat(path, &st) == 0)
		bad(path, "exists");
	else if (errno != ENOENT && errno != ENOTDIR)
		bad(path, strerror(errno));
}

static void verb_paths(int argc, char **argv)
{
	static const char *const host[] = {
		"/root",     "/home",	      "/etc/shadow",	 "/etc/gshadow", "/etc/sudoers",
		"/etc/ssh",  "/etc/hostname", "/etc/machine-id", "/var",	 "/run",
		"/sys",	     "/mnt",	      "/media",		 "/opt",	 "/srv",
		"/boot",     "/.bj",	      "/dev/pts",	 "/dev/ptmx",	 "/dev/mem",
		"/dev/kmsg", "/dev/fuse",     "/dev/kvm",	 "/dev/mqueue",	 "/dev/vda",
		"/dev/sda",  "/dev/loop0",    "/dev/net",	 "/dev/log",	 "/old_root",
	};
	for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++)
		absent(host[i]);
	for (int i = 0; i < argc; i++)
		absent(argv[i]);
	FAILS(open("/exec/../../../../../../root/.bashrc", O_RDONLY | O_CLOEXEC), ENOENT);
	REFUSED(mkdir("/foo", 0777));
	REFUSED(open("/etc/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	REFUSED(open("/usr/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	REFUSED(open("/dev/x", O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	REFUSED(unlink("/etc/passwd"));
	REFUSED(rename("/tmp", "/exec"));
	REFUSED(rmdir("/dev/shm"));
	REFUSED(open("/usr/bin/env", O_WRONLY | O_CLOEXEC));
	no_write("/proc/sysrq-trigger"); /* some kernels have neither */
	no_read("/proc/kcore");
	REFUSED(open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC));
	REFUSED(open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC));
	REFUSED(open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
	REFUSED(open("/proc/sys/net/ipv4/ip_forward", O_WRONLY | O_CLOEXEC));
	REFUSED(open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC));
}

static void verb_devices(void)
{
	static const char *const rw[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
					  "/dev/urandom" };
	for (size_t i = 0; i < sizeof(rw) / sizeof(rw[0]); i++) {
		int fd = open(rw[i], O_RDWR | O_CLOEXEC);
		expect(fd >= 0, rw[i]);
		char byte;
		ssize_t n = read(fd, &byte, 1);
		expect(strcmp(rw[i], "/dev/null") == 0 ? n == 0 : n == 1, rw[i]);
		(void)close(fd);
	}
	/* pipes can be opened anew by their names */
	int out = open("/dev/stdout", O_WRONLY | O_CLOEXEC),
	    err = open("/proc/self/fd/2", O_WRONLY | O_CLOEXEC);
	expect(out >= 0 && err >= 0, "/dev/stdout and /dev/stderr open");
	expect(open("/dev/stdin", O_RDONLY | O_CLOEXEC) >= 0, "/dev/stdin opens");
	FILE *shm = fopen("/dev/shm/x", "wxe");
	expect(shm != NULL, "/dev/shm is writable and empty");
	if (shm)
		(void)fclose(shm);
}

static void verb_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		expect(fcntl(fd, F_GETFD) == 0, "0, 1 and 2 are open");
	for (int fd = 3; fd < 65536; fd++) {
		if (fcntl(fd, F_GETFD) >= 0) {
			char what[32];
			(void)snprintf(what, sizeof(what), "descriptor %d", fd);
			bad(what, "is open");
		}
	}
	struct stat null, in;
	expect(stat("/dev/null", &null) == 0 && fstat(0, &in) == 0 && null.st_rdev == in.st_rdev,
	       "stdin is /dev/null");
	expect((fcntl(0, F_GETFL) & O_ACCMODE) == O_RDONLY, "stdin is read-only");
	expect((fcntl(1, F_GETFL) & O_NONBLOCK) == 0, "stdout blocks");
}

/* ---- inputs: the driver looks at the store's bytes afterwards ---- */

static void verb_inputs(int argc, char **argv)
{
	/* the userns profile: the files are ours, the copy changes */
	bool owner = argc > 0 && strcmp(argv[0], "owner") == 0;
	int fd = open("in/f", O_WRONLY | O_CLOEXEC);
	if (!owner) {
		expect(fd < 0 && (errno == EACCES || errno == EROFS), "open an input for writing");
		FAILS(truncate("in/f", 0), EACCES);
		FAILS(chmod("in/f", 0777), EPERM);
		struct timespec t[2] = { { 0, 0 }, { 0, 0 } };
		FAILS(utimensat(AT_FDCWD, "in/f", t, 0), EPERM);
		FAILS(open("in/f", O_RDWR | O_TRUNC | O_CLOEXEC), EACCES);
	} else {
		expect(chmod("in/f", 0777) == 0, "chmod of the copy");
		fd = open("in/f", O_WRONLY | O_TRUNC | O_CLOEXEC);
		expect(fd >= 0 && write(fd, "evil", 4) == 4, "write to the copy");
	}
	/* may be refused (protected_hardlinks); either way it must not reach the store */
	(void)!link("in/f", "hard");
	int hard = open("hard", O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (hard >= 0)
		(void)!write(hard, "evil", 4);
	expect(rename("in/g", "in/moved") == 0, "rename of an input");
	expect(unlink("in/f") == 0, "unlink of an input");
	fd = open("in/f", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	expect(fd >= 0 && write(fd, "evil", 4) == 4, "a new file in its place");
	expect(open("in/new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) >= 0,
	       "a new file beside it");
	expect(mkdir("in/sub/d", 0755) == 0, "a new directory");
	(void)!symlink("/etc/passwd", "in/link");
}

/* ---- what two actions of a slot could share ---- */

static void verb_ipc_set(void)
{
	int id = shmget(0x626a, 4096, IPC_CREAT | 0666);
	expect(id >= 0, "shmget");
	expect(open("/tmp/left", O_CREAT | O_WRONLY | O_CLOEXEC, 0666) >= 0, "/tmp is writable");
	expect(open("/dev/shm/left", O_CREAT | O_WRONLY | O_CLOEXEC, 0666) >= 0,
	       "/dev/shm is writable");
	expect(open("/exec/left", O_CREAT | O_WRONLY | O_CLOEXEC, 0666) >= 0, "/exec is writable");
}

static void verb_ipc_get(void)
{
	FAILS(shmget(0x626a, 4096, 0666), ENOENT);
	absent("/tmp/left");
	absent("/dev/shm/left");
	absent("/exec/left");
}

/* ---- network ---- */

static int tcp(int family)
{
	return socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int connect4(const char *host, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	(void)inet_pton(AF_INET, host, &a.sin_addr);
	int s = tcp(AF_INET);
	int r = connect(s, (struct sockaddr *)&a, sizeof(a));
	return r < 0 ? -1 : s;
}

static int connect6(const char *host, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	(void)inet_pton(AF_INET6, host, &a.sin6_addr);
	int s = tcp(AF_INET6);
	int r = connect(s, (struct sockaddr *)&a, sizeof(a));
	return r < 0 ? -1 : s;
}

static int listen_at(const struct sockaddr *a, socklen_t len)
{
	int s = tcp(a->sa_family), one = 1;
	(void)one; /* no SO_REUSEADDR: a TIME_WAIT of the last action must not be there */
	return bind(s, a, len) < 0 || listen(s, 4) < 0 ? -1 : s;
}

static void talk(int server, int client, const char *what)
{
	int peer = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	char byte = 0;
	expect(client >= 0 && peer >= 0 && write(client, "x", 1) == 1 &&
		       read(peer, &byte, 1) == 1 && byte == 'x',
	       what);
	(void)close(peer); /* first: its end goes to TIME_WAIT */
	(void)close(client);
}

/** lo works on both families, at a port that the next action takes again; nothing else is there. */
static void verb_net(void)
{
	enum { PORT = 18080 };
	struct sockaddr_in a4 = { .sin_family = AF_INET,
				  .sin_port = htons(PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
				   .sin6_port = htons(PORT + 1),
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int s4 = listen_at((struct sockaddr *)&a4, sizeof(a4));
	expect(s4 >= 0, "bind 127.0.0.1");
	if (s4 >= 0)
		talk(s4, connect4("127.0.0.1", PORT), "talk over 127.0.0.1");
	int s6 = listen_at((struct sockaddr *)&a6, sizeof(a6));
	expect(s6 >= 0, "bind ::1");
	if (s6 >= 0)
		talk(s6, connect6("::1", PORT + 1), "talk over ::1");
	FAILS(connect4("192.0.2.1", 80), ENETUNREACH);
	FAILS(connect4("10.0.0.1", 80), ENETUNREACH);
	FAILS(connect4("169.254.169.254", 80), ENETUNREACH);
	FAILS(connect6("2001:db8::1", 80), ENETUNREACH);
	REFUSED(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
	REFUSED(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
}

/** A packet that goes nowhere: no socket is left, only a counter. */
static void verb_udp_unreachable(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(9) };
	(void)inet_pton(AF_INET, "192.0.2.1", &a.sin_addr);
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	FAILS(sendto(s, "x", 1, 0, (struct sockaddr *)&a, sizeof(a)), ENETUNREACH);
}

/**
 * A socket with a name that nobody holds but a message in its own queue: it outlives the process
 * until the kernel looks.
 */
static void verb_socket_in_flight(void)
{
	int pair[2];
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "\0left-behind" };
	expect(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	expect(bind(pair[0], (struct sockaddr *)&name, sizeof(name)) == 0, "bind");
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(2 * sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	memcpy(CMSG_DATA(&control.head), pair, sizeof(pair));
	struct iovec byte = { (char[]){ 'x' }, 1 };
	struct msghdr msg = { .msg_iov = &byte,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	expect(sendmsg(pair[1], &msg, 0) == 1, "sendmsg to itself");
}

/** An IPv6 flow label lingers after its socket. */
static void verb_flow_label(void)
{
	struct {
		struct in6_addr dst;
		uint32_t label;
		uint8_t action, share;
		uint16_t flags, expires, linger;
		uint32_t pad;
	} request = { .dst = IN6ADDR_LOOPBACK_INIT,
		      .label = htonl(0x12345),
		      .action = 0,
		      .share = 1,
		      .flags = 1,
		      .linger = 6 };
	int s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	expect(setsockopt(s, IPPROTO_IPV6, 32 /* IPV6_FLOWLABEL_MGR */, &request,
			  sizeof(request)) == 0,
	       "flow label");
}

/** @argv[0]: a port where the host listens; @argv[1]: an abstract name where it listens. */
static void verb_host_net(int argc, char **argv)
{
	if (argc != 2) {
		bad("usage", "PORT NAME");
		return;
	}
	uint16_t port = (uint16_t)number(argv[0]);
	FAILS(connect4("127.0.0.1", port), ECONNREFUSED);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	(void)snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "%s", argv[1]);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(argv[1]));
	FAILS(connect(s, (struct sockaddr *)&un, len), ECONNREFUSED);
}

/* ---- others ---- */

/** Burns @argv[0] ms of user time. */
static void verb_burn(int argc, char **argv)
{
	uint64_t ms = argc > 0 ? number(argv[0]) : 0;
	struct rusage u;
	do {
		for (volatile int i = 0; i < 20000; i++)
			continue;
		(void)getrusage(RUSAGE_SELF, &u);
	} while ((uint64_t)u.ru_utime.tv_sec * 1000 + (uint64_t)u.ru_utime.tv_usec / 1000 < ms);
}

/** The same in a grandchild whose parent is gone before it: only init can have counted it. */
static void verb_burn_orphan(int argc, char **argv)
{
	int end[2];
	char byte;
	expect(pipe2(end, O_CLOEXEC) == 0, "pipe");
	if (fork() == 0) {
		if (fork() == 0)
			verb_burn(argc, argv);
		_exit(0);
	}
	(void)close(end[1]);
	expect(read(end[0], &byte, 1) == 0, "the grandchild is done");
}

static void verb_flood(int argc, char **argv)
{
	uint64_t left = argc > 0 ? number(argv[0]) : 0;
	static unsigned char block[65536];
	uint32_t x = 1;
	while (left > 0) {
		for (size_t i = 0; i < sizeof(block); i++) {
			x = x * 1103515245 + 12345; /* the driver knows the same sequence */
			block[i] = (unsigned char)(x >> 16);
		}
		size_t n = left < sizeof(block) ? (size_t)left : sizeof(block);
		for (size_t at = 0; at < n;) {
			ssize_t w = write(1, block + at, n - at);
			if (w <= 0)
				_exit(1);
			at += (size_t)w;
		}
		left -= n;
	}
}

/** Leaves as many processes as it can, most of them out of every group and session. */
static void verb_swarm(void)
{
	for (int i = 0; i < 40; i++) {
		if (fork() == 0) {
			(void)setsid();
			if (fork() == 0)
				(void)setsid();
			for (;;)
				(void)pause();
		}
	}
}

/**
 * Same uid as init: what it may do to init by number is limited to itself. The command must still
 * end as usual.
 */
static void verb_starve_init(void)
{
	struct rlimit none = { 0, 0 };
	(void)prlimit(1, RLIMIT_NOFILE, &none, NULL);
	(void)setpriority(PRIO_PROCESS, 1, 19);
	verb_swarm();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*plain)(void);
		void (*with)(int argc, char **argv);
	} verbs[] = {
		{ "rights", verb_rights, NULL },
		{ "setuid", verb_setuid, NULL },
		{ "calls", verb_calls, NULL },
		{ "clone", verb_clone, NULL },
		{ "init", NULL, verb_init },
		{ "kill-init", verb_kill_init, NULL },
		{ "processes", verb_processes, NULL },
		{ "paths", NULL, verb_paths },
		{ "devices", verb_devices, NULL },
		{ "fds", verb_fds, NULL },
		{ "inputs", NULL, verb_inputs },
		{ "ipc-set", verb_ipc_set, NULL },
		{ "ipc-get", verb_ipc_get, NULL },
		{ "net", verb_net, NULL },
		{ "host-net", NULL, verb_host_net },
		{ "udp-unreachable", verb_udp_unreachable, NULL },
		{ "socket-in-flight", verb_socket_in_flight, NULL },
		{ "flow-label", verb_flow_label, NULL },
		{ "burn", NULL, verb_burn },
		{ "burn-orphan", NULL, verb_burn_orphan },
		{ "flood", NULL, verb_flood },
		{ "swarm", verb_swarm, NULL },
		{ "starve-init", verb_starve_init, NULL },
	};
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[1], verbs[i].name) != 0)
			continue;
		if (verbs[i].plain)
			verbs[i].plain();
		else
			verbs[i].with(argc - 2, argv + 2);
		return n_bad > 0;
	}
	puts("unknown verb");
	return 2;
}
