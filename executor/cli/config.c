// SPDX-License-Identifier: Apache-2.0
#include "executor/cli/config.h"

void bj_config_init(struct bj_config *config)
{
	*config = (struct bj_config){
		.max_timeout_seconds = 24 * 3600,
		.cancel_grace_seconds = 5,
		.stop_grace_seconds = 10,
		.first_slot_uid = 60000,
		.settings = bjp_settings_default(),
		.bounds = {
			.min_observe = BJP_OBSERVE_OFF,
			.may_ignore = true,
			.min_on_violation = BJP_ON_VIOLATION_OFF,
		},
	};
}

int bj_config_read(const char *path, struct bj_arena *arena, struct bj_config *config,
		   struct bj_err *err)
{
	(void)arena;
	(void)config;
	return bj_err_set(err, BJ_UNIMPLEMENTED, "%s: no config files yet", path);
}
