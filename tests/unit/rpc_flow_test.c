// SPDX-License-Identifier: Apache-2.0
/*
 * Back-pressure: a side that does not ask for messages stops the other, and what waits in between is bounded. "Stopped"
 * is seen without sleeping: many unary calls go to and fro on the same connection, and nothing more was sent meanwhile.
 */
#include <stdatomic.h>

#include <grpc/slice.h>

#include "tests/unit/rpc-fixture.h"

enum {
	PIECE_BYTES = 256 << 10,
	N_PIECES = 400, /* 100 MiB: far more than windows and socket buffers hold */
	BOUND_BYTES = 24 << 20,
	QUIET_ROUNDS = 30,
};

/* Slices that core holds. */
static atomic_uint n_alive, n_most;

static void piece_free(void *piece)
{
	bj_free(piece);
	atomic_fetch_sub(&n_alive, 1);
}

static grpc_slice piece_new(void)
{
	unsigned alive = atomic_fetch_add(&n_alive, 1) + 1;
	if (alive > atomic_load(&n_most))
		atomic_store(&n_most, alive);
	void *piece = bj_calloc(1, PIECE_BYTES);
	return grpc_slice_new_with_user_data(piece, PIECE_BYTES, piece_free, piece);
}

struct sender {
	unsigned n_sent; /* loop thread only */
	struct counter taken;
};

/* True while there is more. */
static bool send_piece(struct bj_rpc_call *call, struct sender *sender)
{
	if (sender->n_sent == N_PIECES)
		return false;
	grpc_slice piece = piece_new();
	sender->n_sent++;
	assert_true(bj_rpc_send(call, &piece, 1));
	return true;
}

/* ---- the connection still answers ---- */

static void ping_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	reply_text(call, "pong");
}
static const struct bj_rpc_handler pinging = { .open = ping_open };

static void ping(struct fixture *fixture)
{
	struct probe probe;
	probe_init(&probe);
	fixture_call(fixture, &probe, "/t.T/Ping", BJ_RPC_UNARY, 0, "");
	probe_wait(&probe);
	assert_int_equal(probe.code, BJ_OK);
	probe_deinit(&probe);
}

static void wait_until_stopped(struct fixture *fixture, struct sender *sender)
{
	unsigned quiet = 0, last = 0;
	while (quiet < QUIET_ROUNDS) {
		ping(fixture);
		unsigned now = counter_value(&sender->taken);
		quiet = now == last ? quiet + 1 : 0;
		last = now;
	}
	assert_true(last < N_PIECES);
	assert_true((uint64_t)atomic_load(&n_most) * PIECE_BYTES < BOUND_BYTES);
}

/* ---- a server that sends ---- */

static void pour_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	bj_rpc_set_data(call, bj_rpc_svc(call));
	(void)send_piece(call, bj_rpc_data(call));
}

static void pour_sent(struct bj_rpc_call *call)
{
	struct sender *sender = bj_rpc_data(call);
	counter_add(&sender->taken);
	if (!send_piece(call, sender))
		bj_rpc_finish(call, NULL);
}

static const struct bj_rpc_handler pouring = { .open = pour_open, .sent = pour_sent };

static void fixture_flow(struct fixture *fixture, enum bj_rpc_kind kind,
			 const struct bj_rpc_handler *handler, void *svc)
{
	const struct bj_rpc_method methods[] = {
		{ "/t.T/Flow", kind, handler, svc },
		{ "/t.T/Ping", BJ_RPC_UNARY, &pinging, NULL },
	};
	atomic_store(&n_alive, 0);
	atomic_store(&n_most, 0);
	fixture_up(fixture, NULL, methods, 2, NULL);
}

static void post_want_all(struct bj_rpc_call *call, void *arg)
{
	struct probe *probe = arg;
	probe->wants = true;
	bj_rpc_want(call);
}

