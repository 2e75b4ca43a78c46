// SPDX-License-Identifier: Apache-2.0
/*
 * ContentAddressableStorage.GetTree: every Directory reachable from a root, breadth first, each once.
 *
 * Directories are sent as the bytes that the client uploaded: packed again, one with an unknown field would have another digest, and
 * the client could not find it below its parent. So only the bytes are kept, and one Directory at a time is unpacked for its children.
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
	TREE_ARENA_BYTES = 256 << 20,
	UNPACKED_ARENA_BYTES = 512 << 20,
	FIELD_HEADER_MAX_BYTES = 11, /* a tag and a varint of 64 bits */
	TOKEN_BYTES = 24,
};

struct found {
	struct found *next;
	struct bj_digest digest;
	struct bj_str bytes;
};

struct listing {
	struct job job;
	struct bj_rpc_call *call;
	struct bj_services *services;
	const BJ_RE(GetTreeRequest) * request;
	struct bj_arena arena;	 /* of what was found */
	struct bj_arena scratch; /* of the Directory that is looked into */
	struct bj_map seen;
	struct found *head, **tail; /* breadth-first order */
	size_t n_found;
	struct found *at; /* next to be sent; loop thread */
	size_t n_sent;	  /* token so far */
	size_t page;
	bool is_finished;
	struct bj_err err;
};

static void release(struct job *job)
{
	struct listing *l = BJ_CONTAINER_OF(job, struct listing, job);

	bj_map_deinit(&l->seen);
	bj_arena_deinit(&l->arena);
	bj_arena_deinit(&l->scratch);
}

/* ---- walking, on the pool ---- */

static int no_memory(struct listing *l)
{
	return bj_err_set(&l->err, BJ_RESOURCE_EXHAUSTED, "out of memory for the tree");
}

/* Return: 0, or 1 when it is missing, or negative. */
static int load(struct listing *l, const struct bj_digest *digest)
{
	struct bj_str bytes;
	int r = bj_store_read(l->services->opts.store, digest, DIRECTORY_MAX_BYTES, &bytes,
			      &l->arena, &l->err);

	if (r == -BJ_DATA_LOSS) { /* it was dropped just now */
		bj_err_clear(&l->err);
		return 1;
	}
	if (r != 0)
		return r < 0 ? r : 1;
	struct found *f = BJ_ARENA_NEW(&l->arena, struct found);

	if (!f)
		return no_memory(l);
	*f = (struct found){ .digest = *digest, .bytes = bytes };
	if (!bj_map_put(&l->seen, bj_digest_key(&f->digest), f, NULL))
		return no_memory(l);
	*l->tail = f;
	l->tail = &f->next;
	l->n_found++;
	return 0;
}

static int load_child(struct listing *l, const struct found *f, const re_directory_node *node)
{
	struct bj_digest digest;
	int r = bj_digest_from_pb(f->digest.fn, node->digest, "DirectoryNode.digest", &digest,
				  &l->err);

	if (r < 0 || bj_map_get(&l->seen, bj_digest_key(&digest)))
		return r;
	r = load(l, &digest);
	if (r < 0)
		return r;
	if (l->n_found > BJ_MAX_TREE_DIRECTORIES)
		return bj_err_set(&l->err, BJ_RESOURCE_EXHAUSTED,
				  "the tree has more than %d directories", BJ_MAX_TREE_DIRECTORIES);
	return 0;
}

