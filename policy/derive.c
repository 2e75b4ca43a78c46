// SPDX-License-Identifier: Apache-2.0
/*
 * Everything below the input root goes into one hash index by its relative path, with flags that say why it is known;
 * what lies outside is a short sorted list of "tops". Nothing depends on the order in which the declarations come:
 * flags are only ever added, and two declarations that contradict each other are refused whichever comes first.
 */
#include "policy/policy-internal.h"

#include <stdlib.h>

struct derivation {
	const struct bjp_declared *declared;
	struct bjp_policy *policy;
	struct bj_arena *arena;
	struct bj_err *err;
};

static int no_memory(struct derivation *d)
{
	return bj_err_set(d->err, BJ_RESOURCE_EXHAUSTED, "derive the policy: out of memory");
}

static struct bjp_entry *at(struct derivation *d, struct bj_str path)
{
	return bjp_index_at(&d->policy->index, path, d->arena);
}

/* A non-empty relative path without "", "." and ".." components? */
static bool is_clean_relative(struct bj_str path)
{
	if (path.len == 0 || path.len >= BJP_PATH_BYTES || path.ptr[path.len - 1] == '/')
		return false;
	while (path.len > 0) {
		struct bj_str name = bj_str_cut(&path, '/');
		if (name.len == 0 || bj_str_eq(name, BJ_STR_LIT(".")) ||
		    bj_str_eq(name, BJ_STR_LIT("..")))
			return false;
	}
	return true;
}

/* ---- inputs ---- */

static const char *kind_name(enum bjp_node_kind kind)
{
	static const char *const names[] = { "directory", "file", "symlink" };
	return names[kind];
}

static int conflict(struct derivation *d, struct bj_str path, enum bjp_node_kind a,
		    enum bjp_node_kind b)
{
	enum bjp_node_kind low = BJ_MIN(a, b), high = BJ_MAX(a, b);
	return bj_err_set(d->err, BJ_INVALID_ARGUMENT, "input tree: %s is declared as %s and as %s",
			  bjp_quote(d->arena, path), kind_name(low),
			  low == high ? "another" : kind_name(high));
}

static int add_input(struct derivation *d, struct bj_str path, enum bjp_node_kind kind,
		     struct bj_str target)
{
	struct bjp_entry *entry = at(d, path);
	if (!entry)
		return no_memory(d);
	if (entry->flags & BJP_F_INPUT) {
		if (entry->kind != kind || !bj_str_eq(entry->target, target))
			return conflict(d, path, entry->kind, kind);
		return 0;
	}
	entry->flags |= BJP_F_INPUT;
	entry->kind = kind;
	entry->target = target;
	d->policy->n_symlinks += kind == BJP_NODE_SYMLINK;
	return 0;
}

