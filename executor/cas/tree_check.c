// SPDX-License-Identifier: Apache-2.0
/*
 * The rules for one Directory message. All of them are checked before anything is made of it: what passes here can be
 * handed to mkdirat() and linkat() name by name.
 *
 * Order: "sorted in lexicographical order by path", by code point, which for UTF-8 is the order of the bytes. The three
 * lists are each sorted, so one merge of the three finds a name that occurs in two of them.
 */
#include "executor/cas/tree.h"

#include "executor/cas/tree-internal.h"

enum {
	SHOWN_BYTES = 160,
	MAX_NAME_BYTES = 255,	 /* NAME_MAX */
	MAX_TARGET_BYTES = 4095, /* PATH_MAX less the NUL */
};

static const char *const kind_names[BJ_N_NODE_KINDS] = {
	[BJ_NODE_DIR] = "directory",
	[BJ_NODE_FILE] = "file",
	[BJ_NODE_SYMLINK] = "symlink",
};

/* ---- the three lists ---- */

size_t bj_dir_n_nodes(const re_directory *dir, enum bj_node_kind kind)
{
	switch (kind) {
	case BJ_NODE_DIR:
		return dir->n_directories;
	case BJ_NODE_FILE:
		return dir->n_files;
	case BJ_NODE_SYMLINK:
		return dir->n_symlinks;
	}
	return 0;
}

struct bj_str bj_dir_node_name(const re_directory *dir, enum bj_node_kind kind, size_t index)
{
	switch (kind) {
	case BJ_NODE_DIR:
		return bj_str_of(dir->directories[index]->name);
	case BJ_NODE_FILE:
		return bj_str_of(dir->files[index]->name);
	case BJ_NODE_SYMLINK:
		return bj_str_of(dir->symlinks[index]->name);
	}
	return BJ_STR_NULL;
}

bool bj_dir_next(struct bj_dir_cursor *cursor, struct bj_dir_item *out_item)
{
	bool has_one = false;
	for (int i = 0; i < BJ_N_NODE_KINDS; i++) {
		enum bj_node_kind kind = (enum bj_node_kind)i;
		if (cursor->at[i] == bj_dir_n_nodes(cursor->dir, kind))
			continue;
		struct bj_str name = bj_dir_node_name(cursor->dir, kind, cursor->at[i]);
		if (has_one && bj_str_cmp(name, out_item->name) >= 0)
			continue;
		*out_item = (struct bj_dir_item){ kind, cursor->at[i], name };
		has_one = true;
	}
	if (has_one)
		cursor->at[out_item->kind]++;
	return has_one;
}

/* ---- the rules ---- */

static int refuse(const char *where, enum bj_node_kind kind, struct bj_str name, const char *reason,
		  struct bj_err *err)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena = BJ_ARENA_NULL;
	bj_arena_init(&arena, 4096);
	struct bj_str shown = bj_str_printable(&arena, name, SHOWN_BYTES);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s%s%s \"%.*s\": %s", where ? where : "",
			  where ? ": " : "", kind_names[kind], BJ_STR_FMT(shown), reason);
}

/* NULL for a name that is one path segment, else what is wrong with it. */
static const char *name_fault(struct bj_str name)
{
	if (name.len == 0)
		return "the name is empty";
	if (bj_str_eq(name, BJ_STR_LIT(".")) || bj_str_eq(name, BJ_STR_LIT("..")))
		return "the name is not a path segment";
	if (name.len > MAX_NAME_BYTES)
		return "the name is longer than 255 bytes";
	if (memchr(name.ptr, '/', name.len))
		return "the name contains '/'";
	if (!bj_str_is_utf8(name)) /* nor NUL: a string that came from bj_pb_unpack() has none */
		return "the name is not UTF-8";
	return NULL;
}

static const char *order_fault(struct bj_str before, struct bj_str name)
{
	int order = bj_str_cmp(before, name);
	if (order == 0)
		return "the name occurs twice";
	return order > 0 ? "not sorted: it must stand before its predecessor" : NULL;
}

