// SPDX-License-Identifier: Apache-2.0
/**
 * cas/store-internal.h - what the files of the store share: the index, its entries, and the calls that tests can fail.
 * Owns: see struct bj_store. Threads: fields marked (mu) only under store->mu; the rest is constant after open.
 * Lock order: store->mu is a leaf; nothing blocks on disk while holding it.
 */
#ifndef BJ_CAS_STORE_INTERNAL_H
#define BJ_CAS_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "executor/base/err.h"
#include "executor/base/map.h"
#include "executor/base/str.h"
#include "executor/cas/digest.h"
#include "executor/cas/store.h"

/** The system calls that change the disk, so that a test can make each of them fail. Results and errno as the real ones. */
struct bj_store_io {
	int (*openat)(int dirfd, const char *path, int flags, mode_t mode);
	ssize_t (*write)(int fd, const void *data, size_t n_bytes);
	ssize_t (*pread)(int fd, void *data, size_t n_bytes, off_t offset);
	int (*fchmod)(int fd, mode_t mode);
	int (*renameat)(int from_dirfd, const char *from, int to_dirfd, const char *to);
	int (*unlinkat)(int dirfd, const char *path, int flags);
	int (*utimensat)(int dirfd, const char *path, const struct timespec times[2], int flags);
	int (*syncfs)(int fd);
	int (*fsync)(int fd);
};
extern const struct bj_store_io bj_store_io_sys;

enum {
	BJ_STORE_KIND_AC = 0x80, /* first byte of a key; a blob's is its enum bj_digest_fn */
	BJ_STORE_AC_HASH_BYTES = 32,
	BJ_STORE_KEY_BYTES = 1 + BJ_HASH_MAX_BYTES + 8,
	/* "blobs/sha256/ab/" + hex + "-" + 20 digits + NUL, with room */
	BJ_STORE_PATH_BYTES = 32 + 2 * BJ_HASH_MAX_BYTES + 1 + 20 + 1,
};

/** Name of an entry: kind, hash, and size in little endian. Two sizes with one hash are two names. */
struct bj_store_key {
	uint8_t len;
	uint8_t bytes[BJ_STORE_KEY_BYTES];
};

/** See the table in store_index.c. */
enum bj_entry_state {
	BJ_ENTRY_ABSENT,     /* no file; in the map only while pinned or about to be published */
	BJ_ENTRY_PUBLISHING, /* one thread is moving its file in */
	BJ_ENTRY_SUSPECT,    /* the file is older than an unclean stop and was not hashed since */
	BJ_ENTRY_VERIFYING,  /* one thread is hashing the file */
	BJ_ENTRY_PRESENT,    /* the file is there and was verified */
	BJ_ENTRY_REMOVING,   /* one thread is removing the file */
	BJ_ENTRY_N_STATES,
};

/** lru_index of an entry that is not in the heap. */
#define BJ_STORE_LRU_NONE UINT32_MAX

/**
 * One blob or action cache entry. In the LRU heap exactly when it may be evicted: SUSPECT or PRESENT, n_pins == 0.
 * In the states PUBLISHING, VERIFYING and REMOVING it belongs to the thread that set them; all others wait for `settled`.
 * There is one for each file of the store, so that it is kept small.
 */
struct bj_store_entry {
	uint64_t size_bytes; /* of the file */
	uint64_t stamp_ns;   /* last use, real time, strictly increasing over all uses */
	uint32_t n_pins;
	uint32_t lru_index;  /* place in the heap, or BJ_STORE_LRU_NONE */
	uint8_t state;	     /* enum bj_entry_state */
	uint8_t prior;	     /* in PUBLISHING: the state to go back to when that fails */
	bool is_touch_dirty; /* the file's mtime is behind stamp_ns */
	uint8_t key_len;
	uint8_t key[]; /* of struct bj_store_key */
};

/** See store_lru.c. */
struct bj_store_lru_slot {
	uint64_t stamp_ns; /* the entry's when it was placed; never above what it is now */
	struct bj_store_entry *entry;
};

/** A heap by stamp_ns. */
struct bj_store_lru {
	struct bj_store_lru_slot *slots;
	size_t n_slots, n_allocated;
};

struct bj_store {
	const struct bj_store_io *io;
	int root_fd;
	int lock_fd;		   /* flock held while the store is open */
	uint64_t max_bytes;	   /* UINT64_MAX: no limit */
	uint64_t sync_interval_ns; /* at most one syncfs in this time */

