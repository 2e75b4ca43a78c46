// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/buf.h"
#include "executor/base/json.h"

/* Runs @write with the indentation given and compares the text. */
static void expect_json(void (*write)(struct bj_json *json), uint32_t indent_spaces,
			const char *want)
{
	struct bj_buf buf = BJ_BUF_INIT(1 << 20);
	struct bj_json json;
	bj_json_init(&json, &buf, indent_spaces);
	write(&json);
	assert_true(bj_json_finish(&json));
	assert_string_equal(bj_buf_cstr(&buf), want);
	bj_buf_deinit(&buf);
}

static void write_report(struct bj_json *json)
{
	bj_json_object_begin(json);
	bj_json_field_cstr(json, "kind", "undeclared_read");
	bj_json_field_u64(json, "count", 2);
	bj_json_key(json, "paths");
	bj_json_array_begin(json);
	bj_json_cstr(json, "a");
	bj_json_object_begin(json);
	bj_json_object_end(json);
	bj_json_array_begin(json);
	bj_json_array_end(json);
	bj_json_array_end(json);
	bj_json_field_bool(json, "cut", false);
	bj_json_key(json, "inner");
	bj_json_object_begin(json);
	bj_json_field_i64(json, "x", -1);
	bj_json_object_end(json);
	bj_json_object_end(json);
}

static void compact_has_no_spaces(void **state)
{
	(void)state;
	expect_json(write_report, 0,
		    "{\"kind\":\"undeclared_read\",\"count\":2,\"paths\":[\"a\",{},[]],"
		    "\"cut\":false,\"inner\":{\"x\":-1}}");
}

static void indented_has_a_line_each(void **state)
{
	(void)state;
	expect_json(write_report, 2,
		    "{\n"
		    "  \"kind\": \"undeclared_read\",\n"
		    "  \"count\": 2,\n"
		    "  \"paths\": [\n"
		    "    \"a\",\n"
		    "    {},\n"
		    "    []\n"
		    "  ],\n"
		    "  \"cut\": false,\n"
		    "  \"inner\": {\n"
		    "    \"x\": -1\n"
		    "  }\n"
		    "}\n");
}

static void write_scalars(struct bj_json *json)
{
	bj_json_array_begin(json);
	bj_json_u64(json, 0);
	bj_json_u64(json, UINT64_MAX);
	bj_json_i64(json, INT64_MIN);
	bj_json_bool(json, true);
	bj_json_bool(json, false);
	bj_json_null(json);
	bj_json_cstr(json, NULL);
	bj_json_cstr(json, "");
	bj_json_str(json, BJ_STR_NULL);
	bj_json_array_end(json);
}

static void scalars_are_exact(void **state)
{
	(void)state;
	expect_json(write_scalars, 0,
		    "[0,18446744073709551615,-9223372036854775808,true,false,null,null,\"\",\"\"]");
}

static void write_only_null(struct bj_json *json)
{
	bj_json_null(json);
}

static void a_scalar_may_stand_alone(void **state)
{
	(void)state;
	expect_json(write_only_null, 0, "null");
	expect_json(write_only_null, 4, "null\n");
}

