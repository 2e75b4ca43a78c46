// SPDX-License-Identifier: Apache-2.0
/**
 * service/service.h - the REAPI services (and belljar's own) over the store and the engine, as methods for rpc/.
 * Owns: nothing but its table; store, engine, pool and reports are borrowed and outlive it. Never touches a file of an input root.
 * Threads: handlers run on loop threads, everything that may block on the pool's.
 * Spec: REAPI v2; google.bytestream; grpc.health.v1.
 */
#ifndef BJ_SERVICE_SERVICE_H
#define BJ_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "executor/action/engine.h"
#include "executor/action/report.h"
#include "executor/action/runner.h"
#include "executor/base/pool.h"
#include "executor/cas/store.h"
#include "executor/rpc/rpc.h"

/** What capabilities advertise and the services hold to. */
enum {
	/* With digests and framing it still fits the 4 MiB that a gRPC peer takes by default. */
	BJ_MAX_BATCH_BYTES = (4 << 20) - (256 << 10),
	BJ_READ_CHUNK_BYTES = 1 << 20,
	BJ_MAX_TREE_DIRECTORIES = 1000000,
};

struct bj_services_opts {
	struct bj_store *store;
	struct bj_engine *engine;   /* NULL: a cache only; execution is not offered */
	struct bj_reports *reports; /* NULL with engine NULL */
	struct bj_pool *pool;
	struct bj_runner *
		runner; /* who knows whether a violation fails an action today; NULL with engine NULL */
};

struct bj_services {
	struct bj_services_opts opts;
};

/** The methods of all services, for bj_rpc_server_add(). @services: filled by the caller, borrowed. */
BJ_MUST_USE int bj_services_register(struct bj_services *services, struct bj_rpc_server *server,
				     struct bj_err *err);

#endif
