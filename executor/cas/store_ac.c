// SPDX-License-Identifier: Apache-2.0
/*
 * The action cache: small files named after SHA-256(instance, action digest), each with a checksum of its own since
 * its name says nothing about its content. What does not check out is a miss, never an error: the action runs again.
 *
 *	offset 0   8 bytes  magic
 *	       8   8        XXH3-64 of all that follows, little endian
 *	      16  32        the name again, so that a file that was moved is not believed
 *	      48            the value
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/arena.h"
#include "executor/cas/store-internal.h"

enum { SUM_AT = 8, NAME_AT = 16, VALUE_AT = 48, MAX_FILE_BYTES = 256 * 1024 * 1024 };

static const char magic[SUM_AT + 1] = "bjac-01\n";

static void put_sum(char *out, struct bj_str bytes)
{
	uint64_t sum = bj_hash(bytes);
	for (size_t i = 0; i < 8; i++)
		out[i] = (char)(uint8_t)(sum >> (8 * i));
}

static void encode(char *out, const struct bj_store_key *key, struct bj_str value)
{
	memcpy(out, magic, SUM_AT);
	memcpy(out + NAME_AT, key->bytes + 1, BJ_STORE_AC_HASH_BYTES);
	if (value.len > 0)
		memcpy(out + VALUE_AT, value.ptr, value.len);
	put_sum(out + SUM_AT, bj_str_n(out + NAME_AT, VALUE_AT - NAME_AT + value.len));
}

static bool decode(struct bj_str file, const struct bj_store_key *key, struct bj_str *out_value)
{
	char sum[8];
	if (file.len < VALUE_AT || memcmp(file.ptr, magic, SUM_AT) != 0)
		return false;
	put_sum(sum, bj_str_sub(file, NAME_AT, file.len));
	if (memcmp(sum, file.ptr + SUM_AT, sizeof(sum)) != 0)
		return false;
	if (memcmp(file.ptr + NAME_AT, key->bytes + 1, BJ_STORE_AC_HASH_BYTES) != 0)
		return false;
	*out_value = bj_str_sub(file, VALUE_AT, file.len);
	return true;
}

int bj_store_ac_put(struct bj_store *store, struct bj_str instance, const struct bj_digest *action,
		    struct bj_str value, struct bj_err *err)
{
	size_t file_bytes = bj_size_add(VALUE_AT, value.len);
	if (file_bytes > MAX_FILE_BYTES)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "an action result of %zu bytes is too large", value.len);
	bj_cleanup(bj_freep) char *file = bj_malloc(file_bytes);
	if (!file)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "no memory for an action result");
	struct bj_store_key key = bj_store_key_ac(instance, action);
	encode(file, &key, value);

	char name[BJ_STORE_PATH_BYTES];
	int r = bj_store_write_tmp(store, bj_str_n(file, file_bytes), name, err);
	if (r < 0)
		return r;
	struct bj_store_entry *entry = NULL;
	r = bj_store_publish_begin(store, &key, file_bytes, true, &entry, err);
	if (r < 0) {
		(void)store->io->unlinkat(store->root_fd, name,
					  0); /* tmp/ is emptied at open anyway */
		return r;
	}
	return bj_store_publish_end(store, entry, file_bytes, name, err);
}

int bj_store_ac_get(struct bj_store *store, struct bj_str instance, const struct bj_digest *action,
		    struct bj_str *out_value, struct bj_arena *arena, struct bj_err *err)
{
	struct bj_store_key key = bj_store_key_ac(instance, action);
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	uint64_t size_bytes = 0;
	int r = bj_store_open_key(store, &key, &fd, &size_bytes, err);
	if (r != 0)
		return r;
	struct bj_str file = BJ_STR_NULL, value = BJ_STR_NULL;
	if (size_bytes <= MAX_FILE_BYTES) {
		r = bj_store_read_fd(store, fd, (size_t)size_bytes, &file, arena, err);
		if (r < 0)
			return r;
	}
	if (!decode(file, &key, &value)) {
		bj_store_discard_key(store, &key);
		return BJ_STORE_E_MISSING;
	}
	if (value.len == 0) /* an all-default result would make outputs vanish: never a hit */
		return BJ_STORE_E_MISSING;
	*out_value = value;
	return 0;
}
