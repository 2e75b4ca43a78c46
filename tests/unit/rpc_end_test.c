// SPDX-License-Identifier: Apache-2.0
/* Every way in which a call ends: statuses, limits, deadlines, cancellation and last words. */
#include "tests/unit/rpc-fixture.h"

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
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &detailing, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "5000");
	solo_expect(&solo, BJ_FAILED_PRECONDITION, "",
		    "100 % gr\xc3\xbc"
		    "n\n");
	assert_int_equal(solo.probe.details_len, 5000);
	for (size_t i = 0; i < 5000; i++)
		assert_int_equal(solo.probe.details[i], (char)i);
	solo_down(&solo);
}

static void too_large_details_do_not_cost_the_status(void **state)
{
	(void)state;
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &detailing, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "6000"); /* 8000 in base64 */
	solo_expect(&solo, BJ_FAILED_PRECONDITION, "",
		    "100 % gr\xc3\xbc"
		    "n\n");
	assert_int_equal(solo.probe.details_len, 0);
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &handler, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "");
	solo_expect(&solo, BJ_DATA_LOSS, "", "file \"a\\xff\"");
	solo_down(&solo);
}

static void unknown_methods_are_answered(void **state)
{
	(void)state;
	static const enum bj_rpc_kind kinds[] = { BJ_RPC_UNARY, BJ_RPC_SERVER_STREAM,
						  BJ_RPC_CLIENT_STREAM, BJ_RPC_BIDI };
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &reverse, NULL);
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		struct probe probe;
		probe_init(&probe);
		fixture_call(&solo.fixture, &probe, "/t.T/Nothing", kinds[i], 0, "abc");
		probe_wait(&probe);
		assert_int_equal(probe.code, BJ_UNIMPLEMENTED);
		probe_deinit(&probe);
	}
	solo_call(&solo, BJ_RPC_UNARY, "still up");
	solo_expect(&solo, BJ_OK, "pu llits|", "");
	solo_down(&solo);
}

static void handler_without_open_is_unimplemented(void **state)
{
	(void)state;
	static const struct bj_rpc_handler nothing;
	struct solo solo;
	solo_up(&solo, BJ_RPC_UNARY, &nothing, NULL);
	solo_call(&solo, BJ_RPC_UNARY, "abc");
	solo_expect(&solo, BJ_UNIMPLEMENTED, "", "not implemented");
	solo_down(&solo);
}

/* ---- size ---- */

static void oversized_unary_is_refused(void **state)
{
	(void)state;
	struct solo solo;
	struct probe probe;
	bj_cleanup(bj_freep) char *fits = letters(SOLO_RECV_BYTES);
	bj_cleanup(bj_freep) char *large = letters(SOLO_RECV_BYTES + 1);
	solo_up(&solo, BJ_RPC_UNARY, &reverse, NULL);
	probe_init(&probe);
	fixture_call(&solo.fixture, &probe, "/t.T/Do", BJ_RPC_UNARY, 0, large);
	probe_wait(&probe);
	assert_int_equal(probe.code, BJ_RESOURCE_EXHAUSTED);
	probe_deinit(&probe);

	solo_call(&solo, BJ_RPC_UNARY, fits);
	probe_wait(&solo.probe);
	assert_int_equal(solo.probe.code, BJ_OK);
	assert_int_equal(solo.probe.received.len, SOLO_RECV_BYTES + 1);
	solo_down(&solo);
}

static void oversized_stream_message_is_no_end(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	bj_cleanup(bj_freep) char *large = letters(SOLO_RECV_BYTES + 1);
	solo_up(&solo, BJ_RPC_CLIENT_STREAM, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_CLIENT_STREAM, "small");
	counter_wait(&scene.messages, 1);
	counter_wait(&solo.probe.sent, 1);
	solo_do(&solo, send_then_half_close, large);
	solo_expect(&solo, BJ_RESOURCE_EXHAUSTED, "", solo.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.messages), 1);
	assert_int_equal(counter_value(&scene.ends), 0); /* a cut upload must not look complete */
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(scene.code, BJ_CANCELLED);
	solo_down(&solo);
}

/* ---- deadlines ---- */

enum { DEADLINE_MS = 400 };

static void deadline_ends_both_sides(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	struct probe first; /* connects, which may take a while */
	probe_init(&first);
	fixture_call(&solo.fixture, &first, "/t.T/Nothing", BJ_RPC_UNARY, 0, "");
	probe_deinit(&first);
	uint64_t before_ns = bj_now_ns();
	fixture_call(&solo.fixture, &solo.probe, "/t.T/Do", BJ_RPC_BIDI, DEADLINE_MS, NULL);
	probe_wait(&solo.probe);
	uint64_t after_ns = bj_now_ns();
	assert_int_equal(solo.probe.code, BJ_DEADLINE_EXCEEDED);
	assert_true(after_ns - before_ns >= DEADLINE_MS * BJ_NS_PER_MS);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(scene.code, BJ_CANCELLED);
	/* The wire carries the time that is left, rounded up; the way adds to it. */
	assert_true(scene.deadline_ns >= before_ns + DEADLINE_MS * BJ_NS_PER_MS);
	assert_true(scene.deadline_ns < after_ns + DEADLINE_MS * BJ_NS_PER_MS);
	solo_down(&solo);
}

