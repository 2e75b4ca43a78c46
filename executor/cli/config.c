// SPDX-License-Identifier: Apache-2.0
/*
 * A file against a table of keys, over libyaml's events.
 *
 * Events, not libyaml's documents: a document expands aliases and takes any shape, and both would have to be checked afterwards. Here
 * what the table does not expect is an error at the event where it appears, so the depth of the recursion is that of the table.
 *
 * Every read_…() finds the first event of its node in reader.event and leaves the node's last one there.
 */
#include "executor/cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "executor/base/buf.h"
#include "executor/base/fd.h"

enum { MAX_KEYS = 32, SHOWN_BYTES = 100, KNOWN_BYTES = 600 };

enum key_kind {
	KEY_TEXT,   /* struct bj_str, not empty */
	KEY_LIST,   /* struct bj_config_list; one text stands for a list of one */
	KEY_NUMBER, /* uint64_t from min to max */
	KEY_BOOL,   /* bool */
	KEY_CHOICE, /* an enum of policy.h */
	KEY_IGNORE, /* patterns for settings, checked by the policy as if an action had asked */
	KEY_MAP,    /* further keys */
};

enum { GIVEN_TELL_HOST = 1, GIVEN_OBSERVE = 2, GIVEN_ON_VIOLATION = 4 };

struct key {
	const char *name, *path; /* "read", "sandbox.ignore.read" */
	enum key_kind kind;
	size_t offset;	/* in struct bj_config */
	uint32_t given; /* a bit for the reader, where it matters whether the file says it */
	uint64_t min, max;
	bool (*choose)(struct bj_str name, void *out);
	const char *choices;
	const struct key *keys;
	size_t n_keys;
	const char *help; /* one line with the default in brackets */
};

struct reader {
	yaml_parser_t parser;
	yaml_event_t event; /* the current one; type YAML_NO_EVENT before the first */
	struct bj_str text;
	const char *name;
	struct bj_arena *arena;
	struct bj_config config;
	uint32_t given;
	struct bj_err *err;
};

/* ---- the table ---- */

#define AT(member) offsetof(struct bj_config, member)
#define TOP(key_name, key_kind, ...)                                                               \
	{                                                                                          \
		.name = (key_name), .path = (key_name), .kind = (key_kind), __VA_ARGS__            \
	}

static bool choose_write(struct bj_str name, void *out)
{
	return bjp_write_mode_parse(name, out);
}

static bool choose_observe(struct bj_str name, void *out)
{
	return bjp_observe_parse(name, out);
}

static bool choose_on_violation(struct bj_str name, void *out)
{
	return bjp_on_violation_parse(name, out);
}

static const char write_modes[] = "scratch, strict";
static const char observe_levels[] = "off, writes, default, strict";
static const char on_violation_modes[] = "report, fail, off";

static const struct key ignore_keys[] = {
	{ .name = "read",
	  .path = "sandbox.ignore.read",
	  .kind = KEY_IGNORE,
	  .help = "paths inside whose undeclared reads are not reported: globs" },
	{ .name = "write",
	  .path = "sandbox.ignore.write",
	  .kind = KEY_IGNORE,
	  .help = "the same for writes and undeclared outputs" },
	{ .name = "network",
	  .path = "sandbox.ignore.network",
	  .kind = KEY_IGNORE,
	  .help = "ADDRESS, ADDRESS:PORT, [ADDRESS]:PORT, *:PORT or *" },
};

static const struct key bounds_keys[] = {
	{ .name = "minObserve",
	  .path = "sandbox.bounds.minObserve",
	  .kind = KEY_CHOICE,
	  .offset = AT(bounds.min_observe),
	  .choose = choose_observe,
	  .choices = observe_levels,
	  .help = "an action may not ask to be observed less [off]" },
	{ .name = "mayIgnore",
	  .path = "sandbox.bounds.mayIgnore",
	  .kind = KEY_BOOL,
	  .offset = AT(bounds.may_ignore),
	  .help = "actions may extend the ignore lists [true]" },
	{ .name = "minOnViolation",
	  .path = "sandbox.bounds.minOnViolation",
	  .kind = KEY_CHOICE,
	  .offset = AT(bounds.min_on_violation),
	  .choose = choose_on_violation,
	  .choices = on_violation_modes,
	  .help = "fail: an action cannot relax it to report [off]" },
};

