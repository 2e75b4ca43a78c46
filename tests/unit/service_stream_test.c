// SPDX-License-Identifier: Apache-2.0
/*
 * The services' streams over a real connection, and what must hold when calls end while a pool thread works for them: nothing leaks,
 * nobody hangs. The seams are the linker's --wrap of three functions: bj_pool_submit() refuses or keeps a job back, bj_rpc_post() finds
 * no memory, job_close() tells that a call was closed.
 */
#include "tests/unit/rpc-fixture.h"

#include "tests/unit/cas_test_util.h"

#include <sched.h>

#include "executor/base/pool.h"
#include "executor/service/service-internal.h"
#include "google/bytestream/bytestream.pb-c.h"

#define READ "/google.bytestream.ByteStream/Read"
#define WRITE "/google.bytestream.ByteStream/Write"
#define GET_TREE "/build.bazel.remote.execution.v2.ContentAddressableStorage/GetTree"
#define FIND "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs"

/* ---- seams ---- */

enum pool_mode { POOL_REAL, POOL_REFUSES, POOL_HOLDS };

static pthread_mutex_t seam_mu = PTHREAD_MUTEX_INITIALIZER;
static enum pool_mode pool_mode;
static bool loses_posts;
static struct bj_pool *held_pool;
static void (*held_fn)(void *);
static void *held_arg;
static struct counter n_held = COUNTER_INIT, n_closed = COUNTER_INIT, n_lost = COUNTER_INIT;

bool __real_bj_pool_submit(struct bj_pool *pool, void (*fn)(void *), void *arg);
bool __wrap_bj_pool_submit(struct bj_pool *pool, void (*fn)(void *), void *arg);
bool __wrap_bj_pool_submit(struct bj_pool *pool, void (*fn)(void *), void *arg)
{
	pthread_mutex_lock(&seam_mu);
	enum pool_mode mode = pool_mode;
	if (mode == POOL_HOLDS) {
		bj_assert(!held_fn);
		held_pool = pool;
		held_fn = fn;
		held_arg = arg;
	}
	pthread_mutex_unlock(&seam_mu);
	if (mode == POOL_REAL)
		return __real_bj_pool_submit(pool, fn, arg);
	if (mode == POOL_HOLDS)
		counter_add(&n_held);
	return mode == POOL_HOLDS;
}

bool __real_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg);
bool __wrap_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg);
bool __wrap_bj_rpc_post(struct bj_rpc_call *call, void (*fn)(struct bj_rpc_call *, void *),
			void *arg)
{
	pthread_mutex_lock(&seam_mu);
	bool is_lost = loses_posts;
	pthread_mutex_unlock(&seam_mu);
	if (!is_lost)
		return __real_bj_rpc_post(call, fn, arg);
	counter_add(&n_lost);
	return false;
}

void __real_job_close(struct job *job);
void __wrap_job_close(struct job *job);
void __wrap_job_close(struct job *job)
{
	__real_job_close(job);
	counter_add(&n_closed);
}

static void set_seams(enum pool_mode mode, bool loses)
{
	pthread_mutex_lock(&seam_mu);
	pool_mode = mode;
	loses_posts = loses;
	pthread_mutex_unlock(&seam_mu);
}

/* Lets the job that was kept back run after all. */
static void release_held(void)
{
	pthread_mutex_lock(&seam_mu);
	void (*fn)(void *) = held_fn;
	held_fn = NULL;
	pthread_mutex_unlock(&seam_mu);
	assert_non_null(fn);
	assert_true(__real_bj_pool_submit(held_pool, fn, held_arg));
}

/* ---- a server over a store ---- */

enum { MAX_METHODS = 16 };

struct world {
	struct fix *fix;
	struct bj_pool *pool;
	struct bj_services services;
	struct fixture fixture;
	size_t n_fds; /* open when nothing is under way */
};

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void add_table(struct world *w, struct bj_rpc_method *methods, size_t *n,
		      struct service_table table)
{
	for (size_t i = 0; i < table.n_methods; i++) {
		assert_true(*n < MAX_METHODS);
		methods[*n] = table.methods[i];
		methods[(*n)++].svc = &w->services;
	}
}

