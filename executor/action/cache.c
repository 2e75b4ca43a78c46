// SPDX-License-Identifier: Apache-2.0
#include "executor/action/cache.h"

#include <stdio.h>

#include "belljar/v1/cache.pb-c.h"
#include "executor/base/pb.h"

/* A Tree of a million files is some 80 MiB. */
enum { TREE_MAX_BYTES = 256 << 20 };

struct check {
	struct bj_store *store;
	enum bj_digest_fn fn;
	struct bj_arena *arena;
	bool *complete; /* NULL: form only */
	struct bj_err *err;
};

static int check_digest(struct check *c, const re_digest *pb, const char *field,
			struct bj_digest *out)
{
	int r = bj_digest_from_pb(c->fn, pb, field, out, c->err);

	if (r < 0)
		return r;
	if (c->complete && *c->complete && !bj_store_has(c->store, out))
		*c->complete = false;
	return 0;
}

static int check_optional(struct check *c, const re_digest *pb, const char *field)
{
	struct bj_digest digest;

	return pb ? check_digest(c, pb, field, &digest) : 0;
}

static int check_directory_files(struct check *c, const re_directory *dir)
{
	struct bj_digest digest;

	for (size_t i = 0; dir && i < dir->n_files; i++) {
		int r = check_digest(c, dir->files[i]->digest, "FileNode.digest", &digest);

		if (r < 0)
			return r;
	}
	return 0;
}

/* A Tree that cannot be read or parsed makes the result incomplete, not invalid: the blob is the client's. */
static int check_tree(struct check *c, const struct bj_digest *digest)
{
	struct bj_err ignored = BJ_ERR_NULL;
	ProtobufCMessage *message;
	struct bj_str bytes;

	if (!c->complete || !*c->complete)
		return 0;
	if (bj_store_read(c->store, digest, TREE_MAX_BYTES, &bytes, c->arena, &ignored) != 0 ||
	    bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__tree__descriptor, c->arena,
			 &message, &ignored) < 0) {
		*c->complete = false;
		return 0;
	}
	const re_tree *tree = (const re_tree *)message;
	int r = check_directory_files(c, tree->root);

	for (size_t i = 0; r == 0 && i < tree->n_children; i++)
		r = check_directory_files(c, tree->children[i]);
	if (r < 0) {
		bj_err_clear(c->err);
		*c->complete = false;
	}
	return 0;
}

static int check_files(struct check *c, const re_action_result *result)
{
	for (size_t i = 0; i < result->n_output_files; i++) {
		struct bj_digest digest;
		char field[80];

		(void)snprintf(field, sizeof(field), "ActionResult.output_files[%zu].digest", i);
		int r = check_digest(c, result->output_files[i]->digest, field, &digest);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_directories(struct check *c, const re_action_result *result)
{
	for (size_t i = 0; i < result->n_output_directories; i++) {
		struct bj_digest digest;
		char field[80];

		(void)snprintf(field, sizeof(field),
			       "ActionResult.output_directories[%zu].tree_digest", i);
		int r = check_digest(c, result->output_directories[i]->tree_digest, field, &digest);

		if (r == 0)
			r = check_tree(c, &digest);
		if (r < 0)
			return r;
	}
	return 0;
}

int bj_result_check(struct bj_store *store, enum bj_digest_fn fn, const re_action_result *result,
		    struct bj_arena *arena, bool *complete, struct bj_err *err)
{
	struct check c = { store, fn, arena, complete, err };

	if (complete)
		*complete = true;
	int r = check_files(&c, result);

	if (r == 0)
		r = check_directories(&c, result);
	if (r == 0)
		r = check_optional(&c, result->stdout_digest, "ActionResult.stdout_digest");
	if (r == 0)
		r = check_optional(&c, result->stderr_digest, "ActionResult.stderr_digest");
	return r;
}

int bj_cache_put(struct bj_store *store, struct bj_str instance, const struct bj_digest *action,
		 const struct bj_cache_entry *entry, struct bj_arena *arena, struct bj_err *err)
{
	Belljar__V1__CacheEntry pb = BELLJAR__V1__CACHE_ENTRY__INIT;
	struct bj_str result = bj_pb_pack(arena, &entry->result->base);
	char *fingerprint = bj_str_dup(arena, entry->fingerprint);
	char *message = bj_str_dup(arena, entry->message);

	if (!result.ptr || !fingerprint || !message)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a cache entry");
	if (result.len == 0)
		return bj_err_set(
			err, BJ_INVALID_ARGUMENT,
			"ActionResult is all defaults: set execution_metadata.worker at least");
	pb.action_result = (ProtobufCBinaryData){ result.len, (uint8_t *)(uintptr_t)result.ptr };
	pb.origin = (Belljar__V1__CacheEntry__Origin)entry->origin;
	pb.toolchain_fingerprint = fingerprint;
	pb.counts_as_violation = entry->counts_as_violation;
	pb.message = message;
	struct bj_str packed = bj_pb_pack(arena, &pb.base);

	if (!packed.ptr)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for a cache entry");
	return bj_store_ac_put(store, instance, action, packed, err);
}

/* What does not parse was damaged or written by another version: a miss, like everything that cannot be trusted. */
static bool parse_entry(struct bj_str value, struct bj_arena *arena, struct bj_cache_entry *out)
{
	struct bj_err ignored = BJ_ERR_NULL;
	ProtobufCMessage *message;

	if (bj_pb_unpack(value, &belljar__v1__cache_entry__descriptor, arena, &message, &ignored) <
	    0)
		return false;
	const Belljar__V1__CacheEntry *pb = (const Belljar__V1__CacheEntry *)message;

	if (pb->action_result.len == 0 ||
	    (pb->origin != BELLJAR__V1__CACHE_ENTRY__ORIGIN__EXECUTED &&
	     pb->origin != BELLJAR__V1__CACHE_ENTRY__ORIGIN__UPLOADED))
		return false;
	if (bj_pb_unpack(bj_str_n(pb->action_result.data, pb->action_result.len),
			 &build__bazel__remote__execution__v2__action_result__descriptor, arena,
			 &message, &ignored) < 0)
		return false;
	*out = (struct bj_cache_entry){
		.result = (re_action_result *)message,
		.origin = (enum bj_cache_origin)pb->origin,
		.fingerprint = bj_str_of(pb->toolchain_fingerprint),
		.counts_as_violation = pb->counts_as_violation,
		.message = bj_str_of(pb->message),
	};
	return true;
}

int bj_cache_get(struct bj_store *store, struct bj_str instance, const struct bj_digest *action,
		 struct bj_arena *arena, struct bj_cache_entry *out_entry, struct bj_err *err)
{
	struct bj_err ignored = BJ_ERR_NULL;
	struct bj_cache_entry entry;
	struct bj_str value;
	bool complete;
	int r = bj_store_ac_get(store, instance, action, &value, arena, err);

	if (r < 0)
		return r;
	if (r == BJ_STORE_E_MISSING || !parse_entry(value, arena, &entry))
		return BJ_CACHE_E_MISS;
	if (bj_result_check(store, action->fn, entry.result, arena, &complete, &ignored) < 0 ||
	    !complete)
		return BJ_CACHE_E_MISS;
	*out_entry = entry;
	return 0;
}
