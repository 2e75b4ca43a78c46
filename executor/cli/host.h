// SPDX-License-Identifier: Apache-2.0
/**
 * cli/host.h - what this machine gives: processors, memory, names, where our files are.
 * Owns: nothing; strings live in the arena. Threads: the main thread, before others exist and before bj_jail_enter_host() (which
 * changes who we are).
 */
#ifndef BJ_CLI_HOST_H
#define BJ_CLI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/base/str.h"

/** Processors that this process may use; at least 1. */
uint64_t bj_host_cpus(void);
/** Physical memory, or the limit of our cgroup (v2) when that is smaller. */
uint64_t bj_host_memory_bytes(void);
/**
 * bj_host_has_ids() - users and groups @first to @first + @n - 1 exist in our user namespace. In a container they may not.
 */
bool bj_host_has_ids(uint64_t first, uint64_t n);
/** As uname(2) says; "localhost" if it says nothing. */
struct bj_str bj_host_name(struct bj_arena *arena);

/**
 * bj_host_store_dir() - where the store is when nobody says: /var/cache/belljar for root, else $XDG_CACHE_HOME/belljar, else
 * ~/.cache/belljar.
 * Return: 0; -FAILED_PRECONDITION when there is neither variable nor home.
 */
BJ_MUST_USE int bj_host_store_dir(struct bj_arena *arena, struct bj_str *out_dir,
				  struct bj_err *err);

/**
 * bj_host_jail_binary() - belljar-jail: beside the running program, or beside the path that it was started by (which differ when
 * links to the two stand in one directory, as in Bazel's runfiles).
 * @argv0: as main() got it
 * Return: 0; -FAILED_PRECONDITION naming every path that was tried.
 */
BJ_MUST_USE int bj_host_jail_binary(const char *argv0, struct bj_arena *arena,
				    struct bj_str *out_path, struct bj_err *err);

/**
 * bj_host_is_local() - only this machine can reach @address: unix:PATH, localhost, 127.0.0.0/8, ::1.
 * Names are not looked up: what they mean is not ours to say.
 */
bool bj_host_is_local(struct bj_str address);

/** Absolute and without links. Return: 0; -INVALID_ARGUMENT "WHAT "PATH": REASON", also when it is no directory. */
BJ_MUST_USE int bj_host_real_dir(struct bj_str path, const char *what, struct bj_arena *arena,
				 struct bj_str *out_path, struct bj_err *err);

#endif
