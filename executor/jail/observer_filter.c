// SPDX-License-Identifier: Apache-2.0
/*
 * The table of observer_calls.c as one BPF program, by libseccomp:
 *
 *   arch? ──i386────> the program of the i386 numbers
 *     └────else─────> the program of the machine's own numbers, which refuses every other architecture, and x32, with ENOSYS
 *
 * The default is ENOSYS: it answers whatever is newer than the table. Hence a rule for each number up to BJ_SYSCALL_MAX, most of them
 * "allow"; refusals with ENOSYS are those that have none.
 *
 * How libseccomp (2.5.4) is made to say it:
 *
 *  - A rule holds when all its comparisons do, and an argument stands in a rule once; there is neither "or" nor "else". An unconditional
 *    rule swallows the conditional ones of its call, whatever their actions. So both outcomes of a test are conditional rules. "Else" is
 *    a comparison that is always true, ">= 0": within a call libseccomp puts (masked) equality before order. Thus "any of these flags"
 *    is (flags & all) == 0 -> allow, else -> act: two rules, not one a flag.
 *  - The low half of an argument, for flags that are an int, is a masked comparison, the mask 32 bits wide.
 *  - It has no ranges of numbers, hence that many rules; in tree mode (CTL_OPTIMIZE 2) it finds a number by bisection. The program is a
 *    quarter longer for it and attached in half the time (225 us here, not 525): at every attach the kernel walks it for each of some 900
 *    numbers, to learn which are allowed whatever their arguments. Those never run it again.
 *  - -1 is what a tracer writes to skip a call: nothing happens, and the result is the tracer's. It is allowed (API_TSKIP).
 *
 * What it cannot say: the numbers of an architecture that is not the library's native one. seccomp_arch_add() translates native number ->
 * name -> number; what libseccomp has no name for (451 and above, and holes) cannot be said, and socket calls get rules of their own in
 * socketcall(2). So i386 is a second filter, its numbers given as if they were native, and its architecture is put in afterwards: one
 * constant. The two are chained by three instructions in front. Nothing else is touched.
 *
 * Attach is nothing but seccomp(2), so that it is safe between fork and exec; libseccomp 2.5.4 does not know WAIT_KILLABLE_RECV.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

enum {
	/* Namespace flags; CLONE_NEWTIME lies in the byte of clone's exit signal and is unshare's alone. */
	CLONE_NEW_MASK = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
			 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
	UNSHARE_NEW_MASK = CLONE_NEW_MASK | CLONE_NEWTIME,
	OPEN_WRITE_MASK = O_ACCMODE | O_CREAT | O_TRUNC,
	ARCH_PREFIX = 3, /* instructions that tell i386 from the rest */
};

struct bj_observer_filter {
	enum bj_observe level;
	struct sock_fprog program; /* points to code */
	struct sock_filter code[BJ_FILTER_MAX];
};

/* One architecture's rules while they are added. */
struct rules {
	scmp_filter_ctx ctx;
	enum bj_observe level;
	enum bj_arch arch;
	int nr; /* the call whose rules these are */
	struct bj_err *err;
};

/* ---- rules ---- */

static int added(const struct rules *r, int result)
{
	return result == 0
		       ? 0
		       : bj_err_errno(r->err, -result, "libseccomp, rule of system call %d", r->nr);
}

static int rule(const struct rules *r, uint32_t action)
{
	return added(r, seccomp_rule_add_exact(r->ctx, action, r->nr, 0));
}

static int rule_if(const struct rules *r, uint32_t action, struct scmp_arg_cmp comparison)
{
	return added(r, seccomp_rule_add_exact_array(r->ctx, action, r->nr, 1, &comparison));
}

static int rule_else(const struct rules *r, uint32_t action, unsigned int arg)
{
	return rule_if(r, action, (struct scmp_arg_cmp){ arg, SCMP_CMP_GE, 0, 0 });
}

/* @when_zero if no bit of @mask is set, @otherwise if any is. */
static int rules_mask(const struct rules *r, unsigned int arg, uint32_t mask, uint32_t when_zero,
		      uint32_t otherwise)
{
	int result =
		rule_if(r, when_zero, (struct scmp_arg_cmp){ arg, SCMP_CMP_MASKED_EQ, mask, 0 });

	return result < 0 ? result : rule_else(r, otherwise, arg);
}

static int rules_one_of(const struct rules *r, unsigned int arg, const uint32_t *values, size_t n,
			uint32_t action)
{
	for (size_t i = 0; i < n; i++) {
		struct scmp_arg_cmp equal = { arg, SCMP_CMP_MASKED_EQ, UINT32_MAX, values[i] };
		int result = rule_if(r, action, equal);

		if (result < 0)
			return result;
	}
	return rule_else(r, SCMP_ACT_ALLOW, arg);
}

