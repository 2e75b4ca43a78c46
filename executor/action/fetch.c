// SPDX-License-Identifier: Apache-2.0
/*
 * Reading and checking what the client declared: Action, Command, the whole tree. Nothing of it is trusted.
 * What is missing is gathered from all three before it is reported, so that a client uploads once.
 */
#include <limits.h>
#include <stdio.h>

#include "executor/action/life-internal.h"
#include "executor/base/clock.h"
#include "executor/base/map.h"
#include "executor/base/pb.h"

/* An Action or Command larger than this is no build action: arguments and environment together are bounded by the kernel's 2 MiB anyway. */
enum { MESSAGE_MAX_BYTES = 16 << 20 };

enum { FETCH_E_MISSING = 1 };

static int read_message(struct bj_store *store, const struct bj_digest *digest,
			const ProtobufCMessageDescriptor *type, struct bj_arena *arena,
			ProtobufCMessage **out_message, struct bj_err *err)
{
	struct bj_str bytes;
	int r = bj_store_read(store, digest, MESSAGE_MAX_BYTES, &bytes, arena, err);

	if (r == -BJ_DATA_LOSS) { /* it was dropped just now: the client has to upload it again */
		bj_err_clear(err);
		return FETCH_E_MISSING;
	}
	if (r == BJ_STORE_E_MISSING)
		return FETCH_E_MISSING;
	if (r < 0)
		return r;
	r = bj_pb_unpack(bytes, type, arena, out_message, err);
	if (r < 0) {
		char text[BJ_DIGEST_STR_BYTES];

		bj_digest_str(digest, text);
		return bj_err_wrap(err, "%s %s", type->short_name, text);
	}
	return 0;
}

int fetch_action(struct bj_store *store, const struct bj_digest *digest, struct bj_arena *arena,
		 re_action **out_action, struct bj_err *err)
{
	ProtobufCMessage *message;
	int r = read_message(store, digest,
			     &build__bazel__remote__execution__v2__action__descriptor, arena,
			     &message, err);

	if (r == 0)
		*out_action = (re_action *)message;
	return r;
}

/* Spec: "If the timeout is longer than the server's maximum timeout, the server MUST reject the request." */
int fetch_timeout(const re_action *action, uint64_t max_ns, uint64_t default_ns, uint64_t *out_ns,
		  struct bj_err *err)
{
	const Google__Protobuf__Duration *t = action->timeout;

	if (!t || (t->seconds == 0 && t->nanos == 0)) {
		*out_ns = default_ns;
		return 0;
	}
	if (t->seconds < 0 || t->nanos < 0 || t->nanos >= (int32_t)BJ_NS_PER_SEC)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "Action.timeout is malformed: %lld s %d ns",
				  (long long)t->seconds, t->nanos);
	uint64_t ns;
	bool is_huge = __builtin_mul_overflow((uint64_t)t->seconds, BJ_NS_PER_SEC, &ns) ||
		       __builtin_add_overflow(ns, (uint64_t)t->nanos, &ns);

	if (is_huge || ns > max_ns)
		return bj_err_set(
			err, BJ_INVALID_ARGUMENT,
			"Action.timeout of %lld s is above the server's maximum of %llu s",
			(long long)t->seconds, (unsigned long long)(max_ns / BJ_NS_PER_SEC));
	*out_ns = ns;
	return 0;
}

/* ---- outputs ---- */

/* What the kernel cannot say it cannot make either: better now than as a failed run. */
static bool is_too_long(const struct life *life, struct bj_str path)
{
	size_t dir_len = strlen(life->command->working_directory);

	return sizeof(BJ_JAIL_ROOT "/") + dir_len + 1 + path.len > PATH_MAX;
}

static int check_output(struct life *life, struct bj_map *seen, struct bj_str path,
			enum bj_output_style style, const char *what)
{
	struct bj_err *err = &life->failure.err;
	struct bj_str shown = bj_str_printable(life->arena, bj_str_sub(path, 0, 256), 256);

	/* Spec: the empty path stands for the whole working directory, and is no file. */
	if (path.len == 0 && style == BJ_OUTPUT_FILE)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s is empty", what);
	int r = path.len ? bjp_output_path_check(path, what, err) : 0;

	if (r < 0)
		return r;
	if (is_too_long(life, path))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s: \"%.*s\" is too long for a path",
				  what, BJ_STR_FMT(shown));
	if (bj_map_get(seen, path))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s: \"%.*s\" is declared twice", what,
				  BJ_STR_FMT(shown));
	return 0;
}