	pthread_mutex_t mu;
	pthread_cond_t settled;		/* an entry left a busy state */
	struct bj_map map;		/* (mu) key -> entry, owned */
	struct bj_store_lru lru;	/* (mu) room for every entry of the map */
	uint64_t last_stamp_ns;		/* (mu) the last stamp given */
	bool has_touches;		/* (mu) some entry is_touch_dirty */
	struct bj_store_stats stats;	/* (mu) of the files that are in place */
	uint64_t reserved_bytes;	/* (mu) of the files that are being moved in */
	uint64_t n_damaged_logged;	/* (mu) of stats.n_damaged, by the syncer */
	pthread_cond_t syncer_wake;	/* CLOCK_MONOTONIC */
	bool is_dirty;			/* (mu) something was published since the last syncfs */
	bool is_stopping;		/* (mu) */
	bool has_sync_failed;		/* (mu) never claim a clean stop again */
	bool has_syncer;		/* the thread runs */
	unsigned long syncer;		/* pthread_t */
	atomic_uint_fast64_t next_tmp;	/* names in tmp/ */
	atomic_uint_fast64_t n_writers; /* open writers, for the check in close */
};

/* ---- keys and names (store_index.c) ---- */
struct bj_store_key bj_store_key_blob(const struct bj_digest *digest);
struct bj_store_key bj_store_key_ac(struct bj_str instance, const struct bj_digest *action);
struct bj_store_key bj_store_entry_key(const struct bj_store_entry *entry);
static inline bool bj_store_entry_is_ac(const struct bj_store_entry *entry)
{
	return entry->key[0] == BJ_STORE_KIND_AC;
}
/** The digest that a blob's key stands for. */
struct bj_digest bj_store_key_digest(const struct bj_store_key *key);
/** The key of a blob's file name, "HASH-SIZE". False for a name that the store would not give. */
bool bj_store_key_parse(struct bj_str name, enum bj_digest_fn fn, struct bj_store_key *out_key);
/** Path below the root. @out: BJ_STORE_PATH_BYTES. */
void bj_store_key_path(const struct bj_store_key *key, char *out);

/* ---- the index (store_index.c); _locked: the caller holds store->mu ---- */
struct bj_store_entry *bj_store_find_locked(struct bj_store *store, const struct bj_store_key *key);
/** As find, but waits until the entry is in no busy state. The lock may be released meanwhile. */
struct bj_store_entry *bj_store_settle_locked(struct bj_store *store,
					      const struct bj_store_key *key);
/** A new ABSENT entry; NULL without memory. The key must not be in the map. */
struct bj_store_entry *bj_store_add_locked(struct bj_store *store, const struct bj_store_key *key);
/** Moves to another state: keeps the LRU heap right and wakes waiters. */
void bj_store_move_locked(struct bj_store *store, struct bj_store_entry *entry,
			  enum bj_entry_state to);
/** Frees an entry that is ABSENT and that nobody pins. */
void bj_store_drop_if_unused_locked(struct bj_store *store, struct bj_store_entry *entry);
/** Counts a use. */
void bj_store_touch_locked(struct bj_store *store, struct bj_store_entry *entry);
/** Takes a file into the statistics, or out of them. */
void bj_store_count_locked(struct bj_store *store, const struct bj_store_entry *entry);
void bj_store_uncount_locked(struct bj_store *store, const struct bj_store_entry *entry);
void bj_store_pin_locked(struct bj_store *store, struct bj_store_entry *entry);
void bj_store_unpin_locked(struct bj_store *store, struct bj_store_entry *entry);
/** Removes the file of an entry that the caller has put in REMOVING, then the entry. Releases the lock meanwhile. False: it stays. */
bool bj_store_remove_locked(struct bj_store *store, struct bj_store_entry *entry);
/** Evicts until @incoming_bytes more fit below the limit, or nothing evictable is left. Releases the lock meanwhile. */
void bj_store_evict_locked(struct bj_store *store, uint64_t incoming_bytes);
/** Frees all entries (at close). */
void bj_store_free_entries(struct bj_store *store);

/* ---- the order of use (store_lru.c); store->mu is held ---- */
void bj_store_lru_deinit(struct bj_store_lru *lru);
/** Room for @n_entries, so that inserting cannot fail. False without memory. */
BJ_MUST_USE bool bj_store_lru_reserve(struct bj_store_lru *lru, size_t n_entries);
void bj_store_lru_insert(struct bj_store_lru *lru, struct bj_store_entry *entry);
void bj_store_lru_remove(struct bj_store_lru *lru, struct bj_store_entry *entry);
/** The entry with the smallest stamp_ns, left where it is; NULL when there is none. */
struct bj_store_entry *bj_store_lru_oldest(struct bj_store_lru *lru);

/* ---- reading (store.c) ---- */
/**
 * Finds an entry in PRESENT (verifying it first if it was suspect) and counts a use.
 * Return: 0 and *out_entry, valid until the lock is released; BJ_STORE_E_MISSING; -DATA_LOSS (dropped now), ….
 */
