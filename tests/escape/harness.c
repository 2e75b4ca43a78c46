// SPDX-License-Identifier: Apache-2.0
/*
 * The executor's part in small: directories in the work area, hard links and ownership as the real
 * one makes them, one run.
 */
#include "tests/escape/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"

static void die(const char *what, const char *why)
{
	(void)fprintf(stderr, "escape: %s: %s\n", what, why);
	exit(3);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		die(what, strerror(errno));
}

/* ---- host and slots ---- */

void host_enter(struct host *host, const char *jail_binary, const char *probe, const char *work_dir,
		uint64_t work_bytes)
{
	struct bj_err err = BJ_ERR_NULL;
	*host = (struct host){ .jail_binary = jail_binary, .probe = probe };
	(void)snprintf(host->work_dir, sizeof(host->work_dir), "%s", work_dir); /* short: ours */
	if (bj_jail_enter_host(work_dir, work_bytes, &host->profile, NULL, &err) < 0)
		die("enter host", err.msg);
	bj_arena_init(&host->arena, 0);
	if (bj_jail_default_roots(NULL, 0, &host->arena, &host->slot, &err) < 0)
		die("roots", err.msg);
	host->slot.profile = host->profile;
	host->slot.work_dir = bj_str_of(host->work_dir);
}

static uint32_t slot_id(const struct slot *slot)
{
	return slot->host->profile == BJ_PROFILE_PRIVILEGED ? 64000 + slot->number : 0;
}

void slot_start(struct slot *slot, struct host *host, unsigned number)
{
	struct bj_err err = BJ_ERR_NULL;
	*slot = (struct slot){ .host = host, .number = number };
	struct bj_jail_slot_spec spec = host->slot;
	spec.slot_uid = spec.slot_gid = slot_id(slot);
	if (bj_jail_start(host->jail_binary, &spec, &slot->jail, NULL, &err) < 0)
		die("start slot", err.msg);
}

void slot_stop(struct slot *slot)
{
	bj_jail_free(slot->jail);
	slot->jail = NULL;
}

/* ---- laying out ---- */

static void own(const struct slot *slot, int dir, const char *name)
{
	uint32_t id = slot_id(slot);
	if (id)
		must(fchownat(dir, name, id, id, AT_SYMLINK_NOFOLLOW) == 0, "chown");
}

static void make_dir(const struct slot *slot, int dir, const char *name, mode_t mode, bool theirs)
{
	must(mkdirat(dir, name, 0700) == 0 && fchmodat(dir, name, mode, 0) == 0, name);
	if (theirs)
		own(slot, dir, name);
}

/** Directories on the way belong to the slot, so that the action may create in them. */
static void make_parents(const struct slot *slot, int lower, const char *path)
{
	char part[256];
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path),
			       path); /* ours: short */
		if (mkdirat(lower, part, 0755) == 0)
			own(slot, lower, part);
	}
}

/** As the store does: a blob of root's, read-only, and a hard link to it. */
static void put_input(const struct slot *slot, int work, int lower, const struct input *in,
		      unsigned index)
{
	char blob[64];
	(void)snprintf(blob, sizeof(blob), "blob-%u-%u-%u", slot->number, slot->n_actions,
		       index); /* three numbers */
	int fd = openat(work, blob, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0, blob);
	struct bj_err err = BJ_ERR_NULL;
	if (bj_fd_write_all(fd, in->content, strlen(in->content), blob, &err) < 0)
		die(blob, err.msg);
	must(fchmod(fd, in->executable ? 0555 : 0444) == 0 && close(fd) == 0, blob);
	make_parents(slot, lower, in->path);
	must(linkat(work, blob, lower, in->path, 0) == 0 && unlinkat(work, blob, 0) == 0, in->path);
}

static void link_probe(const struct slot *slot, int work, int lower)
{
	(void)slot;
	if (faccessat(work, "probe", F_OK, 0) < 0) {
		struct bj_buf bytes = BJ_BUF_INIT(64 << 20);
		struct bj_err err = BJ_ERR_NULL;
		if (bj_file_read_all(AT_FDCWD, slot->host->probe, &bytes, &err) != 0 ||
		    bj_file_replace(work, "probe", bytes.data, bytes.len, 0555, &err) < 0)
			die(slot->host->probe, bj_err_is_set(&err) ? err.msg : "missing");
		bj_buf_deinit(&bytes);
	}
	must(linkat(work, "probe", lower, "probe", 0) == 0, "probe");
}

