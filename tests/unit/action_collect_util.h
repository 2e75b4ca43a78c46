// SPDX-License-Identifier: Apache-2.0
/**
 * action_collect_util.h - a store, and a plain directory that stands for an action's input root or its layer.
 */
#ifndef BJ_TESTS_UNIT_ACTION_COLLECT_UTIL_H
#define BJ_TESTS_UNIT_ACTION_COLLECT_UTIL_H

#include "tests/unit/cas_test_util.h"

#include "executor/action/collect.h"
#include "executor/base/alloc.h"

struct scene {
	struct fix *fix;
	char dir[4200];
	int fd; /* the input root */
	struct bj_output outputs[8];
	struct bj_collect collect;
	re_action_result result;
};

static void scene_up(struct scene *s, struct fix *fix)
{
	*s = (struct scene){ .fix = fix };
	(void)snprintf(s->dir, sizeof(s->dir), "%s/root", fix->dir);
	assert_int_equal(mkdir(s->dir, 0755), 0);
	s->fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(s->fd >= 0);
	s->collect = (struct bj_collect){ .store = fix->store,
					  .fn = BJ_DIGEST_SHA256,
					  .exec_fd = s->fd,
					  .wants_tree = true,
					  .outputs = s->outputs,
					  .arena = &fix->arena };
	build__bazel__remote__execution__v2__action_result__init(&s->result);
}

static void scene_down(struct scene *s)
{
	close(s->fd);
}

BJ_UNUSED static void write_file(struct scene *s, const char *path, const char *text, mode_t mode)
{
	int fd = openat(s->fd, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

BJ_UNUSED static void make_dir(struct scene *s, const char *path)
{
	assert_int_equal(mkdirat(s->fd, path, 0755), 0);
}

BJ_UNUSED static void make_link(struct scene *s, const char *target, const char *path)
{
	assert_int_equal(symlinkat(target, s->fd, path), 0);
}

#endif
