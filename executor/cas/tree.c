// SPDX-License-Identifier: Apache-2.0
/*
 * Loading a tree happens in three steps, none of which recurses:
 *
 *  1. read    Every distinct Directory once, breadth first over a queue. A digest that occurs again is looked up in the
 *             memo, so the message graph (a DAG) stays as small as what was uploaded. Missing blobs are collected.
 *  2. measure In topological order (Kahn), count how often each Directory occurs, how deep, and how many bytes its
 *             paths take. The counts saturate; a tree of 40 levels with two equal children is 41 nodes here and
 *             2^40 entries, and is refused in microseconds, before anything of its size is allocated.
 *  3. emit    Depth first with a stack of the measured depth, into one array and one buffer of exactly that size.
 *
 *	messages:  root --a--> D1 --c--> D2          entries:  a, a/c, b, b/c
 *	                --b--> D1
 *
 * Depth first, each directory sorted by name, is the same as sorting the whole paths with '/' below all other bytes:
 * "a" < "a/x" < "a-b" < "ab". bj_tree_find() is a binary search in that order, so the array is its own index.
 *
 * A cycle would need a message that contains its own hash; step 2 would refuse it all the same.
 */
#include "executor/cas/tree.h"

#include <stdlib.h>
#include <string.h>

#include "executor/base/map.h"
#include "executor/base/pb.h"
#include "executor/cas/store-internal.h"
#include "executor/cas/tree-internal.h"

enum { DEFAULT_MAX_ENTRIES = 1000000, DEFAULT_MAX_DEPTH = 200, SHOWN_BYTES = 300 };
#define MAX_DIRECTORY_BYTES ((size_t)64 * 1024 * 1024)
#define MAX_SCRATCH_BYTES ((size_t)1024 * 1024 * 1024)
#define MAX_PATHS_BYTES ((size_t)1024 * 1024 * 1024)

/* An entry of a Directory; `path` is only its name, and `dir` is set for a DIR. */
struct child {
	struct bj_tree_entry entry;
	struct node *dir;
};

/* One distinct Directory message. */
struct node {
	struct bj_digest digest;
	struct bj_store_key key; /* of the memo */
	struct child *children;	 /* by name; empty until read, and when the blob is missing */
	size_t n_children;
	struct node *next;	   /* the queue of step 1, then that of step 2 */
	const struct node *parent; /* where it was found first; NULL for the root */
	struct bj_str name;	   /* its name there */
	size_t found_depth;	   /* components of its path there */
	size_t n_refs;		   /* DIR entries that name it and were not measured yet */
	size_t max_depth;	   /* components of its longest path */
	size_t n_occurrences;	   /* in the tree, saturating */
	size_t paths_bytes;	   /* sum of its paths with a '/' behind each, saturating */
};

struct walk {
	struct bj_store *store;
	struct bj_arena *arena;	 /* for the result and the nodes */
	struct bj_arena scratch; /* for one message at a time */
	size_t max_entries, max_depth;
	struct bj_map nodes;   /* key -> node */
	struct bj_map missing; /* key -> digest; keys in the arena */
	struct node *queue_end;
	size_t n_nodes;
	size_t n_read;	    /* entries in all distinct messages */
	size_t n_entries;   /* of the tree: what step 2 found, saturating */
	size_t paths_bytes; /* of all paths with their NULs, saturating */
	size_t tree_depth;
	size_t total_bytes; /* of the files, saturating */
};

static void walk_deinit(struct walk *walk)
{
	bj_map_deinit(&walk->nodes);
	bj_map_deinit(&walk->missing);
	bj_arena_deinit(&walk->scratch);
}

static int no_memory(struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the input tree");
}

/* ---- texts ---- */

