// SPDX-License-Identifier: Apache-2.0
/*
 * bj_pb_unpack() and bj_pb_pack(). All wire bytes were worked out by hand: a tag is number << 3 | wire type, with
 * 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes.
 */
#include "executor/base/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "executor/base/alloc.h"
#include "pb_test.pb-c.h"

#define WIRE(s) BJ_STR_LIT(s)

struct verdict {
	const char *name;
	const ProtobufCMessageDescriptor *type;
	struct bj_str wire;
	int rc;
	const char *text; /* that the error must hold */
};

static int unpack(struct bj_str wire, const ProtobufCMessageDescriptor *type, size_t max_bytes,
		  struct bj_err *err)
{
	struct bj_arena arena;
	ProtobufCMessage *msg = NULL;
	bj_arena_init(&arena, max_bytes);
	int rc = bj_pb_unpack(wire, type, &arena, &msg, err);
	if (rc == 0)
		assert_ptr_equal(msg->descriptor, type);
	else
		assert_null(msg);
	bj_arena_deinit(&arena);
	return rc;
}

static void check_table(const struct verdict *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct verdict *row = &table[i];
		struct bj_err err = BJ_ERR_NULL;
		int rc = unpack(row->wire, row->type, 0, &err);
		if (rc != row->rc)
			fail_msg("%s: %d, not %d: %s", row->name, rc, row->rc, err.msg);
		if (row->text && !strstr(err.msg, row->text))
			fail_msg("%s: \"%s\" lacks \"%s\"", row->name, err.msg, row->text);
	}
}

#define OUTER &bj__test__outer__descriptor
#define LEAF &bj__test__leaf__descriptor
#define PLAIN &bj__test__plain__descriptor
#define BAD (-BJ_INVALID_ARGUMENT)

