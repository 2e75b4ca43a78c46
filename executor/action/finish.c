// SPDX-License-Identifier: Apache-2.0
/* The end of a life: outputs into the store, records, the result, and whether it is cached. */
#include <stdio.h>

#include "executor/action/life-internal.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pb.h"

/* What an action leaves behind beyond this is counted by its first entries only. */
enum { LEFT_MAX = 10000, LEFT_PATH_MAX_BYTES = 256 << 10, POLICY_TEXT_MAX_BYTES = 512 << 20 };

/* By their sizes: a sparse file may claim any, and hashing holds the slot. The work area bounds what they really hold. */
#define OUTPUTS_MAX_BYTES (UINT64_C(64) << 30)

/* ---- collection ---- */

/* Spec: a format that is not known is to be taken for TREE_ONLY. */
enum {
	DIRECTORY_ONLY =
		BUILD__BAZEL__REMOTE__EXECUTION__V2__COMMAND__OUTPUT_DIRECTORY_FORMAT__DIRECTORY_ONLY,
	TREE_AND_DIRECTORY =
		BUILD__BAZEL__REMOTE__EXECUTION__V2__COMMAND__OUTPUT_DIRECTORY_FORMAT__TREE_AND_DIRECTORY,
};

int life_collect(struct life *life)
{
	int format = (int)life->command->output_directory_format;
	struct bj_collect collect = {
		.store = life->runner->opts.store,
		.fn = life->request->action.fn,
		.exec_fd = life->jail.exec_fd,
		.wants_tree = format != DIRECTORY_ONLY,
		.wants_directories = format == DIRECTORY_ONLY || format == TREE_AND_DIRECTORY,
		.working_dir = bj_str_of(life->command->working_directory),
		.outputs = life->outputs,
		.n_outputs = life->n_outputs,
		.max_bytes = OUTPUTS_MAX_BYTES,
		.arena = life->arena,
	};
	struct bj_err err = BJ_ERR_NULL;

	life->result = BJ_ARENA_NEW(life->arena, re_action_result);
	if (!life->result)
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the result");
	build__bazel__remote__execution__v2__action_result__init(life->result);
	life->result->exit_code = life->jail.exit_code;
	int r = bj_collect_outputs(&collect, life->result, &err);

	/* After a timeout half an output is no news: what was collected is kept. */
	if (r == 0 || bj_err_is_set(&life->timeout))
		return 0;
	life->failure.err = err;
	return r;
}

/* ---- facts that no attempt shows ---- */

/** A directory of outputs that lies behind a declared symlink: what is in `real` was declared as being in `declared`. */
struct alias {
	struct bj_str declared, real; /* absolute */
};

struct leftovers {
	struct life *life;
	struct alias *aliases;
	size_t n_aliases;
	struct bj_buf path, other;
	bool cut;
};

static bool find_aliases(struct leftovers *l)
{
	const struct bjp_policy *policy = l->life->policy;
	struct bj_arena *arena = &l->life->scratch;
	const struct bj_str *dirs;
	size_t n;

	bjp_output_parents(policy, &dirs, &n);
	l->aliases = BJ_ARENA_ARRAY(arena, struct alias, n);
	for (size_t i = 0; l->aliases && i < n; i++) {
		struct bj_str dir = bj_str_of(
			bj_arena_printf(arena, BJ_JAIL_ROOT "/%.*s", BJ_STR_FMT(dirs[i])));
		struct bj_str real = dir.ptr ? bjp_resolve_declared(policy, arena, dir) : dir;

		if (!real.ptr)
			return false;
		if (!bj_str_eq(real, dir))
			l->aliases[l->n_aliases++] = (struct alias){ dir, real };
	}
	return l->aliases != NULL;
}

