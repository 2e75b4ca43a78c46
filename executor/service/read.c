// SPDX-License-Identifier: Apache-2.0
/*
 * ByteStream.Read: a blob in chunks.
 *
 *   open ──> pool: open the blob, read a chunk ──> loop: send ──> sent() ──> pool: next chunk … ──> finish
 * One chunk is in memory for each stream, and the next is read only when flow control has taken it: a peer that does not read costs nothing more.
 */
#include <errno.h>
#include <unistd.h>

#include "executor/base/fd.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"
#include "google/bytestream/bytestream.pb-c.h"

struct reading {
	struct job job;
	struct bj_rpc_call *call;
	struct bj_services *services;
	struct bj_digest digest;
	uint64_t offset, end; /* bytes still to be sent: [offset, end) */
	int fd;		      /* -EBADF before the first chunk */
	struct bj_hasher
		*hasher;  /* of a read from 0 to the end: what rots on the disk is found here */
	grpc_slice chunk; /* read, on its way to the loop */
	struct bj_err err;
};

/* Field 10 of ReadResponse, length-delimited: tag, varint, then the bytes as a slice of their own, so that nothing is copied. */
static grpc_slice chunk_header(size_t n)
{
	uint8_t bytes[11];
	size_t at = 0;

	bytes[at++] = 0x52;
	while (n >= 0x80) {
		bytes[at++] = (uint8_t)(n | 0x80);
		n >>= 7;
	}
	bytes[at++] = (uint8_t)n;
	return grpc_slice_from_copied_buffer((const char *)bytes, at);
}

static void release(struct job *job)
{
	struct reading *rd = BJ_CONTAINER_OF(job, struct reading, job);

	bj_close_fdp(&rd->fd);
	bj_hasher_free(rd->hasher);
	rd->hasher = NULL;
	grpc_slice_unref(rd->chunk);
	rd->chunk = grpc_empty_slice();
}

static void on_chunk(struct job *job)
{
	struct reading *rd = BJ_CONTAINER_OF(job, struct reading, job);
	size_t n = GRPC_SLICE_LENGTH(rd->chunk);

	if (bj_err_is_set(&rd->err)) {
		bj_rpc_fail(rd->call, &rd->err);
		return;
	}
	if (n) {
		grpc_slice slices[2] = { chunk_header(n), rd->chunk };

		rd->chunk = grpc_empty_slice();
		rd->offset += n;
		BJ_IGNORE(bj_rpc_send(rd->call, slices, 2)); /* refused after a cancel only */
	}
	if (rd->offset == rd->end)
		bj_rpc_finish(rd->call, NULL);
}

static int open_blob(struct reading *rd)
{
	char text[BJ_DIGEST_STR_BYTES];
	int r = bj_store_open_blob(rd->services->opts.store, &rd->digest, &rd->fd, &rd->err);

	if (r == BJ_STORE_E_MISSING) {
		bj_digest_str(&rd->digest, text);
		return bj_err_set(&rd->err, BJ_NOT_FOUND, "blob %s is not in the CAS", text);
	}
	if (r == 0 && rd->offset == 0 && rd->end == rd->digest.size_bytes)
		r = bj_hasher_new(rd->digest.fn, &rd->hasher, &rd->err);
	return r;
}

