// SPDX-License-Identifier: Apache-2.0
/**
 * cas_tree_test_util.h - Directory messages, encoded by hand.
 */
#ifndef BJ_TESTS_UNIT_CAS_TREE_TEST_UTIL_H
#define BJ_TESTS_UNIT_CAS_TREE_TEST_UTIL_H

#include "tests/unit/cas_test_util.h"

#include "executor/base/buf.h"

/* SHA-256 of "hello\n" and of nothing. */
#define HELLO_HEX "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
#define EMPTY_HEX "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- protobuf by hand: tag, length, bytes ---- */

enum {
	NAME = 0x0a,
	DIGEST = 0x12,
	TARGET = 0x12,
	EXECUTABLE = 0x20,
	FILES = 0x0a,
	DIRECTORIES = 0x12,
	SYMLINKS = 0x1a
};

BJ_UNUSED static void add_varint(struct bj_buf *buf, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		bj_buf_append_char(buf, (char)(uint8_t)(v | 128));
	bj_buf_append_char(buf, (char)(uint8_t)v);
}

BJ_UNUSED static void add_bytes(struct bj_buf *buf, int tag, struct bj_str bytes)
{
	bj_buf_append_char(buf, (char)tag);
	add_varint(buf, bytes.len);
	bj_buf_append_str(buf, bytes);
}

BJ_UNUSED static void add_name(struct bj_buf *buf, struct bj_str name)
{
	if (name.len > 0) /* proto3: an empty string is not written */
		add_bytes(buf, NAME, name);
}

BJ_UNUSED static void add_digest(struct bj_buf *buf, struct bj_str hex, uint64_t size_bytes)
{
	struct bj_buf digest = BJ_BUF_INIT(4096);
	add_bytes(&digest, 0x0a, hex);
	if (size_bytes > 0) {
		bj_buf_append_char(&digest, 0x10);
		add_varint(&digest, size_bytes);
	}
	add_bytes(buf, DIGEST, bj_buf_str(&digest));
	bj_buf_deinit(&digest);
}

BJ_UNUSED static void add_node(struct bj_buf *dir, int list, struct bj_str name, const char *hex,
			       uint64_t size_bytes)
{
	struct bj_buf node = BJ_BUF_INIT(1 << 20);
	add_name(&node, name);
	add_digest(&node, bj_str_of(hex), size_bytes);
	add_bytes(dir, list, bj_buf_str(&node));
	bj_buf_deinit(&node);
}

BJ_UNUSED static void add_file(struct bj_buf *dir, struct bj_str name)
{
	add_node(dir, FILES, name, HELLO_HEX, 6);
}

BJ_UNUSED static void add_dir(struct bj_buf *dir, const char *name, const struct bj_digest *digest)
{
	char hex[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(digest, hex);
	add_node(dir, DIRECTORIES, bj_str_of(name), hex, digest->size_bytes);
}

BJ_UNUSED static void add_symlink(struct bj_buf *dir, const char *name, struct bj_str target)
{
	struct bj_buf node = BJ_BUF_INIT(1 << 20);
	add_name(&node, bj_str_of(name));
	if (target.len > 0)
		add_bytes(&node, TARGET, target);
	add_bytes(dir, SYMLINKS, bj_buf_str(&node));
	bj_buf_deinit(&node);
}

/* Stores the message and empties the buffer. */
BJ_UNUSED static struct bj_digest put_dir(struct fix *fix, struct bj_buf *dir)
{
	assert_false(dir->failed);
	struct bj_digest digest = put(fix, bj_buf_str(dir));
	bj_buf_deinit(dir);
	return digest;
}

#define DIR_INIT BJ_BUF_INIT((size_t)64 << 20)

#endif
