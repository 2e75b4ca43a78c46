// SPDX-License-Identifier: Apache-2.0
/*
 * Input trees from messages that are encoded by hand here, byte by byte, since an encoder would never write most of
 * them. The digests of the fixtures are written out, so that a slip of the encoding cannot hide.
 */
#include "tests/unit/cas_tree_test_util.h"

#include "executor/base/alloc.h"
#include "executor/base/pb.h"
#include "executor/cas/reapi.h"
#include "executor/cas/tree.h"

static int setup(void **state)
{
	(void)fix_setup(state);
	(void)put(*state, BJ_STR_LIT("hello\n"));
	return 0;
}

/* ---- the fixtures ---- */

struct fixture {
	const char *label;
	struct bj_str names[2]; /* of files with hello's digest; a NULL ends the list */
	const char *hex;
	uint64_t size_bytes;
	const char *text; /* of the refusal; NULL: accepted */
};

static const struct fixture fixtures[] = {
	{ "OK",
	  { BJ_STR_LIT("a"), BJ_STR_LIT("b") },
	  "ae403d5ebc65a81bbd5947ee8696c27ceda3c42f171fecf8cedbb3b2dfda9abe",
	  150,
	  NULL },
	{ "N1",
	  { BJ_STR_LIT("a/b") },
	  "7d3feca8c8dc75b647b618d13cebac4fef62ddcf7d1ea6570a02e3837989b8bc",
	  77,
	  "file \"a/b\": the name contains '/'" },
	{ "N2",
	  { BJ_STR_LIT("..") },
	  "9d7b75ae0e5f0d25b6cbe5b8a36605a62166664a1596bcc4683c4eb3c8fb3380",
	  76,
	  "file \"..\": the name is not a path segment" },
	{ "N2b",
	  { BJ_STR_LIT(".") },
	  "d41772ef1257e2a40c551b8f828c7af8189670bc8509838ed290eb1a3d3593a5",
	  75,
	  "file \".\": the name is not a path segment" },
	{ "N2c",
	  { BJ_STR_LIT("a\0b") },
	  "c61cf0e4c0dafbfccee12bc901356f32e47453ac9df436ef34a1d6259e9cb883",
	  77,
	  "NUL" },
	{ "N3",
	  { BJ_STR_LIT("") },
	  "da1c28d3b35438aea7fccab03d1a710eefa274c14443b14476405bb6d0e540c7",
	  72,
	  "file \"\": the name is empty" },
	{ "N4",
	  { BJ_STR_LIT("a"), BJ_STR_LIT("a") },
	  "68f3e35976534dcda026f776d31704162224fae49f45ad3bf3da687d71143d94",
	  150,
	  "file \"a\": the name occurs twice" },
	{ "N8",
	  { BJ_STR_LIT("b"), BJ_STR_LIT("a") },
	  "b8e238f21da9b6e98f189cbbfb0b90111f55514df0c1d18c207c9a339b031f2c",
	  150,
	  "file \"a\": not sorted" },
	{ "N9",
	  { BJ_STR_LIT("\xff") },
	  "54f72d7087a4974d77c98eac93e838f570fe469475f52277621f1d2fe9a6ee28",
	  75,
	  "UTF-8" },
	{ "U1",
	  { BJ_STR_LIT("部.txt") },
	  "cb528ee8e55567be257ae6281b8b6017926541a444f2c02e620e40b32f3946b1",
	  81,
	  NULL },
};

static void fixtures_of_files(void **state)
{
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(fixtures); i++) {
		const struct fixture *f = &fixtures[i];
		struct bj_buf dir = DIR_INIT;
		for (size_t k = 0; k < 2 && f->names[k].ptr; k++)
			add_file(&dir, f->names[k]);
		struct bj_digest digest = put_dir(fix, &dir);
		expect_digest(&digest, f->hex, f->size_bytes);
		if (f->text) {
			refuse(fix, &digest, f->text);
			continue;
		}
		struct loaded loaded = load(fix, &digest);
		for (size_t k = 0; k < 2 && f->names[k].ptr; k++)
			expect_entry(&loaded, k, BJ_NODE_FILE, f->names[k].ptr);
		assert_int_equal(loaded.tree.n_entries, f->names[1].ptr ? 2 : 1);
	}
}

