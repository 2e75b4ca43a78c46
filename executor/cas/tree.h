// SPDX-License-Identifier: Apache-2.0
/**
 * cas/tree.h - walking a Merkle tree of Directory messages, refusing every malformed one.
 * Owns: nothing; the result lives in the caller's arena. Threads: the arena's owner; blocks on disk.
 * Spec: REAPI v2, messages Directory, FileNode, DirectoryNode, SymlinkNode.
 *
 * Refused with -INVALID_ARGUMENT, naming the Directory's digest, the path and the entry: names that are empty, ".", "..", contain
 * '/' or NUL or are not UTF-8 or exceed 255 bytes; names that occur twice in one Directory (across its three lists); lists
 * that are not sorted; any NodeProperties.properties (none is known; mtime and unix_mode are accepted and have no effect);
 * a digest that is missing or malformed; a symlink target beyond 4095 bytes. An empty one reads as ".". More than
 * max_entries entries or max_depth levels: -RESOURCE_EXHAUSTED (repeated subtrees are counted each time they occur,
 * so a tree of 40 levels with two equal children ends here and does not hang).
 */
#ifndef BJ_CAS_TREE_H
#define BJ_CAS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/cas/digest.h"
#include "executor/cas/store.h"

enum bj_node_kind { BJ_NODE_DIR, BJ_NODE_FILE, BJ_NODE_SYMLINK };

/** One entry; paths are relative to the root, components joined by '/', no leading slash; the root is not listed. */
struct bj_tree_entry {
	struct bj_str path; /* NUL-terminated */
	enum bj_node_kind kind;
	bool is_executable;	 /* FILE only */
	struct bj_digest digest; /* FILE: content; DIR: the Directory message */
	struct bj_str target;	 /* SYMLINK only, as given ("" became ".") */
};

/**
 * Depth first: parents stand before their children, a directory's whole subtree stands together, and within a directory
 * order is by name (bytewise). The same as the order of the paths with '/' below all other bytes.
 */
struct bj_tree {
	struct bj_tree_entry *entries;
	size_t n_entries;
	uint64_t total_bytes; /* sum of the files' sizes */
};

struct bj_tree_limits {
	size_t max_entries; /* 0: 1,000,000 */
	size_t max_depth;   /* components of a path; 0: 200 */
};

/** Missing blobs found on the way: all of them, each once, in the order of their hashes. */
struct bj_missing {
	struct bj_digest *digests;
	size_t n_digests;
};

enum { BJ_TREE_E_MISSING = 1 };

/**
 * bj_tree_load() - read a whole tree and check that every Directory and file blob is present.
 * @out_missing: set when BJ_TREE_E_MISSING is returned (with as much found as could be; in @arena)
 * Return: 0, BJ_TREE_E_MISSING, -INVALID_ARGUMENT, -RESOURCE_EXHAUSTED, -INTERNAL.
 */
BJ_MUST_USE int bj_tree_load(struct bj_store *store, const struct bj_digest *root,
			     const struct bj_tree_limits *limits, struct bj_arena *arena,
			     struct bj_tree *out_tree, struct bj_missing *out_missing,
			     struct bj_err *err);

/** Checks one Directory message (from bj_pb_unpack()) by the rules above; @where starts the error text, NULL for none. */
struct Build__Bazel__Remote__Execution__V2__Directory;
BJ_MUST_USE int bj_directory_check(const struct Build__Bazel__Remote__Execution__V2__Directory *dir,
				   enum bj_digest_fn fn, const char *where, struct bj_err *err);

/** The entry at @path (exact bytes), or NULL; the root is not listed. A binary search: the array is sorted (see above). */
const struct bj_tree_entry *bj_tree_find(const struct bj_tree *tree, struct bj_str path);

#endif
