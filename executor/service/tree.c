// SPDX-License-Identifier: Apache-2.0
/*
 * ContentAddressableStorage.GetTree: every Directory reachable from a root, breadth first, each once.
 *
 * The order is a function of the tree alone, so a page token is the number of Directories already sent: no state is kept between calls.
 * Spec: NOT_FOUND if the root is missing; other Directories that are missing are left out ("the server … will return a partial result").
 */
#include <stdio.h>

#include "executor/base/map.h"
#include "executor/base/pb.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"

enum {
	DEFAULT_PAGE = 1000,
	PAGE_MAX_BYTES = 3 << 20, /* a message stays below the usual limit of 4 MiB */
	DIRECTORY_MAX_BYTES = 64 << 20,
	TREE_ARENA_BYTES = 512 << 20,
};

struct found {
	struct found *next;
	struct bj_digest digest;
	re_directory *dir;
	size_t packed_bytes;
};

struct listing {
	struct bj_rpc_call *call;
	struct bj_services *services;
	const BJ_RE(GetTreeRequest) * request;
	struct bj_arena arena; /* of the walk */
	struct bj_map seen;
	struct found *head, **tail; /* breadth-first order */
	size_t n_found;
	struct found *at; /* next to be sent; loop thread */
	size_t n_sent;	  /* token so far */
	size_t page;
	bool is_busy, is_over, is_finished;
	struct bj_err err;
};

static void release(struct listing *l)
{
	bj_map_deinit(&l->seen);
	bj_arena_deinit(&l->arena);
}

/* ---- walking, on the pool ---- */

static int no_memory(struct listing *l)
{
	return bj_err_set(&l->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the tree");
}

/* Return: 0, or 1 when it is missing, or negative. */
static int load(struct listing *l, const struct bj_digest *digest)
{
	ProtobufCMessage *message;
	struct bj_str bytes;
	int r = bj_store_read(l->services->opts.store, digest, DIRECTORY_MAX_BYTES, &bytes,
			      &l->arena, &l->err);

	if (r > 0)
		return 1;
	if (r == 0)
		r = bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__directory__descriptor,
				 &l->arena, &message, &l->err);
	if (r < 0)
		return r;
	struct found *f = BJ_ARENA_NEW(&l->arena, struct found);

	if (!f)
		return no_memory(l);
	*f = (struct found){ .digest = *digest,
			     .dir = (re_directory *)message,
			     .packed_bytes = bytes.len };
	if (!bj_map_put(&l->seen, bj_digest_key(&f->digest), f, NULL))
		return no_memory(l);
	*l->tail = f;
	l->tail = &f->next;
	l->n_found++;
	return 0;
}

static int load_children(struct listing *l, const struct found *f)
{
	for (size_t i = 0; i < f->dir->n_directories; i++) {
		struct bj_digest digest;
		int r = bj_digest_from_pb(f->digest.fn, f->dir->directories[i]->digest,
					  "DirectoryNode.digest", &digest, &l->err);

		if (r == 0 && !bj_map_get(&l->seen, bj_digest_key(&digest)))
			r = load(l, &digest);
		if (r < 0)
			return r;
	}
	if (l->n_found > BJ_MAX_TREE_DIRECTORIES)
		return bj_err_set(&l->err, BJ_RESOURCE_EXHAUSTED,
				  "the tree has more than %d directories", BJ_MAX_TREE_DIRECTORIES);
	return 0;
}

static int skip_to_token(struct listing *l)
{
	uint64_t token = 0;

	if (l->request->page_token[0] &&
	    (!bj_str_to_u64(bj_str_of(l->request->page_token), &token) || token > l->n_found))
		return bj_err_set(&l->err, BJ_INVALID_ARGUMENT,
				  "page_token \"%.40s\" did not come from this tree",
				  l->request->page_token);
	l->at = l->head;
	for (; l->n_sent < token; l->n_sent++)
		l->at = l->at->next;
	return 0;
}

static int walk(struct listing *l)
{
	struct bj_digest root;
	enum bj_digest_fn fn;
	char text[BJ_DIGEST_STR_BYTES];
	int r = request_digest_fn((int)l->request->digest_function,
				  "GetTreeRequest.digest_function", &fn, &l->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(l->request->instance_name),
				      "GetTreeRequest.instance_name", &l->err);
	if (r == 0)
		r = bj_digest_from_pb(fn, l->request->root_digest, "GetTreeRequest.root_digest",
				      &root, &l->err);
	if (r == 0 && l->request->page_size < 0)
		r = bj_err_set(&l->err, BJ_INVALID_ARGUMENT, "page_size is negative: %d",
			       l->request->page_size);
	if (r == 0)
		r = load(l, &root);
	if (r > 0) {
		bj_digest_str(&root, text);
		return bj_err_set(&l->err, BJ_NOT_FOUND, "root_digest %s is not in the CAS", text);
	}
	for (const struct found *f = l->head; r == 0 && f; f = f->next)
		r = load_children(l, f);
	return r < 0 ? r : skip_to_token(l);
}

