// SPDX-License-Identifier: Apache-2.0
#include "executor/action/cache.h"

#include "belljar/v1/cache.pb-c.h"
#include "executor/base/pb.h"

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
	if (bj_result_check(store, action->fn, entry.result, &complete, &ignored) < 0 || !complete)
		return BJ_CACHE_E_MISS;
	*out_entry = entry;
	return 0;
}
