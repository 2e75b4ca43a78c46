// SPDX-License-Identifier: Apache-2.0
/*
 * The codec of the two specs. Layout, all integers little-endian:
 *
 *   u32 magic  u16 version  u16 kind (1 slot, 2 action)  the fields of the struct, as in spec.h
 *   string: u32 length, the bytes, one NUL that is not counted    list: u32 count, the elements
 *
 * The NUL lets the decoder hand out views into the message that are C strings at the same time: no
 * copy on an action's path. The same check runs after decoding and before encoding, so that neither
 * side can make the other act on a spec that it would refuse.
 */
#include "executor/jail/spec.h"

#include <string.h>

#include "executor/base/macros.h"

enum {
	SPEC_MAGIC = 0x534a4221, /* "!BJS" */
	SPEC_VERSION = 1,
	KIND_SLOT = 1,
	KIND_ACTION = 2,
	MAX_PATH_BYTES = 4095, /* PATH_MAX without its NUL */
	MAX_ROOTS = 4096,
	MAX_FILES = 64,
	MAX_STRINGS = 1 << 20, /* argv, env, writable: the kernel's own limits are far below */
};

/* ---- names ---- */

const char *bj_jail_profile_name(enum bj_jail_profile profile)
{
	switch (profile) {
	case BJ_PROFILE_PRIVILEGED:
		return "privileged";
	case BJ_PROFILE_USERNS:
		return "userns";
	}
	return "unknown";
}

static const char *const observe_names[] = {
	[BJ_OBSERVE_OFF] = "off",
	[BJ_OBSERVE_WRITES] = "writes",
	[BJ_OBSERVE_DEFAULT] = "default",
	[BJ_OBSERVE_STRICT] = "strict",
};

const char *bj_observe_name(enum bj_observe level)
{
	return (size_t)level < BJ_ARRAY_LEN(observe_names) ? observe_names[level] : "unknown";
}

bool bj_observe_parse(struct bj_str name, enum bj_observe *out_level)
{
	for (size_t i = 0; i < BJ_ARRAY_LEN(observe_names); i++) {
		if (bj_str_eq(name, bj_str_of(observe_names[i]))) {
			*out_level = (enum bj_observe)i;
			return true;
		}
	}
	return false;
}

/* ---- rules that both sides hold a spec to ---- */

/** No empty, "." or ".." component, no NUL; @path without its leading slash. */
static bool components_ok(struct bj_str path)
{
	if (path.len == 0 || path.len > MAX_PATH_BYTES || memchr(path.ptr, '\0', path.len))
		return false;
	for (struct bj_str rest = path; rest.ptr;) {
		struct bj_str part = bj_str_cut(&rest, '/');
		if (part.len == 0 || bj_str_eq(part, BJ_STR_LIT(".")) ||
		    bj_str_eq(part, BJ_STR_LIT("..")))
			return false;
	}
	return path.ptr[path.len - 1] != '/';
}

static bool absolute_ok(struct bj_str path)
{
	return path.len > 1 && path.ptr[0] == '/' && components_ok(bj_str_sub(path, 1, path.len));
}

/**
 * Work-area paths go into mount options and we choose them: only characters that no option parser
 * gives a meaning.
 */
static bool work_path_ok(struct bj_str path)
{
	for (size_t i = 0; i < path.len; i++) {
		char c = path.ptr[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' || c == '/';
		if (!plain)
			return false;
	}
	return components_ok(path);
}

static bool has_nul(struct bj_str s)
{
	return s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
}

static int bad(struct bj_err *err, const char *what)
{
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "jail spec: %s", what);
}

static int check_root(const struct bj_jail_root *root, struct bj_err *err)
{
	if (!absolute_ok(root->path))
		return bad(err, "a root's path is not absolute and canonical");
	if (root->is_link &&
	    (root->target.len == 0 || root->target.len > MAX_PATH_BYTES || has_nul(root->target)))
		return bad(err, "a link's target is empty, too long or holds a NUL");
	if (!root->is_link && root->target.len > 0)
		return bad(err, "a root that is no link has a target");
	return 0;
}

