// SPDX-License-Identifier: Apache-2.0
/*
 * Two bits a level, array or object and filled or empty, are all that a writer has to know: they decide about the comma,
 * the line break and what may come next.
 */
#include "executor/base/json.h"

#include <inttypes.h>

#include "executor/base/buf.h"
#include "executor/base/str-internal.h"

_Static_assert(BJ_JSON_MAX_DEPTH <= 32, "a bit a level");

void bj_json_init(struct bj_json *json, struct bj_buf *buf, uint32_t indent_spaces)
{
	*json = (struct bj_json){ .buf = buf, .indent_spaces = indent_spaces };
}

bool bj_json_finish(struct bj_json *json)
{
	bj_assert(json->is_done && json->depth == 0);
	if (json->indent_spaces)
		bj_buf_append_char(json->buf, '\n');
	return !json->buf->failed;
}

/* The bit of the innermost open level. */
static uint32_t level_bit(const struct bj_json *json)
{
	return UINT32_C(1) << (json->depth - 1);
}

static bool is_in_array(const struct bj_json *json)
{
	return json->depth > 0 && (json->arrays & level_bit(json));
}

static void put_line_break(struct bj_json *json)
{
	if (!json->indent_spaces)
		return;
	bj_buf_append_char(json->buf, '\n');
	for (uint32_t i = 0; i < json->depth * json->indent_spaces; i++)
		bj_buf_append_char(json->buf, ' ');
}

/* Before a key, or an element of an array. */
static void begin_element(struct bj_json *json)
{
	if (json->filled & level_bit(json))
		bj_buf_append_char(json->buf, ',');
	json->filled |= level_bit(json);
	put_line_break(json);
}

static void begin_value(struct bj_json *json)
{
	bj_assert(!json->is_done);
	if (json->depth == 0)
		return;
	if (is_in_array(json))
		begin_element(json);
	else
		bj_assert(json->has_key);
	json->has_key = false;
}

static void end_value(struct bj_json *json)
{
	json->is_done = json->depth == 0;
}

static void open_level(struct bj_json *json, char bracket, bool is_array)
{
	begin_value(json);
	bj_assert(json->depth < BJ_JSON_MAX_DEPTH);
	json->depth++;
	json->filled &= ~level_bit(json);
	json->arrays &= ~level_bit(json);
	if (is_array)
		json->arrays |= level_bit(json);
	bj_buf_append_char(json->buf, bracket);
}

static void close_level(struct bj_json *json, char bracket, bool is_array)
{
	bj_assert(json->depth > 0 && is_in_array(json) == is_array && !json->has_key);
	bool is_filled = json->filled & level_bit(json);
	json->depth--;
	if (is_filled)
		put_line_break(json);
	bj_buf_append_char(json->buf, bracket);
	end_value(json);
}

void bj_json_object_begin(struct bj_json *json)
{
	open_level(json, '{', false);
}

void bj_json_object_end(struct bj_json *json)
{
	close_level(json, '}', false);
}

void bj_json_array_begin(struct bj_json *json)
{
	open_level(json, '[', true);
}

void bj_json_array_end(struct bj_json *json)
{
	close_level(json, ']', true);
}

static void put_escape(struct bj_buf *buf, uint32_t cp)
{
	static const char two_char[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
					 ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\' };
	if (cp < sizeof(two_char) && two_char[cp])
		bj_buf_printf(buf, "\\%c", two_char[cp]);
	else
		bj_buf_printf(buf, "\\u%04" PRIx32, cp); /* all that is hidden is below U+10000 */
}

static void put_string(struct bj_buf *buf, struct bj_str s)
{
	bj_buf_append_char(buf, '"');
	size_t plain = 0; /* start of what is not written yet and needs no escape */
	size_t at = 0;
	while (at < s.len) {
		uint32_t cp;
		size_t n = bj_utf8_decode(bj_str_n(s.ptr + at, s.len - at), &cp);
		bool is_plain = n > 0 && !bj_char_is_hidden(cp) && cp != '"' && cp != '\\';
		if (!is_plain) {
			bj_buf_append(buf, s.ptr + plain, at - plain);
			if (n > 0)
				put_escape(buf, cp);
			else
				bj_buf_append_cstr(buf, "\xef\xbf\xbd"); /* U+FFFD */
			plain = at + (n ? n : 1);
		}
		at += n ? n : 1;
	}
	if (at > plain)
		bj_buf_append(buf, s.ptr + plain, at - plain);
	bj_buf_append_char(buf, '"');
}

void bj_json_key(struct bj_json *json, const char *key)
{
	bj_assert(json->depth > 0 && !is_in_array(json) && !json->has_key);
	begin_element(json);
	put_string(json->buf, bj_str_of(key));
	bj_buf_append_cstr(json->buf, json->indent_spaces ? ": " : ":");
	json->has_key = true;
}

void bj_json_str(struct bj_json *json, struct bj_str value)
{
	begin_value(json);
	put_string(json->buf, value);
	end_value(json);
}

void bj_json_cstr(struct bj_json *json, const char *value)
{
	if (value)
		bj_json_str(json, bj_str_of(value));
	else
		bj_json_null(json);
}

static void put_word(struct bj_json *json, const char *word)
{
	begin_value(json);
	bj_buf_append_cstr(json->buf, word);
	end_value(json);
}

void bj_json_u64(struct bj_json *json, uint64_t value)
{
	begin_value(json);
	bj_buf_printf(json->buf, "%" PRIu64, value);
	end_value(json);
}

void bj_json_i64(struct bj_json *json, int64_t value)
{
	begin_value(json);
	bj_buf_printf(json->buf, "%" PRId64, value);
	end_value(json);
}

void bj_json_bool(struct bj_json *json, bool value)
{
	put_word(json, value ? "true" : "false");
}

void bj_json_null(struct bj_json *json)
{
	put_word(json, "null");
}

void bj_json_field_str(struct bj_json *json, const char *key, struct bj_str value)
{
	bj_json_key(json, key);
	bj_json_str(json, value);
}

void bj_json_field_cstr(struct bj_json *json, const char *key, const char *value)
{
	bj_json_key(json, key);
	bj_json_cstr(json, value);
}

void bj_json_field_u64(struct bj_json *json, const char *key, uint64_t value)
{
	bj_json_key(json, key);
	bj_json_u64(json, value);
}

void bj_json_field_i64(struct bj_json *json, const char *key, int64_t value)
{
	bj_json_key(json, key);
	bj_json_i64(json, value);
}

void bj_json_field_bool(struct bj_json *json, const char *key, bool value)
{
	bj_json_key(json, key);
	bj_json_bool(json, value);
}
