// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <pthread.h>

#include "executor/base/alloc.h"
#include "executor/base/err.h"
#include "executor/cas/digest.h"

/* FIPS 180-4's examples, and the empty message. */
static const struct {
	const char *message;
	const char *hex;
} known[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "hello\n", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" },
};
static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void expect_hex(const struct bj_digest *digest, const char *hex)
{
	char got[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(digest, got);
	assert_string_equal(got, hex);
}

static void known_messages(void **state)
{
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(known); i++) {
		struct bj_digest digest =
			bj_digest_of(BJ_DIGEST_SHA256, bj_str_of(known[i].message));
		expect_hex(&digest, known[i].hex);
		assert_int_equal(digest.size_bytes, strlen(known[i].message));
		assert_int_equal(digest.hash_len, 32);
		assert_int_equal(digest.fn, BJ_DIGEST_SHA256);
	}
}

static void hasher_takes_pieces_and_starts_again(void **state)
{
	(void)state;
	struct bj_hasher *hasher = NULL;
	struct bj_err err = BJ_ERR_NULL;
	char as[1000];
	memset(as, 'a', sizeof(as));
	assert_int_equal(bj_hasher_new(BJ_DIGEST_SHA256, &hasher, &err), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++)
			bj_hasher_update(hasher, as, sizeof(as));
		struct bj_digest digest = bj_hasher_finish(hasher);
		expect_hex(&digest, million_a);
		assert_int_equal(digest.size_bytes, 1000000);
	}
	struct bj_digest digest = bj_hasher_finish(hasher);
	assert_true(bj_digest_is_empty(&digest));
	bj_hasher_update(hasher, "ab", 2);
	bj_hasher_update(hasher, NULL, 0);
	bj_hasher_update(hasher, "c", 1);
	digest = bj_hasher_finish(hasher);
	expect_hex(&digest, known[1].hex);
	bj_hasher_free(hasher);
	bj_hasher_free(NULL);
}

static void hasher_of_an_unknown_function_is_refused(void **state)
{
	(void)state;
	struct bj_hasher *hasher = NULL;
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bj_hasher_new((enum bj_digest_fn)9, &hasher, &err), -BJ_INVALID_ARGUMENT);
	assert_null(hasher);
}

static void each_allocation_of_a_hasher_fails_once(void **state)
{
	(void)state;
	uint64_t n_failures = 0;
	for (uint64_t n = 0;; n++) {
		struct bj_hasher *hasher = NULL;
		struct bj_err err = BJ_ERR_NULL;
		bj_alloc_fail_after(n);
		int r = bj_hasher_new(BJ_DIGEST_SHA256, &hasher, &err);
		bool has_failed = bj_alloc_fail_disarm();
		assert_int_equal(r, has_failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		bj_hasher_free(hasher);
		n_failures += has_failed;
		if (!has_failed)
			break;
	}
	assert_true(n_failures > 0);
}

static void parse_takes_what_str_gives(void **state)
{
	(void)state;
	struct bj_digest digest, want = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("abc"));
	struct bj_err err = BJ_ERR_NULL;
	char text[BJ_DIGEST_STR_BYTES];
	assert_int_equal(
		bj_digest_parse(BJ_DIGEST_SHA256, bj_str_of(known[1].hex), 3, "d", &digest, &err),
		0);
	assert_true(bj_digest_eq(&digest, &want));
	bj_digest_str(&digest, text);
	assert_string_equal(text,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad/3");
	assert_int_equal(bj_digest_parse(BJ_DIGEST_SHA256, bj_str_of(known[0].hex), INT64_MAX, "d",
					 &digest, &err),
			 0);
	bj_digest_str(&digest, text);
	assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
				  "/9223372036854775807");
	assert_false(bj_digest_is_empty(&digest));
}

