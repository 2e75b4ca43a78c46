// SPDX-License-Identifier: Apache-2.0
#include "executor/base/map.h"
#include "policy/policy-internal.h"

enum { FIRST_SLOTS = 64 };

static bool alloc_slots(struct bjp_index *index, size_t n_slots, struct bj_arena *arena)
{
	struct bjp_slot *slots = BJ_ARENA_ARRAY(arena, struct bjp_slot, n_slots);
	struct bjp_entry *entries = BJ_ARENA_ARRAY(arena, struct bjp_entry, n_slots / 2);
	if (!slots || !entries)
		return false;
	if (index->n_entries > 0)
		memcpy(entries, index->entries, index->n_entries * sizeof(*entries));
	index->slots = slots;
	index->n_slots = n_slots;
	index->entries = entries;
	return true;
}

bool bjp_index_init(struct bjp_index *index, size_t n_expected, struct bj_arena *arena)
{
	size_t n_slots = FIRST_SLOTS;
	while (n_slots / 2 < n_expected && n_slots < UINT32_MAX / 2)
		n_slots *= 2;
	*index = (struct bjp_index){ 0 };
	return alloc_slots(index, n_slots, arena);
}

/* The slot that holds @path, or the free one where it belongs. */
static struct bjp_slot *find_slot(const struct bjp_index *index, struct bj_str path, uint64_t hash)
{
	size_t mask = index->n_slots - 1;
	uint32_t tag = (uint32_t)(hash >> 32);
	for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
		struct bjp_slot *slot = &index->slots[i];
		if (slot->entry == 0)
			return slot;
		if (slot->tag == tag && bj_str_eq(index->entries[slot->entry - 1].path, path))
			return slot;
	}
}

const struct bjp_entry *bjp_index_get(const struct bjp_index *index, struct bj_str path)
{
	const struct bjp_slot *slot = find_slot(index, path, bj_hash(path));
	return slot->entry ? &index->entries[slot->entry - 1] : NULL;
}

static bool grow(struct bjp_index *index, struct bj_arena *arena)
{
	if (index->n_slots >= UINT32_MAX / 2)
		return false;
	if (!alloc_slots(index, index->n_slots * 2, arena))
		return false;
	for (uint32_t i = 0; i < index->n_entries; i++) {
		uint64_t hash = bj_hash(index->entries[i].path);
		*find_slot(index, index->entries[i].path, hash) =
			(struct bjp_slot){ (uint32_t)(hash >> 32), i + 1 };
	}
	return true;
}

struct bjp_entry *bjp_index_at(struct bjp_index *index, struct bj_str path, struct bj_arena *arena)
{
	uint64_t hash = bj_hash(path);
	struct bjp_slot *slot = find_slot(index, path, hash);
	if (slot->entry)
		return &index->entries[slot->entry - 1];
	if (index->n_entries == index->n_slots / 2) {
		if (!grow(index, arena))
			return NULL;
		slot = find_slot(index, path, hash);
	}
	struct bjp_entry *entry = &index->entries[index->n_entries];
	*entry = (struct bjp_entry){ .path = path };
	index->n_entries++;
	*slot = (struct bjp_slot){ (uint32_t)(hash >> 32), (uint32_t)index->n_entries };
	return entry;
}
