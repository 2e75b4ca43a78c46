// SPDX-License-Identifier: Apache-2.0
/* Execute and WaitExecution over a real connection and the engine's fake runner: action_engine_util.h says what its words mean. */
#include "tests/unit/rpc-fixture.h"

#include "tests/unit/action_engine_util.h"

#include "executor/action/response.h"
#include "executor/base/log.h"
#include "executor/service/service-internal.h"
#include "google/longrunning/operations.pb-c.h"

#define EXECUTE "/build.bazel.remote.execution.v2.Execution/Execute"
#define WAIT "/build.bazel.remote.execution.v2.Execution/WaitExecution"

/* ---- the seam: no memory for a post ---- */

static atomic_bool loses_posts;

bool __real_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg);
bool __wrap_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg);
bool __wrap_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg)
{
	return !atomic_load(&loses_posts) && __real_bj_rpc_post(call, fn, arg);
}

/* ---- a server ---- */

struct world {
	struct bench bench;
	struct bj_services services;
	struct fixture fixture;
	struct bj_arena arena;
};

/* The target is a word for the fake; it comes as RequestMetadata, which this server's engine is given by a wrapper. */
static _Atomic(const char *) next_word = "run";

static int lookup_with_word(void *ctx, struct bj_run_request *request, struct bj_arena *arena,
			    struct bj_str *out_response, struct bj_err *err)
{
	request->client.target = bj_str_of(next_word);
	return fake_lookup(ctx, request, arena, out_response, err);
}

static void world_up(struct world *w, uint64_t grace_ns)
{
	struct service_table table = service_execution();
	struct bj_rpc_method methods[4];
	struct bench_opts o = BENCH_OPTS;
	*w = (struct world){ 0 };
	o.grace_ns = grace_ns;
	bench_up(&w->bench, o);
	bj_engine_free(w->bench.engine); /* made again, with the word */
	struct bj_engine_opts opts = { .cancel_grace_ns = grace_ns,
				       .keep_done_ns = 3600 * BJ_NS_PER_SEC,
				       .max_queued = 3,
				       .n_slots = 1,
				       .pool = w->bench.pool };
	struct bj_runner_ops ops = fake_ops(&w->bench.fake);
	ops.lookup = lookup_with_word;
	assert_int_equal(bj_engine_new(&opts, &ops, &w->bench.engine, &w->bench.err), 0);
	w->services.opts =
		(struct bj_services_opts){ .engine = w->bench.engine, .pool = w->bench.pool };
	for (size_t i = 0; i < table.n_methods; i++) {
		methods[i] = table.methods[i];
		methods[i].svc = &w->services;
	}
	bj_arena_init(&w->arena, 0);
	next_word = "run";
	atomic_store(&loses_posts, false);
	fixture_up(&w->fixture, NULL, methods, table.n_methods, NULL);
}

static void world_down(struct world *w)
{
	bj_rpc_server_stop(BJ_STEAL_PTR(w->fixture.server), 0);
	bench_down(&w->bench);
	fixture_down(&w->fixture, 0);
	bj_arena_deinit(&w->arena);
}

/** What one stream told. */
struct stream {
	struct counter messages, closed;
	char names[8][128];
	char responses[8][64];
	bool done[8];
	int stages[8];
	size_t n;
	enum bj_code code;
	char text[512];
	struct bj_rpc_call *call;
};

static void read_operation(struct stream *s, const Google__Longrunning__Operation *op)
{
	bj_assert(s->n < 8);
	bj_assert(strcmp(op->metadata->type_url,
			 "type.googleapis.com/build.bazel.remote.execution.v2."
			 "ExecuteOperationMetadata") == 0);
	/* The fake packs its metadata as text: "STAGE …". */
	s->stages[s->n] = op->metadata->value.data[0] - '0';
	(void)snprintf(s->names[s->n], sizeof(s->names[0]), "%s", op->name);
	s->done[s->n] = op->done;
	bj_assert(op->done == (op->result_case == GOOGLE__LONGRUNNING__OPERATION__RESULT_RESPONSE));
	if (op->done)
		copy_text(s->responses[s->n], sizeof(s->responses[0]),
			  bj_str_n(op->response->value.data, op->response->value.len));
	s->n++;
}