/* N7, A1, E1 */
static void fixtures_of_symlinks_and_directories(void **state)
{
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	add_symlink(&dir, "p", BJ_STR_LIT(""));
	struct bj_digest digest = put_dir(fix, &dir);
	expect_digest(&digest, "1ac67c3a112dbc14241401f726bbf13afd5b2f4913ba35de1f9293a4283362a2",
		      5);
	struct loaded loaded = load(fix, &digest);
	expect_entry(&loaded, 0, BJ_NODE_SYMLINK, "p");
	assert_true(bj_str_eq(loaded.tree.entries[0].target, BJ_STR_LIT(".")));

	add_symlink(&dir, "p", BJ_STR_LIT("/etc/hostname"));
	digest = put_dir(fix, &dir);
	expect_digest(&digest, "8ae55b4a4a148b786d62e3c77d3d909bdd409a068b710bcfb0b36b0b4ad275e9",
		      20);
	loaded = load(fix, &digest);
	assert_true(bj_str_eq(loaded.tree.entries[0].target, BJ_STR_LIT("/etc/hostname")));

	add_node(&dir, DIRECTORIES, BJ_STR_LIT("e"), EMPTY_HEX, 0);
	digest = put_dir(fix, &dir);
	expect_digest(&digest, "198bccb2233f39c8819d8cad9fefe70c8ae87c6eee35d3df41aea562757693d9",
		      73);
	loaded = load(fix, &digest);
	assert_int_equal(loaded.tree.n_entries, 1);
	expect_entry(&loaded, 0, BJ_NODE_DIR, "e");
	assert_true(bj_digest_is_empty(&loaded.tree.entries[0].digest));
}

/* Each level holds the level below twice, as "a" and "b"; the lowest is empty. */
static struct bj_digest put_doubling(struct fix *fix, int n_levels)
{
	struct bj_digest digest = bj_digest_empty(BJ_DIGEST_SHA256);
	for (int i = 0; i < n_levels; i++) {
		struct bj_buf dir = DIR_INIT;
		add_dir(&dir, "a", &digest);
		add_dir(&dir, "b", &digest);
		digest = put_dir(fix, &dir);
	}
	return digest;
}

/* D40. Refused by counting: an implementation that lists entries first takes seconds and hundreds of megabytes. */
static void fixture_of_forty_doublings(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_doubling(fix, 40);
	struct loaded loaded;
	struct bj_arena small;
	bj_arena_init(&small, 1 << 20);
	EXPECT_ERR(fix,
		   bj_tree_load(fix->store, &digest, NULL, &small, &loaded.tree, &loaded.missing,
				&fix->err),
		   BJ_RESOURCE_EXHAUSTED, "1000000 entries");
	bj_arena_deinit(&small);
	/* 200 levels: the count would wrap around 64 bits three times. */
	digest = put_doubling(fix, 192);
	EXPECT_ERR(fix, load_with(fix, &digest, NULL, &loaded), BJ_RESOURCE_EXHAUSTED,
		   "1000000 entries");
}

static void repeated_subtrees_are_listed_each_time(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_doubling(fix, 3);
	struct loaded loaded = load(fix, &digest);
	static const char *const want[] = { "a", "a/a", "a/a/a", "a/a/b", "a/b", "a/b/a", "a/b/b",
					    "b", "b/a", "b/a/a", "b/a/b", "b/b", "b/b/a", "b/b/b" };
	assert_int_equal(loaded.tree.n_entries, BJ_ARRAY_LEN(want));
	for (size_t i = 0; i < BJ_ARRAY_LEN(want); i++)
		expect_entry(&loaded, i, BJ_NODE_DIR, want[i]);
}

/* ---- the rules, for each list ---- */

typedef void add_fn(struct bj_buf *dir, const char *name);

static void add_file_named(struct bj_buf *dir, const char *name)
{
	add_file(dir, bj_str_of(name));
}

static void add_dir_named(struct bj_buf *dir, const char *name)
{
	add_node(dir, DIRECTORIES, bj_str_of(name), EMPTY_HEX, 0);
}

static void add_symlink_named(struct bj_buf *dir, const char *name)
{
	add_symlink(dir, name, BJ_STR_LIT("target"));
}

static const struct {
	add_fn *add;
	const char *kind;
} kinds[] = { { add_file_named, "file" },
	      { add_dir_named, "directory" },
	      { add_symlink_named, "symlink" } };

