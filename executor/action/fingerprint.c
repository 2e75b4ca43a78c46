// SPDX-License-Identifier: Apache-2.0
/*
 * The toolchain's fingerprint, by a thread of its own.
 *
 * The walk adds up two independent 64-bit hashes of every entry's (path, mode, size, mtime, link text): a sum needs no order, and no list of
 * 100,000 names. Directories themselves do not count (a temporary file changes their mtime), nor does __pycache__, which any python run by
 * root fills. Between walks a cheap probe looks every two seconds at a few places that every package change touches. A file that is
 * written in place touches no directory: for its sake the walk is repeated every ten minutes.
 */
#include "executor/action/fingerprint-internal.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/map.h"
#include "executor/base/pool.h"

#define PROBE_EVERY_NS (2 * BJ_NS_PER_SEC)
#define WALK_EVERY_NS (600 * BJ_NS_PER_SEC)

struct sum {
	uint64_t a, b;
};

struct bj_fingerprint {
	const struct bj_str *roots;
	size_t n_roots;
	struct bj_fingerprint_times times;
	pthread_t thread;
	pthread_mutex_t mu; /* guards what follows */
	pthread_cond_t changed;
	bool is_known, is_stopping;
	struct sum value;
};

/* ---- walking ---- */

static void add_entry(struct sum *sum, const char *path, const struct stat *st)
{
	char text[8192], target[4096];
	ssize_t n = S_ISLNK(st->st_mode) ? readlink(path, target, sizeof(target) - 1) : 0;

	target[n > 0 ? n : 0] = '\0';
	int len = snprintf(text, sizeof(text), "%s|%o|%lld|%lld.%09ld|%s", path,
			   (unsigned int)st->st_mode, (long long)st->st_size,
			   (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, target);
	struct bj_str all = bj_str_n(text, BJ_MIN((size_t)BJ_MAX(len, 0), sizeof(text) - 2));

	sum->a += bj_hash(all);
	text[all.len] = '#'; /* another message, so another hash */
	sum->b += bj_hash(bj_str_n(text, all.len + 1));
}

static bool is_stopping(struct bj_fingerprint *f)
{
	pthread_mutex_lock(&f->mu);
	bool stopping = f->is_stopping;

	pthread_mutex_unlock(&f->mu);
	return stopping;
}

static void walk_root(struct bj_fingerprint *f, const char *root, struct sum *sum)
{
	char *paths[] = { (char *)(uintptr_t)root, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	unsigned int n = 0;

	if (!fts) {
		bj_warn("fingerprint: cannot walk path=%s error=\"%s\"", root, strerror(errno));
		return;
	}
	for (FTSENT *e; (e = fts_read(fts)) != NULL;) {
		if (e->fts_info == FTS_D && strcmp(e->fts_name, "__pycache__") == 0)
			(void)fts_set(fts, e, FTS_SKIP); /* cannot fail for an entry just read */
		else if (e->fts_info == FTS_F || e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)
			add_entry(sum, e->fts_path, e->fts_statp);
		if (++n % 4096 == 0 && is_stopping(f))
			break;
	}
	(void)fts_close(fts);
}

static struct sum walk_all(struct bj_fingerprint *f)
{
	struct sum sum = { 0, 0 };

	for (size_t i = 0; i < f->n_roots; i++)
		walk_root(f, f->roots[i].ptr, &sum);
	return sum;
}

/* ---- the cheap probe ---- */

static struct sum probe(const struct bj_fingerprint *f)
{
	static const char *const below[] = { "",	   "/bin",	 "/lib",    "/include",
					     "/local/bin", "/local/lib", "/lib/gcc" };
	struct sum sum = { 0, 0 };
	struct stat st;

	if (stat("/var/lib/dpkg/status", &st) == 0)
		add_entry(&sum, "dpkg", &st);
	for (size_t i = 0; i < f->n_roots; i++) {
		for (size_t j = 0; j < BJ_ARRAY_LEN(below); j++) {
			char path[4096];
			int n = snprintf(path, sizeof(path), "%s%s", f->roots[i].ptr, below[j]);

			if (n > 0 && (size_t)n < sizeof(path) && stat(path, &st) == 0)
				add_entry(&sum, path, &st);
		}
	}
	return sum;
}

static void publish(struct bj_fingerprint *f, bool known, struct sum value)
{
	pthread_mutex_lock(&f->mu);
	f->is_known = known;
	f->value = value;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->mu);
}

/* False: stopping. */
static bool wait_until(struct bj_fingerprint *f, uint64_t at)
{
	struct timespec ts = { .tv_sec = (time_t)(at / BJ_NS_PER_SEC),
			       .tv_nsec = (long)(at % BJ_NS_PER_SEC) };

	pthread_mutex_lock(&f->mu);
	while (!f->is_stopping && bj_now_ns() < at)
		(void)pthread_cond_timedwait(&f->changed, &f->mu,
					     &ts); /* ETIMEDOUT ends the loop by the clock */
	bool go = !f->is_stopping;

	pthread_mutex_unlock(&f->mu);
	return go;
}

static bool is_equal(struct sum a, struct sum b)
{
	return a.a == b.a && a.b == b.b;
}

/*
 * A walk during which nothing changed. Probe first: a change meanwhile shows as a difference afterwards and makes another walk.
 * False: stopping, and what was walked is worth nothing.
 */
static bool walk_quietly(struct bj_fingerprint *f, struct sum *out_seen, struct sum *out_value)
{
	struct sum after;

	do {
		*out_seen = probe(f);
		*out_value = walk_all(f);
		after = probe(f);
		if (is_stopping(f))
			return false;
	} while (!is_equal(after, *out_seen));
	return true;
}

/* Looks until something has changed, or it is time to walk again all the same. False: stopping. */
static bool watch(struct bj_fingerprint *f, struct sum seen, bool *out_has_changed)
{
	uint64_t walk_at = bj_deadline_ns(f->times.walk_ns);

	do {
		if (!wait_until(f, bj_deadline_ns(f->times.probe_ns)))
			return false;
		*out_has_changed = !is_equal(probe(f), seen);
	} while (!*out_has_changed && bj_now_ns() < walk_at);
	return true;
}

static void *thread_main(void *arg)
{
	struct bj_fingerprint *f = arg;
	struct sum seen, value, known = { 0, 0 };
	bool has_changed = true;

	while (walk_quietly(f, &seen, &value)) {
		if (!has_changed && !is_equal(value, known))
			bj_info("fingerprint: a file of a toolchain root was changed in place");
		known = value;
		publish(f, true, value);
		if (!watch(f, seen, &has_changed))
			break;
		if (!has_changed)
			continue; /* what is known stays so until the walk says otherwise */
		publish(f, false, (struct sum){ 0, 0 });
		bj_info("fingerprint: a toolchain root has changed, older cache entries miss from "
			"now on");
	}
	return NULL;
}

/* ---- public ---- */

static int init_sync(struct bj_fingerprint *f, struct bj_err *err)
{
	pthread_condattr_t attr;

	if (pthread_mutex_init(&f->mu, NULL) || pthread_condattr_init(&attr) ||
	    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) ||
	    pthread_cond_init(&f->changed, &attr))
		return bj_err_set(err, BJ_INTERNAL, "fingerprint: cannot make its locks");
	(void)pthread_condattr_destroy(&attr); /* cannot fail for an initialised one */
	return 0;
}