static const struct {
	const char *hash;
	int64_t size_bytes;
	int fn;
	const char *text; /* part of the message */
} refused[] = {
	{ "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03", 6, 1, "lower-case" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be0", 6, 1,
	  "(63 characters)" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be033", 6, 1,
	  "(65 characters)" },
	{ "", 0, 1, "(0 characters)" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be0g", 6, 1, "be0g" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be0\n", 6, 1, "\\n" },
	{ "../../../../../../../../../../../../../../../../../../etc/passwd", 6, 1,
	  "../etc/passwd" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", -1, 1,
	  "-1 is negative" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", INT64_MIN, 1,
	  "negative" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", 6, 0, "function 0" },
	{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", 6, 9, "function 9" },
};

static void parse_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(refused); i++) {
		struct bj_digest digest = { .size_bytes = 77 };
		struct bj_err err = BJ_ERR_NULL;
		int r = bj_digest_parse((enum bj_digest_fn)refused[i].fn,
					bj_str_of(refused[i].hash), refused[i].size_bytes,
					"action_digest", &digest, &err);
		assert_int_equal(r, -BJ_INVALID_ARGUMENT);
		if (!strstr(err.msg, refused[i].text) || !strstr(err.msg, "action_digest"))
			fail_msg("row %zu: \"%s\" lacks \"%s\"", i, err.msg, refused[i].text);
		assert_int_equal(digest.size_bytes, 77);
	}
}

static void equality_is_of_hash_size_and_function(void **state)
{
	(void)state;
	struct bj_digest a = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("abc"));
	struct bj_digest b = a;
	memset(b.hash + 32, 0x55, sizeof(b.hash) - 32); /* not part of the value */
	assert_true(bj_digest_eq(&a, &b));
	b.size_bytes++;
	assert_false(bj_digest_eq(&a, &b));
	b = a;
	b.hash[31] ^= 1;
	assert_false(bj_digest_eq(&a, &b));
	b = a;
	b.fn = BJ_DIGEST_UNKNOWN;
	assert_false(bj_digest_eq(&a, &b));
}

static void the_empty_digest(void **state)
{
	(void)state;
	struct bj_digest empty = bj_digest_empty(BJ_DIGEST_SHA256);
	struct bj_digest other = empty;
	expect_hex(&empty, known[0].hex);
	assert_true(bj_digest_is_empty(&empty));
	other.size_bytes = 1;
	assert_false(bj_digest_is_empty(&other));
	other = empty;
	other.hash[0] ^= 1;
	assert_false(bj_digest_is_empty(&other));
}

static void names_of_functions(void **state)
{
	(void)state;
	assert_string_equal(bj_digest_fn_name(BJ_DIGEST_SHA256), "sha256");
	assert_null(bj_digest_fn_name(BJ_DIGEST_UNKNOWN));
	assert_int_equal(bj_digest_fn_len(BJ_DIGEST_SHA256), 32);
	assert_int_equal(bj_digest_fn_len((enum bj_digest_fn)2), 0);
}

static void *hash_many(void *arg)
{
	uint64_t *n_wrong = arg;
	struct bj_digest want = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("abc"));
	for (int i = 0; i < 2000; i++) {
		struct bj_digest got = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("abc"));
		*n_wrong += !bj_digest_eq(&got, &want);
	}
	*n_wrong += want.hash[0] != 0xba;
	return NULL;
}

static void threads_do_not_share_a_context(void **state)
{
	(void)state;
	pthread_t threads[8];
	uint64_t n_wrong[8] = { 0 };
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hash_many, &n_wrong[i]), 0);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(n_wrong[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_messages),
		cmocka_unit_test(hasher_takes_pieces_and_starts_again),
		cmocka_unit_test(hasher_of_an_unknown_function_is_refused),
		cmocka_unit_test(each_allocation_of_a_hasher_fails_once),
		cmocka_unit_test(parse_takes_what_str_gives),
		cmocka_unit_test(parse_refuses),
		cmocka_unit_test(equality_is_of_hash_size_and_function),
		cmocka_unit_test(the_empty_digest),
		cmocka_unit_test(names_of_functions),
		cmocka_unit_test(threads_do_not_share_a_context),
	};
	return cmocka_run_group_tests_name("cas_digest", tests, NULL, NULL);
}
