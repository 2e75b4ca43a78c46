// SPDX-License-Identifier: Apache-2.0
/*
 * The store's index: every file in the store has an entry in memory, so that FindMissing is a look into a hash table.
 *
 * An entry is a small state machine. Three of its states are busy: one thread works on the entry's file without
 * holding the lock, and everybody else who wants the entry waits. That is what keeps "evict X" and "upload X" from
 * removing each other's file:
 *
 *	            publish                 ok
 *	 ABSENT ------------> PUBLISHING* -----> PRESENT <---+
 *	    ^                  |  ^    ^            |        | ok
 *	    |          failed: |  |    | replace,   |        |
 *	    |    back to prior v  |    | upload     v        |
 *	    +--- REMOVING* <------+----+--------- SUSPECT -> VERIFYING*
 *	             ^        evict, damaged                    | damaged
 *	             +------------------------------------------+
 *
 * (* busy). The LRU heap holds exactly the entries that may be evicted, so eviction takes its top and never searches.
 * Stamps are real times made strictly increasing: written to the files' mtimes they give the same order after a restart.
 */
#include "executor/cas/store-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"

enum { SIZE_BYTES = 8 };

#define BIT(state) (1u << BJ_ENTRY_##state)

static const unsigned int allowed_moves[BJ_ENTRY_N_STATES] = {
	[BJ_ENTRY_ABSENT] = BIT(PUBLISHING),
	[BJ_ENTRY_PUBLISHING] = BIT(PRESENT) | BIT(ABSENT) | BIT(SUSPECT),
	[BJ_ENTRY_SUSPECT] = BIT(VERIFYING) | BIT(PUBLISHING) | BIT(REMOVING),
	[BJ_ENTRY_VERIFYING] = BIT(PRESENT) | BIT(SUSPECT) | BIT(REMOVING),
	[BJ_ENTRY_PRESENT] = BIT(PUBLISHING) | BIT(REMOVING),
	[BJ_ENTRY_REMOVING] = BIT(ABSENT) | BIT(SUSPECT),
};

static void put_u64(uint8_t *out, uint64_t v)
{
	for (size_t i = 0; i < SIZE_BYTES; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *in)
{
	uint64_t v = 0;
	for (size_t i = 0; i < SIZE_BYTES; i++)
		v |= (uint64_t)in[i] << (8 * i);
	return v;
}

static struct bj_store_key make_key(uint8_t kind, const uint8_t *hash, size_t hash_len,
				    uint64_t size_bytes)
{
	struct bj_store_key key = { .len = (uint8_t)(1 + hash_len + SIZE_BYTES) };
	key.bytes[0] = kind;
	memcpy(key.bytes + 1, hash, hash_len);
	put_u64(key.bytes + 1 + hash_len, size_bytes);
	return key;
}

struct bj_store_key bj_store_key_blob(const struct bj_digest *digest)
{
	return make_key((uint8_t)digest->fn, digest->hash, digest->hash_len, digest->size_bytes);
}

struct bj_store_key bj_store_key_ac(struct bj_str instance, const struct bj_digest *action)
{
	/* Hashing the instance by itself gives it a fixed length, so that no two (instance, action) pairs run together. */
	struct bj_digest name = bj_digest_of(BJ_DIGEST_SHA256, instance);
	struct bj_store_key blob = bj_store_key_blob(action);
	uint8_t both[BJ_HASH_MAX_BYTES + BJ_STORE_KEY_BYTES];
	memcpy(both, name.hash, name.hash_len);
	memcpy(both + name.hash_len, blob.bytes, blob.len);
	struct bj_digest hash =
		bj_digest_of(BJ_DIGEST_SHA256, bj_str_n(both, (size_t)name.hash_len + blob.len));
	return make_key(BJ_STORE_KIND_AC, hash.hash, hash.hash_len, 0);
}

struct bj_digest bj_store_key_digest(const struct bj_store_key *key)
{
	size_t hash_len = (size_t)key->len - 1 - SIZE_BYTES;
	struct bj_digest digest = {
		.fn = (enum bj_digest_fn)key->bytes[0],
		.hash_len = (uint8_t)hash_len,
		.size_bytes = get_u64(key->bytes + 1 + hash_len),
	};
	memcpy(digest.hash, key->bytes + 1, hash_len);
	return digest;
}

bool bj_store_key_parse(struct bj_str name, enum bj_digest_fn fn, struct bj_store_key *out_key)
{
	struct bj_digest digest;
	struct bj_err err = BJ_ERR_NULL;
	uint64_t size_bytes = 0;
	struct bj_str hex = bj_str_cut(&name, '-');
	if (hex.len !=
	    2 * bj_digest_fn_len(fn)) /* "." and "..", for which no text needs to be made */
		return false;
	if (!bj_str_to_u64(name, &size_bytes) || size_bytes > INT64_MAX)
		return false;
	if (bj_digest_parse(fn, hex, (int64_t)size_bytes, "name", &digest, &err) < 0)
		return false;
	*out_key = bj_store_key_blob(&digest);
	return true;
}

void bj_store_key_path(const struct bj_store_key *key, char *out)
{
	struct bj_digest digest = bj_store_key_digest(key);
	char hex[2 * BJ_HASH_MAX_BYTES + 1];
	bj_digest_hex(&digest, hex);
	int n;
	if (key->bytes[0] == BJ_STORE_KIND_AC)
		n = snprintf(out, BJ_STORE_PATH_BYTES, "ac/%.2s/%s", hex, hex);
	else
		n = snprintf(out, BJ_STORE_PATH_BYTES, "blobs/%s/%.2s/%s-%" PRIu64,
			     bj_digest_fn_name(digest.fn), hex, hex, digest.size_bytes);
	bj_assert(n > 0 && n < BJ_STORE_PATH_BYTES);
}

static struct bj_str key_str(const struct bj_store_key *key)
{
	return bj_str_n(key->bytes, key->len);
}

/* ---- use ---- */

static bool may_be_evicted(const struct bj_store_entry *entry)
{
	return (entry->state == BJ_ENTRY_PRESENT || entry->state == BJ_ENTRY_SUSPECT) &&
	       entry->n_pins == 0;
}

/* The coarse clock costs no more than a load; what it lacks in resolution the increment makes up for. */
static uint64_t next_stamp_locked(struct bj_store *store)
{
	struct timespec now;
	int r = clock_gettime(CLOCK_REALTIME_COARSE, &now);
	bj_assert(r == 0);
	uint64_t now_ns = (uint64_t)now.tv_sec * BJ_NS_PER_SEC + (uint64_t)now.tv_nsec;
	store->last_stamp_ns = BJ_MAX(now_ns, store->last_stamp_ns + 1);
	return store->last_stamp_ns;
}

void bj_store_touch_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	entry->stamp_ns = next_stamp_locked(store);
	entry->is_touch_dirty = true;
	store->has_touches = true;
}