static void fingerprint_free(struct bj_fingerprint *f)
{
	(void)pthread_cond_destroy(&f->changed);
	(void)pthread_mutex_destroy(&f->mu);
	bj_free(f);
}

int bj_fingerprint_start_with(const struct bj_str *roots, size_t n_roots,
			      const struct bj_fingerprint_times *times,
			      struct bj_fingerprint **out_fingerprint, struct bj_err *err)
{
	struct bj_fingerprint *f = BJ_NEW(struct bj_fingerprint);
	unsigned long thread;

	if (!f)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the fingerprint");
	f->roots = roots;
	f->n_roots = n_roots;
	f->times = *times;
	int r = init_sync(f, err);

	if (r < 0) {
		bj_free(f);
		return r;
	}
	r = bj_thread_start("bj-fingerprint", thread_main, f, &thread, err);
	if (r < 0) {
		fingerprint_free(f);
		return r;
	}
	f->thread = thread;
	*out_fingerprint = f;
	return 0;
}

int bj_fingerprint_start(const struct bj_str *roots, size_t n_roots,
			 struct bj_fingerprint **out_fingerprint, struct bj_err *err)
{
	static const struct bj_fingerprint_times times = { PROBE_EVERY_NS, WALK_EVERY_NS };

	return bj_fingerprint_start_with(roots, n_roots, &times, out_fingerprint, err);
}

void bj_fingerprint_stop(struct bj_fingerprint *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->mu);
	f->is_stopping = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->mu);
	(void)pthread_join(f->thread, NULL);
	fingerprint_free(f);
}

bool bj_fingerprint_get(struct bj_fingerprint *f, char out[BJ_FINGERPRINT_BYTES])
{
	pthread_mutex_lock(&f->mu);
	bool known = f->is_known;

	if (known)
		(void)snprintf(out, BJ_FINGERPRINT_BYTES, "%016" PRIx64 "%016" PRIx64, f->value.a,
			       f->value.b);
	pthread_mutex_unlock(&f->mu);
	return known;
}

bool bj_fingerprint_wait(struct bj_fingerprint *f, uint64_t deadline_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(deadline_ns / BJ_NS_PER_SEC),
			       .tv_nsec = (long)(deadline_ns % BJ_NS_PER_SEC) };

	pthread_mutex_lock(&f->mu);
	while (!f->is_known && !f->is_stopping && bj_now_ns() < deadline_ns)
		(void)pthread_cond_timedwait(&f->changed, &f->mu, &ts); /* the clock decides */
	bool known = f->is_known;

	pthread_mutex_unlock(&f->mu);
	return known;
}