BJ_MUST_USE int bj_store_acquire_locked(struct bj_store *store, const struct bj_store_key *key,
					struct bj_store_entry **out_entry, struct bj_err *err);
/** Opens the file of a PRESENT entry and checks its type; the size goes to *out_size_bytes. Otherwise as bj_store_open_blob(). */
BJ_MUST_USE int bj_store_open_key(struct bj_store *store, const struct bj_store_key *key,
				  int *out_fd, uint64_t *out_size_bytes, struct bj_err *err);
/** The first @n_bytes of a file, fewer when it is shorter, NUL-terminated in @arena. */
BJ_MUST_USE int bj_store_read_fd(struct bj_store *store, int fd, size_t n_bytes,
				 struct bj_str *out_data, struct bj_arena *arena,
				 struct bj_err *err);
/** Drops a damaged entry, if it is still there. */
void bj_store_discard_key(struct bj_store *store, const struct bj_store_key *key);

/* ---- writing (store_write.c) ---- */
BJ_MUST_USE int bj_store_write_all(struct bj_store *store, int fd, const char *data, size_t n_bytes,
				   struct bj_err *err);
/** Writes @data to a new file in tmp/. @out_name: BJ_STORE_PATH_BYTES, set on success only. */
BJ_MUST_USE int bj_store_write_tmp(struct bj_store *store, struct bj_str data, char *out_name,
				   struct bj_err *err);

/** Makes the directory that @path, from bj_store_key_path(), stands in. Return: 0, or -1 with errno. */
int bj_store_make_fan(struct bj_store *store, const char *path);

enum { BJ_STORE_E_PRESENT = 1 };
/**
 * Claims a key for publishing and makes room.
 * @is_replacing: an entry that is already there is replaced (action cache)
 * Return: 0 (the entry is in PUBLISHING and the caller's), BJ_STORE_E_PRESENT (nothing to do), -RESOURCE_EXHAUSTED.
 */
BJ_MUST_USE int bj_store_publish_begin(struct bj_store *store, const struct bj_store_key *key,
				       uint64_t size_bytes, bool is_replacing,
				       struct bj_store_entry **out_entry, struct bj_err *err);
/** Gives the claim back. */
void bj_store_publish_cancel(struct bj_store *store, struct bj_store_entry *entry,
			     uint64_t size_bytes);
/** Moves a file of tmp/ in. When that fails the file is removed and the claim given back. */
BJ_MUST_USE int bj_store_publish_end(struct bj_store *store, struct bj_store_entry *entry,
				     uint64_t size_bytes, const char *tmp_name, struct bj_err *err);

/* ---- the marker of a clean stop (store_marker.c) ---- */

struct bj_store_marker {
	bool is_clean;		   /* there was one, and it was whole */
	struct bj_map suspects;	   /* keys that it names as still suspect */
	struct bj_store_key *keys; /* what the map's keys point to */
};

#define BJ_STORE_MARKER_NULL ((struct bj_store_marker){ false, BJ_MAP_NULL, NULL })

void bj_store_marker_deinit(struct bj_store_marker *marker);
/** Reads the marker; a store without one, or with a damaged one, was not stopped cleanly. */
BJ_MUST_USE int bj_store_marker_read(struct bj_store *store, struct bj_store_marker *marker,
				     struct bj_err *err);
/** Removes it for good, before anything new is named. */
BJ_MUST_USE int bj_store_marker_remove(struct bj_store *store, struct bj_err *err);
/** False when the file may be damaged. */
bool bj_store_marker_trusts(const struct bj_store_marker *marker, const struct bj_store_key *key);
/** Writes the marker. Everything else must be on the disk already, and nobody may use the store any more. */
BJ_MUST_USE int bj_store_marker_put(struct bj_store *store, struct bj_err *err);

/* ---- opening and syncing (store_open.c, store_scan.c, store_sync.c) ---- */
/** bj_store_open() with other system calls. @io: borrowed until close. */
BJ_MUST_USE int bj_store_open_with(const char *root, const struct bj_store_opts *opts,
				   const struct bj_store_io *io, struct bj_store **out_store,
				   struct bj_err *err);
/** Reads the directories into the index. What @marker does not trust becomes SUSPECT. */
BJ_MUST_USE int bj_store_scan(struct bj_store *store, const struct bj_store_marker *marker,
			      struct bj_err *err);
BJ_MUST_USE int bj_store_syncer_start(struct bj_store *store, struct bj_err *err);
/** Joins the thread. */
void bj_store_syncer_stop(struct bj_store *store);
/** Writes last uses to the files' mtimes. */
void bj_store_persist_touches(struct bj_store *store);

#endif