/* What one client call brought. */
struct reply {
	struct counter closed, messages;
	struct bj_buf bytes; /* all messages */
	size_t ends[64];     /* where each of them ends */
	size_t n;
	enum bj_code code;
	char text[1024];
	struct bj_rpc_call *call; /* held */
	grpc_slice
		out[4]; /* what a client stream sends, one when flow control took the one before */
	size_t n_out, next_out;
	bool half_closes;
};

static void on_reply_sent(struct bj_rpc_call *call)
{
	struct reply *r = bj_rpc_data(call);
	if (r->next_out < r->n_out)
		BJ_IGNORE(
			bj_rpc_send(call, &r->out[r->next_out++], 1)); /* refused when it is over */
	else if (r->half_closes)
		bj_rpc_half_close(call);
}

static void on_reply_message(struct bj_rpc_call *call, grpc_byte_buffer *msg)
{
	struct reply *r = bj_rpc_data(call);
	if (!msg)
		return;
	struct bj_buf text = BJ_BUF_INIT(64 << 20);
	(void)message_text(msg, &text);
	bj_assert(r->n < BJ_ARRAY_LEN(r->ends) && bj_buf_append_str(&r->bytes, bj_buf_str(&text)));
	bj_buf_deinit(&text);
	r->ends[r->n++] = r->bytes.len;
	counter_add(&r->messages);
	bj_rpc_want(call);
}

static void on_reply_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct reply *r = bj_rpc_data(call);
	r->code = status->code;
	(void)snprintf(r->text, sizeof(r->text), "%s", status->message ? status->message : "");
	counter_add(&r->closed);
}

static const struct bj_rpc_handler reply_handler = { .message = on_reply_message,
						     .sent = on_reply_sent,
						     .closed = on_reply_closed };

#define REPLY_INIT                                                                                 \
	((struct reply){ .closed = COUNTER_INIT,                                                   \
			 .messages = COUNTER_INIT,                                                 \
			 .bytes = BJ_BUF_INIT(64 << 20) })

static void call_start(struct world *w, struct reply *r, const char *path, enum bj_rpc_kind kind,
		       const ProtobufCMessage *request)
{
	grpc_slice slice;
	if (request)
		slice = bj_rpc_pack(request);
	bj_rpc_start(w->fixture.channel, w->fixture.client_loop, path, kind, &reply_handler, r, 0,
		     request ? &slice : NULL, request ? 1 : 0, &r->call);
}

static void call_end(struct reply *r)
{
	counter_wait(&r->closed, 1);
	bj_rpc_drop(BJ_STEAL_PTR(r->call));
	for (; r->next_out < r->n_out; r->next_out++)
		grpc_slice_unref(r->out[r->next_out]); /* the server answered before it had all */
}

static struct bj_str message_of(const struct reply *r, size_t i)
{
	assert_true(i < r->n);
	return bj_str_sub(bj_buf_str(&r->bytes), i ? r->ends[i - 1] : 0, r->ends[i]);
}

static ProtobufCMessage *unpack(struct world *w, struct bj_str bytes,
				const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *message;
	EXPECT_OK(w->fix, bj_pb_unpack(bytes, type, &w->fix->arena, &message, &w->fix->err));
	return message;
}

static void find_missing(struct world *w, struct reply *r)
{
	BJ_RE(FindMissingBlobsRequest)
	req = BUILD__BAZEL__REMOTE__EXECUTION__V2__FIND_MISSING_BLOBS_REQUEST__INIT;
	call_start(w, r, FIND, BJ_RPC_UNARY, &req.base);
}

static void world_up(struct world *w, struct fix *fix)
{
	struct bj_rpc_method methods[MAX_METHODS];
	struct reply r = REPLY_INIT;
	size_t n = 0;
	set_seams(POOL_REAL, false);
	n_held.value = n_closed.value = n_lost.value = 0;
	*w = (struct world){ .fix = fix };
	EXPECT_OK(fix, bj_pool_new(2, 1000, &w->pool, &fix->err));
	w->services.opts = (struct bj_services_opts){ .store = fix->store, .pool = w->pool };
	add_table(w, methods, &n, service_cas());
	add_table(w, methods, &n, service_read());
	add_table(w, methods, &n, service_write());
	add_table(w, methods, &n, service_tree());
	fixture_up(&w->fixture, NULL, methods, n, NULL);
	find_missing(w, &r); /* connects */
	call_end(&r);
	assert_int_equal(r.code, BJ_OK);
	bj_buf_deinit(&r.bytes);
	w->n_fds = count_fds();
}

