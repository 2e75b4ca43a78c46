// SPDX-License-Identifier: Apache-2.0
#include "executor/base/str.h"

#include "executor/base/arena.h"
#include "executor/base/str-internal.h"

/* What begins at @at < s.len. */
static struct bj_str rest_of(struct bj_str s, size_t at)
{
	return bj_str_n(s.ptr + at, s.len - at);
}

bool bj_str_has_prefix(struct bj_str s, struct bj_str prefix)
{
	return s.len >= prefix.len && bj_str_eq(bj_str_n(s.ptr, prefix.len), prefix);
}

bool bj_str_has_suffix(struct bj_str s, struct bj_str suffix)
{
	return s.len >= suffix.len && bj_str_eq(bj_str_sub(s, s.len - suffix.len, s.len), suffix);
}

int bj_str_cmp(struct bj_str a, struct bj_str b)
{
	size_t n = BJ_MIN(a.len, b.len);
	int order = n ? memcmp(a.ptr, b.ptr, n) : 0;
	return order ? order : (a.len > b.len) - (a.len < b.len);
}

size_t bj_str_find(struct bj_str s, char c, size_t from)
{
	if (from >= s.len)
		return s.len;
	const char *hit = memchr(s.ptr + from, c, s.len - from);
	return hit ? (size_t)(hit - s.ptr) : s.len;
}

struct bj_str bj_str_sub(struct bj_str s, size_t from, size_t to)
{
	to = BJ_MIN(to, s.len);
	from = BJ_MIN(from, to);
	return s.ptr ? bj_str_n(s.ptr + from, to - from) : BJ_STR_NULL;
}

struct bj_str bj_str_cut(struct bj_str *rest, char sep)
{
	struct bj_str whole = *rest;
	size_t at = bj_str_find(whole, sep, 0);
	*rest = at < whole.len ? bj_str_sub(whole, at + 1, whole.len) : BJ_STR_NULL;
	return bj_str_sub(whole, 0, at);
}

/*
 * The table of well-formed sequences (Unicode, table 3-7) says that only the second byte has a range that depends on
 * the first: E0 and F0 exclude overlong forms, ED surrogates, F4 what lies above U+10FFFF.
 */
size_t bj_utf8_decode(struct bj_str s, uint32_t *out_cp)
{
	unsigned char lead = (unsigned char)s.ptr[0];
	if (lead < 0x80) {
		*out_cp = lead;
		return 1;
	}
	size_t len = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
	if (len == 0 || s.len < len)
		return 0;
	unsigned char second = (unsigned char)s.ptr[1];
	unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
	if (second < low || second > high)
		return 0;

	uint32_t cp = lead & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];
		if ((c & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (c & 0x3fu);
	}
	*out_cp = cp;
	return len;
}