static void on_stream_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct stream *s = bj_rpc_data(call);
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;
	ProtobufCMessage *message;
	if (!msg)
		return;
	bj_arena_init(&arena, 0);
	int r = bj_rpc_unpack(msg, &google__longrunning__operation__descriptor, &arena, &message,
			      &err);
	bj_assert(r == 0);
	read_operation(s, (const Google__Longrunning__Operation *)message);
	bj_arena_deinit(&arena);
	counter_add(&s->messages);
	bj_rpc_want(call);
}

static void on_stream_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct stream *s = bj_rpc_data(call);
	s->code = status->code;
	(void)snprintf(s->text, sizeof(s->text), "%s", status->message ? status->message : "");
	counter_add(&s->closed);
}

static const struct bj_rpc_handler stream_handler = { .message = on_stream_message,
						      .closed = on_stream_closed };

static void stream_start(struct world *w, struct stream *s, const char *path,
			 const ProtobufCMessage *request)
{
	grpc_slice slice = bj_rpc_pack(request);
	*s = (struct stream){ .messages = COUNTER_INIT, .closed = COUNTER_INIT };
	bj_rpc_start(w->fixture.channel, w->fixture.client_loop, path, BJ_RPC_SERVER_STREAM,
		     &stream_handler, s, 0, &slice, 1, &s->call);
}

static void stream_end(struct stream *s)
{
	counter_wait(&s->closed, 1);
	bj_rpc_drop(BJ_STEAL_PTR(s->call));
}

static void execute(struct world *w, struct stream *s, char letter)
{
	BJ_RE(ExecuteRequest) req = BUILD__BAZEL__REMOTE__EXECUTION__V2__EXECUTE_REQUEST__INIT;
	struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, bj_str_n(&letter, 1));
	req.action_digest = bj_digest_to_pb(&w->arena, &digest);
	stream_start(w, s, EXECUTE, &req.base);
}

static void wait_execution(struct world *w, struct stream *s, const char *name)
{
	BJ_RE(WaitExecutionRequest)
	req = BUILD__BAZEL__REMOTE__EXECUTION__V2__WAIT_EXECUTION_REQUEST__INIT;
	req.name = (char *)(uintptr_t)name;
	stream_start(w, s, WAIT, &req.base);
}

static void expect_told(const struct stream *s, const char *stages, const char *response)
{
	char got[16] = "";
	for (size_t i = 0; i < s->n; i++) {
		got[i] = (char)('0' + s->stages[i]);
		assert_int_equal(s->done[i], s->stages[i] == BJ_STAGE_COMPLETED);
		assert_string_equal(s->names[i], s->names[0]);
	}
	assert_string_equal(got, stages);
	if (response)
		assert_string_equal(s->responses[s->n - 1], response);
}

/* gRPC orders nothing that ThreadSanitizer could see. */
static size_t locked(const size_t *count)
{
	test_lock();
	size_t value = *count;
	test_unlock();
	return value;
}

/* ---- tests ---- */

static void a_run(void **state)
{
	struct world w;
	struct stream s;
	(void)state;
	world_up(&w, BJ_NEVER_NS);
	execute(&w, &s, 'a');
	stream_end(&s);
	assert_int_equal(s.code, BJ_OK);
	expect_told(&s, "234", "RAN");
	world_down(&w);
}

static void a_hit(void **state)
{
	struct world w;
	struct stream s;
	(void)state;
	world_up(&w, BJ_NEVER_NS);
	next_word = "hit";
	execute(&w, &s, 'a');
	stream_end(&s);
	assert_int_equal(s.code, BJ_OK);
	expect_told(&s, "4", "HIT");
	world_down(&w);
}

