// SPDX-License-Identifier: Apache-2.0
/*
 * A configuration file, whole. Whatever is accepted keeps the ranges that `serve` relies on; whatever is refused names the file and
 * leaves the settings as they were; twice the same bytes give twice the same answer.
 */
#include <stdint.h>
#include <string.h>

#include "executor/base/macros.h"
#include "executor/cli/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_list(const struct bj_config_list *list)
{
	bj_assert(list->n <= BJ_CONFIG_MAX_ITEMS);
	for (size_t i = 0; i < list->n; i++)
		bj_assert(list->items[i].len > 0 &&
			  strlen(list->items[i].ptr) == list->items[i].len &&
			  bj_str_is_utf8(list->items[i]));
}

static void check_accepted(const struct bj_config *c)
{
	check_list(&c->listen);
	check_list(&c->workspaces);
	check_list(&c->extra_roots);
	check_list(&c->deny_anchors);
	bj_assert(c->store.len == 0 || strlen(c->store.ptr) == c->store.len);
	bj_assert(c->n_slots <= BJ_CONFIG_MAX_SLOTS);
	bj_assert(c->work_bytes == 0 || c->work_bytes >= BJ_CONFIG_MIN_WORK_BYTES);
	bj_assert(c->max_timeout_seconds >= 1 && c->max_timeout_seconds <= BJ_CONFIG_MAX_SECONDS);
	bj_assert(c->stop_grace_seconds <= BJ_CONFIG_MAX_SECONDS);
	bj_assert(c->cancel_grace_seconds <= BJ_CONFIG_MAX_SECONDS);
	bj_assert(c->first_slot_uid >= 1000 &&
		  c->first_slot_uid + BJ_CONFIG_MAX_SLOTS < UINT32_MAX);
	bj_assert(c->settings.observe >= c->bounds.min_observe);
	bj_assert(c->has_tell_host || !c->tell_host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bj_config before, first, second;
	struct bj_err err = BJ_ERR_NULL, again = BJ_ERR_NULL;
	struct bj_arena arena;
	struct bj_str text = bj_str_n(data, size);

	bj_arena_init(&arena, 64 << 20);
	bj_config_init(&before);
	first = second = before;
	int r = bj_config_parse(text, "f", &arena, &first, &err);
	bj_assert(r == bj_config_parse(text, "f", &arena, &second, &again));
	if (r == 0) {
		check_accepted(&first);
	} else {
		bj_assert(r == -BJ_INVALID_ARGUMENT || r == -BJ_RESOURCE_EXHAUSTED);
		bj_assert(err.msg[0] == 'f' && err.msg[1] == ':');
		bj_assert(strcmp(err.msg, again.msg) == 0);
		/* NOLINTNEXTLINE(cert-exp42-c,cert-flp37-c,bugprone-suspicious-memory-comparison): a copy of the whole, padding too */
		bj_assert(memcmp(&first, &before, sizeof(before)) == 0);
	}
	bj_arena_deinit(&arena);
	return 0;
}
