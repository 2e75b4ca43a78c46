// SPDX-License-Identifier: Apache-2.0
/* Capabilities and health: what we are, told from constants. No disk, so they answer on the loop. */
#include "executor/base/pb.h"
#include "executor/service/resource.h"
#include "executor/service/service-internal.h"
#include "grpc/health/v1/health.pb-c.h"

/* Every Bazel up to 6 insists on 2.0; 2.3 is what the tests prove. */
static void fill_versions(BJ_RE(ServerCapabilities) * caps,
			  Build__Bazel__Semver__SemVer versions[2])
{
	build__bazel__semver__sem_ver__init(&versions[0]);
	versions[0].major = 2;
	build__bazel__semver__sem_ver__init(&versions[1]);
	versions[1].major = 2;
	versions[1].minor = 3;
	caps->low_api_version = &versions[0];
	caps->high_api_version = &versions[1];
}

/* Any priority is taken: the range says so, or clients refuse to send one. */
static void fill_priorities(BJ_RE(PriorityCapabilities) * priorities,
			    BJ_RE(PriorityCapabilities__PriorityRange) * range,
			    BJ_RE(PriorityCapabilities__PriorityRange) * *list)
{
	build__bazel__remote__execution__v2__priority_capabilities__init(priorities);
	build__bazel__remote__execution__v2__priority_capabilities__priority_range__init(range);
	range->min_priority = INT32_MIN;
	range->max_priority = INT32_MAX;
	*list = range;
	priorities->priorities = list;
	priorities->n_priorities = 1;
}

static void on_capabilities(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	const struct bj_services *services = bj_rpc_svc(call);
	BJ_RE(ServerCapabilities)
	caps = BUILD__BAZEL__REMOTE__EXECUTION__V2__SERVER_CAPABILITIES__INIT;
	BJ_RE(CacheCapabilities)
	cache = BUILD__BAZEL__REMOTE__EXECUTION__V2__CACHE_CAPABILITIES__INIT;
	BJ_RE(ExecutionCapabilities)
	execution = BUILD__BAZEL__REMOTE__EXECUTION__V2__EXECUTION_CAPABILITIES__INIT;
	BJ_RE(ActionCacheUpdateCapabilities)
	update = BUILD__BAZEL__REMOTE__EXECUTION__V2__ACTION_CACHE_UPDATE_CAPABILITIES__INIT;
	BJ_RE(DigestFunction__Value)
	functions[] = { BUILD__BAZEL__REMOTE__EXECUTION__V2__DIGEST_FUNCTION__VALUE__SHA256 };
	BJ_RE(PriorityCapabilities) priorities;
	BJ_RE(PriorityCapabilities__PriorityRange) range, *ranges;
	Build__Bazel__Semver__SemVer versions[2];
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;

	if (bj_rpc_unpack(
		    request,
		    &build__bazel__remote__execution__v2__get_capabilities_request__descriptor,
		    bj_rpc_arena(call), &message, &err) < 0) {
		bj_rpc_fail(call, &err);
		return;
	}
	const char *instance = ((const BJ_RE(GetCapabilitiesRequest) *)message)->instance_name;

	if (bj_instance_check(bj_str_of(instance), "GetCapabilitiesRequest.instance_name", &err) <
	    0) {
		bj_rpc_fail(call, &err);
		return;
	}
	fill_versions(&caps, versions);
	fill_priorities(&priorities, &range, &ranges);
	update.update_enabled = true;
	cache.digest_functions = functions;
	cache.n_digest_functions = 1;
	cache.action_cache_update_capabilities = &update;
	cache.cache_priority_capabilities = &priorities;
	cache.max_batch_total_size_bytes = BJ_MAX_BATCH_BYTES;
	cache.symlink_absolute_path_strategy =
		BUILD__BAZEL__REMOTE__EXECUTION__V2__SYMLINK_ABSOLUTE_PATH_STRATEGY__VALUE__ALLOWED;
	caps.cache_capabilities = &cache;
	execution.digest_function = functions[0];
	execution.digest_functions = functions;
	execution.n_digest_functions = 1;
	execution.exec_enabled = services->opts.engine != NULL;
	execution.execution_priority_capabilities = &priorities;
	if (services->opts.engine)
		caps.execution_capabilities = &execution;
	bj_rpc_reply_msg(call, &caps.base);
}

/* ---- grpc.health.v1 ---- */

/* The whole server (""), or one of its services: they are up together. */
static bool is_served(const struct bj_services *services, const char *name)
{
	static const char *const names[] = {
		"",
		"grpc.health.v1.Health",
		"google.bytestream.ByteStream",
		"build.bazel.remote.execution.v2.ActionCache",
		"build.bazel.remote.execution.v2.Capabilities",
		"build.bazel.remote.execution.v2.ContentAddressableStorage",
		/* These need an engine. */
		"build.bazel.remote.execution.v2.Execution",
		"belljar.v1.Explain",
	};
	size_t n = services->opts.engine ? BJ_ARRAY_LEN(names) : BJ_ARRAY_LEN(names) - 2;

	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static void on_health_check(struct bj_rpc_call *call, grpc_byte_buffer *request)
{
	Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
	struct bj_err err = BJ_ERR_NULL;
	ProtobufCMessage *message;

	if (bj_rpc_unpack(request, &grpc__health__v1__health_check_request__descriptor,
			  bj_rpc_arena(call), &message, &err) < 0) {
		bj_rpc_fail(call, &err);
		return;
	}
	const char *name = ((Grpc__Health__V1__HealthCheckRequest *)message)->service;

	if (!is_served(bj_rpc_svc(call), name)) {
		(void)bj_err_set(&err, BJ_NOT_FOUND,
				 "service: \"%.200s\" is not one of this server's", name);
		bj_rpc_fail(call, &err);
		return;
	}
	reply.status = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
	bj_rpc_reply_msg(call, &reply.base);
}

static const struct bj_rpc_handler capabilities_handler = { .open = on_capabilities };
static const struct bj_rpc_handler health_handler = { .open = on_health_check };

struct service_table service_capabilities(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities", BJ_RPC_UNARY,
		  &capabilities_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}

struct service_table service_health(void)
{
	static const struct bj_rpc_method methods[] = {
		{ "/grpc.health.v1.Health/Check", BJ_RPC_UNARY, &health_handler, NULL },
	};
	return (struct service_table){ methods, BJ_ARRAY_LEN(methods) };
}
