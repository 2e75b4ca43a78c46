// SPDX-License-Identifier: Apache-2.0
/*
 * The toolchain roots of this host. /usr alone is not enough: cc and awk go through
 * /etc/alternatives, java reads /etc/java-*, and getpwuid needs a passwd, which must not be the
 * host's. What the host lacks is left out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/jail/jail.h"

/** Looked for in this order; a name that ends in '*' is a prefix of names in its directory. */
static const char *const candidates[] = {
	"/usr",
	"/bin",
	"/sbin",
	"/lib*",
	"/etc/alternatives",
	"/etc/ld.so.cache",
	"/etc/ld.so.conf",
	"/etc/ld.so.conf.d",
	"/etc/java-*",
	"/etc/python3*",
	"/etc/perl",
	"/etc/ssl/openssl.cnf",
	"/etc/ssl/certs",
	"/etc/localtime",
	"/etc/timezone",
	"/etc/locale.alias",
	"/etc/protocols",
	"/etc/services",
	"/etc/mime.types",
	"/etc/host.conf",
};

static const struct {
	const char *path, *content;
} synthetic[] = {
	{ "/etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
			 "belljar:x:1000:1000:build action:/tmp:/bin/sh\n"
			 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "/etc/group", "root:x:0:\nbelljar:x:1000:\nnogroup:x:65534:\n" },
	{ "/etc/hosts",
	  "127.0.0.1 localhost " BJ_JAIL_HOSTNAME "\n::1 localhost ip6-localhost ip6-loopback\n" },
	/* dns: nobody answers, but the question is seen, and a wish for the network recorded. */
	{ "/etc/nsswitch.conf",
	  "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
	  "protocols: files\nservices: files\n" },
	{ "/etc/resolv.conf", "" },
};

enum { MAX_ROOTS = 4096 }; /* as the codec */

struct list {
	struct bj_arena *arena;
	struct bj_jail_root *roots; /* MAX_ROOTS of them */
	size_t n;
	bool no_memory;
};

/** The first root that is @path or above it. */
static bool is_covered(const struct list *l, struct bj_str path)
{
	for (size_t i = 0; i < l->n; i++) {
		struct bj_str root = l->roots[i].path;
		bool below = bj_str_has_prefix(path, root) &&
			     (path.len == root.len || path.ptr[root.len] == '/');
		if (below && (!l->roots[i].is_link || path.len == root.len))
			return true;
	}
	return false;
}

static struct bj_jail_root *append(struct list *l, const char *path)
{
	struct bj_str copy = bj_arena_str(l->arena, bj_str_of(path));
	if (l->n == MAX_ROOTS || !copy.ptr) {
		l->no_memory = true;
		return NULL;
	}
	struct bj_jail_root *root = &l->roots[l->n++];
	*root = (struct bj_jail_root){ .path = copy };
	return root;
}

static void add_link(struct list *l, const char *path, struct bj_str target)
{
	struct bj_str copy = bj_arena_str(l->arena, target);
	struct bj_jail_root *root = copy.ptr ? append(l, path) : NULL;
	if (!root) {
		l->no_memory = true;
		return;
	}
	root->is_link = true;
	root->target = copy;
}

/**
 * @path as it is on the host: directory, file or link; anything else, and what is not there, is
 * left out.
 */
static void add_path(struct list *l, const char *path)
{
	struct stat st;
	if (lstat(path, &st) < 0 || is_covered(l, bj_str_of(path)))
		return;
	if (S_ISLNK(st.st_mode)) {
		char target[PATH_MAX];
		ssize_t n = readlink(path, target, sizeof(target));
		if (n > 0 && (size_t)n < sizeof(target))
			add_link(l, path, bj_str_n(target, (size_t)n));
		return;
	}
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return;
	struct bj_jail_root *root = append(l, path);
	if (root)
		root->is_file = S_ISREG(st.st_mode);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_matches(struct list *l, const char *pattern)
{
	const char *name = strrchr(pattern, '/') + 1;
	size_t prefix_len = strlen(name) - 1; /* without the '*' */
	char *dir = bj_str_dup(l->arena, bj_str_n(pattern, (size_t)(name - pattern)));
	struct dirent **entries = NULL;
	int n = dir ? scandir(dir, &entries, NULL, by_name) : 0;
	for (int i = 0; i < n; i++) {
		if (strncmp(entries[i]->d_name, name, prefix_len) == 0) {
			char *path = bj_arena_printf(l->arena, "%s%s", dir, entries[i]->d_name);
			if (path)
				add_path(l, path);
			l->no_memory |= !path;
		}
		free(entries[i]); /* scandir's */
	}
	free(entries);
	l->no_memory |= !dir;
}

/** An operator's root: its real path is mounted, and the spelling that was given leads there. */
static int add_extra(struct list *l, struct bj_str extra, struct bj_err *err)
{
	char real[PATH_MAX];
	char *given = bj_str_dup(l->arena, extra);
	if (!given)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail: no memory");
	if (given[0] != '/' || memchr(extra.ptr, '\0', extra.len))
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "jail: root \"%s\" is not an absolute path", given);
	if (!realpath(given, real))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "jail: root \"%s\": %s", given,
				  strerror(errno));
	if (strcmp(real, "/") == 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "jail: the whole host as a root leaves no wall");
	add_path(l, real);
	if (strcmp(given, real) != 0 && !is_covered(l, extra))
		add_link(l, given, bj_str_of(real)); /* a link on the way is enough to need it */
	return 0;
}

static int copy_files(struct bj_arena *arena, struct bj_jail_slot_spec *spec)
{
	spec->files = BJ_ARENA_ARRAY(arena, struct bj_jail_file, BJ_ARRAY_LEN(synthetic));
	if (!spec->files)
		return -1;
	spec->n_files = BJ_ARRAY_LEN(synthetic);
	for (size_t i = 0; i < spec->n_files; i++) {
		spec->files[i].path = bj_str_of(synthetic[i].path);
		spec->files[i].content = bj_str_of(synthetic[i].content);
	}
	return 0;
}

int bj_jail_default_roots(const struct bj_str *extra, size_t n_extra, struct bj_arena *arena,
			  struct bj_jail_slot_spec *out_spec, struct bj_err *err)
{
	struct list l = { .arena = arena,
			  .roots = BJ_ARENA_ARRAY(arena, struct bj_jail_root, MAX_ROOTS) };
	if (!l.roots)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail: no memory");
	for (size_t i = 0; i < BJ_ARRAY_LEN(candidates); i++) {
		size_t len = strlen(candidates[i]);
		if (candidates[i][len - 1] == '*')
			add_matches(&l, candidates[i]);
		else
			add_path(&l, candidates[i]);
	}
	for (size_t i = 0; i < n_extra; i++) {
		int r = add_extra(&l, extra[i], err);
		if (r < 0)
			return r;
	}
	struct bj_jail_slot_spec files = { 0 };
	if (l.no_memory || copy_files(arena, &files) < 0)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "jail: no memory, or more than %d roots", MAX_ROOTS);
	out_spec->roots = l.roots;
	out_spec->n_roots = l.n;
	out_spec->files = files.files;
	out_spec->n_files = files.n_files;
	return 0;
}
