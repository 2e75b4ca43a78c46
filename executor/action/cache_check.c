// SPDX-License-Identifier: Apache-2.0
/*
 * Is a result well-formed, and are all its blobs there?
 *
 * A Tree may name a million files. It is read as what it is, a list of records with one Directory each, so that only one of them is
 * unpacked at a time; and with memory of its own, since the caller's belongs to a call and is small.
 */
#include <stdio.h>

#include "executor/action/cache.h"
#include "executor/base/pb.h"
#include "executor/cas/tree.h"
#include "policy/policy.h"

enum {
	TREE_MAX_BYTES = 128 << 20, /* of a million files: some 90 MiB */
	DIRECTORY_ARENA_BYTES = 256 << 20,
};

struct check {
	struct bj_store *store;
	enum bj_digest_fn fn;
	bool is_complete; /* false as well when nobody asks */
	struct bj_err *err;
};

static int check_digest(struct check *c, const re_digest *pb, const char *field,
			struct bj_digest *out)
{
	int r = bj_digest_from_pb(c->fn, pb, field, out, c->err);

	if (r == 0 && c->is_complete)
		c->is_complete = bj_store_has(c->store, out);
	return r;
}

static int check_optional(struct check *c, const re_digest *pb, const char *field)
{
	struct bj_digest digest;

	return pb ? check_digest(c, pb, field, &digest) : 0;
}

/* ---- trees: what is wrong in them makes the result incomplete, not invalid, since they are blobs of the client's ---- */

static bool has_files(const struct check *c, const re_directory *dir)
{
	for (size_t i = 0; i < dir->n_files; i++) {
		struct bj_err ignored = BJ_ERR_NULL;
		struct bj_digest digest;

		if (bj_digest_from_pb(c->fn, dir->files[i]->digest, "digest", &digest, &ignored) <
			    0 ||
		    !bj_store_has(c->store, &digest))
			return false;
	}
	return true;
}

/* Fields 1 (the root) and 2 (a child) of Tree, length-delimited. False when the rest is nothing of the kind. */
static bool next_record(struct bj_str *rest, struct bj_str *out_dir)
{
	uint64_t len = 0;
	size_t at = 1;

	if (rest->ptr[0] != 0x0a && rest->ptr[0] != 0x12)
		return false;
	for (unsigned int shift = 0;; shift += 7) {
		if (at == rest->len || shift > 35)
			return false;
		uint8_t byte = (uint8_t)rest->ptr[at++];

		len |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	if (len > rest->len - at)
		return false;
	*out_dir = bj_str_sub(*rest, at, at + (size_t)len);
	*rest = bj_str_sub(*rest, at + (size_t)len, rest->len);
	return true;
}

static bool has_records(const struct check *c, struct bj_str tree)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;

	bj_arena_init(&arena, DIRECTORY_ARENA_BYTES);
	for (struct bj_str dir; tree.len; bj_arena_reset(&arena)) {
		struct bj_err ignored = BJ_ERR_NULL;
		ProtobufCMessage *message;

		if (!next_record(&tree, &dir) ||
		    bj_pb_unpack(dir, &build__bazel__remote__execution__v2__directory__descriptor,
				 &arena, &message, &ignored) < 0 ||
		    !has_files(c, (const re_directory *)message))
			return false;
	}
	return true;
}

static bool has_tree(const struct check *c, const struct bj_digest *digest)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_err ignored = BJ_ERR_NULL;
	struct bj_str bytes;

	bj_arena_init(&arena, TREE_MAX_BYTES + (1 << 20));
	return bj_store_read(c->store, digest, TREE_MAX_BYTES, &bytes, &arena, &ignored) == 0 &&
	       has_records(c, bytes);
}

/* The other form of an output directory: a hierarchy of Directory blobs. */
static bool has_hierarchy(const struct check *c, const struct bj_digest *root)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_err ignored = BJ_ERR_NULL;
	struct bj_missing missing;
	struct bj_tree tree;

	bj_arena_init(&arena, DIRECTORY_ARENA_BYTES);
	return bj_tree_load(c->store, root, NULL, &arena, &tree, &missing, &ignored) == 0;
}

/* ---- the lists ---- */

static int check_path(struct check *c, const char *path, const char *field, bool may_be_empty)
{
	if (!path[0])
		return may_be_empty ? 0
				    : bj_err_set(c->err, BJ_INVALID_ARGUMENT, "%s is empty", field);
	return bjp_output_path_check(bj_str_of(path), field, c->err);
}

static int check_files(struct check *c, const re_action_result *result)
{
	for (size_t i = 0; i < result->n_output_files; i++) {
		const re_output_file *file = result->output_files[i];
		struct bj_digest digest;
		char field[80];

		(void)snprintf(field, sizeof(field), "ActionResult.output_files[%zu].path", i);
		int r = check_path(c, file->path, field, false);

		(void)snprintf(field, sizeof(field), "ActionResult.output_files[%zu].digest", i);
		if (r == 0)
			r = check_digest(c, file->digest, field, &digest);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_directory(struct check *c, const re_output_directory *dir, size_t i)
{
	struct bj_digest digest;
	char field[80];

	(void)snprintf(field, sizeof(field), "ActionResult.output_directories[%zu].path", i);
	int r = check_path(c, dir->path, field, true);

	(void)snprintf(field, sizeof(field), "ActionResult.output_directories[%zu].tree_digest", i);
	if (r == 0 && (dir->tree_digest || !dir->root_directory_digest)) {
		r = check_digest(c, dir->tree_digest, field, &digest);
		c->is_complete = r == 0 && c->is_complete && has_tree(c, &digest);
	}
	(void)snprintf(field, sizeof(field),
		       "ActionResult.output_directories[%zu].root_directory_digest", i);
	if (r == 0 && dir->root_directory_digest) {
		r = check_digest(c, dir->root_directory_digest, field, &digest);
		c->is_complete = r == 0 && c->is_complete && has_hierarchy(c, &digest);
	}
	return r;
}

static int check_symlinks(struct check *c, re_output_symlink *const *links, size_t n,
			  const char *list)
{
	for (size_t i = 0; i < n; i++) {
		char field[80];

		(void)snprintf(field, sizeof(field), "ActionResult.%s[%zu].path", list, i);
		int r = check_path(c, links[i]->path, field, false);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_all_symlinks(struct check *c, const re_action_result *result)
{
	int r = check_symlinks(c, result->output_symlinks, result->n_output_symlinks,
			       "output_symlinks");

	if (r == 0)
		r = check_symlinks(c, result->output_file_symlinks, result->n_output_file_symlinks,
				   "output_file_symlinks");
	if (r == 0)
		r = check_symlinks(c, result->output_directory_symlinks,
				   result->n_output_directory_symlinks,
				   "output_directory_symlinks");
	return r;
}

int bj_result_check(struct bj_store *store, enum bj_digest_fn fn, const re_action_result *result,
		    bool *complete, struct bj_err *err)
{
	struct check c = { store, fn, complete != NULL, err };
	int r = check_files(&c, result);

	for (size_t i = 0; r == 0 && i < result->n_output_directories; i++)
		r = check_directory(&c, result->output_directories[i], i);
	if (r == 0)
		r = check_all_symlinks(&c, result);
	if (r == 0)
		r = check_optional(&c, result->stdout_digest, "ActionResult.stdout_digest");
	if (r == 0)
		r = check_optional(&c, result->stderr_digest, "ActionResult.stderr_digest");
	if (r == 0 && complete)
		*complete = c.is_complete;
	return r;
}
