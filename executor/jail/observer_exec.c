// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel needs besides the file itself to execute it: the interpreter of a `#!` line, the loader of an ELF program. When that is
 * missing execve says ENOENT, as if the file were, and nobody understands it.
 *
 * Both formats are read as the kernel reads them, from bytes that the action may have made: every offset is checked.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

enum { MAX_PROGRAM_HEADERS = 64 };

/* "#!", blanks, the path up to a blank or the end of the line, or of the file. What does not end within the head the kernel refuses as cut. */
static size_t script_interpreter(const char *head, size_t len, char *out)
{
	size_t from = 2;
	size_t to;

	while (from < len && (head[from] == ' ' || head[from] == '\t'))
		from++;
	to = from;
	while (to < len && head[to] != ' ' && head[to] != '\t' && head[to] != '\n' &&
	       head[to] != '\0')
		to++;
	if (to == from || (to == len && len == BJ_EXEC_HEAD))
		return 0;
	memcpy(out, head + from, to - from);
	out[to - from] = '\0';
	return to - from;
}

static size_t read_name(bj_read_at_fn *read_at, void *ctx, uint64_t offset, uint64_t n_bytes,
			char *out)
{
	ssize_t got;

	if (n_bytes < 2 || n_bytes > BJ_EXEC_HEAD || offset > INT64_MAX - n_bytes)
		return 0;
	got = read_at(ctx, out, (size_t)n_bytes, offset);
	if (got != (ssize_t)n_bytes || out[n_bytes - 1] != '\0')
		return 0;
	return strlen(out);
}

static size_t elf64_interpreter(const char *head, size_t len, bj_read_at_fn *read_at, void *ctx,
				char *out)
{
	Elf64_Ehdr file;
	Elf64_Phdr part;

	if (len < sizeof(file))
		return 0;
	memcpy(&file, head, sizeof(file));
	if (file.e_phentsize != sizeof(part) ||
	    file.e_phoff > INT64_MAX - MAX_PROGRAM_HEADERS * sizeof(part))
		return 0;
	for (unsigned int i = 0; i < BJ_MIN(file.e_phnum, MAX_PROGRAM_HEADERS); i++) {
		if (read_at(ctx, &part, sizeof(part), file.e_phoff + i * sizeof(part)) !=
		    (ssize_t)sizeof(part))
			return 0;
		if (part.p_type == PT_INTERP)
			return read_name(read_at, ctx, part.p_offset, part.p_filesz, out);
	}
	return 0;
}

static size_t elf32_interpreter(const char *head, size_t len, bj_read_at_fn *read_at, void *ctx,
				char *out)
{
	Elf32_Ehdr file;
	Elf32_Phdr part;

	if (len < sizeof(file))
		return 0;
	memcpy(&file, head, sizeof(file));
	if (file.e_phentsize != sizeof(part))
		return 0;
	for (unsigned int i = 0; i < BJ_MIN(file.e_phnum, MAX_PROGRAM_HEADERS); i++) {
		uint64_t offset = (uint64_t)file.e_phoff + i * sizeof(part);

		if (read_at(ctx, &part, sizeof(part), offset) != (ssize_t)sizeof(part))
			return 0;
		if (part.p_type == PT_INTERP)
			return read_name(read_at, ctx, part.p_offset, part.p_filesz, out);
	}
	return 0;
}

size_t bj_exec_interpreter(bj_read_at_fn *read_at, void *ctx, char *out)
{
	char head[BJ_EXEC_HEAD];
	ssize_t got = read_at(ctx, head, sizeof(head), 0);
	size_t len = got > 0 ? (size_t)got : 0;

	if (len > 2 && head[0] == '#' && head[1] == '!')
		return script_interpreter(head, len, out);
	if (len < EI_NIDENT || memcmp(head, ELFMAG, SELFMAG) != 0 || head[EI_DATA] != ELFDATA2LSB)
		return 0;
	if (head[EI_CLASS] == ELFCLASS64)
		return elf64_interpreter(head, len, read_at, ctx, out);
	return head[EI_CLASS] == ELFCLASS32 ? elf32_interpreter(head, len, read_at, ctx, out) : 0;
}

static ssize_t read_fd_at(void *ctx, void *buf, size_t n_bytes, uint64_t offset)
{
	return pread(*(const int *)ctx, buf, n_bytes, (off_t)offset);
}

size_t bj_exec_interpreter_of(int root_fd, const char *path, char *out)
{
	/* Never blocks: the caller has seen a regular file, and if it has become a fifo meanwhile O_NONBLOCK opens that at once. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT };
	bj_cleanup(bj_close_fdp) int fd =
		(int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	return fd >= 0 ? bj_exec_interpreter(read_fd_at, &fd, out) : 0;
}
