// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "executor/cli/cli-internal.h"
#include "executor/cli/host.h"
#include "executor/cli/serve-internal.h"
#include "executor/jail/spec.h"

struct serve_flags {
	struct bj_flag_list listen, workspaces;
	const char *store, *config, *port_file, *jail, *log_level;
	uint64_t n_slots;
	bool insecure;
};

#define AT(member) offsetof(struct serve_flags, member)

const struct bj_flag bj_serve_flags[BJ_SERVE_N_FLAGS] = {
	{ "listen", BJ_FLAG_LIST, AT(listen), 0, 0, "ADDR",
	  "HOST:PORT, [IPV6]:PORT or unix:PATH; repeatable; port 0 picks one\n"
	  "[127.0.0.1:8980]" },
	{ "store", BJ_FLAG_TEXT, AT(store), 0, 0, "DIR",
	  "where blobs and the action cache are kept\n"
	  "[/var/cache/belljar as root, else $XDG_CACHE_HOME/belljar]" },
	{ "slots", BJ_FLAG_NUMBER, AT(n_slots), 1, BJ_CONFIG_MAX_SLOTS, "N",
	  "actions that run at the same time [usable processors]" },
	{ "workspace", BJ_FLAG_LIST, AT(workspaces), 0, 0, "DIR",
	  "source tree of a client: undeclared reads of what it has are reported;\n"
	  "repeatable" },
	{ "config", BJ_FLAG_TEXT, AT(config), 0, 0, "FILE", "YAML file; flags beat it" },
	{ "port-file", BJ_FLAG_TEXT, AT(port_file), 0, 0, "FILE",
	  "gets the port of the first TCP listener once the server is ready" },
	{ "jail", BJ_FLAG_TEXT, AT(jail), 0, 0, "PATH", "belljar-jail [beside this program]" },
	{ "log-level", BJ_FLAG_TEXT, AT(log_level), 0, 0, "L",
	  "debug, info, warn or error [info]" },
	{ "insecure", BJ_FLAG_SWITCH, AT(insecure), 0, 0, NULL,
	  "listen where other machines can connect: there is no authentication" },
};

static int no_memory(struct bj_err *err)
{
	return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for the settings");
}

/* ---- flags over file ---- */

static int override_list(struct bj_config_list *list, const struct bj_flag_list *flag,
			 struct bj_arena *arena, struct bj_err *err)
{
	if (flag->n == 0)
		return 0;
	struct bj_str *items = BJ_ARENA_ARRAY(arena, struct bj_str, flag->n);
	if (!items)
		return no_memory(err);
	for (size_t i = 0; i < flag->n; i++)
		items[i] = bj_str_of(flag->items[i]);
	*list = (struct bj_config_list){ items, flag->n };
	return 0;
}

static int override(struct bj_config *config, const struct serve_flags *flags,
		    struct bj_arena *arena, struct bj_err *err)
{
	if (flags->store)
		config->store = bj_str_of(flags->store);
	if (flags->n_slots)
		config->n_slots = flags->n_slots;
	int r = override_list(&config->listen, &flags->listen, arena, err);
	return r < 0 ? r : override_list(&config->workspaces, &flags->workspaces, arena, err);
}

/* ---- defaults and checks ---- */

static int complete_listen(struct bj_config *config, bool insecure, struct bj_err *err)
{
	static struct bj_str standard = { "127.0.0.1:8980", sizeof("127.0.0.1:8980") - 1 };
	bool all_local = true;

	if (config->listen.n == 0)
		config->listen = (struct bj_config_list){ &standard, 1 };
	for (size_t i = 0; i < config->listen.n; i++) {
		struct bj_str address = config->listen.items[i];
		if (bj_str_find(address, ':', 0) == address.len)
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "listen address \"%.*s\" is not HOST:PORT, [IPV6]:PORT "
					  "or unix:PATH",
					  BJ_STR_FMT(address));
		if (bj_host_is_local(address))
			continue;
		all_local = false;
		if (!insecure)
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "\"%.*s\" can be reached from other machines, and "
					  "whoever reaches it can run commands here: there is no "
					  "authentication. If that is meant, add --insecure",
					  BJ_STR_FMT(address));
	}
	if (!config->has_tell_host)
		config->tell_host = all_local;
	return 0;
}

static int complete_workspaces(struct bj_config *config, struct bj_arena *arena, struct bj_err *err)
{
	struct bj_config_list *list = &config->workspaces;
	struct bj_str *real = BJ_ARENA_ARRAY(arena, struct bj_str, list->n);

	if (!real)
		return no_memory(err);
	for (size_t i = 0; i < list->n; i++) {
		int r = bj_host_real_dir(list->items[i], "workspace", arena, &real[i], err);
		if (r < 0)
			return r;
	}
	list->items = real;
	return 0;
}

/* Where every action has something of its own a root would be hidden, or would hide it. */
static int check_extra_roots(const struct bj_config *config, struct bj_arena *arena,
			     struct bj_err *err)
{
	static const char *const own[] = { "/tmp", "/dev", "/proc", "/.bj", BJ_JAIL_ROOT };
	struct bj_config_list list = config->extra_roots;

