// SPDX-License-Identifier: Apache-2.0
/*
 * What a person reads. Names come from the action, so they are cut and made printable; a command to copy is only
 * offered when every byte in it is plain, since it will be pasted into a shell.
 */
#include "policy/record-internal.h"

enum { MAX_LINES = 3, SHOWN_PATH = 160, SHOWN_TARGET = 120, SHOWN_NAME = 60, MAX_TEXT = 8192 };

struct summary {
	struct bj_buf text;
	struct bj_arena *arena;
	struct bj_str exec_root, target;
};

static void put(struct summary *s, const char *text)
{
	bj_buf_append_cstr(&s->text, text);
}

static void put_shown(struct summary *s, struct bj_str raw, size_t max_bytes)
{
	struct bj_str shown = bj_str_printable(s->arena, raw, max_bytes);
	if (raw.len > 0 && shown.len == 0)
		s->text.failed = true;
	bj_buf_append_str(&s->text, shown);
}

/* Below the input root: relative to it. */
static struct bj_str relative(const struct summary *s, struct bj_str path)
{
	if (!bjp_path_is_below(path, s->exec_root) || path.len == s->exec_root.len)
		return path;
	return bj_str_sub(path, s->exec_root.len + 1, path.len);
}

static void put_path(struct summary *s, struct bj_str path)
{
	put_shown(s, relative(s, path), SHOWN_PATH);
}

/* ---- what happened ---- */

static void put_lookup(struct summary *s, const struct bjp_record *r, const char *past,
		       const char *present)
{
	bool is_inside = r->zone == BJP_ZONE_INPUT_ROOT;
	put(s, is_inside ? past : present);
	put_path(s, r->path);
	put(s, is_inside ? ", not declared" : " of the host, which no action may see");
}

static void put_write(struct summary *s, const struct bjp_record *r, const char *what)
{
	put(s, r->enforced ? "tried to write " : "wrote ");
	put(s, what);
	put_path(s, r->path);
}

static void put_missing_output(struct summary *s, const struct bjp_record *r)
{
	put(s, "did not make its output ");
	put_path(s, r->path);
	if (r->wrong_kind)
		bj_buf_printf(&s->text, ": a %.*s was wanted, a %.*s was made",
			      BJ_STR_FMT(r->wanted), BJ_STR_FMT(r->found));
	else if (r->found.len > 0) {
		put(s, "; it made ");
		put_shown(s, r->found, SHOWN_PATH);
		put(s, " instead");
	}
}

static void put_network(struct summary *s, const struct bjp_record *r)
{
	bool is_v6 = bj_str_find(r->address, ':', 0) < r->address.len;
	if (r->port == BJP_DNS_PORT && (bj_str_has_prefix(r->address, BJ_STR_LIT("127.")) ||
					bj_str_eq(r->address, BJ_STR_LIT("::1")))) {
		put(s, "looked up a host name, but actions have no network");
		return;
	}
	put(s, r->enforced ? "tried to reach " : "reached ");
	put(s, is_v6 ? "[" : "");
	put_shown(s, r->address, SHOWN_NAME);
	bj_buf_printf(&s->text, "%s:%u", is_v6 ? "]" : "", (unsigned)r->port);
	put(s, ", which no action may");
}

static void put_resource(struct summary *s, const struct bjp_record *r)
{
	put(s, "ran out of ");
	put_shown(s, bj_str_of(r->operation), SHOWN_NAME);
	if (r->hint.len > 0) {
		put(s, ": ");
		put_shown(s, r->hint, SHOWN_PATH);
	}
}

