// SPDX-License-Identifier: Apache-2.0
/*
 * Socket addresses as the caller gives them to connect, bind and send: hostile bytes of any length.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "executor/jail/observer-internal.h"

static bool decode_inet(const void *bytes, size_t n_bytes, struct bj_address *out)
{
	struct sockaddr_in in;
	uint32_t host;

	if (n_bytes < sizeof(in))
		return false;
	memcpy(&in, bytes, sizeof(in));
	host = ntohl(in.sin_addr.s_addr);
	(void)inet_ntop(AF_INET, &in.sin_addr, out->text, sizeof(out->text));
	out->port = ntohs(in.sin_port);
	out->is_any = host == INADDR_ANY;
	out->is_loopback = host >> 24 == 127;
	return true;
}

static bool decode_inet6(const void *bytes, size_t n_bytes, struct bj_address *out)
{
	struct sockaddr_in6 in;
	bool is_v4;

	/* The scope id came later: the kernel takes an address without it. */
	if (n_bytes < offsetof(struct sockaddr_in6, sin6_scope_id))
		return false;
	memset(&in, 0, sizeof(in));
	memcpy(&in, bytes, n_bytes < sizeof(in) ? n_bytes : sizeof(in));
	(void)inet_ntop(AF_INET6, &in.sin6_addr, out->text, sizeof(out->text));
	out->port = ntohs(in.sin6_port);
	is_v4 = IN6_IS_ADDR_V4MAPPED(&in.sin6_addr);
	out->is_any = IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr);
	out->is_loopback =
		IN6_IS_ADDR_LOOPBACK(&in.sin6_addr) || (is_v4 && in.sin6_addr.s6_addr[12] == 127);
	return true;
}

static bool decode_unix(const char *bytes, size_t n_bytes, struct bj_address *out)
{
	const char *name = bytes + offsetof(struct sockaddr_un, sun_path);
	size_t len = n_bytes - offsetof(struct sockaddr_un, sun_path);
	size_t n = 0;

	if (n_bytes <= offsetof(struct sockaddr_un, sun_path))
		return true; /* unnamed: "any name" for bind */
	if (len > sizeof(((struct sockaddr_un *)0)->sun_path))
		len = sizeof(((struct sockaddr_un *)0)->sun_path);
	if (name[0] != '\0') {
		out->path = bj_str_n(name, strnlen(name, len));
		return true;
	}
	/* An abstract name has any bytes: what is not printable is shown as a dot. */
	out->is_abstract = true;
	out->text[n++] = '@';
	for (size_t i = 1; i < len && n < sizeof(out->text) - 1; i++)
		out->text[n++] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '.';
	return true;
}

bool bj_address_decode(const void *bytes, size_t n_bytes, struct bj_address *out)
{
	sa_family_t family;

	*out = (struct bj_address){ .family = AF_UNSPEC };
	if (n_bytes < sizeof(family))
		return false;
	memcpy(&family, bytes, sizeof(family));
	out->family = family;
	switch (family) {
	case AF_INET:
		return decode_inet(bytes, n_bytes, out);
	case AF_INET6:
		return decode_inet6(bytes, n_bytes, out);
	case AF_UNIX:
		return decode_unix(bytes, n_bytes, out);
	default:
		(void)snprintf(out->text, sizeof(out->text), "family %u", (unsigned int)family);
		return true;
	}
}