static int rules_pointer(const struct rules *r, unsigned int arg, uint32_t action)
{
	int result = rule_if(r, SCMP_ACT_ALLOW, (struct scmp_arg_cmp){ arg, SCMP_CMP_EQ, 0, 0 });

	return result < 0 ? result
			  : rule_if(r, action, (struct scmp_arg_cmp){ arg, SCMP_CMP_NE, 0, 0 });
}

static int rules_socketcall(const struct rules *r, unsigned int arg, uint32_t action)
{
	uint8_t calls[8];
	uint32_t values[8];
	size_t n = bj_socketcalls(r->level, calls);

	for (size_t i = 0; i < n; i++)
		values[i] = calls[i];
	return rules_one_of(r, arg, values, n, action);
}

/* ---- the table ---- */

static uint32_t action_of(const struct rules *r, const struct bj_call *call)
{
	if (call->shape != BJ_SHAPE_DENY)
		return SCMP_ACT_NOTIFY;
	if (r->level > BJ_OBSERVE_OFF && !call->is_silent)
		return SCMP_ACT_NOTIFY; /* answered with the same errno, and recorded */
	return SCMP_ACT_ERRNO(call->deny);
}

static int add_call(const struct rules *r, const struct bj_call *call)
{
	static const uint32_t tty_input[] = { TIOCSTI, TIOCLINUX };
	uint32_t action = action_of(r, call);
	unsigned int arg = call->test_arg;

	switch ((enum bj_call_test)call->test) {
	case BJ_TEST_NONE:
		/* A rule that is the default's is none. */
		return action == SCMP_ACT_ERRNO(ENOSYS) ? 0 : rule(r, action);
	case BJ_TEST_OPEN_FLAGS:
		if (r->level >= BJ_OBSERVE_DEFAULT)
			return rule(r, action);
		return rules_mask(r, arg, OPEN_WRITE_MASK, SCMP_ACT_ALLOW, action);
	case BJ_TEST_NAMED:
		return rules_mask(r, arg, AT_EMPTY_PATH, action, SCMP_ACT_ALLOW);
	case BJ_TEST_CLONE_NEW:
		return rules_mask(r, arg, CLONE_NEW_MASK, SCMP_ACT_ALLOW, action);
	case BJ_TEST_UNSHARE_NEW:
		return rules_mask(r, arg, UNSHARE_NEW_MASK, SCMP_ACT_ALLOW, action);
	case BJ_TEST_POINTER:
		return rules_pointer(r, arg, action);
	case BJ_TEST_TTY_INPUT:
		return rules_one_of(r, arg, tty_input, BJ_ARRAY_LEN(tty_input), action);
	case BJ_TEST_SOCKETCALL:
		return rules_socketcall(r, arg, action);
	}
	return bj_err_set(r->err, BJ_INTERNAL, "unknown test of system call %d", r->nr);
}

/* NULL: nobody looks at it at this level. */
static const struct bj_call *find_call(const struct rules *r)
{
	for (size_t i = 0; i < bj_n_calls; i++)
		if (bj_calls[i].nr[r->arch] == r->nr)
			return bj_calls[i].shape == BJ_SHAPE_DENY || bj_calls[i].level <= r->level
				       ? &bj_calls[i]
				       : NULL;
	return NULL;
}

static int add_calls(struct rules *r)
{
	int result = 0;

	/* -1: see above. */
	for (r->nr = -1; r->nr <= BJ_SYSCALL_MAX && result == 0; r->nr++) {
		const struct bj_call *call = r->nr < 0 ? NULL : find_call(r);

		result = call ? add_call(r, call) : rule(r, SCMP_ACT_ALLOW);
	}
	return result;
}

static int set_attributes(const struct rules *r)
{
	static const struct {
		enum scmp_filter_attr attribute;
		uint32_t value;
	} attributes[] = {
		{ SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS) },
		{ SCMP_FLTATR_API_TSKIP, 1 },
		{ SCMP_FLTATR_CTL_OPTIMIZE, 2 },
	};

	for (size_t i = 0; i < BJ_ARRAY_LEN(attributes); i++) {
		int result = seccomp_attr_set(r->ctx, attributes[i].attribute, attributes[i].value);

		if (result < 0)
			return bj_err_errno(r->err, -result, "libseccomp, attribute %d",
					    (int)attributes[i].attribute);
	}
	return 0;
}

/* ---- the program ---- */

static uint32_t audit_arch(enum bj_arch arch)
{
	return arch == BJ_ARCH_X86_64 ? AUDIT_ARCH_X86_64
	       : arch == BJ_ARCH_I386 ? AUDIT_ARCH_I386
				      : AUDIT_ARCH_AARCH64;
}

