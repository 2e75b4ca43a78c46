// SPDX-License-Identifier: Apache-2.0
/* From what the client declared to the policy: settings of the platform on top of the operator's, then the three baselines. */
#include "executor/action/life-internal.h"

/* Spec: "Action.platform … If both are set, this one wins", for clients of 2.2 and newer; older ones fill Command.platform. */
static const BJ_RE(Platform) * platform_of(const re_action *action, const re_command *command)
{
	if (action->platform)
		return action->platform;
	return command ? command->platform : NULL;
}

int derive_settings(const struct bj_runner *runner, const re_action *action,
		    const re_command *command, struct bj_arena *arena, struct bjp_settings *out,
		    struct bj_err *err)
{
	const BJ_RE(Platform) *platform = platform_of(action, command);
	size_t n = platform ? platform->n_properties : 0;
	struct bjp_property *props = BJ_ARENA_ARRAY(arena, struct bjp_property, n);

	if (!props)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for %zu platform properties", n);
	for (size_t i = 0; i < n; i++)
		props[i] = (struct bjp_property){ bj_str_of(platform->properties[i]->name),
						  bj_str_of(platform->properties[i]->value) };
	*out = runner->opts.settings;
	return bjp_settings_apply(out, &runner->opts.bounds, props, n, arena, err);
}

static enum bjp_node_kind node_kind(enum bj_node_kind kind)
{
	static const enum bjp_node_kind kinds[] = {
		[BJ_NODE_DIR] = BJP_NODE_DIR,
		[BJ_NODE_FILE] = BJP_NODE_FILE,
		[BJ_NODE_SYMLINK] = BJP_NODE_SYMLINK,
	};
	return kinds[kind];
}

static bool declare_tree(struct life *life, struct bjp_declared *declared)
{
	struct bjp_node *nodes = BJ_ARENA_ARRAY(life->arena, struct bjp_node, life->tree.n_entries);

	if (!nodes)
		return false;
	for (size_t i = 0; i < life->tree.n_entries; i++) {
		const struct bj_tree_entry *e = &life->tree.entries[i];

		nodes[i] = (struct bjp_node){ e->path, node_kind(e->kind), e->target };
	}
	declared->inputs = nodes;
	declared->n_inputs = life->tree.n_entries;
	return true;
}

static bool declare_outputs(struct life *life, struct bjp_declared *declared)
{
	struct bj_str *paths = BJ_ARENA_ARRAY(life->arena, struct bj_str, life->n_outputs);

	if (!paths)
		return false;
	for (size_t i = 0; i < life->n_outputs; i++)
		paths[i] = life->outputs[i].path;
	declared->outputs = paths;
	declared->n_outputs = life->n_outputs;
	return true;
}

static bool declare_env(struct life *life, struct bjp_declared *declared)
{
	size_t n = life->command->n_environment_variables;
	struct bj_str *names = BJ_ARENA_ARRAY(life->arena, struct bj_str, n);
	struct bj_str *values = BJ_ARENA_ARRAY(life->arena, struct bj_str, n);

	if (!names || !values)
		return false;
	for (size_t i = 0; i < n; i++) {
		names[i] = bj_str_of(life->command->environment_variables[i]->name);
		values[i] = bj_str_of(life->command->environment_variables[i]->value);
	}
	declared->env_names = names;
	declared->env_values = values;
	declared->n_env = n;
	return true;
}

int life_derive(struct life *life)
{
	struct bj_err *err = &life->failure.err;
	struct bjp_declared declared = {
		.exec_root = BJ_STR_LIT(BJ_JAIL_ROOT),
		.working_dir = bj_str_of(life->command->working_directory),
		.roots = life->runner->root_paths,
		.n_roots = life->runner->n_root_paths,
	};
	int r = derive_settings(life->runner, life->action, life->command, life->arena,
				&life->settings, err);

	if (r < 0)
		return r;
	if (!declare_tree(life, &declared) || !declare_outputs(life, &declared) ||
	    !declare_env(life, &declared))
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "out of memory for the policy of %zu inputs",
				  life->tree.n_entries);
	r = bjp_derive(&declared, &life->settings, life->arena, &life->policy, err);
	if (r < 0)
		return bj_err_wrap(err, "derive the policy");
	return bjp_collector_new(life->policy, &life->settings, &life->collector, err);
}
