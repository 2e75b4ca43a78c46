// SPDX-License-Identifier: Apache-2.0
/**
 * base/json.h - a streaming JSON writer over a bj_buf; there is no reader.
 * Owns nothing: the buffer is the caller's and its limit is the limit of the text. Threads: one owner.
 * Spec: RFC 8259.
 *
 * Calls in a wrong order (a value without a key in an object, an end without its begin) are bugs and asserted. Running
 * out of memory is not: everything after it is ignored, and bj_json_finish() says so.
 *
 * Strings may hold any bytes. What comes out is valid UTF-8 and safe to show: control, bidirectional and separator
 * characters as \uXXXX, each invalid byte as U+FFFD. That loses bytes: whoever needs them writes bj_str_printable().
 *
 *	struct bj_json json;
 *	bj_json_init(&json, &buf, 2);
 *	bj_json_object_begin(&json);
 *	bj_json_field_str(&json, "path", path);
 *	bj_json_key(&json, "sizes");
 *	bj_json_array_begin(&json);
 *	bj_json_u64(&json, 7);
 *	bj_json_array_end(&json);
 *	bj_json_object_end(&json);
 *	bool is_whole = bj_json_finish(&json);
 */
#ifndef BJ_BASE_JSON_H
#define BJ_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "executor/base/macros.h"
#include "executor/base/str.h"

struct bj_buf;

enum { BJ_JSON_MAX_DEPTH = 32 };

struct bj_json {
	struct bj_buf *buf;	/* borrowed */
	uint32_t indent_spaces; /* per level; 0: all on one line, no spaces */
	uint32_t depth;		/* open objects and arrays */
	uint32_t arrays;	/* bit i: level i + 1 is an array */
	uint32_t filled;	/* bit i: level i + 1 has an element */
	bool has_key;		/* a key waits for its value */
	bool is_done;		/* the one top-level value is complete */
};

void bj_json_init(struct bj_json *json, struct bj_buf *buf, uint32_t indent_spaces);
/** Asserts that one whole value was written. False: the buffer failed, its contents are cut. */
BJ_MUST_USE bool bj_json_finish(struct bj_json *json);

void bj_json_object_begin(struct bj_json *json);
void bj_json_object_end(struct bj_json *json);
void bj_json_array_begin(struct bj_json *json);
void bj_json_array_end(struct bj_json *json);

/** The next call writes its value. Names are ours, so they are C strings; that they are unique is the caller's care. */
void bj_json_key(struct bj_json *json, const char *key);

void bj_json_str(struct bj_json *json, struct bj_str value);
void bj_json_cstr(struct bj_json *json, const char *value); /* NULL gives null */
/** As a number, exact to the last digit; readers that use doubles round above 2^53. */
void bj_json_u64(struct bj_json *json, uint64_t value);
void bj_json_i64(struct bj_json *json, int64_t value);
void bj_json_bool(struct bj_json *json, bool value);
void bj_json_null(struct bj_json *json);

/** A key and its value in one call. */
void bj_json_field_str(struct bj_json *json, const char *key, struct bj_str value);
void bj_json_field_cstr(struct bj_json *json, const char *key, const char *value);
void bj_json_field_u64(struct bj_json *json, const char *key, uint64_t value);
void bj_json_field_i64(struct bj_json *json, const char *key, int64_t value);
void bj_json_field_bool(struct bj_json *json, const char *key, bool value);

#endif
