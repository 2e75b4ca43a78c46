// SPDX-License-Identifier: Apache-2.0
/*
 * Which entry was used longest ago? A list that each use reorders would answer, but costs four cache misses a use, and
 * FindMissing asks for millions. So a use only writes a stamp into the entry, and the order is kept by a binary heap
 * that is allowed to be late:
 *
 *	a slot holds an entry and the stamp that it had when it was placed;
 *	stamps only grow, so a slot's stamp is never above its entry's.
 *
 * The top of the heap has the smallest placed stamp. If its entry was used since, the slot is given the real stamp and
 * sinks; when a top is found whose stamp is real, every other entry's stamp is at least its slot's, which is at least
 * the top's: it is the oldest, exactly. Each use causes at most one sinking, and only when something is evicted.
 */
#include "executor/base/alloc.h"
#include "executor/cas/store-internal.h"

enum { FIRST_SLOTS = 64 };

static void place(struct bj_store_lru *lru, size_t at, struct bj_store_lru_slot slot)
{
	lru->slots[at] = slot;
	slot.entry->lru_index = (uint32_t)at;
}

static void rise(struct bj_store_lru *lru, size_t at, struct bj_store_lru_slot slot)
{
	while (at > 0 && lru->slots[(at - 1) / 2].stamp_ns > slot.stamp_ns) {
		place(lru, at, lru->slots[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place(lru, at, slot);
}

static void sink(struct bj_store_lru *lru, size_t at, struct bj_store_lru_slot slot)
{
	for (;;) {
		size_t child = 2 * at + 1;
		if (child + 1 < lru->n_slots &&
		    lru->slots[child + 1].stamp_ns < lru->slots[child].stamp_ns)
			child++;
		if (child >= lru->n_slots || lru->slots[child].stamp_ns >= slot.stamp_ns)
			break;
		place(lru, at, lru->slots[child]);
		at = child;
	}
	place(lru, at, slot);
}

void bj_store_lru_deinit(struct bj_store_lru *lru)
{
	bj_free(lru->slots);
	*lru = (struct bj_store_lru){ NULL, 0, 0 };
}

bool bj_store_lru_reserve(struct bj_store_lru *lru, size_t n_entries)
{
	if (n_entries <= lru->n_allocated)
		return true;
	if (n_entries > BJ_STORE_LRU_NONE) /* an index has 32 bits */
		return false;
	size_t n = lru->n_allocated ? bj_size_mul(lru->n_allocated, 2) : FIRST_SLOTS;
	n = BJ_MAX(n, n_entries);
	void *bigger = bj_realloc(lru->slots, bj_size_mul(n, sizeof(struct bj_store_lru_slot)));
	if (!bigger)
		return false;
	lru->slots = bigger;
	lru->n_allocated = n;
	return true;
}

void bj_store_lru_insert(struct bj_store_lru *lru, struct bj_store_entry *entry)
{
	bj_assert(lru->n_slots < lru->n_allocated && entry->lru_index == BJ_STORE_LRU_NONE);
	rise(lru, lru->n_slots++, (struct bj_store_lru_slot){ entry->stamp_ns, entry });
}

void bj_store_lru_remove(struct bj_store_lru *lru, struct bj_store_entry *entry)
{
	size_t at = entry->lru_index;
	bj_assert(at < lru->n_slots && lru->slots[at].entry == entry);
	entry->lru_index = BJ_STORE_LRU_NONE;
	struct bj_store_lru_slot last = lru->slots[--lru->n_slots];
	if (at == lru->n_slots)
		return;
	if (at > 0 && lru->slots[(at - 1) / 2].stamp_ns > last.stamp_ns)
		rise(lru, at, last);
	else
		sink(lru, at, last);
}

struct bj_store_entry *bj_store_lru_oldest(struct bj_store_lru *lru)
{
	if (lru->n_slots == 0)
		return NULL;
	for (;;) {
		struct bj_store_lru_slot top = lru->slots[0];
		if (top.stamp_ns == top.entry->stamp_ns)
			return top.entry;
		top.stamp_ns = top.entry->stamp_ns;
		sink(lru, 0, top);
	}
}
