// SPDX-License-Identifier: Apache-2.0
/*
 * Init: pid 1 of one action. A clone of the zygote that shares its memory, without exec, so that it
 * costs little.
 *
 *   mounts -> credentials -> clone(VM|VFORK|FILES) -> [command: filter, READY, GO, exec]
 *          -> reap until the command is dead -> list and kill what is left -> EXITED
 *          -> exit with the command's code
 *
 * The memory is the zygote's, which sleeps meanwhile: nothing is allocated here. The command's
 * process shares it, and our descriptors, until it execs, and we sleep that long (vfork): no page
 * is copied, the exec's errno is a store, and the seccomp listener is in our table, where the
 * executor takes it from (pidfd_getfd on our pidfd). The command cannot send it itself: its own
 * filter may hold sendmsg for a supervisor that does not listen yet.
 *
 * After the credentials are dropped we share the command's uid. We are not dumpable, hold no
 * descriptor of worth but the event socket, and the kernel refuses every signal from inside that we
 * do not handle, SIGKILL included. What we report is detail: the exit status that counts is the one
 * that the kernel gives the executor, our parent.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

enum { EXIT_SETUP = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/**
 * Shared with the command's process until it execs: plain stores, ordered by vfork's suspension.
 */
static struct {
	struct bj_wire_failed failed; /* a step before exec */
	bool has_failed;
	int exec_errno;
	uint64_t go_ns; /* when GO came */
} shared;

static char command_stack[64 * 1024] __attribute__((aligned(16)));

BJ_NORETURN static void give_up(const struct bj_init *in, const struct bj_wire_failed *failed)
{
	/* Without the executor nobody is left to tell. */
	(void)!bj_wire_send(in->event_fd, BJ_WIRE_FAILED, failed, sizeof(*failed), NULL, 0);
	_exit(EXIT_SETUP);
}

/* ---- mounts ---- */

/*
 * Nothing in /proc is masked by further mounts, which cost 20 us each: what containers hide there
 * is closed to us by other means. We are not root of any namespace that owns a sysctl, so that
 * /proc/sys is read-only for the action (but for the limits of its own ipc namespace in the userns
 * profile); kcore, kmsg, sysrq-trigger, keys and the like ask for the host's root or a capability.
 */

static int mount_proc(bool proc_below, struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int proc = bj_mnt_make(
		"proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
		"mount-proc", failed);
	if (proc < 0)
		return -1;
	if (proc_below && umount2("/proc", MNT_DETACH) < 0)
		return bj_fail(failed, "mount-proc", "umount2", errno, "/proc");
	return bj_mnt_attach(proc, AT_FDCWD, "/proc", "mount-proc", failed);
}

/** strict: the input root read-only but for the directories that hold outputs. */
static int narrow_writes(const struct bj_jail_spec *spec, struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int root = open(BJ_JAIL_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return bj_fail(failed, "strict", "open", errno, BJ_JAIL_ROOT);
	if (bj_mnt_set(root, "", MOUNT_ATTR_RDONLY, "strict", failed) < 0)
		return -1;
	for (size_t i = 0; i < spec->n_writable; i++) {
		const char *path = spec->writable[i].ptr;
		bj_cleanup(bj_close_fdp) int at =
			bj_open_beneath(root, path, O_PATH | O_DIRECTORY, 0);
		if (at < 0)
			return bj_fail(failed, "strict", "openat2", -at, path);
		bj_cleanup(bj_close_fdp) int mnt = bj_mnt_clone(at, "", 0, "strict", failed);
		if (mnt < 0)
			return -1;
		struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };
		if (mount_setattr(mnt, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
			return bj_fail(failed, "strict", "mount_setattr", errno, path);
		if (bj_mnt_attach(mnt, at, "", "strict", failed) < 0)
			return -1;
	}
	return 0;
}

static int attach_layers(const struct bj_init *in, struct bj_wire_failed *failed)
{
	if (bj_mnt_attach(in->layers->exec_fd, AT_FDCWD, BJ_JAIL_ROOT, "overlay", failed) < 0 ||
	    bj_mnt_attach(in->layers->tmp_fd, AT_FDCWD, "/tmp", "tmp", failed) < 0 ||
	    bj_mnt_attach(in->layers->shm_fd, AT_FDCWD, "/dev/shm", "shm", failed) < 0)
		return -1;
	if (mount_proc(in->proc_below, failed) < 0)
		return -1;
	return in->spec->write_mode == BJ_WRITE_STRICT ? narrow_writes(in->spec, failed) : 0;
}

/* ---- descriptors and limits ---- */

static int set_fds(struct bj_init *in, struct bj_wire_failed *failed)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0)
		return bj_fail(failed, "stdio", "open", errno, "/dev/null");
	/* The zygote keeps 0, 1 and 2 open, so that none of the sources can be one of them. */
	const int sources[3] = { null, in->stdout_fd, in->stderr_fd };
	for (int i = 0; i < 3; i++) {
		if (sources[i] < 3 || dup2(sources[i], i) < 0)
			return bj_fail(failed, "stdio", "dup2", errno, "");
	}
	enum { EVENT_FD = 3 };
	if (in->event_fd != EVENT_FD && dup3(in->event_fd, EVENT_FD, O_CLOEXEC) < 0)
		return bj_fail(failed, "stdio", "dup3", errno, "");
	in->event_fd = EVENT_FD;
	if (close_range(EVENT_FD + 1, ~0U, 0) < 0)
		return bj_fail(failed, "close-descriptors", "close_range", errno, "");
	return 0;
}

