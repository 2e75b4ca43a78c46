// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/arena.h"
#include "executor/base/str.h"

#define S(literal) BJ_STR_LIT(literal)

static void assert_str(struct bj_str got, struct bj_str want)
{
	assert_int_equal(got.len, want.len);
	if (want.len)
		assert_memory_equal(got.ptr, want.ptr, want.len);
}

static void prefix_and_suffix(void **state)
{
	(void)state;
	assert_true(bj_str_has_prefix(S("abc"), S("ab")));
	assert_true(bj_str_has_prefix(S("abc"), S("abc")));
	assert_false(bj_str_has_prefix(S("abc"), S("abcd")));
	assert_false(bj_str_has_prefix(S("abc"), S("b")));
	assert_true(bj_str_has_prefix(S(""), BJ_STR_NULL));
	assert_true(bj_str_has_prefix(BJ_STR_NULL, S("")));
	assert_true(bj_str_has_suffix(S("abc"), S("bc")));
	assert_true(bj_str_has_suffix(S("abc"), S("abc")));
	assert_false(bj_str_has_suffix(S("abc"), S("xabc")));
	assert_false(bj_str_has_suffix(S("abc"), S("b")));
	assert_true(bj_str_has_suffix(BJ_STR_NULL, BJ_STR_NULL));
}

static void cmp_orders_bytes(void **state)
{
	(void)state;
	assert_true(bj_str_cmp(S("a"), S("b")) < 0);
	assert_true(bj_str_cmp(S("b"), S("a")) > 0);
	assert_int_equal(bj_str_cmp(S("a"), S("a")), 0);
	assert_true(bj_str_cmp(S("a"), S("ab")) < 0);
	assert_true(bj_str_cmp(S("ab"), S("a")) > 0);
	assert_true(bj_str_cmp(S("a"), S("\xff")) < 0); /* unsigned bytes */
	assert_true(bj_str_cmp(BJ_STR_NULL, S("\0")) < 0);
	assert_int_equal(bj_str_cmp(BJ_STR_NULL, S("")), 0);
}

static void find_and_sub_clamp(void **state)
{
	(void)state;
	assert_int_equal(bj_str_find(S("a/b/c"), '/', 0), 1);
	assert_int_equal(bj_str_find(S("a/b/c"), '/', 1), 1);
	assert_int_equal(bj_str_find(S("a/b/c"), '/', 2), 3);
	assert_int_equal(bj_str_find(S("a/b/c"), '/', 4), 5);
	assert_int_equal(bj_str_find(S("a/b/c"), '/', 99), 5);
	assert_int_equal(bj_str_find(BJ_STR_NULL, '/', 0), 0);
	assert_str(bj_str_sub(S("hello"), 1, 3), S("el"));
	assert_str(bj_str_sub(S("hello"), 3, 99), S("lo"));
	assert_str(bj_str_sub(S("hello"), 4, 2), S(""));
	assert_str(bj_str_sub(S("hello"), SIZE_MAX, SIZE_MAX), S(""));
	assert_null(bj_str_sub(BJ_STR_NULL, 0, 5).ptr);
}

static void cut_yields_every_part(void **state)
{
	(void)state;
	static const struct {
		struct bj_str whole;
		size_t n_parts;
		struct bj_str parts[4];
	} rows[] = {
		{ { "a/bc/d", 6 }, 3, { { "a", 1 }, { "bc", 2 }, { "d", 1 } } },
		{ { "a", 1 }, 1, { { "a", 1 } } },
		{ { "", 0 }, 1, { { "", 0 } } },
		{ { "/", 1 }, 2, { { "", 0 }, { "", 0 } } },
		{ { "a/", 2 }, 2, { { "a", 1 }, { "", 0 } } },
		{ { "//b", 3 }, 3, { { "", 0 }, { "", 0 }, { "b", 1 } } },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_str rest = rows[i].whole;
		size_t n = 0;
		while (rest.ptr) {
			assert_true(n < rows[i].n_parts);
			assert_str(bj_str_cut(&rest, '/'), rows[i].parts[n++]);
		}
		assert_int_equal(n, rows[i].n_parts);
		assert_int_equal(rest.len, 0);
		assert_int_equal(bj_str_cut(&rest, '/').len, 0); /* at the end it stays there */
		assert_null(rest.ptr);
	}
}

