// SPDX-License-Identifier: Apache-2.0
/*
 * The codec between executor and belljar-jail. The first byte picks the kind. What decodes must be
 * accepted by the encoder and come out as the same bytes: one spec has one encoding, so that
 * neither side can be made to see another than the other sees.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/jail/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(const struct bj_buf *wire, struct bj_str bytes)
{
	bj_assert(bj_str_eq(bj_buf_str(wire), bytes));
}

static void action(struct bj_str bytes, struct bj_arena *arena)
{
	struct bj_jail_spec spec;
	struct bj_err err = BJ_ERR_NULL;
	if (bj_jail_spec_decode(bytes, arena, &spec, &err) < 0) {
		bj_assert(bj_err_is_set(&err));
		return;
	}
	for (size_t i = 0; i < spec.n_argv; i++)
		bj_assert(strlen(spec.argv[i].ptr) == spec.argv[i].len);
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(1 << 24);
	bj_assert(bj_jail_spec_encode(&spec, &wire, &err) == 0);
	same(&wire, bytes);
}

static void slot(struct bj_str bytes, struct bj_arena *arena)
{
	struct bj_jail_slot_spec spec;
	struct bj_err err = BJ_ERR_NULL;
	if (bj_jail_slot_spec_decode(bytes, arena, &spec, &err) < 0) {
		bj_assert(bj_err_is_set(&err));
		return;
	}
	bj_assert(spec.profile != BJ_PROFILE_PRIVILEGED || spec.slot_uid != 0);
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(1 << 24);
	bj_assert(bj_jail_slot_spec_encode(&spec, &wire, &err) == 0);
	same(&wire, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 64 << 20);
	struct bj_str bytes = bj_str_n(data + 1, size - 1);
	if (data[0] & 1)
		slot(bytes, &arena);
	else
		action(bytes, &arena);
	return 0;
}
