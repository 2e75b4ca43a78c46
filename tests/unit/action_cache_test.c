// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cas_test_util.h"

#include "belljar/v1/cache.pb-c.h"
#include "executor/action/cache.h"
#include "executor/base/alloc.h"
#include "executor/base/pb.h"

enum { MAX_LIST = 2 };

/** A result with one of everything; its blobs are in the store. */
struct scene {
	struct fix *fix;
	struct bj_digest action;
	re_action_result result;
	re_action_metadata metadata;
	re_output_file file, *files[MAX_LIST];
	re_output_directory dir, *dirs[MAX_LIST];
	re_output_symlink link, *links[MAX_LIST];
	struct bj_digest file_digest, out_digest, err_digest, inner_digest, tree_digest,
		root_digest;
};

static re_digest *pb(struct scene *s, const struct bj_digest *digest)
{
	return bj_digest_to_pb(&s->fix->arena, digest);
}

static struct bj_str pack_directory(struct scene *s, const struct bj_digest *file,
				    const struct bj_digest *sub)
{
	re_directory dir = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIRECTORY__INIT;
	re_file_node node = BUILD__BAZEL__REMOTE__EXECUTION__V2__FILE_NODE__INIT,
		     *nodes[] = { &node };
	re_directory_node below = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIRECTORY_NODE__INIT;
	re_directory_node *belows[] = { &below };
	node.name = (char *)(uintptr_t) "inner";
	node.digest = pb(s, file);
	dir.files = nodes;
	dir.n_files = 1;
	if (sub) {
		below.name = (char *)(uintptr_t) "sub";
		below.digest = pb(s, sub);
		dir.directories = belows;
		dir.n_directories = 1;
	}
	return bj_pb_pack(&s->fix->arena, &dir.base);
}

/* Tree{root{inner = EMPTY, sub}, child{inner}}, in records, and the same Directories as blobs. */
static void put_tree(struct scene *s)
{
	struct bj_digest empty = bj_digest_empty(BJ_DIGEST_SHA256);
	struct bj_buf buf = BJ_BUF_INIT(4096);
	struct bj_str child = pack_directory(s, &s->inner_digest, NULL);
	struct bj_digest child_digest = put(s->fix, child);
	struct bj_str root = pack_directory(s, &empty, &child_digest);
	assert_true(root.len >= 128 && root.len < 256 &&
		    child.len < 128); /* as the varints below say */
	(void)bj_buf_printf(&buf, "\x0a%c\x01", (char)(root.len | 0x80));
	(void)bj_buf_append_str(&buf, root);
	(void)bj_buf_printf(&buf, "\x12%c", (char)child.len);
	assert_true(bj_buf_append_str(&buf, child));
	s->tree_digest = put(s->fix, bj_buf_str(&buf));
	s->root_digest = put(s->fix, root);
	bj_buf_deinit(&buf);
}

static void scene_up(struct scene *s, struct fix *fix)
{
	*s = (struct scene){ .fix = fix,
			     .action = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("action")) };
	build__bazel__remote__execution__v2__action_result__init(&s->result);
	build__bazel__remote__execution__v2__executed_action_metadata__init(&s->metadata);
	build__bazel__remote__execution__v2__output_file__init(&s->file);
	build__bazel__remote__execution__v2__output_directory__init(&s->dir);
	build__bazel__remote__execution__v2__output_symlink__init(&s->link);
	s->file_digest = put(fix, BJ_STR_LIT("file"));
	s->out_digest = put(fix, BJ_STR_LIT("out"));
	s->err_digest = put(fix, BJ_STR_LIT("err"));
	s->inner_digest = put(fix, BJ_STR_LIT("inner"));
	put_tree(s);
	s->metadata.worker = (char *)(uintptr_t) "worker";
	s->file.path = (char *)(uintptr_t) "o/f";
	s->file.digest = pb(s, &s->file_digest);
	s->dir.path = (char *)(uintptr_t) "o/d";
	s->dir.tree_digest = pb(s, &s->tree_digest);
	s->link.path = (char *)(uintptr_t) "o/l";
	s->link.target = (char *)(uintptr_t) "f";
	s->files[0] = &s->file;
	s->dirs[0] = &s->dir;
	s->links[0] = &s->link;
	s->result.output_files = s->files;
	s->result.n_output_files = 1;
	s->result.output_directories = s->dirs;
	s->result.n_output_directories = 1;
	s->result.output_symlinks = s->links;
	s->result.n_output_symlinks = 1;
	s->result.stdout_digest = pb(s, &s->out_digest);
	s->result.stderr_digest = pb(s, &s->err_digest);
	s->result.execution_metadata = &s->metadata;
}

