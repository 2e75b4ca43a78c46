// SPDX-License-Identifier: Apache-2.0
/*
 * Runs while the action does, once for each attempt, so it asks nobody anything: an attempt is classified by the policy,
 * joined with its like, and kept until bjp_judge() can ask for evidence. Joining is by (kind, path) and does not depend
 * on the order in which attempts come: flags are or'ed, the smallest errno and the shortest spelling win, and who is
 * named is who came first by the clock.
 */
#include "policy/collect-internal.h"

#include <errno.h>

#include "executor/base/alloc.h"

enum { KEY_BYTES = BJP_PATH_BYTES + 64 };

int bjp_collector_new(const struct bjp_policy *policy, const struct bjp_settings *settings,
		      struct bjp_collector **out_collector, struct bj_err *err)
{
	struct bjp_collector *collector = BJ_NEW(struct bjp_collector);
	if (!collector)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "violation collector: out of memory");
	collector->policy = policy;
	collector->settings = settings;
	collector->last = &collector->first;
	bj_arena_init(&collector->arena, BJP_COLLECTOR_BYTES);
	*out_collector = collector;
	return 0;
}

void bjp_collector_free(struct bjp_collector *collector)
{
	if (!collector)
		return;
	bj_map_deinit(&collector->candidates);
	bj_map_deinit(&collector->found);
	bj_map_deinit(&collector->toolchain);
	bj_arena_deinit(&collector->arena);
	bj_free(collector);
}

/* ---- candidates ---- */

/* One byte of kind, then the path. Longer paths than the kernel takes are not kept. */
static bool make_key(char buf[KEY_BYTES], enum bjp_kind kind, struct bj_str path,
		     struct bj_str *out_key)
{
	if (path.len >= KEY_BYTES)
		return false;
	buf[0] = (char)('A' + (int)kind);
	if (path.len > 0)
		memcpy(buf + 1, path.ptr, path.len);
	*out_key = bj_str_n(buf, path.len + 1);
	return true;
}

struct bjp_candidate *bjp_candidate_get(const struct bjp_collector *collector, enum bjp_kind kind,
					struct bj_str path)
{
	char buf[KEY_BYTES];
	struct bj_str key;
	return make_key(buf, kind, path, &key) ? bj_map_get(&collector->candidates, key) : NULL;
}

static struct bjp_candidate *candidate_new(struct bjp_collector *collector, struct bj_str key)
{
	if (collector->n_candidates >= BJP_MAX_CANDIDATES)
		return NULL;
	struct bj_str kept = bj_arena_str(&collector->arena, key);
	struct bjp_candidate *c = BJ_ARENA_NEW(&collector->arena, struct bjp_candidate);
	if (!kept.ptr || !c || !bj_map_put(&collector->candidates, kept, c, NULL))
		return NULL;
	c->path = bj_str_n(kept.ptr + 1, kept.len - 1);
	collector->n_candidates++;
	*collector->last = c;
	collector->last = &c->next;
	return c;
}

struct bjp_candidate *bjp_candidate_at(struct bjp_collector *collector, enum bjp_kind kind,
				       struct bj_str path, bool *out_new)
{
	char buf[KEY_BYTES];
	struct bj_str key;
	struct bjp_candidate *c = NULL;
	*out_new = false;
	if (make_key(buf, kind, path, &key)) {
		c = bj_map_get(&collector->candidates, key);
		if (c)
			return c;
		c = candidate_new(collector, key);
	}
	if (!c) {
		collector->counters.dropped++;
		return NULL;
	}
	c->kind = kind;
	*out_new = true;
	return c;
}

void bjp_keep(struct bjp_collector *collector, struct bj_str *kept, struct bj_str s)
{
	if (kept->ptr && bj_str_eq(*kept, s))
		return;
	*kept = bj_arena_str(&collector->arena, s);
}

static bool is_shorter(struct bj_str a, struct bj_str b)
{
	return a.len != b.len ? a.len < b.len : bj_str_cmp(a, b) < 0;
}

/* Who did it: the first by the clock, then by pid. */
static void join_caller(struct bjp_collector *collector, struct bjp_candidate *c,
			const struct bjp_attempt *a, bool is_new)
{
	c->last_ns = BJ_MAX(c->last_ns, a->time_ns);
	bool is_earlier =
		a->time_ns < c->first_ns || (a->time_ns == c->first_ns && a->pid < c->pid);
	if (!is_new && !is_earlier)
		return;
	c->first_ns = a->time_ns;
	c->pid = a->pid;
	bjp_keep(collector, &c->comm, a->comm);
	bjp_keep(collector, &c->exe, a->exe);
	bjp_keep(collector, &c->argv0, a->argv0);
}

