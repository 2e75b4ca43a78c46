// SPDX-License-Identifier: Apache-2.0
/*
 * The system call filter: the exported program is run by a small BPF interpreter over simulated calls, its numbers are compared
 * with libseccomp's, and the kernel's opinion is asked by attaching it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/jail/observer-internal.h"

#define ALLOW SECCOMP_RET_ALLOW
#define NOTIFY SECCOMP_RET_USER_NOTIF
#define REFUSE(e) (SECCOMP_RET_ERRNO | (e))

enum { N_LEVELS = BJ_OBSERVE_STRICT + 1 };

/* Of this machine, to be attached; and of each that there is, to be interpreted. */
static struct bj_observer_filter *filters[N_LEVELS], *x86_64[N_LEVELS], *aarch64[N_LEVELS];

static int build_all(void **state)
{
	struct bj_err err = BJ_ERR_NULL;

	(void)state;
	for (int i = 0; i < N_LEVELS; i++) {
		enum bj_observe level = (enum bj_observe)i;

		if (bj_observer_filter_new(level, &filters[i], &err) != 0 ||
		    bj_observer_filter_new_for(BJ_ARCH_X86_64, level, &x86_64[i], &err) != 0 ||
		    bj_observer_filter_new_for(BJ_ARCH_AARCH64, level, &aarch64[i], &err) != 0)
			return -1;
	}
	return 0;
}

static int free_all(void **state)
{
	(void)state;
	for (int i = 0; i < N_LEVELS; i++) {
		bj_observer_filter_free(filters[i]);
		bj_observer_filter_free(x86_64[i]);
		bj_observer_filter_free(aarch64[i]);
	}
	return 0;
}

/* Classic BPF as far as seccomp has it and the filter uses it. Anything else, and a step outside the program, fails the test. */
static uint32_t run(const struct sock_fprog *program, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0;; pc++) {
		const struct sock_filter *insn;

		assert_in_range(pc, 0, program->len - 1);
		insn = &program->filter[pc];
		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_in_range(insn->k, 0, sizeof(*data) - 4);
			memcpy(&a, (const char *)data + insn->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= insn->k;
			break;
		case BPF_RET | BPF_K:
			return insn->k;
		case BPF_JMP | BPF_JA:
			pc += insn->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == insn->k ? insn->jt : insn->jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += a > insn->k ? insn->jt : insn->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= insn->k ? insn->jt : insn->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += a & insn->k ? insn->jt : insn->jf;
			break;
		default:
			fail_msg("instruction %#x at %zu", insn->code, pc);
		}
	}
}

static uint32_t audit_arch(enum bj_arch arch)
{
	return arch == BJ_ARCH_X86_64 ? AUDIT_ARCH_X86_64
	       : arch == BJ_ARCH_I386 ? AUDIT_ARCH_I386
				      : AUDIT_ARCH_AARCH64;
}

static uint32_t scmp_arch(enum bj_arch arch)
{
	return arch == BJ_ARCH_X86_64 ? SCMP_ARCH_X86_64
	       : arch == BJ_ARCH_I386 ? SCMP_ARCH_X86
				      : SCMP_ARCH_AARCH64;
}

static uint32_t ask(enum bj_observe level, uint32_t arch, int nr, const uint64_t args[6])
{
	struct seccomp_data data = { .nr = nr, .arch = arch, .instruction_pointer = 0x1000 };

	if (args)
		memcpy(data.args, args, sizeof(data.args));
	return run(bj_observer_filter_program(arch == AUDIT_ARCH_AARCH64 ? aarch64[level]
									 : x86_64[level]),
		   &data);
}

struct filter_case {
	const char *name;
	int nr; /* x86-64 */
	uint64_t args[6];
	uint32_t want[N_LEVELS]; /* off, writes, default, strict */
};

#define EVERYWHERE(a, b, c, d)                                                                     \
	{                                                                                          \
		a, b, c, d                                                                         \
	}

