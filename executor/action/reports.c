// SPDX-License-Identifier: Apache-2.0
/* The last reports, in a ring: `belljar explain` asks for them. Each is one allocation that holds copies of all its strings. */
#include <pthread.h>

#include "executor/action/report.h"
#include "executor/base/alloc.h"

struct bj_reports {
	pthread_mutex_t mu;
	struct bj_stored_report **ring; /* max of them, NULL where none is; newest at next - 1 */
	size_t max, next, n;
	size_t n_bytes; /* of all */
};

static struct bj_str take(char **at, struct bj_str s)
{
	char *to = *at;

	if (s.len)
		memcpy(to, s.ptr, s.len);
	to[s.len] = '\0';
	*at += s.len + 1;
	return bj_str_n(to, s.len);
}

/* @memory: sizeof(*r) + text bytes, laid out behind the struct */
static struct bj_stored_report *lay_out(void *memory, const struct bj_stored_report *r)
{
	struct bj_stored_report *copy = memory;
	char *at = (char *)(copy + 1);

	*copy = *r;
	copy->packed = take(&at, r->packed);
	copy->action = take(&at, r->action);
	copy->target = take(&at, r->target);
	copy->mnemonic = take(&at, r->mnemonic);
	copy->invocation = take(&at, r->invocation);
	copy->message = take(&at, r->message);
	return copy;
}

static size_t needed(const struct bj_stored_report *r)
{
	const size_t lens[] = { r->packed.len,	 r->action.len,	    r->target.len,
				r->mnemonic.len, r->invocation.len, r->message.len };
	size_t sum = sizeof(*r) + BJ_ARRAY_LEN(lens);

	for (size_t i = 0; i < BJ_ARRAY_LEN(lens); i++)
		sum = bj_size_add(sum, lens[i]);
	return sum;
}

int bj_reports_new(size_t max, struct bj_reports **out_reports, struct bj_err *err)
{
	struct bj_reports *reports = BJ_NEW(struct bj_reports);

	if (reports) {
		reports->max = max ? max : 1;
		reports->ring = BJ_NEW_ARRAY(struct bj_stored_report *, reports->max);
	}
	if (!reports || !reports->ring || pthread_mutex_init(&reports->mu, NULL)) {
		if (reports)
			bj_free(reports->ring);
		bj_free(reports);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for %zu reports", max);
	}
	*out_reports = reports;
	return 0;
}

void bj_reports_free(struct bj_reports *reports)
{
	if (!reports)
		return;
	for (size_t i = 0; i < reports->max; i++)
		bj_free(reports->ring[i]);
	(void)pthread_mutex_destroy(&reports->mu);
	bj_free(reports->ring);
	bj_free(reports);
}

static void drop_oldest_locked(struct bj_reports *reports)
{
	size_t at = (reports->next + reports->max - reports->n) % reports->max;

	reports->n_bytes -= needed(reports->ring[at]);
	bj_free(reports->ring[at]);
	reports->ring[at] = NULL;
	reports->n--;
}

void bj_reports_add(struct bj_reports *reports, const struct bj_stored_report *report)
{
	size_t n_bytes = needed(report);
	void *memory = bj_malloc(n_bytes);

	if (!memory)
		return;
	struct bj_stored_report *copy = lay_out(memory, report);

	pthread_mutex_lock(&reports->mu);
	while (reports->n == reports->max ||
	       (reports->n && reports->n_bytes + n_bytes > BJ_REPORTS_MAX_BYTES))
		drop_oldest_locked(reports);
	reports->ring[reports->next] = copy;
	reports->next = (reports->next + 1) % reports->max;
	reports->n++;
	reports->n_bytes += n_bytes;
	pthread_mutex_unlock(&reports->mu);
}

static const struct bj_stored_report *nth_newest_locked(const struct bj_reports *reports, size_t i)
{
	return reports->ring[(reports->next + reports->max - 1 - i) % reports->max];
}

static struct bj_str last_invocation_locked(const struct bj_reports *reports)
{
	for (size_t i = 0; i < reports->n; i++)
		if (nth_newest_locked(reports, i)->invocation.len)
			return nth_newest_locked(reports, i)->invocation;
	return BJ_STR_NULL;
}

static bool fits(struct bj_str wanted, struct bj_str is)
{
	return wanted.len == 0 || bj_str_eq(wanted, is);
}

static bool matches(const struct bj_reports_query *q, struct bj_str last,
		    const struct bj_stored_report *r)
{
	return fits(q->target, r->target) && fits(q->mnemonic, r->mnemonic) &&
	       fits(q->invocation, r->invocation) &&
	       bj_str_has_prefix(r->action, q->action_prefix) &&
	       (!q->last_build || bj_str_eq(last, r->invocation)) &&
	       (!q->only_violations || r->has_violations);
}

int bj_reports_find(struct bj_reports *reports, const struct bj_reports_query *query,
		    struct bj_arena *arena, struct bj_stored_report **out_list, size_t *out_n,
		    struct bj_err *err)
{
	pthread_mutex_lock(&reports->mu);
	struct bj_str last = last_invocation_locked(reports);
	struct bj_stored_report *list = BJ_ARENA_ARRAY(arena, struct bj_stored_report, reports->n);
	size_t n = 0, bytes = 0;
	bool ok = list != NULL;

	for (size_t i = 0; ok && i < reports->n && (!query->limit || n < query->limit); i++) {
		const struct bj_stored_report *r = nth_newest_locked(reports, i);

		if (!matches(query, last, r))
			continue;
		bytes += needed(r);
		if (n && query->max_bytes && bytes > query->max_bytes)
			break;
		void *memory = bj_arena_alloc(arena, needed(r));

		ok = memory != NULL;
		if (ok)
			list[n++] = *lay_out(memory, r);
	}
	pthread_mutex_unlock(&reports->mu);
	if (!ok)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "out of memory for the reports");
	*out_list = list;
	*out_n = n;
	return 0;
}