/* Is it an output under the name that was declared for it? */
static bool is_output_elsewhere(struct leftovers *l, struct bj_str path)
{
	for (size_t i = 0; i < l->n_aliases; i++) {
		const struct alias *a = &l->aliases[i];

		if (!bjp_path_is_below(path, a->real))
			continue;
		bj_buf_clear(&l->other);
		(void)bj_buf_append_str(&l->other,
					a->declared); /* a refused append shows in the next */
		if (!bj_buf_append_str(&l->other, bj_str_sub(path, a->real.len, path.len)))
			return false;
		if (bjp_classify(l->life->policy, bj_buf_str(&l->other)) == BJP_OUTPUT)
			return true;
	}
	return false;
}

/* What lies in an output, or below scratch that the environment names, was asked for; a replaced input was reported as an attempt. */
static void on_left(void *ctx, const struct bj_left *left)
{
	struct leftovers *l = ctx;

	if (left->is_whiteout)
		return;
	bj_buf_clear(&l->path);
	(void)bj_buf_append_cstr(&l->path,
				 BJ_JAIL_ROOT "/"); /* a refused append shows in the next */
	if (!bj_buf_append_str(&l->path, left->path)) {
		l->cut = true;
		return;
	}
	switch (bjp_classify(l->life->policy, bj_buf_str(&l->path))) {
	case BJP_OUTPUT:
	case BJP_ENV_SCRATCH:
	case BJP_SYSTEM:
	case BJP_INPUT: /* a private copy: write_to_input has it already */
		return;
	case BJP_OUTPUT_DIR:
		if (left->is_dir)
			return; /* made by us, still empty */
		break;
	default:
		break;
	}
	if (!is_output_elsewhere(l, bj_buf_str(&l->path)))
		bjp_collect_undeclared_output(l->life->collector, bj_buf_str(&l->path),
					      left->size_bytes);
}

/* What was alive when we killed it, at a timeout, was no stray: it was the action. */
static void note_strays(struct life *life)
{
	if (!life->jail.n_strays_total)
		return;
	for (size_t i = 0; i < life->jail.n_strays; i++)
		bjp_collect_stray(life->collector, life->jail.strays[i].pid,
				  bj_str_of(life->jail.strays[i].comm),
				  bj_str_of(life->jail.strays[i].argv0));
}

/* An action that meets a full disk and goes on has another result than alone: it is told, and not cached. */
static void note_shortage(struct life *life)
{
	if (!life->was_short)
		return;
	bjp_collect_resource(life->collector, "disk",
			     BJ_STR_LIT("the work area was full while it ran: see workBytes"));
	bj_warn("action: the work area is full, the result is not cached action=%.*s",
		BJ_STR_FMT(life->request->client.target));
}

static bool command_failed(const struct life *life)
{
	return life->jail.end != BJ_END_EXITED || life->jail.exit_code != 0;
}

/* Many Bazel tests declare ten outputs that are often absent, so a passing command owes none (the policy looks for near misses). */
static void note_missing(struct life *life)
{
	for (size_t i = 0; i < life->n_outputs; i++) {
		const char *dir = life->command->working_directory;

		if (life->outputs[i].found)
			continue;
		const char *path =
			bj_arena_printf(&life->scratch, BJ_JAIL_ROOT "/%s%s%.*s", dir,
					dir[0] ? "/" : "", BJ_STR_FMT(life->outputs[i].path));
		if (path)
			bjp_collect_missing_output(life->collector, bj_str_of(path));
	}
}

static int note_left(struct life *life, bool *out_cut)
{
	struct leftovers l = { .life = life,
			       .path = BJ_BUF_INIT(LEFT_PATH_MAX_BYTES),
			       .other = BJ_BUF_INIT(LEFT_PATH_MAX_BYTES) };
	bool cut = false;

	if (!find_aliases(&l))
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for what the action left behind");
	int r = bj_collect_left(&life->layout, LEFT_MAX, on_left, &l, &cut, &life->failure.err);

	bj_buf_deinit(&l.path);
	bj_buf_deinit(&l.other);
	*out_cut = cut || l.cut;
	return r < 0 ? bj_err_wrap(&life->failure.err, "look at what the action left behind") : 0;
}