/* L116; and what is malformed ends the call, not an operation. */
static void what_is_refused_at_once(void **state)
{
	BJ_RE(ExecuteRequest) req = BUILD__BAZEL__REMOTE__EXECUTION__V2__EXECUTE_REQUEST__INIT;
	struct bj_digest digest = bj_digest_empty(BJ_DIGEST_SHA256);
	struct world w;
	struct stream s;
	(void)state;
	world_up(&w, BJ_NEVER_NS);
	wait_execution(&w, &s, "nope");
	stream_end(&s);
	assert_int_equal(s.code, BJ_NOT_FOUND);

	stream_start(&w, &s, EXECUTE, &req.base);
	stream_end(&s);
	assert_int_equal(s.code, BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(s.text, "ExecuteRequest.action_digest"));
	req.action_digest = bj_digest_to_pb(&w.arena, &digest);
	req.digest_function = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST_FUNCTION__VALUE__BLAKE3;
	stream_start(&w, &s, EXECUTE, &req.base);
	stream_end(&s);
	assert_int_equal(s.code, BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(s.text, "digest_function"));
	req.digest_function = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST_FUNCTION__VALUE__SHA256;
	req.instance_name = (char *)(uintptr_t) "a//b";
	stream_start(&w, &s, EXECUTE, &req.base);
	stream_end(&s);
	assert_int_equal(s.code, BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(s.text, "instance_name"));
	assert_int_equal(locked(&w.bench.fake.n_lookups), 0);
	world_down(&w);
}

static void a_full_queue(void **state)
{
	struct world w;
	struct stream running, queued[3], refused;
	(void)state;
	world_up(&w, BJ_NEVER_NS);
	next_word = "hold";
	execute(&w, &running, 'a');
	counter_wait(&running.messages, 2);
	for (size_t i = 0; i < 3; i++) {
		execute(&w, &queued[i], (char)('b' + i));
		counter_wait(&queued[i].messages, 1);
	}
	execute(&w, &refused, 'x');
	stream_end(&refused);
	assert_int_equal(refused.code, BJ_RESOURCE_EXHAUSTED);
	open_gate(&w.bench);
	stream_end(&running);
	for (size_t i = 0; i < 3; i++) {
		stream_end(&queued[i]);
		expect_told(&queued[i], "234", "RAN");
	}
	world_down(&w);
}

/* L115: the stream is cut; who comes back in time gets the result. */
static void a_cut_stream_and_wait_execution(void **state)
{
	struct world w;
	struct stream first, back;
	(void)state;
	world_up(&w, 3600 * BJ_NS_PER_SEC);
	next_word = "hold";
	execute(&w, &first, 'a');
	counter_wait(&first.messages, 2);
	bj_rpc_cancel(first.call);
	stream_end(&first);
	assert_int_equal(first.code, BJ_CANCELLED);
	wait_execution(&w, &back, first.names[0]);
	counter_wait(&back.messages, 1);
	open_gate(&w.bench);
	stream_end(&back);
	assert_int_equal(back.code, BJ_OK);
	expect_told(&back, "34", "RAN");
	assert_string_equal(back.names[0], first.names[0]);
	assert_int_equal(locked(&w.bench.fake.n_cancelled), 0);
	/* Again, when all is over. */
	wait_execution(&w, &back, first.names[0]);
	stream_end(&back);
	expect_told(&back, "4", "RAN");
	world_down(&w);
}

static void nobody_comes_back(void **state)
{
	struct world w;
	struct stream first;
	(void)state;
	world_up(&w, BJ_NS_PER_MS);
	next_word = "hold";
	execute(&w, &first, 'a');
	counter_wait(&first.messages, 2);
	bj_rpc_cancel(first.call);
	stream_end(&first);
	AWAIT(w.bench.fake.n_cancelled == 1);
	world_down(&w);
}