static void cache_put(struct scene *s, const char *instance, enum bj_cache_origin origin)
{
	struct bj_cache_entry entry = { .result = &s->result,
					.origin = origin,
					.fingerprint = BJ_STR_LIT("f00"),
					.counts_as_violation = true,
					.message = BJ_STR_LIT("said") };
	EXPECT_OK(s->fix, bj_cache_put(s->fix->store, bj_str_of(instance), &s->action, &entry,
				       &s->fix->arena, &s->fix->err));
}

static int cache_get(struct scene *s, const char *instance, struct bj_cache_entry *out)
{
	return bj_cache_get(s->fix->store, bj_str_of(instance), &s->action, &s->fix->arena, out,
			    &s->fix->err);
}

static bool is_hit(struct scene *s)
{
	struct bj_cache_entry entry;
	int r = cache_get(s, "", &entry);
	assert_true(r == 0 || r == BJ_CACHE_E_MISS);
	return r == 0;
}

static bool is_complete(struct scene *s)
{
	bool complete = false;
	EXPECT_OK(s->fix, bj_result_check(s->fix->store, BJ_DIGEST_SHA256, &s->result, &complete,
					  &s->fix->err));
	return complete;
}

/* ---- entries ---- */

static void an_entry_comes_back(void **state)
{
	struct scene s;
	struct bj_cache_entry entry;
	scene_up(&s, *state);
	assert_int_equal(cache_get(&s, "", &entry), BJ_CACHE_E_MISS);
	s.result.exit_code = 3;
	cache_put(&s, "", BJ_CACHE_EXECUTED);
	assert_int_equal(cache_get(&s, "", &entry), 0);
	assert_int_equal(entry.origin, BJ_CACHE_EXECUTED);
	assert_true(bj_str_eq(entry.fingerprint, BJ_STR_LIT("f00")));
	assert_true(bj_str_eq(entry.message, BJ_STR_LIT("said")));
	assert_true(entry.counts_as_violation);
	assert_int_equal(entry.result->exit_code, 3);
	assert_string_equal(entry.result->output_files[0]->path, "o/f");
	assert_string_equal(entry.result->execution_metadata->worker, "worker");
	/* Replaced as a whole. */
	s.result.exit_code = 0;
	cache_put(&s, "", BJ_CACHE_UPLOADED);
	assert_int_equal(cache_get(&s, "", &entry), 0);
	assert_int_equal(entry.origin, BJ_CACHE_UPLOADED);
	assert_int_equal(entry.result->exit_code, 0);
}

static void instances_are_apart(void **state)
{
	struct scene s;
	struct bj_cache_entry entry;
	scene_up(&s, *state);
	cache_put(&s, "one", BJ_CACHE_EXECUTED);
	assert_int_equal(cache_get(&s, "one", &entry), 0);
	assert_int_equal(cache_get(&s, "two", &entry), BJ_CACHE_E_MISS);
	assert_int_equal(cache_get(&s, "", &entry), BJ_CACHE_E_MISS);
	s.action.size_bytes++;
	assert_int_equal(cache_get(&s, "one", &entry), BJ_CACHE_E_MISS);
}

/* L94: an empty message would read as "no entry", or worse, as a result without outputs. */
static void a_result_of_defaults_is_refused(void **state)
{
	struct scene s;
	struct bj_cache_entry entry = { .result = &s.result, .origin = BJ_CACHE_UPLOADED };
	scene_up(&s, *state);
	build__bazel__remote__execution__v2__action_result__init(&s.result);
	EXPECT_ERR(s.fix,
		   bj_cache_put(s.fix->store, BJ_STR_NULL, &s.action, &entry, &s.fix->arena,
				&s.fix->err),
		   BJ_INVALID_ARGUMENT, "all defaults");
	assert_false(is_hit(&s));
}

static void put_raw(struct scene *s, const void *bytes, size_t n)
{
	EXPECT_OK(s->fix, bj_store_ac_put(s->fix->store, BJ_STR_NULL, &s->action,
					  bj_str_n(bytes, n), &s->fix->err));
}

