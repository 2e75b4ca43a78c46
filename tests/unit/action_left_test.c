// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/action_collect_util.h"

#include <sys/sysmacros.h>

enum { MAX_LEFT = 64 };

struct left_seen {
	char path[64];
	struct bj_left left;
};

struct left_scene {
	struct scene scene; /* its root is the upper layer */
	struct bj_layout layout;
	struct left_seen seen[MAX_LEFT]; /* sorted by path */
	size_t n;
	bool cut;
};

static void left_up(struct left_scene *l, struct fix *fix)
{
	memset(l, 0, sizeof(*l));
	scene_up(&l->scene, fix);
	l->layout = BJ_LAYOUT_NULL;
	l->layout.upper_fd = l->scene.fd;
	assert_int_equal(mkdirat(fix->dir_fd, "lower", 0755), 0);
	l->layout.lower_fd = openat(fix->dir_fd, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(l->layout.lower_fd >= 0);
}

static void left_down(struct left_scene *l)
{
	close(l->layout.lower_fd);
	scene_down(&l->scene);
}

static void on_left(void *ctx, const struct bj_left *left)
{
	struct left_scene *l = ctx;
	if (l->n == MAX_LEFT)
		return;
	struct left_seen *seen = &l->seen[l->n++];
	seen->left = *left;
	(void)snprintf(seen->path, sizeof(seen->path), "%.*s",
		       (int)BJ_MIN(left->path.len, (size_t)63), left->path.ptr);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct left_seen *)a)->path, ((const struct left_seen *)b)->path);
}

static void walk_left(struct left_scene *l, size_t max)
{
	struct fix *fix = l->scene.fix;
	l->n = 0;
	EXPECT_OK(fix, bj_collect_left(&l->layout, max, on_left, l, &l->cut, &fix->err));
	qsort(l->seen, l->n, sizeof(l->seen[0]), by_path);
}

static void left_overs_of_all_kinds(void **state)
{
	struct left_scene l;
	left_up(&l, *state);
	struct scene *s = &l.scene;
	make_dir(s, "d");
	make_dir(s, "empty");
	write_file(s, "d/made", "12345", 0644);
	write_file(s, "d/changed", "1", 0644);
	make_link(s, "d", "link");
	assert_int_equal(mkfifoat(s->fd, "fifo", 0644), 0);
	bool can_mknod = mknodat(s->fd, "gone", S_IFCHR, makedev(0, 0)) == 0;
	assert_int_equal(mkdirat(l.layout.lower_fd, "d", 0755), 0);
	int fd = openat(l.layout.lower_fd, "d/changed", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	close(fd);
	fd = openat(l.layout.lower_fd, "gone", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	close(fd);

	walk_left(&l, 1000);
	assert_false(l.cut);
	assert_int_equal(l.n, can_mknod ? 6 : 5);
	assert_int_equal(l.layout.n_left, can_mknod ? 7 : 6);
	assert_string_equal(l.seen[0].path, "d/changed");
	assert_true(l.seen[0].left.shadows_input);
	assert_string_equal(l.seen[1].path, "d/made");
	assert_false(l.seen[1].left.shadows_input);
	assert_int_equal(l.seen[1].left.size_bytes, 5);
	assert_string_equal(l.seen[2].path, "empty");
	assert_true(l.seen[2].left.is_dir);
	assert_string_equal(l.seen[3].path, "fifo");
	assert_true(l.seen[3].left.is_special);
	if (can_mknod) {
		assert_string_equal(l.seen[4].path, "gone");
		assert_true(l.seen[4].left.is_whiteout && l.seen[4].left.shadows_input);
		assert_false(l.seen[4].left.is_special);
	}
	assert_string_equal(l.seen[l.n - 1].path, "link");
	assert_true(l.seen[l.n - 1].left.is_symlink);
	left_down(&l);
}

/* lower/a is a link of the input tree to /etc, which the action replaced by a directory: nothing may be looked up in /etc. */
static void a_replaced_link_leads_nowhere(void **state)
{
	struct left_scene l;
	left_up(&l, *state);
	assert_int_equal(symlinkat("/etc", l.layout.lower_fd, "a"), 0);
	make_dir(&l.scene, "a");
	write_file(&l.scene, "a/passwd", "x", 0644);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	walk_left(&l, 1000);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.seen[0].path, "a/passwd");
	assert_false(l.seen[0].left.shadows_input);
	/* The link itself, replaced by a file, is one that shadows. */
	assert_int_equal(bj_remove_tree(l.scene.fd, "a"), 0);
	write_file(&l.scene, "a", "x", 0644);
	walk_left(&l, 1000);
	assert_true(l.seen[0].left.shadows_input);
	left_down(&l);
}

static void what_the_layout_made_is_not_left(void **state)
{
	struct timespec times[2] = { { .tv_sec = BJ_INPUT_MTIME }, { .tv_sec = BJ_INPUT_MTIME } };
	struct left_scene l;
	left_up(&l, *state);
	make_dir(&l.scene, "parent");
	assert_int_equal(utimensat(l.scene.fd, "parent", times, 0), 0);
	walk_left(&l, 1000);
	assert_int_equal(l.n, 0);
	make_dir(&l.scene, "parent/own"); /* the action's */
	walk_left(&l, 1000);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.seen[0].path, "parent/own");
	left_down(&l);
}

static void the_walk_is_bounded(void **state)
{
	struct left_scene l;
	char path[16];
	left_up(&l, *state);
	for (int i = 0; i < 10; i++) {
		(void)snprintf(path, sizeof(path), "f%d", i);
		write_file(&l.scene, path, "", 0644);
	}
	walk_left(&l, 10);
	assert_false(l.cut);
	assert_int_equal(l.n, 10);
	assert_int_equal(l.layout.n_left, 10);
	walk_left(&l, 9);
	assert_true(l.cut);
	assert_int_equal(l.n, 9);
	assert_int_equal(l.layout.n_left, UINT64_MAX);

	make_dir(&l.scene, "deep");
	int fd = openat(l.scene.fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 600; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int below = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = below;
	}
	close(fd);
	walk_left(&l, 100000);
	assert_true(l.cut);
	left_down(&l);
}

static void left_overs_without_memory(void **state)
{
	struct left_scene l;
	struct fix *fix = *state;
	bool failed = true;
	left_up(&l, fix);
	make_dir(&l.scene, "d");
	write_file(&l.scene, "d/f", "x", 0644);
	for (uint64_t n = 0; failed; n++) {
		l.n = 0;
		bj_alloc_fail_after(n);
		int r = bj_collect_left(&l.layout, 1000, on_left, &l, &l.cut, &fix->err);
		failed = bj_alloc_fail_disarm();
		assert_true(r == -BJ_RESOURCE_EXHAUSTED || (r == 0 && l.cut == failed));
		bj_err_clear(&fix->err);
	}
	assert_int_equal(l.n, 1);
	left_down(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(left_overs_of_all_kinds),	    FIX_TEST(a_replaced_link_leads_nowhere),
		FIX_TEST(what_the_layout_made_is_not_left), FIX_TEST(the_walk_is_bounded),
		FIX_TEST(left_overs_without_memory),
	};
	return cmocka_run_group_tests_name("action/left", tests, NULL, NULL);
}