static void strings_are_escaped(void **state)
{
	(void)state;
	static const struct {
		struct bj_str in;
		const char *out;
	} rows[] = {
		{ { "plain/path.h", 12 }, "\"plain/path.h\"" },
		{ { "a\"b\\c", 5 }, "\"a\\\"b\\\\c\"" },
		{ { "\b\f\n\r\t", 5 }, "\"\\b\\f\\n\\r\\t\"" },
		{ { "\0\x01\x1f", 3 }, "\"\\u0000\\u0001\\u001f\"" },
		{ { "\x7f", 1 }, "\"\\u007f\"" },
		{ { "\xc2\x9b", 2 }, "\"\\u009b\"" },
		{ { "\xe2\x80\xae", 3 }, "\"\\u202e\"" },
		{ { "\xe2\x80\xa8", 3 }, "\"\\u2028\"" },
		{ { "\xd8\x9c", 2 }, "\"\\u061c\"" },
		{ { "caf\xc3\xa9", 5 }, "\"caf\xc3\xa9\"" },
		{ { "\xf0\x9f\x94\x94", 4 }, "\"\xf0\x9f\x94\x94\"" },
		{ { "a\xff"
		    "b",
		    3 },
		  "\"a\xef\xbf\xbd"
		  "b\"" },
		{ { "\xe2\x82", 2 }, "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ { "\xed\xa0\x80", 3 }, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_buf buf = BJ_BUF_INIT(100);
		struct bj_json json;
		bj_json_init(&json, &buf, 0);
		bj_json_str(&json, rows[i].in);
		assert_true(bj_json_finish(&json));
		assert_string_equal(bj_buf_cstr(&buf), rows[i].out);
		bj_buf_deinit(&buf);
	}
}

static void write_escaped_key(struct bj_json *json)
{
	bj_json_object_begin(json);
	bj_json_field_str(json, "a\"\n", BJ_STR_LIT("v"));
	bj_json_object_end(json);
}

static void keys_are_escaped(void **state)
{
	(void)state;
	expect_json(write_escaped_key, 0, "{\"a\\\"\\n\":\"v\"}");
}

static void write_nested(struct bj_json *json)
{
	for (int i = 0; i < BJ_JSON_MAX_DEPTH; i++)
		bj_json_array_begin(json);
	for (int i = 0; i < BJ_JSON_MAX_DEPTH; i++)
		bj_json_array_end(json);
}

static void the_deepest_nesting_works(void **state)
{
	(void)state;
	expect_json(write_nested, 0,
		    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
}

static void each_allocation_may_fail(void **state)
{
	(void)state;
	uint64_t n = 0;
	for (;; n++) {
		struct bj_buf buf = BJ_BUF_INIT(1 << 20);
		struct bj_json json;
		bj_json_init(&json, &buf, 40);
		bj_alloc_fail_after(n);
		write_report(&json);
		bool is_whole = bj_json_finish(&json);
		bool did_fail = bj_alloc_fail_disarm();
		assert_int_equal(is_whole, !did_fail);
		bj_buf_deinit(&buf);
		if (!did_fail)
			break;
	}
	assert_true(n >= 2);
}

static void the_limit_of_the_buffer_is_reported(void **state)
{
	(void)state;
	for (size_t max_bytes = 0; max_bytes <= 8; max_bytes++) {
		struct bj_buf buf = BJ_BUF_INIT(max_bytes);
		struct bj_json json;
		bj_json_init(&json, &buf, 0);
		bj_json_cstr(&json, "abc\n"); /* "abc\n" with quotes and escape: 7 bytes */
		assert_int_equal(bj_json_finish(&json), max_bytes >= 7);
		bj_buf_deinit(&buf);
	}
}

/* ---- misuse ---- */

static void start_object(struct bj_json *json)
{
	static struct bj_buf buf = BJ_BUF_INIT(1000);
	bj_json_init(json, &buf, 0);
	bj_json_object_begin(json);
}

static void value_without_key(void *arg)
{
	start_object(arg);
	bj_json_null(arg);
}

static void key_without_value(void *arg)
{
	start_object(arg);
	bj_json_key(arg, "k");
	bj_json_object_end(arg);
}

static void two_keys(void *arg)
{
	start_object(arg);
	bj_json_key(arg, "k");
	bj_json_key(arg, "k");
}

static void wrong_end(void *arg)
{
	start_object(arg);
	bj_json_array_end(arg);
}

static void too_many_ends(void *arg)
{
	start_object(arg);
	bj_json_object_end(arg);
	bj_json_object_end(arg);
}

static void two_values(void *arg)
{
	start_object(arg);
	bj_json_object_end(arg);
	bj_json_null(arg);
}

static void key_in_an_array(void *arg)
{
	start_object(arg);
	bj_json_key(arg, "k");
	bj_json_array_begin(arg);
	bj_json_key(arg, "k");
}

static void unfinished(void *arg)
{
	start_object(arg);
	BJ_IGNORE(bj_json_finish(arg)); /* does not return */
}

static void nothing_at_all(void *arg)
{
	struct bj_buf buf = BJ_BUF_INIT(1000);
	bj_json_init(arg, &buf, 0);
	BJ_IGNORE(bj_json_finish(arg)); /* does not return */
}

static void too_deep(void *arg)
{
	start_object(arg);
	bj_json_key(arg, "k");
	for (int i = 0; i < BJ_JSON_MAX_DEPTH; i++)
		bj_json_array_begin(arg);
}

static void misuse_is_asserted(void **state)
{
	(void)state;
	static void (*const calls[])(void *arg) = {
		value_without_key, key_without_value, two_keys,	  wrong_end,	  too_many_ends,
		two_values,	   key_in_an_array,   unfinished, nothing_at_all, too_deep,
	};
	struct bj_json json;
	for (size_t i = 0; i < BJ_ARRAY_LEN(calls); i++)
		expect_abort(calls[i], &json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compact_has_no_spaces),
		cmocka_unit_test(indented_has_a_line_each),
		cmocka_unit_test(scalars_are_exact),
		cmocka_unit_test(a_scalar_may_stand_alone),
		cmocka_unit_test(strings_are_escaped),
		cmocka_unit_test(keys_are_escaped),
		cmocka_unit_test(the_deepest_nesting_works),
		cmocka_unit_test(each_allocation_may_fail),
		cmocka_unit_test(the_limit_of_the_buffer_is_reported),
		cmocka_unit_test(misuse_is_asserted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
