// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/jail/spec.h"

#define S(literal) BJ_STR_LIT(literal)

static struct bj_str some_argv[] = { { "cc", 2 }, { "", 0 }, { "a b", 3 } };
static struct bj_str some_env[] = { { "PATH=/bin", 9 }, { "EMPTY=", 6 }, { "X=a=b", 5 } };

static struct bj_jail_spec good_spec(void)
{
	return (struct bj_jail_spec){
		.argv = some_argv,
		.n_argv = 3,
		.env = some_env,
		.n_env = 3,
		.cwd = S("/exec/w"),
		.lower = S("actions/7/lower"),
		.upper = S("actions/7/upper"),
		.ovl = S("actions/7/ovl"),
		.tmp = S("actions/7/tmp"),
		.shm = S("actions/7/shm"),
		.write_mode = BJ_WRITE_SCRATCH,
		.observe = BJ_OBSERVE_DEFAULT,
	};
}

static struct bj_jail_root some_roots[] = {
	{ .path = { "/usr", 4 } },
	{ .path = { "/bin", 4 }, .target = { "usr/bin", 7 }, .is_link = true },
	{ .path = { "/etc/ld.so.cache", 16 }, .is_file = true },
};
static struct bj_jail_file some_files[] = { { { "/etc/passwd", 11 }, { "root:x\0y\n", 9 } } };

static struct bj_jail_slot_spec good_slot(void)
{
	return (struct bj_jail_slot_spec){
		.profile = BJ_PROFILE_PRIVILEGED,
		.slot_uid = 64001,
		.slot_gid = 64002,
		.work_dir = S("/var/cache/w"),
		.roots = some_roots,
		.n_roots = 3,
		.files = some_files,
		.n_files = 1,
	};
}

static void assert_str(struct bj_str got, const char *want)
{
	assert_int_equal(got.len, strlen(want));
	assert_memory_equal(got.ptr, want, got.len);
	assert_int_equal(got.ptr[got.len], '\0'); /* a C string too */
}

static void an_action_comes_back(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec(), out;
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	assert_int_equal(bj_jail_spec_encode(&in, &wire, &err), 0);
	assert_int_equal(bj_jail_spec_decode(bj_buf_str(&wire), &arena, &out, &err), 0);
	assert_int_equal(out.n_argv, 3);
	assert_str(out.argv[0], "cc");
	assert_str(out.argv[1], "");
	assert_str(out.argv[2], "a b");
	assert_int_equal(out.n_env, 3);
	assert_str(out.env[2], "X=a=b");
	assert_str(out.cwd, "/exec/w");
	assert_str(out.lower, "actions/7/lower");
	assert_str(out.upper, "actions/7/upper");
	assert_str(out.ovl, "actions/7/ovl");
	assert_str(out.tmp, "actions/7/tmp");
	assert_str(out.shm, "actions/7/shm");
	assert_int_equal(out.write_mode, BJ_WRITE_SCRATCH);
	assert_int_equal(out.n_writable, 0);
	assert_int_equal(out.observe, BJ_OBSERVE_DEFAULT);
}

static void a_slot_comes_back(void **state)
{
	(void)state;
	struct bj_jail_slot_spec in = good_slot(), out;
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	assert_int_equal(bj_jail_slot_spec_encode(&in, &wire, &err), 0);
	assert_int_equal(bj_jail_slot_spec_decode(bj_buf_str(&wire), &arena, &out, &err), 0);
	assert_int_equal(out.profile, BJ_PROFILE_PRIVILEGED);
	assert_int_equal(out.slot_uid, 64001);
	assert_int_equal(out.slot_gid, 64002);
	assert_str(out.work_dir, "/var/cache/w");
	assert_int_equal(out.n_roots, 3);
	assert_str(out.roots[0].path, "/usr");
	assert_false(out.roots[0].is_link || out.roots[0].is_file);
	assert_true(out.roots[1].is_link);
	assert_str(out.roots[1].target, "usr/bin");
	assert_true(out.roots[2].is_file);
	assert_int_equal(out.n_files, 1);
	assert_int_equal(out.files[0].content.len, 9);
	assert_memory_equal(out.files[0].content.ptr, "root:x\0y\n", 9);
}

