// SPDX-License-Identifier: Apache-2.0
/* The four kinds of call, and every way in which they end. */
#include <stdio.h>

#include "tests/unit/rpc-fixture.h"

#include "pb_test.pb-c.h"

enum { RECV_LIMIT = 64 << 10 }; /* of the servers whose test is about size */

/* A server of one method, and a probe for one call to it. */
struct stage {
	struct fixture fixture;
	struct probe probe;
};

static void stage_up(struct stage *stage, enum bj_rpc_kind kind,
		     const struct bj_rpc_handler *handler, void *svc)
{
	const struct bj_rpc_method method = { "/t.T/Do", kind, handler, svc };
	const struct bj_rpc_server_opts opts = { .max_recv_bytes = RECV_LIMIT };
	fixture_up(&stage->fixture, &opts, &method, 1, NULL);
	probe_init(&stage->probe);
}

static void stage_call(struct stage *stage, enum bj_rpc_kind kind, const char *request)
{
	fixture_call(&stage->fixture, &stage->probe, "/t.T/Do", kind, 0, request);
}

static void stage_down(struct stage *stage)
{
	probe_deinit(&stage->probe);
	fixture_down(&stage->fixture, 0);
}

static void expect(struct stage *stage, enum bj_code code, const char *received, const char *text)
{
	probe_wait(&stage->probe);
	assert_int_equal(stage->probe.code, code);
	assert_string_equal(bj_buf_cstr(&stage->probe.received), received);
	assert_string_equal(stage->probe.text, text);
}

/* A text of @n_bytes letters; the caller frees it. */
static char *letters(size_t n_bytes)
{
	char *text = bj_malloc(n_bytes + 1);
	memset(text, 'x', n_bytes);
	text[n_bytes] = '\0';
	return text;
}

/* ---- unary ---- */

static void reverse_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_buf text = BJ_BUF_INIT(1 << 20);
	(void)message_text(req, &text);
	for (size_t i = 0, j = text.len; i + 1 < j; i++) {
		char c = text.data[--j];
		text.data[j] = text.data[i];
		text.data[i] = c;
	}
	reply_text(call, bj_buf_cstr(&text));
	bj_buf_deinit(&text);
}

static const struct bj_rpc_handler reverse = { .open = reverse_open };

static void unary_replies(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &reverse, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "abc");
	expect(&stage, BJ_OK, "cba|", "");
	stage_down(&stage);
}

/* Doubles the number, keeps the text; a negative number is an error of the server. */
static void leaf_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *msg;
	if (bj_rpc_unpack(req, &bj__test__leaf__descriptor, bj_rpc_arena(call), &msg, &err) < 0) {
		bj_rpc_fail(call, &err);
		return;
	}
	Bj__Test__Leaf *leaf = (Bj__Test__Leaf *)msg;
	if (leaf->number < 0) {
		(void)bj_err_set(&err, BJ_NOT_FOUND, "no number %d", (int)leaf->number);
		bj_rpc_fail(call, &err);
		return;
	}
	leaf->number *= 2;
	bj_rpc_reply_msg(call, msg);
}

static const struct bj_rpc_handler leaf_handler = { .open = leaf_open };

static int call_leaf(struct stage *stage, const Bj__Test__Leaf *req, struct bj_arena *arena,
		     ProtobufCMessage **out_reply, struct bj_err *err)
{
	return bj_rpc_unary(stage->fixture.channel, stage->fixture.client_loop, "/t.T/Do",
			    &req->base, &bj__test__leaf__descriptor, 0, arena, out_reply, err);
}

static void blocking_unary_gives_the_message(void **state)
{
	(void)state;
	struct stage stage;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *reply = NULL;
	Bj__Test__Leaf req = BJ__TEST__LEAF__INIT;
	bj_arena_init(&arena, 0);
	stage_up(&stage, BJ_RPC_UNARY, &leaf_handler, NULL);

	/* Large enough to arrive in several slices. */
	bj_cleanup(bj_freep) char *text = letters(RECV_LIMIT - 100);
	req.text = text;
	req.number = 21;
	assert_int_equal(call_leaf(&stage, &req, &arena, &reply, &err), 0);
	assert_int_equal(((Bj__Test__Leaf *)reply)->number, 42);
	assert_string_equal(((Bj__Test__Leaf *)reply)->text, text);

	/* The default message: nothing on the wire. */
	const Bj__Test__Leaf empty = BJ__TEST__LEAF__INIT;
	assert_int_equal(call_leaf(&stage, &empty, &arena, &reply, &err), 0);
	assert_int_equal(((Bj__Test__Leaf *)reply)->number, 0);

	probe_init(&stage.probe);
	counter_add(&stage.probe.closed); /* no call of its own to wait for */
	bj_arena_deinit(&arena);
	stage_down(&stage);
}