/** The same on every slot, whatever the executor raised for itself. Hard limits stay the host's. */
static int set_limits(struct bj_wire_failed *failed)
{
	static const struct {
		__rlimit_resource_t what;
		rlim_t soft;
		const char *name;
	} limits[] = {
		{ RLIMIT_CORE, 0, "core" },
		{ RLIMIT_NOFILE, 16384, "nofile" },
		{ RLIMIT_STACK, 8 << 20, "stack" },
		{ RLIMIT_NPROC, 8192,
		  /* of this user namespace: a fork bomb must not take the machine along */
		  "nproc" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(limits); i++) {
		struct rlimit r;
		if (getrlimit(limits[i].what, &r) < 0)
			return bj_fail(failed, "limits", "getrlimit", errno, limits[i].name);
		r.rlim_cur = BJ_MIN(limits[i].soft, r.rlim_max);
		if (limits[i].what == RLIMIT_NPROC)
			r.rlim_max = r.rlim_cur;
		if (setrlimit(limits[i].what, &r) < 0)
			return bj_fail(failed, "limits", "setrlimit", errno, limits[i].name);
	}
	return 0;
}

/* ---- the command's process, up to exec ---- */

static const char *find_path(char *const *envp)
{
	for (; *envp; envp++) {
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	}
	return NULL;
}

/** A failure after which the next entry of PATH is tried. */
static bool is_elsewhere(int e)
{
	return e == ENOENT || e == ENOTDIR || e == ESTALE || e == ENODEV || e == ETIMEDOUT;
}

/**
 * As execvpe, without its fall-back to a shell. ETXTBSY (L45) cannot be: no process of the action
 * is there yet, and an overlay counts its own writers, not those of the file below, should somebody
 * on the executor's side still have it open.
 * Return: the errno that describes the failure best.
 */
static int exec_search(char *const *argv, char *const *envp)
{
	const char *name = argv[0], *path = find_path(envp);
	/*
	 * An empty name is for the kernel to refuse, too: where exec is observed it waits there for the
	 * supervisor, which cannot find an init that has ended already.
	 */
	if (name[0] == '\0' || strchr(name, '/')) {
		(void)execve(name, argv, envp); /* returns only to fail */
		return errno;
	}
	size_t name_len = strlen(name);
	int best = ENOENT;
	while (path) {
		size_t len = strcspn(path, ":");
		char full[4096];
		if (len + 1 + name_len < sizeof(full)) {
			memcpy(full, path, len);
			full[len] = '/';
			memcpy(full + len + (len > 0), name,
			       name_len + 1); /* an empty entry is the working directory */
			(void)execve(full, argv, envp);
			if (errno == EACCES)
				best = EACCES;
			else if (!is_elsewhere(errno))
				return errno;
		}
		path = path[len] == ':' ? path + len + 1 : NULL;
	}
	return best;
}

BJ_NORETURN static void command_fails(const char *step, const char *call, int errnum,
				      const char *path)
{
	(void)bj_fail(&shared.failed, step, call, errnum, path);
	shared.has_failed = true;
	_exit(EXIT_SETUP);
}

/**
 * Says that the filter is on, and waits for the executor's word. Plain write and read: no filter
 * holds those. Where exec itself is observed it may have been given already; the exec then waits in
 * the kernel for the supervisor.
 */
static void wait_for_go(const struct bj_init *in, int listener)
{
	struct bj_wire_ready ready = { .listener = listener };
	int r = listener >= 0 ? bj_wire_write(in->event_fd, BJ_WIRE_READY, &ready, sizeof(ready))
			      : 0;
	if (r < 0)
		command_fails("go", "write", -r, "");
	r = bj_wire_read(in->event_fd);
	if (r != BJ_WIRE_GO)
		command_fails("go", "read", r < 0 ? -r : ECANCELED, "");
	/*
	 * The executor may have died after its word and before our parent-death signal was set.
	 * Then its end is closed by now, or a thread of it still has to die, which sends the
	 * signal.
	 */
	struct pollfd end = { .fd = in->event_fd, .events = 0 };
	if (poll(&end, 1, 0) != 0)
		command_fails("go", "poll", ECANCELED, "");
}

static int command_main(void *arg)
{
	const struct bj_init *in = arg;
	if (setsid() < 0)
		command_fails("session", "setsid", errno, "");
	int r = bj_creds_same_as_command(in->slot);
	if (r < 0)
		command_fails("slot-ids", "setresgid", -r, "");
	if (chdir(in->spec->cwd.ptr) < 0)
		command_fails("working-directory", "chdir", errno, in->spec->cwd.ptr);
	sigset_t none;
	(void)sigemptyset(&none); /* cannot fail */
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		command_fails("signals", "sigprocmask", errno, "");
	int listener = bj_observer_attach(in->filter);
	if (listener < -1)
		command_fails("seccomp", "seccomp", -listener - 1, "");
	wait_for_go(in, listener);
	shared.go_ns = bj_now_ns();
	shared.exec_errno = exec_search(in->argv, in->envp);
	_exit(shared.exec_errno == ENOENT || shared.exec_errno == ENOTDIR ? EXIT_NOT_FOUND
									  : EXIT_NOT_EXECUTABLE);
}

/* ---- life as pid 1 ---- */

struct watch {
	pid_t command;
	struct bj_wire_exited out;
	bool command_dead;
	bool none_left; /* no child: nobody but us in the namespace */
};

static void on_sigchld(int sig)
{
	(void)sig; /* only to end ppoll */
}

/** Takes the dead. @flags: WNOHANG or 0. */
static void reap(struct watch *w, int flags)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, flags);
		if (pid == 0)
			return;
		if (pid < 0) {
			if (errno == EINTR)
				continue;
			/* ECHILD: every process of the namespace descends from us */
			w->none_left = true;
			return;
		}
		if (pid != w->command)
			continue;
		w->command_dead = true;
		w->out.raw_status = status;
		w->out.wall_ns = shared.go_ns ? bj_now_ns() - shared.go_ns : 0;
	}
}