/** By hand, from the layout that spec.c states. */
static void the_first_bytes_are_as_written_down(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec();
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	assert_int_equal(bj_jail_spec_encode(&in, &wire, &err), 0);
	static const char head[] = "!BJS" /* magic */ "\1\0" /* version */ "\2\0" /* action */
				   "\3\0\0\0" /* argv */ "\2\0\0\0cc\0"
				   "\0\0\0\0\0"
				   "\3\0\0\0a b";
	assert_memory_equal(wire.data, head, sizeof(head));
}

/* ---- what is refused, on both sides ---- */

static int encode(const struct bj_jail_spec *spec)
{
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(1 << 20);
	return bj_jail_spec_encode(spec, &wire, &err);
}

static int encode_slot(const struct bj_jail_slot_spec *spec)
{
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(1 << 20);
	return bj_jail_slot_spec_encode(spec, &wire, &err);
}

static void work_paths_are_relative_plain_and_canonical(void **state)
{
	(void)state;
	static const struct bj_str bad[] = {
		{ "", 0 },     { "/a", 2 },  { "..", 2 },   { "a/../b", 6 },   { "a/./b", 5 },
		{ "a//b", 4 }, { "a/", 2 },  { "a:b", 3 },  { "a,b", 3 },      { "a\\b", 3 },
		{ "a\0b", 3 }, { "a b", 3 }, { "a\nb", 3 }, { "\xc3\xa9", 2 },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
		struct bj_jail_spec spec = good_spec();
		struct bj_str *fields[] = { &spec.lower, &spec.upper, &spec.ovl, &spec.tmp,
					    &spec.shm };
		for (size_t k = 0; k < BJ_ARRAY_LEN(fields); k++) {
			struct bj_str was = *fields[k];
			*fields[k] = bad[i];
			assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
			*fields[k] = was;
		}
		assert_int_equal(encode(&spec), 0);
	}
}

static void cwd_is_the_root_or_below(void **state)
{
	(void)state;
	static const struct {
		struct bj_str cwd;
		int want;
	} rows[] = {
		{ { "/exec", 5 }, 0 },
		{ { "/exec/a/b", 9 }, 0 },
		{ { "/exec/\xff", 7 }, 0 }, /* any bytes */
		{ { "", 0 }, -BJ_INVALID_ARGUMENT },
		{ { "/", 1 }, -BJ_INVALID_ARGUMENT },
		{ { "/exec/", 6 }, -BJ_INVALID_ARGUMENT },
		{ { "/execution", 10 }, -BJ_INVALID_ARGUMENT },
		{ { "/exec/../etc", 12 }, -BJ_INVALID_ARGUMENT },
		{ { "/exec/./a", 9 }, -BJ_INVALID_ARGUMENT },
		{ { "exec", 4 }, -BJ_INVALID_ARGUMENT },
		{ { "/tmp", 4 }, -BJ_INVALID_ARGUMENT },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct bj_jail_spec spec = good_spec();
		spec.cwd = rows[i].cwd;
		assert_int_equal(encode(&spec), rows[i].want);
	}
}

static void argv_and_env_are_c_strings(void **state)
{
	(void)state;
	struct bj_jail_spec spec = good_spec();
	spec.n_argv = 0;
	assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	struct bj_str nul[] = { { "a\0b", 3 } };
	spec = good_spec();
	spec.argv = nul;
	spec.n_argv = 1;
	assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	static struct bj_str bad_env[][1] = {
		{ { "A", 1 } }, { { "=x", 2 } }, { { "", 0 } }, { { "A=\0", 3 } }
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad_env); i++) {
		spec = good_spec();
		spec.env = bad_env[i];
		spec.n_env = 1;
		assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	}
	spec = good_spec();
	spec.n_env = 0; /* an empty environment is one */
	assert_int_equal(encode(&spec), 0);
}

