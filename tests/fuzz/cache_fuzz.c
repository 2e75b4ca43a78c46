// SPDX-License-Identifier: Apache-2.0
/*
 * What the action cache reads back. The first byte of the input chooses:
 *
 *	even	the rest is an entry's value: a hit or a miss, never an error, and a hit obeys the rules of a result
 *	odd	the rest is a Tree that a result names: what is taken for complete is a Tree whose files are all there, which is
 *		looked up once more here with the whole message unpacked
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/action/cache.h"
#include "executor/base/fd.h"
#include "executor/base/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bj_store *the_store;
static char the_dir[256];

static void remove_store(void)
{
	bj_store_close(the_store);
	(void)bj_remove_tree(AT_FDCWD, the_dir); /* nobody is left to tell */
}

static void open_store(void)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_store_opts opts = { .max_bytes = 1 << 20, .sync_interval_ns = UINT64_MAX };
	const char *base = getenv("TEST_TMPDIR");

	(void)snprintf(the_dir, sizeof(the_dir), "%s/cache-fuzz-XXXXXX", base ? base : "/dev/shm");
	bj_assert(mkdtemp(the_dir));
	bj_assert(bj_store_open(the_dir, &opts, &the_store, &err) == 0);
	bj_assert(bj_store_put(the_store, BJ_DIGEST_SHA256, BJ_STR_LIT("hi\n"), NULL, NULL, &err) ==
		  0);
	bj_assert(atexit(remove_store) == 0);
}

static bool has_files(const re_directory *dir)
{
	for (size_t i = 0; dir && i < dir->n_files; i++) {
		struct bj_err err = BJ_ERR_NULL;
		struct bj_digest digest;

		if (bj_digest_from_pb(BJ_DIGEST_SHA256, dir->files[i]->digest, "digest", &digest,
				      &err) < 0 ||
		    !bj_store_has(the_store, &digest))
			return false;
	}
	return true;
}

static void run_entry(struct bj_str value)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_digest action = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("action"));
	struct bj_cache_entry entry;
	struct bj_err err = BJ_ERR_NULL;
	bool complete = false;

	bj_arena_init(&arena, 64 << 20);
	bj_assert(bj_store_ac_put(the_store, BJ_STR_NULL, &action, value, &err) == 0);
	int r = bj_cache_get(the_store, BJ_STR_NULL, &action, &arena, &entry, &err);

	bj_assert(r == 0 || r == BJ_CACHE_E_MISS);
	if (r != 0)
		return;
	bj_assert(entry.origin == BJ_CACHE_EXECUTED || entry.origin == BJ_CACHE_UPLOADED);
	bj_assert(bj_result_check(the_store, BJ_DIGEST_SHA256, entry.result, &complete, &err) ==
			  0 &&
		  complete);
	for (size_t i = 0; i < entry.result->n_output_files; i++)
		bj_assert(entry.result->output_files[i]->path[0] != '/');
}

static void run_tree(struct bj_str bytes)
{
	re_action_result result = BUILD__BAZEL__REMOTE__EXECUTION__V2__ACTION_RESULT__INIT;
	re_output_directory dir = BUILD__BAZEL__REMOTE__EXECUTION__V2__OUTPUT_DIRECTORY__INIT;
	re_output_directory *dirs[] = { &dir };
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_digest digest;
	ProtobufCMessage *message;
	bool complete = false;

	bj_arena_init(&arena, 64 << 20);
	bj_assert(bj_store_put(the_store, BJ_DIGEST_SHA256, bytes, NULL, &digest, &err) == 0);
	dir.path = (char *)(uintptr_t) "d";
	dir.tree_digest = bj_digest_to_pb(&arena, &digest);
	result.output_directories = dirs;
	result.n_output_directories = 1;
	bj_assert(bj_result_check(the_store, BJ_DIGEST_SHA256, &result, &complete, &err) == 0);
	if (!complete)
		return;
	bj_assert(bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__tree__descriptor,
			       &arena, &message, &err) == 0);
	const re_tree *tree = (const re_tree *)message;

	bj_assert(has_files(tree->root));
	for (size_t i = 0; i < tree->n_children; i++)
		bj_assert(has_files(tree->children[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!the_store)
		open_store();
	if (size == 0 || size > 1 << 16)
		return 0;
	if (data[0] % 2 == 0)
		run_entry(bj_str_n(data + 1, size - 1));
	else
		run_tree(bj_str_n(data + 1, size - 1));
	return 0;
}