void action_lay_out(struct slot *slot, const struct action *action, char *out_dir, size_t cap)
{
	char name[64];
	(void)snprintf(name, sizeof(name), "s%u-a%u", slot->number, slot->n_actions++);
	(void)snprintf(out_dir, cap, "%s/%s", slot->host->work_dir, name);
	int work = open(slot->host->work_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(work >= 0, slot->host->work_dir);
	make_dir(slot, work, name, 0711, false);
	int dir = openat(work, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(dir >= 0, name);
	make_dir(slot, dir, "lower", 0755, true);
	make_dir(slot, dir, "upper", 0755, true);
	make_dir(slot, dir, "ovl", 0700, false);
	make_dir(slot, dir, "tmp", 01777, false);
	make_dir(slot, dir, "shm", 01777, false);
	int lower = openat(dir, "lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(lower >= 0, "lower");
	if (slot->host->probe)
		link_probe(slot, work, lower);
	for (unsigned i = 0; i < MAX_INPUTS && action->inputs[i].path; i++)
		put_input(slot, work, lower, &action->inputs[i], i);
	for (unsigned i = 0; i < MAX_INPUTS && action->dirs[i]; i++) {
		make_parents(slot, lower, action->dirs[i]);
		make_dir(slot, lower, action->dirs[i], 0755, true);
	}
	(void)close(lower);
	(void)close(dir);
	(void)close(work);
}

void action_remove(const char *dir)
{
	int r = bj_remove_tree(AT_FDCWD, dir);
	if (r < 0)
		die(dir, strerror(-r));
}

/* ---- running ---- */

static int collect(void *ctx, int stream, const void *data, size_t n_bytes, struct bj_err *err)
{
	struct outcome *out = ctx;
	if (!bj_buf_append(stream == 1 ? &out->out : &out->errs, data, n_bytes))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "output over the limit");
	return 0;
}

static enum bj_path_class classify(void *ctx, struct bj_str path)
{
	(void)ctx;
	(void)path;
	return BJ_PATH_QUIET;
}

static void attempt(void *ctx, const struct bj_attempt *a)
{
	(void)ctx;
	(void)a;
}

static size_t views(const char *const *strings, size_t max, struct bj_str *out)
{
	size_t n = 0;
	while (n < max && strings[n]) {
		out[n] = bj_str_of(strings[n]);
		n++;
	}
	return n;
}

static struct bj_str below(char *buf, size_t cap, const char *action_dir, const char *name)
{
	int n = snprintf(buf, cap, "%s/%s", strrchr(action_dir, '/') + 1, name);
	return bj_str_n(buf, (size_t)n);
}

void action_execute(struct slot *slot, const struct action *action, const char *dir,
		    struct outcome *out)
{
	static const struct bj_observer_hooks observer = { .classify = classify,
							   .attempt = attempt };
	static const char *const path_only[MAX_ARGS] = { "PATH=/usr/local/bin:/usr/bin:/bin" };
	struct bj_str argv[MAX_ARGS], env[MAX_ARGS], writable[MAX_INPUTS];
	char paths[5][128];
	*out = (struct outcome){ .err = BJ_ERR_NULL,
				 .out = BJ_BUF_INIT(256 << 20),
				 .errs = BJ_BUF_INIT(256 << 20) };
	(void)snprintf(out->dir, sizeof(out->dir), "%s", dir);
	struct bj_jail_spec spec = {
		.argv = argv,
		.n_argv = views(action->argv, MAX_ARGS, argv),
		.env = env,
		.n_env = views(action->env[0] ? action->env : path_only, MAX_ARGS, env),
		.cwd = bj_str_of(action->cwd ? action->cwd : BJ_JAIL_ROOT),
		.lower = below(paths[0], sizeof(paths[0]), dir, "lower"),
		.upper = below(paths[1], sizeof(paths[1]), dir, "upper"),
		.ovl = below(paths[2], sizeof(paths[2]), dir, "ovl"),
		.tmp = below(paths[3], sizeof(paths[3]), dir, "tmp"),
		.shm = below(paths[4], sizeof(paths[4]), dir, "shm"),
		.write_mode = action->strict ? BJ_WRITE_STRICT : BJ_WRITE_SCRATCH,
		.writable = writable,
		.n_writable = views(action->writable, MAX_INPUTS, writable),
		.observe = action->observe,
	};
	struct bj_jail_hooks hooks = { .ctx = out, .output = collect, .observer = &observer };
	uint64_t start = bj_now_ns();
	uint64_t deadline =
		action->timeout_ms ? start + action->timeout_ms * BJ_NS_PER_MS : BJ_NEVER_NS;
	out->code =
		bj_jail_run(slot->jail, &spec, &hooks, deadline,
			    action->cancel_fd ? action->cancel_fd : -1, &out->result, &out->err);
	out->took_ns = bj_now_ns() - start;
}

void action_run(struct slot *slot, const struct action *action, struct outcome *out)
{
	char dir[320];
	action_lay_out(slot, action, dir, sizeof(dir));
	action_execute(slot, action, dir, out);
	if (!action->keep)
		action_remove(dir);
}

void outcome_free(struct outcome *out)
{
	bj_buf_deinit(&out->out);
	bj_buf_deinit(&out->errs);
}