static void world_down(struct world *w)
{
	set_seams(POOL_REAL, false);
	bj_rpc_server_stop(BJ_STEAL_PTR(w->fixture.server), 0);
	bj_pool_free(w->pool); /* its jobs hold calls, whose loop must be there */
	fixture_down(&w->fixture, 0);
}

/* The server's side ends a little after the client has heard. */
static void await_nothing_held(struct world *w)
{
	uint64_t deadline_ns = bj_deadline_ns(60 * BJ_NS_PER_SEC);
	while (count_fds() != w->n_fds || count_files(w->fix, "tmp") != 0) {
		assert_true(bj_now_ns() < deadline_ns);
		sched_yield();
	}
}

static const char *name_of(struct world *w, const char *prefix, const struct bj_digest *digest)
{
	char text[BJ_DIGEST_STR_BYTES];
	bj_digest_str(digest, text);
	return bj_arena_printf(&w->fix->arena, "%sblobs/%s", prefix, text);
}

/* ---- reading ---- */

static void read_start(struct world *w, struct reply *r, const char *name, int64_t offset,
		       int64_t limit)
{
	Google__Bytestream__ReadRequest req = GOOGLE__BYTESTREAM__READ_REQUEST__INIT;
	req.resource_name = (char *)(uintptr_t)name;
	req.read_offset = offset;
	req.read_limit = limit;
	call_start(w, r, READ, BJ_RPC_SERVER_STREAM, &req.base);
}

static void expect_read(struct world *w, const struct bj_digest *digest, int64_t offset,
			int64_t limit, enum bj_code code, struct bj_str want)
{
	struct bj_buf got = BJ_BUF_INIT(64 << 20);
	struct reply r = REPLY_INIT;
	read_start(w, &r, name_of(w, "", digest), offset, limit);
	call_end(&r);
	for (size_t i = 0; i < r.n; i++) {
		const Google__Bytestream__ReadResponse *m =
			(const Google__Bytestream__ReadResponse *)unpack(
				w, message_of(&r, i),
				&google__bytestream__read_response__descriptor);
		assert_true(m->data.len > 0 && m->data.len <= BJ_READ_CHUNK_BYTES);
		assert_true(bj_buf_append(&got, m->data.data, m->data.len));
	}
	if (r.code != code || !bj_str_eq(bj_buf_str(&got), want))
		fail_msg("offset %lld limit %lld: code %d \"%s\", %zu bytes", (long long)offset,
			 (long long)limit, (int)r.code, r.text, got.len);
	bj_buf_deinit(&got);
	bj_buf_deinit(&r.bytes);
}

static void reads(void **state)
{
	enum { SIZE = (3 << 20) + 17 };
	struct world w;
	world_up(&w, *state);
	struct bj_str blob = make_blob(w.fix, SIZE, 1);
	struct bj_digest digest = put(w.fix, blob), empty = bj_digest_empty(BJ_DIGEST_SHA256);
	struct bj_digest missing = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("missing"));
	static const struct {
		int64_t offset, limit;
		enum bj_code code;
		size_t from, to;
	} rows[] = {
		{ 0, 0, BJ_OK, 0, SIZE },
		{ 5, 0, BJ_OK, 5, SIZE },
		{ 5, 1, BJ_OK, 5, 6 },
		{ 0, 1 << 20, BJ_OK, 0, 1 << 20 },
		{ 1 << 20, (1 << 20) + 1, BJ_OK, 1 << 20, (2 << 20) + 1 },
		{ SIZE - 1, 100, BJ_OK, SIZE - 1, SIZE },
		{ SIZE, 0, BJ_OK, 0, 0 },
		{ 7, INT64_MAX, BJ_OK, 7, SIZE },
		{ SIZE + 1, 0, BJ_OUT_OF_RANGE, 0, 0 },
		{ -1, 0, BJ_OUT_OF_RANGE, 0, 0 },
		{ 0, -1, BJ_INVALID_ARGUMENT, 0, 0 },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		expect_read(&w, &digest, rows[i].offset, rows[i].limit, rows[i].code,
			    bj_str_sub(blob, rows[i].from, rows[i].to));
	expect_read(&w, &empty, 0, 0, BJ_OK, BJ_STR_NULL);
	expect_read(&w, &missing, 0, 0, BJ_NOT_FOUND, BJ_STR_NULL);
	expect_read(&w, &missing, (int64_t)missing.size_bytes, 0, BJ_NOT_FOUND, BJ_STR_NULL);
	await_nothing_held(&w);
	world_down(&w);
}

