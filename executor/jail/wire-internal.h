// SPDX-License-Identifier: Apache-2.0
/**
 * jail/wire-internal.h - the messages between executor, zygote and init, over SOCK_SEQPACKET pairs.
 * Owns: nothing; received descriptors belong to the receiver and are CLOEXEC. Threads: any.
 *
 *   executor -> zygote   SLOT (a slot spec), RUN (a spec + 3 descriptors)
 *   zygote -> executor   UP, FAILED, STARTED (pidfd of init, whose parent the executor is)
 *   init -> executor     FAILED, READY, EXITED: on the action's own pair, which no action ever holds
 *   executor -> init     GO, KILL
 *
 * Both ends come from one build: bodies are plain structs. A body over BJ_WIRE_INLINE_BYTES travels
 * in a memfd, as the first descriptor. Nothing here allocates, so that init may use it.
 */
#ifndef BJ_JAIL_WIRE_INTERNAL_H
#define BJ_JAIL_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "executor/base/macros.h"
#include "executor/jail/jail.h"

enum bj_wire_type {
	BJ_WIRE_SLOT = 1, /* body: slot spec */
	BJ_WIRE_RUN,	  /* body: spec; fds: stdout, stderr, init's end of the event pair */
	BJ_WIRE_UP,	  /* the template stands */
	BJ_WIRE_FAILED,	  /* body: struct bj_wire_failed */
	BJ_WIRE_STARTED, /* body: struct bj_wire_started; fds: pidfd of init, mount of the input root */
	BJ_WIRE_READY,	/* body: struct bj_wire_ready: the filter with the listener is attached */
	BJ_WIRE_GO,	/* exec; sent on STARTED, or on READY where exec itself is not observed */
	BJ_WIRE_KILL,	/* kill all, reap, report */
	BJ_WIRE_EXITED, /* body: struct bj_wire_exited */
};

enum {
	BJ_WIRE_INLINE_BYTES = 32 * 1024,  /* well below the default socket buffer */
	BJ_WIRE_MAX_BODY_BYTES = 64 << 20, /* larger than any argument list that the kernel takes */
	BJ_WIRE_MAX_FDS = 4,
};

/** A step that failed; bj_jail_failure without the hint. */
struct bj_wire_failed {
	char step[48];
	char syscall[24];
	char path[256];
	int32_t sys_errno;
};

struct bj_wire_started {
	int32_t pid; /* init, in the zygote's pid namespace, which is the executor's */
};

struct bj_wire_ready {
	int32_t listener; /* number in init's descriptor table, -1 without a listener */
};

/** Detail that init adds to its own exit status; never believed against it. */
struct bj_wire_exited {
	int32_t raw_status;		     /* of the command, as wait(2) gives it */
	int32_t exec_errno;		     /* not 0: nothing was executed */
	uint64_t wall_ns;		     /* GO to the command's death */
	uint64_t own_user_ns, own_system_ns; /* init's own part of the usage */
	uint32_t n_alive;   /* other processes when the command was dead, or all at KILL */
	uint32_t n_listed;  /* strays that follow */
	uint8_t was_killed; /* by KILL */
	uint8_t pad[7];
	struct {
		int32_t pid; /* inside */
		char comm[17];
		char argv0[128];
	} strays[BJ_JAIL_MAX_STRAYS];
};

/** Sends one message with up to BJ_WIRE_MAX_FDS descriptors (borrowed). Return: 0 or -errno. */
BJ_MUST_USE int bj_wire_send(int sock, enum bj_wire_type type, const void *body, size_t n_bytes,
			     const int *fds, size_t n_fds);

/** The same for a small body by write(2), which no seccomp filter of ours holds. */
BJ_MUST_USE int bj_wire_write(int sock, enum bj_wire_type type, const void *body, size_t n_bytes);
/** Reads one message without body by read(2). Return: its type, 0 at the end, or -errno. */
BJ_MUST_USE int bj_wire_read(int sock);

struct bj_wire_msg {
	enum bj_wire_type type;
	size_t n_bytes; /* of the body, in the caller's buffer or still in fds[0] */
	bool in_memfd;	/* the body is in fds[0] */
	int fds[BJ_WIRE_MAX_FDS];
	size_t n_fds;
};

/**
 * bj_wire_recv() - receive one message.
 * @body: at least BJ_WIRE_INLINE_BYTES large when such messages can come; a longer body is an error
 * @flags: MSG_DONTWAIT or 0
 * Return: 1 with *out_msg, 0 when the other end is closed, or -errno (-EAGAIN: nothing there).
 */
BJ_MUST_USE int bj_wire_recv(int sock, void *body, size_t cap_bytes, int flags,
			     struct bj_wire_msg *out_msg);
/** Closes what a message brought and nobody took. */
void bj_wire_drop(struct bj_wire_msg *msg);

#endif