static void client_that_does_not_read_stops_the_server(void **state)
{
	(void)state;
	struct sender sender = { 0, COUNTER_INIT };
	struct fixture fixture;
	struct probe probe;
	fixture_flow(&fixture, BJ_RPC_SERVER_STREAM, &pouring, &sender);
	probe_init(&probe);
	probe.wants = false; /* but for the one that every call begins with */
	fixture_call(&fixture, &probe, "/t.T/Flow", BJ_RPC_SERVER_STREAM, 0, "");
	counter_wait(&probe.messages, 1);
	wait_until_stopped(&fixture, &sender);
	assert_int_equal(counter_value(&probe.messages), 1);

	assert_true(bj_rpc_post(probe.call, post_want_all, &probe));
	probe_wait(&probe);
	assert_int_equal(probe.code, BJ_OK);
	assert_int_equal(counter_value(&probe.messages), N_PIECES);
	probe_deinit(&probe);
	fixture_down(&fixture, 0);
	assert_int_equal(atomic_load(&n_alive), 0);
}

static void stopping_does_not_wait_for_such_a_client(void **state)
{
	(void)state;
	struct sender sender = { 0, COUNTER_INIT };
	struct fixture fixture;
	struct probe probe;
	fixture_flow(&fixture, BJ_RPC_SERVER_STREAM, &pouring, &sender);
	probe_init(&probe);
	probe.wants = false;
	fixture_call(&fixture, &probe, "/t.T/Flow", BJ_RPC_SERVER_STREAM, 0, "");
	counter_wait(&probe.messages, 1);
	wait_until_stopped(&fixture, &sender);
	bj_rpc_server_stop(BJ_STEAL_PTR(fixture.server), 0);
	bj_rpc_cancel(probe.call); /* the client has messages that it never wanted */
	probe_deinit(&probe);
	fixture_down(&fixture, 0);
	assert_int_equal(atomic_load(&n_alive), 0);
}

/* ---- a client that sends ---- */

static void upload_sent(struct bj_rpc_call *call)
{
	struct sender *sender = bj_rpc_data(call);
	counter_add(&sender->taken);
	if (!send_piece(call, sender))
		bj_rpc_half_close(call);
}

struct upload {
	struct sender sender;
	struct counter closed;
	enum bj_code code;
};

static void upload_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct upload *upload = BJ_CONTAINER_OF(bj_rpc_data(call), struct upload, sender);
	upload->code = status->code;
	counter_add(&upload->closed);
}

static const struct bj_rpc_handler uploading = { .sent = upload_sent, .closed = upload_closed };

static void drain_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	scene_message(call, msg);
	if (!msg)
		reply_text(call, "got all");
}

static const struct bj_rpc_handler draining = {
	.open = scene_open_hold, /* wants nothing */
	.message = drain_message,
	.closed = scene_closed,
};

static void post_want(struct bj_rpc_call *call, void *arg)
{
	(void)arg;
	bj_rpc_want(call);
}

static void server_that_does_not_read_stops_the_client(void **state)
{
	(void)state;
	struct upload upload = { .sender = { 0, COUNTER_INIT }, .closed = COUNTER_INIT };
	struct scene scene = SCENE_INIT;
	struct fixture fixture;
	fixture_flow(&fixture, BJ_RPC_CLIENT_STREAM, &draining, &scene);
	bj_rpc_start(fixture.channel, fixture.client_loop, "/t.T/Flow", BJ_RPC_CLIENT_STREAM,
		     &uploading, &upload.sender, 0, NULL, 0, NULL);
	counter_wait(&scene.opened, 1);
	wait_until_stopped(&fixture, &upload.sender);
	assert_int_equal(counter_value(&scene.messages), 0);

	scene_post(&scene, post_want, NULL);
	counter_wait(&upload.closed, 1);
	assert_int_equal(upload.code, BJ_OK);
	assert_int_equal(counter_value(&scene.messages), N_PIECES);
	scene_end(&scene);
	fixture_down(&fixture, 0);
	assert_int_equal(atomic_load(&n_alive), 0);
}

/* The client goes away while the server's message waits: the slice is given back. */
static void cancel_frees_what_waits(void **state)
{
	(void)state;
	struct sender sender = { 0, COUNTER_INIT };
	struct fixture fixture;
	struct probe probe;
	fixture_flow(&fixture, BJ_RPC_SERVER_STREAM, &pouring, &sender);
	probe_init(&probe);
	probe.wants = false;
	fixture_call(&fixture, &probe, "/t.T/Flow", BJ_RPC_SERVER_STREAM, 0, "");
	counter_wait(&probe.messages, 1);
	wait_until_stopped(&fixture, &sender);
	bj_rpc_cancel(probe.call);
	probe_wait(&probe);
	assert_int_equal(probe.code, BJ_CANCELLED);
	ping(&fixture); /* the connection goes on */
	probe_deinit(&probe);
	fixture_down(&fixture, 0);
	assert_int_equal(atomic_load(&n_alive), 0);
}

