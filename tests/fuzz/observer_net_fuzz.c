// SPDX-License-Identifier: Apache-2.0
/* Socket addresses of an action: any bytes give a text that ends, and nothing beyond the bytes is read. */
#include <string.h>
#include <sys/socket.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bj_address address;

	if (size > BJ_ADDRESS_BYTES)
		return 0;
	if (!bj_address_decode(data, size, &address)) {
		bj_assert(size < 24);
		return 0;
	}
	bj_assert(memchr(address.text, '\0', sizeof(address.text)) != NULL);
	for (const char *c = address.text; *c; c++)
		bj_assert(*c >= ' ' && *c <= '~');
	if (address.path.len > 0) {
		bj_assert(address.family == AF_UNIX && !address.is_abstract &&
			  address.path.len <= 108);
		bj_assert((const uint8_t *)address.path.ptr == data + 2 &&
			  address.path.len <= size - 2);
		bj_assert(memchr(address.path.ptr, '\0', address.path.len) == NULL);
	}
	bj_assert(!address.is_abstract || address.text[0] == '@');
	bj_assert(!(address.is_loopback && address.is_any));
	return 0;
}