/* ---- writing ---- */

static void add_write(struct reply *r, const char *name, int64_t offset, struct bj_str data,
		      bool is_last)
{
	Google__Bytestream__WriteRequest req = GOOGLE__BYTESTREAM__WRITE_REQUEST__INIT;
	assert_true(r->n_out < BJ_ARRAY_LEN(r->out));
	req.resource_name = (char *)(uintptr_t)name;
	req.write_offset = offset;
	req.finish_write = is_last;
	req.data = (ProtobufCBinaryData){ data.len, (uint8_t *)(uintptr_t)data.ptr };
	r->out[r->n_out++] = bj_rpc_pack(&req.base);
}

static void expect_write(struct world *w, struct reply *r, enum bj_code code, int64_t committed)
{
	call_start(w, r, WRITE, BJ_RPC_CLIENT_STREAM, NULL);
	call_end(r);
	if (r->code != code)
		fail_msg("code %d \"%s\"", (int)r->code, r->text);
	assert_int_equal(r->n, code == BJ_OK);
	if (code == BJ_OK) {
		const Google__Bytestream__WriteResponse *m =
			(const Google__Bytestream__WriteResponse *)unpack(
				w, message_of(r, 0),
				&google__bytestream__write_response__descriptor);
		assert_int_equal(m->committed_size, committed);
	}
	bj_buf_deinit(&r->bytes);
	await_nothing_held(w);
}

static void writes(void **state)
{
	struct world w;
	world_up(&w, *state);
	struct bj_str blob = make_blob(w.fix, 3000000, 2);
	struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, blob);
	const char *name = name_of(&w, "uploads/u/", &digest);
	struct bj_str first = bj_str_sub(blob, 0, 1000000),
		      rest = bj_str_sub(blob, 1000000, blob.len);
	struct reply r;

	r = REPLY_INIT; /* cut off in the middle */
	r.half_closes = true;
	add_write(&r, name, 0, first, false);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);
	assert_false(bj_store_has(w.fix->store, &digest));

	r = REPLY_INIT; /* L99: an offset that is neither the start nor what was received */
	add_write(&r, name, 0, first, false);
	add_write(&r, "", 3, rest, true);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);
	r = REPLY_INIT;
	add_write(&r, name, 7, first, false);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);

	r = REPLY_INIT; /* another name in the middle */
	add_write(&r, name, 0, first, false);
	add_write(&r, "uploads/v/blobs/x/1", 1000000, rest, true);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);

	r = REPLY_INIT; /* more than the name says */
	add_write(&r, name, 0, blob, false);
	add_write(&r, "", (int64_t)blob.len, BJ_STR_LIT("x"), true);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);

	r = REPLY_INIT; /* other bytes than the name says */
	add_write(&r, name, 0, first, false);
	add_write(&r, "", 1000000, bj_str_sub(blob, 0, 2000000), true);
	expect_write(&w, &r, BJ_INVALID_ARGUMENT, 0);
	assert_false(bj_store_has(w.fix->store, &digest));

	r = REPLY_INIT; /* from 0 again, and whole */
	add_write(&r, name, 0, first, false);
	add_write(&r, name, 1000000, BJ_STR_NULL, false);
	add_write(&r, "", 1000000, rest, true);
	expect_write(&w, &r, BJ_OK, 3000000);
	expect_blob(w.fix, &digest, blob);

	r = REPLY_INIT; /* it is there: answered after the first message, whatever comes */
	add_write(&r, name, 0, BJ_STR_LIT("quite different"), false);
	expect_write(&w, &r, BJ_OK, 3000000);
	world_down(&w);
}