static int judge(struct life *life)
{
	struct bjp_outcome outcome = {
		.failed = command_failed(life),
		.has_workspace = life->runner->opts.n_workspaces > 0,
	};
	bool cut;

	note_strays(life);
	note_shortage(life);
	note_missing(life);
	int r = note_left(life, &cut);

	if (r == 0)
		r = bjp_judge(life->collector, &outcome, witness_evidence, life, life->arena,
			      &life->judged, &life->failure.err);
	if (r == 0 && cut)
		life->judged.counters
			.dropped++; /* at least one: the report must not look complete */
	return r;
}

/* ---- the streams ---- */

static int store_stream(struct life *life, struct stream *stream, re_digest **out_pb)
{
	struct bj_err *err = &life->failure.err;
	struct bj_digest digest;
	int r;

	if (stream->size_bytes == 0)
		return 0; /* unset is the empty blob */
	if (stream->writer)
		r = bj_store_writer_commit(BJ_STEAL_PTR(stream->writer), NULL, &digest, err);
	else
		r = bj_store_put(life->runner->opts.store, life->request->action.fn,
				 bj_buf_str(&stream->head), NULL, &digest, err);
	if (r < 0)
		return r;
	*out_pb = bj_digest_to_pb(life->arena, &digest);
	return *out_pb ? 0 : bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the result");
}

static int append_line(struct stream *stream, struct bj_str text, struct bj_err *err)
{
	if (text.len == 0)
		return 0;
	stream->size_bytes += text.len;
	stream->last = text.ptr[text.len - 1];
	if (stream->writer)
		return bj_store_writer_append(stream->writer, text.ptr, text.len, err);
	stream->head.max_bytes +=
		text.len; /* the command's own bytes were bounded; ours are bounded by themselves */
	if (!bj_buf_append_str(&stream->head, text))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for stderr");
	return 0;
}

/* The command's bytes exactly, then our lines: stderr is all that a Bazel user sees of an action that passes. */
static int append_summary(struct life *life)
{
	char hex[2 * BJ_HASH_MAX_BYTES + 1];
	int r = 0;

	if (life->settings.on_violation == BJP_ON_VIOLATION_OFF)
		return 0;
	bj_digest_hex(&life->request->action, hex);
	struct bj_str lines =
		bjp_summary_lines(&life->judged, BJ_STR_LIT(BJ_JAIL_ROOT),
				  life->request->client.target, bj_str_n(hex, 8), life->arena);

	if (lines.len && life->err.last != '\n')
		r = append_line(&life->err, BJ_STR_LIT("\n"), &life->failure.err);
	return r < 0 ? r : append_line(&life->err, lines, &life->failure.err);
}

/* ---- the result ---- */

/* Closed: nothing from outside can have reached the result (design §3.3). Walls are always on; the network is always off. */
static bool is_closed(const struct life *life)
{
	bool observed = life->settings.observe == BJP_OBSERVE_OFF || life->jail.observer.complete;

	return observed && !life->judged.network_success && life->jail.n_strays_total == 0 &&
	       !life->was_short;
}

static void judge_exit_code(struct life *life)
{
	struct bj_str message =
		bjp_summary_message(&life->judged, BJ_STR_LIT(BJ_JAIL_ROOT), life->arena);

	if (life->settings.on_violation == BJP_ON_VIOLATION_OFF)
		return;
	if (!life->message.len)
		life->message = message;
	if (life->settings.on_violation == BJP_ON_VIOLATION_FAIL && life->judged.has_unignored &&
	    life->result->exit_code == 0)
		life->result->exit_code = VIOLATION_EXIT_CODE;
}

