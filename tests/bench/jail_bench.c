// SPDX-License-Identifier: Apache-2.0
/*
 * What the jar costs: `true` under the jail against vfork+exec of the same, in one run, taking
 * turns in random order.
 *
 *   jail_bench JAIL WORK_DIR [ROUNDS] [SECONDS]
 *
 * First table: one action after the other, microseconds, min / p25 / median, and the difference to
 * the floor. The time is that of bj_jail_run() alone: laying out and removing the action's
 * directories is not the jail's. Second table: actions a second with 1, 2 and 4 slots, laying out
 * and removal included, against as many threads that only spawn.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/str.h"
#include "tests/escape/harness.h"

enum { MAX_ROUNDS = 100000, MAX_SLOTS = 4 };

static struct host host;
static struct slot slots[MAX_SLOTS];

static const struct {
	const char *name;
	int level; /* -1: the floor */
} variants[] = {
	{ "vfork+exec", -1 },
	{ "jail, observe off", BJ_OBSERVE_OFF },
	{ "jail, observe writes", BJ_OBSERVE_WRITES },
	{ "jail, observe default", BJ_OBSERVE_DEFAULT },
	{ "jail, observe strict", BJ_OBSERVE_STRICT },
};
enum { N_VARIANTS = BJ_ARRAY_LEN(variants) };

static uint64_t *samples[N_VARIANTS];

/**
 * posix_spawn, which vforks, and two pipes that are read to their ends, as an executor without a
 * jail would.
 */
static void spawn_true(void)
{
	int out[2], errs[2];
	char *argv[] = { (char[]){ "true" }, NULL };
	char *envp[] = { (char[]){ "PATH=/usr/local/bin:/usr/bin:/bin" }, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	char byte;
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(errs, O_CLOEXEC) < 0)
		abort();
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	(void)posix_spawn_file_actions_adddup2(&actions, errs[1], 2);
	if (posix_spawn(&pid, "/usr/bin/true", &actions, NULL, argv, envp) != 0)
		abort();
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(out[1]);
	(void)close(errs[1]);
	while (read(out[0], &byte, 1) > 0 || read(errs[0], &byte, 1) > 0)
		continue;
	(void)close(out[0]);
	(void)close(errs[0]);
	if (waitpid(pid, NULL, 0) != pid)
		abort();
}

static uint64_t jail_true(struct slot *slot, int level)
{
	struct action a = { .argv = { "/usr/bin/true" }, .observe = (enum bj_observe)level };
	struct outcome o;
	action_run(slot, &a, &o);
	if (o.code < 0 || o.result.end != BJ_END_EXITED || o.result.exit_code != 0) {
		(void)fprintf(stderr, "jail_bench: %s\n", o.code < 0 ? o.err.msg : "true failed");
		exit(1);
	}
	outcome_free(&o);
	return o.took_ns;
}

static uint64_t one(int variant)
{
	if (variants[variant].level >= 0)
		return jail_true(&slots[0], variants[variant].level);
	uint64_t start = bj_now_ns();
	spawn_true();
	return bj_now_ns() - start;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void latency(size_t rounds)
{
	int order[N_VARIANTS];
	for (int v = 0; v < (int)N_VARIANTS; v++) {
		samples[v] = calloc(rounds, sizeof(uint64_t));
		if (!samples[v])
			abort();
		order[v] = v;
	}
	srandom(1);
	for (size_t i = 0; i < rounds; i++) {
		for (int v = (int)N_VARIANTS - 1; v > 0; v--) {
			int other = (int)(random() % (v + 1)), was = order[v];
			order[v] = order[other];
			order[other] = was;
		}
		for (int v = 0; v < (int)N_VARIANTS; v++)
			samples[order[v]][i] = one(order[v]);
	}
	(void)printf("%-24s %8s %8s %8s   over the floor (median)\n", "true, us", "min", "p25",
		     "median");
	for (int v = 0; v < (int)N_VARIANTS; v++) {
		qsort(samples[v], rounds, sizeof(uint64_t), by_value);
		size_t half = rounds / 2, quarter = rounds / 4;
		double median = (double)samples[v][half] / 1e3,
		       floor = (double)samples[0][half] / 1e3;
		(void)printf("%-24s %8.0f %8.0f %8.0f   %+.0f\n", variants[v].name,
			     (double)samples[v][0] / 1e3, (double)samples[v][quarter] / 1e3, median,
			     median - floor);
	}
}

/* ---- throughput ---- */

struct worker {
	struct slot *slot; /* NULL: spawn only */
	int level;
	uint64_t until_ns;
	size_t n_done;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	while (bj_now_ns() < w->until_ns) {
		if (w->slot)
			(void)jail_true(w->slot, w->level);
		else
			spawn_true();
		w->n_done++;
	}
	return NULL;
}

static double rate(int n_slots, int level, uint64_t seconds)
{
	struct worker workers[MAX_SLOTS];
	pthread_t threads[MAX_SLOTS];
	uint64_t until = bj_deadline_ns(seconds * BJ_NS_PER_SEC);
	size_t n = 0;
	for (int i = 0; i < n_slots; i++) {
		workers[i] = (struct worker){ .slot = level >= 0 ? &slots[i] : NULL,
					      .level = level,
					      .until_ns = until };
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			abort();
	}
	for (int i = 0; i < n_slots; i++) {
		(void)pthread_join(threads[i], NULL);
		n += workers[i].n_done;
	}
	return (double)n / (double)seconds;
}

static void throughput(uint64_t seconds)
{
	(void)printf("\n%-24s %8s %8s %8s\n", "true, actions/s", "1 slot", "2 slots", "4 slots");
	for (int v = 0; v < (int)N_VARIANTS; v++) {
		(void)printf("%-24s", variants[v].name);
		for (int n = 1; n <= MAX_SLOTS; n *= 2)
			(void)printf(" %8.0f", rate(n, variants[v].level, seconds));
		(void)printf("\n");
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = 300, seconds = 2;
	if (argc < 3 || argc > 5 || (argc > 3 && !bj_str_to_u64(bj_str_of(argv[3]), &rounds)) ||
	    (argc > 4 && !bj_str_to_u64(bj_str_of(argv[4]), &seconds)) || rounds < 4 ||
	    rounds > MAX_ROUNDS) {
		(void)fprintf(stderr, "usage: jail_bench JAIL WORK_DIR [ROUNDS] [SECONDS]\n");
		return 2;
	}
	host_enter(&host, argv[1], NULL, argv[2], 1ull << 30);
	for (unsigned i = 0; i < MAX_SLOTS; i++)
		slot_start(&slots[i], &host, i + 1);
	(void)printf("profile %s, kernel floor and jail in one run\n\n",
		     bj_jail_profile_name(host.profile));
	latency((size_t)rounds);
	if (seconds > 0)
		throughput(seconds);
	for (unsigned i = 0; i < MAX_SLOTS; i++)
		slot_stop(&slots[i]);
	return 0;
}
