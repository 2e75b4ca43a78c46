// SPDX-License-Identifier: Apache-2.0
/**
 * action_engine_util.h - an engine over a fake runner, and waiters that write down what they are told.
 *
 * The word in request.client.target says how the fake treats an action: "run" ends at once, "hold" runs until the gate opens or it is
 * cancelled, "deaf" until the gate opens, "hit" is found in the cache, "bad" cannot be looked up, "slow" is held in the lookup,
 * "uncached" asks for do_not_cache and runs like "hold", "mute" answers nothing, "big" a MiB.
 */
#ifndef BJ_TESTS_UNIT_ACTION_ENGINE_UTIL_H
#define BJ_TESTS_UNIT_ACTION_ENGINE_UTIL_H

#include "tests/unit/base_test_util.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "executor/action/engine.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/pool.h"

enum { WAIT_S = 60, MAX_RUNS = 4096, MAX_STAGES = 8, BIG_BYTES = 1 << 20 };

/** One lock and one event for everything: whoever waits looks again at what it waits for. */
static pthread_mutex_t test_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t test_changed = PTHREAD_COND_INITIALIZER;

static void test_lock(void)
{
	bj_assert(pthread_mutex_lock(&test_mu) == 0);
}

static void test_unlock(void)
{
	bj_assert(pthread_cond_broadcast(&test_changed) == 0);
	bj_assert(pthread_mutex_unlock(&test_mu) == 0);
}

/* With the lock held; the test dies when nothing happens for WAIT_S seconds. */
static void test_wait(void)
{
	struct timespec until;
	bj_assert(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += WAIT_S;
	bj_assert(pthread_cond_timedwait(&test_changed, &test_mu, &until) == 0);
}

#define AWAIT(cond)                                                                                \
	do {                                                                                       \
		test_lock();                                                                       \
		while (!(cond))                                                                    \
			test_wait();                                                               \
		test_unlock();                                                                     \
	} while (0)

struct fake {
	int gate_fd; /* eventfd: readable when "hold" and "deaf" may end */
	bool is_lookup_open;
	size_t n_lookups, n_held_lookups, n_skipping;
	size_t n_runs, n_cancelled; /* begun; ended by the cancel */
	char runs[MAX_RUNS];	    /* first bytes of the actions' hashes, in order */
};

static bool is_word(const struct bj_run_request *request, const char *word)
{
	return bj_str_eq(request->client.target, bj_str_of(word));
}

static int fake_lookup(void *ctx, struct bj_run_request *request, struct bj_arena *arena,
		       struct bj_str *out_response, struct bj_err *err)
{
	struct fake *fake = ctx;
	test_lock();
	fake->n_lookups++;
	fake->n_skipping += request->skip_cache_lookup;
	if (is_word(request, "slow")) {
		fake->n_held_lookups++;
		pthread_cond_broadcast(&test_changed);
		while (!fake->is_lookup_open)
			test_wait();
	}
	test_unlock();
	request->do_not_cache = is_word(request, "uncached");
	if (is_word(request, "bad"))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "bad lookup");
	if (!is_word(request, "hit"))
		return 0;
	*out_response = bj_arena_str(arena, BJ_STR_LIT("HIT"));
	return BJ_RUN_E_FINAL;
}

/* True when cancelled. */
static bool fake_hold(struct fake *fake, int cancel_fd)
{
	struct pollfd fds[2] = { { .fd = fake->gate_fd, .events = POLLIN },
				 { .fd = cancel_fd, .events = POLLIN } };
	int n = poll(fds, cancel_fd < 0 ? 1 : 2, WAIT_S * 1000);
	bool is_cancelled = (fds[1].revents & POLLIN) != 0;
	bj_assert(n > 0);
	test_lock(); /* ThreadSanitizer does not see what an eventfd orders */
	fake->n_cancelled += is_cancelled;
	test_unlock();
	return is_cancelled;
}

static struct bj_str fake_run(void *ctx, size_t slot, const struct bj_run_request *request,
			      const struct bj_run_control *control, struct bj_arena *arena)
{
	struct fake *fake = ctx;
	bool is_cancelled = false;
	(void)slot;
	test_lock();
	if (fake->n_runs < MAX_RUNS)
		fake->runs[fake->n_runs] = (char)request->action.hash[0];
	fake->n_runs++;
	test_unlock();
	control->executing(control->ctx);
	if (is_word(request, "hold") || is_word(request, "uncached"))
		is_cancelled = fake_hold(fake, control->cancel_fd);
	if (is_word(request, "deaf"))
		(void)fake_hold(fake, -1);
	if (is_word(request, "mute"))
		return BJ_STR_NULL;
	if (is_word(request, "big"))
		return bj_str_n(bj_arena_zalloc(arena, BIG_BYTES), BIG_BYTES);
	return bj_arena_str(arena, is_cancelled ? BJ_STR_LIT("STOPPED") : BJ_STR_LIT("RAN"));
}

static struct bj_str fake_failure(void *ctx, const struct bj_run_request *request,
				  const struct bj_err *why, struct bj_arena *arena)
{
	(void)ctx;
	(void)request;
	return bj_str_of(bj_arena_printf(arena, "FAILED %s", bj_code_name(why->code)));
}

static struct bj_str fake_metadata(void *ctx, const struct bj_run_request *request, int stage,
				   struct bj_arena *arena)
{
	(void)ctx;
	return bj_str_of(bj_arena_printf(arena, "%d %02x", stage, request->action.hash[0]));
}

