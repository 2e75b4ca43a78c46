// SPDX-License-Identifier: Apache-2.0
/*
 * Text from outside through everything in base that reads or shows it. The first byte is the limit of the shown form.
 */
#include <inttypes.h>
#include <stdio.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/json.h"
#include "executor/base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shown(struct bj_str shown)
{
	bj_assert(bj_str_is_utf8(shown));
	for (size_t i = 0; i < shown.len; i++)
		bj_assert((unsigned char)shown.ptr[i] >= 0x20 && shown.ptr[i] != 0x7f);
}

static void check_printable(struct bj_str text, size_t max_bytes)
{
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_str cut = bj_str_printable(&arena, text, max_bytes);
	bj_assert(cut.ptr && cut.len <= max_bytes);
	check_shown(cut);
	struct bj_str whole = bj_str_printable(&arena, text, SIZE_MAX);
	bj_assert(whole.ptr && whole.len >= text.len && whole.len <= 4 * text.len);
	check_shown(whole);
	if (whole.len <= max_bytes)
		bj_assert(bj_str_eq(cut, whole));
}

/* What is left when escapes are taken back must be the text, if that was UTF-8. */
static void check_json(struct bj_str text)
{
	struct bj_buf buf = BJ_BUF_INIT(SIZE_MAX / 2);
	struct bj_json json;
	bj_json_init(&json, &buf, 0);
	bj_json_str(&json, text);
	bj_assert(bj_json_finish(&json));
	struct bj_str out = bj_buf_str(&buf);
	check_shown(out);
	bj_assert(out.len >= 2 && out.ptr[0] == '"' && out.ptr[out.len - 1] == '"');

	size_t n_quotes = 0;
	for (size_t i = 1; i + 1 < out.len; i++) {
		if (out.ptr[i] == '\\')
			i++; /* one character at least belongs to it */
		else
			n_quotes += out.ptr[i] == '"';
		bj_assert(i + 1 < out.len);
	}
	bj_assert(n_quotes == 0);
	bj_buf_deinit(&buf);
}

static void check_number(struct bj_str text)
{
	char back[32];
	uint64_t u;
	if (bj_str_to_u64(text, &u)) {
		(void)snprintf(back, sizeof(back), "%" PRIu64, u);
		bj_assert(bj_str_eq(bj_str_of(back), text));
	}
	int64_t i;
	if (bj_str_to_i64(text, &i)) {
		(void)snprintf(back, sizeof(back), "%" PRId64, i);
		bj_assert(bj_str_eq(bj_str_of(back), text));
	}
}

/* The parts, joined, are the whole again. */
static void check_cut(struct bj_str text)
{
	struct bj_str rest = text;
	size_t at = 0;
	while (rest.ptr) {
		struct bj_str part = bj_str_cut(&rest, '/');
		bj_assert(bj_str_eq(part, bj_str_sub(text, at, at + part.len)));
		at += part.len;
		if (rest.ptr)
			bj_assert(text.ptr[at++] == '/');
	}
	bj_assert(at == text.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct bj_str text = bj_str_n(data + 1, size - 1);
	check_printable(text, data[0]);
	check_json(text);
	check_number(text);
	check_cut(text);
	return 0;
}