static const struct key sandbox_keys[] = {
	{ .name = "write",
	  .path = "sandbox.write",
	  .kind = KEY_CHOICE,
	  .offset = AT(settings.write),
	  .choose = choose_write,
	  .choices = write_modes,
	  .help = "inside the input root: a private layer, or EROFS outside outputs [scratch]" },
	{ .name = "observe",
	  .path = "sandbox.observe",
	  .kind = KEY_CHOICE,
	  .given = GIVEN_OBSERVE,
	  .offset = AT(settings.observe),
	  .choose = choose_observe,
	  .choices = observe_levels,
	  .help = "how much of what an action attempts is looked at [default]" },
	{ .name = "onViolation",
	  .path = "sandbox.onViolation",
	  .kind = KEY_CHOICE,
	  .given = GIVEN_ON_VIOLATION,
	  .offset = AT(settings.on_violation),
	  .choose = choose_on_violation,
	  .choices = on_violation_modes,
	  .help = "fail: an action with a record that counts ends with 121 [report]" },
	{ .name = "ignore",
	  .path = "sandbox.ignore",
	  .kind = KEY_MAP,
	  .keys = ignore_keys,
	  .n_keys = BJ_ARRAY_LEN(ignore_keys) },
	{ .name = "bounds",
	  .path = "sandbox.bounds",
	  .kind = KEY_MAP,
	  .keys = bounds_keys,
	  .n_keys = BJ_ARRAY_LEN(bounds_keys) },
};

static const uint64_t max_bytes = UINT64_C(1) << 50;
static const uint64_t max_uid = UINT32_MAX - 1 - BJ_CONFIG_MAX_SLOTS;

static const struct key top_keys[] = {
	TOP("listen", KEY_LIST, .offset = AT(listen), .help = "as --listen; one or a list"),
	TOP("store", KEY_TEXT, .offset = AT(store), .help = "as --store"),
	TOP("slots", KEY_NUMBER, .offset = AT(n_slots), .min = 1, .max = BJ_CONFIG_MAX_SLOTS,
	    .help = "as --slots"),
	TOP("workspaces", KEY_LIST, .offset = AT(workspaces), .help = "as --workspace, a list"),
	TOP("workBytes", KEY_NUMBER, .offset = AT(work_bytes), .min = BJ_CONFIG_MIN_WORK_BYTES,
	    .max = max_bytes, .help = "limit of the work area in memory [a quarter of the memory]"),
	TOP("hotBytes", KEY_NUMBER, .offset = AT(hot_bytes), .min = 1, .max = max_bytes,
	    .help = "of it for blobs that stay ready to be linked [half of workBytes]"),
	TOP("storeMaxBytes", KEY_NUMBER, .offset = AT(store_max_bytes), .min = 0, .max = max_bytes,
	    .help = "evict the least recently used above it; 0: no limit [0]"),
	TOP("maxTimeoutSeconds", KEY_NUMBER, .offset = AT(max_timeout_seconds), .min = 1,
	    .max = BJ_CONFIG_MAX_SECONDS, .help = "larger Action.timeout are refused [86400]"),
	TOP("defaultTimeoutSeconds", KEY_NUMBER, .offset = AT(default_timeout_seconds), .min = 0,
	    .max = BJ_CONFIG_MAX_SECONDS, .help = "for actions without one; 0: none [0]"),
	TOP("cancelGraceSeconds", KEY_NUMBER, .offset = AT(cancel_grace_seconds), .min = 0,
	    .max = BJ_CONFIG_MAX_SECONDS,
	    .help = "an action goes on so long after its last client left [5]"),
	TOP("stopGraceSeconds", KEY_NUMBER, .offset = AT(stop_grace_seconds), .min = 0,
	    .max = BJ_CONFIG_MAX_SECONDS, .help = "running calls have so long at a stop [10]"),
	TOP("firstSlotUid", KEY_NUMBER, .offset = AT(first_slot_uid), .min = 1000, .max = max_uid,
	    .help = "slot N runs as this user plus N, when started as root [60000]"),
	TOP("extraRoots", KEY_LIST, .offset = AT(extra_roots),
	    .help = "further directories and files of the host that every action may read"),
	TOP("denyAnchors", KEY_LIST, .offset = AT(deny_anchors),
	    .help = "directories of the host: looking for what they hold is a violation"),
	TOP("tellHost", KEY_BOOL, .offset = AT(tell_host), .given = GIVEN_TELL_HOST,
	    .help = "records may say that the host has a file [true while all listeners are "
		    "local]"),
	TOP("sandbox", KEY_MAP, .keys = sandbox_keys, .n_keys = BJ_ARRAY_LEN(sandbox_keys)),
};

