// SPDX-License-Identifier: Apache-2.0
/*
 * protobuf-c keeps a `string` as a C string: what follows a NUL is invisible in the parsed message, and UTF-8 is not
 * looked at. So the check runs over the wire bytes, before the parse, as one flat loop with a stack of its own:
 *
 *	frame 0: ExecuteRequest  ...............[action_digest]....
 *	frame 1:                                 hash size           <- the cursor only ever moves right
 *
 * What to do with a field number is worked out once per message type and kept for the life of the process (a plan).
 * Messages are entered even where no string can be: so the limit on depth protects protobuf-c, which recurses without
 * one, and what is malformed is refused everywhere alike (protobuf-c takes a field number of 0, for one).
 *
 * Plans live in a fixed table that is only ever added to: readers take no lock. A plan is published with release and
 * read with acquire; when two threads make the same plan, the loser frees its copy. There are a few hundred message
 * types; a process with more than the table holds is refused service, not the check.
 */
#include "executor/base/pb.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "executor/base/alloc.h"

enum {
	MAX_DEPTH = 100, /* messages within messages, as other implementations allow */
	N_PLANS = 1024,	 /* slots of the table, a power of two */
	N_DIRECT = 32,	 /* field numbers below it are looked up directly; REAPI uses up to 21 */
	MAX_VARINT_BYTES = 10 /* 64 bits, 7 a byte */
};

enum wire {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_LEN = 2,
	WIRE_GROUP = 3,
	WIRE_GROUP_END = 4,
	WIRE_32 = 5
};

struct plan {
	const ProtobufCMessageDescriptor *type;
	/* By field number: a string to check or a message to enter; NULL is stepped over. */
	const ProtobufCFieldDescriptor *fields[N_DIRECT];
};

static _Atomic(const struct plan *) plans[N_PLANS];

static bool is_looked_at(const ProtobufCFieldDescriptor *field)
{
	return field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE;
}

static void plan_make(const ProtobufCMessageDescriptor *type, struct plan *plan)
{
	*plan = (struct plan){ .type = type };
	for (unsigned i = 0; i < type->n_fields; i++)
		if (type->fields[i].id < N_DIRECT && is_looked_at(&type->fields[i]))
			plan->fields[type->fields[i].id] = &type->fields[i];
}

static const struct plan *plan_add(const ProtobufCMessageDescriptor *type, size_t slot)
{
	struct plan *fresh = bj_malloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	plan_make(type, fresh);
	for (size_t i = 0; i < N_PLANS; i++, slot = (slot + 1) % N_PLANS) {
		const struct plan *expected = NULL;
		if (atomic_compare_exchange_strong_explicit(&plans[slot], &expected, fresh,
							    memory_order_acq_rel,
							    memory_order_acquire))
			return fresh;
		if (expected->type == type) {
			bj_free(fresh);
			return expected;
		}
	}
	bj_free(fresh);
	return NULL;
}

/* NULL without memory, or with a full table. */
static inline const struct plan *plan_of(const ProtobufCMessageDescriptor *type)
{
	uint64_t hash = (uint64_t)((uintptr_t)type >> 4) * UINT64_C(0x9E3779B97F4A7C15);
	size_t slot = (size_t)(hash >> 32) % N_PLANS;
	for (size_t i = 0; i < N_PLANS; i++) {
		const struct plan *plan =
			atomic_load_explicit(&plans[(slot + i) % N_PLANS], memory_order_acquire);
		if (!plan)
			break;
		if (plan->type == type)
			return plan;
	}
	return plan_add(type, slot);
}

/* The string or message to look at; NULL for a field that is stepped over. */
static inline const ProtobufCFieldDescriptor *field_of(const struct plan *plan, unsigned number)
{
	if (number < N_DIRECT)
		return plan->fields[number];
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field(plan->type, number);
	return field && is_looked_at(field) ? field : NULL;
}

/* ---- the walk ---- */

struct frame {
	const struct plan *plan;
	const uint8_t *end;
};