/* ---- trees ---- */

static void tree_start(struct world *w, struct reply *r, const struct bj_digest *root,
		       int32_t page_size, const char *token)
{
	BJ_RE(GetTreeRequest) req = BUILD__BAZEL__REMOTE__EXECUTION__V2__GET_TREE_REQUEST__INIT;
	req.root_digest = bj_digest_to_pb(&w->fix->arena, root);
	req.page_size = page_size;
	req.page_token = (char *)(uintptr_t)token;
	call_start(w, r, GET_TREE, BJ_RPC_SERVER_STREAM, &req.base);
}

/* A Directory with @n children named a, b, …; with @extra its bytes hold a field that no one knows. */
static struct bj_digest put_dir(struct world *w, const struct bj_digest *children, size_t n,
				bool extra)
{
	re_directory dir = BUILD__BAZEL__REMOTE__EXECUTION__V2__DIRECTORY__INIT;
	re_directory_node nodes[4], *list[4];
	char names[4][2] = { "a", "b", "c", "d" };
	struct bj_buf buf = BJ_BUF_INIT(4096);
	for (size_t i = 0; i < n; i++) {
		build__bazel__remote__execution__v2__directory_node__init(&nodes[i]);
		nodes[i].name = names[i];
		nodes[i].digest = bj_digest_to_pb(&w->fix->arena, &children[i]);
		list[i] = &nodes[i];
	}
	dir.directories = list;
	dir.n_directories = n;
	(void)bj_buf_append_str(&buf, bj_pb_pack(&w->fix->arena, &dir.base));
	if (extra)
		(void)bj_buf_append(&buf, "\xf8\x07\x01", 3); /* field 127 = 1 */
	struct bj_digest digest = put(w->fix, bj_buf_str(&buf));
	bj_buf_deinit(&buf);
	return digest;
}

/* Every Directory has the digest that its parent names: none was packed again. Returns how many there are. */
static size_t check_page(struct world *w, struct bj_str message, const struct bj_digest *wanted,
			 size_t n_wanted, char *token)
{
	size_t n = 0;
	token[0] = '\0';
	for (size_t at = 0; at < message.len;) {
		uint8_t tag = (uint8_t)message.ptr[at++];
		size_t len = 0;
		for (unsigned shift = 0;; shift += 7) {
			uint8_t byte = (uint8_t)message.ptr[at++];
			len |= (size_t)(byte & 0x7f) << shift;
			if (!(byte & 0x80))
				break;
		}
		struct bj_str field = bj_str_sub(message, at, at + len);
		at += len;
		if (tag == 0x12) {
			(void)snprintf(token, 16, "%.*s", BJ_STR_FMT(field));
			continue;
		}
		assert_int_equal(tag, 0x0a);
		struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, field);
		bool is_wanted = false;
		for (size_t i = 0; i < n_wanted; i++)
			is_wanted = is_wanted || bj_digest_eq(&digest, &wanted[i]);
		assert_true(is_wanted);
		n++;
	}
	(void)unpack(w, message,
		     &build__bazel__remote__execution__v2__get_tree_response__descriptor);
	return n;
}

