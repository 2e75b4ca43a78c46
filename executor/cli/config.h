// SPDX-License-Identifier: Apache-2.0
/**
 * cli/config.h - what `belljar serve` can be told, and its YAML file.
 * Owns: nothing; strings and lists live in the arena. Threads: one.
 *
 * The file is a mapping of camelCase keys with their units in the name; everything is optional, the empty file is valid:
 *
 *	listen: [127.0.0.1:8980, "unix:/run/belljar/sock"]
 *	store: /var/cache/belljar
 *	slots: 8
 *	workspaces: [/home/me/project]
 *	sandbox:
 *	  write: scratch                 # scratch, strict
 *	  observe: default               # off, writes, default, strict
 *	  onViolation: report            # report, fail, off
 *	  ignore:
 *	    read: [/exec/cache]
 *	    network: ["127.0.0.1"]
 *	  bounds:
 *	    minObserve: writes
 *	    mayIgnore: false
 *	    minOnViolation: report
 *
 * What is not exactly so is refused with its line: an unknown or repeated key, a wrong type, an anchor or alias (so nothing can be
 * expanded without end), a tag, a second document.
 */
#ifndef BJ_CLI_CONFIG_H
#define BJ_CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/base/arena.h"
#include "executor/base/buf.h"
#include "executor/base/err.h"
#include "executor/base/str.h"
#include "policy/policy.h"

struct bj_config_list {
	struct bj_str *items; /* NUL-terminated behind their ends */
	size_t n;
};

/** "Let belljar decide" is 0, except where a comment says otherwise. */
struct bj_config {
	struct bj_config_list listen; /* HOST:PORT, [V6]:PORT or unix:PATH */
	struct bj_str store;	      /* directory */
	uint64_t n_slots;
	struct bj_config_list workspaces;
	uint64_t work_bytes;	  /* limit of the work area, a tmpfs */
	uint64_t hot_bytes;	  /* of it for blobs that stay ready */
	uint64_t store_max_bytes; /* 0: no limit */
	uint64_t max_timeout_seconds;
	uint64_t default_timeout_seconds; /* 0: none */
	uint64_t cancel_grace_seconds;	  /* always meant as it stands */
	uint64_t stop_grace_seconds;	  /* always meant as it stands */
	uint64_t first_slot_uid;
	struct bj_config_list extra_roots;
	struct bj_config_list deny_anchors;
	bool has_tell_host, tell_host; /* unset: true while all listeners are local */
	struct bjp_settings settings;
	struct bjp_bounds bounds;
};

enum {
	BJ_CONFIG_MAX_BYTES = 1 << 20, /* of a file */
	BJ_CONFIG_MAX_ITEMS = 1024,    /* of a list */
	BJ_CONFIG_MAX_SLOTS = 1024,
	BJ_CONFIG_MAX_SECONDS = 366 * 86400,
	BJ_CONFIG_MIN_WORK_BYTES = 16 << 20,
};

/** One line and more for each key, as `serve --help` shows them. */
void bj_config_help(struct bj_buf *out);

/** What does not depend on this machine. */
void bj_config_init(struct bj_config *config);

/**
 * bj_config_parse() - lay what a file says over @config.
 * @name: of the file, for errors, which read "NAME:LINE: …"
 * Return: 0; -INVALID_ARGUMENT; -RESOURCE_EXHAUSTED. On failure @config is as before.
 */
BJ_MUST_USE int bj_config_parse(struct bj_str text, const char *name, struct bj_arena *arena,
				struct bj_config *config, struct bj_err *err);
/** The same from a file. A file that is missing or cannot be read is an error that names it. */
BJ_MUST_USE int bj_config_read(const char *path, struct bj_arena *arena, struct bj_config *config,
			       struct bj_err *err);

#endif