struct walk {
	const uint8_t *start;
	const uint8_t *at;
	struct frame now;
	size_t depth; /* outer messages, in frames[] */
	struct frame frames[MAX_DEPTH];
	struct bj_err *err;
};

static int malformed(const struct walk *walk, const char *what)
{
	return bj_err_set(walk->err, BJ_INVALID_ARGUMENT, "malformed %s: %s at byte %zu",
			  walk->now.plan->type->name, what, (size_t)(walk->at - walk->start));
}

/* False: cut off at @end, or longer than 64 bits. */
static inline bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out_value)
{
	const uint8_t *p = *at;
	if (p < end && *p < 0x80) {
		*out_value = *p;
		*at = p + 1;
		return true;
	}
	uint64_t value = 0;
	for (unsigned i = 0; i < MAX_VARINT_BYTES && p < end; i++) {
		uint8_t byte = *p++;
		if (i == MAX_VARINT_BYTES - 1 && byte > 1)
			return false;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			*out_value = value;
			*at = p;
			return true;
		}
	}
	return false;
}

/*
 * True when every byte is in 0x01..0x7f, eight at a time: of such bytes, less one, none has the top bit and none
 * borrows; a zero byte borrows and gets it, a byte above 0x7f has it in the plain word.
 */
static inline bool is_plain_ascii(const uint8_t *p, size_t n_bytes)
{
	const uint64_t ones = UINT64_C(0x0101010101010101);
	const uint64_t tops = UINT64_C(0x8080808080808080);
	uint64_t bad = 0;
	size_t i = 0;
	for (; i + 8 <= n_bytes; i += 8) {
		uint64_t word;
		memcpy(&word, p + i, 8);
		bad |= (word - ones) | word;
	}
	uint8_t bad_byte = 0;
	for (; i < n_bytes; i++)
		bad_byte |= (uint8_t)((p[i] - 1) | p[i]);
	return !(bad & tops) && !(bad_byte & 0x80);
}

static int check_string(const struct walk *walk, const ProtobufCFieldDescriptor *field,
			size_t n_bytes)
{
	if (is_plain_ascii(walk->at, n_bytes))
		return 0;
	const char *what = NULL;
	if (memchr(walk->at, 0, n_bytes))
		what = "holds a NUL byte";
	else if (!bj_str_is_utf8(bj_str_n(walk->at, n_bytes)))
		what = "is not valid UTF-8";
	if (!what)
		return 0;
	return bj_err_set(walk->err, BJ_INVALID_ARGUMENT, "%s.%s %s", walk->now.plan->type->name,
			  field->name, what);
}

static int skip_scalar(struct walk *walk, unsigned wire)
{
	uint64_t unused;
	size_t left = (size_t)(walk->now.end - walk->at);
	switch (wire) {
	case WIRE_VARINT:
		if (!read_varint(&walk->at, walk->now.end, &unused))
			return malformed(walk, "bad varint");
		return 0;
	case WIRE_64:
	case WIRE_32:
		if (left < (wire == WIRE_64 ? 8 : 4))
			return malformed(walk, "cut off");
		walk->at += wire == WIRE_64 ? 8 : 4;
		return 0;
	case WIRE_GROUP:
	case WIRE_GROUP_END:
		return malformed(walk, "a group, which proto3 does not have,");
	default:
		return malformed(walk, "unknown wire type");
	}
}

static int enter(struct walk *walk, const ProtobufCMessageDescriptor *type, size_t n_bytes)
{
	if (walk->depth == MAX_DEPTH - 1)
		return malformed(walk, "nested too deeply");
	const struct plan *plan = plan_of(type);
	if (!plan)
		return bj_err_set(walk->err, BJ_RESOURCE_EXHAUSTED, "no memory to check a %s",
				  type->name);
	walk->frames[walk->depth++] = walk->now;
	walk->now = (struct frame){ plan, walk->at + n_bytes };
	return 0;
}