static void utf8_table(void **state)
{
	(void)state;
	static const struct {
		struct bj_str s;
		bool is_valid;
	} rows[] = {
		{ { "", 0 }, true },
		{ { NULL, 0 }, true },
		{ { "a\0b", 3 }, true },
		{ { "\xc3\xa9", 2 }, true },	      /* U+00E9 */
		{ { "\xc2\x80", 2 }, true },	      /* U+0080, the smallest of two bytes */
		{ { "\xdf\xbf", 2 }, true },	      /* U+07FF */
		{ { "\xe0\xa0\x80", 3 }, true },      /* U+0800 */
		{ { "\xed\x9f\xbf", 3 }, true },      /* U+D7FF, before the surrogates */
		{ { "\xee\x80\x80", 3 }, true },      /* U+E000, after them */
		{ { "\xef\xbf\xbf", 3 }, true },      /* U+FFFF, a noncharacter but well-formed */
		{ { "\xf0\x90\x80\x80", 4 }, true },  /* U+10000 */
		{ { "\xf4\x8f\xbf\xbf", 4 }, true },  /* U+10FFFF */
		{ { "\x80", 1 }, false },	      /* a lone continuation */
		{ { "\xc0\x80", 2 }, false },	      /* overlong NUL */
		{ { "\xc1\xbf", 2 }, false },	      /* overlong */
		{ { "\xe0\x9f\xbf", 3 }, false },     /* overlong */
		{ { "\xf0\x8f\xbf\xbf", 4 }, false }, /* overlong */
		{ { "\xed\xa0\x80", 3 }, false },     /* U+D800 */
		{ { "\xed\xbf\xbf", 3 }, false },     /* U+DFFF */
		{ { "\xf4\x90\x80\x80", 4 }, false }, /* U+110000 */
		{ { "\xf5\x80\x80\x80", 4 }, false },
		{ { "\xff", 1 }, false },
		{ { "\xfe", 1 }, false },
		{ { "\xc3", 1 }, false }, /* cut short */
		{ { "\xe2\x82", 2 }, false },
		{ { "\xf0\x9f\x98", 3 }, false },
		{ { "\xc3(", 2 }, false },
		{ { "12345678\xff", 9 }, false }, /* behind a whole word of ASCII */
		{ { "1234567\xc3\xa9"
		    "12345678",
		    17 },
		  true },
		{ { "12345678"
		    "1234567\xc3",
		    16 },
		  false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		if (bj_str_is_utf8(rows[i].s) != rows[i].is_valid)
			fail_msg("row %zu", i);
}

/*
 * The number of well-formed strings of a length is known: one byte 128; two 128^2 + 1,920 (U+0080..U+07FF); three that
 * begin with a byte >= 0x80: 1,920 * 128 + 61,440 (U+0800..U+FFFF less 2,048 surrogates).
 */
static void utf8_counts(void **state)
{
	(void)state;
	size_t n1 = 0;
	size_t n2 = 0;
	size_t n3 = 0;
	for (unsigned int a = 0; a < 256; a++) {
		char s[3] = { (char)a, 0, 0 };
		n1 += bj_str_is_utf8(bj_str_n(s, 1));
		for (unsigned int b = 0; b < 256; b++) {
			s[1] = (char)b;
			n2 += bj_str_is_utf8(bj_str_n(s, 2));
			for (unsigned int c = 0; a >= 128 && c < 256; c++) {
				s[2] = (char)c;
				n3 += bj_str_is_utf8(bj_str_n(s, 3));
			}
		}
	}
	assert_int_equal(n1, 128);
	assert_int_equal(n2, 16384 + 1920);
	assert_int_equal(n3, 1920 * 128 + 61440);
}

/* Four bytes: 1,048,576 code points are 256 pairs of first two bytes, each with 64 * 64 endings. */
static void utf8_counts_of_four_bytes(void **state)
{
	(void)state;
	static const unsigned char ends[] = { 0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff };
	size_t n = 0;
	for (unsigned int a = 0xf0; a < 256; a++) {
		for (unsigned int b = 0; b < 256; b++) {
			for (size_t c = 0; c < sizeof(ends) * sizeof(ends); c++) {
				char s[4] = { (char)a, (char)b, (char)ends[c / sizeof(ends)],
					      (char)ends[c % sizeof(ends)] };
				n += bj_str_is_utf8(bj_str_n(s, 4));
			}
		}
	}
	assert_int_equal(n, 256 * 2 * 2);
}

static void u64_is_strict(void **state)
{
	(void)state;
	uint64_t v;
	assert_true(bj_str_to_u64(S("0"), &v) && v == 0);
	assert_true(bj_str_to_u64(S("7"), &v) && v == 7);
	assert_true(bj_str_to_u64(S("18446744073709551615"), &v) && v == UINT64_MAX);
	static const char *const bad[] = { "",
					   "00",
					   "01",
					   "-1",
					   "+1",
					   " 1",
					   "1 ",
					   "1.",
					   "0x1",
					   "1e3",
					   "1_0",
					   "abc",
					   "/",
					   ":",
					   "-",
					   "18446744073709551616",
					   "18446744073709551620",
					   "99999999999999999999",
					   "184467440737095516150" };
	v = 42;
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++)
		if (bj_str_to_u64(bj_str_of(bad[i]), &v) || v != 42)
			fail_msg("\"%s\" was taken for %llu", bad[i], (unsigned long long)v);
	assert_false(bj_str_to_u64(S("1\0"), &v));
	assert_false(bj_str_to_u64(BJ_STR_NULL, &v));
	assert_true(bj_str_to_u64(bj_str_n("12345", 2), &v) && v == 12); /* not beyond the view */
}

static void i64_is_strict(void **state)
{
	(void)state;
	int64_t v;
	assert_true(bj_str_to_i64(S("0"), &v) && v == 0);
	assert_true(bj_str_to_i64(S("-1"), &v) && v == -1);
	assert_true(bj_str_to_i64(S("9223372036854775807"), &v) && v == INT64_MAX);
	assert_true(bj_str_to_i64(S("-9223372036854775808"), &v) && v == INT64_MIN);
	static const char *const bad[] = { "",
					   "-",
					   "-0",
					   "--1",
					   "+1",
					   "-01",
					   "- 1",
					   "9223372036854775808",
					   "-9223372036854775809",
					   "18446744073709551616" };
	v = 42;
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++)
		if (bj_str_to_i64(bj_str_of(bad[i]), &v) || v != 42)
			fail_msg("\"%s\" was taken for %lld", bad[i], (long long)v);
}