/* The directories above an input are inputs; stops at the first that is known to be one, as those above it are too. */
static int add_parents(struct derivation *d, struct bj_str path)
{
	while (path.len > 0) {
		path = bjp_dirname(path);
		const struct bjp_entry *entry = bjp_index_get(&d->policy->index, path);
		if (entry && entry->flags & BJP_F_INPUT && entry->kind == BJP_NODE_DIR)
			return 0;
		int r = add_input(d, path, BJP_NODE_DIR, BJ_STR_NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_inputs(struct derivation *d)
{
	int r = add_input(d, bj_str_n("", 0), BJP_NODE_DIR, BJ_STR_NULL);
	for (size_t i = 0; r == 0 && i < d->declared->n_inputs; i++) {
		const struct bjp_node *node = &d->declared->inputs[i];
		if (node->path.len == 0 && node->kind == BJP_NODE_DIR)
			continue;
		if (!is_clean_relative(node->path))
			return bj_err_set(d->err, BJ_INVALID_ARGUMENT,
					  "input tree: %s is not a clean relative path",
					  bjp_quote(d->arena, node->path));
		bool is_link = node->kind == BJP_NODE_SYMLINK;
		r = add_input(d, node->path, node->kind, is_link ? node->target : BJ_STR_NULL);
		if (r == 0)
			r = add_parents(d, node->path);
	}
	return r;
}

/* ---- outputs ---- */

/* Sets @flag on every directory above @path and @direct on the one right above. */
static int mark_above(struct derivation *d, struct bj_str path, unsigned flag, unsigned direct)
{
	unsigned flags = flag | direct;
	while (path.len > 0) {
		path = bjp_dirname(path);
		struct bjp_entry *entry = at(d, path);
		if (!entry)
			return no_memory(d);
		if (entry->flags & BJP_F_INPUT && entry->kind == BJP_NODE_FILE)
			return bj_err_set(d->err, BJ_INVALID_ARGUMENT,
					  "%s is an input file and cannot hold an output",
					  bjp_quote(d->arena, path));
		if ((entry->flags & flags) == flags)
			return 0;
		entry->flags |= flags;
		flags = flag;
	}
	return 0;
}

static int add_output(struct derivation *d, struct bj_str output, struct bj_str *out_rel)
{
	struct bjp_policy *policy = d->policy;
	struct bj_str path = bjp_path_clean(d->arena, policy->working_dir, output);
	if (!path.ptr)
		return no_memory(d);
	if (!bjp_relative(policy, path, out_rel))
		return bj_err_set(d->err, BJ_INVALID_ARGUMENT,
				  "output path %s leaves the input root",
				  bjp_quote(d->arena, output));
	struct bjp_entry *entry = at(d, *out_rel);
	if (!entry)
		return no_memory(d);
	entry->flags |= BJP_F_OUTPUT;
	if (entry->flags & BJP_F_INPUT && entry->kind == BJP_NODE_DIR)
		policy->inputs_below_outputs = true;
	return mark_above(d, *out_rel, BJP_F_ABOVE_OUTPUT, BJP_F_HOLDS_OUTPUT | BJP_F_WRITABLE);
}

static int add_outputs(struct derivation *d)
{
	size_t n = d->declared->n_outputs;
	struct bjp_policy *policy = d->policy;
	policy->outputs = BJ_ARENA_ARRAY(d->arena, struct bj_str, n);
	policy->output_parents = BJ_ARENA_ARRAY(d->arena, struct bj_str, n);
	if (!policy->outputs || !policy->output_parents)
		return no_memory(d);
	for (size_t i = 0; i < n; i++) {
		int r = add_output(d, d->declared->outputs[i], &policy->outputs[i]);
		if (r < 0)
			return r;
		struct bj_str parent = bjp_dirname(policy->outputs[i]);
		if (parent.len > 0)
			policy->output_parents[policy->n_output_parents++] = parent;
	}
	policy->n_outputs = bjp_sort_unique(policy->outputs, n);
	policy->n_output_parents =
		bjp_sort_unique(policy->output_parents, policy->n_output_parents);
	return 0;
}

/* ---- scratch that the environment names ---- */

/* How a variable names scratch: a directory, a file, or everything in the directory that holds the file. */
enum scratch_how { NOT_SCRATCH, A_DIRECTORY, A_FILE, WITH_SIBLINGS };

static enum scratch_how scratch_how(struct bj_str name)
{
	static const char *const directories[] = { "TMPDIR", "TMP", "TEMP", "TEST_TMPDIR",
						   "COVERAGE_DIR" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(directories); i++) {
		if (bj_str_eq(name, bj_str_of(directories[i])))
			return A_DIRECTORY;
	}
	/* Bazel's test runner keeps its log, its split logs and its sentinel files beside the XML. */
	if (bj_str_eq(name, BJ_STR_LIT("XML_OUTPUT_FILE")))
		return WITH_SIBLINGS;
	if (bj_str_has_prefix(name, BJ_STR_LIT("TEST_UNDECLARED_OUTPUTS_")))
		return bj_str_has_suffix(name, BJ_STR_LIT("_DIR")) ? A_DIRECTORY : A_FILE;
	bool is_file = bj_str_eq(name, BJ_STR_LIT("COVERAGE_OUTPUT_FILE")) ||
		       (bj_str_has_prefix(name, BJ_STR_LIT("TEST_")) &&
			bj_str_has_suffix(name, BJ_STR_LIT("_FILE")));
	return is_file ? A_FILE : NOT_SCRATCH;
}

static bool is_above_exec_root(const struct bjp_policy *policy, struct bj_str path)
{
	return bjp_path_is_below(policy->exec_root, path);
}

static int mark(struct derivation *d, struct bj_str rel, unsigned flags)
{
	struct bjp_entry *entry = at(d, rel);
	if (!entry)
		return no_memory(d);
	entry->flags |= flags;
	return 0;
}

/* @rel is scratch; its directory stays writable too when @rel is a file, unless that were the whole input root. */
static int mark_scratch(struct derivation *d, struct bj_str rel, bool is_file)
{
	struct bj_str dir = is_file ? bjp_dirname(rel) : rel;
	int r = mark(d, rel, BJP_F_SCRATCH);
	if (r == 0 && dir.len > 0)
		r = mark(d, dir, BJP_F_WRITABLE);
	while (r == 0 && rel.len > 0) {
		rel = bjp_dirname(rel);
		r = mark(d, rel, BJP_F_ABOVE_SCRATCH);
	}
	return r;
}

/*
 * Takes the value of one variable. What could blind the report is no scratch: the input root itself, anything above it,
 * and anything outside of it but /tmp and /dev/shm (which are scratch already).
 */
static int add_scratch(struct derivation *d, struct bj_str value, enum scratch_how how)
{
	struct bjp_policy *policy = d->policy;
	struct bj_str rel, path = bjp_path_clean(d->arena, policy->working_dir, value);
	if (!path.ptr)
		return no_memory(d);
	bool is_file = how == A_FILE || how == WITH_SIBLINGS;
	if (how == WITH_SIBLINGS && !is_above_exec_root(policy, bjp_dirname(path))) {
		path = bjp_dirname(path);
		is_file = false;
	}
	if (is_above_exec_root(policy, path) || !bjp_relative(policy, path, &rel))
		return 0;
	policy->scratch[policy->n_scratch++] = path;
	return mark_scratch(d, rel, is_file);
}

static int add_environment(struct derivation *d)
{
	const struct bjp_declared *declared = d->declared;
	d->policy->scratch = BJ_ARENA_ARRAY(d->arena, struct bj_str, declared->n_env);
	if (!d->policy->scratch)
		return no_memory(d);
	for (size_t i = 0; i < declared->n_env; i++) {
		enum scratch_how how = scratch_how(declared->env_names[i]);
		if (how == NOT_SCRATCH || declared->env_values[i].len == 0)
			continue;
		int r = add_scratch(d, declared->env_values[i], how);
		if (r < 0)
			return r;
	}
	d->policy->n_scratch = bjp_sort_unique(d->policy->scratch, d->policy->n_scratch);
	return 0;
}

/* What strict mode leaves writable: the marked directories that lie below no other. */
static int list_writable(struct derivation *d)
{
	struct bjp_policy *policy = d->policy;
	const struct bjp_index *index = &policy->index;
	size_t n = 0;
	for (size_t i = 0; i < index->n_entries; i++)
		n += (index->entries[i].flags & BJP_F_WRITABLE) != 0;
	policy->writable = BJ_ARENA_ARRAY(d->arena, struct bj_str, n);
	if (!policy->writable)
		return no_memory(d);
	for (size_t i = 0; i < index->n_entries; i++) {
		struct bj_str dir = index->entries[i].path;
		if (!(index->entries[i].flags & BJP_F_WRITABLE))
			continue;
		if (dir.len == 0)
			dir = BJ_STR_LIT(".");
		else if (bjp_flags_above(policy, bjp_dirname(dir), BJP_F_WRITABLE))
			continue;
		policy->writable[policy->n_writable++] = dir;
	}
	policy->n_writable = bjp_sort_unique(policy->writable, policy->n_writable);
	return 0;
}

/* ---- outside of the input root ---- */

static int by_path(const void *a, const void *b)
{
	const struct bjp_top *x = a, *y = b;
	int order = bj_str_cmp(x->path, y->path);
	return order ? order : x->exact - y->exact;
}

static size_t n_components(struct bj_str path)
{
	size_t n = 0;
	while (path.len > 0)
		n += bj_str_cut(&path, '/').len > 0;
	return n;
}

/* @path and, as directories that must exist, those above it. */
static void add_top(struct bjp_policy *policy, struct bj_str path, enum bjp_zone zone)
{
	policy->tops[policy->n_tops++] = (struct bjp_top){ path, zone, false };
	while (path.len > 1) {
		path = bjp_dirname(path);
		struct bj_str dir = path.len ? path : BJ_STR_LIT("/");
		policy->tops[policy->n_tops++] = (struct bjp_top){ dir, BJP_ZONE_SYSTEM, true };
	}
}

static void sort_tops(struct bjp_policy *policy)
{
	qsort(policy->tops, policy->n_tops, sizeof(policy->tops[0]), by_path);
	size_t kept = 0;
	for (size_t i = 0; i < policy->n_tops; i++) {
		if (kept == 0 || !bj_str_eq(policy->tops[i].path, policy->tops[kept - 1].path))
			policy->tops[kept++] = policy->tops[i];
	}
	policy->n_tops = kept;
}

static int add_tops(struct derivation *d)
{
	static const char *const system[] = { "/dev", "/proc", "/tmp" };
	const struct bjp_declared *declared = d->declared;
	struct bj_str *roots = BJ_ARENA_ARRAY(d->arena, struct bj_str, declared->n_roots);
	size_t n_tops = n_components(d->policy->exec_root) + 2 * BJ_ARRAY_LEN(system);
	if (!roots)
		return no_memory(d);
	for (size_t i = 0; i < declared->n_roots; i++) {
		roots[i] = bjp_path_clean(d->arena, BJ_STR_LIT("/"), declared->roots[i]);
		if (!roots[i].ptr)
			return no_memory(d);
		n_tops += 1 + n_components(roots[i]);
	}

	d->policy->tops = BJ_ARENA_ARRAY(d->arena, struct bjp_top, n_tops + 1);
	if (!d->policy->tops)
		return no_memory(d);
	for (size_t i = 0; i < declared->n_roots; i++)
		add_top(d->policy, roots[i], BJP_ZONE_TOOLCHAIN);
	for (size_t i = 0; i < BJ_ARRAY_LEN(system); i++)
		add_top(d->policy, bj_str_of(system[i]), BJP_ZONE_SYSTEM);
	for (struct bj_str dir = d->policy->exec_root; dir.len > 1;) {
		dir = bjp_dirname(dir);
		d->policy->tops[d->policy->n_tops++] =
			(struct bjp_top){ dir.len ? dir : BJ_STR_LIT("/"), BJP_ZONE_SYSTEM, true };
	}
	sort_tops(d->policy);
	return 0;
}

/* ---- the whole ---- */

static int set_places(struct derivation *d)
{
	const struct bjp_declared *declared = d->declared;
	struct bj_str root = bjp_path_clean(d->arena, BJ_STR_LIT("/"), declared->exec_root);
	struct bj_str dir = bjp_path_clean(d->arena, root, declared->working_dir);
	if (!root.ptr || !dir.ptr)
		return no_memory(d);
	bool is_relative = declared->working_dir.len == 0 || declared->working_dir.ptr[0] != '/';
	if (!is_relative || !bjp_path_is_below(dir, root))
		return bj_err_set(d->err, BJ_INVALID_ARGUMENT,
				  "working directory %s is not below the input root",
				  bjp_quote(d->arena, declared->working_dir));
	d->policy->exec_root = root;
	d->policy->working_dir = dir;
	return 0;
}

static int derive(struct derivation *d)
{
	const struct bjp_declared *declared = d->declared;
	size_t n = bj_size_add(declared->n_inputs, bj_size_mul(declared->n_outputs, 2));
	int r = set_places(d);
	if (r == 0 && !bjp_index_init(&d->policy->index, bj_size_add(n, n / 4), d->arena))
		r = no_memory(d);
	if (r == 0)
		r = add_inputs(d);
	if (r == 0)
		r = add_outputs(d);
	if (r == 0)
		r = add_environment(d);
	if (r == 0)
		r = list_writable(d);
	if (r == 0)
		r = add_tops(d);
	return r;
}

int bjp_derive(const struct bjp_declared *declared, const struct bjp_settings *settings,
	       struct bj_arena *arena, struct bjp_policy **out_policy, struct bj_err *err)
{
	bj_assert(declared->exec_root.len > 1 && declared->exec_root.ptr[0] == '/');
	struct derivation d = { declared, BJ_ARENA_NEW(arena, struct bjp_policy), arena, err };
	if (!d.policy)
		return no_memory(&d);
	d.policy->settings = *settings;
	int r = derive(&d);
	if (r < 0)
		return r;
	*out_policy = d.policy;
	return 0;
}
