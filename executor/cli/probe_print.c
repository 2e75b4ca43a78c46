// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "executor/base/json.h"
#include "executor/cli/cli-internal.h"
#include "executor/cli/probe-internal.h"

/* ---- text ---- */

static const char *yes_no(const struct bj_probe_profile *p, bool value)
{
	return !p->was_tried ? "-" : value ? "yes" : "no";
}

static const char *step_of(const struct bj_probe_profile *p)
{
	if (!p->was_tried)
		return p->text;
	if (p->has_observer)
		return "";
	return p->failure.step[0] ? p->failure.step : "see below";
}

static void print_profiles(const struct bj_probe *probe, FILE *out)
{
	fprintf(out, "%-12s %-6s %-9s %s\n", "PROFILE", "WALLS", "OBSERVER", "FAILED AT");
	for (size_t i = 0; i < BJ_PROBE_PROFILES; i++) {
		const struct bj_probe_profile *p = &probe->profiles[i];
		const char *step = step_of(p);
		fprintf(out, "%-12s %-6s %-*s%s%s\n", p->name, yes_no(p, p->has_walls),
			*step ? 9 : 0, yes_no(p, p->has_observer), *step ? " " : "", step);
	}
	for (size_t i = 0; i < BJ_PROBE_PROFILES; i++) {
		const struct bj_probe_profile *p = &probe->profiles[i];
		if (!p->was_tried || p->has_observer)
			continue;
		fprintf(out, "\n%s:\n", p->name);
		if (p->failure.step[0])
			bj_cli_print_failure(out, &p->failure);
		else
			fprintf(out, "  %s\n", p->text);
	}
}

static void put(FILE *out, struct bj_arena *arena, struct bj_str text)
{
	struct bj_str shown = bj_str_printable(arena, text, 4096);
	fprintf(out, "%.*s", BJ_STR_FMT(shown));
}

static void print_roots(const struct bj_probe *probe, FILE *out)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, 0);
	fputs("\nTOOLCHAIN ROOTS (read-only inside, at the same path)\n", out);
	for (size_t i = 0; i < probe->roots.n_roots; i++) {
		const struct bj_jail_root *root = &probe->roots.roots[i];
		fputs("  ", out);
		put(out, &arena, root->path);
		if (root->is_link) {
			fputs(" -> ", out);
			put(out, &arena, root->target);
		} else if (!root->is_file) {
			fputs("/", out);
		}
		fputs("\n", out);
	}
	if (probe->n_leaving == 0)
		return;
	fprintf(out,
		"\nLINKS THAT LEAVE THEM (%zu; no action sees what they lead to: see extraRoots)\n",
		probe->n_leaving);
	for (size_t i = 0; i < BJ_MIN(probe->n_leaving, (size_t)BJ_PROBE_MAX_LEAVING); i++) {
		fputs("  ", out);
		put(out, &arena, probe->leaving[i].path);
		fputs(" -> ", out);
		put(out, &arena, probe->leaving[i].leads_to);
		fputs("\n", out);
	}
	if (probe->n_leaving > BJ_PROBE_MAX_LEAVING)
		fprintf(out, "  ... and %zu more\n", probe->n_leaving - BJ_PROBE_MAX_LEAVING);
}

void bj_probe_print_text(const struct bj_probe *probe, FILE *out)
{
	print_profiles(probe, out);
	print_roots(probe, out);
}

/* ---- JSON ---- */

static void json_profile(struct bj_json *json, const struct bj_probe_profile *p)
{
	const struct bj_jail_failure *f = &p->failure;
	const char *name = f->sys_errno ? strerrorname_np(f->sys_errno) : "";

	bj_json_object_begin(json);
	bj_json_field_cstr(json, "profile", p->name);
	bj_json_field_bool(json, "tried", p->was_tried);
	bj_json_field_bool(json, "walls", p->has_walls);
	bj_json_field_bool(json, "observer", p->has_observer);
	bj_json_field_cstr(json, "step", f->step);
	bj_json_field_cstr(json, "syscall", f->syscall);
	bj_json_field_cstr(json, "errno", name ? name : "");
	bj_json_field_cstr(json, "path", f->path);
	bj_json_field_cstr(json, "hint", f->hint);
	bj_json_field_cstr(json, "text", p->text);
	bj_json_object_end(json);
}

static void json_root(struct bj_json *json, const struct bj_jail_root *root)
{
	bj_json_object_begin(json);
	bj_json_field_str(json, "path", root->path);
	bj_json_field_cstr(json, "kind",
			   root->is_link   ? "symlink"
			   : root->is_file ? "file"
					   : "directory");
	if (root->is_link)
		bj_json_field_str(json, "target", root->target);
	bj_json_object_end(json);
}

static void json_leaving(struct bj_json *json, const struct bj_probe *probe)
{
	bj_json_field_u64(json, "n_leaving", probe->n_leaving);
	bj_json_key(json, "leaving");
	bj_json_array_begin(json);
	for (size_t i = 0; i < BJ_MIN(probe->n_leaving, (size_t)BJ_PROBE_MAX_LEAVING); i++) {
		bj_json_object_begin(json);
		bj_json_field_str(json, "path", probe->leaving[i].path);
		bj_json_field_str(json, "leads_to", probe->leaving[i].leads_to);
		bj_json_object_end(json);
	}
	bj_json_array_end(json);
}

bool bj_probe_print_json(const struct bj_probe *probe, struct bj_buf *out)
{
	struct bj_json json;

	bj_json_init(&json, out, 2);
	bj_json_object_begin(&json);
	bj_json_field_bool(&json, "works", bj_probe_works(probe));
	bj_json_key(&json, "profiles");
	bj_json_array_begin(&json);
	for (size_t i = 0; i < BJ_PROBE_PROFILES; i++)
		json_profile(&json, &probe->profiles[i]);
	bj_json_array_end(&json);
	bj_json_key(&json, "roots");
	bj_json_array_begin(&json);
	for (size_t i = 0; i < probe->roots.n_roots; i++)
		json_root(&json, &probe->roots.roots[i]);
	bj_json_array_end(&json);
	json_leaving(&json, probe);
	bj_json_object_end(&json);
	return bj_json_finish(&json);
}