static const struct filter_case cases[] = {
	/* never looked at */
	{ "read", 0, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "close", 3, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "fstat", 5, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "ptrace", 101, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "exit_group", 231, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "fork", 57, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "ftruncate", 77, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "seccomp", 317, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	/* opens: the flags decide at the level of writes */
	{ "open O_RDONLY",
	  2,
	  { 1, O_RDONLY | O_CLOEXEC },
	  EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "open O_DIRECTORY",
	  2,
	  { 1, O_DIRECTORY | O_NOFOLLOW },
	  EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "open O_WRONLY", 2, { 1, O_WRONLY }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "openat O_RDONLY", 257, { 0, 1, O_RDONLY }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "openat O_RDWR", 257, { 0, 1, O_RDWR }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "openat O_CREAT", 257, { 0, 1, O_CREAT }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "openat O_TRUNC", 257, { 0, 1, O_TRUNC }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "openat, rubbish above the flags",
	  257,
	  { 0, 1, 0xffffffff00000000 },
	  EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "openat2", 437, { 0, 1, 1, 24 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "creat", 85, { 0 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "unlink", 87, { 0 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "renameat2", 316, { 0 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "fchmodat2", 452, { 0 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "utimensat", 280, { 0, 1 }, EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "utimensat, only a high half",
	  280,
	  { 0, 0x100000000 },
	  EVERYWHERE(ALLOW, NOTIFY, NOTIFY, NOTIFY) },
	{ "futimens", 280, { 3, 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	/* reads */
	{ "execve", 59, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "stat", 4, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "newfstatat", 262, { 0, 1, 1, 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "newfstatat nofollow",
	  262,
	  { 0, 1, 1, AT_SYMLINK_NOFOLLOW },
	  EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "fstat by newfstatat",
	  262,
	  { 0, 1, 1, AT_EMPTY_PATH },
	  EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "statx", 332, { 0, 1, 0, 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "fstat by statx",
	  332,
	  { 0, 1, AT_EMPTY_PATH | AT_NO_AUTOMOUNT, 0 },
	  EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "faccessat2", 439, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "chdir", 80, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "fchdir", 81, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "connect", 42, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "sendto with an address",
	  44,
	  { 0, 0, 0, 0, 1, 16 },
	  EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "send", 44, { 0, 0, 0, 0, 0, 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "sendmsg", 46, { 0 }, EVERYWHERE(ALLOW, ALLOW, NOTIFY, NOTIFY) },
	{ "readlink", 89, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, NOTIFY) },
	{ "getxattr", 191, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, NOTIFY) },
	{ "name_to_handle_at", 303, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, NOTIFY) },
	{ "socket", 41, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, NOTIFY) },
	/* refused; with a listener it answers, so that there is a record */
	{ "io_uring_setup", 425, { 0 }, EVERYWHERE(REFUSE(ENOSYS), NOTIFY, NOTIFY, NOTIFY) },
	{ "bpf", 321, { 0 }, EVERYWHERE(REFUSE(ENOSYS), NOTIFY, NOTIFY, NOTIFY) },
	{ "mount", 165, { 0 }, EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "setns", 308, { 0 }, EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "open_by_handle_at", 304, { 0 }, EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "clone3",
	  435,
	  { 0 },
	  EVERYWHERE(REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS)) },
	/* refused by an argument */
	{ "clone of a thread", 56, { 0x3d0f00 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "clone SIGCHLD", 56, { 17 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "clone NEWUSER",
	  56,
	  { CLONE_NEWUSER | 17 },
	  EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "clone NEWNS", 56, { CLONE_NEWNS }, EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "clone with an exit signal like NEWTIME",
	  56,
	  { CLONE_NEWTIME },
	  EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "unshare FILES",
	  272,
	  { CLONE_FILES | CLONE_FS },
	  EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "unshare NEWPID",
	  272,
	  { CLONE_NEWPID },
	  EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "unshare NEWTIME",
	  272,
	  { CLONE_NEWTIME },
	  EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "ioctl TCGETS", 16, { 0, TCGETS }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
	{ "ioctl TIOCSTI", 16, { 0, TIOCSTI }, EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "ioctl TIOCSTI, rubbish above",
	  16,
	  { 0, 0x100000000 | TIOCSTI },
	  EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	{ "ioctl TIOCLINUX",
	  16,
	  { 0, TIOCLINUX },
	  EVERYWHERE(REFUSE(EPERM), NOTIFY, NOTIFY, NOTIFY) },
	/* numbers that are nobody's */
	{ "one above the table",
	  BJ_SYSCALL_MAX + 1,
	  { 0 },
	  EVERYWHERE(REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS)) },
	{ "9999",
	  9999,
	  { 0 },
	  EVERYWHERE(REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS)) },
	{ "x32 open",
	  0x40000002,
	  { 0 },
	  EVERYWHERE(REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS)) },
	{ "x32 execve",
	  0x40000000 + 520,
	  { 0 },
	  EVERYWHERE(REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS), REFUSE(ENOSYS)) },
	{ "skipped by a tracer", -1, { 0 }, EVERYWHERE(ALLOW, ALLOW, ALLOW, ALLOW) },
};

static void known_calls(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int level = 0; level < N_LEVELS; level++) {
			uint32_t got = ask((enum bj_observe)level, AUDIT_ARCH_X86_64, cases[i].nr,
					   cases[i].args);

			if (got != cases[i].want[level])
				fail_msg("%s at level %d: %#x, not %#x", cases[i].name, level, got,
					 cases[i].want[level]);
		}
	}
}

static void socketcall_is_told_by_its_number(void **state)
{
	/* socket, bind, connect, listen, accept, send, sendto, sendmsg, sendmmsg */
	static const struct {
		uint64_t call;
		uint32_t want[N_LEVELS];
	} calls[] = {
		{ 1, { ALLOW, ALLOW, ALLOW, NOTIFY } },	  { 2, { ALLOW, ALLOW, NOTIFY, NOTIFY } },
		{ 3, { ALLOW, ALLOW, NOTIFY, NOTIFY } },  { 4, { ALLOW, ALLOW, ALLOW, ALLOW } },
		{ 5, { ALLOW, ALLOW, ALLOW, ALLOW } },	  { 9, { ALLOW, ALLOW, ALLOW, ALLOW } },
		{ 11, { ALLOW, ALLOW, NOTIFY, NOTIFY } }, { 16, { ALLOW, ALLOW, NOTIFY, NOTIFY } },
		{ 20, { ALLOW, ALLOW, NOTIFY, NOTIFY } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		for (int level = 0; level < N_LEVELS; level++) {
			uint64_t args[6] = { calls[i].call };

			assert_int_equal(ask((enum bj_observe)level, AUDIT_ARCH_I386, 102, args),
					 calls[i].want[level]);
		}
	}
}

static void an_unknown_architecture_is_refused(void **state)
{
	static const uint32_t archs[] = { 0, AUDIT_ARCH_ARM, AUDIT_ARCH_S390X, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		for (int level = 0; level < N_LEVELS; level++)
			assert_int_equal(ask((enum bj_observe)level, archs[i], 0, NULL),
					 REFUSE(ENOSYS));
}

/* What the table says, said once more in the plainest way, for every number there is. Arguments all zero: no flag, no pointer. */
static uint32_t expected(enum bj_observe level, enum bj_arch arch, int nr)
{
	for (size_t i = 0; i < bj_n_calls; i++) {
		const struct bj_call *call = &bj_calls[i];

		if (call->nr[arch] != nr)
			continue;
		if (call->shape == BJ_SHAPE_DENY) {
			if (call->test != BJ_TEST_NONE)
				return ALLOW;
			return level == BJ_OBSERVE_OFF || call->is_silent ? REFUSE(call->deny)
									  : NOTIFY;
		}
		if (call->level > level || call->test == BJ_TEST_POINTER ||
		    call->test == BJ_TEST_SOCKETCALL)
			return ALLOW;
		return call->test == BJ_TEST_OPEN_FLAGS && level < BJ_OBSERVE_DEFAULT ? ALLOW
										      : NOTIFY;
	}
	return ALLOW;
}

static void every_number(void **state)
{
	(void)state;
	for (int arch = 0; arch < BJ_ARCH_COUNT; arch++) {
		for (int level = 0; level < N_LEVELS; level++) {
			for (int nr = 0; nr <= BJ_SYSCALL_MAX; nr++) {
				uint32_t want =
					expected((enum bj_observe)level, (enum bj_arch)arch, nr);
				uint32_t got = ask((enum bj_observe)level,
						   audit_arch((enum bj_arch)arch), nr, NULL);

				if (got != want)
					fail_msg("arch %d level %d nr %d: %#x, not %#x", arch,
						 level, nr, got, want);
			}
		}
	}
}

/* The flags that make a call one to be noticed, and the one that makes it none. */
static bool is_noticed_by_flags(const struct bj_call *call, uint64_t value, enum bj_observe level)
{
	static const uint32_t clone_new =
		0x7e020000; /* NEWNS and the six from NEWCGROUP to NEWNET */
	uint32_t flags = (uint32_t)value;

	switch ((enum bj_call_test)call->test) {
	case BJ_TEST_OPEN_FLAGS:
		return level >= BJ_OBSERVE_DEFAULT || (flags & 3) || (flags & (O_CREAT | O_TRUNC));
	case BJ_TEST_NAMED:
		return !(flags & 0x1000);
	case BJ_TEST_CLONE_NEW:
		return flags & clone_new;
	case BJ_TEST_UNSHARE_NEW:
		return flags & (clone_new | 0x80);
	case BJ_TEST_POINTER:
		return value != 0;
	default:
		return flags == 0x5412 || flags == 0x541c; /* TIOCSTI, TIOCLINUX */
	}
}

static void check_argument(const struct bj_call *call, enum bj_arch arch, enum bj_observe level,
			   uint64_t value)
{
	uint64_t args[6] = { 0 };
	uint32_t got, want = ALLOW;

	args[call->test_arg] = value;
	if (call->level <= level && is_noticed_by_flags(call, value, level))
		want = call->shape == BJ_SHAPE_DENY && level == BJ_OBSERVE_OFF ? REFUSE(call->deny)
									       : NOTIFY;
	got = ask(level, audit_arch(arch), call->nr[arch], args);
	if (got != want)
		fail_msg("arch %d level %d %s %#jx: %#x, not %#x", arch, level, call->name,
			 (uintmax_t)value, got, want);
}

/* Every call that an argument decides, with every one and two bits of that argument, and near the two requests of a terminal. */
static void every_flag(void **state)
{
	(void)state;
	for (size_t i = 0; i < bj_n_calls * BJ_ARCH_COUNT * N_LEVELS; i++) {
		const struct bj_call *call = &bj_calls[i / BJ_ARCH_COUNT / N_LEVELS];
		enum bj_arch arch = (enum bj_arch)(i / N_LEVELS % BJ_ARCH_COUNT);
		enum bj_observe level = (enum bj_observe)(i % N_LEVELS);

		if (call->nr[arch] < 0 || call->test == BJ_TEST_NONE ||
		    call->test == BJ_TEST_SOCKETCALL)
			continue;
		for (unsigned int bits = 0; bits < 64 * 64; bits++)
			check_argument(call, arch, level,
				       UINT64_C(1) << bits / 64 | UINT64_C(1) << bits % 64);
		for (uint64_t value = 0x5400; value < 0x5500; value++)
			check_argument(call, arch, level, value);
		check_argument(call, arch, level, 0);
		check_argument(call, arch, level, UINT64_MAX);
		check_argument(call, arch, level, 0xffffffff00005412);
	}
}

static void numbers_agree_with_libseccomp(void **state)
{
	size_t n_known = 0;

	(void)state;
	for (size_t i = 0; i < bj_n_calls; i++) {
		for (int arch = 0; arch < BJ_ARCH_COUNT; arch++) {
			int nr = seccomp_syscall_resolve_name_arch(scmp_arch((enum bj_arch)arch),
								   bj_calls[i].name);

			if (nr == __NR_SCMP_ERROR)
				continue; /* newer than the library */
			n_known++;
			/* Negative: not on this architecture, or only by way of socketcall, which a newer kernel has besides. */
			if (nr < 0 && bj_calls[i].nr[arch] >= 0 && arch == BJ_ARCH_I386 &&
			    bj_calls[i].nr[arch] >= 345)
				continue;
			if ((nr < 0 ? -1 : nr) != bj_calls[i].nr[arch])
				fail_msg("%s on arch %d: %d, libseccomp says %d", bj_calls[i].name,
					 arch, bj_calls[i].nr[arch], nr);
		}
	}
	assert_in_range(n_known, bj_n_calls * 2, SIZE_MAX);
}

static void no_number_stands_twice(void **state)
{
	(void)state;
	for (int arch = 0; arch < BJ_ARCH_COUNT; arch++)
		for (size_t i = 0; i < bj_n_calls; i++)
			for (size_t j = 0; j < i; j++)
				if (bj_calls[i].nr[arch] >= 0 &&
				    bj_calls[i].nr[arch] == bj_calls[j].nr[arch])
					fail_msg("%s and %s", bj_calls[i].name, bj_calls[j].name);
}

static void every_refusal_has_its_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < bj_n_calls; i++) {
		if (bj_calls[i].shape != BJ_SHAPE_DENY)
			continue;
		assert_true(bj_calls[i].deny == ENOSYS || bj_calls[i].deny == EPERM);
		assert_non_null(bj_calls[i].why);
		assert_true(strlen(bj_calls[i].why) > 5);
	}
}

static void what_is_knowingly_allowed_is_not_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < bj_n_calls_allowed; i++) {
		int nr = seccomp_syscall_resolve_name(bj_calls_allowed[i].name);

		assert_non_null(bj_calls_allowed[i].why);
		if (nr < 0)
			continue;
		for (size_t j = 0; j < bj_n_calls; j++)
			if (strcmp(bj_calls[j].name, bj_calls_allowed[i].name) == 0)
				assert_int_not_equal(bj_calls[j].shape, BJ_SHAPE_DENY);
	}
}

static void an_allocation_that_fails(void **state)
{
	struct bj_err err = BJ_ERR_NULL;
	struct bj_observer_filter *filter = NULL;

	(void)state;
	for (uint64_t n = 0;; n++) {
		int result;

		bj_alloc_fail_after(n);
		result = bj_observer_filter_new(BJ_OBSERVE_DEFAULT, &filter, &err);
		if (!bj_alloc_fail_disarm()) {
			assert_int_equal(result, 0);
			bj_observer_filter_free(filter);
			assert_in_range(n, 1, 10);
			return;
		}
		assert_int_equal(result, -BJ_RESOURCE_EXHAUSTED);
		assert_null(filter);
		bj_err_clear(&err);
	}
}

/* ---- the kernel's opinion ---- */

static int in_child(int (*body)(void))
{
	pid_t pid = fork();
	int status = -1;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? body() : 99);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int attach_off(void)
{
	int fd;

	if (bj_observer_attach(filters[BJ_OBSERVE_OFF]) != -1)
		return 1;
	if (syscall(SYS_mount, "none", "/", "tmpfs", 0, NULL) != -1 || errno != EPERM)
		return 2;
	if (syscall(425, 4, NULL) != -1 || errno != ENOSYS)
		return 3;
	if (syscall(9999) != -1 || errno != ENOSYS)
		return 4;
	if (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != EPERM)
		return 5;
	if (syscall(SYS_unshare, CLONE_FILES) != 0)
		return 6;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || close(fd) != 0)
		return 7;
	if (ioctl(0, TIOCSTI, "x") != -1 || errno != EPERM)
		return 8;
	return 0;
}

static int attach_with_listener(void)
{
	for (int level = BJ_OBSERVE_WRITES; level < N_LEVELS; level++) {
		int fd = bj_observer_attach(filters[level]);

		if (fd < 0)
			return level;
		/* One listener in a chain of filters: the next must fail with EBUSY, unless the first is closed. */
		if (level == BJ_OBSERVE_WRITES && bj_observer_attach(filters[level]) != -EBUSY - 1)
			return 50;
		if (close(fd) != 0)
			return 51;
		/* Nobody listens: what would be notified is ENOSYS. */
		if (syscall(SYS_mkdirat, AT_FDCWD, "/nowhere/at/all", 0700) != -1 ||
		    errno != ENOSYS)
			return 52;
	}
	return 0;
}

static void the_kernel_takes_the_deny_part(void **state)
{
	(void)state;
	assert_int_equal(in_child(attach_off), 0);
}

static void the_kernel_takes_every_level(void **state)
{
	(void)state;
	assert_int_equal(in_child(attach_with_listener), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_calls),
		cmocka_unit_test(socketcall_is_told_by_its_number),
		cmocka_unit_test(an_unknown_architecture_is_refused),
		cmocka_unit_test(every_number),
		cmocka_unit_test(every_flag),
		cmocka_unit_test(numbers_agree_with_libseccomp),
		cmocka_unit_test(no_number_stands_twice),
		cmocka_unit_test(every_refusal_has_its_reason),
		cmocka_unit_test(what_is_knowingly_allowed_is_not_refused),
		cmocka_unit_test(an_allocation_that_fails),
		cmocka_unit_test(the_kernel_takes_the_deny_part),
		cmocka_unit_test(the_kernel_takes_every_level),
	};

	return cmocka_run_group_tests_name("observer_filter", tests, build_all, free_all);
}
