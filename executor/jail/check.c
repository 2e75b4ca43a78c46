// SPDX-License-Identifier: Apache-2.0
/*
 * Trying the walls: one action through the same code as all others, with empty layers and a command
 * that cannot exist. That exec fails with ENOENT is the proof that everything before it went well.
 * A probe of another kind (can we unshare, is there a bwrap) passes on machines where every action
 * fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/jail/jail-internal.h"

enum { NAME_BYTES = 40, PATH_BYTES = 64 };
#define CHECK_NS (60 * BJ_NS_PER_SEC) /* against hanging */

static const struct {
	const char *name;
	mode_t mode;
	bool theirs; /* owned by the slot */
} layers[] = {
	{ "lower", 0755, true }, { "upper", 0755, true }, { "ovl", 0700, false },
	{ "tmp", 01777, false }, { "shm", 01777, false },
};
enum { N_LAYERS = BJ_ARRAY_LEN(layers) };

static int make_layer(const struct bj_jail *jail, int dir, size_t i, struct bj_err *err)
{
	const char *name = layers[i].name;
	bool theirs = layers[i].theirs && jail->profile == BJ_PROFILE_PRIVILEGED;
	if (mkdirat(dir, name, 0700) < 0 || fchmodat(dir, name, layers[i].mode, 0) < 0 ||
	    (theirs &&
	     fchownat(dir, name, jail->slot_uid, jail->slot_gid, AT_SYMLINK_NOFOLLOW) < 0))
		return bj_err_errno(err, errno, "jail: make \"%s\" in the work area", name);
	return 0;
}

static int make_layers(const struct bj_jail *jail, int work, const char *name, struct bj_err *err)
{
	if (mkdirat(work, name, 0711) < 0)
		return bj_err_errno(err, errno, "jail: make a directory in the work area");
	bj_cleanup(bj_close_fdp) int dir = bj_open_beneath(work, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return bj_err_errno(err, -dir, "jail: open a directory of the work area");
	for (size_t i = 0; i < N_LAYERS; i++) {
		int r = make_layer(jail, dir, i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int ignore_output(void *ctx, int stream, const void *data, size_t n_bytes,
			 struct bj_err *err)
{
	(void)ctx, (void)stream, (void)data, (void)n_bytes, (void)err; /* there is no command */
	return 0;
}

static enum bj_path_class classify_quiet(void *ctx, struct bj_str path)
{
	(void)ctx, (void)path;
	return BJ_PATH_QUIET;
}

static void ignore_attempt(void *ctx, const struct bj_attempt *attempt)
{
	(void)ctx, (void)attempt;
}

static int run_nothing(struct bj_jail *jail, const char *name, enum bj_observe level,
		       struct bj_jail_failure *out_failure, struct bj_err *err)
{
	static const struct bj_observer_hooks observer = { .classify = classify_quiet,
							   .attempt = ignore_attempt };
	const struct bj_jail_hooks hooks = { .output = ignore_output, .observer = &observer };
	struct bj_str nothing = BJ_STR_LIT("");
	char paths[N_LAYERS][PATH_BYTES];
	for (size_t i = 0; i < N_LAYERS; i++)
		(void)snprintf(paths[i], PATH_BYTES, "%s/%s", name,
			       layers[i].name); /* both short */
	const struct bj_jail_spec spec = {
		.argv = &nothing,
		.n_argv = 1,
		.cwd = BJ_STR_LIT(BJ_JAIL_ROOT),
		.lower = bj_str_of(paths[0]),
		.upper = bj_str_of(paths[1]),
		.ovl = bj_str_of(paths[2]),
		.tmp = bj_str_of(paths[3]),
		.shm = bj_str_of(paths[4]),
		.observe = level,
	};
	struct bj_jail_result result = { .exec_fd = -EBADF };
	int r = bj_jail_run_reporting(jail, &spec, &hooks, bj_deadline_ns(CHECK_NS), -1, &result,
				      out_failure, err);
	if (r < 0)
		return r;
	bj_close_fdp(&result.exec_fd);
	if (result.end != BJ_END_EXEC_FAILED || result.exec_errno != ENOENT)
		return bj_err_set(err, BJ_INTERNAL,
				  "jail: the trial action ended in an unexpected way (%d)",
				  (int)result.end);
	return 0;
}

int bj_jail_check(struct bj_jail *jail, enum bj_observe level, struct bj_jail_failure *out_failure,
		  struct bj_err *err)
{
	char name[NAME_BYTES];
	(void)snprintf(name, sizeof(name), ".check-%d", (int)jail->pid); /* an int */
	bj_cleanup(bj_close_fdp) int work =
		open(jail->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (work < 0)
		return bj_err_errno(err, errno, "jail: open the work area \"%s\"", jail->work_dir);
	int r = make_layers(jail, work, name, err);
	if (r == 0)
		r = run_nothing(jail, name, level, out_failure, err);
	int removed = bj_remove_tree(work, name);
	if (r == 0 && removed < 0)
		r = bj_err_errno(err, -removed, "jail: remove \"%s\" from the work area", name);
	return r;
}

int bj_jail_check_observer(struct bj_jail *jail, struct bj_jail_failure *out_failure,
			   struct bj_err *err)
{
	return bj_jail_check(jail, BJ_OBSERVE_DEFAULT, out_failure, err);
}