static void dup_keeps_nul_bytes(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 4096);
	assert_memory_equal(bj_str_dup(&arena, S("a\0b")), "a\0b\0", 4);
	assert_string_equal(bj_str_dup(&arena, BJ_STR_NULL), "");
	assert_null(bj_str_dup(&arena, bj_str_n("x", 5000)));
}

static void printable_table(void **state)
{
	(void)state;
	static const struct {
		struct bj_str in;
		struct bj_str out;
	} rows[] = {
		{ { "", 0 }, { "", 0 } },
		{ { NULL, 0 }, { "", 0 } },
		{ { "t/secret.h", 10 }, { "t/secret.h", 10 } },
		{ { "caf\xc3\xa9 \xf0\x9f\x94\x94", 10 }, { "caf\xc3\xa9 \xf0\x9f\x94\x94", 10 } },
		{ { "a\nb\tc", 5 }, { "a\\nb\\tc", 7 } },
		{ { "\r\0", 2 }, { "\\x0d\\x00", 8 } },
		{ { "\x1b[31m", 5 }, { "\\x1b[31m", 8 } },
		{ { "\x7f", 1 }, { "\\x7f", 4 } },
		{ { "\\n", 2 }, { "\\\\n", 3 } },
		{ { "\xff\xfe", 2 }, { "\\xff\\xfe", 8 } },
		{ { "\xc3", 1 }, { "\\xc3", 4 } },
		{ { "\xc3\xc3\xa9", 3 }, { "\\xc3\xc3\xa9", 6 } },
		{ { "\xed\xa0\x80", 3 }, { "\\xed\\xa0\\x80", 12 } },
		{ { "\xc2\x9b", 2 }, { "\\xc2\\x9b", 8 } },	      /* C1: CSI */
		{ { "\xc2\x80", 2 }, { "\\xc2\\x80", 8 } },	      /* C1, first */
		{ { "\xc2\x9f", 2 }, { "\\xc2\\x9f", 8 } },	      /* C1, last */
		{ { "\xc2\xa0", 2 }, { "\xc2\xa0", 2 } },	      /* behind C1 */
		{ { "\xd8\x9c", 2 }, { "\\xd8\\x9c", 8 } },	      /* U+061C */
		{ { "\xe2\x80\x8d", 3 }, { "\xe2\x80\x8d", 3 } },     /* U+200D, a joiner */
		{ { "\xe2\x80\x8e", 3 }, { "\\xe2\\x80\\x8e", 12 } }, /* U+200E */
		{ { "\xe2\x80\x8f", 3 }, { "\\xe2\\x80\\x8f", 12 } }, /* U+200F */
		{ { "\xe2\x80\x90", 3 }, { "\xe2\x80\x90", 3 } },     /* U+2010, a hyphen */
		{ { "\xe2\x80\xa7", 3 }, { "\xe2\x80\xa7", 3 } },     /* U+2027 */
		{ { "\xe2\x80\xa8", 3 }, { "\\xe2\\x80\\xa8", 12 } }, /* U+2028 */
		{ { "\xe2\x80\xa9", 3 }, { "\\xe2\\x80\\xa9", 12 } }, /* U+2029 */
		{ { "\xe2\x80\xaa", 3 }, { "\\xe2\\x80\\xaa", 12 } }, /* U+202A */
		{ { "\xe2\x80\xae", 3 }, { "\\xe2\\x80\\xae", 12 } }, /* U+202E */
		{ { "\xe2\x80\xaf", 3 }, { "\xe2\x80\xaf", 3 } },     /* U+202F */
		{ { "\xe2\x81\xa5", 3 }, { "\xe2\x81\xa5", 3 } },     /* U+2065 */
		{ { "\xe2\x81\xa6", 3 }, { "\\xe2\\x81\\xa6", 12 } }, /* U+2066 */
		{ { "\xe2\x81\xa9", 3 }, { "\\xe2\\x81\\xa9", 12 } }, /* U+2069 */
		{ { "\xe2\x81\xaa", 3 }, { "\xe2\x81\xaa", 3 } },     /* U+206A */
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_str got = bj_str_printable(&arena, rows[i].in, 100);
		if (!bj_str_eq(got, rows[i].out))
			fail_msg("row %zu: \"%.*s\"", i, BJ_STR_FMT(got));
		assert_int_equal(got.ptr[got.len], '\0');
	}
}

