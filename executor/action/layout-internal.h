// SPDX-License-Identifier: Apache-2.0
/** action/layout-internal.h - the work area, as layout.c (its life, throwing away) and layout_make.c (one tree) share it. */
#ifndef BJ_ACTION_LAYOUT_INTERNAL_H
#define BJ_ACTION_LAYOUT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "executor/action/hot.h"
#include "executor/action/layout.h"

struct bj_work {
	struct bj_hot *hot;
	int dir_fd;	   /* the work area */
	mode_t umask_bits; /* that mkdir() does not give us */
	atomic_ullong next_id;
	pthread_t janitor;
	bool has_janitor;
	pthread_mutex_t mu;   /* guards what follows */
	pthread_cond_t trash; /* something was thrown away, or stopping */
	uint64_t n_trash;     /* names given out */
	uint64_t n_waiting;   /* entries in trash/ not yet looked at */
	bool is_stopping;
};

#endif