static void names_are_checked_in_each_list(void **state)
{
	static const char *const bad[] = { "", ".", "..", "/", "a/b", "/a", "a/" };
	static const char *const good[] = { "...", ".a",  "a.", "a\\b", " ",
					    "\n",  "a:b", "~",	"*",	"部" };
	struct fix *fix = *state;
	for (size_t k = 0; k < BJ_ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
			struct bj_buf dir = DIR_INIT;
			kinds[k].add(&dir, bad[i]);
			struct bj_digest digest = put_dir(fix, &dir);
			refuse(fix, &digest, kinds[k].kind);
		}
		for (size_t i = 0; i < BJ_ARRAY_LEN(good); i++) {
			struct bj_buf dir = DIR_INIT;
			kinds[k].add(&dir, good[i]);
			struct bj_digest digest = put_dir(fix, &dir);
			struct loaded loaded = load(fix, &digest);
			assert_string_equal(loaded.tree.entries[0].path.ptr, good[i]);
		}
	}
}

/* A fault in the middle of a list that is sorted. */
static void every_name_of_a_list_is_checked(void **state)
{
	static const char *const bad[] = { "b/", "b/c", "b\xff" };
	struct fix *fix = *state;
	for (size_t k = 0; k < BJ_ARRAY_LEN(kinds); k++) {
		for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
			struct bj_buf dir = DIR_INIT;
			kinds[k].add(&dir, "a");
			kinds[k].add(&dir, bad[i]);
			kinds[k].add(&dir, "c");
			struct bj_digest digest = put_dir(fix, &dir);
			refuse(fix, &digest, "name");
		}
	}
}

static void names_have_at_most_255_bytes(void **state)
{
	struct fix *fix = *state;
	char name[257];
	memset(name, 'n', sizeof(name));
	struct bj_buf dir = DIR_INIT;
	add_file(&dir, bj_str_n(name, 255));
	struct bj_digest digest = put_dir(fix, &dir);
	assert_int_equal(load(fix, &digest).tree.n_entries, 1);
	add_file(&dir, bj_str_n(name, 256));
	digest = put_dir(fix, &dir);
	refuse(fix, &digest, "longer than 255");
}

static void targets_have_at_most_4095_bytes(void **state)
{
	struct fix *fix = *state;
	char target[4096];
	memset(target, 't', sizeof(target));
	struct bj_buf dir = DIR_INIT;
	add_symlink(&dir, "l", bj_str_n(target, 4095));
	struct bj_digest digest = put_dir(fix, &dir);
	assert_int_equal(load(fix, &digest).tree.entries[0].target.len, 4095);
	add_symlink(&dir, "l", bj_str_n(target, 4096));
	digest = put_dir(fix, &dir);
	refuse(fix, &digest, "longer than 4095");
	add_symlink(&dir, "l", BJ_STR_LIT("a\0b"));
	digest = put_dir(fix, &dir);
	refuse(fix, &digest, "NUL");
	add_symlink(&dir, "l", BJ_STR_LIT("\xc0\x80"));
	digest = put_dir(fix, &dir);
	refuse(fix, &digest, "UTF-8");
}

static void order_is_checked_in_each_list(void **state)
{
	/* By bytes: upper case first, '-' before '.', a prefix first, and UTF-8 as it is (U+FF5E before U+1F600). */
	static const char *const sorted[] = { "-",   ".a", "A", "Z",  "a", "a-b",
					      "a.b", "aa", "é", "～", "😀" };
	struct fix *fix = *state;
	for (size_t k = 0; k < BJ_ARRAY_LEN(kinds); k++) {
		struct bj_buf dir = DIR_INIT;
		for (size_t i = 0; i < BJ_ARRAY_LEN(sorted); i++)
			kinds[k].add(&dir, sorted[i]);
		struct bj_digest digest = put_dir(fix, &dir);
		assert_int_equal(load(fix, &digest).tree.n_entries, BJ_ARRAY_LEN(sorted));
		for (size_t i = 1; i < BJ_ARRAY_LEN(sorted); i++) {
			kinds[k].add(&dir, sorted[i]);
			kinds[k].add(&dir, sorted[i - 1]);
			digest = put_dir(fix, &dir);
			refuse(fix, &digest, "not sorted");
			kinds[k].add(&dir, sorted[i]);
			kinds[k].add(&dir, sorted[i]);
			digest = put_dir(fix, &dir);
			refuse(fix, &digest, "occurs twice");
		}
	}
}