static void blocking_unary_gives_the_error(void **state)
{
	(void)state;
	struct stage stage;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *reply = NULL;
	Bj__Test__Leaf req = BJ__TEST__LEAF__INIT;
	bj_arena_init(&arena, 0);
	stage_up(&stage, BJ_RPC_UNARY, &leaf_handler, NULL);

	req.number = -7;
	assert_int_equal(call_leaf(&stage, &req, &arena, &reply, &err), -BJ_NOT_FOUND);
	assert_string_equal(err.msg, "no number -7");
	bj_err_clear(&err);

	req.text = (char *)"\xff";
	assert_int_equal(call_leaf(&stage, &req, &arena, &reply, &err), -BJ_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "bj.test.Leaf.text is not valid UTF-8");
	assert_null(reply);

	counter_add(&stage.probe.closed);
	bj_arena_deinit(&arena);
	stage_down(&stage);
}

/* ---- server stream: counts from 1 to the number asked for ---- */

struct count {
	unsigned next, last;
};

static void count_step(struct bj_rpc_call *call)
{
	struct count *count = bj_rpc_data(call);
	char text[16];
	if (count->next > count->last) {
		bj_rpc_finish(call, NULL);
		return;
	}
	(void)snprintf(text, sizeof(text), "%u", count->next++);
	assert_true(send_text(call, text));
}

static void count_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_buf text = BJ_BUF_INIT(1 << 20);
	uint64_t last = 0;
	(void)message_text(req, &text);
	assert_true(bj_str_to_u64(bj_buf_str(&text), &last));
	bj_buf_deinit(&text);
	struct count *count = BJ_NEW(struct count);
	*count = (struct count){ 1, (unsigned)last };
	bj_rpc_set_data(call, count);
	count_step(call);
}

static void count_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	assert_int_equal(status->code, BJ_OK);
	bj_free(bj_rpc_data(call));
}

static const struct bj_rpc_handler counting = {
	.open = count_open,
	.sent = count_step,
	.closed = count_closed,
};

static void server_stream_sends_all(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_SERVER_STREAM, &counting, NULL);
	stage_call(&stage, BJ_RPC_SERVER_STREAM, "5");
	expect(&stage, BJ_OK, "1|2|3|4|5|", "");
	assert_int_equal(stage.probe.n_ends, 1);
	stage_down(&stage);
}

static void server_stream_may_be_empty(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_SERVER_STREAM, &counting, NULL);
	stage_call(&stage, BJ_RPC_SERVER_STREAM, "0");
	expect(&stage, BJ_OK, "", "");
	stage_down(&stage);
}

/* ---- client stream: joins what comes ---- */

static void join_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	assert_null(req);
	struct bj_buf *text = BJ_NEW(struct bj_buf);
	*text = BJ_BUF_INIT(1 << 20);
	bj_rpc_set_data(call, text);
	bj_rpc_want(call);
}

static void join_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct bj_buf *text = bj_rpc_data(call);
	if (msg) {
		(void)message_text(msg, text);
		bj_buf_append_char(text, '+');
		bj_rpc_want(call);
		bj_rpc_want(call); /* a second one is nothing */
	} else {
		reply_text(call, bj_buf_cstr(text));
	}
}

static void join_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	(void)status;
	struct bj_buf *text = bj_rpc_data(call);
	bj_buf_deinit(text);
	bj_free(text);
}

static const struct bj_rpc_handler joining = {
	.open = join_open,
	.message = join_message,
	.closed = join_closed,
};

static void post_send(struct bj_rpc_call *call, void *text)
{
	assert_true(send_text(call, text));
}

static void post_half_close(struct bj_rpc_call *call, void *arg)
{
	(void)arg;
	bj_rpc_half_close(call);
}

/* Sends on the client's loop; the call must be writable by now. */
static void client_do(struct stage *stage, void (*fn)(struct bj_rpc_call *, void *),
		      const char *text)
{
	assert_true(bj_rpc_post(stage->probe.call, fn, (void *)text));
}

