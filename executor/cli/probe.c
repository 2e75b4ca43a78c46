// SPDX-License-Identifier: Apache-2.0
/*
 * Whether this host can give the jar, by giving it: each profile is tried in a process of its own, through the same calls that the
 * server makes, with a jailed `true` at the end. A table of kernel features would only say what should work.
 *
 *	fork ── become who the profile is for ── bj_jail_enter_host ── bj_jail_start ── bj_jail_run, unwatched and watched
 *	  └── a struct over a pipe
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/cli/cli-internal.h"
#include "executor/cli/config.h"
#include "executor/cli/host.h"
#include "executor/cli/probe-internal.h"

enum { WORK_BYTES = 16 << 20, CHILD_SECONDS = 60, RUN_SECONDS = 20, PROBE_UID = 60000 };

struct probe_flags {
	const char *jail;
	bool json;
};

#define AT(member) offsetof(struct probe_flags, member)

static const struct bj_flag flags_table[] = {
	{ "jail", BJ_FLAG_TEXT, AT(jail), 0, 0, "PATH", "belljar-jail [beside this program]" },
	{ "json", BJ_FLAG_SWITCH, AT(json), 0, 0, NULL, "an object instead of text" },
};

bool bj_probe_works(const struct bj_probe *probe)
{
	for (size_t i = 0; i < BJ_PROBE_PROFILES; i++)
		if (probe->profiles[i].has_walls && probe->profiles[i].has_observer)
			return true;
	return false;
}

/* ---- in the child: one profile ---- */

struct trial {
	const char *jail_binary, *work_dir;
	const char *jail_copy; /* for who may not execute jail_binary */
	struct bj_jail_slot_spec slot;
	struct bj_jail *jail;
	struct bj_probe_profile *result;
};

/* Directories of one action, as the layout makes them; each run has its own, as the old mounts may still be on their way out. */
static int make_dirs(const struct trial *t, const struct bj_jail_spec *spec, struct bj_err *err)
{
	const struct bj_str names[] = { spec->lower, spec->upper, spec->ovl, spec->tmp, spec->shm };
	bj_cleanup(bj_close_fdp) int dir =
		open(t->work_dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (dir < 0)
		return bj_err_errno(err, errno, "open \"%s\"", t->work_dir);
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		if (mkdirat(dir, names[i].ptr, 0755) < 0)
			return bj_err_errno(err, errno, "make \"%s/%s\"", t->work_dir,
					    names[i].ptr);
		if (t->slot.slot_uid && fchownat(dir, names[i].ptr, t->slot.slot_uid,
						 t->slot.slot_gid, AT_SYMLINK_NOFOLLOW) < 0)
			return bj_err_errno(err, errno, "give \"%s/%s\" to the slot", t->work_dir,
					    names[i].ptr);
	}
	return 0;
}

static int ignore_output(void *ctx, int stream, const void *data, size_t n_bytes,
			 struct bj_err *err)
{
	(void)ctx;
	(void)stream;
	(void)data;
	(void)n_bytes;
	(void)err;
	return 0;
}

static enum bj_path_class classify(void *ctx, struct bj_str path)
{
	(void)ctx;
	(void)path;
	return BJ_PATH_QUIET;
}

static void ignore_attempt(void *ctx, const struct bj_attempt *attempt)
{
	(void)ctx;
	(void)attempt;
}

static int check_end(const struct bj_jail_result *result, enum bj_observe observe,
		     struct bj_err *err)
{
	if (result->end != BJ_END_EXITED || result->exit_code != 0)
		return bj_err_set(err, BJ_FAILED_PRECONDITION,
				  "a jailed /usr/bin/true ended with %d (end %d, exec: %s)",
				  result->exit_code, (int)result->end,
				  strerror(result->exec_errno));
	if (observe != BJ_OBSERVE_OFF &&
	    (!result->observer.complete || result->observer.n_notifications == 0))
		return bj_err_set(err, BJ_FAILED_PRECONDITION,
				  "the observer saw nothing, or lost something");
	return 0;
}