/* ---- entries ---- */

struct bj_store_entry *bj_store_find_locked(struct bj_store *store, const struct bj_store_key *key)
{
	return bj_map_get(&store->map, key_str(key));
}

static bool is_busy(const struct bj_store_entry *entry)
{
	return entry->state == BJ_ENTRY_PUBLISHING || entry->state == BJ_ENTRY_VERIFYING ||
	       entry->state == BJ_ENTRY_REMOVING;
}

struct bj_store_entry *bj_store_settle_locked(struct bj_store *store,
					      const struct bj_store_key *key)
{
	struct bj_store_entry *entry = bj_store_find_locked(store, key);
	while (entry && is_busy(entry)) {
		(void)pthread_cond_wait(&store->settled,
					&store->mu); /* cannot fail on a valid pair */
		entry = bj_store_find_locked(store, key);
	}
	return entry;
}

struct bj_store_key bj_store_entry_key(const struct bj_store_entry *entry)
{
	struct bj_store_key key = { .len = entry->key_len };
	memcpy(key.bytes, entry->key, entry->key_len);
	return key;
}

static struct bj_str entry_key_str(const struct bj_store_entry *entry)
{
	return bj_str_n(entry->key, entry->key_len);
}

struct bj_store_entry *bj_store_add_locked(struct bj_store *store, const struct bj_store_key *key)
{
	if (!bj_store_lru_reserve(&store->lru, store->map.n_entries + 1))
		return NULL;
	struct bj_store_entry *entry = bj_calloc(1, sizeof(*entry) + key->len);
	if (!entry)
		return NULL;
	entry->state = BJ_ENTRY_ABSENT;
	entry->lru_index = BJ_STORE_LRU_NONE;
	entry->key_len = key->len;
	memcpy(entry->key, key->bytes, key->len);
	if (!bj_map_put(&store->map, entry_key_str(entry), entry, NULL)) {
		bj_free(entry);
		return NULL;
	}
	return entry;
}

void bj_store_drop_if_unused_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	if (entry->state != BJ_ENTRY_ABSENT || entry->n_pins > 0)
		return;
	(void)bj_map_remove(&store->map, entry_key_str(entry)); /* it is this entry */
	bj_free(entry);
}