static int check_slot(const struct bj_jail_slot_spec *spec, struct bj_err *err)
{
	if (spec->profile != BJ_PROFILE_PRIVILEGED && spec->profile != BJ_PROFILE_USERNS)
		return bad(err, "unknown profile");
	bool own_uid = spec->slot_uid != 0 && spec->slot_gid != 0;
	if (own_uid != (spec->profile == BJ_PROFILE_PRIVILEGED))
		return bad(err, "privileged needs a slot uid and gid, userns has none");
	if (!absolute_ok(spec->work_dir))
		return bad(err, "work_dir is not absolute and canonical");
	if (spec->n_roots > MAX_ROOTS || spec->n_files > MAX_FILES)
		return bad(err, "too many roots or files");
	for (size_t i = 0; i < spec->n_roots; i++) {
		int r = check_root(&spec->roots[i], err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < spec->n_files; i++) {
		if (!absolute_ok(spec->files[i].path))
			return bad(err, "a file's path is not absolute and canonical");
	}
	return 0;
}

static int check_work_paths(const struct bj_jail_spec *spec, struct bj_err *err)
{
	const struct bj_str paths[] = { spec->lower, spec->upper, spec->ovl, spec->tmp, spec->shm };
	for (size_t i = 0; i < BJ_ARRAY_LEN(paths); i++) {
		if (!work_path_ok(paths[i]))
			return bad(err, "a work-area path is not relative, canonical and plain");
	}
	return 0;
}

static int check_action_strings(const struct bj_jail_spec *spec, struct bj_err *err)
{
	for (size_t i = 0; i < spec->n_argv; i++) {
		if (has_nul(spec->argv[i]))
			return bad(err, "an argument holds a NUL");
	}
	for (size_t i = 0; i < spec->n_env; i++) {
		struct bj_str var = spec->env[i];
		size_t at = bj_str_find(var, '=', 0);
		if (at == 0 || at == var.len || has_nul(var))
			return bad(err, "an environment entry is not NAME=value");
	}
	for (size_t i = 0; i < spec->n_writable; i++) {
		if (!components_ok(spec->writable[i]) || spec->writable[i].ptr[0] == '/')
			return bad(err, "a writable directory is not relative and canonical");
	}
	return 0;
}

static bool cwd_ok(struct bj_str cwd)
{
	return bj_str_eq(cwd, BJ_STR_LIT(BJ_JAIL_ROOT)) ||
	       (absolute_ok(cwd) && bj_str_has_prefix(cwd, BJ_STR_LIT(BJ_JAIL_ROOT "/")));
}

static int check_action(const struct bj_jail_spec *spec, struct bj_err *err)
{
	if (spec->n_argv == 0)
		return bad(err, "no argv[0]");
	if (spec->n_argv > MAX_STRINGS || spec->n_env > MAX_STRINGS ||
	    spec->n_writable > MAX_STRINGS)
		return bad(err, "too many strings");
	if (!cwd_ok(spec->cwd))
		return bad(err, "cwd is not below " BJ_JAIL_ROOT);
	if (spec->write_mode != BJ_WRITE_SCRATCH && spec->write_mode != BJ_WRITE_STRICT)
		return bad(err, "unknown write mode");
	if (spec->write_mode == BJ_WRITE_SCRATCH && spec->n_writable > 0)
		return bad(err, "writable directories are for the strict mode");
	if ((size_t)spec->observe >= BJ_ARRAY_LEN(observe_names))
		return bad(err, "unknown observer level");
	int r = check_work_paths(spec, err);
	return r < 0 ? r : check_action_strings(spec, err);
}

/* ---- encoding ---- */

static void put_uint(struct bj_buf *out, uint64_t value, size_t n_bytes)
{
	for (size_t i = 0; i < n_bytes; i++)
		bj_buf_append_char(out, (char)(unsigned char)(value >> (8 * i)));
}

static void put_u32(struct bj_buf *out, uint64_t value)
{
	bj_assert(value <= UINT32_MAX);
	put_uint(out, value, 4);
}

static void put_str(struct bj_buf *out, struct bj_str s)
{
	if (s.len > UINT32_MAX) {
		out->failed = true;
		return;
	}
	put_u32(out, s.len);
	bj_buf_append_str(out, s);
	bj_buf_append_char(out, '\0');
}

static void put_list(struct bj_buf *out, const struct bj_str *items, size_t n_items)
{
	put_u32(out, n_items);
	for (size_t i = 0; i < n_items; i++)
		put_str(out, items[i]);
}

static void put_head(struct bj_buf *out, unsigned kind)
{
	put_u32(out, SPEC_MAGIC);
	put_uint(out, SPEC_VERSION, 2);
	put_uint(out, kind, 2);
}

static int put_done(const struct bj_buf *out, struct bj_err *err)
{
	if (out->failed)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail spec: larger than %zu bytes",
				  out->max_bytes);
	return 0;
}