static int run_true(const struct trial *t, enum bj_observe observe, struct bj_err *err)
{
	static struct bj_str argv[] = { { "/usr/bin/true", sizeof("/usr/bin/true") - 1 } };
	static const struct bj_observer_hooks observer = { .classify = classify,
							   .attempt = ignore_attempt };
	static const struct bj_jail_hooks hooks = { .output = ignore_output,
						    .observer = &observer };
	bool watched = observe != BJ_OBSERVE_OFF;
	const struct bj_jail_spec spec = {
		.argv = argv,
		.n_argv = 1,
		.cwd = BJ_STR_LIT(BJ_JAIL_ROOT),
		.lower = bj_str_of(watched ? "lower-2" : "lower"),
		.upper = bj_str_of(watched ? "upper-2" : "upper"),
		.ovl = bj_str_of(watched ? "ovl-2" : "ovl"),
		.tmp = bj_str_of(watched ? "tmp-2" : "tmp"),
		.shm = bj_str_of(watched ? "shm-2" : "shm"),
		.write_mode = BJ_WRITE_SCRATCH,
		.observe = observe,
	};
	struct bj_jail_result result;
	int r = make_dirs(t, &spec, err);

	if (r < 0)
		return r;
	r = bj_jail_run(t->jail, &spec, &hooks, bj_deadline_ns(RUN_SECONDS * BJ_NS_PER_SEC), -1,
			&result, err);

	if (r < 0)
		return r;
	bj_close_fdp(&result.exec_fd);
	return check_end(&result, observe, err);
}

static int try_profile(struct trial *t, struct bj_err *err)
{
	struct bj_jail_failure *failure = &t->result->failure;
	int r = bj_jail_enter_host(t->work_dir, WORK_BYTES, &t->slot.profile, failure, err);

	if (r < 0)
		return r;
	t->slot.work_dir = bj_str_of(t->work_dir);
	if (t->slot.profile == BJ_PROFILE_PRIVILEGED)
		t->slot.slot_uid = t->slot.slot_gid = PROBE_UID;
	r = bj_jail_start(t->jail_binary, &t->slot, &t->jail, failure, err);
	if (r == 0)
		r = run_true(t, BJ_OBSERVE_OFF, err);
	if (r < 0)
		return r;
	t->result->has_walls = true;
	r = bj_jail_check_observer(t->jail, failure, err);
	if (r == 0)
		r = run_true(t, BJ_OBSERVE_DEFAULT, err);
	t->result->has_observer = r == 0;
	return r;
}

/* For good: what root could still do must not help. */
static int become_ordinary(struct trial *t, struct bj_err *err)
{
	if (setgroups(0, NULL) < 0 || setresgid(PROBE_UID, PROBE_UID, PROBE_UID) < 0 ||
	    setresuid(PROBE_UID, PROBE_UID, PROBE_UID) < 0)
		return bj_err_errno(err, errno, "become uid %d", (int)PROBE_UID);
	/* The change has made /proc/self root's, where the maps of a user namespace are written. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return bj_err_errno(err, errno, "prctl(PR_SET_DUMPABLE)");
	if (access(t->jail_binary, X_OK) < 0)
		t->jail_binary = t->jail_copy;
	return 0;
}

BJ_NORETURN static void child_main(struct trial *t, bool drop, int pipe_fd)
{
	struct bj_err err = BJ_ERR_NULL;

	(void)alarm(CHILD_SECONDS); /* a host where a step hangs must not hang us */
	int r = drop ? become_ordinary(t, &err) : 0;
	if (r == 0)
		r = try_profile(t, &err);
	if (r < 0)
		(void)snprintf(t->result->text, sizeof(t->result->text), "%s",
			       err.msg); /* equal sizes */
	bj_jail_free(t->jail);
	bj_err_clear(&err);
	_exit(bj_fd_write_all(pipe_fd, t->result, sizeof(*t->result), "result", &err) == 0 ? 0 : 1);
}

