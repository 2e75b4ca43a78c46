// SPDX-License-Identifier: Apache-2.0
#include "executor/cas/reapi.h"

int bj_digest_from_pb(enum bj_digest_fn fn, const re_digest *pb, const char *what,
		      struct bj_digest *out_digest, struct bj_err *err)
{
	if (!pb)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s is not set", what);
	return bj_digest_parse(fn, bj_str_of(pb->hash), pb->size_bytes, what, out_digest, err);
}

re_digest *bj_digest_to_pb(struct bj_arena *arena, const struct bj_digest *digest)
{
	re_digest *pb = BJ_ARENA_NEW(arena, re_digest);
	char *hex = bj_arena_alloc(arena, 2 * BJ_HASH_MAX_BYTES + 1);

	if (!pb || !hex)
		return NULL;
	build__bazel__remote__execution__v2__digest__init(pb);
	bj_digest_hex(digest, hex);
	pb->hash = hex;
	pb->size_bytes = (int64_t)digest->size_bytes;
	return pb;
}