int bj_jail_slot_spec_encode(const struct bj_jail_slot_spec *spec, struct bj_buf *out,
			     struct bj_err *err)
{
	int r = check_slot(spec, err);
	if (r < 0)
		return r;
	put_head(out, KIND_SLOT);
	put_u32(out, spec->profile);
	put_u32(out, spec->slot_uid);
	put_u32(out, spec->slot_gid);
	put_str(out, spec->work_dir);
	put_u32(out, spec->n_roots);
	for (size_t i = 0; i < spec->n_roots; i++) {
		const struct bj_jail_root *root = &spec->roots[i];
		put_str(out, root->path);
		put_str(out, root->target);
		put_u32(out, (root->is_link ? 1u : 0u) | (root->is_file ? 2u : 0u));
	}
	put_u32(out, spec->n_files);
	for (size_t i = 0; i < spec->n_files; i++) {
		put_str(out, spec->files[i].path);
		put_str(out, spec->files[i].content);
	}
	return put_done(out, err);
}

int bj_jail_spec_encode(const struct bj_jail_spec *spec, struct bj_buf *out, struct bj_err *err)
{
	int r = check_action(spec, err);
	if (r < 0)
		return r;
	put_head(out, KIND_ACTION);
	put_list(out, spec->argv, spec->n_argv);
	put_list(out, spec->env, spec->n_env);
	put_str(out, spec->cwd);
	put_str(out, spec->lower);
	put_str(out, spec->upper);
	put_str(out, spec->ovl);
	put_str(out, spec->tmp);
	put_str(out, spec->shm);
	put_u32(out, spec->write_mode);
	put_list(out, spec->writable, spec->n_writable);
	put_u32(out, spec->observe);
	return put_done(out, err);
}

/* ---- decoding ---- */

/**
 * What is left of the message. Once `bad` is set every get gives zero, so that one check at the end
 * is enough.
 */
struct reader {
	struct bj_str rest;
	struct bj_arena *arena;
	bool bad;
	bool no_memory;
};

static uint64_t get_uint(struct reader *in, size_t n_bytes)
{
	if (in->bad || in->rest.len < n_bytes) {
		in->bad = true;
		return 0;
	}
	uint64_t value = 0;
	for (size_t i = 0; i < n_bytes; i++)
		value |= (uint64_t)(unsigned char)in->rest.ptr[i] << (8 * i);
	in->rest = bj_str_sub(in->rest, n_bytes, in->rest.len);
	return value;
}

static uint32_t get_u32(struct reader *in)
{
	return (uint32_t)get_uint(in, 4);
}

static struct bj_str get_str(struct reader *in)
{
	size_t len = get_u32(in);
	if (in->bad || len >= in->rest.len || in->rest.ptr[len] != '\0') {
		in->bad = true;
		return BJ_STR_NULL;
	}
	struct bj_str s = bj_str_n(in->rest.ptr, len);
	in->rest = bj_str_sub(in->rest, len + 1, in->rest.len);
	return s;
}

/**
 * A count whose elements take at least @min_bytes each: bounded by what is left before anything is
 * allocated.
 */
static size_t get_count(struct reader *in, size_t min_bytes)
{
	size_t n = get_u32(in);
	if (in->bad || n > in->rest.len / min_bytes) {
		in->bad = true;
		return 0;
	}
	return n;
}