/* The text is as long as the list of inputs, and nobody needs it afterwards. Empty without memory. */
static struct bj_str policy_digest(struct life *life)
{
	char hex[2 * BJ_HASH_MAX_BYTES + 1] = "";
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, POLICY_TEXT_MAX_BYTES);
	struct bj_str text = bjp_policy_text(life->policy, &arena);

	if (text.ptr) {
		struct bj_digest digest = bj_digest_of(life->request->action.fn, text);

		bj_digest_hex(&digest, hex);
	}
	return bj_arena_str(life->arena, bj_str_of(hex));
}

static int attach_report(struct life *life)
{
	struct bj_report_facts facts = {
		.profile = life->runner->opts.slot.profile,
		.settings = &life->settings,
		.result = &life->jail,
		.policy_digest = policy_digest(life),
		.fingerprint = bj_str_of(life->fingerprint),
		.request = life->request,
		.closed = life->closed,
		.n_inputs = life->tree.n_entries,
	};

	life->report = bj_report_new(&facts, &life->judged, life->arena);
	Google__Protobuf__Any **list = BJ_ARENA_ARRAY(life->arena, Google__Protobuf__Any *, 1);

	if (life->report && list)
		list[0] = bj_any_new(life->arena, "belljar.v1.SandboxReport",
				     bj_pb_pack(life->arena, &life->report->base));
	if (!life->report || !list || !list[0])
		return bj_err_set(&life->failure.err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the report");
	life->metadata->auxiliary_metadata = list;
	life->metadata->n_auxiliary_metadata = 1;
	return 0;
}

/* The readable log beside the result: Bazel fetches it when the action failed. */
static int store_log(struct life *life)
{
	if (!life->judged.n_records && !life->judged.n_hints)
		return 0;
	struct bj_str text = bj_report_text(life->report, life->arena);
	int r = bj_store_put(life->runner->opts.store, life->request->action.fn, text, NULL,
			     &life->log_digest, &life->failure.err);

	life->has_log = r == 0;
	return r;
}

static void tell_explain(struct life *life)
{
	char action[BJ_DIGEST_STR_BYTES];

	bj_digest_str(&life->request->action, action);
	const ProtobufCBinaryData *packed = &life->metadata->auxiliary_metadata[0]->value;
	struct bj_stored_report stored = {
		.packed = bj_str_n(packed->data, packed->len),
		.action = bj_str_of(action),
		.target = life->request->client.target,
		.mnemonic = life->request->client.mnemonic,
		.invocation = life->request->client.invocation,
		.exit_code = life->result->exit_code,
		.finished_ns = bj_realtime_ns(),
		.has_violations = life->judged.n_records > 0,
		.message = life->message,
	};
	bj_reports_add(life->runner->opts.reports, &stored);
}

/* Exit 0, OK, closed, and not refused by the client: then later builds may have it. A cache that cannot be written is no reason to fail. */
static void maybe_cache(struct life *life)
{
	struct bj_err err = BJ_ERR_NULL;

	if (life->jail.exit_code != 0 || life->jail.end != BJ_END_EXITED || !life->closed ||
	    life->action->do_not_cache)
		return;
	/* It will not be told to this client, and no later one could be told either. */
	if (protobuf_c_message_get_packed_size(&life->result->base) > RESPONSE_MAX_BYTES)
		return;
	if (cached_store(life, &err) < 0)
		bj_warn("action: result not cached error=\"%s\"", err.msg);
}

int life_report(struct life *life)
{
	int r = judge(life);

	if (r < 0)
		return r;
	life->closed = is_closed(life);
	r = append_summary(life);
	if (r == 0)
		r = store_stream(life, &life->out, &life->result->stdout_digest);
	if (r == 0)
		r = store_stream(life, &life->err, &life->result->stderr_digest);
	if (r == 0)
		r = attach_report(life);
	if (r == 0)
		r = store_log(life);
	if (r < 0)
		return r;
	life->result->execution_metadata = life->metadata;
	maybe_cache(
		life); /* before the exit code is judged: what is cached is what ran, and each hit is judged again */
	judge_exit_code(life);
	tell_explain(life);
	return 0;
}