/* The bytes of field @number are in [at, at + n_bytes): step over them, check them or make them the current frame. */
static int take_bytes(struct walk *walk, unsigned number, size_t n_bytes)
{
	const ProtobufCFieldDescriptor *field = field_of(walk->now.plan, number);
	if (field && field->type == PROTOBUF_C_TYPE_STRING) {
		int rc = check_string(walk, field, n_bytes);
		if (rc < 0)
			return rc;
	} else if (field && n_bytes > 0) {
		return enter(walk, field->descriptor, n_bytes);
	}
	walk->at += n_bytes;
	return 0;
}

static int walk_field(struct walk *walk)
{
	uint64_t tag, len;
	if (!read_varint(&walk->at, walk->now.end, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
		return malformed(walk, "bad tag");
	if ((tag & 7) != WIRE_LEN)
		return skip_scalar(walk, (unsigned)(tag & 7));
	if (!read_varint(&walk->at, walk->now.end, &len))
		return malformed(walk, "bad length");
	if (len > (uint64_t)(walk->now.end - walk->at))
		return malformed(walk, "length beyond the end");
	return take_bytes(walk, (unsigned)(tag >> 3), (size_t)len);
}

static int check_strings(struct bj_str bytes, const ProtobufCMessageDescriptor *type,
			 struct bj_err *err)
{
	const struct plan *plan = plan_of(type);
	if (!plan)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory to check a %s",
				  type->name);
	const uint8_t *start = (const uint8_t *)bytes.ptr;
	struct walk walk; /* set by hand: frames[] is 1600 bytes that most messages do not need */
	walk.start = walk.at = start;
	walk.now = (struct frame){ plan, start + bytes.len };
	walk.depth = 0;
	walk.err = err;
	for (;;) {
		while (walk.at == walk.now.end) {
			if (walk.depth == 0)
				return 0;
			walk.now = walk.frames[--walk.depth];
		}
		int rc = walk_field(&walk);
		if (rc < 0)
			return rc;
	}
}

/* ---- protobuf-c over an arena ---- */

struct arena_allocator {
	struct bj_arena *arena;
	bool refused; /* an allocation was: what protobuf-c reports as a parse failure is lack of room */
};

static void *allocator_alloc(void *data, size_t n_bytes)
{
	struct arena_allocator *self = data;
	void *p = bj_arena_alloc(self->arena, n_bytes);
	if (!p)
		self->refused = true;
	return p;
}

static void allocator_free(void *data, void *p)
{
	(void)data;
	(void)p; /* dies with the arena */
}

int bj_pb_unpack(struct bj_str bytes, const ProtobufCMessageDescriptor *type,
		 struct bj_arena *arena, ProtobufCMessage **out_msg, struct bj_err *err)
{
	if (bytes.len == 0)
		bytes.ptr = "";
	int rc = check_strings(bytes, type, err);
	if (rc < 0)
		return rc;
	struct arena_allocator state = { .arena = arena };
	ProtobufCAllocator allocator = { allocator_alloc, allocator_free, &state };
	ProtobufCMessage *msg =
		protobuf_c_message_unpack(type, &allocator, bytes.len, (const uint8_t *)bytes.ptr);
	if (msg) {
		*out_msg = msg;
		return 0;
	}
	if (state.refused)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "%s of %zu bytes needs more than %zu bytes of memory", type->name,
				  bytes.len, arena->max_bytes);
	return bj_err_set(err, BJ_INVALID_ARGUMENT, "malformed %s of %zu bytes", type->name,
			  bytes.len);
}

struct bj_str bj_pb_pack(struct bj_arena *arena, const ProtobufCMessage *msg)
{
	size_t n_bytes = protobuf_c_message_get_packed_size(msg);
	uint8_t *bytes = bj_arena_alloc(arena, n_bytes);
	if (!bytes)
		return BJ_STR_NULL;
	(void)protobuf_c_message_pack(msg, bytes); /* writes exactly n_bytes */
	return bj_str_n(bytes, n_bytes);
}
