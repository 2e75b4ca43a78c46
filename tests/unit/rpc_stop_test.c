// SPDX-License-Identifier: Apache-2.0
/* Stopping a server: at once, with grace, when the grace is over, and when somebody hurries. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/rpc-fixture.h"

#define LONG_MS (UINT64_C(3600) * 1000)

struct stage {
	struct fixture fixture;
	struct scene scene;
	struct probe probe;
};

/* A server with one call that is open on both sides. */
static void stage_up(struct stage *stage)
{
	stage->scene = (struct scene)SCENE_INIT;
	const struct bj_rpc_method method = { "/t.T/Do", BJ_RPC_BIDI, &scene_handler,
					      &stage->scene };
	fixture_up(&stage->fixture, NULL, &method, 1, NULL);
	probe_init(&stage->probe);
	fixture_call(&stage->fixture, &stage->probe, "/t.T/Do", BJ_RPC_BIDI, 0, NULL);
	counter_wait(&stage->scene.opened, 1);
}

static void stage_down(struct stage *stage)
{
	probe_deinit(&stage->probe);
	fixture_down(&stage->fixture, 0);
}

struct stopper {
	struct bj_rpc_server *server;
	uint64_t grace_ms;
	struct counter stopped;
	pthread_t thread;
};

static void *stopper_main(void *arg)
{
	struct stopper *stopper = arg;
	bj_rpc_server_stop(stopper->server, stopper->grace_ms);
	counter_add(&stopper->stopped);
	return NULL;
}

static void stopper_start(struct stopper *stopper, struct stage *stage, uint64_t grace_ms)
{
	*stopper = (struct stopper){ .server = BJ_STEAL_PTR(stage->fixture.server),
				     .grace_ms = grace_ms,
				     .stopped = COUNTER_INIT };
	assert_int_equal(pthread_create(&stopper->thread, NULL, stopper_main, stopper), 0);
}

static void stopper_join(struct stopper *stopper)
{
	counter_wait(&stopper->stopped, 1);
	pthread_join(stopper->thread, NULL);
}

static void post_finish(struct bj_rpc_call *call, void *arg)
{
	(void)arg;
	bj_rpc_finish(call, NULL);
}

/*
 * Until a call of its own is refused: the server has begun to stop. Core says CANCELLED to a call that crosses its GOAWAY,
 * and forgets one that comes in the very moment of the shutdown; that one has its deadline.
 */
static void wait_for_refusal(struct stage *stage)
{
	enum bj_code code = BJ_UNIMPLEMENTED;
	while (code == BJ_UNIMPLEMENTED) {
		struct probe probe;
		probe_init(&probe);
		fixture_call(&stage->fixture, &probe, "/t.T/Other", BJ_RPC_UNARY, 500, "");
		probe_wait(&probe);
		code = probe.code;
		probe_deinit(&probe);
	}
	assert_true(code == BJ_UNAVAILABLE || code == BJ_CANCELLED || code == BJ_DEADLINE_EXCEEDED);
}

static void idle_server_stops_at_once(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage);
	scene_post(&stage.scene, post_finish, NULL);
	probe_wait(&stage.probe);
	assert_int_equal(stage.probe.code, BJ_OK);
	scene_end(&stage.scene);
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), LONG_MS); /* hangs if it waits */
	stage_down(&stage);
}

static void running_call_ends_within_the_grace(void **state)
{
	(void)state;
	struct stage stage;
	struct stopper stopper;
	stage_up(&stage);
	stopper_start(&stopper, &stage, LONG_MS);
	wait_for_refusal(&stage);
	assert_int_equal(counter_value(&stage.scene.cancelled), 0);
	assert_int_equal(counter_value(&stopper.stopped), 0);
	scene_post(&stage.scene, post_finish, NULL);
	probe_wait(&stage.probe);
	assert_int_equal(stage.probe.code, BJ_OK);
	stopper_join(&stopper);
	assert_int_equal(counter_value(&stage.scene.cancelled), 0);
	scene_end(&stage.scene);
	stage_down(&stage);
}

static void call_is_cancelled_after_the_grace(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage);
	uint64_t before_ns = bj_now_ns();
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), 150);
	assert_true(bj_now_ns() - before_ns >= 150 * BJ_NS_PER_MS);
	assert_int_equal(counter_value(&stage.scene.cancelled), 1);
	assert_int_equal(counter_value(&stage.scene.closed), 1); /* before stop() returned */
	probe_wait(&stage.probe);
	assert_int_equal(stage.probe.code, BJ_UNAVAILABLE);
	scene_end(&stage.scene);
	stage_down(&stage);
}