static const struct key root = {
	.path = "the file", .kind = KEY_MAP, .keys = top_keys, .n_keys = BJ_ARRAY_LEN(top_keys)
};

/* ---- errors ---- */

static BJ_PRINTF(3, 4) int fail_at(struct reader *r, size_t line, const char *fmt, ...)
{
	char text[BJ_ERR_MSG_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut when too long, as an error is */
	va_end(ap);
	return bj_err_set(r->err, BJ_INVALID_ARGUMENT, "%s:%zu: %s", r->name, line, text);
}

#define fail(r, ...) fail_at((r), (r)->event.start_mark.line + 1, __VA_ARGS__)

static int no_memory(struct reader *r)
{
	return bj_err_set(r->err, BJ_RESOURCE_EXHAUSTED, "%s: no memory to read it", r->name);
}

/* What the file says, fit for a message. */
static const char *shown(struct reader *r, struct bj_str text)
{
	const char *copy = bj_str_dup(r->arena, bj_str_printable(r->arena, text, SHOWN_BYTES));
	return copy ? copy : "";
}

static size_t line_of_offset(struct bj_str text, size_t offset)
{
	size_t line = 1;
	for (size_t i = 0; i < offset && i < text.len; i++)
		line += text.ptr[i] == '\n';
	return line;
}

static int syntax_error(struct reader *r)
{
	const yaml_parser_t *p = &r->parser;

	if (p->error == YAML_MEMORY_ERROR)
		return no_memory(r);
	size_t line = p->error == YAML_READER_ERROR ? line_of_offset(r->text, p->problem_offset)
						    : p->problem_mark.line + 1;
	return fail_at(r, line, "not YAML: %s%s%s", p->problem ? p->problem : "?",
		       p->context ? " " : "", p->context ? p->context : "");
}

/* ---- events ---- */

static int next(struct reader *r)
{
	yaml_event_delete(&r->event);
	if (yaml_parser_parse(&r->parser, &r->event))
		return 0;
	memset(&r->event, 0, sizeof(r->event)); /* nothing to delete */
	return syntax_error(r);
}

static const char *event_name(const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return "a value";
	case YAML_SEQUENCE_START_EVENT:
		return "a list";
	case YAML_MAPPING_START_EVENT:
		return "a mapping";
	default:
		return "something else";
	}
}

/* Anchors, aliases and tags change what a text means or how large it is; no setting needs one. */
static int check_node(struct reader *r)
{
	const yaml_event_t *e = &r->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_ALIAS_EVENT)
		return fail(r, "an alias (*%s): write the value out",
			    shown(r, bj_str_of((const char *)e->data.alias.anchor)));
	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	}
	if (anchor)
		return fail(r, "an anchor (&%s): anchors and aliases have no use here",
			    shown(r, bj_str_of((const char *)anchor)));
	if (tag)
		return fail(r, "a tag (%s): the key decides the type",
			    shown(r, bj_str_of((const char *)tag)));
	return 0;
}

static struct bj_str scalar(const struct reader *r)
{
	return bj_str_n(r->event.data.scalar.value, r->event.data.scalar.length);
}