/* ---- last words while the message before them waits ---- */

/* A server that sends without end, held, and its client that does not read. */
struct stuck {
	struct fixture fixture;
	struct scene scene;
	struct sender sender;
	struct probe probe;
};

static void stuck_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct stuck *stuck = BJ_CONTAINER_OF(bj_rpc_svc(call), struct stuck, scene);
	scene_open_hold(call, req);
	bj_rpc_set_data(call, &stuck->sender);
	(void)send_piece(call, &stuck->sender);
}

static void stuck_sent(struct bj_rpc_call *call)
{
	struct sender *sender = bj_rpc_data(call);
	counter_add(&sender->taken);
	assert_true(send_piece(call, sender));
}

static const struct bj_rpc_handler sticking = {
	.open = stuck_open,
	.sent = stuck_sent,
	.cancelled = scene_cancelled,
	.closed = scene_closed,
};

static void stuck_up(struct stuck *stuck)
{
	stuck->scene = (struct scene)SCENE_INIT;
	stuck->sender = (struct sender){ 0, COUNTER_INIT };
	fixture_flow(&stuck->fixture, BJ_RPC_SERVER_STREAM, &sticking, &stuck->scene);
	probe_init(&stuck->probe);
	stuck->probe.wants = false;
	fixture_call(&stuck->fixture, &stuck->probe, "/t.T/Flow", BJ_RPC_SERVER_STREAM, 0, "");
	counter_wait(&stuck->probe.messages, 1);
	wait_until_stopped(&stuck->fixture, &stuck->sender);
}

static void stuck_down(struct stuck *stuck)
{
	scene_end(&stuck->scene);
	probe_deinit(&stuck->probe);
	fixture_down(&stuck->fixture, 0);
	assert_int_equal(atomic_load(&n_alive), 0);
}

static void post_last_word(struct bj_rpc_call *call, void *arg)
{
	struct scene *scene = arg;
	grpc_slice slice = text_slice("last");
	assert_false(bj_rpc_writable(call));
	bj_rpc_reply(call, &slice, 1, &(struct bj_rpc_status){ .code = BJ_ABORTED });
	counter_add(&scene->posted);
}

static void last_word_follows_a_message_that_waits(void **state)
{
	(void)state;
	static struct stuck stuck; /* its probe is large */
	stuck_up(&stuck);
	scene_post(&stuck.scene, post_last_word, &stuck.scene);
	counter_wait(&stuck.scene.posted, 1);
	assert_true(bj_rpc_post(stuck.probe.call, post_want_all, &stuck.probe));
	probe_wait(&stuck.probe);
	assert_int_equal(stuck.probe.code, BJ_ABORTED);
	struct bj_str received = bj_buf_str(&stuck.probe.received);
	assert_int_equal(received.len, stuck.sender.n_sent * (PIECE_BYTES + 1u) + 5);
	assert_true(bj_str_has_suffix(received, BJ_STR_LIT("|last|")));
	stuck_down(&stuck);
}

static void cancel_drops_a_last_word_that_waits(void **state)
{
	(void)state;
	static struct stuck stuck;
	stuck_up(&stuck);
	scene_post(&stuck.scene, post_last_word, &stuck.scene);
	counter_wait(&stuck.scene.posted, 1);
	bj_rpc_cancel(stuck.probe.call);
	counter_wait(&stuck.scene.closed, 1);
	assert_int_equal(stuck.scene.code, BJ_CANCELLED);
	assert_int_equal(counter_value(&stuck.scene.cancelled),
			 0); /* it had said all it had to say */
	stuck_down(&stuck);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_that_does_not_read_stops_the_server),
		cmocka_unit_test(stopping_does_not_wait_for_such_a_client),
		cmocka_unit_test(server_that_does_not_read_stops_the_client),
		cmocka_unit_test(cancel_frees_what_waits),
		cmocka_unit_test(last_word_follows_a_message_that_waits),
		cmocka_unit_test(cancel_drops_a_last_word_that_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
