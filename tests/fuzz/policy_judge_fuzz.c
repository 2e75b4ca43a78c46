// SPDX-License-Identifier: Apache-2.0
/*
 * Input: lines, each a declaration or an attempt; a whole action from tree to summary. The first byte of a line says what
 * it is, the second (attempts) is the errno, the rest a path:
 *
 *	f PATH, d PATH, l PATH=TARGET   input file, directory, symlink
 *	o PATH, e NAME=VALUE            output, variable
 *	r s x w c u m                   attempt: read, stat, exec, write, create, unlink, chmod
 *	n ADDRESS, k PATH               connect, connect to a unix socket
 *	p PATH, q PATH                  undeclared output, missing output
 */
#include <errno.h>
#include <stdint.h>

#include "policy/policy.h"
#include "policy/record.h"

enum { MAX_THINGS = 64 };

struct script {
	struct bjp_node nodes[MAX_THINGS];
	struct bj_str outputs[MAX_THINGS], names[MAX_THINGS], values[MAX_THINGS];
	size_t n_nodes, n_outputs, n_env;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Half of the world exists, by the length of the path. */
static struct bjp_evidence evidence(void *ctx, struct bj_str path)
{
	(void)ctx;
	return (struct bjp_evidence){ .on_host = path.len % 2, .is_dir = path.len % 7 == 0 };
}

static void add_node(struct script *s, struct bj_str rest, enum bjp_node_kind kind)
{
	if (s->n_nodes == MAX_THINGS)
		return;
	struct bj_str path = kind == BJP_NODE_SYMLINK ? bj_str_cut(&rest, '=') : rest;
	s->nodes[s->n_nodes++] = (struct bjp_node){ path, kind, rest };
}

static void declare(struct script *s, char what, struct bj_str rest)
{
	struct bj_err err = BJ_ERR_NULL;
	if (what == 'f')
		add_node(s, rest, BJP_NODE_FILE);
	if (what == 'd')
		add_node(s, rest, BJP_NODE_DIR);
	if (what == 'l')
		add_node(s, rest, BJP_NODE_SYMLINK);
	if (what == 'o' && s->n_outputs < MAX_THINGS && bjp_output_path_check(rest, "o", &err) == 0)
		s->outputs[s->n_outputs++] = rest;
	if (what == 'e' && s->n_env < MAX_THINGS) {
		s->names[s->n_env] = bj_str_cut(&rest, '=');
		s->values[s->n_env++] = rest;
	}
}

static void attempt(struct bjp_collector *collector, struct bj_arena *arena, char what,
		    struct bj_str rest)
{
	static const char kinds[] = "rsxwcum";
	const char *kind = memchr(kinds, what, sizeof(kinds) - 1);
	int error = rest.len > 0 ? (int)(signed char)rest.ptr[0] : 0;
	rest = bj_str_sub(rest, 1, rest.len);
	struct bjp_attempt a = { .access = BJP_ACCESS_READ,
				 .operation = "open",
				 .written = rest,
				 .path = bjp_path_clean(arena, BJ_STR_LIT("/exec"), rest),
				 .error = error < 0 ? -1 : error,
				 .exe = rest,
				 .comm = rest };
	if (kind) {
		a.access = (enum bjp_access)(kind - kinds + 1);
		bjp_collect(collector, &a);
		bjp_collect_known(collector, a.path, (enum bjp_class)(rest.len % 7));
	}
	if (what == 'n' || what == 'k')
		bjp_collect_network(collector, &a, what == 'k', rest, (uint16_t)rest.len);
	if (what == 'p')
		bjp_collect_undeclared_output(collector, rest, rest.len);
	if (what == 'q')
		bjp_collect_missing_output(collector, rest);
}

static void check(const struct bjp_report *report, struct bj_arena *arena)
{
	bj_assert(report->n_records <= BJP_MAX_RECORDS);
	for (size_t i = 1; i < report->n_records; i++)
		bj_assert(report->records[i - 1].kind <= report->records[i].kind);
	struct bj_str lines = bjp_summary_lines(report, BJ_STR_LIT("/exec"), BJ_STR_LIT("//t:c"),
						BJ_STR_LIT("3f2a"), arena);
	struct bj_str message = bjp_summary_message(report, BJ_STR_LIT("/exec"), arena);
	size_t n_lines = 0;
	for (size_t i = 0; i < lines.len; i++)
		n_lines += lines.ptr[i] == '\n';
	bj_assert(n_lines <= 3 && n_lines <= report->n_records);
	bj_assert(bj_str_is_utf8(lines) && bj_str_is_utf8(message));
	bj_assert(bj_str_find(message, '\n', 0) == message.len);
}

static void run(const struct bjp_policy *policy, const struct bjp_settings *settings,
		struct bj_str script, struct bj_arena *arena)
{
	struct bjp_collector *collector;
	struct bjp_report report;
	struct bj_err err = BJ_ERR_NULL;
	if (bjp_collector_new(policy, settings, &collector, &err) < 0)
		return;
	while (script.len > 0) {
		struct bj_str line = bj_str_cut(&script, '\n');
		if (line.len > 0)
			attempt(collector, arena, line.ptr[0], bj_str_sub(line, 1, line.len));
	}
	struct bjp_outcome outcome = { .failed = settings->write == BJP_WRITE_STRICT };
	if (bjp_judge(collector, &outcome, evidence, NULL, arena, &report, &err) == 0)
		check(&report, arena);
	bjp_collector_free(collector);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct script s;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	static const struct bj_str root = { "/usr", 4 };
	s = (struct script){ .n_nodes = 0 };
	struct bj_str rest = bj_str_n(data, size);
	while (rest.len > 0) {
		struct bj_str line = bj_str_cut(&rest, '\n');
		if (line.len > 0)
			declare(&s, line.ptr[0], bj_str_sub(line, 1, line.len));
	}
	struct bjp_declared declared = { .exec_root = BJ_STR_LIT("/exec"),
					 .inputs = s.nodes,
					 .n_inputs = s.n_nodes,
					 .outputs = s.outputs,
					 .n_outputs = s.n_outputs,
					 .env_names = s.names,
					 .env_values = s.values,
					 .n_env = s.n_env,
					 .roots = &root,
					 .n_roots = 1 };
	struct bjp_settings settings = bjp_settings_default();
	settings.write = size % 2 ? BJP_WRITE_STRICT : BJP_WRITE_SCRATCH;
	struct bjp_policy *policy;
	struct bj_err err = BJ_ERR_NULL;
	bj_arena_init(&arena, 0);
	int r = bjp_derive(&declared, &settings, &arena, &policy, &err);
	bj_assert((r < 0) == bj_err_is_set(&err));
	if (r == 0) {
		bj_assert(bjp_policy_text(policy, &arena).len > 0);
		run(policy, &settings, bj_str_n(data, size), &arena);
	}
	return 0;
}