static size_t read_proc(int proc, const char *pid, const char *file, char *out, size_t cap)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "%s/%s", pid, file); /* a pid and a short name */
	bj_cleanup(bj_close_fdp) int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, cap - 1) : 0;
	size_t len = n > 0 ? (size_t)n : 0;
	out[len] = '\0';
	return len;
}

/** One process, from "pid (comm) state …" and the command line. Zombies are nobody. */
static void list_one(int proc, const char *name, int32_t pid, struct bj_wire_exited *out)
{
	char stat[128];
	(void)read_proc(proc, name, "stat", stat, sizeof(stat));
	char *comm = strchr(stat, '('), *end = strrchr(stat, ')');
	if (!comm || !end || end[1] != ' ' || end[2] == 'Z' || end[2] == 'X')
		return;
	*end = '\0';
	out->n_alive++;
	if (out->n_listed == BJ_JAIL_MAX_STRAYS)
		return;
	uint32_t i = out->n_listed++;
	out->strays[i].pid = pid;
	(void)snprintf(out->strays[i].comm, sizeof(out->strays[i].comm), "%s",
		       comm + 1); /* 15 bytes at most */
	(void)read_proc(proc, name, "cmdline", out->strays[i].argv0, sizeof(out->strays[i].argv0));
}

/** As the kernel gives it to getdents64(2). */
struct dirent64_raw {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/** A name that is a number. */
static int32_t pid_of(const char *name)
{
	int32_t pid = 0;
	for (; *name >= '0' && *name <= '9'; name++)
		pid = pid * 10 + (*name - '0'); /* the kernel's own: 22 bits */
	return pid;
}

/**
 * Who is there besides us. Best effort: whether they die does not depend on it. No readdir(3),
 * which allocates.
 */
static void list_alive(struct bj_wire_exited *out)
{
	static char entries[16 * 1024] __attribute__((aligned(8)));
	bj_cleanup(bj_close_fdp) int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (;;) {
		long n = proc >= 0 ? syscall(SYS_getdents64, proc, entries, sizeof(entries)) : 0;
		if (n <= 0)
			return;
		for (long at = 0; at < n;) {
			const struct dirent64_raw *e = (const void *)(entries + at);
			if (pid_of(e->name) > 1)
				list_one(proc, e->name, pid_of(e->name), out);
			at += e->reclen;
		}
	}
}

static void kill_all(struct watch *w)
{
	while (!w->none_left) {
		/*
		 * One pass catches all: a fork under way sees the signal and is restarted, never
		 * finished.
		 */
		if (kill(-1, SIGKILL) < 0 && errno != ESRCH)
			return; /* our exit kills them all the same */
		reap(w, 0);
	}
}

/** Until the command is dead, or the executor says KILL or is gone. */
static void watch_command(struct watch *w, int event_fd)
{
	sigset_t open_mask;
	(void)sigemptyset(&open_mask);
	struct pollfd event = { .fd = event_fd, .events = POLLIN };
	for (;;) {
		reap(w, WNOHANG);
		if (w->command_dead)
			return;
		int n = ppoll(&event, 1, NULL, &open_mask);
		if (n <= 0)
			continue; /* EINTR: a child */
		w->out.was_killed = 1;
		return; /* KILL, or the other end is closed; nothing else is ever sent after GO */
	}
}

static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * BJ_NS_PER_SEC + (uint64_t)t.tv_usec * 1000;
}