static bool is_plain(const struct reader *r)
{
	return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* A scalar that is no text: nothing at all, ~ or null without quotes. */
static bool is_null(const struct reader *r)
{
	struct bj_str s = scalar(r);
	return is_plain(r) &&
	       (s.len == 0 || bj_str_eq(s, BJ_STR_LIT("~")) || bj_str_eq(s, BJ_STR_LIT("null")));
}

static int wants(struct reader *r, const struct key *key, const char *what)
{
	if (r->event.type != YAML_SCALAR_EVENT)
		return fail(r, "%s wants %s, not %s", key->path, what, event_name(&r->event));
	if (is_null(r))
		return fail(r, "%s wants %s, but there is nothing", key->path, what);
	return fail(r, "%s wants %s, not \"%s\"%s", key->path, what, shown(r, scalar(r)),
		    is_plain(r) ? "" : " in quotes");
}

/* ---- values ---- */

static int read_text(struct reader *r, const struct key *key, const char *what,
		     struct bj_str *out_text)
{
	if (r->event.type != YAML_SCALAR_EVENT || is_null(r) || scalar(r).len == 0)
		return wants(r, key, what);
	if (memchr(scalar(r).ptr, '\0', scalar(r).len))
		return fail(r, "%s holds a NUL byte", key->path);
	struct bj_str copy = bj_arena_str(r->arena, scalar(r));
	if (!copy.ptr)
		return no_memory(r);
	*out_text = copy;
	return 0;
}

static int read_number(struct reader *r, const struct key *key, uint64_t *out_number)
{
	char what[96];
	uint64_t number;

	if (r->event.type == YAML_SCALAR_EVENT && is_plain(r) &&
	    bj_str_to_u64(scalar(r), &number) && number >= key->min && number <= key->max) {
		*out_number = number;
		return 0;
	}
	(void)snprintf(what, sizeof(what), "a whole number between %" PRIu64 " and %" PRIu64,
		       key->min, key->max); /* two of 20 digits fit */
	return wants(r, key, what);
}

static int read_bool(struct reader *r, const struct key *key, bool *out_value)
{
	bool is_scalar = r->event.type == YAML_SCALAR_EVENT && is_plain(r);

	if (is_scalar && bj_str_eq(scalar(r), BJ_STR_LIT("true")))
		*out_value = true;
	else if (is_scalar && bj_str_eq(scalar(r), BJ_STR_LIT("false")))
		*out_value = false;
	else
		return wants(r, key, "true or false");
	return 0;
}

static int read_choice(struct reader *r, const struct key *key, void *out)
{
	char what[96];

	if (r->event.type == YAML_SCALAR_EVENT && key->choose(scalar(r), out))
		return 0;
	(void)snprintf(what, sizeof(what), "one of %s", key->choices); /* the lists are short */
	return wants(r, key, what);
}

/* A list of texts, or one text alone. */
static int read_list(struct reader *r, const struct key *key, struct bj_config_list *out_list)
{
	struct bj_str *items = BJ_ARENA_ARRAY(r->arena, struct bj_str, BJ_CONFIG_MAX_ITEMS);
	size_t n = 0;
	int rc = 0;

	if (!items)
		return no_memory(r);
	if (r->event.type != YAML_SEQUENCE_START_EVENT) {
		rc = read_text(r, key, "a text or a list of texts", &items[n++]);
	} else {
		while ((rc = next(r)) == 0 && r->event.type != YAML_SEQUENCE_END_EVENT) {
			if (n == BJ_CONFIG_MAX_ITEMS)
				return fail(r, "%s has more than %d items", key->path,
					    (int)BJ_CONFIG_MAX_ITEMS);
			rc = check_node(r);
			if (rc == 0)
				rc = read_text(r, key, "a list of texts", &items[n++]);
			if (rc < 0)
				break;
		}
	}
	if (rc == 0)
		*out_list = (struct bj_config_list){ items, n };
	return rc;
}

/* The policy's own check and storage, so that a pattern means the same in the file as in an action's property. */
static int read_ignore(struct reader *r, const struct key *key)
{
	static const struct bjp_bounds everything = { .min_observe = BJP_OBSERVE_OFF,
						      .may_ignore = true,
						      .min_on_violation = BJP_ON_VIOLATION_OFF };
	size_t line = r->event.start_mark.line + 1;
	struct bj_config_list list;
	int rc = read_list(r, key, &list);

	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		const struct bjp_property property = { bj_str_of(key->path), list.items[i] };
		struct bj_err why = BJ_ERR_NULL;
		if (bjp_settings_apply(&r->config.settings, &everything, &property, 1, r->arena,
				       &why) < 0)
			rc = fail_at(r, line, "%s", why.msg);
	}
	return rc;
}