static void put_phrase(struct summary *s, const struct bjp_record *r)
{
	switch (r->kind) {
	case BJP_READ_UNDECLARED:
		put_lookup(s, r, "read ", "reads ");
		break;
	case BJP_EXEC_UNDECLARED:
		put_lookup(s, r, "ran ", "runs ");
		break;
	case BJP_WRITE_UNDECLARED:
		put_write(s, r, "");
		put(s, ", which is no output");
		break;
	case BJP_WRITE_TO_INPUT:
		put_write(s, r, "its input ");
		break;
	case BJP_UNDECLARED_OUTPUT:
		put(s, "made ");
		put_path(s, r->path);
		put(s, ", not declared and thrown away");
		break;
	case BJP_MISSING_OUTPUT:
		put_missing_output(s, r);
		break;
	case BJP_NETWORK:
		put_network(s, r);
		break;
	case BJP_UNIX_SOCKET:
		put(s, r->enforced ? "tried to reach the host's socket "
				   : "reached the host's socket ");
		put_path(s, r->path);
		break;
	case BJP_SYSTEM_INFO:
		put(s, "asked about the machine");
		break;
	case BJP_SYSCALL:
		put(s, "called ");
		put_shown(s, bj_str_of(r->operation), SHOWN_NAME);
		put(s, ", which no action may");
		break;
	case BJP_STRAY_PROCESS:
		put(s, "left a process running: ");
		put_shown(s, r->argv0.len ? r->argv0 : r->comm, SHOWN_NAME);
		break;
	case BJP_RESOURCE:
		put_resource(s, r);
		break;
	case BJP_MISSING_CANDIDATE:
		put(s, "looked for ");
		put_path(s, r->path);
		put(s, " and found it nowhere");
		break;
	}
}

/* ---- what to do ---- */

/* "//pkg:name" or "@repo//pkg:name", with nothing in it that a shell would touch. */
struct label {
	struct bj_str repo, package, name;
};

static bool is_plain(struct bj_str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.ptr[i];
		bool is_alnum =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
		if (!is_alnum && (c == '\0' || !strchr("_./+=,@~-", c)))
			return false;
	}
	return s.len > 0;
}

static bool parse_label(struct bj_str text, struct label *out)
{
	size_t slashes = 0;
	while (slashes + 1 < text.len &&
	       !(text.ptr[slashes] == '/' && text.ptr[slashes + 1] == '/'))
		slashes++;
	if (slashes + 1 >= text.len || text.len > SHOWN_TARGET)
		return false;
	out->repo = bj_str_sub(text, 0, slashes);
	while (bjp_str_cut_prefix(&out->repo, BJ_STR_LIT("@")))
		;
	struct bj_str rest = bj_str_sub(text, slashes + 2, text.len);
	bool has_colon = bj_str_find(rest, ':', 0) < rest.len;
	out->package = bj_str_cut(&rest, ':');
	out->name = has_colon ? rest : bjp_basename(out->package);
	return is_plain(out->name) && (out->package.len == 0 || is_plain(out->package)) &&
	       (out->repo.len == 0 || is_plain(out->repo));
}

/* Generated files stand below bazel-out/CONFIG/bin/, but their labels do not say so. */
static struct bj_str without_bazel_out(struct bj_str path)
{
	struct bj_str rest = path;
	if (!bjp_str_cut_prefix(&rest, BJ_STR_LIT("bazel-out/")))
		return path;
	(void)bj_str_cut(&rest, '/'); /* the configuration */
	if (bjp_str_cut_prefix(&rest, BJ_STR_LIT("bin/")) ||
	    bjp_str_cut_prefix(&rest, BJ_STR_LIT("genfiles/")))
		return rest;
	return path;
}

static struct label label_of_file(struct bj_str path)
{
	struct label file = { 0 };
	if (bjp_str_cut_prefix(&path, BJ_STR_LIT("external/")))
		file.repo = bj_str_cut(&path, '/');
	file.package = bjp_dirname(path);
	file.name = bjp_basename(path);
	return file;
}

/* The file as the target would name it; how packages are cut is known for the target's own only. */
static void put_file_label(struct summary *s, const struct label *target, struct bj_str path)
{
	struct label file = label_of_file(path);
	if (bj_str_eq(file.repo, target->repo)) {
		if (file.repo.len > 0)
			path = bj_str_sub(path, strlen("external/") + file.repo.len + 1, path.len);
		if (bjp_path_is_below(path, target->package)) {
			size_t skip = target->package.len ? target->package.len + 1 : 0;
			bj_buf_append_str(&s->text, bj_str_sub(path, skip, path.len));
			return;
		}
	} else if (file.repo.len > 0) {
		bj_buf_printf(&s->text, "@%.*s", BJ_STR_FMT(file.repo));
	}
	bj_buf_printf(&s->text, "//%.*s:%.*s", BJ_STR_FMT(file.package), BJ_STR_FMT(file.name));
}