void bj_store_move_locked(struct bj_store *store, struct bj_store_entry *entry,
			  enum bj_entry_state to)
{
	bj_assert(allowed_moves[entry->state] & 1u << to);
	if (is_busy(entry))
		(void)pthread_cond_broadcast(&store->settled); /* cannot fail */
	store->stats.n_suspects -= entry->state == BJ_ENTRY_SUSPECT;
	store->stats.n_suspects += to == BJ_ENTRY_SUSPECT;
	entry->state = (uint8_t)to;
	bool is_in_heap = entry->lru_index != BJ_STORE_LRU_NONE;
	if (is_in_heap && !may_be_evicted(entry))
		bj_store_lru_remove(&store->lru, entry);
	else if (!is_in_heap && may_be_evicted(entry))
		bj_store_lru_insert(&store->lru, entry);
}

void bj_store_pin_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	bj_assert(entry->state == BJ_ENTRY_PRESENT);
	if (entry->n_pins == 0)
		bj_store_lru_remove(&store->lru, entry);
	entry->n_pins++;
	bj_assert(entry->n_pins > 0);
}

void bj_store_unpin_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	entry->n_pins--;
	if (may_be_evicted(entry)) {
		bj_store_touch_locked(store, entry);
		bj_store_lru_insert(&store->lru, entry);
	}
	bj_store_drop_if_unused_locked(store, entry);
}

void bj_store_count_locked(struct bj_store *store, const struct bj_store_entry *entry)
{
	bool is_ac = bj_store_entry_is_ac(entry);
	*(is_ac ? &store->stats.n_ac_entries : &store->stats.n_blobs) += 1;
	*(is_ac ? &store->stats.n_ac_bytes : &store->stats.n_bytes) += entry->size_bytes;
}

void bj_store_uncount_locked(struct bj_store *store, const struct bj_store_entry *entry)
{
	bool is_ac = bj_store_entry_is_ac(entry);
	*(is_ac ? &store->stats.n_ac_entries : &store->stats.n_blobs) -= 1;
	*(is_ac ? &store->stats.n_ac_bytes : &store->stats.n_bytes) -= entry->size_bytes;
}

void bj_store_free_entries(struct bj_store *store)
{
	size_t pos = 0;
	for (const struct bj_map_slot *slot; (slot = bj_map_next(&store->map, &pos));)
		bj_free(slot->value);
	bj_map_deinit(&store->map);
	bj_store_lru_deinit(&store->lru);
}

/* ---- removal ---- */

static int unlink_file(struct bj_store *store, const struct bj_store_key *key)
{
	char path[BJ_STORE_PATH_BYTES];
	bj_store_key_path(key, path);
	if (store->io->unlinkat(store->root_fd, path, 0) == 0 || errno == ENOENT)
		return 0;
	bj_debug("cas: cannot remove file=%s errno=%d", path, errno);
	return -errno;
}

bool bj_store_remove_locked(struct bj_store *store, struct bj_store_entry *entry)
{
	bj_assert(entry->state == BJ_ENTRY_REMOVING);
	struct bj_store_key key = bj_store_entry_key(entry);
	bj_store_uncount_locked(store, entry);
	pthread_mutex_unlock(&store->mu);
	int r = unlink_file(store, &key);
	pthread_mutex_lock(&store->mu);
	if (r < 0) { /* the file stays, and so must its bytes; whoever asks for it hashes it */
		bj_store_count_locked(store, entry);
		bj_store_touch_locked(store,
				      entry); /* or the next eviction would try the same one */
	}
	bj_store_move_locked(store, entry, r < 0 ? BJ_ENTRY_SUSPECT : BJ_ENTRY_ABSENT);
	bj_store_drop_if_unused_locked(store, entry);
	return r == 0;
}

static uint64_t total_bytes_locked(const struct bj_store *store)
{
	return store->stats.n_bytes + store->stats.n_ac_bytes + store->reserved_bytes;
}

static bool is_over_limit_locked(const struct bj_store *store, uint64_t incoming_bytes)
{
	uint64_t total = total_bytes_locked(store);
	return store->max_bytes < incoming_bytes || total > store->max_bytes - incoming_bytes;
}

void bj_store_evict_locked(struct bj_store *store, uint64_t incoming_bytes)
{
	/* Files that cannot be removed become the newest; the count keeps that from going round for ever. */
	size_t n_left = store->map.n_entries;
	while (n_left-- > 0 && is_over_limit_locked(store, incoming_bytes)) {
		struct bj_store_entry *victim = bj_store_lru_oldest(&store->lru);
		if (!victim)
			break;
		bj_store_move_locked(store, victim, BJ_ENTRY_REMOVING);
		store->stats.n_evicted += bj_store_remove_locked(store, victim);
	}
}
