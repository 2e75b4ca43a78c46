// SPDX-License-Identifier: Apache-2.0
/*
 * An action's properties over the operator's settings. The result is built aside, so that a refusal changes nothing,
 * and does not depend on the order of the properties: lists add up, and a setting that is given twice with two values
 * is refused.
 */
#include "policy/settings-internal.h"

#include "policy/policy-internal.h"

enum { MAX_PATTERNS = 1024 };

struct application {
	struct bjp_settings settings;
	const struct bjp_bounds *bounds;
	struct bj_arena *arena;
	struct bj_err *err;
	struct bj_str seen[BJP_PROP_ON_VIOLATION + 1]; /* value of each scalar setting */
};

static int no_memory(struct application *a)
{
	return bj_err_set(a->err, BJ_RESOURCE_EXHAUSTED, "platform properties: out of memory");
}

static int malformed(struct application *a, const struct bjp_property *prop, const char *known)
{
	return bj_err_set(a->err, BJ_INVALID_ARGUMENT,
			  "platform property %s=%s: not a value that it has; known: %s",
			  bjp_quote(a->arena, prop->name), bjp_quote(a->arena, prop->value), known);
}

static int beyond(struct application *a, const struct bjp_property *prop, const char *bound)
{
	return bj_err_set(a->err, BJ_FAILED_PRECONDITION,
			  "platform property %s=%s: the operator %s",
			  bjp_quote(a->arena, prop->name), bjp_quote(a->arena, prop->value), bound);
}

/* The first value of a scalar setting counts, a second must be the same. */
static int once(struct application *a, const struct bjp_property *prop, enum bjp_prop_rule rule)
{
	if (a->seen[rule].ptr && !bj_str_eq(a->seen[rule], prop->value)) {
		struct bj_str x = a->seen[rule], y = prop->value;
		bool in_order = bj_str_cmp(x, y) < 0;
		return bj_err_set(a->err, BJ_INVALID_ARGUMENT,
				  "platform property %s is given twice, as %s and as %s",
				  bjp_quote(a->arena, prop->name),
				  bjp_quote(a->arena, in_order ? x : y),
				  bjp_quote(a->arena, in_order ? y : x));
	}
	a->seen[rule] = prop->value.ptr ? prop->value : bj_str_n("", 0);
	return 0;
}

static int set_write(struct application *a, const struct bjp_property *prop)
{
	if (!bjp_write_mode_parse(prop->value, &a->settings.write))
		return malformed(a, prop, "scratch, strict");
	return once(a, prop, BJP_PROP_WRITE);
}

static int set_observe(struct application *a, const struct bjp_property *prop)
{
	enum bjp_observe level;
	if (!bjp_observe_parse(prop->value, &level))
		return malformed(a, prop, "off, writes, default, strict");
	if (level < a->bounds->min_observe) {
		const char *least = bjp_observe_name(a->bounds->min_observe);
		return beyond(
			a, prop,
			bj_arena_printf(a->arena, "observes every action at least at %s", least));
	}
	a->settings.observe = level;
	return once(a, prop, BJP_PROP_OBSERVE);
}

static int strictness(enum bjp_on_violation mode)
{
	static const int rank[] = {
		[BJP_ON_VIOLATION_OFF] = 0,
		[BJP_ON_VIOLATION_REPORT] = 1,
		[BJP_ON_VIOLATION_FAIL] = 2,
	};
	return rank[mode];
}

static int set_on_violation(struct application *a, const struct bjp_property *prop)
{
	enum bjp_on_violation mode;
	if (!bjp_on_violation_parse(prop->value, &mode))
		return malformed(a, prop, "report, fail, off");
	if (strictness(mode) < strictness(a->bounds->min_on_violation)) {
		const char *least = bjp_on_violation_name(a->bounds->min_on_violation);
		return beyond(a, prop,
			      bj_arena_printf(a->arena, "asks for at least sandbox.onViolation=%s",
					      least));
	}
	a->settings.on_violation = mode;
	return once(a, prop, BJP_PROP_ON_VIOLATION);
}

/* ---- lists ---- */

/* Cuts one entry off a comma list; a backslash keeps the comma behind it, and stays for the pattern. */
static struct bj_str cut_entry(struct bj_str *rest)
{
	size_t at = 0;
	while (at < rest->len && rest->ptr[at] != ',')
		at += rest->ptr[at] == '\\' && at + 1 < rest->len ? 2 : 1;
	struct bj_str entry = bj_str_sub(*rest, 0, at);
	*rest = at < rest->len ? bj_str_sub(*rest, at + 1, rest->len) : BJ_STR_NULL;
	return entry;
}

/* "ADDRESS", "ADDRESS:PORT", "[ADDRESS]:PORT", "*", "*:PORT". */
static const char *network_fault(struct bj_str entry)
{
	uint64_t port;
	struct bj_str host = entry, behind = BJ_STR_NULL;
	if (entry.len > 0 && entry.ptr[0] == '[') {
		size_t end = bj_str_find(entry, ']', 0);
		if (end == entry.len)
			return "has no \"]\"";
		host = bj_str_sub(entry, 1, end);
		behind = bj_str_sub(entry, end + 1, entry.len);
		if (behind.len > 0 && !bjp_str_cut_prefix(&behind, BJ_STR_LIT(":")))
			return "has something but a port behind \"]\"";
	} else if (bj_str_find(entry, ':', 0) < entry.len &&
		   bj_str_find(entry, ':', bj_str_find(entry, ':', 0) + 1) == entry.len) {
		behind = entry;
		host = bj_str_cut(&behind, ':');
		if (behind.len == 0)
			return "has no port behind \":\"";
	}
	if (host.len == 0)
		return "has no address";
	if (behind.len > 0 && (!bj_str_to_u64(behind, &port) || port > UINT16_MAX))
		return "has a port that is not between 0 and 65535";
	return NULL;
}

