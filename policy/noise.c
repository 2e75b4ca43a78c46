// SPDX-License-Identifier: Apache-2.0
/*
 * What is seen in every build and says nothing about this one. A row needs a reason why the attempt cannot change what
 * an action makes, or why it belongs to the loader or the C library rather than to the action. Rows with a program hold
 * for that program only.
 *
 * Knowingly left out, since they do change results and must be reported: everything in a home directory but the start-up
 * file of interactive shells, the host's name, release files, certificates, keys, tool configuration below /etc.
 */
#include "policy/record-internal.h"

#define READ BJP_NOISE_READ
#define WRITE BJP_NOISE_WRITE
#define SOCKET BJP_NOISE_SOCKET

static const struct bjp_noise rules[] = {
	/* the loader */
	{ "/etc/ld.so.*", NULL, READ,
	  "the loader looks for its cache and preload list at every exec" },
	{ "/etc/suid-debug", NULL, READ,
	  "the C library asks at start-up whether to debug setuid programs" },
	{ "**/glibc-hwcaps/**", NULL, READ,
	  "the loader tries libraries for newer processors first" },
	/* the C library */
	{ "/usr/{share,lib,local/share}/locale/**", NULL, READ,
	  "setlocale() and gettext() try one file for each language" },
	{ "/usr/share/locale-langpack/**", NULL, READ,
	  "gettext() tries one file for each language" },
	{ "/usr/**/gconv/**", NULL, READ, "iconv() looks for its modules" },
	{ "/etc/nsswitch.conf", NULL, READ, "the C library asks where users and hosts are listed" },
	{ "/etc/gai.conf", NULL, READ, "getaddrinfo() asks how to sort addresses" },
	{ "/etc/networks", NULL, READ, "the C library's list of networks" },
	{ "/var/db/nscd/*", NULL, READ, "the C library asks for a name service cache" },
	{ "{run}/nscd/**", NULL, READ | SOCKET, "the C library asks for a name service cache" },
	{ "/sys/fs/selinux/**", NULL, READ, "file utilities ask whether SELinux is on" },
	{ "/selinux/**", NULL, READ, "file utilities ask whether SELinux is on" },
	{ "/etc/selinux/config", NULL, READ, "file utilities ask whether SELinux is on" },
	{ "/etc/gcrypt/*", NULL, READ, "libgcrypt's constructor" },
	{ "/etc/gnutls/config", NULL, READ, "GnuTLS' constructor" },
	{ "/etc/crypto-policies/**", NULL, READ, "the crypto libraries' constructors" },
	/* run times that size themselves */
	{ "/sys/fs/cgroup/**", NULL, READ, "JVM, node and Go ask for their limits" },
	{ "/sys/devices/system/cpu/**", NULL, READ, "run times count processors" },
	{ "/sys/devices/system/node/**", NULL, READ, "run times count memory nodes" },
	{ "/sys/kernel/mm/**", NULL, READ, "allocators ask for the huge page size" },
	{ "/.dockerenv", NULL, READ, "run times ask whether they are in a container" },
	{ "{run}/.containerenv", NULL, READ, "run times ask whether they are in a container" },
	/* terminals and interactive shells */
	{ "/{etc,lib,usr/share,usr/lib}/terminfo/**", NULL, READ, "terminal descriptions" },
	{ "**/.terminfo/**", NULL, READ, "terminal descriptions" },
	{ "/etc/inputrc", NULL, READ, "line editing" },
	{ "/etc/profile", NULL, READ, "login shells" },
	{ "/etc/profile.d/**", NULL, READ, "login shells" },
	{ "/etc/bash.bashrc", NULL, READ, "interactive shells" },
	{ "/etc/bashrc", NULL, READ, "interactive shells" },
	{ "/etc/bash_completion", NULL, READ, "interactive shells" },
	{ "/root/.bashrc", NULL, READ, "interactive shells" },
	/* programs */
	{ "/etc/gitconfig", "git", READ, "git reads it before any work" },
	{ "/etc/perl/sitecustomize.pl", "perl", READ, "perl asks for it at start-up" },
	{ "/etc/*-release", "clang", READ, "clang names the distribution to choose defaults" },
	{ "/etc/debian_version", "clang", READ, "clang names the distribution to choose defaults" },
	{ "/etc/env.d/gcc/**", "clang", READ, "clang looks for installations of gcc" },
	{ "**/__pycache__/**", NULL, READ | WRITE, "Python's cache of what it has compiled" },
	{ "**/*.pyc", NULL, READ | WRITE, "Python's cache of what it has compiled" },
	/* writes to what is no file of anybody */
	{ "/dev/{null,zero,full,tty,stdin,stdout,stderr}", NULL, WRITE,
	  "a device that keeps nothing" },
	{ "/dev/fd/**", NULL, WRITE, "an open descriptor of the action" },
	{ "/dev/pts/**", NULL, WRITE, "a terminal" },
	{ "/dev/ptmx", NULL, WRITE, "a terminal" },
	{ "/proc/**", NULL, WRITE,
	  "settings of the action's own processes; the rest of /proc is read-only" },
};

/* Alternatives of a row: "{run}" is /run and /var/run, "{a,b}" any of the names. One pair of braces in a row. */
static bool matches(struct bj_str pattern, struct bj_str path)
{
	size_t open = bj_str_find(pattern, '{', 0);
	if (open == pattern.len)
		return bjp_glob_match(pattern, path);
	size_t close = bj_str_find(pattern, '}', open);
	struct bj_str names = bj_str_sub(pattern, open + 1, close);
	struct bj_str head = bj_str_sub(pattern, 0, open);
	struct bj_str tail = bj_str_sub(pattern, close + 1, pattern.len);
	if (bj_str_eq(names, BJ_STR_LIT("run")))
		names = BJ_STR_LIT("/run,/var/run");
	while (names.len > 0) {
		struct bj_str name = bj_str_cut(&names, ',');
		struct bj_str rest = path;
		if (bjp_str_cut_prefix(&rest, head) && bjp_str_cut_prefix(&rest, name) &&
		    bjp_glob_match(tail, rest))
			return true;
	}
	return false;
}

/* Cheap refusal: what stands before the first special byte must stand in the path. */
static bool may_match(const char *pattern, struct bj_str path)
{
	size_t n = strcspn(pattern, "*{");
	return n <= path.len && memcmp(pattern, path.ptr, n) == 0;
}

const struct bjp_noise *bjp_noise_find(struct bj_str path, unsigned what)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(rules); i++) {
		if (rules[i].what & what && path.len > 0 && may_match(rules[i].pattern, path) &&
		    matches(bj_str_of(rules[i].pattern), path))
			return &rules[i];
	}
	return NULL;
}

bool bjp_noise_holds(const struct bjp_noise *noise, struct bj_str exe)
{
	return !noise->program || bj_str_has_prefix(bjp_basename(exe), bj_str_of(noise->program));
}
