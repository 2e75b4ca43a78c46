// SPDX-License-Identifier: Apache-2.0
#include "policy/record-internal.h"

static const char *input_hint(const struct bjp_record *r)
{
	if (r->kind == BJP_MISSING_CANDIDATE)
		return "looked for and found nowhere: declare it as an input if it was needed";
	if (r->zone == BJP_ZONE_INPUT_ROOT)
		return "declare it as an input";
	return "no action sees the host's files: declare it as an input, or have the operator add "
	       "a toolchain root";
}

static const char *fixed_hint(const struct bjp_record *r)
{
	switch (r->kind) {
	case BJP_READ_UNDECLARED:
	case BJP_EXEC_UNDECLARED:
	case BJP_MISSING_CANDIDATE:
		return input_hint(r);
	case BJP_WRITE_UNDECLARED:
		return "write into a declared output or below $TMPDIR";
	case BJP_WRITE_TO_INPUT:
		return "copy the input and change the copy";
	case BJP_UNDECLARED_OUTPUT:
		return "declare it as an output, or write it below $TMPDIR";
	case BJP_NETWORK:
		return "actions have no network: declare what is fetched as an input";
	case BJP_UNIX_SOCKET:
		return "actions see no socket of the host";
	case BJP_SYSCALL:
		return "no action may make this call";
	case BJP_STRAY_PROCESS:
		return "wait for what is started; it was killed";
	default:
		return "";
	}
}

static struct bj_str output_hint(const struct bjp_record *record, struct bj_arena *arena)
{
	struct bj_str shown = bj_str_printable(arena, record->found, 200);
	if (record->wrong_kind || shown.len == 0)
		return bj_str_n("", 0);
	return bj_str_of(bj_arena_printf(arena, "you wrote %.*s instead", BJ_STR_FMT(shown)));
}

struct bj_str bjp_record_hint(const struct bjp_record *record, struct bj_arena *arena)
{
	if (record->kind == BJP_MISSING_OUTPUT)
		return output_hint(record, arena);
	struct bj_str near = bj_str_printable(arena, record->nearest, 200);
	const char *text = bj_arena_printf(
		arena, "%s%s%.*s%s", fixed_hint(record), near.len ? "; declared nearby: " : "",
		BJ_STR_FMT(near),
		record->in_other_tree ? "; another action of this instance declares it" : "");
	return bj_str_of(text);
}