/* "a/b/c" from the parents' names, cut at the left when it is long; for errors only. */
static struct bj_str node_path(struct walk *walk, const struct node *node)
{
	char path[SHOWN_BYTES];
	size_t at = sizeof(path);
	for (; node->parent; node = node->parent) {
		size_t need = node->name.len + (at < sizeof(path));
		if (need > at)
			break;
		if (at < sizeof(path))
			path[--at] = '/';
		at -= node->name.len;
		memcpy(path + at, node->name.ptr, node->name.len);
	}
	return bj_str_printable(&walk->scratch, bj_str_n(path + at, sizeof(path) - at),
				SHOWN_BYTES);
}

static int wrap_node(struct walk *walk, const struct node *node, struct bj_err *err)
{
	char name[BJ_DIGEST_STR_BYTES];
	bj_digest_str(&node->digest, name);
	struct bj_str path = node_path(walk, node);
	return bj_err_wrap(err, "input tree: Directory %s at \"%.*s\"", name, BJ_STR_FMT(path));
}

/* ---- step 1: read ---- */

static struct bj_str key_str(const struct bj_store_key *key)
{
	return bj_str_n(key->bytes, key->len);
}

static int add_missing(struct walk *walk, const struct bj_digest *digest, struct bj_err *err)
{
	struct bj_store_key key = bj_store_key_blob(digest);
	if (bj_map_get(&walk->missing, key_str(&key)))
		return 0;
	struct bj_store_key *own_key = bj_arena_memdup(walk->arena, &key, sizeof(key));
	struct bj_digest *own = bj_arena_memdup(walk->arena, digest, sizeof(*digest));
	if (!own_key || !own || !bj_map_put(&walk->missing, key_str(own_key), own, NULL))
		return no_memory(err);
	return 0;
}

/* The node of @digest, new ones at the end of the queue. */
static struct node *get_node(struct walk *walk, const struct bj_digest *digest,
			     const struct node *parent, struct bj_str name)
{
	struct bj_store_key key = bj_store_key_blob(digest);
	struct node *node = bj_map_get(&walk->nodes, key_str(&key));
	if (node)
		return node;
	node = BJ_ARENA_NEW(walk->arena, struct node);
	if (!node)
		return NULL;
	node->digest = *digest;
	node->key = key;
	node->parent = parent;
	node->name = name;
	node->found_depth = parent ? parent->found_depth + 1 : 0;
	if (!bj_map_put(&walk->nodes, key_str(&node->key), node, NULL))
		return NULL;
	if (walk->queue_end)
		walk->queue_end->next = node;
	walk->queue_end = node;
	walk->n_nodes++;
	return node;
}

static int make_file(struct walk *walk, const re_file_node *pb, struct child *child,
		     struct bj_err *err)
{
	child->entry.is_executable = pb->is_executable;
	if (bj_store_has(walk->store, &child->entry.digest))
		return 0;
	return add_missing(walk, &child->entry.digest, err);
}

static int make_symlink(struct walk *walk, const re_symlink_node *pb, struct child *child,
			struct bj_err *err)
{
	struct bj_str target = bj_str_of(pb->target);
	/* A message that leaves "." at its default, the empty string, means ".". */
	child->entry.target = bj_arena_str(walk->arena, target.len > 0 ? target : BJ_STR_LIT("."));
	return child->entry.target.ptr ? 0 : no_memory(err);
}

static int make_dir(struct walk *walk, struct node *parent, struct child *child, struct bj_err *err)
{
	child->dir = get_node(walk, &child->entry.digest, parent, child->entry.path);
	if (!child->dir)
		return no_memory(err);
	child->dir->n_refs++;
	return 0;
}

static int make_child(struct walk *walk, struct node *node, const re_directory *dir,
		      const struct bj_dir_item *item, struct child *child, struct bj_err *err)
{
	child->entry.kind = item->kind;
	child->entry.path = bj_arena_str(walk->arena, item->name);
	if (!child->entry.path.ptr)
		return no_memory(err);
	if (item->kind == BJ_NODE_SYMLINK)
		return make_symlink(walk, dir->symlinks[item->index], child, err);

	const re_digest *pb = item->kind == BJ_NODE_FILE ? dir->files[item->index]->digest
							 : dir->directories[item->index]->digest;
	int r = bj_digest_from_pb(node->digest.fn, pb, "digest", &child->entry.digest, err);
	if (r < 0)
		return r;
	if (item->kind == BJ_NODE_FILE)
		return make_file(walk, dir->files[item->index], child, err);
	return make_dir(walk, node, child, err);
}