static void what_does_not_parse_is_a_miss(void **state)
{
	struct scene s;
	Belljar__V1__CacheEntry e = BELLJAR__V1__CACHE_ENTRY__INIT;
	struct bj_str result, packed;
	scene_up(&s, *state);
	put_raw(&s, "", 0);
	assert_false(is_hit(&s));
	put_raw(&s, "\xff\xff\xff", 3);
	assert_false(is_hit(&s));
	result = bj_pb_pack(&s.fix->arena, &s.result.base);
	const struct {
		ProtobufCBinaryData result;
		int origin;
		bool is_hit;
	} rows[] = {
		{ { result.len, (uint8_t *)(uintptr_t)result.ptr }, BJ_CACHE_EXECUTED, true },
		{ { result.len, (uint8_t *)(uintptr_t)result.ptr }, 0, false },
		{ { result.len, (uint8_t *)(uintptr_t)result.ptr }, 9, false },
		{ { result.len - 1, (uint8_t *)(uintptr_t)result.ptr }, BJ_CACHE_EXECUTED, false },
		{ { 0, NULL }, BJ_CACHE_EXECUTED, false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		e.action_result = rows[i].result;
		e.origin = (Belljar__V1__CacheEntry__Origin)rows[i].origin;
		packed = bj_pb_pack(&s.fix->arena, &e.base);
		put_raw(&s, packed.ptr, packed.len);
		assert_int_equal(is_hit(&s), rows[i].is_hit);
	}
}

/* ---- completeness ---- */

static void every_blob_counts(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	s.dir.root_directory_digest = pb(&s, &s.root_digest);
	cache_put(&s, "", BJ_CACHE_EXECUTED);
	assert_true(is_hit(&s));
	const struct {
		const struct bj_digest *digest;
		const char *text;
	} rows[] = { { &s.file_digest, "file" },
		     { &s.out_digest, "out" },
		     { &s.err_digest, "err" },
		     { &s.inner_digest, "inner" } /* within the Tree */ };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		bj_store_discard(s.fix->store, rows[i].digest);
		assert_false(is_hit(&s));
		(void)put(s.fix, bj_str_of(rows[i].text));
		assert_true(is_hit(&s));
	}
	bj_store_discard(s.fix->store, &s.tree_digest);
	assert_false(is_hit(&s));
	put_tree(&s);
	assert_true(is_hit(&s));
	bj_store_discard(s.fix->store, &s.root_digest);
	assert_false(is_hit(&s));
}

/* A result may have the hierarchy of Directories instead of the Tree, which is what DIRECTORY_ONLY asks for. */
static void a_root_directory_instead_of_a_tree(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	s.dir.tree_digest = NULL;
	s.dir.root_directory_digest = pb(&s, &s.root_digest);
	assert_true(is_complete(&s));
	bj_store_discard(s.fix->store, &s.inner_digest);
	assert_false(is_complete(&s));
}

/* L107 */
static void the_empty_blob_is_always_there(void **state)
{
	struct scene s;
	struct bj_digest empty = bj_digest_empty(BJ_DIGEST_SHA256);
	scene_up(&s, *state);
	s.file.digest = pb(&s, &empty);
	s.result.stdout_digest = pb(&s, &empty);
	s.result.stderr_digest = NULL;
	assert_true(is_complete(&s));
}

static void damaged_trees_are_misses(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool is_complete;
	} rows[] = {
		{ "", 0, true }, /* no records: the empty message */
		{ "\x0a\x00", 2, true },
		{ "\x0a\x00\x12\x00", 4, true },
		{ "\x0a\x80\x00", 3, true }, /* a length in more bytes than it needs */
		{ "\x0a", 1, false },
		{ "\x0a\x80", 2, false },
		{ "\x0a\x05xx", 4, false },
		{ "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, false },
		{ "\x1a\x00", 2, false },
		{ "\x0a\x02\x0a\x00", 4, false }, /* a file without a digest */
		{ "\x0a\x01\xff", 3, false },
	};
	struct scene s;
	scene_up(&s, *state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_digest digest = put(s.fix, bj_str_n(rows[i].bytes, rows[i].len));
		s.dir.tree_digest = pb(&s, &digest);
		if (is_complete(&s) != rows[i].is_complete)
			fail_msg("row %zu", i);
	}
	s.dir.tree_digest = pb(&s, &s.tree_digest);
	flip_bit(blob_path(s.fix, &s.tree_digest), 5);
	assert_false(is_complete(&s));
}

static void a_large_tree_needs_no_large_arena(void **state)
{
	enum { N = 30000 };
	struct scene s;
	struct bj_arena small;
	struct bj_cache_entry entry;
	struct bj_buf buf = BJ_BUF_INIT(64 << 20);
	scene_up(&s, *state);
	struct bj_str child = pack_directory(&s, &s.inner_digest, NULL);
	(void)bj_buf_append(&buf, "\x0a\x00", 2);
	for (int i = 0; i < N; i++) {
		(void)bj_buf_printf(&buf, "\x12%c", (char)child.len);
		assert_true(bj_buf_append_str(&buf, child));
	}
	struct bj_digest digest = put(s.fix, bj_buf_str(&buf));
	bj_buf_deinit(&buf);
	s.dir.tree_digest = pb(&s, &digest);
	cache_put(&s, "", BJ_CACHE_EXECUTED);
	bj_arena_init(&small, 64 << 10);
	assert_int_equal(
		bj_cache_get(s.fix->store, BJ_STR_NULL, &s.action, &small, &entry, &s.fix->err), 0);
	bj_arena_deinit(&small);
}