/* ---- sending, on the loop ---- */

/* The rest of one page, as much as fits into one message. */
static bool send_some(struct listing *l)
{
	BJ_RE(GetTreeResponse) reply = BUILD__BAZEL__REMOTE__EXECUTION__V2__GET_TREE_RESPONSE__INIT;
	re_directory **list =
		BJ_ARENA_ARRAY(&l->arena, re_directory *, BJ_MIN(l->page, l->n_found));
	size_t bytes = 0;
	char token[24] = "";

	if (!list)
		return false;
	for (; l->at && reply.n_directories < l->page; l->at = l->at->next, l->n_sent++) {
		if (reply.n_directories && bytes + l->at->packed_bytes > PAGE_MAX_BYTES)
			break;
		bytes += l->at->packed_bytes;
		list[reply.n_directories++] = l->at->dir;
	}
	reply.directories = list;
	if (l->at)
		(void)snprintf(token, sizeof(token), "%zu", l->n_sent);
	reply.next_page_token = token;
	return bj_rpc_send_msg(l->call, &reply.base);
}

/* Spec: the stream gives all pages one after the other, each with the token to go on from. */
static void pump(struct listing *l)
{
	if (l->is_finished || !bj_rpc_writable(l->call))
		return;
	if (!send_some(l)) {
		(void)bj_err_set(&l->err, BJ_RESOURCE_EXHAUSTED,
				 "out of memory for a page of the tree");
		bj_rpc_fail(l->call, &l->err);
		l->is_finished = true;
	} else if (!l->at) {
		bj_rpc_finish(l->call, NULL);
		l->is_finished = true;
	}
}

static void on_walked(struct bj_rpc_call *call, void *arg)
{
	struct listing *l = arg;

	l->is_busy = false;
	if (l->is_over) {
		release(l);
	} else if (bj_err_is_set(&l->err)) {
		bj_rpc_fail(call, &l->err);
		l->is_finished = true;
	} else {
		pump(l);
	}
	bj_rpc_drop(call);
}

static void work(void *arg)
{
	struct listing *l = arg;
	struct bj_rpc_call *call = l->call;

	if (walk(l) < 0)
		bj_assert(bj_err_is_set(&l->err));
	if (!bj_rpc_post(call, on_walked, l))
		bj_rpc_drop(call); /* out of memory: the client's deadline ends it */
}

static void on_open(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct listing *l = BJ_ARENA_NEW(bj_rpc_arena(call), struct listing);
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;

	if (!l) {
		(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
		bj_rpc_fail(call, &err);
		return;
	}
	if (bj_rpc_unpack(request,
			  &build__bazel__remote__execution__v2__get_tree_request__descriptor,
			  bj_rpc_arena(call), &message, &err) < 0) {
		bj_rpc_fail(call, &err);
		return;
	}
	l->call = call;
	l->services = bj_rpc_svc(call);
	l->request = (const BJ_RE(GetTreeRequest) *)message;
	l->tail = &l->head;
	l->page = l->request->page_size > 0 ? (size_t)l->request->page_size : DEFAULT_PAGE;
	bj_arena_init(&l->arena, TREE_ARENA_BYTES);
	bj_rpc_set_data(call, l);
	bj_rpc_hold(call);
	l->is_busy = true;
	if (bj_pool_submit(l->services->opts.pool, work, l))
		return;
	l->is_busy = false;
	(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "too many requests wait for the disk");
	bj_rpc_fail(call, &err);
	bj_rpc_drop(call);
}

static void on_sent(struct bj_rpc_call *call)
{
	struct listing *l = bj_rpc_data(call);

	if (l)
		pump(l);
}

static void on_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct listing *l = bj_rpc_data(call);

	(void)status;
	if (l && l->is_busy)
		l->is_over = true;
	else if (l)
		release(l);
}

static const struct bj_rpc_handler tree_handler = { .open = on_open,
						    .sent = on_sent,
						    .closed = on_closed };

struct service_table service_tree(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/build.bazel.remote.execution.v2.ContentAddressableStorage/GetTree",
		  BJ_RPC_SERVER_STREAM, &tree_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
