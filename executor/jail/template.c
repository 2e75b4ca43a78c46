// SPDX-License-Identifier: Apache-2.0
/*
 * The template: the root that every action of a slot starts from.
 *
 *   clean_ns   /            tmpfs, read-only: directories, links and small files only
 *              /usr …       the host's, read-only
 *              /dev         tmpfs, read-only, six device nodes
 *              /exec /tmp /dev/shm /proc   empty directories: the action's own mounts go there
 *   work_ns    the same, and the work area over /tmp
 *
 * Everything outside is opened (open_tree) before the new root exists and attached afterwards, then
 * the old root goes. The work area lives in a second namespace: an action's mounts are made there,
 * detached, and attached by its init in a copy of clean_ns, so that no action's namespace ever
 * holds the work area, not even for a moment (and none has to pay for an umount).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "executor/base/fd.h"
#include "executor/jail/mnt-internal.h"
#include "executor/jail/zygote-internal.h"

static const struct {
	const char *name, *host;
	mode_t mode;
	unsigned minor;
	unsigned major;
} devices[] = {
	{ "null", "/dev/null", 0666, 3, 1 },	   { "zero", "/dev/zero", 0666, 5, 1 },
	{ "full", "/dev/full", 0666, 7, 1 },	   { "random", "/dev/random", 0666, 8, 1 },
	{ "urandom", "/dev/urandom", 0666, 9, 1 }, { "tty", "/dev/tty", 0666, 0, 5 },
};

static const struct {
	const char *name, *target;
} dev_links[] = {
	{ "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

enum { N_DEVICES = BJ_ARRAY_LEN(devices) };

/** What is opened in the old world and attached in the new one. */
struct parts {
	int root;		  /* the new root's mount */
	int dev;		  /* mount for /dev */
	int dev_nodes[N_DEVICES]; /* clones of the host's nodes; -1 where mknod worked */
	int *roots;		  /* parallel to spec->roots; -1 for links and copies */
	int work;
	int proc; /* -1 unless a new /proc needs an old one */
};

static int put_bytes(int dirfd, const char *path, struct bj_str content,
		     struct bj_wire_failed *failed)
{
	bj_cleanup(bj_close_fdp) int fd =
		openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return bj_fail(failed, "template-file", "open", errno, path);
	for (size_t done = 0; done < content.len;) {
		ssize_t n = write(fd, content.ptr + done, content.len - done);
		if (n < 0)
			return bj_fail(failed, "template-file", "write", errno, path);
		done += (size_t)n;
	}
	return 0;
}

/** The directories above @rel (relative to the root). */
static int make_parents(int root, const char *rel, struct bj_wire_failed *failed)
{
	char dir[4096];
	const char *slash = strrchr(rel, '/');
	if (!slash)
		return 0;
	size_t len = (size_t)(slash - rel);
	if (len >= sizeof(dir))
		return bj_fail(failed, "template-dir", "mkdir", ENAMETOOLONG, rel);
	memcpy(dir, rel, len);
	dir[len] = '\0';
	int r = bj_mkdir_p(root, dir, 0755);
	return r < 0 ? bj_fail(failed, "template-dir", "mkdir", -r, rel) : 0;
}

/* ---- opening the old world ---- */