/* ---- in the parent ---- */

static void say(struct bj_probe_profile *p, const char *what)
{
	(void)snprintf(p->text, sizeof(p->text), "%s", what); /* an error is no longer */
}

static void await_child(pid_t pid, int pipe_fd, struct bj_probe_profile *p)
{
	struct bj_buf buf = BJ_BUF_INIT(sizeof(*p));
	struct bj_err err = BJ_ERR_NULL;
	int status = 0;
	int r = bj_fd_read_all(pipe_fd, &buf, "result of the trial", &err);

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (r == 0 && buf.len == sizeof(*p))
		memcpy(p, buf.data, sizeof(*p));
	else
		say(p, WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
			       ? "the trial did not end in time"
			       : "the trial died");
	bj_buf_deinit(&buf);
}

static int fork_trial(struct trial *t, bool drop, struct bj_err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return bj_err_errno(err, errno, "pipe");
	bj_cleanup(bj_close_fdp) int from = ends[0];
	bj_cleanup(bj_close_fdp) int to = ends[1];
	pid_t pid = fork(); /* there is no thread yet, so the child may do anything */
	if (pid < 0)
		return bj_err_errno(err, errno, "fork");
	if (pid == 0)
		child_main(t, drop, to);
	bj_close_fdp(&to);
	await_child(pid, from, t->result);
	return 0;
}

/* An ordinary user may not get as far as the directory that the program is in, so a copy lies where it does. */
static int copy_jail(const struct trial *t, struct bj_err *err)
{
	bj_cleanup(bj_close_fdp) int from = open(t->jail_binary, O_RDONLY | O_CLOEXEC);
	bj_cleanup(bj_close_fdp) int to =
		open(t->jail_copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	ssize_t n;

	if (from < 0 || to < 0)
		return bj_err_errno(err, errno, "copy \"%s\" to \"%s\"", t->jail_binary,
				    t->jail_copy);
	while ((n = copy_file_range(from, NULL, to, NULL, 1 << 20, 0)) > 0)
		continue;
	if (n < 0 || fchmod(to, 0555) < 0)
		return bj_err_errno(err, errno, "copy \"%s\" to \"%s\"", t->jail_binary,
				    t->jail_copy);
	return 0;
}

static int try_in(struct trial *t, const char *dir, bool drop, struct bj_err *err)
{
	if (mkdir(t->work_dir, 0700) < 0)
		return bj_err_errno(err, errno, "make \"%s\"", t->work_dir);
	if (drop) {
		if (chown(dir, PROBE_UID, PROBE_UID) < 0 ||
		    chown(t->work_dir, PROBE_UID, PROBE_UID) < 0)
			return bj_err_errno(err, errno, "give \"%s\" to uid %d", dir,
					    (int)PROBE_UID);
		int r = copy_jail(t, err);
		if (r < 0)
			return r;
	}
	return fork_trial(t, drop, err);
}

/*
 * In a directory of its own: `work`, on which only the trial's own mount namespace has something, and the copy. Each is removed by
 * its name, and `work` is empty outside the trial, so nothing can be lost with them.
 */
static int try_in_own_dir(struct trial *t, bool drop, struct bj_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX - 32], work[PATH_MAX], copy[PATH_MAX];

	tmp = tmp && *tmp == '/' ? tmp : "/tmp";
	int n = snprintf(dir, sizeof(dir), "%s/belljar-probe.XXXXXX", tmp);
	if (n < 0 || (size_t)n >= sizeof(dir) || !mkdtemp(dir))
		return bj_err_errno(err, errno, "make a directory below \"%s\"", tmp);
	(void)snprintf(work, sizeof(work), "%s/work", dir); /* both fit */
	(void)snprintf(copy, sizeof(copy), "%s/belljar-jail", dir);
	t->work_dir = work;
	t->jail_copy = copy;
	int r = try_in(t, dir, drop, err);
	t->work_dir = t->jail_copy = NULL; /* they end with this function */
	(void)unlink(copy); /* what cannot be removed stays in the directory for temporary files */
	(void)rmdir(work);
	(void)rmdir(dir);
	return r;
}