/* What was done: the access that says most (reads before stats), then the name that sorts first. */
static void join_operation(struct bjp_collector *collector, struct bjp_candidate *c,
			   const struct bjp_attempt *a, bool is_new)
{
	const char *operation = a->operation ? a->operation : "";
	if (is_new || a->access < c->access ||
	    (a->access == c->access && strcmp(operation, c->operation) < 0)) {
		c->access = a->access;
		c->operation = operation;
	}
	if (is_new || is_shorter(a->written, c->written))
		bjp_keep(collector, &c->written, a->written);
	c->is_refused |= a->error > 0;
	c->is_done |= a->error == 0;
	if (a->error > 0 && (c->error == 0 || a->error < c->error))
		c->error = a->error;
}

static void join_paths(struct bjp_collector *collector, struct bjp_candidate *c,
		       const struct bjp_attempt *a, bool is_new)
{
	if (is_new)
		c->zone = bjp_zone(collector->policy, c->path);
	if (a->resolved.len > 0 && (!c->resolved.len || is_shorter(a->resolved, c->resolved)))
		bjp_keep(collector, &c->resolved, a->resolved);
	if (!bj_str_eq(a->path, c->path) && (!c->lexical.len || is_shorter(a->path, c->lexical)))
		bjp_keep(collector, &c->lexical, a->path);
}

/* Attempts that were noise have left nothing in the candidate, so the first that is not counts as new. */
static void join(struct bjp_collector *collector, struct bjp_candidate *c,
		 const struct bjp_attempt *a)
{
	bool is_new = c->count == 0;
	join_caller(collector, c, a, is_new);
	join_operation(collector, c, a, is_new);
	join_paths(collector, c, a, is_new);
	c->count++;
}

/* ---- what searches found ---- */

static void note_found(struct bjp_collector *collector, struct bj_str path, bool by_exec)
{
	struct bj_str name = bjp_basename(path);
	struct bjp_found *found = bj_map_get(&collector->found, name);
	if (!found) {
		if (collector->found.n_entries >= BJP_MAX_CANDIDATES)
			return;
		struct bj_str kept = bj_arena_str(&collector->arena, name);
		found = BJ_ARENA_NEW(&collector->arena, struct bjp_found);
		if (!kept.ptr || !found || !bj_map_put(&collector->found, kept, found, NULL))
			return; /* a hint less; no attempt is lost */
	}
	found->by_exec |= by_exec;
	found->by_read |= !by_exec;
}

/* Whether the look-up found something is asked when it matters: the roots are the host's own. */
static void note_toolchain(struct bjp_collector *collector, struct bj_str path)
{
	if (collector->toolchain.n_entries >= BJP_MAX_CANDIDATES ||
	    bj_map_get(&collector->toolchain, path))
		return;
	struct bj_str kept = bj_arena_str(&collector->arena, path);
	if (kept.ptr && !bj_map_put(&collector->toolchain, kept, collector, NULL))
		return; /* without memory: less is known about a search, no attempt is lost */
}

void bjp_collect_known(struct bjp_collector *collector, struct bj_str path, enum bjp_class cls)
{
	if (cls == BJP_INPUT)
		note_found(collector, path, false);
	else if (cls == BJP_TOOLCHAIN)
		note_toolchain(collector, path);
}

/* Whoever acts was executed: how a search through PATH that ended well is known without hearing of every exec. */
static void note_program(struct bjp_collector *collector, struct bj_str name, struct bj_str *last)
{
	if (name.len == 0 || bj_str_eq(name, *last))
		return;
	note_found(collector, name, true);
	bjp_keep(collector, last, name);
}

/* By both names: python3 is a link, so its process is python3.11. */
static void note_caller(struct bjp_collector *collector, const struct bjp_attempt *a)
{
	note_program(collector, a->exe, &collector->last_exe);
	note_program(collector, a->argv0, &collector->last_argv0);
}

/* ---- attempts on paths ---- */

static bool is_write(enum bjp_access access)
{
	return access >= BJP_ACCESS_WRITE;
}

static unsigned saw_of(enum bjp_access access)
{
	switch (access) {
	case BJP_ACCESS_EXEC:
		return BJP_SAW_EXEC;
	case BJP_ACCESS_STAT:
		return BJP_SAW_STAT;
	default:
		return BJP_SAW_READ;
	}
}

/* True when the attempt is noise by the rule of its candidate; the count goes to the counter then. */
static bool is_noise(struct bjp_collector *collector, const struct bjp_candidate *c,
		     struct bj_str exe)
{
	if (!c->noise || !bjp_noise_holds(c->noise, exe))
		return false;
	collector->counters.noise++;
	return true;
}

