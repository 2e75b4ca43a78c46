// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rpc-fixture.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

/* ---- counters ---- */

void counter_add(struct counter *counter)
{
	pthread_mutex_lock(&counter->mu);
	counter->value++;
	pthread_cond_broadcast(&counter->changed);
	pthread_mutex_unlock(&counter->mu);
}

unsigned counter_value(struct counter *counter)
{
	pthread_mutex_lock(&counter->mu);
	unsigned value = counter->value;
	pthread_mutex_unlock(&counter->mu);
	return value;
}

void counter_wait(struct counter *counter, unsigned value)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FIXTURE_WAIT_S;
	int rc = 0;
	pthread_mutex_lock(&counter->mu);
	while (counter->value < value && rc == 0)
		rc = pthread_cond_timedwait(&counter->changed, &counter->mu, &until);
	unsigned reached = counter->value;
	pthread_mutex_unlock(&counter->mu);
	if (reached < value)
		fail_msg("waited for %u events, saw %u", value, reached);
}

/* ---- probes ---- */

static void probe_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct probe *probe = bj_rpc_data(call);
	if (!msg) {
		probe->n_ends++;
		return;
	}
	struct bj_buf text = BJ_BUF_INIT(64 << 20);
	(void)message_text(msg, &text);
	bj_buf_append_str(&probe->received, bj_buf_str(&text));
	bj_buf_append_char(&probe->received, '|');
	bj_buf_deinit(&text);
	counter_add(&probe->messages);
	if (probe->wants)
		bj_rpc_want(call);
}

static void probe_sent(struct bj_rpc_call *call)
{
	struct probe *probe = bj_rpc_data(call);
	counter_add(&probe->sent);
}

static void probe_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct probe *probe = bj_rpc_data(call);
	probe->code = status->code;
	(void)snprintf(probe->text, sizeof(probe->text), "%s",
		       status->message ? status->message : "");
	probe->details_len = status->details_len;
	if (status->details_len && status->details_len <= sizeof(probe->details))
		memcpy(probe->details, status->details, status->details_len);
	counter_add(&probe->closed);
}

const struct bj_rpc_handler probe_handler = {
	.message = probe_message,
	.sent = probe_sent,
	.closed = probe_closed,
};

void probe_init(struct probe *probe)
{
	*probe = (struct probe){
		.messages = COUNTER_INIT,
		.closed = COUNTER_INIT,
		.sent = COUNTER_INIT,
		.received = BJ_BUF_INIT(256 << 20),
		.code = BJ_UNKNOWN,
		.wants = true,
	};
}

void probe_wait(struct probe *probe)
{
	counter_wait(&probe->closed, 1);
	if (probe->call)
		bj_rpc_drop(BJ_STEAL_PTR(probe->call));
}

void probe_deinit(struct probe *probe)
{
	probe_wait(probe);
	bj_buf_deinit(&probe->received);
}

/* ---- the pair ---- */

static void check(int rc, const struct bj_err *err)
{
	if (rc < 0)
		fail_msg("%s", err->msg);
}

void fixture_up(struct fixture *fixture, const struct bj_rpc_server_opts *opts,
		const struct bj_rpc_method *methods, size_t n_methods, const char *addr)
{
	struct bj_err err = BJ_ERR_NULL;
	*fixture = (struct fixture){ .port = -1 };
	bj_rpc_init();
	check(bj_rpc_loop_new(&fixture->server_loop, &err), &err);
	check(bj_rpc_loop_new(&fixture->client_loop, &err), &err);
	check(bj_rpc_server_new(&fixture->server_loop, 1, opts, &fixture->server, &err), &err);
	check(bj_rpc_server_add(fixture->server, methods, n_methods, &err), &err);
	check(bj_rpc_server_listen(fixture->server, addr ? addr : "127.0.0.1:0", &fixture->port,
				   &err),
	      &err);
	check(bj_rpc_loop_start(fixture->server_loop, &err), &err);
	check(bj_rpc_loop_start(fixture->client_loop, &err), &err);
	check(bj_rpc_server_start(fixture->server, &err), &err);
	if (fixture->port > 0)
		(void)snprintf(fixture->target, sizeof(fixture->target), "127.0.0.1:%d",
			       fixture->port);
	else
		(void)snprintf(fixture->target, sizeof(fixture->target), "%s", addr);
	check(bj_rpc_channel_new(fixture->target, 64 << 20, &fixture->channel, &err), &err);
}

void fixture_down(struct fixture *fixture, uint64_t grace_ms)
{
	bj_rpc_server_stop(fixture->server, grace_ms);
	bj_rpc_channel_free(fixture->channel);
	bj_rpc_loop_stop(fixture->client_loop);
	bj_rpc_loop_stop(fixture->server_loop);
	bj_rpc_deinit();
}