static int add_outputs(struct life *life, struct bj_map *seen, char *const *paths, size_t n,
		       enum bj_output_style style, const char *field)
{
	for (size_t i = 0; i < n; i++) {
		struct bj_output *output = &life->outputs[life->n_outputs];
		char what[64];

		*output = (struct bj_output){ .path = bj_str_of(paths[i]), .style = style };
		(void)snprintf(what, sizeof(what), "Command.%s[%zu]", field, i);
		int r = check_output(life, seen, output->path, style, what);

		if (r < 0)
			return r;
		if (!bj_map_put(seen, output->path, output, NULL))
			return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
					  "out of memory for the output paths");
		life->n_outputs++;
	}
	return 0;
}

/* Spec: an output file must not be the parent of any other output. */
static int check_nesting(struct life *life, const struct bj_map *seen)
{
	for (size_t i = 0; i < life->n_outputs; i++) {
		struct bj_str path = life->outputs[i].path;

		for (size_t end = bj_str_find(path, '/', 0); end < path.len;
		     end = bj_str_find(path, '/', end + 1)) {
			struct bj_str above = bj_str_sub(path, 0, end);
			const struct bj_output *output = bj_map_get(seen, above);

			if (output && output->style == BJ_OUTPUT_FILE)
				return bj_err_set(
					&life->failure.err, BJ_INVALID_ARGUMENT,
					"Command.output_files: \"%.*s\" is the parent of the "
					"output \"%.*s\"",
					BJ_STR_FMT(bj_str_printable(life->arena, above, 256)),
					BJ_STR_FMT(bj_str_printable(life->arena, path, 256)));
		}
	}
	return 0;
}

/* Spec: "If output_paths is used, output_files and output_directories will be ignored." */
static int check_outputs(struct life *life)
{
	const re_command *c = life->command;
	struct bj_map seen = BJ_MAP_NULL;
	size_t n = bj_size_add(c->n_output_paths,
			       bj_size_add(c->n_output_files, c->n_output_directories));
	int r;

	life->outputs = BJ_ARENA_ARRAY(life->arena, struct bj_output, n);
	if (!life->outputs)
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for %zu outputs", n);
	if (c->n_output_paths) {
		r = add_outputs(life, &seen, c->output_paths, c->n_output_paths, BJ_OUTPUT_PATHS,
				"output_paths");
	} else {
		r = add_outputs(life, &seen, c->output_files, c->n_output_files, BJ_OUTPUT_FILE,
				"output_files");
		/* A path in both lists is declared twice as well. */
		if (r == 0)
			r = add_outputs(life, &seen, c->output_directories, c->n_output_directories,
					BJ_OUTPUT_DIRECTORY, "output_directories");
		if (r == 0)
			r = check_nesting(life, &seen);
	}
	bj_map_deinit(&seen);
	return r;
}

/* ---- the rest of the Command ---- */

static int check_environment(struct life *life)
{
	for (size_t i = 0; i < life->command->n_environment_variables; i++) {
		const char *name = life->command->environment_variables[i]->name;

		if (name[0] == '\0' || strchr(name, '='))
			return bj_err_set(
				&life->failure.err, BJ_INVALID_ARGUMENT,
				"Command.environment_variables[%zu]: the name \"%.*s\" is "
				"empty or holds '='",
				i, BJ_STR_FMT(bj_str_printable(life->arena, bj_str_of(name), 256)));
	}
	return 0;
}

/* "." is the root (design §7): AOSP's client sends it. Everything else must be a directory of the input tree. */
static int check_working_directory(struct life *life)
{
	re_command *c = life->command;
	struct bj_err *err = &life->failure.err;
	struct bj_str dir = bj_str_of(c->working_directory);

	if (bj_str_eq(dir, BJ_STR_LIT("."))) {
		c->working_directory = (char *)(uintptr_t) "";
		return 0;
	}
	if (dir.len == 0)
		return 0;
	int r = bjp_output_path_check(dir, "Command.working_directory", err);

	if (r < 0)
		return r;
	/* Spec: "It must be a directory which exists in the input tree." */
	const struct bj_tree_entry *entry = bj_tree_find(&life->tree, dir);

	if (!entry || entry->kind != BJ_NODE_DIR)
		return bj_err_set(
			err, BJ_INVALID_ARGUMENT,
			"Command.working_directory \"%.*s\" is no directory of the input tree",
			BJ_STR_FMT(bj_str_printable(life->arena, dir, 512)));
	return 0;
}