static void client_stream_is_joined(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_CLIENT_STREAM, &joining, NULL);
	stage_call(&stage, BJ_RPC_CLIENT_STREAM, "a");
	counter_wait(&stage.probe.sent, 1);
	client_do(&stage, post_send, "b");
	counter_wait(&stage.probe.sent, 2);
	client_do(&stage, post_send, "");
	counter_wait(&stage.probe.sent, 3);
	client_do(&stage, post_half_close, NULL);
	expect(&stage, BJ_OK, "a+b++|", "");
	stage_down(&stage);
}

static void send_then_half_close(struct bj_rpc_call *call, void *text)
{
	assert_true(send_text(call, text));
	assert_false(bj_rpc_writable(call));
	assert_false(send_text(call, "refused, and its slices are freed"));
	bj_rpc_half_close(call); /* follows the message */
	bj_rpc_half_close(call); /* a second one is nothing */
	assert_false(send_text(call, "refused too"));
}

static void half_close_waits_for_the_message(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_CLIENT_STREAM, &joining, NULL);
	stage_call(&stage, BJ_RPC_CLIENT_STREAM, NULL);
	counter_wait(&stage.probe.sent, 1);
	client_do(&stage, send_then_half_close, "last");
	expect(&stage, BJ_OK, "last+|", "");
	assert_int_equal(counter_value(&stage.probe.sent), 1);
	stage_down(&stage);
}

/* ---- bidi: echoes ---- */

static void echo_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	assert_null(req);
	bj_rpc_want(call);
}

static void echo_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct bj_buf text = BJ_BUF_INIT(1 << 20);
	if (!msg) {
		bj_rpc_finish(call, NULL);
		return;
	}
	assert_true(send_text(call, message_text(msg, &text)));
	bj_buf_deinit(&text);
}

static const struct bj_rpc_handler echoing = {
	.open = echo_open,
	.message = echo_message,
	.sent = bj_rpc_want,
};

static void bidi_echoes(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &echoing, NULL);
	stage_call(&stage, BJ_RPC_BIDI, NULL);
	counter_wait(&stage.probe.sent, 1);
	client_do(&stage, post_send, "one");
	counter_wait(&stage.probe.messages, 1);
	counter_wait(&stage.probe.sent, 2);
	client_do(&stage, post_send, "two");
	counter_wait(&stage.probe.messages, 2);
	client_do(&stage, post_half_close, NULL);
	expect(&stage, BJ_OK, "one|two|", "");
	stage_down(&stage);
}

/* ---- status ---- */

static void details_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_buf n = BJ_BUF_INIT(64);
	uint64_t n_bytes = 0;
	(void)message_text(req, &n);
	assert_true(bj_str_to_u64(bj_buf_str(&n), &n_bytes));
	bj_buf_deinit(&n);
	char details[16 << 10];
	for (size_t i = 0; i < sizeof(details); i++)
		details[i] = (char)i;
	bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_FAILED_PRECONDITION,
						     .message = "100 % gr\xc3\xbc"
								"n\n",
						     .details = details,
						     .details_len = n_bytes });
}

static const struct bj_rpc_handler detailing = { .open = details_open };

static void status_brings_text_and_details(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &detailing, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "5000");
	expect(&stage, BJ_FAILED_PRECONDITION, "",
	       "100 % gr\xc3\xbc"
	       "n\n");
	assert_int_equal(stage.probe.details_len, 5000);
	for (size_t i = 0; i < 5000; i++)
		assert_int_equal(stage.probe.details[i], (char)i);
	stage_down(&stage);
}

static void too_large_details_do_not_cost_the_status(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &detailing, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "6000"); /* 8000 in base64 */
	expect(&stage, BJ_FAILED_PRECONDITION, "",
	       "100 % gr\xc3\xbc"
	       "n\n");
	assert_int_equal(stage.probe.details_len, 0);
	stage_down(&stage);
}

static void raw_error_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_err err = BJ_ERR_NULL;
	(void)req;
	(void)bj_err_set(&err, BJ_DATA_LOSS, "file \"a\xff\"");
	bj_rpc_fail(call, &err);
}

static void error_text_is_made_utf8(void **state)
{
	(void)state;
	static const struct bj_rpc_handler handler = { .open = raw_error_open };
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &handler, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "");
	expect(&stage, BJ_DATA_LOSS, "", "file \"a\\xff\"");
	stage_down(&stage);
}

