// SPDX-License-Identifier: Apache-2.0
/* Socket addresses as they stand in the caller's memory, and what an executable needs besides itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elf.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

#define BYTES(s) (s), sizeof(s) - 1

static void ipv4(void **state)
{
	/* family 2, port 443, 192.0.2.7 */
	static const char bytes[] = "\x02\x00\x01\xbb\xc0\x00\x02\x07\0\0\0\0\0\0\0";
	struct bj_address a;

	(void)state;
	assert_true(bj_address_decode(bytes, sizeof(bytes), &a));
	assert_int_equal(a.family, AF_INET);
	assert_string_equal(a.text, "192.0.2.7");
	assert_int_equal(a.port, 443);
	assert_false(a.is_loopback || a.is_any);
	assert_false(bj_address_decode(bytes, sizeof(bytes) - 1, &a));
	assert_false(bj_address_decode(bytes, 1, &a));
	assert_false(bj_address_decode(bytes, 0, &a));
}

static void ipv4_of_oneself(void **state)
{
	struct bj_address a;

	(void)state;
	assert_true(bj_address_decode("\x02\x00\x00\x50\x7f\x12\x00\x01\0\0\0\0\0\0\0", 16, &a));
	assert_true(a.is_loopback);
	assert_string_equal(a.text, "127.18.0.1");
	assert_true(bj_address_decode("\x02\x00\x00\x50\x80\x00\x00\x01\0\0\0\0\0\0\0", 16, &a));
	assert_false(a.is_loopback);
	assert_true(bj_address_decode("\x02\x00\x00\x50\x00\x00\x00\x00\0\0\0\0\0\0\0", 16, &a));
	assert_true(a.is_any);
}

static struct sockaddr_in6 in6(const char *last4, bool is_mapped)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(8080) };

	if (is_mapped)
		a.sin6_addr.s6_addr[10] = a.sin6_addr.s6_addr[11] = 0xff;
	memcpy(a.sin6_addr.s6_addr + 12, last4, 4);
	return a;
}

static void ipv6(void **state)
{
	struct sockaddr_in6 sa = in6("\0\0\0\1", false);
	struct bj_address a;

	(void)state;
	assert_true(bj_address_decode(&sa, sizeof(sa), &a));
	assert_true(a.is_loopback);
	assert_string_equal(a.text, "::1");
	assert_int_equal(a.port, 8080);
	assert_true(bj_address_decode(&sa, 24, &a)); /* without the scope id */
	assert_false(bj_address_decode(&sa, 23, &a));
	sa = in6("\x7f\0\0\1", true);
	assert_true(bj_address_decode(&sa, sizeof(sa), &a));
	assert_true(a.is_loopback);
	sa = in6("\x0a\0\0\1", true);
	assert_true(bj_address_decode(&sa, sizeof(sa), &a));
	assert_false(a.is_loopback);
	assert_string_equal(a.text, "::ffff:10.0.0.1");
	sa = in6("\0\0\0\0", false);
	assert_true(bj_address_decode(&sa, sizeof(sa), &a));
	assert_true(a.is_any);
	sa.sin6_addr.s6_addr[0] = 0x20;
	assert_true(bj_address_decode(&sa, sizeof(sa), &a));
	assert_false(a.is_any || a.is_loopback);
	assert_string_equal(a.text, "2000::");
}

static void unix_names(void **state)
{
	char longest[2 + 108 + 10];
	struct bj_address a;

	(void)state;
	assert_true(bj_address_decode(BYTES("\x01\x00/run/docker.sock\0rubbish"), &a));
	assert_int_equal(a.family, AF_UNIX);
	assert_true(bj_str_eq(a.path, BJ_STR_LIT("/run/docker.sock")));
	assert_false(a.is_abstract);
	assert_true(bj_address_decode(BYTES("\x01\x00no-nul"), &a));
	assert_true(bj_str_eq(a.path, BJ_STR_LIT("no-nul")));
	assert_true(bj_address_decode(BYTES("\x01\x00\0X11\n\xff\0!"), &a));
	assert_true(a.is_abstract);
	assert_string_equal(a.text, "@X11...!");
	assert_int_equal(a.path.len, 0);
	/* unnamed */
	assert_true(bj_address_decode(BYTES("\x01\x00"), &a));
	assert_false(a.is_abstract);
	assert_int_equal(a.path.len, 0);
	/* never beyond sun_path */
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "\x01\x00", 2);
	assert_true(bj_address_decode(longest, sizeof(longest), &a));
	assert_int_equal(a.path.len, 108);
	longest[2] = '\0';
	assert_true(bj_address_decode(longest, sizeof(longest), &a));
	assert_int_equal(strlen(a.text), sizeof(a.text) - 1);
}