static void writable_belongs_to_strict(void **state)
{
	(void)state;
	struct bj_str dirs[] = { { "out/a", 5 } };
	struct bj_jail_spec spec = good_spec();
	spec.writable = dirs;
	spec.n_writable = 1;
	assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	spec.write_mode = BJ_WRITE_STRICT;
	assert_int_equal(encode(&spec), 0);
	static const struct bj_str bad[] = {
		{ "/out", 4 }, { "..", 2 }, { "", 0 }, { "a/../..", 7 }
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
		dirs[0] = bad[i];
		assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	}
}

static void unknown_values_are_refused(void **state)
{
	(void)state;
	struct bj_jail_spec spec = good_spec();
	spec.observe = (enum bj_observe)4;
	assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	spec = good_spec();
	spec.write_mode = (enum bj_write_mode)2;
	assert_int_equal(encode(&spec), -BJ_INVALID_ARGUMENT);
	struct bj_jail_slot_spec slot = good_slot();
	slot.profile = (enum bj_jail_profile)3;
	assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
}

static void no_slot_runs_as_root(void **state)
{
	(void)state;
	struct bj_jail_slot_spec slot = good_slot();
	slot.slot_uid = 0;
	assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
	slot = good_slot();
	slot.slot_gid = 0;
	assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
	slot = good_slot();
	slot.profile = BJ_PROFILE_USERNS; /* has no ids but its own */
	assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
	slot.slot_uid = slot.slot_gid = 0;
	assert_int_equal(encode_slot(&slot), 0);
}

static void roots_are_absolute_and_links_have_targets(void **state)
{
	(void)state;
	static const struct bj_jail_root bad[] = {
		{ .path = { "usr", 3 } },
		{ .path = { "/", 1 } },
		{ .path = { "/usr/", 5 } },
		{ .path = { "/usr/../etc", 11 } },
		{ .path = { "/bin", 4 }, .is_link = true },
		{ .path = { "/bin", 4 }, .target = { "a\0b", 3 }, .is_link = true },
		{ .path = { "/usr", 4 }, .target = { "x", 1 } },
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++) {
		struct bj_jail_root root = bad[i];
		struct bj_jail_slot_spec slot = good_slot();
		slot.roots = &root;
		slot.n_roots = 1;
		assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
	}
	struct bj_jail_slot_spec slot = good_slot();
	slot.work_dir = S("work");
	assert_int_equal(encode_slot(&slot), -BJ_INVALID_ARGUMENT);
}

/* ---- bytes that no encoder made ---- */

static int decode(struct bj_str bytes)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_jail_spec spec = { .n_argv = 77 };
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	int r = bj_jail_spec_decode(bytes, &arena, &spec, &err);
	if (r < 0)
		assert_int_equal(spec.n_argv, 77); /* untouched */
	return r;
}

static void every_truncation_is_refused(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec();
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	assert_int_equal(bj_jail_spec_encode(&in, &wire, &err), 0);
	for (size_t n = 0; n < wire.len; n++) {
		/* so that a sanitizer sees the end */
		bj_cleanup(bj_freep) char *copy = bj_malloc(n);
		assert_non_null(copy);
		memcpy(copy, wire.data, n);
		assert_int_equal(decode(bj_str_n(copy, n)), -BJ_INVALID_ARGUMENT);
	}
	assert_true(bj_buf_append_char(&wire, '\0'));
	assert_int_equal(decode(bj_buf_str(&wire)),
			 -BJ_INVALID_ARGUMENT); /* something behind the end */
}

static void a_flipped_byte_is_refused_or_another_valid_spec(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec();
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	assert_int_equal(bj_jail_spec_encode(&in, &wire, &err), 0);
	for (size_t i = 0; i < wire.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			wire.data[i] = (char)(wire.data[i] ^ (1 << bit));
			int r = decode(bj_buf_str(&wire));
			if (i < 8) /* magic, version, kind */
				assert_int_equal(r, -BJ_INVALID_ARGUMENT);
			assert_true(r == 0 || r == -BJ_INVALID_ARGUMENT);
			wire.data[i] = (char)(wire.data[i] ^ (1 << bit));
		}
	}
}