static int make_devices(struct parts *p, struct bj_wire_failed *failed)
{
	static const struct bj_mnt_option options[] = { { "mode", "0755" }, { "size", "64k" } };
	p->dev = bj_mnt_make("tmpfs", options, BJ_ARRAY_LEN(options),
			     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev", failed);
	if (p->dev < 0)
		return -1;
	for (size_t i = 0; i < N_DEVICES; i++) {
		dev_t number = makedev(devices[i].major, devices[i].minor);
		p->dev_nodes[i] = -1;
		if (mknodat(p->dev, devices[i].name, S_IFCHR | devices[i].mode, number) == 0) {
			/* the umask took its part */
			if (fchmodat(p->dev, devices[i].name, devices[i].mode, 0) < 0)
				return bj_fail(failed, "dev", "fchmodat", errno, devices[i].name);
			continue;
		}
		/*
		 * no right to make devices: a user namespace; the host's are mounted over plain
		 * files
		 */
		if (errno != EPERM)
			return bj_fail(failed, "dev", "mknod", errno, devices[i].name);
		p->dev_nodes[i] =
			bj_mnt_clone(AT_FDCWD, devices[i].host,
				     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev", failed);
		if (p->dev_nodes[i] < 0 ||
		    put_bytes(p->dev, devices[i].name, BJ_STR_NULL, failed) < 0)
			return -1;
	}
	for (size_t i = 0; i < BJ_ARRAY_LEN(dev_links); i++) {
		if (symlinkat(dev_links[i].target, p->dev, dev_links[i].name) < 0)
			return bj_fail(failed, "dev", "symlink", errno, dev_links[i].name);
	}
	if (mkdirat(p->dev, "shm", 0755) < 0)
		return bj_fail(failed, "dev", "mkdir", errno, "shm");
	return 0;
}

/** Return: as bj_copy_tree(). */
static int try_copy(const struct bj_jail_root *root, int root_fd, struct bj_wire_failed *failed)
{
	if (!bj_str_has_prefix(root->path, BJ_STR_LIT("/etc/")))
		return 1;
	const char *rel = root->path.ptr + 1;
	return make_parents(root_fd, rel, failed) < 0
		       ? -1
		       : bj_copy_tree(root->path.ptr, root_fd, rel, failed);
}

/**
 * A dozen small things of /etc are copied instead: each mount is copied for every action and torn
 * down with it.
 */
static int open_roots(const struct bj_jail_slot_spec *spec, struct parts *p,
		      struct bj_wire_failed *failed)
{
	for (size_t i = 0; i < spec->n_roots; i++) {
		if (spec->roots[i].is_link)
			continue;
		int r = try_copy(&spec->roots[i], p->root, failed);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		p->roots[i] = bj_mnt_clone(AT_FDCWD, spec->roots[i].path.ptr,
					   MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
					   "root", failed);
		if (p->roots[i] < 0)
			return -1;
	}
	return 0;
}

static int open_parts(const struct bj_jail_slot_spec *spec, bool proc_below, struct parts *p,
		      struct bj_wire_failed *failed)
{
	static const struct bj_mnt_option options[] = { { "mode", "0755" }, { "size", "32m" } };
	p->root = bj_mnt_make("tmpfs", options, BJ_ARRAY_LEN(options),
			      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "root-tmpfs", failed);
	if (p->root < 0 || make_devices(p, failed) < 0 || open_roots(spec, p, failed) < 0)
		return -1;
	p->work = bj_mnt_clone(AT_FDCWD, spec->work_dir.ptr, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
			       "work-area", failed);
	if (p->work < 0)
		return -1;
	if (proc_below)
		p->proc = bj_mnt_clone(AT_FDCWD, "/proc", 0, "outer-proc", failed);
	return proc_below && p->proc < 0 ? -1 : 0;
}

/* ---- furnishing the new root ---- */

static int place_root(const struct bj_jail_root *root, int mnt, int root_fd,
		      struct bj_wire_failed *failed)
{
	const char *rel = root->path.ptr + 1;
	if (make_parents(root_fd, rel, failed) < 0)
		return -1;
	if (!root->is_link && mnt < 0)
		return 0; /* copied */
	if (root->is_link) {
		if (symlinkat(root->target.ptr, root_fd, rel) < 0)
			return bj_fail(failed, "template-link", "symlink", errno, rel);
		return 0;
	}
	if (root->is_file) {
		if (put_bytes(root_fd, rel, BJ_STR_NULL, failed) < 0)
			return -1;
	} else {
		int r = bj_mkdir_p(root_fd, rel, 0755);
		if (r < 0)
			return bj_fail(failed, "template-dir", "mkdir", -r, rel);
	}
	return bj_mnt_attach(mnt, root_fd, rel, "root", failed);
}

static int place_dev(const struct parts *p, struct bj_wire_failed *failed)
{
	if (bj_mnt_attach(p->dev, p->root, "dev", "dev", failed) < 0)
		return -1;
	for (size_t i = 0; i < N_DEVICES; i++) {
		if (p->dev_nodes[i] >= 0 &&
		    bj_mnt_attach(p->dev_nodes[i], p->dev, devices[i].name, "dev", failed) < 0)
			return -1;
	}
	return bj_mnt_set(p->dev, "", MOUNT_ATTR_RDONLY, "dev", failed);
}

static int furnish(const struct bj_jail_slot_spec *spec, const struct parts *p,
		   struct bj_wire_failed *failed)
{
	static const char *const points[] = { "/dev", "/proc", "/tmp", BJ_JAIL_ROOT };
	for (size_t i = 0; i < BJ_ARRAY_LEN(points); i++) {
		const char *rel = points[i] + 1;
		if (mkdirat(p->root, rel, 0755) < 0)
			return bj_fail(failed, "template-dir", "mkdir", errno, rel);
	}
	for (size_t i = 0; i < spec->n_roots; i++) {
		if (place_root(&spec->roots[i], p->roots[i], p->root, failed) < 0)
			return -1;
	}
	for (size_t i = 0; i < spec->n_files; i++) {
		const char *rel = spec->files[i].path.ptr + 1;
		if (make_parents(p->root, rel, failed) < 0 ||
		    put_bytes(p->root, rel, spec->files[i].content, failed) < 0)
			return -1;
	}
	if (place_dev(p, failed) < 0)
		return -1;
	if (p->proc >= 0 && bj_mnt_attach(p->proc, p->root, "proc", "outer-proc", failed) < 0)
		return -1;
	return bj_mnt_set(p->root, "", MOUNT_ATTR_RDONLY, "root-tmpfs", failed);
}

/**
 * The new root is put on the work directory, as good a place as any in our own namespace, and the
 * old one is let go.
 */
static int move_in(const struct bj_jail_slot_spec *spec, const struct parts *p,
		   struct bj_wire_failed *failed)
{
	if (bj_mnt_attach(p->root, AT_FDCWD, spec->work_dir.ptr, "root-tmpfs", failed) < 0)
		return -1;
	if (furnish(spec, p, failed) < 0)
		return -1;
	if (fchdir(p->root) < 0)
		return bj_fail(failed, "pivot", "fchdir", errno, "");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return bj_fail(failed, "pivot", "pivot_root", errno, "");
	if (umount2(".", MNT_DETACH) < 0) /* the old root lies on top of the new one now */
		return bj_fail(failed, "pivot", "umount2", errno, "");
	if (chdir("/") < 0)
		return bj_fail(failed, "pivot", "chdir", errno, "/");
	return 0;
}

static int own_mount_ns(int proc_fd, struct bj_wire_failed *failed)
{
	int fd = openat(proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd
		       : bj_fail(failed, "mount-namespace", "open", errno, "/proc/self/ns/mnt");
}

/** The second namespace: a copy of the first, and the work area over /tmp. */
static int add_work_ns(struct bj_template *t, const struct parts *p, struct bj_wire_failed *failed)
{
	t->clean_ns = own_mount_ns(t->proc_fd, failed);
	if (t->clean_ns < 0)
		return -1;
	if (unshare(CLONE_NEWNS) < 0)
		return bj_fail(failed, "mount-namespace", "unshare", errno, "");
	t->work_ns = own_mount_ns(t->proc_fd, failed);
	if (t->work_ns < 0 || bj_mnt_attach(p->work, AT_FDCWD, "/tmp", "work-area", failed) < 0)
		return -1;
	t->work_fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->work_fd < 0)
		return bj_fail(failed, "work-area", "open", errno, "/tmp");
	struct statfs fs;
	t->work_is_tmpfs = fstatfs(t->work_fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
	return 0;
}

/** In a user namespace a new /proc may be mounted only where an old one is fully visible. */
static bool in_initial_user_ns(int proc_fd)
{
	char map[64];
	bj_cleanup(bj_close_fdp) int fd = openat(proc_fd, "self/uid_map", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, map, sizeof(map) - 1) : -1;
	if (n < 0)
		return false; /* the careful answer: keep the old one below */
	map[n] = '\0';
	return strstr(map, "4294967295") != NULL;
}

static int unshare_all(int proc_fd, struct bj_net *net, struct bj_wire_failed *failed)
{
	static const struct {
		int flag;
		const char *step;
	} kinds[] = {
		{ CLONE_NEWNS, "mount-namespace" },
		{ CLONE_NEWIPC, "ipc-namespace" },
		{ CLONE_NEWUTS, "uts-namespace" },
		{ CLONE_NEWCGROUP, "cgroup-namespace" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		if (unshare(kinds[i].flag) < 0)
			return bj_fail(failed, kinds[i].step, "unshare", errno, "");
	}
	if (bj_net_fresh(net, proc_fd, failed) < 0)
		return -1;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return bj_fail(failed, "mount-namespace", "mount", errno, "/");
	if (sethostname(BJ_JAIL_HOSTNAME, sizeof(BJ_JAIL_HOSTNAME) - 1) < 0 ||
	    setdomainname("", 0) < 0)
		return bj_fail(failed, "hostname", "sethostname", errno, "");
	return 0;
}

static void close_parts(struct parts *p, size_t n_roots)
{
	for (size_t i = 0; i < n_roots; i++)
		bj_close_fdp(&p->roots[i]);
	for (size_t i = 0; i < N_DEVICES; i++)
		bj_close_fdp(&p->dev_nodes[i]);
	bj_close_fdp(&p->root);
	bj_close_fdp(&p->dev);
	bj_close_fdp(&p->work);
	bj_close_fdp(&p->proc);
}

int bj_template_build(const struct bj_jail_slot_spec *spec, struct bj_template *out_template,
		      struct bj_net *out_net, struct bj_wire_failed *failed)
{
	static int root_fds[4096]; /* the codec's limit of roots */
	struct parts parts = { .root = -1, .dev = -1, .work = -1, .proc = -1, .roots = root_fds };
	struct bj_template t = { .proc_fd = -1, .clean_ns = -1, .work_ns = -1, .work_fd = -1 };
	bj_assert(spec->n_roots <= BJ_ARRAY_LEN(root_fds));
	memset(root_fds, 0xff, sizeof(root_fds));
	memset(parts.dev_nodes, 0xff, sizeof(parts.dev_nodes));
	umask(0022);
	t.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t.proc_fd < 0)
		return bj_fail(failed, "outer-proc", "open", errno, "/proc");
	t.proc_below = !in_initial_user_ns(t.proc_fd);
	if (unshare_all(t.proc_fd, out_net, failed) < 0 ||
	    open_parts(spec, t.proc_below, &parts, failed) < 0 ||
	    move_in(spec, &parts, failed) < 0 || add_work_ns(&t, &parts, failed) < 0)
		return -1; /* the process ends: nothing to tidy up */
	close_parts(&parts, spec->n_roots);
	*out_template = t;
	return 0;
}
