// SPDX-License-Identifier: Apache-2.0
/**
 * cas/digest.h - digests and the functions that make them. SHA-256 first; the function is a parameter everywhere.
 * Owns: a hasher's context. Threads: a hasher belongs to one thread; the rest is pure.
 * Spec: REAPI v2, message Digest and enum DigestFunction.Value.
 */
#ifndef BJ_CAS_DIGEST_H
#define BJ_CAS_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/err.h"
#include "executor/base/str.h"

/** Values equal REAPI's DigestFunction.Value. */
enum bj_digest_fn {
	BJ_DIGEST_UNKNOWN = 0,
	BJ_DIGEST_SHA256 = 1,
};

enum { BJ_HASH_MAX_BYTES = 64, BJ_DIGEST_STR_BYTES = 2 * BJ_HASH_MAX_BYTES + 1 + 20 + 1 };

/** A value type: compare with bj_digest_eq(), never with memcmp. */
struct bj_digest {
	enum bj_digest_fn fn;
	uint8_t hash_len; /* bytes used in hash */
	uint8_t hash[BJ_HASH_MAX_BYTES];
	uint64_t size_bytes; /* a claim until a blob of this size was verified */
};

/** Hash length in bytes of a supported function, else 0. */
size_t bj_digest_fn_len(enum bj_digest_fn fn);
/** "sha256"; NULL for unsupported. */
const char *bj_digest_fn_name(enum bj_digest_fn fn);

/**
 * bj_digest_parse() - check and convert a hash in hex and a size from outside.
 * Lower case hex of the exact length, size >= 0. @what names the field in the error.
 * Return: 0 or -INVALID_ARGUMENT (text holds @what and the offending value, made printable).
 */
BJ_MUST_USE int bj_digest_parse(enum bj_digest_fn fn, struct bj_str hash_hex, int64_t size_bytes,
				const char *what, struct bj_digest *out_digest, struct bj_err *err);

bool bj_digest_eq(const struct bj_digest *a, const struct bj_digest *b);
bool bj_digest_is_empty(const struct bj_digest *digest); /* size 0 and the hash of nothing */
/** The digest of zero bytes. */
struct bj_digest bj_digest_empty(enum bj_digest_fn fn);
/** Lower-case hex, NUL-terminated. @out: at least 2 * BJ_HASH_MAX_BYTES + 1 bytes. */
void bj_digest_hex(const struct bj_digest *digest, char *out);
/** "HASH/SIZE", NUL-terminated. @out: BJ_DIGEST_STR_BYTES. */
void bj_digest_str(const struct bj_digest *digest, char *out);
/** The key for a bj_map: views the hash bytes inside @digest. */
static inline struct bj_str bj_digest_key(const struct bj_digest *digest)
{
	return bj_str_n(digest->hash, digest->hash_len);
}

/** Digest of bytes in memory. Never fails for a supported function (asserted). */
struct bj_digest bj_digest_of(enum bj_digest_fn fn, struct bj_str data);

struct bj_hasher;
BJ_MUST_USE int bj_hasher_new(enum bj_digest_fn fn, struct bj_hasher **out_hasher,
			      struct bj_err *err);
void bj_hasher_free(struct bj_hasher *hasher);
void bj_hasher_update(struct bj_hasher *hasher, const void *data, size_t n_bytes);
/** The digest of all bytes since new or the last finish; the hasher starts again. */
struct bj_digest bj_hasher_finish(struct bj_hasher *hasher);

#endif