static int check_limits(struct walk *walk, const struct node *node, size_t n_children,
			struct bj_err *err)
{
	walk->n_read = bj_size_add(walk->n_read, n_children);
	if (walk->n_read > walk->max_entries)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "more than %zu entries",
				  walk->max_entries);
	if (n_children > 0 && node->found_depth >= walk->max_depth)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "more than %zu levels",
				  walk->max_depth);
	return 0;
}

static int make_children(struct walk *walk, struct node *node, const re_directory *dir,
			 struct bj_err *err)
{
	size_t n = dir->n_files + dir->n_directories + dir->n_symlinks;
	int r = check_limits(walk, node, n, err);
	if (r < 0)
		return r;
	node->children = BJ_ARENA_ARRAY(walk->arena, struct child, n);
	if (!node->children)
		return no_memory(err);
	struct bj_dir_cursor cursor = { .dir = dir };
	struct bj_dir_item item;
	while (bj_dir_next(&cursor, &item)) {
		r = make_child(walk, node, dir, &item, &node->children[node->n_children], err);
		if (r < 0)
			return r;
		node->n_children++;
	}
	return 0;
}

static int parse_node(struct walk *walk, struct node *node, struct bj_str bytes, struct bj_err *err)
{
	ProtobufCMessage *msg = NULL;
	int r = bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__directory__descriptor,
			     &walk->scratch, &msg, err);
	if (r < 0)
		return r;
	const re_directory *dir = (const re_directory *)msg;
	r = bj_directory_check(dir, node->digest.fn, NULL, err);
	if (r < 0)
		return r;
	return make_children(walk, node, dir, err);
}

static int read_node(struct walk *walk, struct node *node, struct bj_err *err)
{
	struct bj_str bytes = BJ_STR_NULL;
	bj_arena_reset(&walk->scratch);
	int r = bj_store_read(walk->store, &node->digest, MAX_DIRECTORY_BYTES, &bytes,
			      &walk->scratch, err);
	if (r == -BJ_DATA_LOSS) { /* it was dropped just now: the client has to upload it again */
		bj_err_clear(err);
		r = BJ_STORE_E_MISSING;
	}
	if (r == BJ_STORE_E_MISSING)
		return add_missing(walk, &node->digest, err);
	if (r == 0)
		r = parse_node(walk, node, bytes, err);
	return r < 0 ? wrap_node(walk, node, err) : 0;
}

static int read_all(struct walk *walk, const struct bj_digest *root, struct node **out_root,
		    struct bj_err *err)
{
	struct node *first = get_node(walk, root, NULL, BJ_STR_NULL);
	if (!first)
		return no_memory(err);
	for (struct node *node = first; node; node = node->next) {
		int r = read_node(walk, node, err);
		if (r < 0)
			return r;
	}
	*out_root = first;
	return 0;
}

/* ---- step 2: measure ---- */

static void measure_dir(const struct node *node, const struct child *child, struct node **ready_end)
{
	struct node *dir = child->dir;
	size_t own = bj_size_mul(node->n_occurrences, child->entry.path.len + 1);
	dir->n_occurrences = bj_size_add(dir->n_occurrences, node->n_occurrences);
	dir->paths_bytes = bj_size_add(dir->paths_bytes, bj_size_add(node->paths_bytes, own));
	dir->max_depth = BJ_MAX(dir->max_depth, node->max_depth + 1);
	if (--dir->n_refs == 0) {
		dir->next = NULL;
		(*ready_end)->next = dir;
		*ready_end = dir;
	}
}