/** What one waiter saw. */
struct seen {
	enum bj_stage stages[MAX_STAGES];
	size_t n;
	char name[128], response[64], metadata[64]; /* of the newest */
	bool is_blocking;			    /* the callback waits for is_open */
	bool is_inside, is_open;
	struct bj_waiter *waiter;
};

static void copy_text(char *out, size_t cap, struct bj_str s)
{
	(void)snprintf(out, cap, "%.*s", (int)BJ_MIN(s.len, cap - 1), s.len ? s.ptr : "");
}

static void on_seen(void *ctx, const struct bj_update *update)
{
	struct seen *seen = ctx;
	test_lock();
	bj_assert(seen->n < MAX_STAGES);
	seen->stages[seen->n++] = update->stage;
	copy_text(seen->name, sizeof(seen->name), bj_str_of(update->name));
	copy_text(seen->response, sizeof(seen->response), update->response);
	copy_text(seen->metadata, sizeof(seen->metadata), update->metadata);
	seen->is_inside = seen->is_blocking;
	pthread_cond_broadcast(&test_changed);
	while (seen->is_blocking && !seen->is_open)
		test_wait();
	seen->is_inside = false;
	test_unlock();
}

BJ_UNUSED static bool has_seen_locked(const struct seen *seen, enum bj_stage stage)
{
	for (size_t i = 0; i < seen->n; i++)
		if (seen->stages[i] == stage)
			return true;
	return false;
}

#define AWAIT_STAGE(seen, stage) AWAIT(has_seen_locked((seen), (stage)))

struct bench {
	struct fake fake;
	struct bj_pool *pool;
	struct bj_engine *engine;
	struct bj_err err;
};

struct bench_opts {
	uint64_t grace_ns, keep_ns;
	size_t n_slots, max_queued, n_pool, max_jobs;
};
#define BENCH_OPTS                                                                                 \
	((struct bench_opts){ .grace_ns = 3600 * BJ_NS_PER_SEC,                                    \
			      .keep_ns = 3600 * BJ_NS_PER_SEC,                                     \
			      .n_slots = 1,                                                        \
			      .max_queued = 10000,                                                 \
			      .n_pool = 2,                                                         \
			      .max_jobs = 10000 })

static struct bj_runner_ops fake_ops(struct fake *fake)
{
	return (struct bj_runner_ops){ .ctx = fake,
				       .lookup = fake_lookup,
				       .run = fake_run,
				       .failure = fake_failure,
				       .metadata = fake_metadata };
}

static void bench_up(struct bench *bench, struct bench_opts o)
{
	*bench = (struct bench){ .err = BJ_ERR_NULL };
	bench->fake.gate_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(bench->fake.gate_fd >= 0);
	assert_int_equal(bj_pool_new(o.n_pool, o.max_jobs, &bench->pool, &bench->err), 0);
	struct bj_engine_opts opts = { .cancel_grace_ns = o.grace_ns,
				       .keep_done_ns = o.keep_ns,
				       .max_queued = o.max_queued,
				       .n_slots = o.n_slots,
				       .pool = bench->pool };
	struct bj_runner_ops ops = fake_ops(&bench->fake);
	assert_int_equal(bj_engine_new(&opts, &ops, &bench->engine, &bench->err), 0);
}

static void bench_down(struct bench *bench)
{
	bj_engine_free(bench->engine);
	bj_pool_free(bench->pool);
	close(bench->fake.gate_fd);
}

/** Lets "hold" and "deaf" end, from now on. */
static void open_gate(struct bench *bench)
{
	uint64_t one = 1;
	test_lock();
	test_unlock();
	bj_assert(write(bench->fake.gate_fd, &one, sizeof(one)) == sizeof(one));
}

BJ_UNUSED static void open_lookups(struct bench *bench)
{
	test_lock();
	bench->fake.is_lookup_open = true;
	test_unlock();
}

/** Actions are told apart by one letter, which is also the first byte of the digest. */
static struct bj_submit make_submit(char letter, const char *word)
{
	struct bj_submit s = { .request = { .action = bj_digest_of(BJ_DIGEST_SHA256,
								   bj_str_n(&letter, 1)) } };
	s.request.action.hash[0] = (uint8_t)letter;
	s.request.client.target = bj_str_of(word);
	return s;
}

BJ_UNUSED static int submit(struct bench *bench, const struct bj_submit *s, struct seen *seen)
{
	return bj_engine_submit(bench->engine, s, on_seen, seen, &seen->waiter, &bench->err);
}

BJ_UNUSED static void submit_ok(struct bench *bench, char letter, const char *word,
				struct seen *seen)
{
	struct bj_submit s = make_submit(letter, word);
	if (submit(bench, &s, seen) != 0)
		fail_msg("submit: %s", bench->err.msg);
}

BJ_UNUSED static int wait_for(struct bench *bench, const char *name, struct seen *seen)
{
	return bj_engine_wait(bench->engine, bj_str_of(name), on_seen, seen, &seen->waiter,
			      &bench->err);
}

BJ_UNUSED static void expect_stages(const struct seen *seen, const char *digits)
{
	char got[MAX_STAGES + 1] = "";
	test_lock();
	for (size_t i = 0; i < seen->n; i++)
		got[i] = (char)('0' + seen->stages[i]);
	test_unlock();
	assert_string_equal(got, digits);
}

#endif
