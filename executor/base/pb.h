// SPDX-License-Identifier: Apache-2.0
/**
 * base/pb.h - protobuf-c behind a capped arena, with the checks that protobuf-c 1.4 leaves out.
 * A target of its own (//executor/base:pb), since base itself needs libc and xxHash only.
 * Owns nothing: messages live in the arena that the caller gives. Threads: the arena's owner.
 */
#ifndef BJ_BASE_PB_H
#define BJ_BASE_PB_H

#include <protobuf-c/protobuf-c.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/str.h"

/**
 * bj_pb_unpack() - parse one message.
 * @bytes: borrowed during the call only; the message copies
 * @out_msg: in @arena, never to be freed by protobuf_c_message_free_unpacked()
 * Groups (proto2 only) are refused; so are messages nested more than 100 deep.
 * Return: 0; -INVALID_ARGUMENT when malformed, or when a `string` field, at any depth, is invalid UTF-8 or holds a NUL
 * (protobuf-c cuts or passes those): the message type and the field are named; -RESOURCE_EXHAUSTED when the arena's cap is reached.
 */
BJ_MUST_USE int bj_pb_unpack(struct bj_str bytes, const ProtobufCMessageDescriptor *type,
			     struct bj_arena *arena, ProtobufCMessage **out_msg,
			     struct bj_err *err);

/** Packs into @arena; ptr NULL without memory. An empty message gives an empty view with a non-NULL ptr. */
struct bj_str bj_pb_pack(struct bj_arena *arena, const ProtobufCMessage *msg);

#endif
