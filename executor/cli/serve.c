// SPDX-License-Identifier: Apache-2.0
/*
 * The server's life. Everything is made on the main thread in one order and freed in another:
 *
 *   store directory, host (own mounts), store, work area, reports, jails, pool, engine, gRPC, loop, server, listeners
 *   server, engine, pool, loop, gRPC, jails, reports, work area, store
 *
 * Why in that order: jails are spawned before there is any thread but the store's, since they die with the thread that spawned them
 * and this one lives as long as the process. At the end the server waits for running calls, which need the engine; the engine's end
 * tells its waiters; jobs on the pool may still hold calls, whose loop must be there until the pool is empty.
 *
 * Signals are blocked from the first line and taken by sigwait(), no handler runs anywhere: first on the main thread; while that
 * one drains the server, on a thread that hurries it at the next signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/action/engine.h"
#include "executor/action/layout.h"
#include "executor/action/report.h"
#include "executor/action/runner.h"
#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/base/pool.h"
#include "executor/cas/store.h"
#include "executor/cli/cli-internal.h"
#include "executor/cli/host.h"
#include "executor/cli/serve-internal.h"
#include "executor/jail/jail.h"
#include "executor/rpc/rpc.h"
#include "executor/service/service.h"

enum {
	MAX_REPORTS = 10000,
	MAX_QUEUED_ACTIONS = 100000,
	MAX_QUEUED_JOBS = 65536,
	MIN_POOL_THREADS = 4,
};
#define KEEP_DONE_NS (60 * BJ_NS_PER_SEC)

struct serve {
	const struct bj_serve_options *options;
	struct bj_arena *arena;
	struct bj_str store_dir, work_dir; /* absolute */
	struct bj_jail_slot_spec slot;
	struct bj_jail_failure failure; /* step is empty unless the host refused one */
	struct bj_store *store;
	struct bj_work *work;
	struct bj_reports *reports;
	struct bj_runner *runner;
	struct bj_pool *pool;
	struct bj_engine *engine;
	bool has_rpc;
	struct bj_rpc_loop *loop;
	struct bj_services services;
	struct bj_rpc_server *server;
	int port; /* of the first TCP listener, 0 without one */
};

/* ---- making ---- */

static int no_memory(struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to start the server");
}

static int make_store_dir(struct serve *s, struct bj_err *err)
{
	const char *given = bj_str_dup(s->arena, s->options->config.store);
	if (!given)
		return no_memory(err);
	int r = bj_mkdir_p(AT_FDCWD, given, 0700);
	if (r < 0)
		return bj_err_errno(err, -r, "store \"%s\"", given);
	r = bj_host_real_dir(bj_str_of(given), "store", s->arena, &s->store_dir, err);
	if (r < 0)
		return r;
	s->work_dir = bj_str_of(bj_arena_printf(s->arena, "%s/work", s->store_dir.ptr));
	return s->work_dir.ptr ? 0 : no_memory(err);
}

static int open_host(struct serve *s, struct bj_err *err)
{
	const struct bj_config *config = &s->options->config;
	int r = bj_jail_enter_host(s->work_dir.ptr, config->work_bytes, &s->slot.profile,
				   &s->failure, err);

	if (r < 0)
		return r;
	s->slot.work_dir = s->work_dir;
	return bj_jail_default_roots(config->extra_roots.items, config->extra_roots.n, s->arena,
				     &s->slot, err);
}

static int open_store(struct serve *s, struct bj_err *err)
{
	const struct bj_config *config = &s->options->config;
	const struct bj_store_opts opts = { .max_bytes = config->store_max_bytes };
	int r = bj_store_open(s->store_dir.ptr, &opts, &s->store, err);

	if (r == 0)
		r = bj_work_open(s->work_dir.ptr, config->hot_bytes, s->store, &s->work, err);
	return r;
}

/* Without a listener every action would be refused, so the server says it once, now. A slot that nobody else has yet tries it. */
static int check_observer(struct serve *s, struct bj_err *err)
{
	struct bj_jail_slot_spec slot = s->slot;
	struct bj_jail *jail = NULL;

	if (s->options->config.settings.observe == BJP_OBSERVE_OFF)
		return 0;
	if (slot.profile == BJ_PROFILE_PRIVILEGED)
		slot.slot_uid = slot.slot_gid = (uint32_t)s->options->config.first_slot_uid;
	int r = bj_jail_start(s->options->jail_binary.ptr, &slot, &jail, &s->failure, err);
	if (r == 0)
		r = bj_jail_check_observer(jail, &s->failure, err);
	bj_jail_free(jail);
	return r;
}

