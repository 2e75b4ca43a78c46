// SPDX-License-Identifier: Apache-2.0
/*
 * Asks a running server for its last reports and prints them.
 *
 * The order is made for a terminal: what matters most, the newest, stands last, right above the prompt.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/cli/cli-internal.h"
#include "executor/cli/explain-internal.h"
#include "executor/rpc/rpc.h"

enum { EXIT_SHOWN = 3, TIMEOUT_MS = 15000, MAX_REPLY_BYTES = 64 << 20 };

#define DEFAULT_SERVER "127.0.0.1:8980"

struct explain_flags {
	const char *server, *target, *mnemonic, *invocation;
	bool last_build, all, json;
};

#define AT(member) offsetof(struct explain_flags, member)

static const struct bj_flag flags_table[] = {
	{ "server", BJ_FLAG_TEXT, AT(server), 0, 0, "ADDR",
	  "HOST:PORT, grpc://HOST:PORT or unix:PATH [" DEFAULT_SERVER "]" },
	{ "target", BJ_FLAG_TEXT, AT(target), 0, 0, "LABEL",
	  "only actions of this target, as Bazel names it" },
	{ "mnemonic", BJ_FLAG_TEXT, AT(mnemonic), 0, 0, "M",
	  "only actions of this kind, such as CppCompile" },
	{ "invocation", BJ_FLAG_TEXT, AT(invocation), 0, 0, "ID",
	  "only actions of this build, by Bazel's invocation id" },
	{ "last-build", BJ_FLAG_SWITCH, AT(last_build), 0, 0, NULL,
	  "only actions of the build that was seen last" },
	{ "all", BJ_FLAG_SWITCH, AT(all), 0, 0, NULL,
	  "also actions that kept to what they declare, and each of several runs" },
	{ "json", BJ_FLAG_SWITCH, AT(json), 0, 0, NULL, "an array of records instead of text" },
};

/* ---- order ---- */

static bool same_str(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static bool same_action(const Belljar__V1__StoredReport *a, const Belljar__V1__StoredReport *b)
{
	return same_str(a->report->action_digest, b->report->action_digest) &&
	       same_str(a->report->target, b->report->target);
}

struct entry {
	const Belljar__V1__StoredReport *stored;
	size_t age;	   /* 0: the newest */
	size_t target_age; /* of the newest report of the same target */
};

/* By target, then newest first within it; @entries are in order of age before. */
static int by_target_and_age(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = strcmp(x->stored->report->target, y->stored->report->target);
	return c ? c : (x->age > y->age) - (x->age < y->age);
}

/* The order that is shown: oldest target first, oldest action first. Ages are unique, so the order is total. */
static int for_reading(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->target_age != y->target_age)
		return x->target_age < y->target_age ? 1 : -1;
	return (x->age < y->age) - (x->age > y->age);
}

/* Within one target a newer report of the same action comes first, but not always right before: actions of a target are few. */
static bool is_repeated(const struct entry *entries, size_t i, size_t first)
{
	for (size_t j = first; j < i; j++)
		if (same_action(entries[j].stored, entries[i].stored))
			return true;
	return false;
}

static size_t arrange(struct entry *entries, size_t n, bool keep_all)
{
	size_t kept = 0, first = 0;

	qsort(entries, n, sizeof(*entries), by_target_and_age);
	for (size_t i = 0; i < n; i++) {
		bool is_new_target =
			kept == 0 || !same_str(entries[i].stored->report->target,
					       entries[kept - 1].stored->report->target);
		if (is_new_target)
			first = kept;
		struct entry entry = entries[i];
		entry.target_age = is_new_target ? entry.age : entries[first].age;
		entries[kept] = entry;
		if (keep_all || !is_repeated(entries, kept, first))
			kept++;
	}
	qsort(entries, kept, sizeof(*entries), for_reading);
	return kept;
}

bool bj_explain_order(const Belljar__V1__ListReportsResponse *reply, bool keep_all,
		      struct bj_arena *arena, struct bj_explained *out_explained)
{
	struct entry *entries = BJ_ARENA_ARRAY(arena, struct entry, reply->n_reports);
	const Belljar__V1__StoredReport **reports =
		BJ_ARENA_ARRAY(arena, const Belljar__V1__StoredReport *, reply->n_reports);
	size_t n = 0;

	if (!entries || !reports)
		return false;
	for (size_t i = 0; i < reply->n_reports; i++)
		if (reply->reports[i]->report)
			entries[n++] = (struct entry){ .stored = reply->reports[i], .age = i };
	n = arrange(entries, n, keep_all);
	*out_explained = (struct bj_explained){ .reports = reports, .n = n };
	for (size_t i = 0; i < n; i++) {
		reports[i] = entries[i].stored;
		out_explained->n_violations += reports[i]->report->n_violations;
	}
	return true;
}

/* ---- asking ---- */

