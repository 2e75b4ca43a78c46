// SPDX-License-Identifier: Apache-2.0
/**
 * base/str-internal.h - how one character of untrusted text is shown; shared by str, log and json.
 * Threads: any.
 */
#ifndef BJ_BASE_STR_INTERNAL_H
#define BJ_BASE_STR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/str.h"

/**
 * bj_utf8_decode() - the character at the start of @s.
 * @s:       at least one byte
 * @out_cp:  its code point
 * Return: its length in bytes (1 to 4), or 0 when the bytes are not well-formed.
 */
size_t bj_utf8_decode(struct bj_str s, uint32_t *out_cp);

/** True for what must never reach a terminal raw: C0, DEL, C1, bidirectional controls, line and paragraph separators. */
bool bj_char_is_hidden(uint32_t cp);

enum { BJ_SHOWN_BYTES = 16 }; /* four bytes, each as \xHH */

/**
 * bj_str_show_char() - the character at the start of @s in its safe form.
 * @out:     gets *out_len bytes, no NUL
 * Return: how many bytes of @s it stands for, at least 1. A backslash is left as it is: the caller decides.
 */
size_t bj_str_show_char(struct bj_str s, char out[BJ_SHOWN_BYTES], size_t *out_len);

#endif
