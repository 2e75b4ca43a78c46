// SPDX-License-Identifier: Apache-2.0
/**
 * service/service-internal.h - what the services share: unary methods whose work happens on the pool, and request parts.
 */
#ifndef BJ_SERVICE_SERVICE_INTERNAL_H
#define BJ_SERVICE_SERVICE_INTERNAL_H

#include <stdatomic.h>

#include "executor/action/run.h"
#include "executor/cas/reapi.h"
#include "executor/service/service.h"

/* ---- work that blocks ---- */

/**
 * Work of a call on the pool, one piece at a time:
 *
 *   loop: job_start() ──> pool: work() ──> loop: done() ──> job_start() …
 *
 * What the job's owner holds belongs to work() while that runs, to the loop otherwise. closed() may come at any time: job_close() then
 * releases at once, or when the piece that is under way is through. Embedded in the owner, which lives in the call's arena.
 */
struct job {
	struct bj_rpc_call *call;
	struct bj_pool *pool;
	void (*work)(struct job *job); /* on a pool thread */
	void (*done)(struct job *job); /* on the loop; not after job_close() */
	void (*release)(
		struct
		job *job); /* once, when no piece is under way any more; any thread; may be NULL */
	atomic_int state;  /* enum job_state */
};

/** @job: zeroed, with its functions set; @call: the one in whose arena it lives */
void job_init(struct job *job, struct bj_rpc_call *call);
/** On the loop. A pool that is full fails the call with RESOURCE_EXHAUSTED. */
void job_start(struct job *job);
/** On the loop, from closed(). */
void job_close(struct job *job);
/** Any thread: the client has gone, so that a long work() may as well end. */
bool job_is_closed(struct job *job);

/* ---- unary methods that block ---- */

/**
 * One call of such a method. The request and the reply live in the call's arena, which only one thread uses at a time: the loop's while
 * unpacking, then the pool's, then the loop's again.
 */
struct unary {
	struct job job;
	struct bj_rpc_call *call;
	struct bj_services *services;
	const struct unary_method *method;
	struct bj_arena *arena;
	const ProtobufCMessage *request;
	ProtobufCMessage *reply; /* set by work() on success */
	struct bj_err err;
};

struct unary_method {
	const ProtobufCMessageDescriptor *request_type;
	/** On a pool thread. Return: 0 with unary->reply, or negative with unary->err. */
	int (*work)(struct unary *unary);
};

/** open() for a handler whose methods are unary_methods: unpacks, goes to the pool, comes back, replies. */
void unary_open(struct bj_rpc_call *call, grpc_byte_buffer *request,
		const struct unary_method *method);

/* ---- request parts ---- */

/** Our only function is SHA-256; unset means it, by the length of its hashes. Return: 0 or -INVALID_ARGUMENT naming @field. */
BJ_MUST_USE int request_digest_fn(int value, const char *field, enum bj_digest_fn *out_fn,
				  struct bj_err *err);
/** RequestMetadata from its header; what cannot be parsed is treated as absent. Strings live in @arena. */
void request_client_info(struct bj_rpc_call *call, struct bj_arena *arena,
			 struct bj_client_info *out_info);

/* ---- the services' tables ---- */

struct service_table {
	const struct bj_rpc_method *methods; /* svc is filled in at registration */
	size_t n_methods;
};
struct service_table service_capabilities(void);
struct service_table service_health(void);
struct service_table service_cas(void);
struct service_table service_tree(void);
struct service_table service_read(void);
struct service_table service_write(void);
struct service_table service_action_cache(void);
struct service_table service_execution(void);
struct service_table service_explain(void);

#endif