void fixture_call(struct fixture *fixture, struct probe *probe, const char *path,
		  enum bj_rpc_kind kind, uint64_t timeout_ms, const char *request)
{
	grpc_slice slice;
	if (request)
		slice = text_slice(request);
	bj_rpc_start(fixture->channel, fixture->client_loop, path, kind, &probe_handler, probe,
		     timeout_ms, request ? &slice : NULL, request ? 1 : 0, &probe->call);
}

/* ---- solos ---- */

void solo_up(struct solo *solo, enum bj_rpc_kind kind, const struct bj_rpc_handler *handler,
	     void *svc)
{
	const struct bj_rpc_method method = { "/t.T/Do", kind, handler, svc };
	const struct bj_rpc_server_opts opts = { .max_recv_bytes = SOLO_RECV_BYTES };
	fixture_up(&solo->fixture, &opts, &method, 1, NULL);
	probe_init(&solo->probe);
}

void solo_call(struct solo *solo, enum bj_rpc_kind kind, const char *request)
{
	fixture_call(&solo->fixture, &solo->probe, "/t.T/Do", kind, 0, request);
}

void solo_expect(struct solo *solo, enum bj_code code, const char *received, const char *text)
{
	probe_wait(&solo->probe);
	assert_int_equal(solo->probe.code, code);
	assert_string_equal(bj_buf_cstr(&solo->probe.received), received);
	assert_string_equal(solo->probe.text, text);
}

void solo_do(struct solo *solo, void (*fn)(struct bj_rpc_call *, void *), const char *text)
{
	assert_true(bj_rpc_post(solo->probe.call, fn, (void *)text));
}

void solo_down(struct solo *solo)
{
	probe_deinit(&solo->probe);
	fixture_down(&solo->fixture, 0);
}

/* ---- scenes ---- */

void scene_open_hold(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	struct scene *scene = bj_rpc_svc(call);
	(void)req;
	bj_rpc_hold(call);
	scene->held = call;
	scene->deadline_ns = bj_rpc_deadline_ns(call);
	counter_add(&scene->opened);
}

void scene_open_want(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	scene_open_hold(call, req);
	bj_rpc_want(call);
}

void scene_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct scene *scene = bj_rpc_svc(call);
	counter_add(msg ? &scene->messages : &scene->ends);
	bj_rpc_want(call);
}

void scene_sent(struct bj_rpc_call *call)
{
	struct scene *scene = bj_rpc_svc(call);
	counter_add(&scene->sent);
}

void scene_cancelled(struct bj_rpc_call *call)
{
	struct scene *scene = bj_rpc_svc(call);
	assert_true(bj_rpc_is_cancelled(call));
	assert_int_equal(counter_value(&scene->closed), 0);
	counter_add(&scene->cancelled);
}

void scene_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct scene *scene = bj_rpc_svc(call);
	scene->code = status->code;
	counter_add(&scene->closed);
}

const struct bj_rpc_handler scene_handler = {
	.open = scene_open_want,
	.message = scene_message,
	.cancelled = scene_cancelled,
	.closed = scene_closed,
};

void scene_post(struct scene *scene, void (*fn)(struct bj_rpc_call *, void *), void *arg)
{
	assert_true(bj_rpc_post(scene->held, fn, arg));
}

void scene_end(struct scene *scene)
{
	counter_wait(&scene->closed, 1);
	bj_rpc_drop(BJ_STEAL_PTR(scene->held));
}

/* ---- messages ---- */

const char *message_text(grpc_byte_buffer *msg, struct bj_buf *buf)
{
	grpc_byte_buffer_reader reader;
	grpc_slice *slice;
	assert_true(grpc_byte_buffer_reader_init(&reader, msg));
	while (grpc_byte_buffer_reader_peek(&reader, &slice))
		bj_buf_append(buf, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
	grpc_byte_buffer_reader_destroy(&reader);
	return bj_buf_cstr(buf);
}

grpc_slice text_slice(const char *text)
{
	return grpc_slice_from_copied_string(text);
}

char *letters(size_t n_bytes)
{
	char *text = bj_malloc(n_bytes + 1);
	assert_non_null(text);
	memset(text, 'x', n_bytes);
	text[n_bytes] = '\0';
	return text;
}

bool send_text(struct bj_rpc_call *call, const char *text)
{
	grpc_slice slice = text_slice(text);
	return bj_rpc_send(call, &slice, 1);
}

void reply_text(struct bj_rpc_call *call, const char *text)
{
	grpc_slice slice = text_slice(text);
	bj_rpc_reply(call, &slice, 1, NULL);
}

void send_then_half_close(struct bj_rpc_call *call, void *text)
{
	assert_true(send_text(call, text));
	assert_false(bj_rpc_writable(call));
	assert_false(send_text(call, "refused, and its slices are freed"));
	bj_rpc_half_close(call); /* follows the message */
	bj_rpc_half_close(call); /* a second one is nothing */
	assert_false(send_text(call, "refused too"));
}