static int check_entry(struct application *a, struct bj_str entry, enum bjp_prop_rule rule)
{
	if (rule != BJP_PROP_IGNORE_NETWORK)
		return bjp_glob_check(entry, a->err);
	const char *fault = network_fault(entry);
	if (!fault)
		return 0;
	return bj_err_set(a->err, BJ_INVALID_ARGUMENT,
			  "%s %s; known: ADDRESS, ADDRESS:PORT, *:PORT", bjp_quote(a->arena, entry),
			  fault);
}

static size_t count_entries(struct bj_str value)
{
	size_t n = 0;
	do {
		cut_entry(&value);
		n++;
	} while (value.ptr);
	return n;
}

static int extend(struct application *a, const struct bjp_property *prop, enum bjp_prop_rule rule,
		  struct bj_str **list, size_t *n_list)
{
	struct bj_str rest = prop->value;
	size_t n_more = count_entries(rest);
	if (!a->bounds->may_ignore)
		return beyond(a, prop, "lets no action extend the ignore lists");
	if (*n_list + n_more > MAX_PATTERNS)
		return bj_err_set(a->err, BJ_INVALID_ARGUMENT,
				  "platform property %s: more than %d entries",
				  bjp_quote(a->arena, prop->name), MAX_PATTERNS);
	struct bj_str *longer = BJ_ARENA_ARRAY(a->arena, struct bj_str, *n_list + n_more);
	if (!longer)
		return no_memory(a);
	if (*n_list > 0)
		memcpy(longer, *list, *n_list * sizeof(*longer));
	for (size_t i = 0; i < n_more; i++) {
		struct bj_str entry = bj_arena_str(a->arena, cut_entry(&rest));
		if (!entry.ptr)
			return no_memory(a);
		if (check_entry(a, entry, rule) < 0)
			return bj_err_wrap(a->err, "platform property %s",
					   bjp_quote(a->arena, prop->name));
		longer[*n_list + i] = entry;
	}
	*list = longer;
	*n_list += n_more;
	return 0;
}

/* ---- dispatch ---- */

static int check_fixed(struct application *a, const struct bjp_property *prop,
		       const struct bjp_prop *known)
{
	if (known->rule == BJP_PROP_BOOL && !bjp_word_in(prop->value, "true,false"))
		return malformed(a, prop, "true, false");
	if (bjp_word_in(prop->value, known->accepts))
		return 0;
	struct bj_str accepts = bj_str_of(known->accepts);
	bool empty_too = accepts.len == 0 || accepts.ptr[0] == ',';
	bjp_str_cut_prefix(&accepts, BJ_STR_LIT(","));
	return bj_err_set(a->err, BJ_FAILED_PRECONDITION,
			  "platform property %s=%s: %s; here it can be %.*s%s%s",
			  bjp_quote(a->arena, prop->name), bjp_quote(a->arena, prop->value),
			  known->why, BJ_STR_FMT(accepts), empty_too && accepts.len ? " or " : "",
			  empty_too ? "empty" : "");
}

static int unknown(struct application *a, const struct bjp_property *prop)
{
	struct bj_buf names = BJ_BUF_INIT(4096);
	for (size_t i = 0; i < bjp_n_props; i++)
		bj_buf_printf(&names, "%s%s", i ? ", " : "", bjp_props[i].name);
	const char *near = bjp_prop_near(prop->name);
	int r = bj_err_set(a->err, BJ_FAILED_PRECONDITION,
			   "unknown platform property %s%s%s%s; known: %s",
			   bjp_quote(a->arena, prop->name), near ? " (did you mean " : "",
			   near ? near : "", near ? "?)" : "", bj_buf_cstr(&names));
	bj_buf_deinit(&names);
	return r;
}

static int apply(struct application *a, const struct bjp_property *prop)
{
	const struct bjp_prop *known = bjp_prop_find(prop->name);
	struct bjp_settings *s = &a->settings;
	if (!known)
		return unknown(a, prop);
	switch (known->rule) {
	case BJP_PROP_WRITE:
		return set_write(a, prop);
	case BJP_PROP_OBSERVE:
		return set_observe(a, prop);
	case BJP_PROP_ON_VIOLATION:
		return set_on_violation(a, prop);
	case BJP_PROP_IGNORE_READ:
		return extend(a, prop, known->rule, &s->ignore_read, &s->n_ignore_read);
	case BJP_PROP_IGNORE_WRITE:
		return extend(a, prop, known->rule, &s->ignore_write, &s->n_ignore_write);
	case BJP_PROP_IGNORE_NETWORK:
		return extend(a, prop, known->rule, &s->ignore_network, &s->n_ignore_network);
	case BJP_PROP_BOOL:
	case BJP_PROP_WORD:
		return check_fixed(a, prop, known);
	case BJP_PROP_PLACE:
		break;
	}
	return 0;
}

int bjp_settings_apply(struct bjp_settings *settings, const struct bjp_bounds *bounds,
		       const struct bjp_property *props, size_t n_props, struct bj_arena *arena,
		       struct bj_err *err)
{
	struct application a = {
		.settings = *settings, .bounds = bounds, .arena = arena, .err = err
	};
	for (size_t i = 0; i < n_props; i++) {
		int r = apply(&a, &props[i]);
		if (r < 0)
			return r;
	}
	*settings = a.settings;
	return 0;
}