static void measure_node(struct walk *walk, const struct node *node, struct node **ready_end)
{
	for (size_t i = 0; i < node->n_children; i++) {
		const struct child *child = &node->children[i];
		size_t own = bj_size_mul(node->n_occurrences, child->entry.path.len + 1);
		walk->paths_bytes =
			bj_size_add(walk->paths_bytes, bj_size_add(node->paths_bytes, own));
		if (child->entry.kind == BJ_NODE_FILE)
			walk->total_bytes = bj_size_add(
				walk->total_bytes,
				bj_size_mul(node->n_occurrences, child->entry.digest.size_bytes));
		if (child->entry.kind == BJ_NODE_DIR)
			measure_dir(node, child, ready_end);
	}
	walk->n_entries =
		bj_size_add(walk->n_entries, bj_size_mul(node->n_occurrences, node->n_children));
	if (node->n_children > 0)
		walk->tree_depth = BJ_MAX(walk->tree_depth, node->max_depth + 1);
}

static int measure(struct walk *walk, struct node *root, struct bj_err *err)
{
	size_t n_measured = 0;
	struct node *ready_end = root;
	root->n_occurrences = 1;
	root->next = NULL;
	for (struct node *node = root; node; node = node->next) {
		measure_node(walk, node, &ready_end);
		n_measured++;
	}
	if (n_measured != walk->n_nodes)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "input tree: a Directory contains itself");
	if (walk->n_entries > walk->max_entries)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "input tree: more than %zu entries",
				  walk->max_entries);
	if (walk->tree_depth > walk->max_depth)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "input tree: more than %zu levels",
				  walk->max_depth);
	if (walk->paths_bytes > MAX_PATHS_BYTES)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "input tree: its paths take more than %zu bytes",
				  MAX_PATHS_BYTES);
	return 0;
}

/* ---- step 3: emit ---- */

struct frame {
	const struct node *node;
	size_t next;	    /* child */
	struct bj_str path; /* of the node; empty for the root */
};

struct emitter {
	struct bj_tree_entry *entries;
	size_t n_entries;
	char *paths; /* where the next path goes */
};

static void emit(struct emitter *emitter, struct bj_str parent, const struct child *child)
{
	struct bj_tree_entry *entry = &emitter->entries[emitter->n_entries++];
	struct bj_str name = child->entry.path;
	char *start = emitter->paths;
	char *p = start;
	*entry = child->entry;
	if (parent.len > 0) {
		memcpy(p, parent.ptr, parent.len);
		p += parent.len;
		*p++ = '/';
	}
	memcpy(p, name.ptr, name.len);
	p += name.len;
	*p = '\0';
	entry->path = bj_str_n(start, (size_t)(p - start));
	emitter->paths = p + 1;
}

static void emit_all(struct emitter *emitter, const struct node *root, struct frame *stack)
{
	size_t depth = 1;
	stack[0] = (struct frame){ root, 0, BJ_STR_NULL };
	while (depth > 0) {
		struct frame *frame = &stack[depth - 1];
		if (frame->next == frame->node->n_children) {
			depth--;
			continue;
		}
		const struct child *child = &frame->node->children[frame->next++];
		emit(emitter, frame->path, child);
		if (child->entry.kind == BJ_NODE_DIR)
			stack[depth++] =
				(struct frame){ child->dir, 0,
						emitter->entries[emitter->n_entries - 1].path };
	}
}

static int emit_tree(struct walk *walk, const struct node *root, struct bj_tree *out_tree,
		     struct bj_err *err)
{
	struct emitter emitter = {
		.entries = BJ_ARENA_ARRAY(walk->arena, struct bj_tree_entry, walk->n_entries),
		.paths = bj_arena_alloc(walk->arena, walk->paths_bytes),
	};
	/* A level more than the entries have: an empty directory at the bottom is entered, too. */
	struct frame *stack = BJ_ARENA_ARRAY(&walk->scratch, struct frame, walk->tree_depth + 1);
	if (!emitter.entries || !emitter.paths || !stack)
		return no_memory(err);
	const char *paths_end = emitter.paths + walk->paths_bytes;
	emit_all(&emitter, root, stack);
	bj_assert(emitter.n_entries == walk->n_entries && emitter.paths == paths_end);
	*out_tree = (struct bj_tree){ emitter.entries, emitter.n_entries, walk->total_bytes };
	return 0;
}