static void other_families(void **state)
{
	struct bj_address a;

	(void)state;
	assert_true(bj_address_decode(BYTES("\x28\x00zzzz"), &a));
	assert_int_equal(a.family, AF_VSOCK);
	assert_string_equal(a.text, "family 40");
	assert_true(bj_address_decode(BYTES("\xff\xff"), &a));
	assert_string_equal(a.text, "family 65535");
}

/* ---- interpreters ---- */

struct image {
	const char *bytes;
	size_t len;
};

static ssize_t read_image(void *ctx, void *buf, size_t n_bytes, uint64_t offset)
{
	const struct image *image = ctx;
	size_t n;

	if (offset >= image->len)
		return 0;
	n = BJ_MIN(n_bytes, image->len - (size_t)offset);
	memcpy(buf, image->bytes + offset, n);
	return (ssize_t)n;
}

static const char *interpreter(const void *bytes, size_t len)
{
	static char out[BJ_EXEC_HEAD];
	struct image image = { bytes, len };

	out[0] = '\0';
	return bj_exec_interpreter(read_image, &image, out) > 0 ? out : "(none)";
}

static void scripts(void **state)
{
	char longest[BJ_EXEC_HEAD + 1];

	(void)state;
	assert_string_equal(interpreter(BYTES("#!/bin/sh\necho")), "/bin/sh");
	assert_string_equal(interpreter(BYTES("#! /usr/bin/env python3\n")), "/usr/bin/env");
	assert_string_equal(interpreter(BYTES("#!\t tool\t-x\n")), "tool");
	assert_string_equal(interpreter(BYTES("#!/a\0b\n")), "/a");
	assert_string_equal(interpreter(BYTES("#!\n")), "(none)");
	assert_string_equal(interpreter(BYTES("#!   \n")), "(none)");
	assert_string_equal(interpreter(BYTES("#!")), "(none)");
	assert_string_equal(interpreter(BYTES("#!/bin/sh")),
			    "/bin/sh"); /* the end of the file will do */
	assert_string_equal(interpreter(BYTES("#/bin/sh\n")), "(none)");
	assert_string_equal(interpreter(BYTES("")), "(none)");
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "#!", 2);
	assert_string_equal(interpreter(longest, sizeof(longest)), "(none)");
	longest[BJ_EXEC_HEAD - 1] = '\n';
	assert_int_equal(strlen(interpreter(longest, sizeof(longest))), BJ_EXEC_HEAD - 3);
}

struct elf64 {
	Elf64_Ehdr file;
	Elf64_Phdr parts[2];
	char name[32];
};

static struct elf64 good_elf64(void)
{
	struct elf64 elf = {
		.file = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT },
			  .e_phoff = offsetof(struct elf64, parts),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2 },
		.parts = { { .p_type = PT_LOAD },
			   { .p_type = PT_INTERP,
			     .p_offset = offsetof(struct elf64, name),
			     .p_filesz = 10 } },
		.name = "/lib/ld.1",
	};

	return elf;
}

static void elf_programs(void **state)
{
	struct elf64 elf = good_elf64();

	(void)state;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "/lib/ld.1");
	/* cut within the name */
	assert_string_equal(interpreter(&elf, sizeof(elf) - sizeof(elf.name) + 9), "(none)");
	assert_string_equal(interpreter(&elf, 40), "(none)");
	elf.parts[1].p_filesz = 9; /* no NUL at its end */
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf.parts[1].p_filesz = UINT64_MAX;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf = good_elf64();
	elf.parts[1].p_offset = UINT64_MAX - 4;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf = good_elf64();
	elf.file.e_phoff = UINT64_MAX - 8;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf = good_elf64();
	elf.parts[1].p_type = PT_NOTE; /* static */
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf = good_elf64();
	elf.file.e_phnum = 0xffff;
	elf.parts[1].p_type = PT_NOTE;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
	elf = good_elf64();
	elf.file.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
}

static void elf_programs_of_32_bits(void **state)
{
	struct {
		Elf32_Ehdr file;
		Elf32_Phdr part;
		char name[16];
	} elf = {
		.file = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS32, ELFDATA2LSB,
				       EV_CURRENT },
			  .e_phoff = sizeof(Elf32_Ehdr),
			  .e_phentsize = sizeof(Elf32_Phdr),
			  .e_phnum = 1 },
		.part = { .p_type = PT_INTERP,
			  .p_offset = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
			  .p_filesz = 7 },
		.name = "/lib/x",
	};

	(void)state;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "/lib/x");
	elf.part.p_filesz = 1;
	assert_string_equal(interpreter(&elf, sizeof(elf)), "(none)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4),		  cmocka_unit_test(ipv4_of_oneself),
		cmocka_unit_test(ipv6),		  cmocka_unit_test(unix_names),
		cmocka_unit_test(other_families), cmocka_unit_test(scripts),
		cmocka_unit_test(elf_programs),	  cmocka_unit_test(elf_programs_of_32_bits),
	};

	return cmocka_run_group_tests_name("observer_net", tests, NULL, NULL);
}