static void two_clients_one_run(void **state)
{
	struct world w;
	struct stream first, second;
	(void)state;
	world_up(&w, BJ_NS_PER_MS);
	next_word = "hold";
	execute(&w, &first, 'a');
	counter_wait(&first.messages, 2);
	execute(&w, &second, 'a');
	counter_wait(&second.messages, 1);
	bj_rpc_cancel(first.call); /* one goes, the other stays */
	stream_end(&first);
	open_gate(&w.bench);
	stream_end(&second);
	expect_told(&second, "34", "RAN");
	assert_int_equal(locked(&w.bench.fake.n_runs), 1);
	world_down(&w);
}

/* Without memory to tell a state the stream breaks: the client does not wait for what will not come. */
static void a_state_that_cannot_be_told(void **state)
{
	struct world w;
	struct stream s, back;
	(void)state;
	world_up(&w, 3600 * BJ_NS_PER_SEC);
	next_word = "hold";
	execute(&w, &s, 'a');
	counter_wait(&s.messages, 2);
	atomic_store(&loses_posts, true);
	open_gate(&w.bench);
	stream_end(&s);
	assert_int_equal(s.code, BJ_CANCELLED);
	atomic_store(&loses_posts, false);
	wait_execution(&w, &back, s.names[0]);
	stream_end(&back);
	expect_told(&back, "4", "RAN");
	world_down(&w);
}

static void clients_that_go_at_any_moment(void **state)
{
	enum { ROUNDS = 100, N = 3 };
	struct world w;
	unsigned seed = 1;
	(void)state;
	world_up(&w, 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct stream s[N];
		next_word = i % 3 ? "run" : "hit";
		for (size_t j = 0; j < N; j++)
			execute(&w, &s[j], (char)(rand_r(&seed) % 100 + 1));
		for (int spin = rand_r(&seed) % 60; spin > 0; spin--)
			sched_yield();
		for (size_t j = 0; j < N; j++) {
			if (rand_r(&seed) % 3)
				bj_rpc_cancel(s[j].call);
			stream_end(&s[j]);
			assert_true(s[j].code == BJ_OK || s[j].code == BJ_CANCELLED ||
				    s[j].code == BJ_RESOURCE_EXHAUSTED);
			if (s[j].code == BJ_OK)
				assert_true(s[j].done[s[j].n - 1]);
		}
	}
	world_down(&w);
}

/* SIGTERM with an action under way: the call ends, the action is cancelled, nothing hangs. */
static void a_stop_in_the_middle(void **state)
{
	struct world w;
	struct stream running, queued;
	(void)state;
	world_up(&w, 3600 * BJ_NS_PER_SEC);
	next_word = "hold";
	execute(&w, &running, 'a');
	counter_wait(&running.messages, 2);
	execute(&w, &queued, 'b');
	counter_wait(&queued.messages, 1);
	bj_rpc_server_stop(BJ_STEAL_PTR(w.fixture.server), 0);
	stream_end(&running);
	stream_end(&queued);
	world_down(&w);
	assert_int_not_equal(running.code, BJ_OK);
	assert_int_equal(locked(&w.bench.fake.n_runs), 1);
	assert_int_equal(locked(&w.bench.fake.n_cancelled), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run),
		cmocka_unit_test(a_hit),
		cmocka_unit_test(what_is_refused_at_once),
		cmocka_unit_test(a_full_queue),
		cmocka_unit_test(a_cut_stream_and_wait_execution),
		cmocka_unit_test(nobody_comes_back),
		cmocka_unit_test(two_clients_one_run),
		cmocka_unit_test(a_state_that_cannot_be_told),
		cmocka_unit_test(clients_that_go_at_any_moment),
		cmocka_unit_test(a_stop_in_the_middle),
	};
	bj_log_set_level(BJ_LOG_ERROR);
	return cmocka_run_group_tests_name("service/execution", tests, NULL, NULL);
}
