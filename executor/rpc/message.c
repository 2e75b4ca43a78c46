// SPDX-License-Identifier: Apache-2.0
/*
 * Messages arrive as a list of slices (of 8 to 64 KiB, as core read them) while protobuf-c wants one run of bytes: a
 * single slice is parsed in place, several are copied together once.
 */
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include "executor/base/alloc.h"
#include "executor/rpc/rpc-internal.h"

static struct bj_str slice_view(const grpc_slice *slice)
{
	return bj_str_n(GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
}

static void copy_slices(grpc_byte_buffer_reader *reader, char *to, size_t n_bytes)
{
	size_t at = 0;
	grpc_slice *slice;
	while (grpc_byte_buffer_reader_peek(reader, &slice)) {
		struct bj_str bytes = slice_view(slice);
		bj_assert(bytes.len <= n_bytes - at);
		if (bytes.len)
			memcpy(to + at, bytes.ptr, bytes.len);
		at += bytes.len;
	}
	bj_assert(at == n_bytes);
}

static int unpack_reader(grpc_byte_buffer_reader *reader, size_t n_bytes,
			 const ProtobufCMessageDescriptor *type, struct bj_arena *arena,
			 ProtobufCMessage **out_msg, struct bj_err *err)
{
	if (reader->buffer_out->data.raw.slice_buffer.count <= 1) {
		grpc_slice *slice = NULL;
		struct bj_str bytes = BJ_STR_NULL;
		if (grpc_byte_buffer_reader_peek(reader, &slice))
			bytes = slice_view(slice);
		return bj_pb_unpack(bytes, type, arena, out_msg, err);
	}
	bj_cleanup(bj_freep) char *flat = bj_malloc(n_bytes);
	if (!flat)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for a %s of %zu bytes",
				  type->name, n_bytes);
	copy_slices(reader, flat, n_bytes);
	return bj_pb_unpack(bj_str_n(flat, n_bytes), type, arena, out_msg, err);
}

int bj_rpc_unpack(grpc_byte_buffer *buf, const ProtobufCMessageDescriptor *type,
		  struct bj_arena *arena, ProtobufCMessage **out_msg, struct bj_err *err)
{
	if (!buf)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s is missing", type->name);
	if (buf->type != GRPC_BB_RAW || buf->data.raw.compression != GRPC_COMPRESS_NONE)
		return bj_err_set(err, BJ_UNIMPLEMENTED, "%s is compressed", type->name);
	grpc_byte_buffer_reader reader;
	if (!grpc_byte_buffer_reader_init(&reader, buf))
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "%s can't be read", type->name);
	int rc = unpack_reader(&reader, grpc_byte_buffer_length(buf), type, arena, out_msg, err);
	grpc_byte_buffer_reader_destroy(&reader);
	return rc;
}

grpc_slice bj_rpc_pack(const ProtobufCMessage *msg)
{
	grpc_slice slice = grpc_slice_malloc(protobuf_c_message_get_packed_size(msg));
	(void)protobuf_c_message_pack(msg, GRPC_SLICE_START_PTR(slice)); /* writes exactly that */
	return slice;
}

bool bj_rpc_send_msg(struct bj_rpc_call *call, const ProtobufCMessage *msg)
{
	if (!bj_rpc_writable(call))
		return false;
	grpc_slice slice = bj_rpc_pack(msg);
	return bj_rpc_send(call, &slice, 1);
}

void bj_rpc_reply_msg(struct bj_rpc_call *call, const ProtobufCMessage *msg)
{
	grpc_slice slice = bj_rpc_pack(msg);
	bj_rpc_reply(call, &slice, 1, NULL);
}