static void strings_are_checked_at_every_depth(void **state)
{
	(void)state;
	static const char utf8[] = "is not valid UTF-8", nul[] = "holds a NUL byte";
	const struct verdict table[] = {
		{ "empty", OUTER, WIRE(""), 0, NULL },
		{ "ascii", LEAF,
		  WIRE("\x0a\x03"
		       "abc"),
		  0, NULL },
		{ "ascii of 8", LEAF,
		  WIRE("\x0a\x08"
		       "abcdefgh"),
		  0, NULL },
		{ "ascii of 9", LEAF,
		  WIRE("\x0a\x09"
		       "abcdefghi"),
		  0, NULL },
		{ "empty string", LEAF, WIRE("\x0a\x00"), 0, NULL },
		{ "umlaut", LEAF, WIRE("\x0a\x02\xc3\xa4"), 0, NULL },
		{ "0x7f", LEAF, WIRE("\x0a\x08\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f"), 0, NULL },
		{ "0x01", LEAF, WIRE("\x0a\x08\x01\x01\x01\x01\x01\x01\x01\x01"), 0, NULL },
		{ "lone continuation", LEAF, WIRE("\x0a\x01\x80"), BAD,
		  "bj.test.Leaf.text is not valid" },
		{ "0xff in a word", LEAF,
		  WIRE("\x0a\x08"
		       "abcdefg\xff"),
		  BAD, utf8 },
		{ "cut sequence", LEAF, WIRE("\x0a\x01\xc3"), BAD, utf8 },
		{ "overlong", LEAF, WIRE("\x0a\x02\xc0\xaf"), BAD, utf8 },
		{ "surrogate", LEAF, WIRE("\x0a\x03\xed\xa0\x80"), BAD, utf8 },
		{ "nul first in a word", LEAF, WIRE("\x0a\x08\0bcdefgh"), BAD, nul },
		{ "nul last in a word", LEAF,
		  WIRE("\x0a\x08"
		       "abcdefg\0"),
		  BAD, nul },
		{ "nul in the tail", LEAF,
		  WIRE("\x0a\x03"
		       "a\0c"),
		  BAD, "bj.test.Leaf.text holds" },
		{ "nul beside an umlaut", LEAF, WIRE("\x0a\x03\xc3\xa4\0"), BAD, nul },
		{ "bytes may hold anything", LEAF, WIRE("\x1a\x02\xff\0"), 0, NULL },
		{ "second of two", LEAF,
		  WIRE("\x0a\x01"
		       "a\x0a\x01\xff"),
		  BAD, utf8 },

		{ "nested", OUTER, WIRE("\x0a\x03\x0a\x01\xff"), BAD, "bj.test.Leaf.text" },
		{ "after a nested", OUTER,
		  WIRE("\x0a\x03\x0a\x01"
		       "a\x22\x01\xff"),
		  BAD, "bj.test.Outer.word" },
		{ "after an empty nested", OUTER, WIRE("\x0a\x00\x22\x01\xff"), BAD,
		  "bj.test.Outer.word" },
		{ "second of repeated", OUTER, WIRE("\x12\x00\x12\x03\x0a\x01\xff"), BAD,
		  "bj.test.Leaf.text" },
		{ "map key", OUTER, WIRE("\x1a\x03\x0a\x01\xff"), BAD, "ByNameEntry.key" },
		{ "map value", OUTER, WIRE("\x1a\x08\x0a\x01k\x12\x03\x0a\x01\xff"), BAD,
		  "bj.test.Leaf.text" },
		{ "map fine", OUTER, WIRE("\x1a\x08\x0a\x01k\x12\x03\x0a\x01v"), 0, NULL },
		{ "oneof string", OUTER, WIRE("\x22\x01\0"), BAD, "bj.test.Outer.word" },
		{ "oneof message", OUTER, WIRE("\x2a\x03\x0a\x01\0"), BAD, "bj.test.Leaf.text" },
		{ "oneof overridden", OUTER, WIRE("\x22\x01\xff\x2a\x00"), BAD,
		  "bj.test.Outer.word" },
		{ "repeated string", OUTER,
		  WIRE("\x3a\x01"
		       "a\x3a\x01\xff"),
		  BAD, "bj.test.Outer.words" },
		{ "field 40", OUTER, WIRE("\xc2\x02\x01\xff"), BAD, "bj.test.Outer.far" },
		{ "field 40 fine", OUTER,
		  WIRE("\xc2\x02\x01"
		       "a"),
		  0, NULL },
		{ "field 41", OUTER, WIRE("\xca\x02\x03\x0a\x01\xff"), BAD, "bj.test.Leaf.text" },
		{ "field 42 is bytes", OUTER, WIRE("\xd2\x02\x01\xff"), 0, NULL },
		{ "no string inside", OUTER, WIRE("\x32\x03\x2a\x01\xff"), 0, NULL },
	};
	check_table(table, BJ_ARRAY_LEN(table));
}