static void unknown_methods_are_answered(void **state)
{
	(void)state;
	static const enum bj_rpc_kind kinds[] = { BJ_RPC_UNARY, BJ_RPC_SERVER_STREAM,
						  BJ_RPC_CLIENT_STREAM, BJ_RPC_BIDI };
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &reverse, NULL);
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		struct probe probe;
		probe_init(&probe);
		fixture_call(&stage.fixture, &probe, "/t.T/Nothing", kinds[i], 0, "abc");
		probe_wait(&probe);
		assert_int_equal(probe.code, BJ_UNIMPLEMENTED);
		probe_deinit(&probe);
	}
	stage_call(&stage, BJ_RPC_UNARY, "still up");
	expect(&stage, BJ_OK, "pu llits|", "");
	stage_down(&stage);
}

static void handler_without_open_is_unimplemented(void **state)
{
	(void)state;
	static const struct bj_rpc_handler nothing;
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &nothing, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "abc");
	expect(&stage, BJ_UNIMPLEMENTED, "", "not implemented");
	stage_down(&stage);
}

/* ---- size ---- */

static const struct bj_rpc_handler watching = {
	.open = scene_open_want,
	.message = scene_message,
	.sent = scene_sent,
	.cancelled = scene_cancelled,
	.closed = scene_closed,
};

static void oversized_unary_is_refused(void **state)
{
	(void)state;
	struct stage stage;
	struct probe probe;
	bj_cleanup(bj_freep) char *fits = letters(RECV_LIMIT);
	bj_cleanup(bj_freep) char *large = letters(RECV_LIMIT + 1);
	stage_up(&stage, BJ_RPC_UNARY, &reverse, NULL);
	probe_init(&probe);
	fixture_call(&stage.fixture, &probe, "/t.T/Do", BJ_RPC_UNARY, 0, large);
	probe_wait(&probe);
	assert_int_equal(probe.code, BJ_RESOURCE_EXHAUSTED);
	probe_deinit(&probe);

	stage_call(&stage, BJ_RPC_UNARY, fits);
	probe_wait(&stage.probe);
	assert_int_equal(stage.probe.code, BJ_OK);
	assert_int_equal(stage.probe.received.len, RECV_LIMIT + 1);
	stage_down(&stage);
}

static void oversized_stream_message_is_no_end(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	bj_cleanup(bj_freep) char *large = letters(RECV_LIMIT + 1);
	stage_up(&stage, BJ_RPC_CLIENT_STREAM, &watching, &scene);
	stage_call(&stage, BJ_RPC_CLIENT_STREAM, "small");
	counter_wait(&scene.messages, 1);
	counter_wait(&stage.probe.sent, 1);
	client_do(&stage, send_then_half_close, large);
	expect(&stage, BJ_RESOURCE_EXHAUSTED, "", stage.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.messages), 1);
	assert_int_equal(counter_value(&scene.ends), 0); /* a cut upload must not look complete */
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(scene.code, BJ_CANCELLED);
	stage_down(&stage);
}

/* ---- headers and deadlines ---- */

static void headers_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	struct bj_str agent = bj_rpc_metadata(call, "user-agent");
	struct bj_str absent = bj_rpc_metadata(call, "absent-bin");
	if (absent.ptr || !bj_str_has_prefix(agent, BJ_STR_LIT("grpc-c/")))
		bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_INTERNAL });
	else
		reply_text(call, "seen");
}

static void headers_are_found(void **state)
{
	(void)state;
	static const struct bj_rpc_handler handler = { .open = headers_open };
	struct stage stage;
	stage_up(&stage, BJ_RPC_UNARY, &handler, NULL);
	stage_call(&stage, BJ_RPC_UNARY, "");
	expect(&stage, BJ_OK, "seen|", "");
	stage_down(&stage);
}

static void deadline_ends_both_sides(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	uint64_t before_ns = bj_now_ns();
	fixture_call(&stage.fixture, &stage.probe, "/t.T/Do", BJ_RPC_BIDI, 200, NULL);
	probe_wait(&stage.probe);
	uint64_t after_ns = bj_now_ns();
	assert_int_equal(stage.probe.code, BJ_DEADLINE_EXCEEDED);
	assert_true(after_ns - before_ns >= 200 * BJ_NS_PER_MS);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(scene.code, BJ_CANCELLED);
	/* The wire carries the time that is left, rounded up to a few per cent. */
	assert_true(scene.deadline_ns > before_ns + 150 * BJ_NS_PER_MS);
	assert_true(scene.deadline_ns < after_ns + 150 * BJ_NS_PER_MS);
	stage_down(&stage);
}

