// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "executor/base/macros.h"
#include "executor/service/resource.h"

/* sha256 of "hello\n" */
#define H "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
#define D "blobs/" H "/6"

struct row {
	const char *name;
	enum bj_code code;    /* BJ_OK: the next two are wanted */
	const char *instance; /* or what the error says */
	const char *uuid;     /* of an upload */
};

typedef int (*parse_fn)(struct bj_str name, struct bj_resource *out, struct bj_err *err);

static void expect_row(const struct row *row, parse_fn parse)
{
	struct bj_resource got = { .uuid = BJ_STR_LIT("untouched") };
	struct bj_err err = BJ_ERR_NULL;
	char text[BJ_DIGEST_STR_BYTES];
	int r = parse(bj_str_of(row->name), &got, &err);

	if (r != -(int)row->code)
		fail_msg("\"%s\" gave %d %s", row->name, r, err.msg);
	if (row->code != BJ_OK) {
		if (!strstr(err.msg, row->instance))
			fail_msg("\"%s\" gave \"%s\", which lacks \"%s\"", row->name, err.msg,
				 row->instance);
		assert_true(bj_str_eq(got.uuid, BJ_STR_LIT("untouched")));
		return;
	}
	if (!bj_str_eq(got.instance, bj_str_of(row->instance)) ||
	    !bj_str_eq(got.uuid, bj_str_of(row->uuid)))
		fail_msg("\"%s\" gave instance \"%.*s\", uuid \"%.*s\"", row->name,
			 BJ_STR_FMT(got.instance), BJ_STR_FMT(got.uuid));
	bj_digest_str(&got.digest, text);
	assert_string_equal(text, H "/6");
}