/* ---- form ---- */

static void expect_refused(struct scene *s, const char *text)
{
	EXPECT_ERR(s->fix,
		   bj_result_check(s->fix->store, BJ_DIGEST_SHA256, &s->result, NULL, &s->fix->err),
		   BJ_INVALID_ARGUMENT, text);
}

static void malformed_results(void **state)
{
	re_digest bad = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST__INIT;
	struct scene s;
	scene_up(&s, *state);
	bad.hash = (char *)(uintptr_t) "12";
	struct {
		re_digest **field;
		const char *text;
		bool is_needed;
	} digests[] = {
		{ &s.file.digest, "ActionResult.output_files[0].digest", true },
		{ &s.dir.tree_digest, "ActionResult.output_directories[0].tree_digest", true },
		{ &s.dir.root_directory_digest,
		  "ActionResult.output_directories[0].root_directory_digest", false },
		{ &s.result.stdout_digest, "ActionResult.stdout_digest", false },
		{ &s.result.stderr_digest, "ActionResult.stderr_digest", false },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(digests); i++) {
		re_digest *good = *digests[i].field;
		*digests[i].field = &bad;
		expect_refused(&s, digests[i].text);
		*digests[i].field = NULL;
		if (digests[i].is_needed)
			expect_refused(&s, digests[i].text);
		*digests[i].field = good;
	}
	/* L21: nobody's outputs lie there. */
	static const char *const paths[] = { "/x", "../x", "a/../../x", "x/", "a//b" };
	struct {
		char **field;
		const char *text;
	} fields[] = { { &s.file.path, "ActionResult.output_files[0].path" },
		       { &s.dir.path, "ActionResult.output_directories[0].path" },
		       { &s.link.path, "ActionResult.output_symlinks[0].path" } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(fields); i++) {
		char *good = *fields[i].field;
		for (size_t j = 0; j < BJ_ARRAY_LEN(paths); j++) {
			*fields[i].field = (char *)(uintptr_t)paths[j];
			expect_refused(&s, fields[i].text);
		}
		*fields[i].field = good;
	}
	s.dir.path = (char *)(uintptr_t) ""; /* the whole working directory */
	assert_true(is_complete(&s));
	s.file.path = (char *)(uintptr_t) "";
	expect_refused(&s, "output_files[0].path");
}

/* Nobody asks whether it is complete: its form is checked, and no blob looked for. */
static void form_without_blobs(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	bj_store_discard(s.fix->store, &s.file_digest);
	bj_store_discard(s.fix->store, &s.tree_digest);
	EXPECT_OK(s.fix,
		  bj_result_check(s.fix->store, BJ_DIGEST_SHA256, &s.result, NULL, &s.fix->err));
}

static void each_allocation_fails_once(void **state)
{
	struct scene s;
	bool failed = true;
	uint64_t n = 0;
	scene_up(&s, *state);
	cache_put(&s, "", BJ_CACHE_EXECUTED);
	for (; failed; n++) {
		struct bj_cache_entry entry;
		struct bj_arena arena;
		bj_arena_init(&arena, 0);
		bj_alloc_fail_after(n);
		int r = bj_cache_get(s.fix->store, BJ_STR_NULL, &s.action, &arena, &entry,
				     &s.fix->err);
		failed = bj_alloc_fail_disarm();
		assert_true(r == 0 || failed);
		assert_int_equal(bj_err_is_set(&s.fix->err), r < 0);
		bj_err_clear(&s.fix->err);
		bj_arena_deinit(&arena);
	}
	assert_true(n > 3);
	assert_true(is_hit(&s)); /* want of memory has not thrown it away */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(an_entry_comes_back),
		FIX_TEST(instances_are_apart),
		FIX_TEST(a_result_of_defaults_is_refused),
		FIX_TEST(what_does_not_parse_is_a_miss),
		FIX_TEST(every_blob_counts),
		FIX_TEST(a_root_directory_instead_of_a_tree),
		FIX_TEST(the_empty_blob_is_always_there),
		FIX_TEST(damaged_trees_are_misses),
		FIX_TEST(a_large_tree_needs_no_large_arena),
		FIX_TEST(malformed_results),
		FIX_TEST(form_without_blobs),
		FIX_TEST(each_allocation_fails_once),
	};
	return cmocka_run_group_tests_name("action/cache", tests, NULL, NULL);
}
