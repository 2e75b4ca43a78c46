// SPDX-License-Identifier: Apache-2.0
/**
 * cas/tree-internal.h - reading the three lists of a Directory as one, in order of name.
 * Owns nothing. Threads: any.
 */
#ifndef BJ_CAS_TREE_INTERNAL_H
#define BJ_CAS_TREE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "executor/base/str.h"
#include "executor/cas/reapi.h"
#include "executor/cas/tree.h"

enum { BJ_N_NODE_KINDS = 3 }; /* values of enum bj_node_kind */

/** Position in each list of a Directory; starts zeroed but for @dir. */
struct bj_dir_cursor {
	const re_directory *dir;
	size_t at[BJ_N_NODE_KINDS]; /* the next entry of each list */
};

struct bj_dir_item {
	enum bj_node_kind kind;
	size_t index; /* in the list of its kind */
	struct bj_str name;
};

size_t bj_dir_n_nodes(const re_directory *dir, enum bj_node_kind kind);
struct bj_str bj_dir_node_name(const re_directory *dir, enum bj_node_kind kind, size_t index);
/** The entry with the smallest name among the three heads. False at the end. */
bool bj_dir_next(struct bj_dir_cursor *cursor, struct bj_dir_item *out_item);

#endif
