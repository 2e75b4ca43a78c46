// SPDX-License-Identifier: Apache-2.0
/*
 * The server that tests/rpc/run talks to with another implementation: executor/rpc with a few methods over raw bytes.
 *
 *	rpc_peer ADDRESS...
 *
 * Prints "port N" for each address and "ready"; then one line per event that the test waits for. Ends when stdin does.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include "executor/base/alloc.h"
#include "executor/rpc/rpc.h"

static void say(const char *line)
{
	(void)puts(line);
	(void)fflush(stdout);
}

/* The message as one slice. */
static grpc_slice flat(grpc_byte_buffer *msg)
{
	grpc_byte_buffer_reader reader;
	if (!grpc_byte_buffer_reader_init(&reader, msg))
		return grpc_empty_slice();
	grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	return slice;
}

static void cancelled(struct bj_rpc_call *call)
{
	(void)call;
	say("cancelled");
}

/* Echo: unary, the request. */
static void echo_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	grpc_slice slice = flat(req);
	bj_rpc_reply(call, &slice, 1, NULL);
}

/* Header: unary, the value of x-echo-bin; NOT_FOUND without one. */
static void header_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	struct bj_str value = bj_rpc_metadata(call, "x-echo-bin");
	if (!value.ptr) {
		bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_NOT_FOUND });
		return;
	}
	grpc_slice slice = grpc_slice_from_copied_buffer(value.ptr, value.len);
	bj_rpc_reply(call, &slice, 1, NULL);
}

/* Fail: unary, a status whose details are the request. */
static void fail_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	grpc_slice slice = flat(req);
	bj_rpc_finish(call, &(struct bj_rpc_status){ .code = BJ_FAILED_PRECONDITION,
						     .message = "gr\xc3\xbc\xc3\x9f"
								"e, 100 %",
						     .details = GRPC_SLICE_START_PTR(slice),
						     .details_len = GRPC_SLICE_LENGTH(slice) });
	grpc_slice_unref(slice);
}

/* Twice: server stream, the request two times and then ABORTED. */
static void twice_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	grpc_slice slice = flat(req);
	grpc_slice first = grpc_slice_ref(slice);
	(void)bj_rpc_send(call, &first, 1); /* writable: it is the first */
	bj_rpc_reply(call, &slice, 1,
		     &(struct bj_rpc_status){ .code = BJ_ABORTED, .message = "twice" });
}

/* Sum: client stream, the total of the lengths, in decimal. */
static void sum_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)req;
	bj_rpc_want(call);
}

static void sum_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	uintptr_t sum = (uintptr_t)bj_rpc_data(call);
	if (msg) {
		bj_rpc_set_data(call, (void *)(sum + grpc_byte_buffer_length(msg)));
		bj_rpc_want(call);
		return;
	}
	char text[32];
	(void)snprintf(text, sizeof(text), "%zu", (size_t)sum);
	grpc_slice slice = grpc_slice_from_copied_string(text);
	bj_rpc_reply(call, &slice, 1, NULL);
}

/* Enough: client stream, answers after the first message. */
static void enough_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	(void)msg;
	grpc_slice slice = grpc_slice_from_static_string("enough");
	bj_rpc_reply(call, &slice, 1, NULL);
}

/* Chat: bidi, each message back. */
static void chat_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	if (!msg) {
		bj_rpc_finish(call, NULL);
		return;
	}
	grpc_slice slice = flat(msg);
	(void)bj_rpc_send(call, &slice,
			  1); /* the one before was taken: sent() asked for this one */
}

/* Wait: bidi, never answers. */
static void wait_open(struct bj_rpc_call *call, grpc_byte_buffer *req)
{
	(void)call;
	(void)req;
	say("waiting");
}

static const struct bj_rpc_handler echo = { .open = echo_open };
static const struct bj_rpc_handler header = { .open = header_open };
static const struct bj_rpc_handler failing = { .open = fail_open };
static const struct bj_rpc_handler twice = { .open = twice_open };
static const struct bj_rpc_handler sum = { .open = sum_open, .message = sum_message };
static const struct bj_rpc_handler enough = { .open = sum_open, .message = enough_message };
static const struct bj_rpc_handler chat = {
	.open = sum_open,
	.message = chat_message,
	.sent = bj_rpc_want,
};
static const struct bj_rpc_handler waiting = { .open = wait_open, .cancelled = cancelled };

static const struct bj_rpc_method methods[] = {
	{ "/t.T/Echo", BJ_RPC_UNARY, &echo, NULL },
	{ "/t.T/Header", BJ_RPC_UNARY, &header, NULL },
	{ "/t.T/Fail", BJ_RPC_UNARY, &failing, NULL },
	{ "/t.T/Twice", BJ_RPC_SERVER_STREAM, &twice, NULL },
	{ "/t.T/Sum", BJ_RPC_CLIENT_STREAM, &sum, NULL },
	{ "/t.T/Enough", BJ_RPC_CLIENT_STREAM, &enough, NULL },
	{ "/t.T/Chat", BJ_RPC_BIDI, &chat, NULL },
	{ "/t.T/Wait", BJ_RPC_BIDI, &waiting, NULL },
};

static int start(struct bj_rpc_loop **loop, struct bj_rpc_server **server, int argc, char **argv,
		 struct bj_err *err)
{
	int rc = bj_rpc_loop_new(loop, err);
	if (rc == 0)
		rc = bj_rpc_server_new(loop, 1, NULL, server, err);
	if (rc == 0)
		rc = bj_rpc_server_add(*server, methods, BJ_ARRAY_LEN(methods), err);
	for (int i = 1; i < argc && rc == 0; i++) {
		int port = 0;
		rc = bj_rpc_server_listen(*server, argv[i], &port, err);
		if (rc == 0)
			(void)printf("port %d\n", port);
	}
	if (rc == 0)
		rc = bj_rpc_loop_start(*loop, err);
	if (rc == 0)
		rc = bj_rpc_server_start(*server, err);
	return rc;
}

int main(int argc, char **argv)
{
	struct bj_rpc_loop *loop = NULL;
	struct bj_rpc_server *server = NULL;
	struct bj_err err = BJ_ERR_NULL;
	char byte;
	bj_rpc_init();
	if (start(&loop, &server, argc, argv, &err) < 0) {
		(void)fprintf(stderr, "rpc_peer: %s\n", err.msg);
		return 1;
	}
	say("ready");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	bj_rpc_server_stop(server, 2000);
	bj_rpc_loop_stop(loop);
	bj_rpc_deinit();
	say("stopped");
	return 0;
}
