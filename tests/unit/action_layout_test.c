// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cas_test_util.h"

#include <limits.h>
#include <pthread.h>

#include "executor/action/layout.h"
#include "executor/base/alloc.h"
#include "executor/base/clock.h"
#include "executor/base/log.h"
#include "executor/base/map.h"

/* ---- the fault seam: linkat(2) of the program under test, by the linker's --wrap ---- */

static int link_errno;	    /* what fails with it … */
static unsigned links_left; /* … once so many have gone well; UINT_MAX: none fails */

int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	if (links_left == UINT_MAX)
		return __real_linkat(from_fd, from, to_fd, to, flags);
	if (links_left == 0) {
		errno = link_errno;
		return -1;
	}
	links_left--;
	return __real_linkat(from_fd, from, to_fd, to, flags);
}

/* ---- a work area over a store, and trees by hand ---- */

enum { MAX_ENTRIES = 4096 };

struct area {
	struct fix *fix;
	char dir[4200];
	int fd;
	struct bj_work *work;
	struct bj_tree_entry entries[MAX_ENTRIES];
	struct bj_tree tree;
	struct bj_layout layout;
	struct bj_missing missing;
};

static void area_up(struct area *a, struct fix *fix, uint64_t hot_bytes)
{
	links_left = UINT_MAX;
	*a = (struct area){ .fix = fix, .layout = BJ_LAYOUT_NULL };
	a->tree.entries = a->entries;
	(void)snprintf(a->dir, sizeof(a->dir), "%s/work", fix->dir);
	assert_int_equal(mkdir(a->dir, 0700), 0);
	a->fd = open(a->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(a->fd >= 0);
	EXPECT_OK(fix, bj_work_open(a->dir, hot_bytes, fix->store, &a->work, &fix->err));
}

static void area_down(struct area *a)
{
	bj_layout_drop(a->work, &a->layout);
	bj_work_close(a->work);
	close(a->fd);
}

static struct bj_tree_entry *add(struct area *a, const char *path, enum bj_node_kind kind)
{
	assert_true(a->tree.n_entries < MAX_ENTRIES);
	struct bj_tree_entry *e = &a->entries[a->tree.n_entries++];
	*e = (struct bj_tree_entry){ .path = bj_str_of(path), .kind = kind };
	return e;
}

/* Callers add in the order of struct bj_tree. */
static void add_dir(struct area *a, const char *path)
{
	(void)add(a, path, BJ_NODE_DIR);
}

static void add_link(struct area *a, const char *path, const char *target)
{
	add(a, path, BJ_NODE_SYMLINK)->target = bj_str_of(target);
}

static struct bj_digest add_file(struct area *a, const char *path, const char *text, bool is_x)
{
	struct bj_tree_entry *e = add(a, path, BJ_NODE_FILE);
	e->is_executable = is_x;
	e->digest = put(a->fix, bj_str_of(text));
	return e->digest;
}

static const char *make_path(struct area *a, const char *fmt, ...) BJ_PRINTF(2, 3);
static const char *make_path(struct area *a, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return bj_str_dup(&a->fix->arena, bj_str_of(text));
}

static int lay_out_for(struct area *a, const char *const *parents, size_t n, uid_t uid)
{
	struct bj_str views[16];
	assert_true(n <= BJ_ARRAY_LEN(views));
	for (size_t i = 0; i < n; i++)
		views[i] = bj_str_of(parents[i]);
	return bj_layout_make(a->work, &a->tree, views, n, uid, uid, NULL, NULL, &a->fix->arena,
			      &a->layout, &a->missing, &a->fix->err);
}

static int lay_out(struct area *a)
{
	return lay_out_for(a, NULL, 0, 0);
}

static struct stat lower_stat(struct area *a, const char *path)
{
	struct stat st;
	if (fstatat(a->layout.lower_fd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		fail_msg("lower has no \"%s\"", path);
	return st;
}

static bool upper_has(struct area *a, const char *path)
{
	struct stat st;
	return fstatat(a->layout.upper_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void expect_text(struct area *a, const char *path, const char *text)
{
	struct bj_buf buf = BJ_BUF_INIT(1 << 20);
	EXPECT_OK(a->fix, bj_file_read_all(a->layout.lower_fd, path, &buf, &a->fix->err));
	assert_string_equal(bj_buf_cstr(&buf), text);
	bj_buf_deinit(&buf);
}

static size_t count_in(int fd, const char *name)
{
	int dir_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir_fd >= 0);
	DIR *dir = fdopendir(dir_fd);
	assert_non_null(dir);
	size_t n = 0;
	for (const struct dirent *d; (d = readdir(dir));)
		n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
	closedir(dir);
	return n;
}

static void expect_time(const struct stat *st, int64_t offset)
{
	assert_int_equal(st->st_mtim.tv_sec, BJ_INPUT_MTIME + offset);
	assert_int_equal(st->st_mtim.tv_nsec, 0);
}

/* ---- what is laid out ---- */

static void a_tree_as_declared(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_dir(&a, "d/empty");
	add_file(&a, "d/tool", "#!x", true);
	add_file(&a, "f", "hello", false);
	add_link(&a, "l", "d/../nowhere");
	add_file(&a, "zero", "", false);
	EXPECT_OK(a.fix, lay_out(&a));
	expect_text(&a, "d/tool", "#!x");
	expect_text(&a, "f", "hello");
	expect_text(&a, "zero", "");
	static const struct {
		const char *path;
		mode_t mode;
	} rows[] = { { "d", S_IFDIR | 0755 },	   { "d/empty", S_IFDIR | 0755 },
		     { "d/tool", S_IFREG | 0555 }, { "f", S_IFREG | 0444 },
		     { "l", S_IFLNK | 0777 },	   { "zero", S_IFREG | 0444 },
		     { ".", S_IFDIR | 0755 } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		struct stat st = lower_stat(&a, rows[i].path);
		assert_int_equal(st.st_mode, rows[i].mode);
		expect_time(&st, 0);
	}
	char target[64];
	ssize_t n = readlinkat(a.layout.lower_fd, "l", target, sizeof(target));
	assert_true(bj_str_eq(bj_str_n(target, (size_t)n), BJ_STR_LIT("d/../nowhere")));
	assert_int_equal(lower_stat(&a, "f").st_nlink, 2); /* the hot blob is the other */
	assert_int_equal(a.layout.n_linked, 3);
	assert_int_equal(a.layout.n_copied, 0);
	assert_int_equal(count_in(a.layout.upper_fd, "."), 0);
	struct stat st;
	assert_int_equal(fstat(a.layout.upper_fd, &st), 0);
	expect_time(&st, 0);
	assert_int_equal(fstatat(a.fd, a.layout.tmp, &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01777);
	assert_int_equal(fstatat(a.fd, a.layout.shm, &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 01777);
	area_down(&a);
}

/* gcc's #pragma once takes files of equal time and content for one, whatever their inode and mode. */
static void twins_share_nothing(void **state)
{
	static const char *const names[] = { "a.h", "b.h", "c.h", "d.h" };
	struct area a;
	area_up(&a, *state, 1 << 20);
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++)
		add_file(&a, names[i], "#pragma once\n", i == 2);
	add_file(&a, "other.h", "x", false);
	EXPECT_OK(a.fix, lay_out(&a));
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		struct stat st = lower_stat(&a, names[i]);
		expect_time(&st, (int64_t)i);
		assert_int_equal(st.st_mode & 07777, i == 2 ? 0555 : 0444);
		expect_text(&a, names[i], "#pragma once\n");
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(st.st_ino, lower_stat(&a, names[j]).st_ino);
	}
	struct stat other = lower_stat(&a, "other.h");
	expect_time(&other, 0);
	assert_int_equal(a.layout.n_linked, 2);
	assert_int_equal(a.layout.n_copied, 3);
	assert_int_equal(a.layout.n_copied_bytes, 3 * 13);
	area_down(&a);
}

static void the_umask_does_not_matter(void **state)
{
	static const char *const parents[] = { "o/p" };
	struct area a;
	mode_t old = umask(0077);
	struct stat st;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_file(&a, "d/x", "x", true);
	EXPECT_OK(a.fix, lay_out_for(&a, parents, 1, 0));
	assert_int_equal(lower_stat(&a, "d").st_mode & 07777, 0755);
	assert_int_equal(lower_stat(&a, "d/x").st_mode & 07777, 0555);
	assert_int_equal(fstatat(a.layout.upper_fd, "o/p", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstat(a.layout.upper_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	area_down(&a);
	(void)umask(old);
}

static void directories_belong_to_the_slot(void **state)
{
	static const char *const parents[] = { "o" };
	struct area a;
	struct stat st;
	if (geteuid() != 0) {
		const char *must_run = getenv("BJ_MUST_RUN");
		assert_false(must_run && strcmp(must_run, "1") == 0);
		print_message("skipped: not root, so nothing can be given away\n");
		skip();
	}
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_file(&a, "f", "x", false);
	add_link(&a, "l", "f");
	EXPECT_OK(a.fix, lay_out_for(&a, parents, 1, 54321));
	assert_int_equal(lower_stat(&a, ".").st_uid, 54321);
	assert_int_equal(lower_stat(&a, "d").st_gid, 54321);
	assert_int_equal(lower_stat(&a, "l").st_uid, 54321);
	assert_int_equal(lower_stat(&a, "f").st_uid,
			 0); /* an inode of the hot blobs: never the action's */
	assert_int_equal(fstatat(a.layout.upper_fd, "o", &st, 0), 0);
	assert_int_equal(st.st_uid, 54321);
	assert_int_equal(fstatat(a.fd, a.layout.tmp, &st, 0), 0);
	assert_int_equal(st.st_uid, 54321);
	area_down(&a);
}

static bool is_out(void *ctx, struct bj_str path)
{
	return bj_str_has_prefix(path, bj_str_of(ctx));
}

static void an_input_that_is_an_output_is_the_actions_own(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_file(&a, "in", "same", false);
	add_file(&a, "out", "same", false);
	add_file(&a, "out.x", "alone", true);
	char prefix[] = "out";
	EXPECT_OK(a.fix, bj_layout_make(a.work, &a.tree, NULL, 0, 0, 0, is_out, prefix,
					&a.fix->arena, &a.layout, &a.missing, &a.fix->err));
	struct stat in = lower_stat(&a, "in"), out = lower_stat(&a, "out");
	struct stat alone = lower_stat(&a, "out.x");
	assert_int_equal(in.st_mode & 07777, 0444);
	assert_int_equal(out.st_mode & 07777, 0644);
	assert_int_equal(alone.st_mode & 07777, 0755);
	assert_int_equal(out.st_nlink, 1);
	assert_int_equal(alone.st_nlink, 1); /* not even of the hot blob */
	expect_time(&in, 0);
	expect_time(&out, 1); /* a twin all the same */
	expect_time(&alone, 0);
	area_down(&a);
}

/* ---- directories for outputs ---- */

static void parents_of_outputs(void **state)
{
	static const char *const parents[] = { "d", "d/n", "x/y/z", "x/w" };
	static const char *const made[] = { "d", "d/n", "x", "x/y", "x/y/z", "x/w" };
	struct area a;
	struct stat st;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_dir(&a, "e");
	EXPECT_OK(a.fix, lay_out_for(&a, parents, BJ_ARRAY_LEN(parents), 0));
	for (size_t i = 0; i < BJ_ARRAY_LEN(made); i++) {
		assert_int_equal(fstatat(a.layout.upper_fd, made[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(st.st_mode, S_IFDIR | 0755);
		expect_time(&st, 0); /* or an input directory would show the hour of the run */
	}
	assert_int_equal(count_in(a.layout.upper_fd, "."), 2);
	area_down(&a);
}

static void a_parent_that_is_an_input_needs_nothing(void **state)
{
	static const char *const parents[] = { "d", "d/e" };
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_dir(&a, "d/e");
	EXPECT_OK(a.fix, lay_out_for(&a, parents, 2, 0));
	assert_false(upper_has(&a, "d"));
	area_down(&a);
}

static void parents_behind_links(void **state)
{
	static const char *const parents[] = { "abs/n1", "away/n",     "chain/n2", "climb/n",
					       "loop/n", "real/up/n3", "rel/n4/n5" };
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_link(&a, "abs", "/exec/real");
	add_link(&a, "away", "/tmp/belljar-test-must-not-make");
	add_link(&a, "chain", "rel");
	add_link(&a, "climb", "../../tmp");
	add_link(&a, "loop", "loop");
	add_dir(&a, "real");
	add_link(&a, "real/up", "..");
	add_link(&a, "rel", "./real/");
	EXPECT_OK(a.fix, lay_out_for(&a, parents, BJ_ARRAY_LEN(parents), 0));
	assert_true(upper_has(&a, "real/n1"));
	assert_true(upper_has(&a, "real/n2"));
	assert_true(upper_has(&a, "n3"));
	assert_true(upper_has(&a, "real/n4/n5"));
	/* What leads away is not made: nowhere, and not beside. */
	assert_int_equal(count_in(a.layout.upper_fd, "."), 2);
	assert_int_equal(count_in(a.layout.upper_fd, "real"), 3);
	assert_int_equal(access("/tmp/belljar-test-must-not-make", F_OK), -1);
	area_down(&a);
}

static void a_parent_that_is_a_file(void **state)
{
	static const char *const direct[] = { "f/o" }, *const linked[] = { "l/o" };
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_file(&a, "f", "x", false);
	add_link(&a, "l", "f");
	EXPECT_ERR(a.fix, lay_out_for(&a, direct, 1, 0), BJ_INVALID_ARGUMENT, "\"f\"");
	EXPECT_ERR(a.fix, lay_out_for(&a, linked, 1, 0), BJ_INVALID_ARGUMENT, "\"f\"");
	assert_int_equal(count_in(a.fd, "actions"), 0);
	area_down(&a);
}

/* ---- what is not there ---- */

static void all_that_is_missing_is_named(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	struct bj_digest one = add_file(&a, "1", "one", false);
	add_file(&a, "2", "two", false);
	struct bj_digest three = add_file(&a, "3", "three", false);
	add_file(&a, "4", "one", true); /* a twin: named once */
	bj_store_discard(a.fix->store, &one);
	bj_store_discard(a.fix->store, &three);
	assert_int_equal(lay_out(&a), BJ_LAYOUT_E_MISSING);
	assert_int_equal(a.missing.n_digests, 2);
	assert_true(bj_digest_eq(&a.missing.digests[0], &one));
	assert_true(bj_digest_eq(&a.missing.digests[1], &three));
	assert_int_equal(count_in(a.fd, "actions"), 0);
	assert_int_equal(count_in(a.fd, "hot"), 1);
	area_down(&a);
}

static void a_damaged_blob_is_missing(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	struct bj_digest digest = add_file(&a, "f", "whole", false);
	flip_bit(blob_path(a.fix, &digest), 2);
	assert_int_equal(lay_out(&a), BJ_LAYOUT_E_MISSING);
	assert_int_equal(a.missing.n_digests, 1);
	assert_false(bj_store_has(a.fix->store, &digest)); /* dropped, so that it comes again */
	assert_int_equal(count_in(a.fd, "hot"), 0);
	EXPECT_OK(a.fix, bj_store_put(a.fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("whole"), NULL,
				      NULL, &a.fix->err));
	EXPECT_OK(a.fix, lay_out(&a));
	expect_text(&a, "f", "whole");
	area_down(&a);
}

/* Once it is hot the store's file is not needed. */
static void a_hot_blob_outlives_its_eviction(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	struct bj_digest digest = add_file(&a, "f", "hot", false);
	EXPECT_OK(a.fix, lay_out(&a));
	bj_layout_drop(a.work, &a.layout);
	bj_store_discard(a.fix->store, &digest);
	EXPECT_OK(a.fix, lay_out(&a));
	expect_text(&a, "f", "hot");
	area_down(&a);
}

/* ---- limits ---- */

static void a_full_link_count_means_copies(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	for (int i = 0; i < 6; i++)
		add_file(&a, make_path(&a, "f%d", i), make_path(&a, "text %d", i), false);
	link_errno = EMLINK;
	links_left = 3;
	EXPECT_OK(a.fix, lay_out(&a));
	links_left = UINT_MAX;
	for (int i = 0; i < 6; i++) {
		struct stat st = lower_stat(&a, make_path(&a, "f%d", i));
		expect_text(&a, make_path(&a, "f%d", i), make_path(&a, "text %d", i));
		expect_time(&st, 0);
		assert_int_equal(st.st_nlink, i < 3 ? 2 : 1);
	}
	area_down(&a);
}

/* Evicted between making and linking, again and again: a copy needs no link. */
static void a_hot_blob_that_vanishes_is_copied(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_file(&a, "f", "text", true);
	link_errno = ENOENT;
	links_left = 0;
	EXPECT_OK(a.fix, lay_out(&a));
	links_left = UINT_MAX;
	expect_text(&a, "f", "text");
	assert_int_equal(lower_stat(&a, "f").st_mode & 07777, 0555);
	area_down(&a);
}

static void a_failing_link_names_path_and_reason(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_file(&a, "some-file", "text", true);
	link_errno = EPERM;
	links_left = 0;
	EXPECT_ERR(a.fix, lay_out(&a), BJ_INTERNAL, "\"some-file\": Operation not permitted");
	links_left = UINT_MAX;
	assert_int_equal(count_in(a.fd, "actions"), 0);
	area_down(&a);
}

static void the_hot_blobs_are_bounded(void **state)
{
	enum { N = 12, BLOB_BYTES = 1000, MAX_HOT = 4 };
	struct area a;
	area_up(&a, *state, MAX_HOT * BLOB_BYTES);
	for (int i = 0; i < N; i++) {
		struct bj_tree_entry *e = add(&a, make_path(&a, "f%02d", i), BJ_NODE_FILE);
		e->digest = put_random(a.fix, BLOB_BYTES, (uint64_t)i + 1);
	}
	EXPECT_OK(a.fix, lay_out(&a));
	assert_int_equal(count_in(a.fd, "hot"), MAX_HOT);
	for (int i = 0; i < N; i++) {
		struct stat st = lower_stat(&a, make_path(&a, "f%02d", i));
		assert_int_equal(st.st_size, BLOB_BYTES);
		assert_int_equal(st.st_nlink, i < N - MAX_HOT ? 1 : 2); /* the oldest have gone */
	}
	/* A use keeps it: f08 is the oldest of the four, and is used again. */
	bj_layout_drop(a.work, &a.layout);
	struct bj_tree_entry kept = a.entries[8];
	a.entries[0] = kept;
	a.entries[1].digest = put_random(a.fix, BLOB_BYTES, 100);
	a.tree.n_entries = 2;
	EXPECT_OK(a.fix, lay_out(&a));
	assert_int_equal(lower_stat(&a, "f08").st_nlink, 2);
	assert_int_equal(count_in(a.fd, "hot"), MAX_HOT);
	area_down(&a);
}

static void a_blob_above_the_limit_is_laid_out_all_the_same(void **state)
{
	struct area a;
	area_up(&a, *state, 10);
	add(&a, "a", BJ_NODE_FILE)->digest = put_random(a.fix, 5000, 1);
	add(&a, "b", BJ_NODE_FILE)->digest = put_random(a.fix, 5000, 2);
	EXPECT_OK(a.fix, lay_out(&a));
	assert_int_equal(lower_stat(&a, "a").st_size, 5000);
	assert_int_equal(lower_stat(&a, "b").st_size, 5000);
	assert_int_equal(count_in(a.fd, "hot"), 1);
	area_down(&a);
}

/* PATH_MAX is 4096 with the NUL: 15 names of 255 and one more, with slashes, are 4095 bytes. */
static void the_longest_path(void **state)
{
	static char path[2 * PATH_MAX];
	struct area a;
	size_t len = 0;
	area_up(&a, *state, 1 << 20);
	for (int i = 0; i < 16; i++) {
		memset(path + len, 'a' + i, 255);
		len += 255;
		struct bj_str whole = bj_arena_str(&a.fix->arena, bj_str_n(path, len));
		add_dir(&a, whole.ptr);
		path[len++] = '/';
	}
	assert_int_equal(a.entries[15].path.len, 4095);
	EXPECT_OK(a.fix, lay_out(&a));
	bj_layout_drop(a.work, &a.layout);

	memcpy(path + len, "x", 2);
	add_file(&a, path, "too far down", false);
	EXPECT_ERR(a.fix, lay_out(&a), BJ_INVALID_ARGUMENT, "too long");
	assert_int_equal(count_in(a.fd, "actions"), 0);

	a.tree.n_entries = 0;
	memset(path, 'n', 256);
	path[256] = '\0';
	add_file(&a, path, "x", false);
	EXPECT_ERR(a.fix, lay_out(&a), BJ_INTERNAL,
		   "File name too long"); /* the tree's check refuses it earlier */
	area_down(&a);
}

/* ---- the end ---- */

static void await_no_trash(struct area *a)
{
	uint64_t deadline_ns = bj_deadline_ns(60 * BJ_NS_PER_SEC);
	while (count_in(a->fd, "trash") > 0) {
		assert_true(bj_now_ns() < deadline_ns);
		sched_yield();
	}
}

static void make_file(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void a_small_tree_goes_at_once(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_file(&a, "d/f", "x", false);
	EXPECT_OK(a.fix, lay_out(&a));
	make_file(a.layout.upper_fd, "made");
	a.layout.n_left = 1;
	bj_layout_drop(a.work, &a.layout);
	assert_int_equal(count_in(a.fd, "actions"), 0);
	assert_int_equal(a.layout.lower_fd, -9);
	assert_int_equal(a.layout.dir[0], '\0');
	bj_layout_drop(a.work, &a.layout); /* nothing held any more */
	area_down(&a);
}

static void a_large_tree_goes_to_the_janitor(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	for (int i = 0; i < 200; i++)
		add_dir(&a, make_path(&a, "d%03d", i));
	EXPECT_OK(a.fix, lay_out(&a));
	bj_layout_drop(a.work, &a.layout);
	assert_int_equal(count_in(a.fd, "actions"), 0);
	await_no_trash(&a);
	area_down(&a);
}

/* The action's own part may be large, or not known, and directories may be shut. */
static void what_the_action_left_goes_too(void **state)
{
	struct area a;
	area_up(&a, *state, 1 << 20);
	add_file(&a, "f", "x", false);
	for (int round = 0; round < 3; round++) {
		EXPECT_OK(a.fix, lay_out(&a));
		int tmp = openat(a.fd, round == 2 ? a.layout.shm : a.layout.tmp,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(mkdirat(tmp, "deep", 0700), 0);
		make_file(tmp, "deep/file");
		assert_int_equal(fchmodat(tmp, "deep", 0, 0), 0);
		close(tmp);
		assert_int_equal(mkdirat(a.layout.upper_fd, "shut", 0), 0);
		a.layout.n_left = round == 0 ? 1 : UINT64_MAX;
		bj_layout_drop(a.work, &a.layout);
		assert_int_equal(count_in(a.fd, "actions"), 0);
		await_no_trash(&a);
	}
	area_down(&a);
}

/* ---- without memory, and from many threads ---- */

static void each_allocation_fails_once(void **state)
{
	static const char *const parents[] = { "o/p", "l/q" };
	struct area a;
	bool failed = true;
	uint64_t n = 0;
	area_up(&a, *state, 1 << 20);
	add_dir(&a, "d");
	add_file(&a, "d/1", "same", false);
	add_file(&a, "d/2", "same", false);
	add_link(&a, "l", "d");
	for (; failed; n++) {
		struct bj_arena arena;
		struct bj_str views[] = { bj_str_of(parents[0]), bj_str_of(parents[1]) };
		bj_arena_init(&arena, 0);
		bj_alloc_fail_after(n);
		int r = bj_layout_make(a.work, &a.tree, views, 2, 0, 0, NULL, NULL, &arena,
				       &a.layout, &a.missing, &a.fix->err);
		failed = bj_alloc_fail_disarm();
		assert_true(r == 0 || (failed && r == -BJ_RESOURCE_EXHAUSTED));
		bj_err_clear(&a.fix->err);
		bj_layout_drop(a.work, &a.layout);
		assert_int_equal(count_in(a.fd, "actions"), 0);
		bj_arena_deinit(&arena);
	}
	assert_true(n > 4);
	area_down(&a);
}

enum { N_THREADS = 4, N_ROUNDS = 30, N_SHARED = 16 };

struct layer {
	struct area *area;
	unsigned seed;
	bool ok;
};

static void *layer_main(void *arg)
{
	struct layer *me = arg;
	me->ok = true;
	for (int i = 0; i < N_ROUNDS && me->ok; i++) {
		struct bj_layout layout = BJ_LAYOUT_NULL;
		struct bj_missing missing;
		struct bj_err err = BJ_ERR_NULL;
		struct bj_arena arena;
		struct stat st;
		bj_arena_init(&arena, 0);
		int r = bj_layout_make(me->area->work, &me->area->tree, NULL, 0, 0, 0, NULL, NULL,
				       &arena, &layout, &missing, &err);
		me->ok = r == 0;
		for (size_t j = 0; me->ok && j < me->area->tree.n_entries; j++)
			me->ok = fstatat(layout.lower_fd, me->area->entries[j].path.ptr, &st, 0) ==
					 0 &&
				 (uint64_t)st.st_size == me->area->entries[j].digest.size_bytes;
		if (rand_r(&me->seed) % 2)
			layout.n_left = UINT64_MAX; /* to the janitor */
		bj_layout_drop(me->area->work, &layout);
		bj_arena_deinit(&arena);
	}
	return NULL;
}

static void slots_share_the_hot_blobs(void **state)
{
	struct area a;
	struct layer layers[N_THREADS];
	pthread_t threads[N_THREADS];
	area_up(&a, *state, 4000); /* a few at a time: eviction all along */
	for (int i = 0; i < N_SHARED; i++)
		add(&a, make_path(&a, "f%02d", i), BJ_NODE_FILE)->digest =
			put_random(a.fix, 1000 + (size_t)i, (uint64_t)i + 1);
	for (size_t i = 0; i < N_THREADS; i++) {
		layers[i] = (struct layer){ .area = &a, .seed = (unsigned)i };
		assert_int_equal(pthread_create(&threads[i], NULL, layer_main, &layers[i]), 0);
	}
	for (size_t i = 0; i < N_THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_true(layers[i].ok);
	}
	assert_int_equal(count_in(a.fd, "actions"), 0);
	await_no_trash(&a);
	area_down(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(a_tree_as_declared),
		FIX_TEST(twins_share_nothing),
		FIX_TEST(the_umask_does_not_matter),
		FIX_TEST(directories_belong_to_the_slot),
		FIX_TEST(an_input_that_is_an_output_is_the_actions_own),
		FIX_TEST(parents_of_outputs),
		FIX_TEST(a_parent_that_is_an_input_needs_nothing),
		FIX_TEST(parents_behind_links),
		FIX_TEST(a_parent_that_is_a_file),
		FIX_TEST(all_that_is_missing_is_named),
		FIX_TEST(a_damaged_blob_is_missing),
		FIX_TEST(a_hot_blob_outlives_its_eviction),
		FIX_TEST(a_full_link_count_means_copies),
		FIX_TEST(a_hot_blob_that_vanishes_is_copied),
		FIX_TEST(a_failing_link_names_path_and_reason),
		FIX_TEST(the_hot_blobs_are_bounded),
		FIX_TEST(a_blob_above_the_limit_is_laid_out_all_the_same),
		FIX_TEST(the_longest_path),
		FIX_TEST(a_small_tree_goes_at_once),
		FIX_TEST(a_large_tree_goes_to_the_janitor),
		FIX_TEST(what_the_action_left_goes_too),
		FIX_TEST(each_allocation_fails_once),
		FIX_TEST(slots_share_the_hot_blobs),
	};
	bj_log_set_level(BJ_LOG_ERROR);
	return cmocka_run_group_tests_name("action/layout", tests, NULL, NULL);
}