/* The action has its own /tmp: what is only in the host's was meant to be found. */
static bool may_be_the_hosts(enum bjp_class cls, struct bj_str path)
{
	return cls == BJP_UNDECLARED ||
	       (cls == BJP_SYSTEM && (bjp_path_is_below(path, BJ_STR_LIT("/tmp")) ||
				      bjp_path_is_below(path, BJ_STR_LIT("/dev/shm"))));
}

/* Why an exec fails although the program is there. */
static void explain_interpreter(struct bjp_collector *collector, const struct bjp_attempt *a)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena scratch;
	bj_arena_init(&scratch, 0);
	struct bj_str path = bj_str_printable(&scratch, a->path, 200);
	struct bj_str via = bj_str_printable(&scratch, a->via, 200);
	const char *text = bj_arena_printf(&scratch, "the interpreter %.*s of %.*s is not there",
					   BJ_STR_FMT(path), BJ_STR_FMT(via));
	bjp_collect_explainer(collector, bj_str_of(text));
}

static void collect_lookup(struct bjp_collector *collector, const struct bjp_attempt *a,
			   struct bj_str path)
{
	enum bjp_class cls = bjp_classify(collector->policy, path);
	bool is_exec = a->access == BJP_ACCESS_EXEC, is_new;
	if (a->error == 0 && a->access != BJP_ACCESS_STAT && !a->is_dir)
		note_found(collector, path, is_exec);
	if (cls == BJP_TOOLCHAIN && a->error < 0)
		note_toolchain(collector, path);
	if (is_exec && a->via.len > 0 && a->error > 0)
		explain_interpreter(collector, a);
	if (!may_be_the_hosts(cls, path) || a->error == 0 || a->is_dir)
		return;

	enum bjp_kind kind = is_exec ? BJP_EXEC_UNDECLARED : BJP_READ_UNDECLARED;
	struct bjp_candidate *c = bjp_candidate_at(collector, kind, path, &is_new);
	if (!c)
		return;
	if (is_new)
		c->noise = bjp_noise_find(c->path, BJP_NOISE_READ);
	if (is_noise(collector, c, a->exe))
		return;
	c->saw |= saw_of(a->access);
	join(collector, c, a);
}

static void collect_write(struct bjp_collector *collector, const struct bjp_attempt *a,
			  struct bj_str path)
{
	bool is_new;
	enum bjp_write_verdict verdict =
		bjp_write_judge(collector->policy, collector->settings, a, path);
	if (verdict == BJP_WRITE_QUIET)
		collector->counters.quiet_writes++;
	if (verdict == BJP_WRITE_NOISE)
		collector->counters.noise++;
	if (verdict == BJP_WRITE_QUIET || verdict == BJP_WRITE_NOISE)
		return;

	enum bjp_kind kind = verdict == BJP_WRITE_INPUT ? BJP_WRITE_TO_INPUT : BJP_WRITE_UNDECLARED;
	struct bjp_candidate *c = bjp_candidate_at(collector, kind, path, &is_new);
	if (!c)
		return;
	if (is_new && kind == BJP_WRITE_UNDECLARED)
		c->noise = bjp_noise_find(c->path, BJP_NOISE_WRITE);
	if (is_noise(collector, c, a->exe))
		return;
	c->is_certain |= verdict != BJP_WRITE_IF_THERE;
	join(collector, c, a);
}

void bjp_collect(struct bjp_collector *collector, const struct bjp_attempt *attempt)
{
	struct bjp_walk walk;
	bool acts_on_link = bjp_acts_on_link(attempt);
	struct bj_str path = bjp_walk(collector->policy, attempt->path, !acts_on_link, &walk);
	/* Where the kernel says that it leads is truer than what the declared links say. */
	if (attempt->resolved.len > 0 && !acts_on_link)
		path = attempt->resolved;
	note_caller(collector, attempt);
	if (is_write(attempt->access))
		collect_write(collector, attempt, path);
	else
		collect_lookup(collector, attempt, path);
}

/* ---- network, system calls ---- */

static bool is_loopback(struct bj_str address)
{
	struct bj_str rest = address;
	if (bj_str_eq(address, BJ_STR_LIT("::1")) || bj_str_eq(address, BJ_STR_LIT("::")) ||
	    bj_str_eq(address, BJ_STR_LIT("0.0.0.0")))
		return true; /* connecting to "any" is connecting to oneself */
	if (!bjp_str_cut_prefix(&rest, BJ_STR_LIT("::ffff:")))
		bjp_str_cut_prefix(&rest, BJ_STR_LIT("::FFFF:"));
	return bj_str_has_prefix(rest, BJ_STR_LIT("127."));
}