static void no_deadline_is_never(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	assert_true(scene.deadline_ns == BJ_NEVER_NS);
	bj_rpc_cancel(solo.probe.call);
	solo_expect(&solo, BJ_CANCELLED, "", solo.probe.text);
	scene_end(&scene);
	solo_down(&solo);
}

/* ---- cancellation ---- */

static void client_cancel_reaches_the_server(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, "hello");
	counter_wait(&scene.messages, 1);
	bj_rpc_cancel(solo.probe.call);
	solo_expect(&solo, BJ_CANCELLED, "", solo.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	assert_int_equal(counter_value(&scene.ends), 0);
	assert_int_equal(scene.code, BJ_CANCELLED);
	solo_down(&solo);
}

static void server_cancel_reaches_the_client(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, "hello");
	counter_wait(&scene.messages, 1);
	bj_rpc_cancel(scene.held);
	solo_expect(&solo, BJ_CANCELLED, "", solo.probe.text);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.cancelled), 1);
	solo_down(&solo);
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
	/* Wants nothing, so that a late want would be the first. */
	static const struct bj_rpc_handler handler = { .open = scene_open_hold,
						       .message = scene_message,
						       .cancelled = scene_cancelled,
						       .closed = scene_closed };
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	bj_rpc_cancel(solo.probe.call);
	counter_wait(&scene.cancelled, 1);
	scene_post(&scene, late_work, &scene); /* perhaps before closed(), perhaps after it */
	counter_wait(&scene.closed, 1);
	scene_post(&scene, late_work, &scene);
	counter_wait(&scene.posted, 2);
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.closed), 1);
	assert_int_equal(counter_value(&scene.messages) + counter_value(&scene.ends), 0);
	solo_down(&solo);
}

/* A hold outlives the server. */
static void held_call_outlives_the_server(void **state)
{
	(void)state;
	struct scene scene = SCENE_INIT;
	struct solo solo;
	solo_up(&solo, BJ_RPC_BIDI, &scene_handler, &scene);
	solo_call(&solo, BJ_RPC_BIDI, NULL);
	counter_wait(&scene.opened, 1);
	bj_rpc_server_stop(BJ_STEAL_PTR(solo.fixture.server), 0);
	assert_int_equal(counter_value(&scene.closed), 1); /* before stop() returned */
	scene_post(&scene, late_work, &scene);
	counter_wait(&scene.posted, 1);
	scene_end(&scene);
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_SERVER_STREAM, &handler, NULL);
	solo_call(&solo, BJ_RPC_SERVER_STREAM, "");
	solo_expect(&solo, BJ_ABORTED, "part|", "lost the rest");
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_SERVER_STREAM, &handler, NULL);
	solo_call(&solo, BJ_RPC_SERVER_STREAM, "");
	solo_expect(&solo, BJ_OK, "first|second|", "");
	solo_down(&solo);
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
	struct solo solo;
	solo_up(&solo, BJ_RPC_CLIENT_STREAM, &handler, &scene);
	solo_call(&solo, BJ_RPC_CLIENT_STREAM, "part");
	solo_expect(&solo, BJ_OK, "enough|", "");
	scene_end(&scene);
	assert_int_equal(counter_value(&scene.messages), 1);
	solo_down(&solo);
}

static void out_of_memory_refuses_one_call(void **state)
{
	(void)state;
	struct solo solo;
	struct probe probe;
	solo_up(&solo, BJ_RPC_UNARY, &reverse, NULL);
	probe_init(&probe);
	bj_alloc_fail_after(1); /* the client's call is the first; the next is the server's */
	fixture_call(&solo.fixture, &probe, "/t.T/Do", BJ_RPC_UNARY, 0, "abc");
	probe_wait(&probe);
	assert_true(bj_alloc_fail_disarm());
	assert_int_not_equal(probe.code, BJ_OK);
	probe_deinit(&probe);
	solo_call(&solo, BJ_RPC_UNARY, "abc");
	solo_expect(&solo, BJ_OK, "cba|", "");
	solo_down(&solo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(status_brings_text_and_details),
		cmocka_unit_test(too_large_details_do_not_cost_the_status),
		cmocka_unit_test(error_text_is_made_utf8),
		cmocka_unit_test(unknown_methods_are_answered),
		cmocka_unit_test(handler_without_open_is_unimplemented),
		cmocka_unit_test(oversized_unary_is_refused),
		cmocka_unit_test(oversized_stream_message_is_no_end),
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
