// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include <sched.h>
#include <sys/stat.h>

#include "executor/action/fingerprint-internal.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"

enum { WAIT_S = 60 };
#define NEVER_TIMES ((struct bj_fingerprint_times){ 3600 * BJ_NS_PER_SEC, 3600 * BJ_NS_PER_SEC })
#define FAST_TIMES ((struct bj_fingerprint_times){ BJ_NS_PER_MS, 3600 * BJ_NS_PER_SEC })

struct scene {
	char dir[4096];
	int fd;
	struct bj_str root;
	struct bj_err err;
};

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->fd = make_temp_dir(s->dir);
	s->root = bj_str_of(s->dir);
	s->err = BJ_ERR_NULL;
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	int r = bj_remove_tree(AT_FDCWD, s->dir);
	close(s->fd);
	free(s);
	return r;
}

/* Every file gets the same time, so that only what a test changes differs. */
static void set_time(struct scene *s, const char *path, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
	assert_int_equal(utimensat(s->fd, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void write_file(struct scene *s, const char *path, const char *text)
{
	int fd = openat(s->fd, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	set_time(s, path, 1000);
}

/* One walk over the roots as they are now. */
static void fingerprint_of(struct scene *s, char out[BJ_FINGERPRINT_BYTES])
{
	struct bj_fingerprint *f;
	struct bj_fingerprint_times times = NEVER_TIMES;
	assert_int_equal(bj_fingerprint_start_with(&s->root, 1, &times, &f, &s->err), 0);
	assert_true(bj_fingerprint_wait(f, bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC)));
	assert_true(bj_fingerprint_get(f, out));
	assert_int_equal(strlen(out), BJ_FINGERPRINT_BYTES - 1);
	bj_fingerprint_stop(f);
}

static void what_counts(void **state)
{
	struct scene *s = *state;
	char before[BJ_FINGERPRINT_BYTES], after[BJ_FINGERPRINT_BYTES];
	assert_int_equal(mkdirat(s->fd, "bin", 0755), 0);
	write_file(s, "bin/cc", "12");
	write_file(s, "bin/ld", "12");
	assert_int_equal(symlinkat("cc", s->fd, "bin/gcc"), 0);
	set_time(s, "bin/gcc", 1000);
	fingerprint_of(s, before);
	fingerprint_of(s, after);
	assert_string_equal(before, after);

#define EXPECT_CHANGE(change)                                                                      \
	do {                                                                                       \
		change;                                                                            \
		fingerprint_of(s, after);                                                          \
		assert_string_not_equal(before, after);                                            \
		memcpy(before, after, sizeof(before));                                             \
	} while (0)
	EXPECT_CHANGE(write_file(s, "bin/cc", "123"));				/* size */
	EXPECT_CHANGE(set_time(s, "bin/cc", 1001));				/* time */
	EXPECT_CHANGE(assert_int_equal(fchmodat(s->fd, "bin/cc", 0755, 0), 0)); /* mode */
	EXPECT_CHANGE({
		assert_int_equal(unlinkat(s->fd, "bin/gcc", 0), 0);
		assert_int_equal(symlinkat("ld", s->fd, "bin/gcc"), 0);
		set_time(s, "bin/gcc", 1000);
	});
	EXPECT_CHANGE(assert_int_equal(renameat(s->fd, "bin/ld", s->fd, "bin/ld2"), 0));
	EXPECT_CHANGE(write_file(s, "new", ""));
	EXPECT_CHANGE(assert_int_equal(unlinkat(s->fd, "new", 0), 0));
	/* Contents that keep size and time are not seen: reading all would take minutes. */
	write_file(s, "bin/ld2", "21");
	fingerprint_of(s, after);
	assert_string_equal(before, after);
}

static void what_does_not_count(void **state)
{
	struct scene *s = *state;
	char before[BJ_FINGERPRINT_BYTES], after[BJ_FINGERPRINT_BYTES];
	assert_int_equal(mkdirat(s->fd, "lib", 0755), 0);
	write_file(s, "lib/m.py", "x");
	fingerprint_of(s, before);
	set_time(s, "lib", 5); /* a temporary file does that */
	assert_int_equal(mkdirat(s->fd, "lib/__pycache__", 0755), 0);
	write_file(s, "lib/__pycache__/m.pyc", "x");
	fingerprint_of(s, after);
	assert_string_equal(before, after);
}

/* Swapped names, swapped sizes: a sum of sums would not see it. */
static void two_changes_do_not_cancel_out(void **state)
{
	struct scene *s = *state;
	char before[BJ_FINGERPRINT_BYTES], after[BJ_FINGERPRINT_BYTES];
	write_file(s, "a", "1");
	write_file(s, "b", "22");
	fingerprint_of(s, before);
	write_file(s, "a", "11");
	write_file(s, "b", "2");
	fingerprint_of(s, after);
	assert_string_not_equal(before, after);
}

static void a_root_may_be_a_file_or_missing(void **state)
{
	struct scene *s = *state;
	struct bj_fingerprint_times times = NEVER_TIMES;
	char path[4200], missing[4200], before[BJ_FINGERPRINT_BYTES], after[BJ_FINGERPRINT_BYTES];
	struct bj_fingerprint *f;
	write_file(s, "ld.so.conf", "x");
	(void)snprintf(path, sizeof(path), "%s/ld.so.conf", s->dir);
	(void)snprintf(missing, sizeof(missing), "%s/none", s->dir);
	for (int round = 0; round < 2; round++) {
		struct bj_str roots[] = { bj_str_of(path), bj_str_of(missing) };
		assert_int_equal(bj_fingerprint_start_with(roots, 2, &times, &f, &s->err), 0);
		assert_true(bj_fingerprint_wait(f, bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC)));
		assert_true(bj_fingerprint_get(f, round ? after : before));
		bj_fingerprint_stop(f);
		write_file(s, "ld.so.conf", "yy");
	}
	assert_string_not_equal(before, after);
}

static void nothing_at_all(void **state)
{
	struct scene *s = *state;
	struct bj_fingerprint *f;
	char text[BJ_FINGERPRINT_BYTES];
	assert_int_equal(bj_fingerprint_start(NULL, 0, &f, &s->err), 0);
	assert_true(bj_fingerprint_wait(f, BJ_NEVER_NS));
	assert_true(bj_fingerprint_get(f, text));
	assert_string_equal(text, "00000000000000000000000000000000");
	bj_fingerprint_stop(f);
	bj_fingerprint_stop(NULL);
}

/* Until it has another value; the thread publishes, nobody is told. */
static void await_other(struct bj_fingerprint *f, char known[BJ_FINGERPRINT_BYTES])
{
	uint64_t deadline_ns = bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC);
	char now[BJ_FINGERPRINT_BYTES];
	do {
		assert_true(bj_fingerprint_wait(f, deadline_ns));
		sched_yield();
	} while (!bj_fingerprint_get(f, now) || strcmp(now, known) == 0);
	memcpy(known, now, sizeof(now));
}

static void a_change_is_noticed(void **state)
{
	struct scene *s = *state;
	struct bj_fingerprint_times times = FAST_TIMES;
	struct bj_fingerprint *f;
	char known[BJ_FINGERPRINT_BYTES], first[BJ_FINGERPRINT_BYTES];
	write_file(s, "cc", "1");
	assert_int_equal(bj_fingerprint_start_with(&s->root, 1, &times, &f, &s->err), 0);
	assert_true(bj_fingerprint_wait(f, bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC)));
	assert_true(bj_fingerprint_get(f, known));
	memcpy(first, known, sizeof(first));
	write_file(s, "new", "1"); /* touches the root's own time, which the probe looks at */
	await_other(f, known);
	assert_int_equal(unlinkat(s->fd, "new", 0), 0);
	await_other(f, known);
	assert_string_equal(known, first); /* the same files, the same fingerprint */
	bj_fingerprint_stop(f);
}

