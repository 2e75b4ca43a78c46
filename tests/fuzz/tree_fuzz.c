// SPDX-License-Identifier: Apache-2.0
/*
 * Directory messages and trees of them. The first byte of the input chooses:
 *
 *	even	the rest is one Directory message, as bytes from the wire: whatever the check accepts must obey the rules,
 *		which are written down once more here
 *	odd	the rest is a program that builds Directories out of earlier ones (see build()): the tree that comes back
 *		must be the one that a plain recursion over the same program gives
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/fd.h"
#include "executor/base/macros.h"
#include "executor/base/pb.h"
#include "executor/cas/reapi.h"
#include "executor/cas/store.h"
#include "executor/cas/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_DIRS = 24, MAX_NODES = 24, MAX_ENTRIES = 600, MAX_DEPTH = 10, MAX_PATH_BYTES = 64 };

/* ---- even: one message ---- */

static bool is_segment(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && len <= 255 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
	       !strchr(name, '/') && bj_str_is_utf8(bj_str_n(name, len));
}

static size_t collect_names(const re_directory *dir, const char **names)
{
	size_t n = 0;
	for (size_t i = 0; i < dir->n_files; i++)
		names[n++] = dir->files[i]->name;
	for (size_t i = 0; i < dir->n_directories; i++)
		names[n++] = dir->directories[i]->name;
	for (size_t i = 0; i < dir->n_symlinks; i++)
		names[n++] = dir->symlinks[i]->name;
	return n;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void assert_sorted(const char **names, size_t n)
{
	for (size_t i = 1; i < n; i++)
		bj_assert(strcmp(names[i - 1], names[i]) < 0);
}

static void assert_rules(const re_directory *dir, struct bj_arena *arena)
{
	const char **names = BJ_ARENA_ARRAY(arena, const char *,
					    dir->n_files + dir->n_directories + dir->n_symlinks);
	bj_assert(names);
	size_t n = collect_names(dir, names);
	for (size_t i = 0; i < n; i++)
		bj_assert(is_segment(names[i]));
	assert_sorted(names, dir->n_files);
	assert_sorted(names + dir->n_files, dir->n_directories);
	assert_sorted(names + dir->n_files + dir->n_directories, dir->n_symlinks);
	if (n > 0)
		qsort(names, n, sizeof(*names), by_bytes);
	assert_sorted(names, n);
	for (size_t i = 0; i < dir->n_files; i++)
		bj_assert(dir->files[i]->digest && strlen(dir->files[i]->digest->hash) == 64 &&
			  dir->files[i]->digest->size_bytes >= 0);
	for (size_t i = 0; i < dir->n_directories; i++)
		bj_assert(dir->directories[i]->digest &&
			  strlen(dir->directories[i]->digest->hash) == 64);
}

static void run_message(struct bj_str bytes)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *msg = NULL;
	bj_arena_init(&arena, 64 << 20);
	if (bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__directory__descriptor, &arena,
			 &msg, &err) < 0)
		return;
	const re_directory *dir = (const re_directory *)msg;
	int r = bj_directory_check(dir, BJ_DIGEST_SHA256, "fuzz", &err);
	bj_assert(r == 0 || r == -BJ_INVALID_ARGUMENT);
	bj_assert(bj_err_is_set(&err) == (r < 0));
	if (r == 0)
		assert_rules(dir, &arena);
}

/* ---- odd: a tree ---- */

struct node {
	enum bj_node_kind kind;
	char name[4];	 /* one or two letters, in order */
	size_t dir;	 /* DIR: index of an earlier one */
	bool is_missing; /* FILE */
};

struct dir {
	struct node nodes[MAX_NODES];
	size_t n_nodes;
	struct bj_digest digest;
	bool is_stored; /* else its blob is missing */
};

struct program {
	struct dir dirs[MAX_DIRS];
	size_t n_dirs;
};

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
	(void)snprintf(the_dir, sizeof(the_dir), "%s/tree-fuzz-XXXXXX", base ? base : "/dev/shm");
	bj_assert(mkdtemp(the_dir));
	int r = bj_store_open(the_dir, &opts, &the_store, &err);
	bj_assert(r == 0);
	bj_assert(atexit(remove_store) == 0);
}