static struct bj_str *get_list(struct reader *in, size_t *out_n)
{
	size_t n = get_count(in, 5);
	struct bj_str *items = BJ_ARENA_ARRAY(in->arena, struct bj_str, n);
	if (!items) {
		in->no_memory = true;
		in->bad = true;
		n = 0;
	}
	for (size_t i = 0; i < n; i++)
		items[i] = get_str(in);
	*out_n = in->bad ? 0 : n;
	return items;
}

static void get_head(struct reader *in, unsigned kind)
{
	if (get_u32(in) != SPEC_MAGIC || get_uint(in, 2) != SPEC_VERSION || get_uint(in, 2) != kind)
		in->bad = true;
}

static int get_done(const struct reader *in, struct bj_err *err)
{
	if (in->no_memory)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "jail spec: no memory");
	if (in->bad || in->rest.len > 0)
		return bad(err, "malformed, or of another version of belljar");
	return 0;
}

static struct bj_jail_root get_root(struct reader *in)
{
	struct bj_jail_root root = { .path = get_str(in), .target = get_str(in) };
	uint32_t flags = get_u32(in);
	root.is_link = flags & 1;
	root.is_file = flags & 2;
	if (flags > 2) /* unknown, or both */
		in->bad = true;
	return root;
}

static void get_roots(struct reader *in, struct bj_jail_slot_spec *spec)
{
	size_t n = get_count(in, 14);
	spec->roots = BJ_ARENA_ARRAY(in->arena, struct bj_jail_root, n);
	if (!spec->roots) {
		in->bad = in->no_memory = true;
		return;
	}
	for (spec->n_roots = 0; spec->n_roots < n && !in->bad; spec->n_roots++)
		spec->roots[spec->n_roots] = get_root(in);
}

static void get_files(struct reader *in, struct bj_jail_slot_spec *spec)
{
	size_t n = get_count(in, 10);
	spec->files = BJ_ARENA_ARRAY(in->arena, struct bj_jail_file, n);
	if (!spec->files) {
		in->bad = in->no_memory = true;
		return;
	}
	for (spec->n_files = 0; spec->n_files < n && !in->bad; spec->n_files++) {
		struct bj_jail_file *file = &spec->files[spec->n_files];
		file->path = get_str(in);
		file->content = get_str(in);
	}
}

int bj_jail_slot_spec_decode(struct bj_str bytes, struct bj_arena *arena,
			     struct bj_jail_slot_spec *out, struct bj_err *err)
{
	struct reader in = { .rest = bytes, .arena = arena };
	struct bj_jail_slot_spec spec = { 0 };
	get_head(&in, KIND_SLOT);
	spec.profile = (enum bj_jail_profile)get_u32(&in);
	spec.slot_uid = get_u32(&in);
	spec.slot_gid = get_u32(&in);
	spec.work_dir = get_str(&in);
	get_roots(&in, &spec);
	get_files(&in, &spec);
	int r = get_done(&in, err);
	if (r == 0)
		r = check_slot(&spec, err);
	if (r == 0)
		*out = spec;
	return r;
}

int bj_jail_spec_decode(struct bj_str bytes, struct bj_arena *arena, struct bj_jail_spec *out,
			struct bj_err *err)
{
	struct reader in = { .rest = bytes, .arena = arena };
	struct bj_jail_spec spec = { 0 };
	get_head(&in, KIND_ACTION);
	spec.argv = get_list(&in, &spec.n_argv);
	spec.env = get_list(&in, &spec.n_env);
	spec.cwd = get_str(&in);
	spec.lower = get_str(&in);
	spec.upper = get_str(&in);
	spec.ovl = get_str(&in);
	spec.tmp = get_str(&in);
	spec.shm = get_str(&in);
	spec.write_mode = (enum bj_write_mode)get_u32(&in);
	spec.writable = get_list(&in, &spec.n_writable);
	spec.observe = (enum bj_observe)get_u32(&in);
	int r = get_done(&in, err);
	if (r == 0)
		r = check_action(&spec, err);
	if (r == 0)
		*out = spec;
	return r;
}