static void other_fields_are_stepped_over(void **state)
{
	(void)state;
	const struct verdict table[] = {
		{ "varint, then bad", OUTER, WIRE("\x50\x96\x01\x22\x01\xff"), BAD, "Outer.word" },
		{ "fixed64, then bad", OUTER,
		  WIRE("\x41"
		       "12345678\x22\x01\xff"),
		  BAD, "Outer.word" },
		{ "fixed32, then bad", OUTER,
		  WIRE("\x4d"
		       "1234\x22\x01\xff"),
		  BAD, "Outer.word" },
		{ "unknown bytes, then bad", OUTER, WIRE("\x52\x02\xff\xff\x22\x01\xff"), BAD,
		  "Outer.word" },
		{ "unknown numbers", OUTER,
		  WIRE("\x50\x01\x59"
		       "12345678\x65"
		       "1234\x6a\x01\xff"),
		  0, NULL },
		{ "unknown in nested", OUTER, WIRE("\x0a\x02\x50\x01"), 0, NULL },
		{ "largest number", OUTER, WIRE("\xf8\xff\xff\xff\x0f\x01"), 0, NULL },
		{ "ten byte varint", LEAF, WIRE("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0,
		  NULL },
		{ "packed", PLAIN, WIRE("\x12\x03\x01\x02\x03"), 0, NULL },
		{ "unpacked", PLAIN, WIRE("\x10\x01\x10\x02"), 0, NULL },
	};
	check_table(table, BJ_ARRAY_LEN(table));
}

static void malformed_wire_is_refused(void **state)
{
	(void)state;
	const struct verdict table[] = {
		{ "tag cut", OUTER, WIRE("\x80"), BAD,
		  "malformed bj.test.Outer: bad tag at byte 0" },
		{ "number 0", OUTER, WIRE("\x00\x01"), BAD, "bad tag" },
		{ "tag of 33 bits", OUTER, WIRE("\x80\x80\x80\x80\x10\x01"), BAD, "bad tag" },
		{ "length missing", OUTER, WIRE("\x0a"), BAD, "bad length" },
		{ "length beyond the end", OUTER,
		  WIRE("\x0a\x05"
		       "abcd"),
		  BAD, "length beyond the end" },
		{ "length of 2^64 - 1", OUTER, WIRE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		  BAD, "beyond" },
		{ "length over 64 bits", OUTER,
		  WIRE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), BAD, "bad length" },
		{ "eleven byte varint", LEAF,
		  WIRE("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), BAD, "bad varint" },
		{ "varint cut", LEAF, WIRE("\x10\x80"), BAD, "bad varint" },
		{ "fixed64 cut", OUTER,
		  WIRE("\x41"
		       "1234567"),
		  BAD, "cut off" },
		{ "fixed32 cut", OUTER,
		  WIRE("\x4d"
		       "123"),
		  BAD, "cut off" },
		{ "nested longer than its parent", OUTER,
		  WIRE("\x0a\x02\x0a\x05"
		       "abcde"),
		  BAD, "malformed bj.test.Leaf: length beyond the end at byte 4" },
		{ "group", OUTER, WIRE("\x53\x54"), BAD, "group" },
		{ "end of no group", OUTER, WIRE("\x54"), BAD, "group" },
		{ "wire type 6", OUTER, WIRE("\x56"), BAD, "unknown wire type" },
		{ "wire type 7", OUTER, WIRE("\x57"), BAD, "unknown wire type" },
		{ "string as varint", LEAF, WIRE("\x08\x01"), BAD,
		  "malformed bj.test.Leaf of 2 bytes" },
		{ "message as varint", OUTER, WIRE("\x08\x01"), BAD, "malformed bj.test.Outer" },
		{ "cut, no strings", PLAIN,
		  WIRE("\x2a\x05"
		       "abcd"),
		  BAD, "malformed bj.test.Plain: length beyond the end" },
		{ "number 0 in two bytes, no strings", PLAIN, WIRE("\x80\x00\x01"), BAD,
		  "bad tag" },
		{ "bad packed", PLAIN, WIRE("\x12\x01\x80"), BAD, "malformed bj.test.Plain" },
		{ "bad plain inside", OUTER, WIRE("\x32\x02\x2a\x05"), BAD,
		  "malformed bj.test.Plain" },
	};
	check_table(table, BJ_ARRAY_LEN(table));
}

/* @depth messages of Tree, the outer one included. Lengths take two bytes, as lengths may. */
static struct bj_str make_tree(struct bj_arena *arena, size_t depth)
{
	size_t cap = 4 * depth;
	char *end = (char *)bj_arena_alloc(arena, cap) + cap, *at = end;
	for (size_t i = 1; i < depth; i++) {
		size_t len = (size_t)(end - at);
		*--at = (char)(len >> 7);
		*--at = (char)(len | 0x80);
		*--at = 0x0a;
	}
	return bj_str_n(at, (size_t)(end - at));
}

static void depth_is_bounded(void **state)
{
	(void)state;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	bj_arena_init(&arena, 0);
	/* An empty message is not entered, so 101 make 100 that hold something. */
	assert_int_equal(unpack(make_tree(&arena, 101), &bj__test__tree__descriptor, 0, &err), 0);
	assert_int_equal(unpack(make_tree(&arena, 102), &bj__test__tree__descriptor, 0, &err), BAD);
	assert_non_null(strstr(err.msg, "nested too deeply"));
	bj_err_clear(&err);
	/* protobuf-c alone would recurse as deep as 4 MiB of this go: over a million frames. */
	assert_int_equal(unpack(make_tree(&arena, 16000), &bj__test__tree__descriptor, 0, &err),
			 BAD);
	bj_arena_deinit(&arena);
}

static void cap_is_told_from_malformed(void **state)
{
	(void)state;
	enum { N = 4096 };
	struct bj_err err = BJ_ERR_NULL;
	char wire[2 * N + 1];
	for (size_t i = 0; i < N; i++)
		memcpy(wire + 2 * i, "\x12\x00", 2); /* an empty Leaf */
	assert_int_equal(unpack(bj_str_n(wire, 2 * N), OUTER, 64 << 10, &err),
			 -BJ_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "bj.test.Outer of 8192 bytes"));
	bj_err_clear(&err);
	assert_int_equal(unpack(bj_str_n(wire, 2 * N), OUTER, 4 << 20, &err), 0);
	wire[2 * N] = 0x0a; /* malformed at the very end: said before any memory is taken */
	assert_int_equal(unpack(bj_str_n(wire, 2 * N + 1), OUTER, 64 << 10, &err), BAD);
}

static void every_failed_allocation_is_exhaustion(void **state)
{
	(void)state;
	const struct bj_str wire = WIRE("\x0a\x03\x0a\x01"
					"a\x12\x03\x0a\x01"
					"b\x1a\x08\x0a\x01k\x12\x03\x0a\x01v");
	uint64_t n_failed = 0;
	for (uint64_t n = 0;; n++) {
		struct bj_err err = BJ_ERR_NULL;
		bj_alloc_fail_after(n);
		int rc = unpack(wire, OUTER, 0, &err);
		bool failed = bj_alloc_fail_disarm();
		assert_int_equal(rc, failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		if (!failed)
			break;
		n_failed++;
	}
	assert_true(n_failed >= 1);
}

static void unpacked_values_are_kept(void **state)
{
	(void)state;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *msg = NULL;
	bj_arena_init(&arena, 0);
	assert_int_equal(bj_pb_unpack(WIRE("\x0a\x03"
					   "abc\x10\x96\x01\x1a\x02\0z"),
				      LEAF, &arena, &msg, &err),
			 0);
	const Bj__Test__Leaf *leaf = (const Bj__Test__Leaf *)msg;
	assert_string_equal(leaf->text, "abc");
	assert_int_equal(leaf->number, 150);
	assert_int_equal(leaf->raw.len, 2);
	assert_memory_equal(leaf->raw.data, "\0z", 2);
	bj_arena_deinit(&arena);
}

static void pack_gives_wire_bytes(void **state)
{
	(void)state;
	struct bj_arena arena;
	Bj__Test__Leaf leaf = BJ__TEST__LEAF__INIT;
	bj_arena_init(&arena, 1 << 20);
	struct bj_str empty = bj_pb_pack(&arena, &leaf.base);
	assert_non_null(empty.ptr);
	assert_int_equal(empty.len, 0);

	leaf.text = (char *)"abc";
	leaf.number = 150;
	struct bj_str wire = bj_pb_pack(&arena, &leaf.base);
	assert_int_equal(wire.len, 8);
	assert_memory_equal(wire.ptr,
			    "\x0a\x03"
			    "abc\x10\x96\x01",
			    8);
	bj_arena_deinit(&arena);

	bj_arena_init(&arena, 1);
	assert_null(bj_pb_pack(&arena, &leaf.base).ptr);
	bj_arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First, while no plan is made yet. */
		cmocka_unit_test(every_failed_allocation_is_exhaustion),
		cmocka_unit_test(strings_are_checked_at_every_depth),
		cmocka_unit_test(other_fields_are_stepped_over),
		cmocka_unit_test(malformed_wire_is_refused),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(cap_is_told_from_malformed),
		cmocka_unit_test(unpacked_values_are_kept),
		cmocka_unit_test(pack_gives_wire_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