/*
 * Each byte is one step: its low three bits say what, the others which.
 *	0	close this directory, start the next	1, 2	a file	3	a file that is missing
 *	4, 5	an earlier directory			6	a symlink	7	close, and lose the blob
 * Names grow with each step, so that lists are sorted.
 */
static void build(struct program *program, const uint8_t *data, size_t size)
{
	struct dir *dir = &program->dirs[0];
	program->n_dirs = 1;
	dir->is_stored = true;
	for (size_t i = 0; i < size; i++) {
		unsigned int what = data[i] & 7u, which = data[i] >> 3;
		if (what == 0 || what == 7) {
			if (program->n_dirs == MAX_DIRS)
				return;
			dir->is_stored = what == 0;
			dir = &program->dirs[program->n_dirs++];
			dir->is_stored = true;
			continue;
		}
		if (dir->n_nodes == MAX_NODES)
			continue;
		struct node *node = &dir->nodes[dir->n_nodes];
		size_t n_earlier = program->n_dirs - 1;
		if ((what == 4 || what == 5) && n_earlier == 0)
			continue;
		/* "a", "a-", "b", "b-", …: '-' sorts below '/', which is where paths and names differ. */
		node->name[0] = (char)('a' + dir->n_nodes / 2);
		node->name[1] = dir->n_nodes % 2 ? '-' : '\0';
		node->kind = what == 6 ? BJ_NODE_SYMLINK : what >= 4 ? BJ_NODE_DIR : BJ_NODE_FILE;
		node->is_missing = what == 3;
		node->dir = n_earlier ? n_earlier - 1 - which % n_earlier : 0;
		dir->n_nodes++;
	}
}

static struct bj_str pack_dir(const struct program *program, const struct dir *dir,
			      struct bj_arena *arena)
{
	re_directory *pb = BJ_ARENA_NEW(arena, re_directory);
	bj_assert(pb);
	build__bazel__remote__execution__v2__directory__init(pb);
	pb->files = BJ_ARENA_ARRAY(arena, re_file_node *, MAX_NODES);
	pb->directories = BJ_ARENA_ARRAY(arena, re_directory_node *, MAX_NODES);
	pb->symlinks = BJ_ARENA_ARRAY(arena, re_symlink_node *, MAX_NODES);
	bj_assert(pb->files && pb->directories && pb->symlinks);
	struct bj_digest empty = bj_digest_empty(BJ_DIGEST_SHA256), missing = empty;
	missing.size_bytes = 1;
	for (size_t i = 0; i < dir->n_nodes; i++) {
		const struct node *node = &dir->nodes[i];
		if (node->kind == BJ_NODE_FILE) {
			re_file_node *file = BJ_ARENA_NEW(arena, re_file_node);
			build__bazel__remote__execution__v2__file_node__init(file);
			file->name = (char *)node->name;
			file->digest = bj_digest_to_pb(arena, node->is_missing ? &missing : &empty);
			pb->files[pb->n_files++] = file;
		} else if (node->kind == BJ_NODE_DIR) {
			re_directory_node *sub = BJ_ARENA_NEW(arena, re_directory_node);
			build__bazel__remote__execution__v2__directory_node__init(sub);
			sub->name = (char *)node->name;
			sub->digest = bj_digest_to_pb(arena, &program->dirs[node->dir].digest);
			pb->directories[pb->n_directories++] = sub;
		} else {
			re_symlink_node *link = BJ_ARENA_NEW(arena, re_symlink_node);
			build__bazel__remote__execution__v2__symlink_node__init(link);
			link->name = (char *)node->name;
			pb->symlinks[pb->n_symlinks++] = link;
		}
	}
	return bj_pb_pack(arena, &pb->base);
}