/* Neither a path nor a name of the abstract space ('@' before it): a socket pair, nothing of the host. */
static bool is_unnamed_socket(const struct bjp_attempt *a)
{
	return a->path.len == 0 || (a->path.ptr[0] != '/' && a->path.ptr[0] != '@');
}

static bool is_bind(const struct bjp_attempt *a)
{
	return a->operation && strcmp(a->operation, "bind") == 0;
}

/* A socket that is made: a write like any other; a name of the abstract space is the action's own. */
static void collect_bind(struct bjp_collector *collector, const struct bjp_attempt *a)
{
	struct bjp_attempt create = *a;
	create.access = BJP_ACCESS_CREATE;
	if (a->path.ptr[0] == '/')
		collect_write(collector, &create, a->path);
}

static void collect_unix(struct bjp_collector *collector, const struct bjp_attempt *a)
{
	bool is_new;
	struct bj_str path = a->resolved.len > 0 ? a->resolved : a->path;
	if (is_unnamed_socket(a))
		return;
	if (is_bind(a)) {
		collect_bind(collector, a);
		return;
	}
	/* A socket that lies in a root of the host and answers is the host. */
	bool is_open = a->error == 0 && bjp_classify(collector->policy, path) == BJP_TOOLCHAIN;
	if (a->error == 0 && !is_open)
		return;
	struct bjp_candidate *c = bjp_candidate_at(collector, BJP_UNIX_SOCKET, path, &is_new);
	if (!c)
		return;
	if (is_new)
		c->noise = bjp_noise_find(c->path, BJP_NOISE_SOCKET);
	if (is_noise(collector, c, a->exe))
		return;
	c->is_certain |= is_open;
	collector->network_success |= is_open;
	join(collector, c, a);
	bjp_keep(collector, &c->address, c->path);
}

/* "ADDRESS PORT", the key of a network record. */
static bool make_endpoint(char buf[128], struct bj_str address, uint16_t port, struct bj_str *out)
{
	struct bj_buf text = BJ_BUF_INIT(127);
	bj_buf_append_str(&text, address);
	bj_buf_printf(&text, " %u", (unsigned)port);
	bool ok = !text.failed;
	if (ok) {
		memcpy(buf, text.data, text.len);
		*out = bj_str_n(buf, text.len);
	}
	bj_buf_deinit(&text);
	return ok;
}

static void collect_inet(struct bjp_collector *collector, const struct bjp_attempt *a,
			 struct bj_str address, uint16_t port)
{
	char buf[128];
	bool is_new;
	struct bj_str key;
	/* libc asks loopback for a host name when no server is configured: nobody is there, and what was wanted is the network. */
	bool is_lookup = is_loopback(address) && port == BJP_DNS_PORT;
	if (address.len == 0 || (is_loopback(address) && !is_lookup) || is_bind(a))
		return;
	if (!is_lookup) /* a datagram to nobody is sent, and lost */
		collector->network_success |= a->error == 0 || a->error == EINPROGRESS;
	if (!make_endpoint(buf, address, port, &key)) {
		collector->counters.dropped++;
		return;
	}
	struct bjp_candidate *c = bjp_candidate_at(collector, BJP_NETWORK, key, &is_new);
	if (!c)
		return;
	struct bjp_attempt without_path = *a;
	without_path.path = without_path.resolved = without_path.written = BJ_STR_NULL;
	c->is_certain = true;
	join(collector, c, &without_path);
	c->zone = BJP_ZONE_HOST;
	c->port = port;
	bjp_keep(collector, &c->address, address);
}

void bjp_collect_network(struct bjp_collector *collector, const struct bjp_attempt *attempt,
			 bool is_unix, struct bj_str address, uint16_t port)
{
	note_caller(collector, attempt);
	if (is_unix)
		collect_unix(collector, attempt);
	else
		collect_inet(collector, attempt, address, port);
}

void bjp_collect_syscall(struct bjp_collector *collector, const struct bjp_attempt *attempt,
			 const char *name)
{
	bool is_new;
	struct bjp_attempt call = *attempt;
	call.operation = name;
	call.path = call.resolved = call.written = BJ_STR_NULL;
	struct bjp_candidate *c =
		bjp_candidate_at(collector, BJP_SYSCALL, bj_str_of(name), &is_new);
	if (!c)
		return;
	c->is_certain = true;
	join(collector, c, &call);
	c->zone = BJP_ZONE_SYSTEM;
}
