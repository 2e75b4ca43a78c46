// SPDX-License-Identifier: Apache-2.0
/**
 * jail/zygote-internal.h - what the parts of belljar-jail share: the template, the layers of one
 * action, the init of one action.
 * Threads: none; belljar-jail is single-threaded, so that it may fork.
 */
#ifndef BJ_JAIL_ZYGOTE_INTERNAL_H
#define BJ_JAIL_ZYGOTE_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "executor/base/macros.h"
#include "executor/jail/observer.h"
#include "executor/jail/spec.h"
#include "executor/jail/wire-internal.h"

/**
 * What stands while the slot lives. Two mount namespaces with the same root: `clean_ns` is what an
 * action's is copied from; `work_ns` has the work area on top of /tmp as well, and only the zygote
 * is ever in it.
 */
struct bj_template {
	int proc_fd; /* the host's /proc: our own self/ns and self/net */
	int clean_ns;
	int work_ns;
	int work_fd; /* the work area, in work_ns */
	/*
	 * clean_ns shows the outer /proc: a new one may be mounted only while an old one is visible
	 */
	bool proc_below;
	bool work_is_tmpfs;
};

enum { BJ_NET_FILES = 4, BJ_NET_FILE_BYTES = 8192 };

/** The slot's network namespace and how it looked when it was new. */
struct bj_net {
	int fds[BJ_NET_FILES]; /* of the files that net.c names; -1: this kernel has none */
	size_t lens[BJ_NET_FILES];
	char was[BJ_NET_FILES][BJ_NET_FILE_BYTES];
};

/** Moves the caller into a new network namespace with lo up. @proc_fd: the host's /proc. */
BJ_MUST_USE int bj_net_fresh(struct bj_net *net, int proc_fd, struct bj_wire_failed *failed);
/**
 * Whether nothing at all has happened in it: no socket is left, no packet was ever sent. In doubt,
 * false.
 */
bool bj_net_is_untouched(const struct bj_net *net);

/** Unshares, builds both namespaces and leaves the caller in work_ns. */
BJ_MUST_USE int bj_template_build(const struct bj_jail_slot_spec *spec,
				  struct bj_template *out_template, struct bj_net *out_net,
				  struct bj_wire_failed *failed);

/**
 * bj_copy_tree() - copy what is at @host_path to @rel below @root_fd: directories, files and links,
 * with modes and times.
 * Return: 0; 1 when it is larger than is worth copying, unreadable, or holds something else (a
 * directory may be left half filled: mount over it); -1.
 */
BJ_MUST_USE int bj_copy_tree(const char *host_path, int root_fd, const char *rel,
			     struct bj_wire_failed *failed);

/** Mounts of one action, attached nowhere yet. */
struct bj_layers {
	int exec_fd, tmp_fd, shm_fd;
};
#define BJ_LAYERS_NULL ((struct bj_layers){ -1, -1, -1 })
BJ_MUST_USE int bj_layers_open(const struct bj_template *t, const struct bj_jail_slot_spec *slot,
			       const struct bj_jail_spec *spec, struct bj_layers *out_layers,
			       struct bj_wire_failed *failed);
void bj_layers_close(struct bj_layers *layers);

/** The user namespace of a slot's actions: the slot's ids are BJ_JAIL_UID and BJ_JAIL_GID in it. */
struct bj_userns {
	int fd;
	bool is_last; /* no namespace can be made from within */
};
/** Makes it, once a slot. @proc_fd: the host's /proc. */
BJ_MUST_USE int bj_userns_make(const struct bj_jail_slot_spec *slot, int proc_fd,
			       struct bj_userns *out_userns, struct bj_wire_failed *failed);
/**
 * bj_creds_drop() - from the zygote's rights to none: the slot's ids, its user namespace, no
 * capability in any set, none to be had by exec. Needs the action's own /proc.
 */
BJ_MUST_USE int bj_creds_drop(const struct bj_jail_slot_spec *slot, const struct bj_userns *userns,
			      struct bj_wire_failed *failed);

/**
 * In the command's process, before exec: gives up the one id by which init differs from it. Return:
 * 0 or -errno.
 */
BJ_MUST_USE int bj_creds_same_as_command(const struct bj_jail_slot_spec *slot);

/**
 * Everything that init of one action needs; borrowed from the zygote, which changes none of it
 * while init lives.
 */
struct bj_init {
	const struct bj_jail_slot_spec *slot;
	const struct bj_jail_spec *spec;
	const struct bj_observer_filter *filter; /* of spec->observe */
	const struct bj_layers *layers;
	const struct bj_userns *userns;
	char **argv;
	char **envp;
	bool proc_below;
	int stdout_fd, stderr_fd;
	int event_fd;
};
/**
 * Pid 1 of the action, from its first instruction to its exit. It shares the zygote's memory: no
 * allocation here, since a SIGKILL in the middle of one would leave the zygote's heap broken.
 */
BJ_NORETURN void bj_init_main(const struct bj_init *in);

/** The zygote's life: serves @sock until it is closed. Return: exit code. */
int bj_zygote_main(int sock);

#endif