static void trees(void **state)
{
	struct world w;
	struct reply r = REPLY_INIT;
	char token[16], first_token[16];
	size_t n = 0;
	world_up(&w, *state);
	struct bj_digest leaf = put_dir(&w, NULL, 0, true);
	struct bj_digest twice[2] = { leaf, leaf };
	struct bj_digest middle = put_dir(&w, twice, 2, true);
	struct bj_digest gone = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("gone"));
	struct bj_digest below[3] = { middle, gone, leaf };
	struct bj_digest root = put_dir(&w, below, 3, false);
	struct bj_digest all[3] = { root, middle, leaf };

	/* Each once, the missing one left out. */
	tree_start(&w, &r, &root, 0, "");
	call_end(&r);
	assert_int_equal(r.code, BJ_OK);
	assert_int_equal(r.n, 1);
	assert_int_equal(check_page(&w, message_of(&r, 0), all, 3, token), 3);
	assert_string_equal(token, "");
	bj_buf_deinit(&r.bytes);

	/* In pages of one, and on from the first token. */
	r = REPLY_INIT;
	tree_start(&w, &r, &root, 1, "");
	call_end(&r);
	assert_int_equal(r.n, 3);
	for (size_t i = 0; i < 3; i++) {
		n += check_page(&w, message_of(&r, i), all, 3, token);
		assert_int_equal(token[0] == '\0', i == 2);
		if (i == 0)
			memcpy(first_token, token, sizeof(token));
	}
	assert_int_equal(n, 3);
	bj_buf_deinit(&r.bytes);
	r = REPLY_INIT;
	tree_start(&w, &r, &root, INT32_MAX, first_token);
	call_end(&r);
	assert_int_equal(r.n, 1);
	assert_int_equal(check_page(&w, message_of(&r, 0), all, 3, token), 2);
	bj_buf_deinit(&r.bytes);

	static const char *const bad[] = { "x", "-1", "4", "99999999999999999999" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
		r = REPLY_INIT;
		tree_start(&w, &r, &root, 0, bad[i]);
		call_end(&r);
		assert_int_equal(r.code, BJ_INVALID_ARGUMENT);
	}
	r = REPLY_INIT;
	tree_start(&w, &r, &gone, 0, "");
	call_end(&r);
	assert_int_equal(r.code, BJ_NOT_FOUND);
	r = REPLY_INIT;
	tree_start(&w, &r, &root, -1, "");
	call_end(&r);
	assert_int_equal(r.code, BJ_INVALID_ARGUMENT);
	world_down(&w);
}

/* D40: 2^40 entries, 41 Directories. */
static void a_tree_that_explodes(void **state)
{
	struct world w;
	struct reply r = REPLY_INIT;
	struct bj_digest all[41];
	char token[16];
	world_up(&w, *state);
	all[0] = put_dir(&w, NULL, 0, false);
	for (size_t i = 1; i < BJ_ARRAY_LEN(all); i++) {
		struct bj_digest twice[2] = { all[i - 1], all[i - 1] };
		all[i] = put_dir(&w, twice, 2, false);
	}
	tree_start(&w, &r, &all[40], 0, "");
	call_end(&r);
	assert_int_equal(r.code, BJ_OK);
	assert_int_equal(check_page(&w, message_of(&r, 0), all, 41, token), 41);
	bj_buf_deinit(&r.bytes);
	world_down(&w);
}

/* ---- calls that end while a pool thread works for them ---- */

/** One call of each kind that goes to the pool. */
struct kind {
	const char *name;
	void (*start)(struct world *w, struct reply *r);
	bool has_job_close;
};

static struct bj_digest large_digest, dir_digest;
static const char *write_name;

static void start_read(struct world *w, struct reply *r)
{
	read_start(w, r, name_of(w, "", &large_digest), 0, 0);
}

static void start_write(struct world *w, struct reply *r)
{
	add_write(r, write_name, 0, BJ_STR_LIT("half"), false);
	call_start(w, r, WRITE, BJ_RPC_CLIENT_STREAM, NULL);
}

static void start_tree(struct world *w, struct reply *r)
{
	tree_start(w, r, &dir_digest, 0, "");
}

static const struct kind kinds[] = {
	{ "read", start_read, true },
	{ "write", start_write, true },
	{ "tree", start_tree, true },
	{ "find missing", find_missing, false },
};

static void prepare(struct world *w, struct fix *fix)
{
	world_up(w, fix);
	large_digest = put_random(fix, 5 << 20, 9);
	dir_digest = put_dir(w, NULL, 0, false);
	struct bj_digest absent = bj_digest_of(BJ_DIGEST_SHA256, BJ_STR_LIT("half and half"));
	write_name = name_of(w, "uploads/u/", &absent);
}

static void a_full_pool_is_told(void **state)
{
	struct world w;
	prepare(&w, *state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		struct reply r = REPLY_INIT;
		set_seams(POOL_REFUSES, false);
		kinds[i].start(&w, &r);
		call_end(&r);
		if (r.code != BJ_RESOURCE_EXHAUSTED)
			fail_msg("%s: code %d \"%s\"", kinds[i].name, (int)r.code, r.text);
		set_seams(POOL_REAL, false);
		await_nothing_held(&w);
		bj_buf_deinit(&r.bytes);
	}
	world_down(&w);
}