static const char *attribute_for(const struct label *target, struct bj_str path)
{
	if (bjp_is_header(path))
		return "hdrs";
	bool is_test = bj_str_has_suffix(target->name, BJ_STR_LIT("test"));
	return is_test && !bjp_is_source(path) ? "data" : "srcs";
}

static void put_input_fix(struct summary *s, const struct bjp_record *r)
{
	struct label target;
	struct bj_str path = without_bazel_out(relative(s, r->path));
	if (!parse_label(s->target, &target) || !is_plain(path) || path.len > SHOWN_PATH) {
		put(s, ". Fix: declare it as an input");
		return;
	}
	bj_buf_printf(&s->text, ". Fix: buildozer 'add %s ", attribute_for(&target, path));
	put_file_label(s, &target, path);
	bj_buf_printf(&s->text, "' %.*s", BJ_STR_FMT(s->target));
}

static void put_fix(struct summary *s, const struct bjp_record *r)
{
	bool is_lookup = r->kind == BJP_READ_UNDECLARED || r->kind == BJP_EXEC_UNDECLARED;
	if (is_lookup && r->zone == BJP_ZONE_INPUT_ROOT)
		put_input_fix(s, r);
	else if (r->kind == BJP_MISSING_CANDIDATE)
		put(s, ". Fix: if it was needed, declare it as an input");
	else if (r->kind == BJP_UNDECLARED_OUTPUT)
		put(s, ". Fix: declare it as an output, or write it below $TMPDIR");
}

/* ---- lines ---- */

static void put_line(struct summary *s, const struct bjp_record *r)
{
	put(s, "belljar: ");
	if (s->target.len > 0) {
		put_shown(s, s->target, SHOWN_TARGET);
		put(s, " ");
	}
	put_phrase(s, r);
	put_fix(s, r);
}

static struct bj_str finish(struct summary *s)
{
	struct bj_str text =
		s->text.failed ? BJ_STR_NULL : bj_arena_str(s->arena, bj_buf_str(&s->text));
	bj_buf_deinit(&s->text);
	return text;
}

/* A command that failed made no outputs: that is no news, unless it made something in their place. */
static bool is_news(const struct bjp_record *r)
{
	return r->kind != BJP_MISSING_OUTPUT || r->found.len > 0;
}

static size_t count_news(const struct bjp_report *report)
{
	size_t n = 0;
	for (size_t i = 0; i < report->n_records; i++)
		n += is_news(&report->records[i]);
	return n;
}

/* The first record at or behind @from that is worth a line; there is one. */
static size_t next_news(const struct bjp_report *report, size_t from)
{
	while (!is_news(&report->records[from]))
		from++;
	return from;
}

struct bj_str bjp_summary_lines(const struct bjp_report *report, struct bj_str exec_root,
				struct bj_str target, struct bj_str action_short,
				struct bj_arena *arena)
{
	struct summary s = { BJ_BUF_INIT(MAX_TEXT), arena, exec_root, target };
	size_t n_news = count_news(report);
	size_t n = n_news <= MAX_LINES ? n_news : MAX_LINES - 1;
	if (n == 0)
		return BJ_STR_NULL;
	for (size_t i = 0, at = 0; i < n; i++, at++) {
		at = next_news(report, at);
		put(&s, i ? "\n" : "");
		put_line(&s, &report->records[at]);
	}
	if (n < n_news)
		bj_buf_printf(&s.text, "\nbelljar: … and %zu more", n_news - n);
	if (action_short.len > 0) {
		put(&s, " (more: belljar explain ");
		put_shown(&s, action_short, SHOWN_NAME);
		put(&s, ")");
	}
	put(&s, "\n");
	return finish(&s);
}

struct bj_str bjp_summary_message(const struct bjp_report *report, struct bj_str exec_root,
				  struct bj_arena *arena)
{
	struct summary s = { BJ_BUF_INIT(MAX_TEXT), arena, exec_root, BJ_STR_NULL };
	size_t n_news = count_news(report);
	if (n_news == 0 && report->n_hints == 0)
		return BJ_STR_NULL;
	put(&s, "belljar: ");
	if (n_news > 0)
		put_phrase(&s, &report->records[next_news(report, 0)]);
	else
		put_shown(&s, report->hints[0], SHOWN_PATH * 2);
	if (n_news > 1)
		bj_buf_printf(&s.text, " (and %zu more)", n_news - 1);
	return finish(&s);
}
