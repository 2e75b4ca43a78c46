// SPDX-License-Identifier: Apache-2.0
/**
 * jail/spec.h - what crosses the socket between the executor and belljar-jail: plain data and its
 * codec.
 * Owns: nothing; decoded views borrow from the buffer or live in the arena. Threads: any.
 *
 * The codec is length-prefixed little-endian with a magic and a version; every count and length is
 * checked against what is left of the message. Both sides distrust it: it is fuzzed. The jail
 * refuses a spec that it does not understand completely (fail closed).
 */
#ifndef BJ_JAIL_SPEC_H
#define BJ_JAIL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/base/str.h"

#define BJ_JAIL_ROOT "/exec"			 /* where the input root is, inside */
enum { BJ_JAIL_UID = 1000, BJ_JAIL_GID = 1000 }; /* inside, on every slot */
#define BJ_JAIL_HOSTNAME "belljar"

/** How strong the walls are. One table for probe, property and report (design §3.2). */
enum bj_jail_profile {
	BJ_PROFILE_PRIVILEGED =
		1, /* the executor has the host's rights; the action enters a user namespace */
	BJ_PROFILE_USERNS = 2, /* the executor itself lives in a user namespace that it made */
};
const char *bj_jail_profile_name(enum bj_jail_profile profile); /* "privileged", "userns" */

enum bj_observe { BJ_OBSERVE_OFF, BJ_OBSERVE_WRITES, BJ_OBSERVE_DEFAULT, BJ_OBSERVE_STRICT };
const char *bj_observe_name(enum bj_observe level); /* "off", "writes", "default", "strict" */
BJ_MUST_USE bool bj_observe_parse(struct bj_str name, enum bj_observe *out_level);

/**
 * A host path that is mounted read-only at the same path inside, or a symlink that is recreated.
 */
struct bj_jail_root {
	struct bj_str path;   /* absolute, canonical */
	struct bj_str target; /* symlink text when is_link */
	bool is_link;
	bool is_file; /* a single file (of /etc) */
};

/** A synthetic file of the template: /etc/passwd, group, hosts, nsswitch.conf, resolv.conf. */
struct bj_jail_file {
	struct bj_str path;
	struct bj_str content;
};

/** What a slot's zygote needs once, at its start. */
struct bj_jail_slot_spec {
	enum bj_jail_profile profile;
	uint32_t slot_uid, slot_gid; /* outside; 0 in the userns profile */
	struct bj_str
		work_dir; /* absolute host path of the work area; appears nowhere inside an action */
	struct bj_jail_root *roots;
	size_t n_roots;
	struct bj_jail_file *files;
	size_t n_files;
};

enum bj_write_mode { BJ_WRITE_SCRATCH, BJ_WRITE_STRICT };

/**
 * One action. Paths "in the work area" are relative to work_dir, have no ".." and are made by the
 * executor beforehand.
 */
struct bj_jail_spec {
	struct bj_str *argv; /* n_argv >= 1; no NUL inside */
	size_t n_argv;
	struct bj_str *env; /* "NAME=value", exactly these */
	size_t n_env;
	struct bj_str cwd;   /* absolute inside: BJ_JAIL_ROOT or below */
	struct bj_str lower; /* work area: materialised input tree, never written */
	struct bj_str upper; /* work area: the action's private layer (owned by the slot's uid) */
	struct bj_str ovl; /* work area: overlayfs' own work directory, same file system as upper */
	struct bj_str tmp; /* work area: becomes /tmp */
	struct bj_str shm; /* work area: becomes /dev/shm */
	enum bj_write_mode write_mode;
	struct bj_str *
		writable; /* strict only: directories below BJ_JAIL_ROOT (relative) that stay writable */
	size_t n_writable;
	enum bj_observe observe;
};

BJ_MUST_USE int bj_jail_slot_spec_encode(const struct bj_jail_slot_spec *spec, struct bj_buf *out,
					 struct bj_err *err);
BJ_MUST_USE int bj_jail_slot_spec_decode(struct bj_str bytes, struct bj_arena *arena,
					 struct bj_jail_slot_spec *out, struct bj_err *err);
BJ_MUST_USE int bj_jail_spec_encode(const struct bj_jail_spec *spec, struct bj_buf *out,
				    struct bj_err *err);
BJ_MUST_USE int bj_jail_spec_decode(struct bj_str bytes, struct bj_arena *arena,
				    struct bj_jail_spec *out, struct bj_err *err);

#endif
