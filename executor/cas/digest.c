// SPDX-License-Identifier: Apache-2.0
/*
 * cas/digest.c - why it is fast enough: looking up an algorithm by name costs more than hashing 64 bytes, so EVP_MD is
 * fetched once per process; making a context costs an allocation, so bj_digest_of() keeps one per thread. Both live
 * as long as their owner: the EVP_MD until the process ends, a thread's context until the thread ends.
 */
#include "executor/cas/digest.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>

#include "executor/base/alloc.h"
#include "executor/base/arena.h"

enum { SHA256_BYTES = 32, SHOWN_BYTES = 100 };

struct bj_hasher {
	enum bj_digest_fn fn;
	uint64_t n_bytes; /* since new or the last finish */
	EVP_MD_CTX *ctx;  /* initialised for fn, ready for updates */
};

/* The SHA-256 of nothing, FIPS 180-4 applied to the empty message. */
static const uint8_t empty_sha256[SHA256_BYTES] = {
	0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4,
	0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b,
	0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *md_sha256;		/* set once, kept until the process ends */
static pthread_key_t ctx_key;		/* for its destructor only */
static __thread EVP_MD_CTX *thread_ctx; /* NULL until this thread's first bj_digest_of() */

static void free_ctx(void *ctx)
{
	thread_ctx = NULL;
	EVP_MD_CTX_free(ctx);
}

static void init_once(void)
{
	md_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	int r = pthread_key_create(&ctx_key, free_ctx);
	bj_assert(r == 0);
}

/* NULL when the function is unsupported, or when OpenSSL could not load it. */
static const EVP_MD *get_md(enum bj_digest_fn fn)
{
	int r = pthread_once(&once, init_once);
	bj_assert(r == 0);
	return fn == BJ_DIGEST_SHA256 ? md_sha256 : NULL;
}

size_t bj_digest_fn_len(enum bj_digest_fn fn)
{
	return fn == BJ_DIGEST_SHA256 ? SHA256_BYTES : 0;
}

const char *bj_digest_fn_name(enum bj_digest_fn fn)
{
	return fn == BJ_DIGEST_SHA256 ? "sha256" : NULL;
}

/* Upper case is refused: the same digest would have two names. */
static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

static bool parse_hex(struct bj_str hex, uint8_t *out)
{
	for (size_t i = 0; i < hex.len / 2; i++) {
		int hi = hex_value(hex.ptr[2 * i]);
		int lo = hex_value(hex.ptr[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		out[i] = (uint8_t)(hi << 4 | lo);
	}
	return true;
}

static int refuse_hash(enum bj_digest_fn fn, struct bj_str hex, const char *what,
		       struct bj_err *err)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena = BJ_ARENA_NULL;
	bj_arena_init(&arena, 4096);
	struct bj_str shown = bj_str_printable(&arena, hex, SHOWN_BYTES);

	return bj_err_set(err, BJ_INVALID_ARGUMENT,
			  "%s: hash \"%.*s\" (%zu characters) is not %zu lower-case hex digits",
			  what, BJ_STR_FMT(shown), hex.len, 2 * bj_digest_fn_len(fn));
}

int bj_digest_parse(enum bj_digest_fn fn, struct bj_str hash_hex, int64_t size_bytes,
		    const char *what, struct bj_digest *out_digest, struct bj_err *err)
{
	size_t hash_len = bj_digest_fn_len(fn);
	struct bj_digest digest = { .fn = fn, .hash_len = (uint8_t)hash_len };

	if (hash_len == 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "%s: digest function %d is not supported (supported: SHA256)",
				  what, (int)fn);
	if (hash_hex.len != 2 * hash_len || !parse_hex(hash_hex, digest.hash))
		return refuse_hash(fn, hash_hex, what, err);
	if (size_bytes < 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s: size_bytes %lld is negative", what,
				  (long long)size_bytes);
	digest.size_bytes = (uint64_t)size_bytes;
	*out_digest = digest;
	return 0;
}

bool bj_digest_eq(const struct bj_digest *a, const struct bj_digest *b)
{
	return a->fn == b->fn && a->size_bytes == b->size_bytes && a->hash_len == b->hash_len &&
	       memcmp(a->hash, b->hash, a->hash_len) == 0;
}

struct bj_digest bj_digest_empty(enum bj_digest_fn fn)
{
	struct bj_digest digest = { .fn = fn, .hash_len = (uint8_t)bj_digest_fn_len(fn) };

	bj_assert(fn == BJ_DIGEST_SHA256);
	memcpy(digest.hash, empty_sha256, sizeof(empty_sha256));
	return digest;
}

bool bj_digest_is_empty(const struct bj_digest *digest)
{
	return digest->size_bytes == 0 && digest->fn == BJ_DIGEST_SHA256 &&
	       memcmp(digest->hash, empty_sha256, sizeof(empty_sha256)) == 0;
}

void bj_digest_hex(const struct bj_digest *digest, char *out)
{
	static const char digits[16] = "0123456789abcdef";

	for (size_t i = 0; i < digest->hash_len; i++) {
		out[2 * i] = digits[digest->hash[i] >> 4];
		out[2 * i + 1] = digits[digest->hash[i] & 15];
	}
	out[2 * (size_t)digest->hash_len] = '\0';
}

void bj_digest_str(const struct bj_digest *digest, char *out)
{
	size_t hex_len = 2 * (size_t)digest->hash_len;

	bj_digest_hex(digest, out);
	(void)snprintf(out + hex_len, BJ_DIGEST_STR_BYTES - hex_len, "/%llu",
		       (unsigned long long)digest->size_bytes);
}

static struct bj_digest finish(EVP_MD_CTX *ctx, enum bj_digest_fn fn, uint64_t n_bytes)
{
	struct bj_digest digest = { .fn = fn, .size_bytes = n_bytes };
	unsigned int hash_len = 0;

	bj_assert(EVP_DigestFinal_ex(ctx, digest.hash, &hash_len) == 1);
	bj_assert(hash_len == bj_digest_fn_len(fn));
	digest.hash_len = (uint8_t)hash_len;
	return digest;
}

/* Digests of memory have no way to fail, so that a thread without memory for its one context stops the process. */
static EVP_MD_CTX *get_thread_ctx(void)
{
	if (!thread_ctx) {
		thread_ctx = EVP_MD_CTX_new();
		bj_assert(thread_ctx);
		bj_assert(pthread_setspecific(ctx_key, thread_ctx) == 0);
	}
	return thread_ctx;
}

struct bj_digest bj_digest_of(enum bj_digest_fn fn, struct bj_str data)
{
	const EVP_MD *md = get_md(fn);

	bj_assert(md);
	EVP_MD_CTX *ctx = get_thread_ctx();
	bj_assert(EVP_DigestInit_ex2(ctx, md, NULL) == 1);
	bj_assert(EVP_DigestUpdate(ctx, data.ptr, data.len) == 1);
	return finish(ctx, fn, data.len);
}

int bj_hasher_new(enum bj_digest_fn fn, struct bj_hasher **out_hasher, struct bj_err *err)
{
	const EVP_MD *md = get_md(fn);

	if (bj_digest_fn_len(fn) == 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "digest function %d is not supported",
				  (int)fn);
	if (!md)
		return bj_err_set(err, BJ_INTERNAL, "OpenSSL has no SHA-256");
	struct bj_hasher *hasher = bj_malloc(sizeof(*hasher));
	if (!hasher)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for a hasher");
	*hasher = (struct bj_hasher){ .fn = fn, .n_bytes = 0, .ctx = EVP_MD_CTX_new() };
	if (!hasher->ctx || EVP_DigestInit_ex2(hasher->ctx, md, NULL) != 1) {
		bj_hasher_free(hasher);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for a hasher");
	}
	*out_hasher = hasher;
	return 0;
}

void bj_hasher_free(struct bj_hasher *hasher)
{
	if (!hasher)
		return;
	EVP_MD_CTX_free(hasher->ctx);
	bj_free(hasher);
}

void bj_hasher_update(struct bj_hasher *hasher, const void *data, size_t n_bytes)
{
	bj_assert(EVP_DigestUpdate(hasher->ctx, data, n_bytes) == 1);
	hasher->n_bytes += n_bytes;
}

struct bj_digest bj_hasher_finish(struct bj_hasher *hasher)
{
	struct bj_digest digest = finish(hasher->ctx, hasher->fn, hasher->n_bytes);

	bj_assert(EVP_DigestInit_ex2(hasher->ctx, get_md(hasher->fn), NULL) == 1);
	hasher->n_bytes = 0;
	return digest;
}