/* Written in place: no directory shows it, only the next walk. */
static void a_change_in_place_is_noticed_too(void **state)
{
	struct scene *s = *state;
	struct bj_fingerprint_times times = { BJ_NS_PER_MS, 2 * BJ_NS_PER_MS };
	struct bj_fingerprint *f;
	char known[BJ_FINGERPRINT_BYTES];
	assert_int_equal(mkdirat(s->fd, "deep", 0755), 0);
	write_file(s, "deep/cc", "1");
	assert_int_equal(bj_fingerprint_start_with(&s->root, 1, &times, &f, &s->err), 0);
	assert_true(bj_fingerprint_wait(f, bj_deadline_ns(WAIT_S * BJ_NS_PER_SEC)));
	assert_true(bj_fingerprint_get(f, known));
	write_file(s, "deep/cc", "22");
	await_other(f, known);
	bj_fingerprint_stop(f);
}

static void starting_without_memory(void **state)
{
	struct scene *s = *state;
	struct bj_fingerprint_times times = NEVER_TIMES;
	struct bj_fingerprint *f = NULL;
	int r = -1;
	for (uint64_t n = 0; r < 0; n++) {
		bj_alloc_fail_after(n);
		r = bj_fingerprint_start_with(&s->root, 1, &times, &f, &s->err);
		assert_int_equal(bj_alloc_fail_disarm(), r < 0);
		bj_err_clear(&s->err);
	}
	bj_fingerprint_stop(f);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_counts),
		TEST(what_does_not_count),
		TEST(two_changes_do_not_cancel_out),
		TEST(a_root_may_be_a_file_or_missing),
		TEST(nothing_at_all),
		TEST(a_change_is_noticed),
		TEST(a_change_in_place_is_noticed_too),
		TEST(starting_without_memory),
	};
	bj_log_set_level(BJ_LOG_ERROR);
	return cmocka_run_group_tests_name("action/fingerprint", tests, NULL, NULL);
}