	for (size_t i = 0; i < list.n; i++) {
		struct bj_str path = bjp_path_clean(arena, BJ_STR_LIT("/"), list.items[i]);
		bool is_bad = path.len <= 1;
		for (size_t j = 0; j < BJ_ARRAY_LEN(own); j++)
			is_bad = is_bad || bjp_path_is_below(path, bj_str_of(own[j]));
		if (is_bad)
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "extraRoots[%zu] \"%s\": neither / nor what every action "
					  "has of its "
					  "own can be a root (/tmp, /dev, /proc, " BJ_JAIL_ROOT ")",
					  i, list.items[i].ptr);
	}
	return 0;
}

/* An anchor is a name as actions use it, so it stays as it was given. */
static int check_anchors(const struct bj_config *config, struct bj_arena *arena, struct bj_err *err)
{
	struct bj_config_list list = config->deny_anchors;

	for (size_t i = 0; i < list.n; i++) {
		list.items[i] = list.items[i].len && list.items[i].ptr[0] == '/'
					? bjp_path_clean(arena, BJ_STR_LIT("/"), list.items[i])
					: BJ_STR_NULL;
		if (list.items[i].len == 0)
			return bj_err_set(err, BJ_INVALID_ARGUMENT,
					  "denyAnchors[%zu] is not an absolute path", i);
	}
	return 0;
}

static int complete_bytes(struct bj_config *config, struct bj_err *err)
{
	if (!config->work_bytes)
		config->work_bytes =
			BJ_MAX(bj_host_memory_bytes() / 4, (uint64_t)BJ_CONFIG_MIN_WORK_BYTES);
	if (!config->hot_bytes)
		config->hot_bytes = config->work_bytes / 2;
	if (config->hot_bytes > config->work_bytes)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "hotBytes %" PRIu64 " is more than workBytes %" PRIu64,
				  config->hot_bytes, config->work_bytes);
	return 0;
}

/* Only root gives each slot a user of its own; without one, every action would fail later. */
static int check_slot_ids(const struct bj_config *config, struct bj_err *err)
{
	uint64_t first = config->first_slot_uid, n = config->n_slots;

	if (geteuid() != 0 || bj_host_has_ids(first, n))
		return 0;
	return bj_err_set(
		err, BJ_FAILED_PRECONDITION,
		"users and groups %" PRIu64 " to %" PRIu64
		", one for each slot, do not exist in this "
		"user namespace (/proc/self/uid_map, gid_map): set firstSlotUid, or start it as "
		"an ordinary user",
		first, first + n - 1);
}

static int complete_numbers(struct bj_config *config, struct bj_err *err)
{
	if (!config->n_slots)
		config->n_slots = BJ_MIN(bj_host_cpus(), (uint64_t)BJ_CONFIG_MAX_SLOTS);
	if (config->default_timeout_seconds > config->max_timeout_seconds)
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "defaultTimeoutSeconds %" PRIu64
				  " is more than maxTimeoutSeconds %" PRIu64,
				  config->default_timeout_seconds, config->max_timeout_seconds);
	int r = check_slot_ids(config, err);
	return r < 0 ? r : complete_bytes(config, err);
}

static int complete(struct bj_config *config, bool insecure, struct bj_arena *arena,
		    struct bj_err *err)
{
	int r = complete_listen(config, insecure, err);
	if (r == 0)
		r = complete_numbers(config, err);
	if (r == 0)
		r = complete_workspaces(config, arena, err);
	if (r == 0)
		r = check_anchors(config, arena, err);
	if (r == 0)
		r = check_extra_roots(config, arena, err);
	if (r == 0 && !config->store.len)
		r = bj_host_store_dir(arena, &config->store, err);
	return r;
}

/* ---- the whole ---- */

static int set_program(struct bj_serve_options *options, const struct serve_flags *flags,
		       struct bj_arena *arena, struct bj_err *err)
{
	options->port_file = bj_str_of(flags->port_file);
	options->worker_name = bj_host_name(arena);
	options->log_level = BJ_LOG_INFO;
	if (flags->log_level && !bj_log_parse_level(flags->log_level, &options->log_level))
		return bj_err_set(err, BJ_INVALID_ARGUMENT,
				  "--log-level=%s: not one of debug, info, warn, error",
				  flags->log_level);
	if (!flags->jail)
		return bj_host_jail_binary(bj_cli_argv0(), arena, &options->jail_binary, err);
	if (access(flags->jail, X_OK) < 0)
		return bj_err_set(err, BJ_INVALID_ARGUMENT, "--jail=%s: %s", flags->jail,
				  strerror(errno));
	options->jail_binary = bj_str_of(flags->jail);
	return 0;
}

int bj_serve_options(const struct bj_command *command, int argc, char **argv,
		     struct bj_arena *arena, struct bj_serve_options *out_options,
		     struct bj_err *err)
{
	struct serve_flags flags = { 0 };
	struct bj_flag_list operands = { 0 };
	struct bj_serve_options options = { 0 };

	bj_config_init(&options.config);
	int r = bj_flags_parse(command, argc, argv, arena, &flags, &operands, err);
	if (r == 0 && flags.config)
		r = bj_config_read(flags.config, arena, &options.config, err);
	if (r == 0)
		r = override(&options.config, &flags, arena, err);
	if (r == 0)
		r = complete(&options.config, flags.insecure, arena, err);
	if (r == 0)
		r = set_program(&options, &flags, arena, err);
	if (r == 0)
		*out_options = options;
	return r;
}