static int read_chunk(struct reading *rd)
{
	size_t want = (size_t)BJ_MIN(rd->end - rd->offset, (uint64_t)BJ_READ_CHUNK_BYTES), got = 0;
	grpc_slice chunk = grpc_slice_malloc(want);

	while (got < want) {
		ssize_t n = pread(rd->fd, GRPC_SLICE_START_PTR(chunk) + got, want - got,
				  (off_t)(rd->offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			grpc_slice_unref(chunk);
			return n < 0 ? bj_err_errno(&rd->err, errno, "read a blob")
				     : bj_err_set(&rd->err, BJ_DATA_LOSS,
						  "a blob is shorter than its digest says");
		}
		got += (size_t)n;
	}
	rd->chunk = chunk;
	return 0;
}

/* The last chunk of a whole read is not sent before the bytes have hashed to their name. */
static int verify(struct reading *rd)
{
	char text[BJ_DIGEST_STR_BYTES];

	if (!rd->hasher)
		return 0;
	bj_hasher_update(rd->hasher, GRPC_SLICE_START_PTR(rd->chunk), GRPC_SLICE_LENGTH(rd->chunk));
	if (rd->offset + GRPC_SLICE_LENGTH(rd->chunk) < rd->end)
		return 0;
	struct bj_digest got = bj_hasher_finish(rd->hasher);

	if (bj_digest_eq(&got, &rd->digest))
		return 0;
	bj_store_discard(rd->services->opts.store, &rd->digest);
	bj_digest_str(&rd->digest, text);
	return bj_err_set(&rd->err, BJ_DATA_LOSS, "blob %s was damaged on the disk; it is dropped",
			  text);
}

static void work(struct job *job)
{
	struct reading *rd = BJ_CONTAINER_OF(job, struct reading, job);
	int r = rd->fd < 0 ? open_blob(rd) : 0;

	if (r == 0)
		r = read_chunk(rd);
	if (r == 0)
		r = verify(rd);
	bj_assert((r < 0) == bj_err_is_set(&rd->err));
}

/*
 * Spec of ReadRequest: read_offset "negative or larger than the size: OUT_OF_RANGE"; read_limit "zero: no limit; negative: error".
 * A read at exactly the end gives nothing and is fine.
 */
static int check_range(struct reading *rd, const Google__Bytestream__ReadRequest *req,
		       struct bj_err *err)
{
	uint64_t size = rd->digest.size_bytes;

	if (req->read_limit < 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "read_limit is negative: %lld",
				  (long long)req->read_limit);
	if (req->read_offset < 0 || (uint64_t)req->read_offset > size)
		return bj_err_set(err, BJ_OUT_OF_RANGE,
				  "read_offset %lld is outside of a blob of %llu bytes",
				  (long long)req->read_offset, (unsigned long long)size);
	rd->offset = (uint64_t)req->read_offset;
	rd->end = req->read_limit > 0
			  ? rd->offset + BJ_MIN((uint64_t)req->read_limit, size - rd->offset)
			  : size;
	return 0;
}

static int start(struct reading *rd, grpc_byte_buffer *request, struct bj_err *err)
{
	struct bj_resource resource;
	ProtobufCMessage *message;
	int r = bj_rpc_unpack(request, &google__bytestream__read_request__descriptor,
			      bj_rpc_arena(rd->call), &message, err);

	if (r < 0)
		return r;
	const Google__Bytestream__ReadRequest *req =
		(const Google__Bytestream__ReadRequest *)message;

	r = bj_resource_parse_read(bj_str_of(req->resource_name), &resource, err);
	if (r < 0)
		return r;
	rd->digest = resource.digest;
	return check_range(rd, req, err);
}

static void on_open(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	struct reading *rd = BJ_ARENA_NEW(bj_rpc_arena(call), struct reading);
	struct bj_err err = BJ_ERR_NULL;

	if (!rd) {
		(void)bj_err_set(&err, BJ_RESOURCE_EXHAUSTED, "out of memory for a call");
		bj_rpc_fail(call, &err);
		return;
	}
	*rd = (struct reading){ .job = { .work = work, .done = on_chunk, .release = release },
				.call = call,
				.services = bj_rpc_svc(call),
				.fd = -EBADF,
				.chunk = grpc_empty_slice() };
	job_init(&rd->job, call);
	bj_rpc_set_data(call, rd);
	if (start(rd, request, &err) < 0)
		bj_rpc_fail(call, &err);
	else
		job_start(
			&rd->job); /* with nothing to send as well: a blob that is missing must be told */
}

static void on_sent(struct bj_rpc_call *call)
{
	struct reading *rd = bj_rpc_data(call);

	if (rd && rd->offset < rd->end)
		job_start(&rd->job);
}

static void on_closed(struct bj_rpc_call *call, const struct bj_rpc_status *status)
{
	struct reading *rd = bj_rpc_data(call);

	(void)status;
	if (rd)
		job_close(&rd->job);
}

static const struct bj_rpc_handler read_handler = { .open = on_open,
						    .sent = on_sent,
						    .closed = on_closed };

struct service_table service_read(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/google.bytestream.ByteStream/Read", BJ_RPC_SERVER_STREAM, &read_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