static void no_deadline_is_never(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	assert_true(scene.deadline_ns == BJ_NEVER_NS);
	bj_rpc_cancel(stage.probe.call);
	expect(&stage, BJ_CANCELLED, "", stage.probe.text);
	scene_end(&scene);
	stage_down(&stage);
}

/* ---- cancellation ---- */

static void client_cancel_reaches_the_server(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, "hello");
	counter_wait(&scene.messages, 1);
	bj_rpc_cancel(stage.probe.call);
	expect(&stage, BJ_CANCELLED, "", stage.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(counter_value(&scene.ends), 0);
	assert_int_equal(scene.code, BJ_CANCELLED);
	stage_down(&stage);
}

static void server_cancel_reaches_the_client(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, "hello");
	counter_wait(&scene.messages, 1);
	bj_rpc_cancel(scene.held);
	expect(&stage, BJ_CANCELLED, "", stage.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	stage_down(&stage);
}

static void late_work(struct bj_rpc_call *call, void *arg)
{
	struct scene *scene = arg;
	assert_true(bj_rpc_is_cancelled(call));
	assert_false(bj_rpc_writable(call));
	assert_false(send_text(call, "nobody"));
	bj_rpc_want(call);
	reply_text(call, "nobody");
	bj_rpc_finish(call, NULL);
	bj_rpc_cancel(call);
	counter_add(&scene->posted);
}

static void late_posts_are_harmless(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	bj_rpc_cancel(stage.probe.call);
	counter_wait(&scene.cancelled, 1);
	scene_post(&scene, late_work, &scene); /* perhaps before closed(), perhaps after it */
	counter_wait(&scene.closed, 1);
	scene_post(&scene, late_work, &scene);
	counter_wait(&scene.posted, 2);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.closed), 1);
	stage_down(&stage);
}

/* A hold outlives the server. */
static void held_call_outlives_the_server(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), 0);
	assert_int_equal(counter_value(&scene.closed), 1); /* before stop() returned */
	scene_post(&scene, late_work, &scene);
	counter_wait(&scene.posted, 1);
	scene_end(&scene);
	stage_down(&stage);
}

/* ---- last words ---- */

static void send_and_fail(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct bj_err err = BJ_ERR_NULL;
	(void)req;
	assert_true(send_text(call, "part"));
	(void)bj_err_set(&err, BJ_ABORTED, "lost the rest");
	bj_rpc_fail(call, &err);
	assert_false(bj_rpc_writable(call));
	bj_rpc_finish(call, NULL); /* the first word counts */
	reply_text(call, "nobody");
}

static void must_not_be_called(struct bj_rpc_call *call)
{
	(void)call;
	fail_msg("called after the last word");
}

static void status_follows_the_message_in_flight(void **state)
{
	(void)state;
	static const struct bj_rpc_handler handler = { .open = send_and_fail,
						       .sent = must_not_be_called,
						       .cancelled = must_not_be_called };
	struct stage stage;
	stage_up(&stage, BJ_RPC_SERVER_STREAM, &handler, NULL);
	stage_call(&stage, BJ_RPC_SERVER_STREAM, "");
	expect(&stage, BJ_ABORTED, "part|", "lost the rest");
	stage_down(&stage);
}

static void send_and_reply(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	assert_true(send_text(call, "first"));
	reply_text(call, "second");
}

static void reply_follows_the_message_in_flight(void **state)
{
	(void)state;
	static const struct bj_rpc_handler handler = { .open = send_and_reply };
	struct stage stage;
	stage_up(&stage, BJ_RPC_SERVER_STREAM, &handler, NULL);
	stage_call(&stage, BJ_RPC_SERVER_STREAM, "");
	expect(&stage, BJ_OK, "first|second|", "");
	stage_down(&stage);
}

static void answer_at_once(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	scene_message(call, msg);
	reply_text(call, "enough");
}

/* As ByteStream.Write does for a blob that is there already. */
static void early_answer_ends_the_upload(void **state)
{
	(void)state;
	static const struct bj_rpc_handler handler = { .open = scene_open_want,
						       .message = answer_at_once,
						       .cancelled = must_not_be_called,
						       .closed = scene_closed };
	struct scene scene = SCENE_INIT;
	struct stage stage;
	stage_up(&stage, BJ_RPC_CLIENT_STREAM, &handler, &scene);
	stage_call(&stage, BJ_RPC_CLIENT_STREAM, "part");
	expect(&stage, BJ_OK, "enough|", "");
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.messages), 1);
	stage_down(&stage);
}