static int ask_over(struct bj_rpc_loop *loop, const char *server,
		    const Belljar__V1__ListReportsRequest *request, struct bj_arena *arena,
		    Belljar__V1__ListReportsResponse **out_reply, struct bj_err *err)
{
	struct bj_rpc_channel *channel = NULL;
	ProtobufCMessage *reply;
	int r = bj_rpc_channel_new(server, MAX_REPLY_BYTES, &channel, err);

	if (r == 0)
		r = bj_rpc_unary(channel, loop, "/belljar.v1.Explain/ListReports", &request->base,
				 &belljar__v1__list_reports_response__descriptor, TIMEOUT_MS, arena,
				 &reply, err);
	bj_rpc_channel_free(channel);
	if (r == 0)
		*out_reply = (Belljar__V1__ListReportsResponse *)reply;
	return r;
}

static int ask(const char *server, const Belljar__V1__ListReportsRequest *request,
	       struct bj_arena *arena, Belljar__V1__ListReportsResponse **out_reply,
	       struct bj_err *err)
{
	struct bj_rpc_loop *loop = NULL;

	bj_rpc_init();
	int r = bj_rpc_loop_new(&loop, err);
	if (r == 0)
		r = bj_rpc_loop_start(loop, err);
	if (r == 0)
		r = ask_over(loop, server, request, arena, out_reply, err);
	bj_rpc_loop_stop(loop);
	bj_rpc_deinit();
	if (r < 0)
		(void)bj_err_wrap(err, "ask the server at %s (--server=ADDR for another)", server);
	return r;
}

/* ---- the command ---- */

static char *text_of(const char *flag)
{
	return (char *)(uintptr_t)(flag ? flag : ""); /* protobuf-c's strings are not const */
}

static Belljar__V1__ListReportsRequest make_request(const struct explain_flags *flags,
						    const char *action)
{
	Belljar__V1__ListReportsRequest request = BELLJAR__V1__LIST_REPORTS_REQUEST__INIT;

	request.target = text_of(flags->target);
	request.mnemonic = text_of(flags->mnemonic);
	request.invocation = text_of(flags->invocation);
	request.action_digest_prefix = text_of(action);
	request.last_build = flags->last_build;
	/* Who names an action wants to hear that it is fine, too. */
	request.only_violations = !flags->all && !action;
	return request;
}

static bool want_colour(void)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static int print(const struct bj_command *command, const struct bj_buf *text)
{
	if (fwrite(text->data, 1, text->len, stdout) == text->len && fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "belljar %s: standard output: %m\n", command->name);
	return -1;
}

static int show(const struct bj_command *command, const struct explain_flags *flags,
		const struct bj_explained *explained, struct bj_arena *arena)
{
	struct bj_buf text = BJ_BUF_INIT(BJ_EXPLAIN_TEXT_MAX_BYTES);
	bool ok = flags->json ? bj_explain_json(explained, arena, &text)
			      : bj_explain_text(explained, want_colour(), arena, &text);

	if (!ok)
		fprintf(stderr, "belljar %s: the reports are larger than %d MiB of text\n",
			command->name, (int)(BJ_EXPLAIN_TEXT_MAX_BYTES >> 20));
	bool shown = ok && print(command, &text) == 0;
	bj_buf_deinit(&text);
	if (!shown)
		return BJ_EXIT_FAILED;
	return explained->n_violations ? EXIT_SHOWN : BJ_EXIT_OK;
}

static const char *strip_scheme(const char *server)
{
	static const char scheme[] = "grpc://"; /* what Bazel wants to be told */
	return strncmp(server, scheme, strlen(scheme)) == 0 ? server + strlen(scheme) : server;
}

static int explain(const struct bj_command *command, const struct explain_flags *flags,
		   const char *action, struct bj_arena *arena, struct bj_err *err)
{
	const Belljar__V1__ListReportsRequest request = make_request(flags, action);
	const char *server = strip_scheme(flags->server ? flags->server : DEFAULT_SERVER);
	Belljar__V1__ListReportsResponse *reply = NULL;
	struct bj_explained explained;

	if (ask(server, &request, arena, &reply, err) < 0)
		return bj_cli_fail(command, err, BJ_EXIT_FAILED);
	bj_assert(reply != NULL); /* success gives one */
	if (!bj_explain_order(reply, flags->all, arena, &explained)) {
		(void)bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the reports");
		return bj_cli_fail(command, err, BJ_EXIT_FAILED);
	}
	return show(command, flags, &explained, arena);
}

static int run(const struct bj_command *command, int argc, char **argv)
{
	struct explain_flags flags = { 0 };
	struct bj_flag_list operands = { 0 };
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	if (bj_flags_parse(command, argc, argv, &arena, &flags, &operands, &err) < 0)
		return bj_cli_fail(command, &err, BJ_EXIT_USAGE);
	return explain(command, &flags, operands.n ? operands.items[0] : NULL, &arena, &err);
}

const struct bj_command bj_explain_command = {
	.name = "explain",
	.summary = "show what the last actions touched beyond what they declared",
	.operands = "[ACTION_PREFIX]",
	.max_operands = 1,
	.details =
		"ACTION_PREFIX: the first digits of an action's digest, as belljar's line on "
		"stderr has it.\n"
		"Without --all and ACTION_PREFIX only actions with records are shown, each once.\n"
		"Exit status: 0 nothing to show, 3 records shown, 1 the server could not be asked, "
		"2 wrong arguments.\n",
	.flags = flags_table,
	.n_flags = BJ_ARRAY_LEN(flags_table),
	.run = run,
};
