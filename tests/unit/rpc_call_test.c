// SPDX-License-Identifier: Apache-2.0
/* The four kinds of call, headers and timers. */
#include <stdio.h>

#include "tests/unit/rpc-fixture.h"

#include "pb_test.pb-c.h"

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
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &reverse, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "abc");
	solo_expect(&solo, BJ_OK, "cba|", "");
	solo_down(&solo);
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

static int call_leaf(struct solo *solo, const Bj__Test__Leaf *req, struct bj_arena *arena,
		     ProtobufCMessage **out_reply, struct bj_err *err)
{
	return bj_rpc_unary(solo->fixture.channel, solo->fixture.client_loop, "/t.T/Do", &req->base,
			    &bj__test__leaf__descriptor, 0, arena, out_reply, err);
}

static void blocking_unary_gives_the_message(void **state)
{
	(void)state;
	struct solo solo;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *reply = NULL;
	Bj__Test__Leaf req = BJ__TEST__LEAF__INIT;
	bj_arena_init(&arena, 0);
	solo_up(&solo, BJ_RPC_UNARY, &leaf_handler, NULL);

	/* Large enough to arrive in several slices. */
	bj_cleanup(bj_freep) char *text = letters(SOLO_RECV_BYTES - 100);
	req.text = text;
	req.number = 21;
	assert_int_equal(call_leaf(&solo, &req, &arena, &reply, &err), 0);
	assert_int_equal(((Bj__Test__Leaf *)reply)->number, 42);
	assert_string_equal(((Bj__Test__Leaf *)reply)->text, text);

	/* The default message: nothing on the wire. */
	const Bj__Test__Leaf empty = BJ__TEST__LEAF__INIT;
	assert_int_equal(call_leaf(&solo, &empty, &arena, &reply, &err), 0);
	assert_int_equal(((Bj__Test__Leaf *)reply)->number, 0);

	probe_init(&solo.probe);
	counter_add(&solo.probe.closed); /* no call of its own to wait for */
	bj_arena_deinit(&arena);
	solo_down(&solo);
}

static void blocking_unary_gives_the_error(void **state)
{
	(void)state;
	struct solo solo;
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *reply = NULL;
	Bj__Test__Leaf req = BJ__TEST__LEAF__INIT;
	bj_arena_init(&arena, 0);
	solo_up(&solo, BJ_RPC_UNARY, &leaf_handler, NULL);

	req.number = -7;
	assert_int_equal(call_leaf(&solo, &req, &arena, &reply, &err), -BJ_NOT_FOUND);
	assert_string_equal(err.msg, "no number -7");
	bj_err_clear(&err);

	req.text = (char *)"\xff";
	assert_int_equal(call_leaf(&solo, &req, &arena, &reply, &err), -BJ_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "bj.test.Leaf.text is not valid UTF-8");
	assert_null(reply);

	counter_add(&solo.probe.closed);
	bj_arena_deinit(&arena);
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_SERVER_STREAM, &counting, NULL);
	solo_call(&solo, BJ_RPC_SERVER_STREAM, "5");
	solo_expect(&solo, BJ_OK, "1|2|3|4|5|", "");
	assert_int_equal(solo.probe.n_ends, 1);
	solo_down(&solo);
}

static void server_stream_may_be_empty(void **state)
{
	(void)state;
	struct solo solo;
	solo_up(&solo, BJ_RPC_SERVER_STREAM, &counting, NULL);
	solo_call(&solo, BJ_RPC_SERVER_STREAM, "0");
	solo_expect(&solo, BJ_OK, "", "");
	solo_down(&solo);
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

static void client_stream_is_joined(void **state)
{
	(void)state;
	struct solo solo;
	solo_up(&solo, BJ_RPC_CLIENT_STREAM, &joining, NULL);
	solo_call(&solo, BJ_RPC_CLIENT_STREAM, "a");
	counter_wait(&solo.probe.sent, 1);
	solo_do(&solo, post_send, "b");
	counter_wait(&solo.probe.sent, 2);
	solo_do(&solo, post_send, "");
	counter_wait(&solo.probe.sent, 3);
	solo_do(&solo, post_half_close, NULL);
	solo_expect(&solo, BJ_OK, "a+b++|", "");
	solo_down(&solo);
}

static void half_close_waits_for_the_message(void **state)
{
	(void)state;
	struct solo solo;
	solo_up(&solo, BJ_RPC_CLIENT_STREAM, &joining, NULL);
	solo_call(&solo, BJ_RPC_CLIENT_STREAM, NULL);
	counter_wait(&solo.probe.sent, 1);
	solo_do(&solo, send_then_half_close, "last");
	solo_expect(&solo, BJ_OK, "last+|", "");
	assert_int_equal(counter_value(&solo.probe.sent), 1);
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &echoing, NULL);
	solo_call(&solo, BJ_RPC_BIDI, NULL);
	counter_wait(&solo.probe.sent, 1);
	solo_do(&solo, post_send, "one");
	counter_wait(&solo.probe.messages, 1);
	counter_wait(&solo.probe.sent, 2);
	solo_do(&solo, post_send, "two");
	counter_wait(&solo.probe.messages, 2);
	solo_do(&solo, post_half_close, NULL);
	solo_expect(&solo, BJ_OK, "one|two|", "");
	solo_down(&solo);
}

/* ---- headers ---- */

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
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &handler, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "");
	solo_expect(&solo, BJ_OK, "seen|", "");
	solo_down(&solo);
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
	struct solo solo;
	struct rung ladder[200];
	unsigned last = 0;
	for (unsigned i = 0; i < 200; i++)
		ladder[i] = (struct rung){ &scene, i + 1, &last };
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	scene_post(&scene, arm_ladder, ladder);
	counter_wait(&scene.posted, 200);
	bj_rpc_cancel(solo.probe.call);
	scene_end(&scene);
	solo_down(&solo); /* two timers are pending and dropped */
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
		cmocka_unit_test(headers_are_found),
		cmocka_unit_test(timers_ring_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