/* No memory to come back from the pool: the client hears of it, and what the call held is given back. */
static void a_lost_way_back_ends_the_call(void **state)
{
	struct world w;
	prepare(&w, *state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(kinds); i++) {
		struct reply r = REPLY_INIT;
		unsigned lost = counter_value(&n_lost);
		set_seams(POOL_REAL, true);
		kinds[i].start(&w, &r);
		call_end(&r);
		if (r.code != BJ_CANCELLED)
			fail_msg("%s: code %d \"%s\"", kinds[i].name, (int)r.code, r.text);
		assert_int_equal(counter_value(&n_lost), lost + 1);
		set_seams(POOL_REAL, false);
		await_nothing_held(&w);
		bj_buf_deinit(&r.bytes);
	}
	world_down(&w);
}

/* The client goes first, the pool thread comes back later; with and without memory to do so. */
static void a_client_that_goes_while_the_pool_works(void **state)
{
	struct world w;
	prepare(&w, *state);
	for (size_t i = 0; i < 2 * BJ_ARRAY_LEN(kinds); i++) {
		const struct kind *kind = &kinds[i / 2];
		struct reply r = REPLY_INIT;
		unsigned held = counter_value(&n_held), closed = counter_value(&n_closed);
		set_seams(POOL_HOLDS, false);
		kind->start(&w, &r);
		counter_wait(&n_held, held + 1);
		bj_rpc_cancel(r.call);
		call_end(&r);
		assert_int_equal(r.code, BJ_CANCELLED);
		if (kind->has_job_close)
			counter_wait(&n_closed, closed + 1);
		set_seams(POOL_REAL, i % 2);
		release_held();
		await_nothing_held(&w);
		bj_buf_deinit(&r.bytes);
	}
	world_down(&w);
}

/* At any moment: no order of the two sides may matter. */
static void clients_that_go_at_any_moment(void **state)
{
	enum { ROUNDS = 60 };
	struct world w;
	unsigned seed = 1;
	prepare(&w, *state);
	for (int i = 0; i < ROUNDS; i++) {
		struct reply r[BJ_ARRAY_LEN(kinds)];
		for (size_t j = 0; j < BJ_ARRAY_LEN(kinds); j++) {
			r[j] = REPLY_INIT;
			kinds[j].start(&w, &r[j]);
		}
		for (int spin = rand_r(&seed) % 50; spin > 0; spin--)
			sched_yield();
		for (size_t j = 0; j < BJ_ARRAY_LEN(kinds); j++) {
			bj_rpc_cancel(r[j].call);
			call_end(&r[j]);
			assert_true(r[j].code == BJ_CANCELLED || r[j].code == BJ_OK);
			bj_buf_deinit(&r[j].bytes);
		}
	}
	await_nothing_held(&w);
	world_down(&w);
}

/* A read whose client takes nothing, a write whose client sends nothing: the server stops all the same. */
static void a_stop_ends_idle_streams(void **state)
{
	struct world w;
	struct reply read = REPLY_INIT, write = REPLY_INIT;
	prepare(&w, *state);
	start_read(&w, &read);
	start_write(&w, &write);
	counter_wait(&read.messages, 1);
	set_seams(POOL_REAL, false);
	bj_rpc_server_stop(BJ_STEAL_PTR(w.fixture.server), 0);
	call_end(&read);
	call_end(&write);
	bj_buf_deinit(&read.bytes);
	bj_buf_deinit(&write.bytes);
	world_down(&w);
	assert_int_equal(count_files(w.fix, "tmp"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(reads),
		FIX_TEST(writes),
		FIX_TEST(trees),
		FIX_TEST(a_tree_that_explodes),
		FIX_TEST(a_full_pool_is_told),
		FIX_TEST(a_lost_way_back_ends_the_call),
		FIX_TEST(a_client_that_goes_while_the_pool_works),
		FIX_TEST(clients_that_go_at_any_moment),
		FIX_TEST(a_stop_ends_idle_streams),
	};
	return cmocka_run_group_tests_name("service/stream", tests, NULL, NULL);
}