bool bj_str_is_utf8(struct bj_str s)
{
	size_t at = 0;
	while (at < s.len) {
		uint64_t word; /* eight ASCII bytes at a time: nearly all names are */
		if (s.len - at >= sizeof(word)) {
			memcpy(&word, s.ptr + at, sizeof(word));
			if ((word & UINT64_C(0x8080808080808080)) == 0) {
				at += sizeof(word);
				continue;
			}
		}
		uint32_t cp;
		size_t n = bj_utf8_decode(rest_of(s, at), &cp);
		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

bool bj_str_to_u64(struct bj_str s, uint64_t *out_value)
{
	if (s.len == 0 || (s.ptr[0] == '0' && s.len > 1))
		return false;
	uint64_t value = 0;
	for (size_t i = 0; i < s.len; i++) {
		unsigned char digit = (unsigned char)(s.ptr[i] - '0');
		if (digit > 9 || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			return false;
	}
	*out_value = value;
	return true;
}

bool bj_str_to_i64(struct bj_str s, int64_t *out_value)
{
	bool is_negative = s.len > 0 && s.ptr[0] == '-';
	uint64_t magnitude;
	if (!bj_str_to_u64(bj_str_sub(s, is_negative, s.len), &magnitude))
		return false;
	if (is_negative && magnitude == 0)
		return false;
	if (magnitude > (uint64_t)INT64_MAX + is_negative)
		return false;
	*out_value = is_negative ? (int64_t)(UINT64_C(0) - magnitude) : (int64_t)magnitude;
	return true;
}

char *bj_str_dup(struct bj_arena *arena, struct bj_str s)
{
	char *copy = bj_arena_alloc(arena, bj_size_add(s.len, 1));
	if (!copy)
		return NULL;
	if (s.len)
		memcpy(copy, s.ptr, s.len);
	copy[s.len] = '\0';
	return copy;
}

bool bj_char_is_hidden(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) ||      /* C0, DEL, C1 */
	       cp == 0x061c || cp == 0x200e || cp == 0x200f || /* direction marks */
	       (cp >= 0x2028 && cp <= 0x202e) || /* separators, embeddings and overrides */
	       (cp >= 0x2066 && cp <= 0x2069);	 /* isolates */
}

static size_t show_byte(unsigned char c, char *out)
{
	static const char hex[] = "0123456789abcdef";
	if (c == '\n' || c == '\t') {
		out[0] = '\\';
		out[1] = c == '\n' ? 'n' : 't';
		return 2;
	}
	out[0] = '\\';
	out[1] = 'x';
	out[2] = hex[c >> 4];
	out[3] = hex[c & 15];
	return 4;
}

size_t bj_str_show_char(struct bj_str s, char out[BJ_SHOWN_BYTES], size_t *out_len)
{
	uint32_t cp;
	size_t n = bj_utf8_decode(s, &cp);
	if (n > 0 && !bj_char_is_hidden(cp)) {
		memcpy(out, s.ptr, n);
		*out_len = n;
		return n;
	}
	size_t taken =
		n ? n : 1; /* an invalid byte is shown alone: the next may start a good one */
	size_t len = 0;
	for (size_t i = 0; i < taken; i++)
		len += show_byte((unsigned char)s.ptr[i], out + len);
	*out_len = len;
	return taken;
}

/* One character of bj_str_printable(): as above, and a backslash doubled, so that the text is unambiguous. */
static size_t printable_char(struct bj_str s, char out[BJ_SHOWN_BYTES], size_t *out_len)
{
	if (s.ptr[0] != '\\')
		return bj_str_show_char(s, out, out_len);
	out[0] = out[1] = '\\';
	*out_len = 2;
	return 1;
}

#define ELLIPSIS "\xe2\x80\xa6"
#define ELLIPSIS_LEN (sizeof(ELLIPSIS) - 1)

struct printable_plan {
	size_t in_len;	/* bytes of the source that are shown */
	size_t out_len; /* bytes that they take */
	bool is_cut;	/* an ellipsis follows */
};

static struct printable_plan plan_printable(struct bj_str s, size_t max_bytes)
{
	struct printable_plan whole = { 0, 0, false };
	struct printable_plan fit = {
		0, 0, true
	}; /* the longest start that leaves room for the ellipsis */
	char shown[BJ_SHOWN_BYTES];
	while (whole.in_len < s.len) {
		size_t len;
		size_t taken = printable_char(rest_of(s, whole.in_len), shown, &len);
		if (len > max_bytes - whole.out_len)
			return fit;
		whole.in_len += taken;
		whole.out_len += len;
		if (max_bytes - whole.out_len >= ELLIPSIS_LEN)
			fit = (struct printable_plan){ whole.in_len, whole.out_len, true };
	}
	return whole;
}

struct bj_str bj_str_printable(struct bj_arena *arena, struct bj_str s, size_t max_bytes)
{
	struct printable_plan plan = plan_printable(s, max_bytes);
	size_t tail = plan.is_cut && max_bytes >= ELLIPSIS_LEN ? ELLIPSIS_LEN : 0;
	char *out = bj_arena_alloc(arena, plan.out_len + tail + 1);
	if (!out)
		return BJ_STR_NULL;

	size_t in = 0;
	size_t at = 0;
	char shown[BJ_SHOWN_BYTES];
	while (in < plan.in_len) {
		size_t len;
		in += printable_char(rest_of(s, in), shown, &len);
		memcpy(out + at, shown, len);
		at += len;
	}
	memcpy(out + at, ELLIPSIS, tail);
	out[at + tail] = '\0';
	return bj_str_n(out, at + tail);
}