static int open_runner(struct serve *s, struct bj_err *err)
{
	const struct bj_config *config = &s->options->config;
	const struct bj_runner_opts opts = {
		.store = s->store,
		.work = s->work,
		.reports = s->reports,
		.jail_binary = s->options->jail_binary.ptr,
		.slot = s->slot,
		.first_slot_uid = (uint32_t)config->first_slot_uid,
		.n_slots = config->n_slots,
		.settings = config->settings,
		.bounds = config->bounds,
		.workspaces = config->workspaces.items,
		.n_workspaces = config->workspaces.n,
		.tell_host = config->tell_host,
		.anchors = config->deny_anchors.items,
		.n_anchors = config->deny_anchors.n,
		.max_timeout_ns = config->max_timeout_seconds * BJ_NS_PER_SEC,
		.default_timeout_ns = config->default_timeout_seconds
					      ? config->default_timeout_seconds * BJ_NS_PER_SEC
					      : BJ_NEVER_NS,
		.worker_name = s->options->worker_name,
	};
	return bj_runner_new(&opts, &s->runner, &s->failure, err);
}

static int open_engine(struct serve *s, struct bj_err *err)
{
	const struct bj_config *config = &s->options->config;
	size_t n_threads = BJ_MAX((size_t)config->n_slots, (size_t)MIN_POOL_THREADS);
	int r = bj_pool_new(n_threads, MAX_QUEUED_JOBS, &s->pool, err);

	if (r < 0)
		return r;
	const struct bj_engine_opts opts = {
		.cancel_grace_ns = config->cancel_grace_seconds * BJ_NS_PER_SEC,
		.keep_done_ns = KEEP_DONE_NS,
		.max_queued = MAX_QUEUED_ACTIONS,
		.n_slots = config->n_slots,
		.pool = s->pool,
	};
	const struct bj_runner_ops ops = bj_runner_ops(s->runner);
	return bj_engine_new(&opts, &ops, &s->engine, err);
}

static int listen_all(struct serve *s, struct bj_err *err)
{
	const struct bj_config_list list = s->options->config.listen;

	for (size_t i = 0; i < list.n; i++) {
		int port;
		int r = bj_rpc_server_listen(s->server, list.items[i].ptr, &port, err);
		if (r < 0)
			return r;
		if (!s->port)
			s->port = port;
	}
	return 0;
}

static int open_server(struct serve *s, struct bj_err *err)
{
	s->services.opts = (struct bj_services_opts){
		.store = s->store,
		.engine = s->engine,
		.reports = s->reports,
		.pool = s->pool,
		.runner = s->runner,
	};
	bj_rpc_init();
	s->has_rpc = true;
	int r = bj_rpc_loop_new(&s->loop, err);
	if (r == 0)
		r = bj_rpc_server_new(&s->loop, 1, NULL, &s->server, err);
	if (r == 0)
		r = bj_services_register(&s->services, s->server, err);
	if (r == 0)
		r = listen_all(s, err);
	if (r == 0)
		r = bj_rpc_loop_start(s->loop, err);
	if (r == 0)
		r = bj_rpc_server_start(s->server, err);
	return r;
}

static int write_port(const struct serve *s, struct bj_err *err)
{
	char text[16];
	if (!s->options->port_file.len)
		return 0;
	int n = snprintf(text, sizeof(text), "%d\n", s->port); /* a port fits */
	return bj_file_replace(AT_FDCWD, s->options->port_file.ptr, text, (size_t)n, 0644, err);
}

/* Before it is known nothing is cached; a second at the start beats a first build that is not. A cold disk may take longer: not waited for. */
static void wait_fingerprint(const struct serve *s)
{
	if (!bj_runner_wait_fingerprint(s->runner, bj_deadline_ns(3 * BJ_NS_PER_SEC)))
		bj_info("serve: the toolchain's fingerprint is still being taken, results are not "
			"cached yet");
}

static int serve_open(struct serve *s, struct bj_err *err)
{
	int r = make_store_dir(s, err);
	if (r == 0)
		r = open_host(s, err);
	if (r == 0)
		r = open_store(s, err);
	if (r == 0)
		r = bj_reports_new(MAX_REPORTS, &s->reports, err);
	if (r == 0)
		r = check_observer(s, err);
	if (r == 0)
		r = open_runner(s, err);
	if (r == 0)
		r = open_engine(s, err);
	if (r == 0)
		r = open_server(s, err);
	if (r == 0) {
		wait_fingerprint(s);
		r = write_port(s, err);
	}
	return r;
}

/* ---- unmaking; each accepts what was never made ---- */

static void serve_close(struct serve *s)
{
	bj_rpc_server_stop(s->server, 0);
	bj_engine_free(s->engine);
	bj_pool_free(s->pool);
	bj_rpc_loop_stop(s->loop);
	if (s->has_rpc)
		bj_rpc_deinit();
	bj_runner_free(s->runner);
	bj_reports_free(s->reports);
	if (s->work)
		bj_work_close(s->work);
	bj_store_close(s->store);
}

/* ---- running ---- */