static void store_dirs(struct program *program, struct bj_arena *arena)
{
	for (size_t i = 0; i < program->n_dirs; i++) {
		struct dir *dir = &program->dirs[i];
		struct bj_err err = BJ_ERR_NULL;
		struct bj_str bytes = pack_dir(program, dir, arena);
		bj_assert(bytes.ptr);
		dir->digest = bj_digest_of(BJ_DIGEST_SHA256, bytes);
		int r = bj_store_put(the_store, BJ_DIGEST_SHA256, bytes, NULL, NULL, &err);
		bj_assert(r == 0);
	}
	/* At the end, since two directories may be one blob. The empty one cannot be lost. */
	for (size_t i = 0; i < program->n_dirs; i++)
		if (!program->dirs[i].is_stored)
			bj_store_discard(the_store, &program->dirs[i].digest);
}

/* What the recursion finds. */
struct expected {
	char paths[MAX_ENTRIES + 1][MAX_PATH_BYTES];
	enum bj_node_kind kinds[MAX_ENTRIES + 1];
	size_t n_entries; /* MAX_ENTRIES + 1: too many */
	bool is_too_deep;
	bool is_incomplete;
};

static void expand(const struct program *program, const struct dir *dir, const char *path,
		   size_t depth, struct expected *out)
{
	if (!bj_store_has(the_store, &dir->digest)) {
		out->is_incomplete = true;
		return;
	}
	for (size_t i = 0; i < dir->n_nodes; i++) {
		const struct node *node = &dir->nodes[i];
		if (depth == MAX_DEPTH) {
			out->is_too_deep = true;
			return;
		}
		out->is_incomplete = out->is_incomplete || node->is_missing;
		if (out->n_entries > MAX_ENTRIES)
			return;
		char *own = out->paths[out->n_entries];
		(void)snprintf(own, MAX_PATH_BYTES, "%s%s%s", path, *path ? "/" : "", node->name);
		out->kinds[out->n_entries++] = node->kind;
		if (node->kind == BJ_NODE_DIR)
			expand(program, &program->dirs[node->dir], own, depth + 1, out);
	}
}

static void compare(const struct bj_tree *tree, const struct expected *want)
{
	bj_assert(tree->n_entries == want->n_entries);
	for (size_t i = 0; i < tree->n_entries; i++) {
		const struct bj_tree_entry *entry = &tree->entries[i];
		bj_assert(entry->kind == want->kinds[i]);
		bj_assert(bj_str_eq(entry->path, bj_str_of(want->paths[i])));
		bj_assert(bj_tree_find(tree, entry->path) == entry);
		bj_assert(entry->kind != BJ_NODE_SYMLINK ||
			  bj_str_eq(entry->target, BJ_STR_LIT(".")));
	}
}

static void run_tree(const uint8_t *data, size_t size)
{
	static struct program program;
	static struct expected want;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	struct bj_tree_limits limits = { .max_entries = MAX_ENTRIES, .max_depth = MAX_DEPTH };
	struct bj_tree tree = { NULL, 0, 0 };
	struct bj_missing missing = { NULL, 0 };
	struct bj_err err = BJ_ERR_NULL;
	bj_arena_init(&arena, 64 << 20);
	memset(&program, 0, sizeof(program));
	want.n_entries = 0;
	want.is_too_deep = want.is_incomplete = false;

	build(&program, data, size);
	store_dirs(&program, &arena);
	const struct dir *root = &program.dirs[program.n_dirs - 1];
	expand(&program, root, "", 0, &want);
	int r = bj_tree_load(the_store, &root->digest, &limits, &arena, &tree, &missing, &err);
	bool is_too_large = want.n_entries > MAX_ENTRIES || want.is_too_deep;
	/* An incomplete tree may be refused for its size before what is missing is known, and the other way round. */
	if (r == BJ_TREE_E_MISSING)
		bj_assert((want.is_incomplete || is_too_large) && missing.n_digests > 0);
	else if (r == -BJ_RESOURCE_EXHAUSTED)
		bj_assert(is_too_large);
	else
		bj_assert(r == 0 && !want.is_incomplete && !is_too_large);
	if (r == 0)
		compare(&tree, &want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!the_store)
		open_store();
	if (size == 0)
		return 0;
	if (data[0] % 2 == 0)
		run_message(bj_str_n(data + 1, size - 1));
	else
		run_tree(data + 1, size - 1);
	return 0;
}