static int read_code(struct bj_observer_filter *filter, int fd, struct bj_err *err)
{
	size_t room = sizeof(filter->code) - filter->program.len * sizeof(filter->code[0]);
	ssize_t n = pread(fd, &filter->code[filter->program.len], room, 0);

	if (n < 0)
		return bj_err_errno(err, errno, "reading the system call filter");
	if ((size_t)n == room)
		return bj_err_set(err, BJ_INTERNAL, "the system call filter is too long");
	filter->program.len =
		(unsigned short)(filter->program.len + (size_t)n / sizeof(filter->code[0]));
	return 0;
}

/* Appends what the rules make. */
static int append_rules(struct bj_observer_filter *filter, const struct rules *r)
{
	int fd = memfd_create("belljar-filter", MFD_CLOEXEC);
	int result;

	if (fd < 0)
		return bj_err_errno(r->err, errno, "memfd_create");
	result = seccomp_export_bpf(r->ctx, fd);
	if (result < 0)
		(void)bj_err_errno(r->err, -result, "libseccomp, export");
	else
		result = read_code(filter, fd, r->err);
	close(fd);
	return result;
}

/* The second instruction compares the architecture, for which libseccomp took its native one. */
static int set_arch(struct sock_filter *code, uint32_t arch, struct bj_err *err)
{
	if (code[0].code != (BPF_LD | BPF_W | BPF_ABS) ||
	    code[0].k != offsetof(struct seccomp_data, arch) ||
	    code[1].code != (BPF_JMP | BPF_JEQ | BPF_K) || code[1].k != seccomp_arch_native())
		return bj_err_set(err, BJ_INTERNAL,
				  "libseccomp's filter does not begin with its architecture");
	code[1].k = arch;
	return 0;
}

static int append_arch(struct bj_observer_filter *filter, enum bj_arch arch, struct bj_err *err)
{
	struct rules r = { .level = filter->level, .arch = arch, .err = err };
	size_t start = filter->program.len;
	int result;

	r.ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!r.ctx)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED, "libseccomp: no memory for a filter");
	result = set_attributes(&r);
	if (result == 0)
		result = add_calls(&r);
	if (result == 0)
		result = append_rules(filter, &r);
	seccomp_release(r.ctx);
	return result < 0 ? result : set_arch(&filter->code[start], audit_arch(arch), err);
}

static int append_x86(struct bj_observer_filter *filter, struct bj_err *err)
{
	size_t length;
	int result;

	filter->program.len = ARCH_PREFIX;
	result = append_arch(filter, BJ_ARCH_X86_64, err);
	length = filter->program.len - (size_t)ARCH_PREFIX;
	filter->code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						       offsetof(struct seccomp_data, arch));
	filter->code[1] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 0, 1);
	filter->code[2] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)length);
	return result < 0 ? result : append_arch(filter, BJ_ARCH_I386, err);
}

int bj_observer_filter_new_for(enum bj_arch arch, enum bj_observe level,
			       struct bj_observer_filter **out_filter, struct bj_err *err)
{
	struct bj_observer_filter *filter = BJ_NEW(struct bj_observer_filter);
	int result;

	if (!filter)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for the system call filter");
	filter->level = level;
	filter->program.filter = filter->code;
	result = arch == BJ_ARCH_X86_64 ? append_x86(filter, err) : append_arch(filter, arch, err);
	if (result < 0) {
		bj_free(filter);
		return result;
	}
	*out_filter = filter;
	return 0;
}

int bj_observer_filter_new(enum bj_observe level, struct bj_observer_filter **out_filter,
			   struct bj_err *err)
{
#if defined(__x86_64__)
	return bj_observer_filter_new_for(BJ_ARCH_X86_64, level, out_filter, err);
#elif defined(__aarch64__)
	return bj_observer_filter_new_for(BJ_ARCH_AARCH64, level, out_filter, err);
#else
#error "no table of system calls for this architecture"
#endif
}

void bj_observer_filter_free(struct bj_observer_filter *filter)
{
	bj_free(filter);
}

const struct sock_fprog *bj_observer_filter_program(const struct bj_observer_filter *filter)
{
	return &filter->program;
}

int bj_observer_attach(const struct bj_observer_filter *filter)
{
	unsigned long flags = 0;
	long got;

	if (filter->level > BJ_OBSERVE_OFF)
		flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	got = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter->program);
	if (got < 0 && errno == EINVAL && flags) {
		/* Before 5.19: a signal interrupts the call, and it is notified once more. */
		flags &= ~SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
		got = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter->program);
	}
	if (got < 0)
		return -errno - 1;
	return filter->level > BJ_OBSERVE_OFF ? (int)got : -1;
}
