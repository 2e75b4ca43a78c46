// SPDX-License-Identifier: Apache-2.0
/**
 * cas_tree_test_util.h - Directory messages, encoded by hand, and trees that were loaded.
 */
#ifndef BJ_TESTS_UNIT_CAS_TREE_TEST_UTIL_H
#define BJ_TESTS_UNIT_CAS_TREE_TEST_UTIL_H

#include "tests/unit/cas_test_util.h"

#include "executor/base/buf.h"
#include "executor/cas/tree.h"

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

/* ---- loading ---- */

struct loaded {
	struct bj_tree tree;
	struct bj_missing missing;
};

BJ_UNUSED static int load_with(struct fix *fix, const struct bj_digest *root,
			       const struct bj_tree_limits *limits, struct loaded *out)
{
	*out = (struct loaded){ { NULL, 0, 0 }, { NULL, 0 } };
	return bj_tree_load(fix->store, root, limits, &fix->arena, &out->tree, &out->missing,
			    &fix->err);
}

BJ_UNUSED static struct loaded load(struct fix *fix, const struct bj_digest *root)
{
	struct loaded loaded;
	EXPECT_OK(fix, load_with(fix, root, NULL, &loaded));
	return loaded;
}

BJ_UNUSED static void refuse(struct fix *fix, const struct bj_digest *root, const char *text)
{
	struct loaded loaded;
	char hex[2 * BJ_HASH_MAX_BYTES + 1];
	int r = load_with(fix, root, NULL, &loaded);
	assert_int_equal(r, -BJ_INVALID_ARGUMENT);
	bj_digest_hex(root, hex);
	if (!strstr(fix->err.msg, text) || !strstr(fix->err.msg, hex))
		fail_msg("\"%s\" lacks \"%s\" or %s", fix->err.msg, text, hex);
	assert_null(loaded.tree.entries);
	bj_err_clear(&fix->err);
}

BJ_UNUSED static void expect_digest(const struct bj_digest *digest, const char *hex,
				    uint64_t size_bytes)
{
	char got[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(digest, got);
	assert_string_equal(got, hex);
	assert_int_equal(digest->size_bytes, size_bytes);
}

BJ_UNUSED static void expect_entry(const struct loaded *loaded, size_t i, enum bj_node_kind kind,
				   const char *path)
{
	assert_true(i < loaded->tree.n_entries);
	const struct bj_tree_entry *entry = &loaded->tree.entries[i];
	assert_string_equal(entry->path.ptr, path);
	assert_int_equal(entry->path.len, strlen(path));
	assert_int_equal(entry->kind, kind);
	assert_ptr_equal(bj_tree_find(&loaded->tree, bj_str_of(path)), entry);
}

#endif