static int check_command(struct life *life)
{
	const re_command *c = life->command;

	if (c->n_arguments == 0 || c->arguments[0][0] == '\0')
		return bj_err_set(&life->failure.err, BJ_INVALID_ARGUMENT,
				  "Command.arguments is empty: there is nothing to run");
	/* Spec: "If the set of requested NodeProperties includes properties unknown to the server: INVALID_ARGUMENT"; we keep none. */
	if (c->n_output_node_properties)
		return bj_err_set(&life->failure.err, BJ_INVALID_ARGUMENT,
				  "Command.output_node_properties: \"%.200s\" is not known here, "
				  "nor any other",
				  c->output_node_properties[0]);
	int r = check_environment(life);

	return r < 0 ? r : check_outputs(life);
}

/* ---- reading ---- */

static bool add_missing(struct life *life, struct bj_missing *missing,
			const struct bj_digest *digest)
{
	struct bj_digest *list =
		BJ_ARENA_ARRAY(life->arena, struct bj_digest, missing->n_digests + 1);

	if (!list)
		return false;
	if (missing->n_digests)
		memcpy(list, missing->digests, missing->n_digests * sizeof(*list));
	list[missing->n_digests] = *digest;
	*missing = (struct bj_missing){ list, missing->n_digests + 1 };
	return true;
}

int fetch_command(struct bj_store *store, enum bj_digest_fn fn, const re_action *action,
		  struct bj_arena *arena, struct bj_digest *out_digest, re_command **out_command,
		  struct bj_err *err)
{
	ProtobufCMessage *message;
	int r = bj_digest_from_pb(fn, action->command_digest, "Action.command_digest", out_digest,
				  err);

	if (r == 0)
		r = read_message(store, out_digest,
				 &build__bazel__remote__execution__v2__command__descriptor, arena,
				 &message, err);
	if (r == 0)
		*out_command = (re_command *)message;
	return r;
}

static int read_command(struct life *life, struct bj_missing *missing)
{
	struct bj_err *err = &life->failure.err;
	struct bj_digest digest;
	int r = fetch_command(life->runner->opts.store, life->request->action.fn, life->action,
			      life->arena, &digest, &life->command, err);

	if (r == FETCH_E_MISSING)
		return add_missing(life, missing, &digest)
			       ? 0
			       : bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory");
	return r;
}

static int read_tree(struct life *life, struct bj_missing *missing)
{
	struct bj_err *err = &life->failure.err;
	struct bj_missing in_tree = { NULL, 0 };
	struct bj_digest root;
	int r = bj_digest_from_pb(life->request->action.fn, life->action->input_root_digest,
				  "Action.input_root_digest", &root, err);

	if (r < 0)
		return r;
	r = bj_tree_load(life->runner->opts.store, &root, NULL, life->arena, &life->tree, &in_tree,
			 err);
	if (r < 0)
		return r;
	if (!in_tree.n_digests)
		return 0;
	/* At most the Command was missing so far. */
	struct bj_missing command = *missing;

	if (!command.n_digests) {
		*missing = in_tree;
		return 0;
	}
	/* In the order in which a client would look at them: the Command first. */
	struct bj_digest *all =
		BJ_ARENA_ARRAY(life->arena, struct bj_digest, in_tree.n_digests + 1);

	if (!all)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory");
	size_t n = 0;

	all[n++] = command.digests[0];
	for (size_t i = 0; i < in_tree.n_digests; i++)
		if (!bj_digest_eq(&in_tree.digests[i],
				  &all[0])) /* an input may be the Command's own file */
			all[n++] = in_tree.digests[i];
	*missing = (struct bj_missing){ all, n };
	return 0;
}

int life_fetch(struct life *life)
{
	struct bj_err *err = &life->failure.err;
	struct bj_missing missing = { NULL, 0 };
	int r = fetch_action(life->runner->opts.store, &life->request->action, life->arena,
			     &life->action, err);

	if (r == FETCH_E_MISSING) {
		bj_failure_missing(
			&life->failure,
			(struct bj_missing){ (struct bj_digest *)(uintptr_t)&life->request->action,
					     1 });
		return -BJ_FAILED_PRECONDITION;
	}
	if (r == 0)
		r = fetch_timeout(life->action, life->runner->opts.max_timeout_ns,
				  life->runner->opts.default_timeout_ns, &life->timeout_ns, err);
	if (r == 0)
		r = read_command(life, &missing);
	if (r == 0)
		r = read_tree(life, &missing);
	if (r < 0)
		return r;
	if (missing.n_digests) {
		bj_failure_missing(&life->failure, missing);
		return -BJ_FAILED_PRECONDITION;
	}
	r = check_command(life);
	return r < 0 ? r : check_working_directory(life);
}
