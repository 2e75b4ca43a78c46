// SPDX-License-Identifier: Apache-2.0
/*
 * ByteStream's resource names. Whatever is accepted must be a name that can be written again from its parts, and an instance that the
 * other services would take; a name cannot be one to read and one to write at once.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/base/buf.h"
#include "executor/service/resource.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAME_MAX_BYTES = 1 << 20 };

/* The canonical name of these parts, without what a client may add at the end. */
static void write_name(struct bj_buf *buf, const struct bj_resource *r)
{
	char digest[BJ_DIGEST_STR_BYTES];

	bj_digest_str(&r->digest, digest);
	(void)bj_buf_append_str(buf, r->instance);
	if (r->instance.len)
		(void)bj_buf_append_char(buf, '/');
	if (r->uuid.len) {
		(void)bj_buf_append_cstr(buf, "uploads/");
		(void)bj_buf_append_str(buf, r->uuid);
		(void)bj_buf_append_char(buf, '/');
	}
	(void)bj_buf_printf(buf, "blobs/%s", digest);
	bj_assert(!buf->failed);
}

static bool is_inside(struct bj_str part, struct bj_str name)
{
	return part.len == 0 ||
	       (part.ptr >= name.ptr && part.ptr + part.len <= name.ptr + name.len);
}

typedef int (*parse_fn)(struct bj_str name, struct bj_resource *out, struct bj_err *err);

static bool run(struct bj_str name, parse_fn parse)
{
	struct bj_resource first, second;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_buf buf = BJ_BUF_INIT(NAME_MAX_BYTES * 2);
	int r = parse(name, &first, &err);

	bj_assert(r == 0 || r == -BJ_INVALID_ARGUMENT || r == -BJ_UNIMPLEMENTED);
	bj_assert(bj_err_is_set(&err) == (r < 0));
	if (r < 0)
		return false;
	bj_assert(is_inside(first.instance, name) && is_inside(first.uuid, name));
	bj_assert(!memchr(first.uuid.len ? first.uuid.ptr : "", '/', first.uuid.len));
	bj_assert(bj_instance_check(first.instance, "instance", &err) == 0);
	write_name(&buf, &first);
	bj_assert(parse(bj_buf_str(&buf), &second, &err) == 0);
	bj_assert(bj_str_eq(first.instance, second.instance));
	bj_assert(bj_str_eq(first.uuid, second.uuid));
	bj_assert(bj_digest_eq(&first.digest, &second.digest));
	bj_buf_deinit(&buf);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > NAME_MAX_BYTES)
		return 0;
	struct bj_str name = bj_str_n(data, size);
	bool is_read = run(name, bj_resource_parse_read);
	bool is_write = run(name, bj_resource_parse_write);

	bj_assert(!is_read || !is_write);
	return 0;
}