static void no_grace_cancels_at_once(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage);
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), 0);
	assert_int_equal(counter_value(&stage.scene.cancelled), 1);
	assert_int_equal(counter_value(&stage.scene.closed), 1);
	scene_end(&stage.scene);
	stage_down(&stage);
}

static void hurry_ends_the_grace(void **state)
{
	(void)state;
	struct stage stage;
	struct stopper stopper;
	stage_up(&stage);
	stopper_start(&stopper, &stage, LONG_MS);
	wait_for_refusal(&stage);
	bj_rpc_server_hurry(stopper.server);
	stopper_join(&stopper);
	assert_int_equal(counter_value(&stage.scene.cancelled), 1);
	scene_end(&stage.scene);
	stage_down(&stage);
}

static void hurry_beforehand_counts(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage);
	bj_rpc_server_hurry(stage.fixture.server);
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), LONG_MS);
	assert_int_equal(counter_value(&stage.scene.cancelled), 1);
	scene_end(&stage.scene);
	stage_down(&stage);
}

/* A peer that connects and says nothing at all. */
static void silent_peer_does_not_hold_up(void **state)
{
	(void)state;
	struct stage stage;
	stage_up(&stage);
	bj_cleanup(bj_close_fdp) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)stage.fixture.port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	char settings[9];
	assert_int_equal(recv(fd, settings, sizeof(settings), MSG_WAITALL), sizeof(settings));
	scene_post(&stage.scene, post_finish, NULL);
	scene_end(&stage.scene);
	/* Core would wait 20 s for the answer to a ping. */
	uint64_t before_ns = bj_now_ns();
	bj_rpc_server_stop(BJ_STEAL_PTR(stage.fixture.server), LONG_MS);
	assert_true(bj_now_ns() - before_ns < 15 * BJ_NS_PER_SEC);
	stage_down(&stage);
}

static void server_that_never_started_is_freed(void **state)
{
	(void)state;
	struct bj_rpc_loop *loop;
	struct bj_rpc_server *server;
	struct bj_err err = BJ_ERR_NULL;
	int port = 0;
	bj_rpc_init();
	assert_int_equal(bj_rpc_loop_new(&loop, &err), 0);
	assert_int_equal(bj_rpc_server_new(&loop, 1, NULL, &server, &err), 0);
	assert_int_equal(bj_rpc_server_listen(server, "127.0.0.1:0", &port, &err), 0);
	bj_rpc_server_stop(server, LONG_MS);
	bj_rpc_server_stop(NULL, 0);
	bj_rpc_loop_stop(loop);
	bj_rpc_loop_stop(NULL);
	bj_rpc_deinit();
}

static void method_twice_is_refused(void **state)
{
	(void)state;
	static const struct bj_rpc_method methods[] = {
		{ "/t.T/Do", BJ_RPC_BIDI, &scene_handler, NULL },
		{ "/t.T/Do", BJ_RPC_UNARY, &scene_handler, NULL },
	};
	struct bj_rpc_loop *loop;
	struct bj_rpc_server *server;
	struct bj_err err = BJ_ERR_NULL;
	bj_rpc_init();
	assert_int_equal(bj_rpc_loop_new(&loop, &err), 0);
	assert_int_equal(bj_rpc_server_new(&loop, 1, NULL, &server, &err), 0);
	assert_int_equal(bj_rpc_server_add(server, methods, 2, &err), -BJ_ALREADY_EXISTS);
	bj_rpc_server_stop(server, 0);
	bj_rpc_loop_stop(loop);
	bj_rpc_deinit();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_server_stops_at_once),
		cmocka_unit_test(running_call_ends_within_the_grace),
		cmocka_unit_test(call_is_cancelled_after_the_grace),
		cmocka_unit_test(no_grace_cancels_at_once),
		cmocka_unit_test(hurry_ends_the_grace),
		cmocka_unit_test(hurry_beforehand_counts),
		cmocka_unit_test(silent_peer_does_not_hold_up),
		cmocka_unit_test(server_that_never_started_is_freed),
		cmocka_unit_test(method_twice_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