static void a_name_in_two_lists_is_refused(void **state)
{
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		for (size_t k = i + 1; k < BJ_ARRAY_LEN(kinds); k++) {
			struct bj_buf dir = DIR_INIT;
			kinds[i].add(&dir, "a");
			kinds[i].add(&dir, "x");
			kinds[k].add(&dir, "b");
			kinds[k].add(&dir, "x");
			kinds[k].add(&dir, "z");
			struct bj_digest digest = put_dir(fix, &dir);
			refuse(fix, &digest, "\"x\": the name occurs twice, as two kinds");
		}
	}
}

static void digests_are_checked(void **state)
{
	static const struct {
		const char *hex;
		uint64_t size_bytes;
		const char *text;
	} bad[] = {
		{ "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03", 6,
		  "lower-case" },
		{ "5891b5", 6, "(6 characters)" },
		{ "", 0, "(0 characters)" },
		{ "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03", UINT64_MAX,
		  "negative" },
	};
	static const int lists[] = { FILES, DIRECTORIES };
	struct fix *fix = *state;
	for (size_t k = 0; k < BJ_ARRAY_LEN(lists); k++) {
		for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
			struct bj_buf dir = DIR_INIT;
			add_node(&dir, lists[k], BJ_STR_LIT("n"), bad[i].hex, bad[i].size_bytes);
			struct bj_digest digest = put_dir(fix, &dir);
			refuse(fix, &digest, bad[i].text);
		}
		struct bj_buf dir = DIR_INIT;
		add_bytes(&dir, lists[k], BJ_STR_LIT("\x0a\x01n"));
		struct bj_digest digest = put_dir(fix, &dir);
		refuse(fix, &digest, "is not set");
	}
}

/* files[0] with node_properties (6): properties[0] {name "x"} is unknown; mtime and unix_mode have no effect. */
static void node_properties(void **state)
{
	static const struct {
		int list, tag;
	} nodes[] = { { FILES, 0x32 }, { SYMLINKS, 0x22 } };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(nodes); i++) {
		struct bj_buf dir = DIR_INIT, node = BJ_BUF_INIT(4096);
		add_name(&node, BJ_STR_LIT("n"));
		if (nodes[i].list == FILES)
			add_digest(&node, bj_str_of(HELLO_HEX), 6);
		size_t bare_len = node.len;
		add_bytes(&node, nodes[i].tag, BJ_STR_LIT("\x0a\x03\x0a\x01x"));
		add_bytes(&dir, nodes[i].list, bj_buf_str(&node));
		struct bj_digest digest = put_dir(fix, &dir);
		refuse(fix, &digest, "node property");

		node.len = bare_len;
		add_bytes(&node, nodes[i].tag, BJ_STR_LIT("\x12\x02\x08\x01\x1a\x03\x08\xed\x03"));
		add_bytes(&dir, nodes[i].list, bj_buf_str(&node));
		digest = put_dir(fix, &dir);
		assert_int_equal(load(fix, &digest).tree.n_entries, 1);
		bj_buf_deinit(&node);
	}
	struct bj_buf dir = DIR_INIT;
	add_bytes(&dir, 0x2a, BJ_STR_LIT("\x0a\x03\x0a\x01x"));
	struct bj_digest digest = put_dir(fix, &dir);
	refuse(fix, &digest, "node property");
}

static void garbage_is_refused_with_its_digest(void **state)
{
	static const struct bj_str garbage[] = { BJ_STR_LIT("hello\n"), BJ_STR_LIT("\x0a\xff"),
						 BJ_STR_LIT("\x0a") };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(garbage); i++) {
		struct bj_digest digest = put(fix, garbage[i]);
		refuse(fix, &digest, "Directory");
	}
}