static int load_children(struct listing *l, const struct found *f)
{
	ProtobufCMessage *message;

	bj_arena_reset(&l->scratch);
	int r = bj_pb_unpack(f->bytes, &build__bazel__remote__execution__v2__directory__descriptor,
			     &l->scratch, &message, &l->err);
	const re_directory *dir = r == 0 ? (const re_directory *)message : NULL;

	for (size_t i = 0; r == 0 && i < dir->n_directories; i++)
		r = load_child(l, f, dir->directories[i]);
	if (r < 0) {
		char text[BJ_DIGEST_STR_BYTES];

		bj_digest_str(&f->digest, text);
		return bj_err_wrap(&l->err, "Directory %s", text);
	}
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

static int check_request(struct listing *l, struct bj_digest *out_root)
{
	enum bj_digest_fn fn;
	int r = request_digest_fn((int)l->request->digest_function,
				  "GetTreeRequest.digest_function", &fn, &l->err);

	if (r == 0)
		r = bj_instance_check(bj_str_of(l->request->instance_name),
				      "GetTreeRequest.instance_name", &l->err);
	if (r == 0)
		r = bj_digest_from_pb(fn, l->request->root_digest, "GetTreeRequest.root_digest",
				      out_root, &l->err);
	if (r == 0 && l->request->page_size < 0)
		r = bj_err_set(&l->err, BJ_INVALID_ARGUMENT, "page_size is negative: %d",
			       l->request->page_size);
	return r;
}

static int walk(struct listing *l)
{
	struct bj_digest root;
	char text[BJ_DIGEST_STR_BYTES];
	int r = check_request(l, &root);

	if (r == 0)
		r = load(l, &root);
	if (r > 0) {
		bj_digest_str(&root, text);
		return bj_err_set(&l->err, BJ_NOT_FOUND, "root_digest %s is not in the CAS", text);
	}
	for (const struct found *f = l->head; r == 0 && f && !job_is_closed(&l->job); f = f->next)
		r = load_children(l, f);
	bj_arena_deinit(&l->scratch);
	return r < 0 ? r : skip_to_token(l);
}

static void work(struct job *job)
{
	struct listing *l = BJ_CONTAINER_OF(job, struct listing, job);
	int r = walk(l);

	bj_assert((r < 0) == bj_err_is_set(&l->err));
}

/* ---- sending, on the loop ---- */

/* A length-delimited field: tag, varint, then the bytes. Return: where it ends. */
static uint8_t *put_field(uint8_t *at, uint8_t tag, struct bj_str bytes)
{
	size_t n = bytes.len;

	*at++ = tag;
	while (n >= 0x80) {
		*at++ = (uint8_t)(n | 0x80);
		n >>= 7;
	}
	*at++ = (uint8_t)n;
	if (bytes.len)
		memcpy(at, bytes.ptr, bytes.len);
	return at + bytes.len;
}

/* How many of the next Directories go into one message, and the bytes that they may take in it. */
static size_t measure_page(const struct listing *l, size_t *out_bytes)
{
	size_t n = 0, bytes = 0;

	for (const struct found *f = l->at; f && n < l->page; f = f->next, n++) {
		if (n && bytes + f->bytes.len > PAGE_MAX_BYTES)
			break;
		bytes += f->bytes.len + FIELD_HEADER_MAX_BYTES;
	}
	*out_bytes = bytes;
	return n;
}

/* GetTreeResponse: field 1 the directories, field 2 the token when there is more. */
static grpc_slice make_page(struct listing *l)
{
	char token[TOKEN_BYTES];
	size_t bytes;
	size_t n = measure_page(l, &bytes);
	grpc_slice slice = grpc_slice_malloc(bytes + FIELD_HEADER_MAX_BYTES + TOKEN_BYTES);
	uint8_t *at = GRPC_SLICE_START_PTR(slice);

	for (; n > 0; n--, l->at = l->at->next, l->n_sent++)
		at = put_field(at, 0x0a, l->at->bytes);
	if (l->at) {
		(void)snprintf(token, sizeof(token), "%zu", l->n_sent);
		at = put_field(at, 0x12, bj_str_of(token));
	}
	return grpc_slice_sub_no_ref(slice, 0, (size_t)(at - GRPC_SLICE_START_PTR(slice)));
}

/* Spec: the stream gives all pages one after the other, each with the token to go on from. */
static void pump(struct listing *l)
{
	if (l->is_finished || !bj_rpc_writable(l->call))
		return;
	grpc_slice slice = make_page(l);

	BJ_IGNORE(bj_rpc_send(l->call, &slice, 1)); /* it is writable */
	if (l->at)
		return;
	bj_rpc_finish(l->call, NULL);
	l->is_finished = true;
}

static void on_walked(struct job *job)
{
	struct listing *l = BJ_CONTAINER_OF(job, struct listing, job);

	if (!bj_err_is_set(&l->err)) {
		pump(l);
		return;
	}
	bj_rpc_fail(l->call, &l->err);
	l->is_finished = true;
}

static void start(struct listing *l, struct bj_rpc_call *call, ProtobufCMessage *message)
{
	*l = (struct listing){ .job = { .work = work, .done = on_walked, .release = release },
			       .call = call,
			       .services = bj_rpc_svc(call),
			       .request = (const BJ_RE(GetTreeRequest) *)message,
			       .page = DEFAULT_PAGE };
	l->tail = &l->head;
	if (l->request->page_size > 0)
		l->page = (size_t)l->request->page_size;
	bj_arena_init(&l->arena, TREE_ARENA_BYTES);
	bj_arena_init(&l->scratch, UNPACKED_ARENA_BYTES);
	job_init(&l->job, call);
	bj_rpc_set_data(call, l);
	job_start(&l->job);
}

static void on_open(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct listing *l = BJ_ARENA_NEW(bj_rpc_arena(call), struct listing);
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;
	int r;

	if (!l)
		r = bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
	else
		r = bj_rpc_unpack(
			request, &build__bazel__remote__execution__v2__get_tree_request__descriptor,
			bj_rpc_arena(call), &message, &err);
	if (r < 0)
		bj_rpc_fail(call, &err);
	else
		start(l, call, message);
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
	if (l)
		job_close(&l->job);
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
