// SPDX-License-Identifier: Apache-2.0
/*
 * One line a fact, in the order: format, places, settings, reads, writes; inputs as a tree is listed, the rest by bytes. Paths are quoted so that two different
 * policies never have the same text: the digest of a policy is the digest of this.
 */
#include "policy/policy-internal.h"

#include <stdlib.h>

enum { MAX_TEXT_BYTES = 1 << 30 };

/* Nearly every path: shown as it is, without a copy. */
static bool is_plain(struct bj_str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] < ' ' || s.ptr[i] > '~' || s.ptr[i] == '"' || s.ptr[i] == '\\')
			return false;
	}
	return true;
}

static void put_quoted(struct bj_buf *buf, struct bj_arena *arena, struct bj_str s)
{
	struct bj_str shown = is_plain(s) ? s : bj_str_printable(arena, s, SIZE_MAX);
	if (s.len > 0 && shown.len == 0)
		buf->failed = true;
	bj_buf_append_char(buf, '"');
	while (shown.len > 0) { /* printable text has doubled its backslashes already */
		size_t quote = bj_str_find(shown, '"', 0);
		bj_buf_append_str(buf, bj_str_sub(shown, 0, quote));
		if (quote < shown.len)
			bj_buf_append_cstr(buf, "\\\"");
		shown = bj_str_sub(shown, quote + 1, shown.len);
	}
	bj_buf_append_char(buf, '"');
}

static void put_line(struct bj_buf *buf, struct bj_arena *arena, const char *what, struct bj_str s)
{
	bj_buf_append_cstr(buf, what);
	bj_buf_append_char(buf, ' ');
	put_quoted(buf, arena, s);
	bj_buf_append_char(buf, '\n');
}

static void put_list(struct bj_buf *buf, struct bj_arena *arena, const char *what,
		     const struct bj_str *list, size_t n)
{
	struct bj_str *sorted = bj_arena_memdup(arena, list, bj_size_mul(n, sizeof(*list)));
	if (!sorted) {
		buf->failed = true;
		return;
	}
	n = bjp_sort_unique(sorted, n);
	for (size_t i = 0; i < n; i++)
		put_line(buf, arena, what, sorted[i]);
}

static void put_settings(struct bj_buf *buf, struct bj_arena *arena, const struct bjp_settings *s)
{
	bj_buf_printf(buf, "write %s\n", bjp_write_mode_name(s->write));
	bj_buf_printf(buf, "observe %s\n", bjp_observe_name(s->observe));
	bj_buf_printf(buf, "on-violation %s\n", bjp_on_violation_name(s->on_violation));
	put_list(buf, arena, "ignore.read", s->ignore_read, s->n_ignore_read);
	put_list(buf, arena, "ignore.write", s->ignore_write, s->n_ignore_write);
	put_list(buf, arena, "ignore.network", s->ignore_network, s->n_ignore_network);
}

/* As a tree is listed: by bytes, but '/' below all others, so that what a directory holds follows it at once. */
static int path_order(struct bj_str a, struct bj_str b)
{
	size_t n = BJ_MIN(a.len, b.len), i = 0;
	while (i < n && a.ptr[i] == b.ptr[i])
		i++;
	if (i == n)
		return (a.len > b.len) - (a.len < b.len);
	if (a.ptr[i] == '/' || b.ptr[i] == '/')
		return a.ptr[i] == '/' ? -1 : 1;
	return (unsigned char)a.ptr[i] < (unsigned char)b.ptr[i] ? -1 : 1;
}

static int by_path(const void *a, const void *b)
{
	const struct bjp_entry *const *x = a, *const *y = b;
	return path_order((*x)->path, (*y)->path);
}

/* cas/tree.h hands trees over in this order. */
static bool is_sorted(const struct bjp_entry *const *entries, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (path_order(entries[i - 1]->path, entries[i]->path) > 0)
			return false;
	}
	return true;
}

static void put_inputs(struct bj_buf *buf, struct bj_arena *arena, const struct bjp_index *index)
{
	static const char *const what[] = { "read dir ", "read file ", "read symlink " };
	const struct bjp_entry **sorted =
		BJ_ARENA_ARRAY(arena, const struct bjp_entry *, index->n_entries);
	if (!sorted) {
		buf->failed = true;
		return;
	}
	size_t n = 0;
	for (size_t i = 0; i < index->n_entries; i++) {
		if (index->entries[i].flags & BJP_F_INPUT)
			sorted[n++] = &index->entries[i];
	}
	if (!is_sorted(sorted, n))
		qsort(sorted, n, sizeof(sorted[0]), by_path);
	for (size_t i = 0; i < n; i++) {
		bj_buf_append_cstr(buf, what[sorted[i]->kind]);
		put_quoted(buf, arena, sorted[i]->path);
		if (sorted[i]->kind == BJP_NODE_SYMLINK) {
			bj_buf_append_cstr(buf, " -> ");
			put_quoted(buf, arena, sorted[i]->target);
		}
		bj_buf_append_char(buf, '\n');
	}
}

static void put_outputs(struct bj_buf *buf, struct bj_arena *arena, const struct bjp_policy *p)
{
	put_list(buf, arena, "write output", p->outputs, p->n_outputs);
	for (size_t i = 0; i < p->n_outputs; i++) {
		if (p->outputs[i].len > 0 && bjp_dirname(p->outputs[i]).len == 0) {
			put_line(buf, arena, "write dir", bj_str_n("", 0));
			break;
		}
	}
	put_list(buf, arena, "write dir", p->output_parents, p->n_output_parents);
	put_list(buf, arena, "write scratch", p->scratch, p->n_scratch);
	bj_buf_append_cstr(buf, "write scratch \"/dev/shm\"\nwrite scratch \"/tmp\"\n");
}

struct bj_str bjp_policy_text(const struct bjp_policy *policy, struct bj_arena *arena)
{
	bj_cleanup(bj_buf_deinit) struct bj_buf buf = BJ_BUF_INIT(MAX_TEXT_BYTES);
	bj_cleanup(bj_arena_cleanup) struct bj_arena scratch;
	bj_arena_init(&scratch, 0);

	bj_buf_append_cstr(&buf, "belljar policy 1\n");
	put_line(&buf, &scratch, "exec-root", policy->exec_root);
	put_line(&buf, &scratch, "working-dir", policy->working_dir);
	put_settings(&buf, &scratch, &policy->settings);
	put_inputs(&buf, &scratch, &policy->index);
	for (size_t i = 0; i < policy->n_tops; i++) {
		const struct bjp_top *top = &policy->tops[i];
		if (!top->exact)
			put_line(&buf, &scratch,
				 top->zone == BJP_ZONE_TOOLCHAIN ? "read root" : "read system",
				 top->path);
	}
	put_outputs(&buf, &scratch, policy);
	return buf.failed ? BJ_STR_NULL : bj_arena_str(arena, bj_buf_str(&buf));
}