static void block_signals(sigset_t *out_taken)
{
	/* None of these can fail for signals that exist. */
	(void)sigemptyset(out_taken);
	(void)sigaddset(out_taken, SIGINT);
	(void)sigaddset(out_taken, SIGTERM);
	(void)sigaddset(out_taken, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, out_taken, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_DFL); /* where it is ignored nobody can wait for a jail */
}

static void log_ready(const struct serve *s)
{
	const struct bj_config *config = &s->options->config;
	struct bj_buf listen = BJ_BUF_INIT(4096);

	for (size_t i = 0; i < config->listen.n; i++)
		(void)bj_buf_printf(&listen, "%s%s", i ? "," : "", config->listen.items[i].ptr);
	bj_info("serve: ready listen=%s port=%d slots=%" PRIu64
		" profile=%s store=%s work_bytes=%" PRIu64 " pid=%d",
		bj_buf_cstr(&listen), s->port, config->n_slots,
		bj_jail_profile_name(s->slot.profile), s->store_dir.ptr, config->work_bytes,
		(int)getpid());
	bj_buf_deinit(&listen);
}

static int wait_signal(const sigset_t *taken)
{
	int number;
	while (sigwait(taken, &number) != 0)
		continue;
	return number;
}

struct hurrier {
	struct bj_rpc_server *server;
	sigset_t taken;
	unsigned long thread;
};

/* SIGHUP comes from the main thread itself when there is nothing left to hurry; coming from outside it ends the grace as well. */
static void *hurry_main(void *arg)
{
	struct hurrier *h = arg;
	(void)wait_signal(&h->taken);
	bj_rpc_server_hurry(h->server);
	return NULL;
}

/* Waits for running calls; a second signal ends the wait. */
static void drain(struct serve *s, const sigset_t *taken, uint64_t grace_ms)
{
	struct hurrier h = { .server = s->server, .taken = *taken };
	struct bj_err err = BJ_ERR_NULL;
	bool can_hurry = bj_thread_start("bj-signals", hurry_main, &h, &h.thread, &err) == 0;

	bj_rpc_server_drain(s->server, grace_ms);
	if (!can_hurry)
		return;
	(void)pthread_kill((pthread_t)h.thread,
			   SIGHUP); /* pending for a thread that has ended already: no harm */
	(void)pthread_join((pthread_t)h.thread, NULL); /* ours, joined once */
}

static int refuse(const struct bj_command *command, const struct serve *s, const struct bj_err *err)
{
	if (!s->failure.step[0])
		return bj_cli_fail(command, err,
				   err->code == BJ_INVALID_ARGUMENT ? BJ_EXIT_USAGE
								    : BJ_EXIT_FAILED);
	fprintf(stderr, "belljar %s: this host cannot give the jar, and there is no weaker mode:\n",
		command->name);
	bj_cli_print_failure(stderr, &s->failure);
	return BJ_EXIT_FAILED;
}

static int serve(const struct bj_command *command, const struct bj_serve_options *options,
		 struct bj_arena *arena, const sigset_t *taken)
{
	struct serve s = { .options = options, .arena = arena };
	struct bj_err err = BJ_ERR_NULL;

	if (serve_open(&s, &err) < 0) {
		serve_close(&s);
		return refuse(command, &s, &err);
	}
	log_ready(&s);
	int number = wait_signal(taken);
	bj_info("serve: stopping signal=%s grace_seconds=%" PRIu64, sigabbrev_np(number),
		options->config.stop_grace_seconds);
	drain(&s, taken, options->config.stop_grace_seconds * 1000);
	serve_close(&s);
	bj_info("serve: stopped");
	return BJ_EXIT_OK;
}

static int run(const struct bj_command *command, int argc, char **argv)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_serve_options options;
	sigset_t taken;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	int r = bj_serve_options(command, argc, argv, &arena, &options, &err);
	if (r < 0)
		return bj_cli_fail(command, &err,
				   err.code == BJ_INVALID_ARGUMENT ? BJ_EXIT_USAGE
								   : BJ_EXIT_FAILED);
	bj_log_set_level(options.log_level);
	(void)umask(022);
	block_signals(&taken);
	return serve(command, &options, &arena, &taken);
}

static void help(struct bj_buf *out)
{
	(void)bj_buf_append_cstr(out,
				 "\nKeys of the configuration file (nested ones with a dot):\n");
	bj_config_help(out);
}

const struct bj_command bj_serve_command = {
	.name = "serve",
	.summary = "run actions for a Remote Execution client, with a cache in the same process",
	.operands = "",
	.max_operands = 0,
	.details = "SIGTERM, SIGINT and SIGHUP stop it: running calls have stopGraceSeconds to "
		   "end, or until a second one.\n"
		   "Exit status: 0 stopped as asked, 1 it could not start, 2 wrong arguments or "
		   "configuration.\n",
	.flags = bj_serve_flags,
	.n_flags = BJ_SERVE_N_FLAGS,
	.help = help,
	.run = run,
};
