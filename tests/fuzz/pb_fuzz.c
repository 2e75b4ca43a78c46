// SPDX-License-Identifier: Apache-2.0
/*
 * bj_pb_unpack() on anything. Byte 0 chooses the message type, byte 1 the arena's cap, the rest is the wire. The oracle is
 * a second check of the strings, by plain recursion over the descriptors, with a UTF-8 decoder of its own: what it finds
 * bad must be refused, and what is accepted must survive being packed and unpacked again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "build/bazel/remote/execution/v2/remote_execution.pb-c.h"
#include "executor/base/pb.h"
#include "google/rpc/status.pb-c.h"
#include "pb_test.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADER_BYTES = 2, ORACLE_DEPTH = 200, MIN_CAP_SHIFT = 9, N_CAP_SHIFTS = 16 };

#define REAPI(name) &build__bazel__remote__execution__v2__##name##__descriptor

static const ProtobufCMessageDescriptor *const types[] = {
	&bj__test__outer__descriptor,
	&bj__test__tree__descriptor,
	&bj__test__plain__descriptor,
	&google__rpc__status__descriptor,
	REAPI(action),
	REAPI(action_result),
	REAPI(batch_update_blobs_request),
	REAPI(command),
	REAPI(directory),
	REAPI(execute_request),
	REAPI(execute_response),
	REAPI(find_missing_blobs_request),
	REAPI(get_action_result_request),
	REAPI(tree),
};

/* ---- the oracle ---- */

enum finding { FINE, BAD_STRING, NOT_WIRE };

struct input {
	const uint8_t *at, *end;
};

static bool take_varint(struct input *in, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 70; shift += 7) {
		if (in->at == in->end)
			return false;
		uint8_t byte = *in->at++;
		*value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Code points by arithmetic: length from the first byte, then range checks on the result. */
static bool is_text(const uint8_t *p, size_t n)
{
	static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
	for (size_t i = 0; i < n;) {
		size_t len = p[i] < 0x80       ? 1
			     : p[i] >> 5 == 6  ? 2
			     : p[i] >> 4 == 14 ? 3
			     : p[i] >> 3 == 30 ? 4
					       : 0;
		if (len == 0 || len > n - i)
			return false;
		uint32_t cp = len == 1 ? p[i] : p[i] & (0xffu >> (len + 1));
		for (size_t k = 1; k < len; k++) {
			if (p[i + k] >> 6 != 2)
				return false;
			cp = cp << 6 | (p[i + k] & 0x3f);
		}
		if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
			return false;
		i += len;
	}
	return true;
}

static enum finding look(struct input in, const ProtobufCMessageDescriptor *type, int depth);

static enum finding look_at_bytes(struct input in, const ProtobufCMessageDescriptor *type,
				  uint64_t number, int depth)
{
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		if (field->id != number)
			continue;
		if (field->type == PROTOBUF_C_TYPE_STRING)
			return is_text(in.at, (size_t)(in.end - in.at)) ? FINE : BAD_STRING;
		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			return look(in, field->descriptor, depth + 1);
	}
	return FINE;
}

/* The first thing that is wrong. */
static enum finding look(struct input in, const ProtobufCMessageDescriptor *type, int depth)
{
	if (depth == ORACLE_DEPTH)
		return NOT_WIRE;
	while (in.at < in.end) {
		uint64_t tag, value;
		if (!take_varint(&in, &tag))
			return NOT_WIRE;
		if ((tag & 7) == 0) {
			if (!take_varint(&in, &value))
				return NOT_WIRE;
			continue;
		}
		size_t left = (size_t)(in.end - in.at);
		if ((tag & 7) == 1 || (tag & 7) == 5) {
			size_t n = (tag & 7) == 1 ? 8 : 4;
			if (left < n)
				return NOT_WIRE;
			in.at += n;
			continue;
		}
		if ((tag & 7) != 2 || !take_varint(&in, &value) ||
		    value > (uint64_t)(in.end - in.at))
			return NOT_WIRE;
		struct input inner = { in.at, in.at + value };
		enum finding finding = look_at_bytes(inner, type, tag >> 3, depth);
		if (finding != FINE)
			return finding;
		in.at += value;
	}
	return FINE;
}

/* ---- the target ---- */

static void check_again(ProtobufCMessage *msg)
{
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *again;
	bj_arena_init(&arena, 0);
	struct bj_str wire = bj_pb_pack(&arena, msg);
	bj_assert(wire.ptr);
	bj_assert(bj_pb_unpack(wire, msg->descriptor, &arena, &again, &err) == 0);
	struct bj_str wire_again = bj_pb_pack(&arena, again);
	bj_assert(bj_str_eq(wire, wire_again));
	bj_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEADER_BYTES)
		return 0;
	const ProtobufCMessageDescriptor *type = types[data[0] % BJ_ARRAY_LEN(types)];
	struct bj_arena arena;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *msg = NULL;
	struct bj_str wire = bj_str_n(data + HEADER_BYTES, size - HEADER_BYTES);
	bj_arena_init(&arena, (size_t)1 << (MIN_CAP_SHIFT + data[1] % N_CAP_SHIFTS));

	int rc = bj_pb_unpack(wire, type, &arena, &msg, &err);
	enum finding finding = look((struct input){ data + HEADER_BYTES, data + size }, type, 0);
	bj_assert(rc == 0 || rc == -BJ_INVALID_ARGUMENT || rc == -BJ_RESOURCE_EXHAUSTED);
	bj_assert((rc == 0) == !bj_err_is_set(&err));
	bj_assert((rc == 0) == (msg != NULL));
	if (finding == BAD_STRING)
		bj_assert(rc == -BJ_INVALID_ARGUMENT);
	if (rc == 0) {
		bj_assert(finding == FINE);
		check_again(msg);
	}
	bj_arena_deinit(&arena);
	return 0;
}