/* ---- the whole ---- */

/* In the order of the digests, so that the same tree gives the same answer. */
static int by_digest(const void *a, const void *b)
{
	const struct bj_digest *x = a, *y = b;
	int order = memcmp(x->hash, y->hash, sizeof(x->hash));
	if (order != 0)
		return order;
	return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static int list_missing(struct walk *walk, struct bj_missing *out_missing, struct bj_err *err)
{
	size_t n = walk->missing.n_entries;
	struct bj_digest *digests = BJ_ARENA_ARRAY(walk->arena, struct bj_digest, n);
	if (!digests)
		return no_memory(err);
	size_t pos = 0, i = 0;
	for (const struct bj_map_slot *slot; (slot = bj_map_next(&walk->missing, &pos));)
		digests[i++] = *(const struct bj_digest *)slot->value;
	qsort(digests, n, sizeof(*digests), by_digest);
	*out_missing = (struct bj_missing){ digests, n };
	return BJ_TREE_E_MISSING;
}

static int load(struct walk *walk, const struct bj_digest *root, struct bj_tree *out_tree,
		struct bj_missing *out_missing, struct bj_err *err)
{
	struct node *first = NULL;
	int r = read_all(walk, root, &first, err);
	if (r < 0)
		return r;
	bj_assert(first);
	if (walk->missing.n_entries > 0)
		return list_missing(walk, out_missing, err);
	r = measure(walk, first, err);
	if (r < 0)
		return r;
	return emit_tree(walk, first, out_tree, err);
}

int bj_tree_load(struct bj_store *store, const struct bj_digest *root,
		 const struct bj_tree_limits *limits, struct bj_arena *arena,
		 struct bj_tree *out_tree, struct bj_missing *out_missing, struct bj_err *err)
{
	struct walk walk = {
		.store = store,
		.arena = arena,
		.max_entries =
			limits && limits->max_entries ? limits->max_entries : DEFAULT_MAX_ENTRIES,
		.max_depth = limits && limits->max_depth ? limits->max_depth : DEFAULT_MAX_DEPTH,
	};
	bj_arena_init(&walk.scratch, MAX_SCRATCH_BYTES);
	int r = load(&walk, root, out_tree, out_missing, err);
	walk_deinit(&walk);
	return r;
}

/* ---- find ---- */

static size_t common_prefix(struct bj_str a, struct bj_str b)
{
	size_t n = BJ_MIN(a.len, b.len);
	size_t i = 0;
	for (; i + 8 <= n && memcmp(a.ptr + i, b.ptr + i, 8) == 0; i += 8)
		;
	while (i < n && a.ptr[i] == b.ptr[i])
		i++;
	return i;
}

/* The order of the entries: bytewise, but '/' below all others. */
static int path_cmp(struct bj_str a, struct bj_str b)
{
	size_t i = common_prefix(a, b);
	if (i == a.len || i == b.len)
		return (a.len > b.len) - (a.len < b.len);
	int x = a.ptr[i] == '/' ? 0 : (unsigned char)a.ptr[i];
	int y = b.ptr[i] == '/' ? 0 : (unsigned char)b.ptr[i];
	return x - y;
}

const struct bj_tree_entry *bj_tree_find(const struct bj_tree *tree, struct bj_str path)
{
	size_t low = 0, high = tree->n_entries;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = path_cmp(path, tree->entries[middle].path);
		if (order < 0)
			high = middle;
		else if (order > 0)
			low = middle + 1;
		else /* a NUL in @path has the rank of '/' */
			return bj_str_eq(path, tree->entries[middle].path) ? &tree->entries[middle]
									   : NULL;
	}
	return NULL;
}