/* mtime and unix_mode are known and have no effect: inputs have one mtime, and is_executable is all of the mode. */
static const char *properties_fault(const BJ_RE(NodeProperties) * properties)
{
	return properties && properties->n_properties > 0
		       ? "it has a node property, and none is known"
		       : NULL;
}

static const BJ_RE(NodeProperties) *
	node_properties(const re_directory *dir, enum bj_node_kind kind, size_t index)
{
	switch (kind) {
	case BJ_NODE_DIR:
		return NULL; /* a child directory's stand in its own message */
	case BJ_NODE_FILE:
		return dir->files[index]->node_properties;
	case BJ_NODE_SYMLINK:
		return dir->symlinks[index]->node_properties;
	}
	return NULL;
}

static int check_digest(const re_directory *dir, enum bj_digest_fn fn, enum bj_node_kind kind,
			size_t index, struct bj_err *err)
{
	struct bj_digest digest;
	const re_digest *pb =
		kind == BJ_NODE_FILE ? dir->files[index]->digest : dir->directories[index]->digest;
	return bj_digest_from_pb(fn, pb, "digest", &digest, err);
}

static int check_content(const re_directory *dir, enum bj_digest_fn fn, const char *where,
			 enum bj_node_kind kind, size_t index, struct bj_err *err)
{
	struct bj_str name = bj_dir_node_name(dir, kind, index);
	if (kind == BJ_NODE_SYMLINK) {
		struct bj_str target = bj_str_of(dir->symlinks[index]->target);
		if (target.len > MAX_TARGET_BYTES)
			return refuse(where, kind, name, "the target is longer than 4095 bytes",
				      err);
		if (!bj_str_is_utf8(target))
			return refuse(where, kind, name, "the target is not UTF-8", err);
		return 0;
	}
	int r = check_digest(dir, fn, kind, index, err);
	if (r < 0) {
		struct bj_err inner = *err;
		bj_err_clear(err);
		return refuse(where, kind, name, inner.msg, err);
	}
	return 0;
}

static int check_list(const re_directory *dir, enum bj_digest_fn fn, const char *where,
		      enum bj_node_kind kind, struct bj_err *err)
{
	struct bj_str before = BJ_STR_NULL;
	for (size_t i = 0; i < bj_dir_n_nodes(dir, kind); i++) {
		struct bj_str name = bj_dir_node_name(dir, kind, i);
		const char *fault = name_fault(name);
		if (!fault && i > 0)
			fault = order_fault(before, name);
		if (!fault)
			fault = properties_fault(node_properties(dir, kind, i));
		if (fault)
			return refuse(where, kind, name, fault, err);
		int r = check_content(dir, fn, where, kind, i, err);
		if (r < 0)
			return r;
		before = name;
	}
	return 0;
}

/* Each list is sorted and without twins: equal names can only come from two lists, one after the other. */
static int check_across(const re_directory *dir, const char *where, struct bj_err *err)
{
	struct bj_dir_cursor cursor = { .dir = dir };
	struct bj_dir_item item = { .name = BJ_STR_NULL };
	struct bj_str before = BJ_STR_NULL;
	while (bj_dir_next(&cursor, &item)) {
		if (bj_str_eq(before, item.name))
			return refuse(where, item.kind, item.name,
				      "the name occurs twice, as two kinds of entry", err);
		before = item.name;
	}
	return 0;
}

int bj_directory_check(const re_directory *dir, enum bj_digest_fn fn, const char *where,
		       struct bj_err *err)
{
	const char *fault = properties_fault(dir->node_properties);
	if (fault)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s: %s",
				  where ? where : "the directory", fault);
	for (int kind = 0; kind < BJ_N_NODE_KINDS; kind++) {
		int r = check_list(dir, fn, where, (enum bj_node_kind)kind, err);
		if (r < 0)
			return r;
	}
	return check_across(dir, where, err);
}