BJ_NORETURN static void finish(struct watch *w, int event_fd)
{
	if (!w->none_left) {
		list_alive(&w->out);
		kill_all(w);
	}
	struct rusage own;
	if (getrusage(RUSAGE_SELF, &own) == 0) {
		w->out.own_user_ns = timeval_ns(own.ru_utime);
		w->out.own_system_ns = timeval_ns(own.ru_stime);
	}
	w->out.exec_errno = shared.exec_errno;
	(void)!bj_wire_send(event_fd, BJ_WIRE_EXITED, &w->out, sizeof(w->out), NULL,
			    0); /* detail only */
	_exit(exit_code(w->out.raw_status));
}

static int prepare(struct bj_init *in, struct bj_wire_failed *failed)
{
	(void)prctl(PR_SET_NAME, "belljar-init", 0, 0, 0); /* a courtesy to ps */
	if (attach_layers(in, failed) < 0 || set_limits(failed) < 0)
		return -1;
	if (bj_creds_drop(in->slot, in->userns, failed) < 0 || set_fds(in, failed) < 0)
		return -1;
	/* A change of credentials clears it. See wait_for_go() for a death in between. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return bj_fail(failed, "parent-death", "prctl", errno, "");
	sigset_t chld;
	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	struct sigaction action = { .sa_handler = on_sigchld };
	if (sigprocmask(SIG_BLOCK, &chld, NULL) < 0 || sigaction(SIGCHLD, &action, NULL) < 0)
		return bj_fail(failed, "signals", "sigaction", errno, "");
	return 0;
}

void bj_init_main(const struct bj_init *borrowed)
{
	struct bj_init in = *borrowed;
	memset(&shared, 0, sizeof(shared)); /* of the last action */
	struct bj_wire_failed failed;
	if (prepare(&in, &failed) < 0)
		give_up(&in, &failed);
	struct watch w = { 0 };
	w.command = clone(command_main, command_stack + sizeof(command_stack),
			  CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &in);
	if (w.command < 0) {
		(void)bj_fail(&failed, "clone-command", "clone", errno, "");
		give_up(&in, &failed);
	}
	if (shared.has_failed)
		give_up(&in, &shared.failed);
	watch_command(&w, in.event_fd);
	finish(&w, in.event_fd);
}
