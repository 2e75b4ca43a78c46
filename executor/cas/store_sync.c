// SPDX-License-Identifier: Apache-2.0
/*
 * The syncer: one thread that makes new data durable in batches (fsync costs 2 ms a blob, syncfs 20 us a blob when
 * hundreds go together) and writes last uses to mtimes, at most once a minute, so that a look into the index never
 * costs a system call. A crash loses at most the order of the last minute's uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/pool.h"
#include "executor/cas/store-internal.h"

#define TOUCH_INTERVAL_NS (60 * BJ_NS_PER_SEC)
enum { TOUCH_BATCH = 1024, MAX_LOOKED_AT = 65536 };

int bj_store_sync(struct bj_store *store, struct bj_err *err)
{
	pthread_mutex_lock(&store->mu);
	bool was_dirty = store->is_dirty;
	store->is_dirty = false;
	pthread_mutex_unlock(&store->mu);
	if (!was_dirty)
		return 0;
	if (store->io->syncfs(store->root_fd) == 0)
		return 0;
	int saved = errno;
	/* The kernel reports lost data once: from now on only hashing tells good blobs from bad ones. */
	pthread_mutex_lock(&store->mu);
	store->has_sync_failed = true;
	pthread_mutex_unlock(&store->mu);
	return bj_err_errno(err, saved, "sync the store");
}

/* ---- last uses ---- */

struct touch {
	struct bj_store_key key;
	uint64_t stamp_ns;
};

/*
 * Takes used entries out of the heap's array, from *pos on, until a batch is full or enough was looked at for one hold of
 * the lock. What moves in the array meanwhile may be left out, and has its turn a minute later. Return: false at the end.
 */
static bool collect_touches(struct bj_store *store, size_t *pos, struct touch *touches,
			    size_t *out_n)
{
	size_t n = 0;
	pthread_mutex_lock(&store->mu);
	size_t end = BJ_MIN(store->lru.n_slots, *pos + MAX_LOOKED_AT);
	for (; *pos < end && n < TOUCH_BATCH; ++*pos) {
		struct bj_store_entry *entry = store->lru.slots[*pos].entry;
		if (!entry->is_touch_dirty)
			continue;
		entry->is_touch_dirty = false;
		touches[n++] = (struct touch){ bj_store_entry_key(entry), entry->stamp_ns };
	}
	bool has_more = *pos < store->lru.n_slots;
	pthread_mutex_unlock(&store->mu);
	*out_n = n;
	return has_more;
}

static bool take_has_touches(struct bj_store *store)
{
	pthread_mutex_lock(&store->mu);
	bool has_touches = store->has_touches;
	store->has_touches = false;
	pthread_mutex_unlock(&store->mu);
	return has_touches;
}

static void write_touch(struct bj_store *store, const struct touch *touch)
{
	struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = (time_t)(touch->stamp_ns / BJ_NS_PER_SEC),
		  .tv_nsec = (long)(touch->stamp_ns % BJ_NS_PER_SEC) },
	};
	char path[BJ_STORE_PATH_BYTES];
	bj_store_key_path(&touch->key, path);
	if (store->io->utimensat(store->root_fd, path, times, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno != ENOENT)
		bj_debug("cas: cannot write the last use file=%s errno=%d", path, errno);
}

void bj_store_persist_touches(struct bj_store *store)
{
	if (!take_has_touches(store))
		return;
	bj_cleanup(bj_freep) struct touch *touches = BJ_NEW_ARRAY(struct touch, TOUCH_BATCH);
	if (!touches)
		return; /* only the order of eviction suffers */
	size_t pos = 0, n = 0;
	bool has_more;
	do {
		has_more = collect_touches(store, &pos, touches, &n);
		for (size_t i = 0; i < n; i++)
			write_touch(store, &touches[i]);
	} while (has_more);
}

/* ---- the thread ---- */

static void wait_until_locked(struct bj_store *store, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / BJ_NS_PER_SEC),
			       .tv_nsec = (long)(deadline_ns % BJ_NS_PER_SEC) };
	(void)pthread_cond_timedwait(&store->syncer_wake, &store->mu,
				     &ts); /* the caller looks again */
}

static void sync_and_log(struct bj_store *store)
{
	struct bj_err err = BJ_ERR_NULL;
	if (bj_store_sync(store, &err) < 0)
		bj_warn("cas: %s", err.msg);
}

/* This thread is the store's only loop, so that it speaks for calls whose users got an error or a "missing". */
static void log_damage_locked(struct bj_store *store)
{
	if (store->stats.n_damaged == store->n_damaged_logged)
		return;
	store->n_damaged_logged = store->stats.n_damaged;
	bj_warn("cas: found damaged files and dropped them n=%" PRIu64 " since the start",
		store->n_damaged_logged);
}

static void *run_syncer(void *arg)
{
	struct bj_store *store = arg;
	uint64_t sync_at_ns = bj_deadline_ns(store->sync_interval_ns);
	uint64_t touch_at_ns = bj_deadline_ns(TOUCH_INTERVAL_NS);
	pthread_mutex_lock(&store->mu);
	while (!store->is_stopping) {
		log_damage_locked(store);
		uint64_t now_ns = bj_now_ns();
		bool must_sync = store->is_dirty && now_ns >= sync_at_ns;
		bool must_touch = now_ns >= touch_at_ns;
		if (!must_sync && !must_touch) {
			wait_until_locked(store, store->is_dirty ? BJ_MIN(sync_at_ns, touch_at_ns)
								 : touch_at_ns);
			continue;
		}
		pthread_mutex_unlock(&store->mu);
		if (must_sync)
			sync_and_log(store);
		if (must_touch)
			bj_store_persist_touches(store);
		if (must_sync)
			sync_at_ns = bj_deadline_ns(store->sync_interval_ns);
		if (must_touch)
			touch_at_ns = bj_deadline_ns(TOUCH_INTERVAL_NS);
		pthread_mutex_lock(&store->mu);
	}
	pthread_mutex_unlock(&store->mu);
	return NULL;
}

int bj_store_syncer_start(struct bj_store *store, struct bj_err *err)
{
	int r = bj_thread_start("bj-cas-sync", run_syncer, store, &store->syncer, err);
	store->has_syncer = r == 0;
	return r;
}

void bj_store_syncer_stop(struct bj_store *store)
{
	if (!store->has_syncer)
		return;
	pthread_mutex_lock(&store->mu);
	store->is_stopping = true;
	(void)pthread_cond_signal(&store->syncer_wake); /* cannot fail */
	pthread_mutex_unlock(&store->mu);
	int r = pthread_join((pthread_t)store->syncer, NULL);
	bj_assert(r == 0);
	store->has_syncer = false;
}