static void printable_is_cut_with_an_ellipsis(void **state)
{
	(void)state;
	static const struct {
		struct bj_str in;
		size_t max_bytes;
		struct bj_str out;
	} rows[] = {
		{ { "abcdef", 6 }, 6, { "abcdef", 6 } },
		{ { "abcdef", 6 }, 5, { "ab\xe2\x80\xa6", 5 } },
		{ { "abcdef", 6 }, 4, { "a\xe2\x80\xa6", 4 } },
		{ { "abcdef", 6 }, 3, { "\xe2\x80\xa6", 3 } },
		{ { "abcdef", 6 }, 2, { "", 0 } }, /* no room for the ellipsis */
		{ { "abcdef", 6 }, 0, { "", 0 } },
		{ { "", 0 }, 0, { "", 0 } },
		{ { "ab\n", 3 }, 4, { "ab\\n", 4 } },
		{ { "ab\nx", 4 }, 4, { "a\xe2\x80\xa6", 4 } },
		{ { "a\nbcd", 5 }, 5, { "a\xe2\x80\xa6", 4 } }, /* no half of an escape */
		{ { "\xc3\xa9\xc3\xa9\xc3\xa9", 6 }, 5, { "\xc3\xa9\xe2\x80\xa6", 5 } },
		{ { "\xc3\xa9\xc3\xa9\xc3\xa9", 6 },
		  4,
		  { "\xe2\x80\xa6", 3 } }, /* nor of a character */
	};
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_str got = bj_str_printable(&arena, rows[i].in, rows[i].max_bytes);
		if (!bj_str_eq(got, rows[i].out))
			fail_msg("row %zu: \"%.*s\"", i, BJ_STR_FMT(got));
	}
}

/* Whatever goes in, what comes out is UTF-8 without controls, within the limit, and again printable as it is. */
static void printable_holds_its_promises_for_any_bytes(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	uint32_t x = 1;
	for (int round = 0; round < 20000; round++) {
		char in[24];
		for (size_t i = 0; i < sizeof(in); i++) {
			static const unsigned char lively[] = {
				0xc2, 0xe2, 0x80, 0xa8, 0xf0, '\\'
			};
			x = x * 1664525u + 1013904223u;
			in[i] = (char)(x >> 30 ? lively[(x >> 20) % sizeof(lively)] : x >> 20);
		}
		size_t max_bytes = x % 60;
		struct bj_str out = bj_str_printable(&arena, bj_str_n(in, sizeof(in)), max_bytes);
		assert_true(out.len <= max_bytes);
		assert_true(bj_str_is_utf8(out));
		for (size_t i = 0; i < out.len; i++)
			assert_true((unsigned char)out.ptr[i] >= 0x20 && out.ptr[i] != 0x7f);
		bj_arena_reset(&arena);
	}
}

static void printable_without_memory_is_empty(void **state)
{
	(void)state;
	struct bj_arena arena;
	bj_arena_init(&arena, 0);
	bj_alloc_fail_after(0);
	struct bj_str out = bj_str_printable(&arena, S("abc"), 100);
	assert_true(bj_alloc_fail_disarm());
	assert_int_equal(out.len, 0);
	bj_arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefix_and_suffix),
		cmocka_unit_test(cmp_orders_bytes),
		cmocka_unit_test(find_and_sub_clamp),
		cmocka_unit_test(cut_yields_every_part),
		cmocka_unit_test(utf8_table),
		cmocka_unit_test(utf8_counts),
		cmocka_unit_test(utf8_counts_of_four_bytes),
		cmocka_unit_test(u64_is_strict),
		cmocka_unit_test(i64_is_strict),
		cmocka_unit_test(dup_keeps_nul_bytes),
		cmocka_unit_test(printable_table),
		cmocka_unit_test(printable_is_cut_with_an_ellipsis),
		cmocka_unit_test(printable_holds_its_promises_for_any_bytes),
		cmocka_unit_test(printable_without_memory_is_empty),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