/* The error names the Directory that is at fault and where it hangs, not the root. */
static void an_error_below_names_the_place(void **state)
{
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	add_file(&dir, BJ_STR_LIT(".."));
	struct bj_digest bad = put_dir(fix, &dir);
	add_dir(&dir, "sub", &bad);
	struct bj_digest middle = put_dir(fix, &dir);
	add_dir(&dir, "top", &middle);
	struct bj_digest root = put_dir(fix, &dir);
	struct loaded loaded;
	assert_int_equal(load_with(fix, &root, NULL, &loaded), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(fix->err.msg, "at \"top/sub\": file \"..\""));
	assert_non_null(
		strstr(fix->err.msg,
		       "9d7b75ae0e5f0d25b6cbe5b8a36605a62166664a1596bcc4683c4eb3c8fb3380/76"));
	bj_err_clear(&fix->err);
}

/* ---- what a good tree looks like ---- */

static void entries_are_depth_first_and_complete(void **state)
{
	struct fix *fix = *state;
	struct bj_digest big = put_random(fix, 1000, 1);
	char big_hex[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(&big, big_hex);
	struct bj_buf dir = DIR_INIT, node = BJ_BUF_INIT(4096);
	add_name(&node, BJ_STR_LIT("run"));
	add_digest(&node, bj_str_of(big_hex), 1000);
	bj_buf_append(&node, "\x20\x01", 2);
	add_file(&dir, BJ_STR_LIT("f"));
	add_bytes(&dir, FILES, bj_buf_str(&node));
	add_symlink(&dir, "link", BJ_STR_LIT("../x"));
	bj_buf_deinit(&node);
	struct bj_digest sub = put_dir(fix, &dir);
	add_file(&dir, BJ_STR_LIT("d-e"));
	add_file(&dir, BJ_STR_LIT("d.e"));
	add_dir(&dir, "d", &sub);
	add_dir(&dir, "z", &sub);
	add_symlink(&dir, "a", BJ_STR_LIT("d"));
	struct bj_digest root = put_dir(fix, &dir);
	struct loaded loaded = load(fix, &root);

	static const struct {
		enum bj_node_kind kind;
		const char *path;
	} want[] = {
		{ BJ_NODE_SYMLINK, "a" },      { BJ_NODE_DIR, "d" },	  { BJ_NODE_FILE, "d/f" },
		{ BJ_NODE_SYMLINK, "d/link" }, { BJ_NODE_FILE, "d/run" }, { BJ_NODE_FILE, "d-e" },
		{ BJ_NODE_FILE, "d.e" },       { BJ_NODE_DIR, "z" },	  { BJ_NODE_FILE, "z/f" },
		{ BJ_NODE_SYMLINK, "z/link" }, { BJ_NODE_FILE, "z/run" },
	};
	assert_int_equal(loaded.tree.n_entries, BJ_ARRAY_LEN(want));
	for (size_t i = 0; i < BJ_ARRAY_LEN(want); i++)
		expect_entry(&loaded, i, want[i].kind, want[i].path);
	assert_int_equal(loaded.tree.total_bytes, 2 * 1000 + 4 * 6);
	assert_true(loaded.tree.entries[4].is_executable);
	assert_false(loaded.tree.entries[2].is_executable);
	assert_true(bj_digest_eq(&loaded.tree.entries[4].digest, &big));
	assert_true(bj_digest_eq(&loaded.tree.entries[1].digest, &sub));
	assert_string_equal(loaded.tree.entries[3].target.ptr, "../x");
}

static void find_takes_exact_paths_only(void **state)
{
	static const struct bj_str absent[] = {
		BJ_STR_LIT(""),	    BJ_STR_LIT("/"),	BJ_STR_LIT("d/"),    BJ_STR_LIT("/d"),
		BJ_STR_LIT("d//f"), BJ_STR_LIT("d\0f"), BJ_STR_LIT("d/f/x"), BJ_STR_LIT("d/g"),
		BJ_STR_LIT("D"),    BJ_STR_LIT("zz"),	BJ_STR_LIT("a"),     BJ_STR_LIT("d\xff"),
		BJ_STR_LIT("./d"),  BJ_STR_LIT("d/."),
	};
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	add_file(&dir, BJ_STR_LIT("f"));
	struct bj_digest sub = put_dir(fix, &dir);
	add_dir(&dir, "d", &sub);
	struct bj_digest root = put_dir(fix, &dir);
	struct loaded loaded = load(fix, &root);
	for (size_t i = 0; i < BJ_ARRAY_LEN(absent); i++)
		assert_null(bj_tree_find(&loaded.tree, absent[i]));
	expect_entry(&loaded, 0, BJ_NODE_DIR, "d");
	expect_entry(&loaded, 1, BJ_NODE_FILE, "d/f");
}

/* Names that differ in the first, the eighth, the ninth and the last byte, and are prefixes of each other. */
static void find_takes_long_paths(void **state)
{
	static const char *const sorted[] = {
		"0bcdefghijklmnopqrstuvwxyz",
		"abcdefg0ijklmnopqrstuvwxyz",
		"abcdefgh",
		"abcdefgh-jklmnopqrstuvwxyz",
		"abcdefgh0jklmnopqrstuvwxyz",
		"abcdefghijklmnop",
		"abcdefghijklmnopqrstuvwxy0",
		"abcdefghijklmnopqrstuvwxyz",
		"zbcdefghijklmnopqrstuvwxyz",
	};
	enum { N = BJ_ARRAY_LEN(sorted) };
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	for (size_t i = 0; i < N; i++)
		add_file_named(&dir, sorted[i]);
	struct bj_digest sub = put_dir(fix, &dir);
	for (size_t i = 0; i < N; i++)
		add_dir(&dir, sorted[i], &sub);
	struct bj_digest root = put_dir(fix, &dir);
	struct loaded loaded = load(fix, &root);
	assert_int_equal(loaded.tree.n_entries, N * (N + 1));
	for (size_t i = 0; i < N; i++) {
		expect_entry(&loaded, i * (N + 1), BJ_NODE_DIR, sorted[i]);
		for (size_t k = 0; k < N; k++) {
			char path[64];
			(void)snprintf(path, sizeof(path), "%s/%s", sorted[i], sorted[k]);
			expect_entry(&loaded, i * (N + 1) + 1 + k, BJ_NODE_FILE, path);
			path[strlen(path) - 1] = '~';
			assert_null(bj_tree_find(&loaded.tree, bj_str_of(path)));
		}
	}
}

static void an_empty_root(void **state)
{
	struct fix *fix = *state;
	struct bj_digest root = bj_digest_empty(BJ_DIGEST_SHA256);
	struct loaded loaded = load(fix, &root);
	assert_int_equal(loaded.tree.n_entries, 0);
	assert_int_equal(loaded.tree.total_bytes, 0);
	assert_null(bj_tree_find(&loaded.tree, BJ_STR_LIT("a")));
}

static void one_large_directory(void **state)
{
	enum { N_FILES = 100000 };
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	char name[16];
	for (int i = 0; i < N_FILES; i++) {
		(void)snprintf(name, sizeof(name), "%06d", i);
		add_file(&dir, bj_str_of(name));
	}
	struct bj_digest root = put_dir(fix, &dir);
	struct loaded loaded = load(fix, &root);
	assert_int_equal(loaded.tree.n_entries, N_FILES);
	for (size_t i = 0; i < N_FILES; i += 997) {
		(void)snprintf(name, sizeof(name), "%06zu", i);
		expect_entry(&loaded, i, BJ_NODE_FILE, name);
	}
}

/* ---- limits ---- */

static struct bj_digest put_chain(struct fix *fix, int n_levels)
{
	struct bj_digest digest = bj_digest_empty(BJ_DIGEST_SHA256);
	for (int i = 0; i < n_levels; i++) {
		struct bj_buf dir = DIR_INIT;
		add_dir(&dir, "d", &digest);
		digest = put_dir(fix, &dir);
	}
	return digest;
}

static void depth_is_limited(void **state)
{
	struct fix *fix = *state;
	struct loaded loaded;
	struct bj_digest digest = put_chain(fix, 200);
	loaded = load(fix, &digest);
	assert_int_equal(loaded.tree.n_entries, 200);
	assert_int_equal(loaded.tree.entries[199].path.len, 399);
	digest = put_chain(fix, 201);
	EXPECT_ERR(fix, load_with(fix, &digest, NULL, &loaded), BJ_RESOURCE_EXHAUSTED,
		   "200 levels");
	digest = put_chain(fix, 3000);
	EXPECT_ERR(fix, load_with(fix, &digest, NULL, &loaded), BJ_RESOURCE_EXHAUSTED,
		   "200 levels");
	struct bj_tree_limits limits = { .max_depth = 3000 };
	EXPECT_OK(fix, load_with(fix, &digest, &limits, &loaded));
	assert_int_equal(loaded.tree.n_entries, 3000);
}

/* The same Directory near the root and far below: its depth is that of the longest way. */
static void depth_is_that_of_the_longest_way(void **state)
{
	struct fix *fix = *state;
	struct loaded loaded;
	struct bj_digest leaf = put_chain(fix, 2), chain = put_chain(fix, 5);
	struct bj_buf dir = DIR_INIT;
	add_dir(&dir, "near", &leaf);
	add_dir(&dir, "wide", &chain);
	struct bj_digest root = put_dir(fix, &dir);
	struct bj_tree_limits limits = { .max_depth = 6 };
	EXPECT_OK(fix, load_with(fix, &root, &limits, &loaded));
	assert_int_equal(loaded.tree.n_entries, 3 + 6);
	limits.max_depth = 5;
	EXPECT_ERR(fix, load_with(fix, &root, &limits, &loaded), BJ_RESOURCE_EXHAUSTED, "5 levels");
}

static void entries_are_limited(void **state)
{
	struct fix *fix = *state;
	struct loaded loaded;
	struct bj_digest digest = put_doubling(fix, 3); /* 14 entries in 4 messages */
	struct bj_tree_limits limits = { .max_entries = 14 };
	EXPECT_OK(fix, load_with(fix, &digest, &limits, &loaded));
	limits.max_entries = 13;
	EXPECT_ERR(fix, load_with(fix, &digest, &limits, &loaded), BJ_RESOURCE_EXHAUSTED,
		   "13 entries");
	limits.max_entries = 1;
	EXPECT_ERR(fix, load_with(fix, &digest, &limits, &loaded), BJ_RESOURCE_EXHAUSTED,
		   "1 entries");
}

/* ---- missing blobs ---- */

static void all_missing_blobs_are_listed_once(void **state)
{
	struct fix *fix = *state;
	struct loaded loaded;
	struct bj_buf dir = DIR_INIT;
	struct bj_digest gone = digest_of_hex(
		"0000000000000000000000000000000000000000000000000000000000000001", 9);
	add_file(&dir, BJ_STR_LIT("a"));
	add_node(&dir, FILES, BJ_STR_LIT("b"),
		 "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 7);
	add_node(&dir, FILES, BJ_STR_LIT("c"),
		 "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 7);
	add_node(&dir, FILES, BJ_STR_LIT("d"), HELLO_HEX, 7); /* right hash, wrong size */
	struct bj_digest sub = put_dir(fix, &dir);
	add_dir(&dir, "gone", &gone);
	add_dir(&dir, "gone2", &gone);
	add_dir(&dir, "sub", &sub);
	add_dir(&dir, "sub2", &sub);
	struct bj_digest root = put_dir(fix, &dir);
	assert_int_equal(load_with(fix, &root, NULL, &loaded), BJ_TREE_E_MISSING);
	assert_null(loaded.tree.entries);
	assert_int_equal(loaded.missing.n_digests, 3);
	expect_digest(&loaded.missing.digests[0],
		      "0000000000000000000000000000000000000000000000000000000000000001", 9);
	expect_digest(&loaded.missing.digests[1], HELLO_HEX, 7);
	expect_digest(&loaded.missing.digests[2],
		      "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", 7);
	assert_int_equal(load_with(fix, &gone, NULL, &loaded), BJ_TREE_E_MISSING);
	assert_int_equal(loaded.missing.n_digests, 1);
	assert_true(bj_digest_eq(&loaded.missing.digests[0], &gone));
}

/* A Directory that is found damaged is dropped, and so the client is asked for it. */
static void a_damaged_directory_is_missing(void **state)
{
	struct fix *fix = *state;
	struct loaded loaded;
	struct bj_buf dir = DIR_INIT;
	add_file(&dir, BJ_STR_LIT("a"));
	struct bj_digest root = put_dir(fix, &dir);
	flip_bit(blob_path(fix, &root), 3);
	assert_int_equal(load_with(fix, &root, NULL, &loaded), BJ_TREE_E_MISSING);
	assert_true(bj_digest_eq(&loaded.missing.digests[0], &root));
	assert_false(bj_err_is_set(&fix->err));
}

/* ---- allocation ---- */

static void each_allocation_fails_once(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_doubling(fix, 5);
	uint64_t n_failures = 0;
	for (uint64_t n = 0;; n++) {
		struct loaded loaded = { { NULL, 0, 0 }, { NULL, 0 } };
		struct bj_arena arena;
		bj_arena_init(&arena, 0);
		bj_alloc_fail_after(n);
		int r = bj_tree_load(fix->store, &digest, NULL, &arena, &loaded.tree,
				     &loaded.missing, &fix->err);
		bool has_failed = bj_alloc_fail_disarm();
		n_failures += has_failed;
		assert_int_equal(r, has_failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		assert_int_equal(loaded.tree.n_entries, has_failed ? 0 : 62);
		bj_err_clear(&fix->err);
		bj_arena_deinit(&arena);
		if (!has_failed)
			break;
	}
	assert_true(n_failures > 3);
}

/* Whatever the arena's cap is, the answer is a tree or RESOURCE_EXHAUSTED. */
static void each_cap_of_the_arena_holds(void **state)
{
	struct fix *fix = *state;
	struct bj_digest digest = put_doubling(fix, 5);
	int n_ok = 0, n_refused = 0;
	for (size_t cap = 1; cap < 65536; cap += 509) {
		struct loaded loaded;
		struct bj_arena arena;
		bj_arena_init(&arena, cap);
		int r = bj_tree_load(fix->store, &digest, NULL, &arena, &loaded.tree,
				     &loaded.missing, &fix->err);
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		n_ok += r == 0;
		n_refused += r != 0;
		bj_err_clear(&fix->err);
		bj_arena_deinit(&arena);
	}
	assert_true(n_ok > 0 && n_refused > 0);
}

/* ---- one message ---- */

static void check_takes_a_place_for_the_text(void **state)
{
	struct fix *fix = *state;
	struct bj_buf dir = DIR_INIT;
	ProtobufCMessage *msg = NULL;
	add_file(&dir, BJ_STR_LIT("b"));
	add_file(&dir, BJ_STR_LIT("a"));
	EXPECT_OK(fix, bj_pb_unpack(bj_buf_str(&dir),
				    &build__bazel__remote__execution__v2__directory__descriptor,
				    &fix->arena, &msg, &fix->err));
	const re_directory *message = (const re_directory *)msg;
	EXPECT_ERR(fix, bj_directory_check(message, BJ_DIGEST_SHA256, "output d", &fix->err),
		   BJ_INVALID_ARGUMENT, "output d: file \"a\": not sorted");
	EXPECT_ERR(fix, bj_directory_check(message, (enum bj_digest_fn)9, NULL, &fix->err),
		   BJ_INVALID_ARGUMENT, "function 9");
	bj_buf_deinit(&dir);
}

#define TREE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, fix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(fixtures_of_files),
		TREE_TEST(fixtures_of_symlinks_and_directories),
		TREE_TEST(fixture_of_forty_doublings),
		TREE_TEST(repeated_subtrees_are_listed_each_time),
		TREE_TEST(names_are_checked_in_each_list),
		TREE_TEST(every_name_of_a_list_is_checked),
		TREE_TEST(names_have_at_most_255_bytes),
		TREE_TEST(targets_have_at_most_4095_bytes),
		TREE_TEST(order_is_checked_in_each_list),
		TREE_TEST(a_name_in_two_lists_is_refused),
		TREE_TEST(digests_are_checked),
		TREE_TEST(node_properties),
		TREE_TEST(garbage_is_refused_with_its_digest),
		TREE_TEST(an_error_below_names_the_place),
		TREE_TEST(entries_are_depth_first_and_complete),
		TREE_TEST(find_takes_exact_paths_only),
		TREE_TEST(find_takes_long_paths),
		TREE_TEST(an_empty_root),
		TREE_TEST(one_large_directory),
		TREE_TEST(depth_is_limited),
		TREE_TEST(depth_is_that_of_the_longest_way),
		TREE_TEST(entries_are_limited),
		TREE_TEST(all_missing_blobs_are_listed_once),
		TREE_TEST(a_damaged_directory_is_missing),
		TREE_TEST(each_allocation_fails_once),
		TREE_TEST(each_cap_of_the_arena_holds),
		TREE_TEST(check_takes_a_place_for_the_text),
	};
	return cmocka_run_group_tests_name("cas_tree", tests, NULL, NULL);
}