static void names_to_read(void **state)
{
	static const struct row rows[] = {
		{ D, BJ_OK, "", NULL },
		{ "main/" D, BJ_OK, "main", NULL },
		{ "x/y/" D, BJ_OK, "x/y", NULL },
		{ "a/b/c/d/e/" D, BJ_OK, "a/b/c/d/e", NULL },
		{ "\xc3\xa9 %/" D, BJ_OK, "\xc3\xa9 %", NULL },
		{ "Blobs/" D, BJ_OK, "Blobs", NULL }, /* words are compared exactly */
		{ "blobs2/" D, BJ_OK, "blobs2", NULL },
		{ "blobs/sha256/" H "/6", BJ_OK, "", NULL },

		{ "", BJ_INVALID_ARGUMENT, "is empty", NULL },
		{ "/", BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "/" D, BJ_INVALID_ARGUMENT, "empty segment", NULL },
		{ "a//" D, BJ_INVALID_ARGUMENT, "empty segment", NULL },
		{ "a//b/" D, BJ_INVALID_ARGUMENT, "empty segment", NULL },
		{ "main", BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "a/blobs/b/" D, BJ_INVALID_ARGUMENT, "size that is no number", NULL },
		{ "uploads/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "actions/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "actionResults/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "operations/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "capabilities/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "blobs", BJ_INVALID_ARGUMENT, "no {hash}/{size}", NULL },
		{ "blobs/", BJ_INVALID_ARGUMENT, "no {hash}/{size}", NULL },
		{ "blobs/" H, BJ_INVALID_ARGUMENT, "no {hash}/{size}", NULL },
		{ "blobs/" H "/", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/six", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/6 ", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/+6", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/06", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/0x6", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/" H "/-1", BJ_INVALID_ARGUMENT, "resource_name", NULL },
		{ "blobs/" H "/9223372036854775808", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ D "/", BJ_INVALID_ARGUMENT, "goes on after the size", NULL },
		{ D "/x", BJ_INVALID_ARGUMENT, "goes on after the size", NULL },
		{ "blobs/x/6", BJ_INVALID_ARGUMENT, "resource_name", NULL },
		{ "blobs//6", BJ_INVALID_ARGUMENT, "resource_name", NULL },
		{ "blobs/5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03/6",
		  BJ_INVALID_ARGUMENT, "resource_name", NULL },
		{ "blobs/" H "0/6", BJ_INVALID_ARGUMENT, "resource_name", NULL },
		{ "blobs/blake3/" H "/6", BJ_INVALID_ARGUMENT, "other than SHA-256", NULL },
		{ "blobs/sha384/" H "/6", BJ_INVALID_ARGUMENT, "other than SHA-256", NULL },
		{ "blobs/SHA256/" H "/6", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "blobs/sha256/sha256/" H "/6", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "compressed-blobs/zstd/" H "/6", BJ_UNIMPLEMENTED, "compressed", NULL },
		{ "main/compressed-blobs/zstd/" H "/6", BJ_UNIMPLEMENTED, "compressed", NULL },
		{ "a\nb", BJ_INVALID_ARGUMENT, "a\\nb", NULL }, /* never raw in a log */
	};
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_row(&rows[i], bj_resource_parse_read);
}

static void names_to_write(void **state)
{
	static const struct row rows[] = {
		{ "uploads/u/" D, BJ_OK, "", "u" },
		{ "main/uploads/u/" D, BJ_OK, "main", "u" },
		{ "x/y/uploads/c0ffee00-0000-4000-8000-000000000000/" D, BJ_OK, "x/y",
		  "c0ffee00-0000-4000-8000-000000000000" },
		{ "uploads/u/blobs/sha256/" H "/6", BJ_OK, "", "u" },
		/* Optional metadata is the client's, whatever it holds. */
		{ "uploads/u/" D "/", BJ_OK, "", "u" },
		{ "uploads/u/" D "/foo/bar", BJ_OK, "", "u" },
		{ "uploads/u/" D "//blobs/uploads", BJ_OK, "", "u" },
		{ "uploads/u/" D
		  "/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8"
		  "/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0",
		  BJ_OK, "", "u" },

		{ "", BJ_INVALID_ARGUMENT, "is empty", NULL },
		{ D, BJ_INVALID_ARGUMENT, "no \"uploads\"", NULL },
		{ "main/" D, BJ_INVALID_ARGUMENT, "no \"uploads\"", NULL },
		{ "/uploads/u/" D, BJ_INVALID_ARGUMENT, "empty segment", NULL },
		{ "a//uploads/u/" D, BJ_INVALID_ARGUMENT, "empty segment", NULL },
		{ "uploads", BJ_INVALID_ARGUMENT, "no {uuid}", NULL },
		{ "uploads/", BJ_INVALID_ARGUMENT, "no {uuid}", NULL },
		{ "uploads//" D, BJ_INVALID_ARGUMENT, "no {uuid}", NULL },
		{ "uploads/" D, BJ_INVALID_ARGUMENT, "no {uuid}", NULL },
		{ "uploads/u", BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "uploads/u/v/" D, BJ_INVALID_ARGUMENT, "no \"blobs\"", NULL },
		{ "uploads/u/blobs", BJ_INVALID_ARGUMENT, "no {hash}/{size}", NULL },
		{ "uploads/u/blobs/" H, BJ_INVALID_ARGUMENT, "no {hash}/{size}", NULL },
		{ "uploads/u/blobs/" H "/x", BJ_INVALID_ARGUMENT, "no number", NULL },
		{ "uploads/u/blobs/blake3/" H "/6", BJ_INVALID_ARGUMENT, "other than", NULL },
		{ "uploads/u/compressed-blobs/zstd/" H "/6", BJ_UNIMPLEMENTED, "compressed", NULL },
		{ "actions/uploads/u/" D, BJ_INVALID_ARGUMENT, "no \"uploads\"", NULL },
	};
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_row(&rows[i], bj_resource_parse_write);
}

/* Names that are long in each way there is. */
static void long_names(void **state)
{
	static char name[1 << 20];
	struct bj_resource got;
	struct bj_err err = BJ_ERR_NULL;
	(void)state;

	/* 62 segments and the three of the digest are one too many to be looked at. */
	size_t len = 0;
	for (int i = 0; i < 62; i++)
		len += (size_t)snprintf(name + len, sizeof(name) - len, "a/");
	(void)snprintf(name + len, sizeof(name) - len, D);
	assert_int_equal(bj_resource_parse_read(bj_str_of(name), &got, &err), -BJ_INVALID_ARGUMENT);
	bj_err_clear(&err);
	assert_int_equal(bj_resource_parse_read(bj_str_of(name + 4), &got, &err), 0);
	assert_int_equal(got.instance.len, 60 * 2 - 1);

	memset(name, 'a', BJ_INSTANCE_MAX_BYTES + 1);
	(void)snprintf(name + BJ_INSTANCE_MAX_BYTES + 1, 200, "/" D);
	assert_int_equal(bj_resource_parse_read(bj_str_of(name), &got, &err), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, "at most 1024 bytes"));
	bj_err_clear(&err);
	assert_int_equal(bj_resource_parse_read(bj_str_of(name + 1), &got, &err), 0);

	memset(name, '/', sizeof(name));
	assert_int_equal(bj_resource_parse_read(bj_str_n(name, sizeof(name)), &got, &err),
			 -BJ_INVALID_ARGUMENT);
	bj_err_clear(&err);
	assert_int_equal(bj_resource_parse_write(bj_str_n(name, sizeof(name)), &got, &err),
			 -BJ_INVALID_ARGUMENT);
	bj_err_clear(&err);
}

static void instances(void **state)
{
	static const struct {
		const char *name;
		bool is_good;
	} rows[] = {
		{ "", true },
		{ "main", true },
		{ "a/b/c", true },
		{ "blob", true },
		{ "a/blobs2", true },
		{ "/", false },
		{ "/a", false },
		{ "a/", false },
		{ "a//b", false },
		{ "blobs", false },
		{ "a/uploads", false },
		{ "actions/a", false },
		{ "a/actionResults/b", false },
		{ "operations", false },
		{ "capabilities", false },
		{ "compressed-blobs", false },
	};
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_err err = BJ_ERR_NULL;
		int r = bj_instance_check(bj_str_of(rows[i].name), "field", &err);
		if (r != (rows[i].is_good ? 0 : -BJ_INVALID_ARGUMENT))
			fail_msg("\"%s\" gave %d", rows[i].name, r);
		assert_true(r == 0 || strstr(err.msg, "field"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_to_read),
		cmocka_unit_test(names_to_write),
		cmocka_unit_test(long_names),
		cmocka_unit_test(instances),
	};
	return cmocka_run_group_tests_name("service/resource", tests, NULL, NULL);
}