/* A trial that cannot even be made is the result of that profile, not the end of the others. */
static void try_one(struct bj_probe *probe, struct bj_probe_profile *p, const char *jail_binary,
		    bool drop)
{
	struct trial t = { .jail_binary = jail_binary, .slot = probe->roots, .result = p };
	struct bj_err err = BJ_ERR_NULL;

	p->was_tried = true;
	if (try_in_own_dir(&t, drop, &err) < 0)
		say(p, err.msg);
}

static void try_all(struct bj_probe *probe, const char *jail_binary)
{
	bool is_root = geteuid() == 0;

	for (size_t i = 0; i < BJ_PROBE_PROFILES; i++) {
		struct bj_probe_profile *p = &probe->profiles[i];
		bool is_privileged = i == 0;
		(void)snprintf(p->name, sizeof(p->name), "%s",
			       bj_jail_profile_name(is_privileged ? BJ_PROFILE_PRIVILEGED
								  : BJ_PROFILE_USERNS)); /* short */
		if (is_privileged && !is_root)
			say(p, "needs root");
		else
			try_one(probe, p, jail_binary, is_root && !is_privileged);
	}
}

static int find_jail(const struct probe_flags *flags, struct bj_arena *arena, struct bj_str *out,
		     struct bj_err *err)
{
	if (!flags->jail)
		return bj_host_jail_binary(bj_cli_argv0(), arena, out, err);
	*out = bj_str_of(flags->jail);
	return 0;
}

static int print(const struct bj_probe *probe, bool json)
{
	struct bj_buf text = BJ_BUF_INIT(16 << 20);

	if (json && bj_probe_print_json(probe, &text))
		(void)fwrite(text.data, 1, text.len, stdout); /* looked at below */
	else if (!json)
		bj_probe_print_text(probe, stdout);
	bool failed = text.failed || fflush(stdout) != 0 || ferror(stdout);
	bj_buf_deinit(&text);
	return failed || !bj_probe_works(probe) ? BJ_EXIT_FAILED : BJ_EXIT_OK;
}

static int run(const struct bj_command *command, int argc, char **argv)
{
	struct probe_flags flags = { 0 };
	struct bj_flag_list operands = { 0 };
	struct bj_err err = BJ_ERR_NULL;
	struct bj_str jail_binary;
	struct bj_probe probe = { 0 };
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	if (bj_flags_parse(command, argc, argv, &arena, &flags, &operands, &err) < 0)
		return bj_cli_fail(command, &err, BJ_EXIT_USAGE);
	int r = find_jail(&flags, &arena, &jail_binary, &err);
	if (r == 0)
		r = bj_jail_default_roots(NULL, 0, &arena, &probe.roots, &err);
	if (r == 0) {
		try_all(&probe, jail_binary.ptr);
		r = bj_probe_look_at_roots(&probe, &arena, &err);
	}
	return r < 0 ? bj_cli_fail(command, &err, BJ_EXIT_FAILED) : print(&probe, flags.json);
}

const struct bj_command bj_probe_command = {
	.name = "probe",
	.summary = "try whether this host can give the jar, and say what is missing",
	.operands = "",
	.max_operands = 0,
	.details = "Runs a jailed `true` in each profile: privileged (as root) and userns (as an "
		   "ordinary user; root tries\n"
		   "it as uid 60000), unwatched and watched. Then lists the toolchain roots, and "
		   "the links that leave them.\n"
		   "Exit status: 0 some profile works in full, 1 none does, 2 wrong arguments.\n",
	.flags = flags_table,
	.n_flags = BJ_ARRAY_LEN(flags_table),
	.run = run,
};