static void huge_counts_cost_no_memory(void **state)
{
	(void)state;
	static const char bytes[] = "!BJS\1\0\2\0\xff\xff\xff\xff"
				    "xxxxxxxxxxxxxxxxxxxxxxxx";
	assert_int_equal(decode(bj_str_n(bytes, sizeof(bytes))), -BJ_INVALID_ARGUMENT);
	static const char length[] = "!BJS\1\0\2\0\1\0\0\0\xff\xff\xff\xff"
				     "xxxxxxxxxxxxxxxxxxxx";
	assert_int_equal(decode(bj_str_n(length, sizeof(length))), -BJ_INVALID_ARGUMENT);
}

static void the_kinds_are_not_mixed_up(void **state)
{
	(void)state;
	struct bj_jail_slot_spec in = good_slot();
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(4096);
	assert_int_equal(bj_jail_slot_spec_encode(&in, &wire, &err), 0);
	assert_int_equal(decode(bj_buf_str(&wire)), -BJ_INVALID_ARGUMENT);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec(), out;
	for (uint64_t n = 0;; n++) {
		struct bj_err err = BJ_ERR_NULL;
		struct bj_buf wire = BJ_BUF_INIT(4096);
		struct bj_arena arena;
		bj_arena_init(&arena, 0);
		bj_alloc_fail_after(n);
		int r = bj_jail_spec_encode(&in, &wire, &err);
		if (r == 0)
			r = bj_jail_spec_decode(bj_buf_str(&wire), &arena, &out, &err);
		bool fired = bj_alloc_fail_disarm();
		assert_int_equal(r, fired ? -BJ_RESOURCE_EXHAUSTED : 0);
		bj_buf_deinit(&wire);
		bj_arena_deinit(&arena);
		if (!fired)
			break;
	}
}

static void a_full_buffer_is_an_error(void **state)
{
	(void)state;
	struct bj_jail_spec in = good_spec();
	struct bj_err err = BJ_ERR_NULL;
	bj_cleanup(bj_buf_deinit) struct bj_buf wire = BJ_BUF_INIT(100);
	assert_int_equal(bj_jail_spec_encode(&in, &wire, &err), -BJ_RESOURCE_EXHAUSTED);
}

static void names_are_spelled(void **state)
{
	(void)state;
	assert_string_equal(bj_jail_profile_name(BJ_PROFILE_PRIVILEGED), "privileged");
	assert_string_equal(bj_jail_profile_name(BJ_PROFILE_USERNS), "userns");
	static const char *const names[] = { "off", "writes", "default", "strict" };
	for (int i = 0; i < 4; i++) {
		enum bj_observe level;
		assert_string_equal(bj_observe_name((enum bj_observe)i), names[i]);
		assert_true(bj_observe_parse(bj_str_of(names[i]), &level));
		assert_int_equal(level, i);
	}
	enum bj_observe level = BJ_OBSERVE_STRICT;
	assert_false(bj_observe_parse(S("Off"), &level));
	assert_false(bj_observe_parse(S(""), &level));
	assert_int_equal(level, BJ_OBSERVE_STRICT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_action_comes_back),
		cmocka_unit_test(a_slot_comes_back),
		cmocka_unit_test(the_first_bytes_are_as_written_down),
		cmocka_unit_test(work_paths_are_relative_plain_and_canonical),
		cmocka_unit_test(cwd_is_the_root_or_below),
		cmocka_unit_test(argv_and_env_are_c_strings),
		cmocka_unit_test(writable_belongs_to_strict),
		cmocka_unit_test(unknown_values_are_refused),
		cmocka_unit_test(no_slot_runs_as_root),
		cmocka_unit_test(roots_are_absolute_and_links_have_targets),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(a_flipped_byte_is_refused_or_another_valid_spec),
		cmocka_unit_test(huge_counts_cost_no_memory),
		cmocka_unit_test(the_kinds_are_not_mixed_up),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(a_full_buffer_is_an_error),
		cmocka_unit_test(names_are_spelled),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