static int read_map(struct reader *r, const struct key *map);

static int read_value(struct reader *r, const struct key *key)
{
	char *where = (char *)&r->config + key->offset;
	int rc = check_node(r);

	if (rc < 0)
		return rc;
	switch (key->kind) {
	case KEY_TEXT:
		return read_text(r, key, "a text", (struct bj_str *)(void *)where);
	case KEY_LIST:
		return read_list(r, key, (struct bj_config_list *)(void *)where);
	case KEY_NUMBER:
		return read_number(r, key, (uint64_t *)(void *)where);
	case KEY_BOOL:
		return read_bool(r, key, (bool *)where);
	case KEY_CHOICE:
		return read_choice(r, key, where);
	case KEY_IGNORE:
		return read_ignore(r, key);
	case KEY_MAP:
		break;
	}
	return read_map(r, key);
}

/* ---- mappings ---- */

static int unknown(struct reader *r, const struct key *map)
{
	struct bj_buf known = BJ_BUF_INIT(KNOWN_BYTES);
	for (size_t i = 0; i < map->n_keys; i++)
		(void)bj_buf_printf(&known, "%s%s", i ? ", " : "", map->keys[i].name);
	int rc = fail(r, "unknown key \"%s\"%s%s, known: %s", shown(r, scalar(r)),
		      map->name ? " of " : "", map->name ? map->path : "", bj_buf_cstr(&known));
	bj_buf_deinit(&known);
	return rc;
}

/* @lines: where each key of the map stood, 0 for not yet */
static int read_pair(struct reader *r, const struct key *map, size_t *lines)
{
	int rc = check_node(r);
	size_t i = 0;

	if (rc < 0)
		return rc;
	if (r->event.type != YAML_SCALAR_EVENT)
		return fail(r, "a key of %s must be a name, not %s", map->path,
			    event_name(&r->event));
	while (i < map->n_keys && !bj_str_eq(scalar(r), bj_str_of(map->keys[i].name)))
		i++;
	if (i == map->n_keys)
		return unknown(r, map);
	if (lines[i])
		return fail(r, "%s is given twice, first in line %zu", map->keys[i].path, lines[i]);
	lines[i] = r->event.start_mark.line + 1;
	r->given |= map->keys[i].given;
	rc = next(r);
	return rc < 0 ? rc : read_value(r, &map->keys[i]);
}

static int read_map(struct reader *r, const struct key *map)
{
	size_t lines[MAX_KEYS] = { 0 };
	int rc;

	bj_assert(map->n_keys <= MAX_KEYS);
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return wants(r, map, "a mapping of keys to values");
	while ((rc = next(r)) == 0 && r->event.type != YAML_MAPPING_END_EVENT) {
		rc = read_pair(r, map, lines);
		if (rc < 0)
			break;
	}
	return rc;
}

/* ---- the file ---- */

/* No document, or one that is empty or a mapping; nothing after it. */
static int read_stream(struct reader *r)
{
	int rc = next(r); /* the stream's start */

	if (rc == 0)
		rc = next(r);
	if (rc < 0 || r->event.type == YAML_STREAM_END_EVENT)
		return rc;
	rc = next(r); /* past the document's start */
	if (rc == 0)
		rc = check_node(r);
	if (rc == 0 && !(r->event.type == YAML_SCALAR_EVENT && is_null(r)))
		rc = read_map(r, &root);
	if (rc == 0)
		rc = next(r); /* the document's end */
	if (rc == 0)
		rc = next(r);
	if (rc == 0 && r->event.type != YAML_STREAM_END_EVENT)
		rc = fail(r, "a second document");
	return rc;
}