static void out_of_memory_refuses_one_call(void **state)
{
	(void)state;
	struct stage stage;
	struct probe probe;
	stage_up(&stage, BJ_RPC_UNARY, &reverse, NULL);
	probe_init(&probe);
	bj_alloc_fail_after(1); /* the client's call is the first; the next is the server's */
	fixture_call(&stage.fixture, &probe, "/t.T/Do", BJ_RPC_UNARY, 0, "abc");
	probe_wait(&probe);
	assert_true(bj_alloc_fail_disarm());
	assert_int_not_equal(probe.code, BJ_OK);
	probe_deinit(&probe);
	stage_call(&stage, BJ_RPC_UNARY, "abc");
	expect(&stage, BJ_OK, "cba|", "");
	stage_down(&stage);
}

/* ---- timers ---- */

struct rung {
	struct scene *scene;
	unsigned number;
	unsigned *last; /* the rung that rang before */
};

static void ring(void *arg)
{
	struct rung *rung = arg;
	assert_true(rung->number > *rung->last);
	*rung->last = rung->number;
	counter_add(&rung->scene->posted);
}

static void arm_ladder(struct bj_rpc_call *call, void *arg)
{
	/* Number n is due after n / 8 ms: eight each are due together, in the order of arming. */
	struct rung *ladder = arg;
	for (unsigned i = 0; i < 100; i++)
		assert_true(bj_rpc_timer(bj_rpc_call_loop(call), 10, ring, &ladder[i]));
	assert_true(bj_rpc_timer(bj_rpc_call_loop(call), 3600 * 1000, ring, &ladder[0]));
	assert_true(bj_rpc_timer(bj_rpc_call_loop(call), UINT64_MAX, ring, &ladder[0]));
	for (unsigned i = 199; i >= 100; i--)
		assert_true(bj_rpc_timer(bj_rpc_call_loop(call), 20 + i, ring, &ladder[i]));
}

static void timers_ring_in_order(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct stage stage;
	struct rung ladder[200];
	unsigned last = 0;
	for (unsigned i = 0; i < 200; i++)
		ladder[i] = (struct rung){ &scene, i + 1, &last };
	stage_up(&stage, BJ_RPC_BIDI, &watching, &scene);
	stage_call(&stage, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	scene_post(&scene, arm_ladder, ladder);
	counter_wait(&scene.posted, 200);
	bj_rpc_cancel(stage.probe.call);
	scene_end(&scene);
	stage_down(&stage); /* two timers are pending and dropped */
	assert_int_equal(counter_value(&scene.posted), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unary_replies),
		cmocka_unit_test(blocking_unary_gives_the_message),
		cmocka_unit_test(blocking_unary_gives_the_error),
		cmocka_unit_test(server_stream_sends_all),
		cmocka_unit_test(server_stream_may_be_empty),
		cmocka_unit_test(client_stream_is_joined),
		cmocka_unit_test(half_close_waits_for_the_message),
		cmocka_unit_test(bidi_echoes),
		cmocka_unit_test(status_brings_text_and_details),
		cmocka_unit_test(too_large_details_do_not_cost_the_status),
		cmocka_unit_test(error_text_is_made_utf8),
		cmocka_unit_test(unknown_methods_are_answered),
		cmocka_unit_test(handler_without_open_is_unimplemented),
		cmocka_unit_test(oversized_unary_is_refused),
		cmocka_unit_test(oversized_stream_message_is_no_end),
		cmocka_unit_test(headers_are_found),
		cmocka_unit_test(deadline_ends_both_sides),
		cmocka_unit_test(no_deadline_is_never),
		cmocka_unit_test(client_cancel_reaches_the_server),
		cmocka_unit_test(server_cancel_reaches_the_client),
		cmocka_unit_test(late_posts_are_harmless),
		cmocka_unit_test(held_call_outlives_the_server),
		cmocka_unit_test(status_follows_the_message_in_flight),
		cmocka_unit_test(reply_follows_the_message_in_flight),
		cmocka_unit_test(early_answer_ends_the_upload),
		cmocka_unit_test(out_of_memory_refuses_one_call),
		cmocka_unit_test(timers_ring_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
