// SPDX-License-Identifier: Apache-2.0
/**
 * service/resource.h - ByteStream's resource names. Pure; fuzzed. Threads: any.
 * Spec: REAPI v2, service ContentAddressableStorage:
 *   read   [{instance}/]blobs/[{function}/]{hash}/{size}
 *   write  [{instance}/]uploads/{uuid}/blobs/[{function}/]{hash}/{size}[/{anything}]
 * An instance may hold slashes, but no empty segment, none of the reserved ones (blobs uploads actions actionResults operations
 * capabilities compressed-blobs), and at most BJ_INSTANCE_MAX_BYTES.
 */
#ifndef BJ_SERVICE_RESOURCE_H
#define BJ_SERVICE_RESOURCE_H

#include "executor/cas/digest.h"

enum { BJ_INSTANCE_MAX_BYTES = 1024 };

struct bj_resource {
	struct bj_str instance; /* borrows from the name */
	struct bj_str uuid;	/* write only */
	struct bj_digest digest;
};

/** @out: untouched on failure. Return: 0; -INVALID_ARGUMENT quoting the name and saying what is wrong; -UNIMPLEMENTED for compressed-blobs. */
BJ_MUST_USE int bj_resource_parse_read(struct bj_str name, struct bj_resource *out,
				       struct bj_err *err);
BJ_MUST_USE int bj_resource_parse_write(struct bj_str name, struct bj_resource *out,
					struct bj_err *err);
/** Instance names of other requests follow the same rule. @what names the field. */
BJ_MUST_USE int bj_instance_check(struct bj_str instance, const char *what, struct bj_err *err);

#endif