/* The default must be good enough for an action that asks for it: raised where the file does not say it, refused where it does. */
static int check_bounds(struct reader *r)
{
	struct bjp_settings *s = &r->config.settings;
	const struct bjp_bounds *b = &r->config.bounds;

	if (!(r->given & GIVEN_OBSERVE))
		s->observe = BJ_MAX(s->observe, b->min_observe);
	if (!(r->given & GIVEN_ON_VIOLATION) && b->min_on_violation == BJP_ON_VIOLATION_FAIL)
		s->on_violation = BJP_ON_VIOLATION_FAIL;
	struct bjp_settings probe = bjp_settings_default();
	const struct bjp_property own[] = {
		{ BJ_STR_LIT("sandbox.observe"), bj_str_of(bjp_observe_name(s->observe)) },
		{ BJ_STR_LIT("sandbox.onViolation"),
		  bj_str_of(bjp_on_violation_name(s->on_violation)) },
	};
	struct bj_err why = BJ_ERR_NULL;

	if (bjp_settings_apply(&probe, b, own, BJ_ARRAY_LEN(own), r->arena, &why) == 0)
		return 0;
	return bj_err_set(r->err, BJ_INVALID_ARGUMENT,
			  "%s: sandbox.observe %s, sandbox.onViolation %s: beyond sandbox.bounds "
			  "(minObserve %s, minOnViolation %s)",
			  r->name, bjp_observe_name(s->observe),
			  bjp_on_violation_name(s->on_violation), bjp_observe_name(b->min_observe),
			  bjp_on_violation_name(b->min_on_violation));
}

int bj_config_parse(struct bj_str text, const char *name, struct bj_arena *arena,
		    struct bj_config *config, struct bj_err *err)
{
	struct reader r = {
		.text = text, .name = name, .arena = arena, .config = *config, .err = err
	};

	if (!yaml_parser_initialize(&r.parser))
		return no_memory(&r);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.len ? text.ptr : ""),
				     text.len);
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	int rc = read_stream(&r);
	if (rc == 0)
		rc = check_bounds(&r);
	r.config.has_tell_host |= (r.given & GIVEN_TELL_HOST) != 0;
	yaml_event_delete(&r.event);
	yaml_parser_delete(&r.parser);
	if (rc == 0)
		*config = r.config;
	return rc;
}

int bj_config_read(const char *path, struct bj_arena *arena, struct bj_config *config,
		   struct bj_err *err)
{
	struct bj_buf text = BJ_BUF_INIT(BJ_CONFIG_MAX_BYTES);
	int rc = bj_file_read_all(AT_FDCWD, path, &text, err);

	if (rc > 0)
		rc = bj_err_set(err, BJ_INVALID_ARGUMENT, "config file \"%s\": %s", path,
				strerror(ENOENT));
	else if (rc < 0)
		(void)bj_err_wrap(err, "config file");
	else
		rc = bj_config_parse(bj_buf_str(&text), path, arena, config, err);
	bj_buf_deinit(&text);
	return rc;
}

void bj_config_init(struct bj_config *config)
{
	*config = (struct bj_config){
		.max_timeout_seconds = 24 * 3600,
		.cancel_grace_seconds = 5,
		.stop_grace_seconds = 10,
		.first_slot_uid = 60000,
		.settings = bjp_settings_default(),
		.bounds = { .min_observe = BJP_OBSERVE_OFF,
			    .may_ignore = true,
			    .min_on_violation = BJP_ON_VIOLATION_OFF },
	};
}

/* ---- help ---- */

static void help_keys(const struct key *map, struct bj_buf *out)
{
	for (size_t i = 0; i < map->n_keys; i++) {
		const struct key *key = &map->keys[i];
		if (key->kind == KEY_MAP) {
			help_keys(key, out);
			continue;
		}
		(void)bj_buf_printf(out, "  %-29s %s\n", key->path, key->help);
		if (key->kind == KEY_CHOICE)
			(void)bj_buf_printf(out, "  %-29s one of %s\n", "", key->choices);
	}
}

void bj_config_help(struct bj_buf *out)
{
	help_keys(&root, out);
}
