// SPDX-License-Identifier: Apache-2.0
/*
 * The table of observer_calls.c as one BPF program:
 *
 *   arch? ──x86-64──> number ──> tree of blocks ──> leaves ──> verdicts
 *     └────i386─────> number ──> tree of blocks ──> leaves ──> verdicts
 *     └────else─────> ENOSYS
 *
 * A block is up to BLOCK_ITEMS comparisons; a binary tree of JGE finds it. Leaves that look at an argument, and the verdicts, stand once at
 * the end of their architecture's part, within the reach of a conditional jump (255).
 *
 * Size and depth are both paid for at every attach (12 us and 0.14 us an instruction here): the JIT compiles the program, and the kernel
 * walks it once for each of some 900 numbers, to learn which are allowed whatever their arguments; those never run it again. libseccomp
 * makes as fast a program in its tree mode, but compares for equality only (a rule for each flag), and refuses numbers that it has no name
 * for, whereas here everything newer than the table is ENOSYS.
 *
 * Attach is nothing but seccomp(2), so that it is safe between fork and exec.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/base/alloc.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

enum {
	BLOCK_ITEMS = 6,
	/* Namespace flags; CLONE_NEWTIME lies in the byte of clone's exit signal and is unshare's alone. */
	CLONE_NEW_MASK = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
			 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
	UNSHARE_NEW_MASK = CLONE_NEW_MASK | CLONE_NEWTIME,
	OPEN_WRITE_MASK = O_ACCMODE | O_CREAT | O_TRUNC,
};

struct bj_observer_filter {
	enum bj_observe level;
	struct sock_fprog program; /* points to code */
	struct sock_filter code[BJ_FILTER_MAX];
};

/* What is done with the calls numbered from .. to. */
struct item {
	uint32_t from, to;
	uint8_t test, arg; /* enum bj_call_test */
	uint32_t action;   /* SECCOMP_RET_* when the test holds */
};

/* Places that are jumped to before they are known: what is to be done with a call. */
struct label {
	struct item treatment; /* from and to mean nothing */
	size_t place;
};

struct fixup {
	size_t at;   /* the jump */
	bool is_yes; /* its jt, else its jf */
	size_t label;
};

enum { MAX_LABELS = 32, MAX_FIXUPS = 512 };

struct builder {
	enum bj_observe level;
	struct sock_filter *code;
	size_t len;
	size_t n_items, n_labels, n_fixups;
	struct item items[BJ_SYSCALL_MAX + 1];
	struct label labels[MAX_LABELS];
	struct fixup fixups[MAX_FIXUPS];
};

static size_t emit(struct builder *b, struct sock_filter insn)
{
	bj_assert(b->len < BJ_FILTER_MAX);
	b->code[b->len] = insn;
	return b->len++;
}

static void emit_return(struct builder *b, uint32_t action)
{
	(void)emit(b, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static size_t emit_jump(struct builder *b, uint16_t test, uint32_t k, uint8_t yes, uint8_t no)
{
	return emit(b,
		    (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | test | BPF_K), k, yes, no));
}

static void emit_load(struct builder *b, size_t offset)
{
	(void)emit(b, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

/* Arguments are 64 bits wide and the machine is little-endian. */
static void emit_load_arg(struct builder *b, uint8_t arg, bool high)
{
	emit_load(b, offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t) + (high ? 4 : 0));
}

static bool is_same_treatment(const struct item *a, const struct item *b)
{
	return a->test == b->test && a->arg == b->arg && a->action == b->action;
}

static void jump_to(struct builder *b, size_t at, bool is_yes, const struct item *treatment)
{
	size_t label = 0;

	while (label < b->n_labels && !is_same_treatment(&b->labels[label].treatment, treatment))
		label++;
	if (label == b->n_labels) {
		bj_assert(label < MAX_LABELS);
		b->labels[b->n_labels++].treatment = *treatment;
	}
	bj_assert(b->n_fixups < MAX_FIXUPS);
	b->fixups[b->n_fixups++] = (struct fixup){ at, is_yes, label };
}

static void jump_to_verdict(struct builder *b, size_t at, bool is_yes, uint32_t action)
{
	jump_to(b, at, is_yes, &(struct item){ .action = action });
}

static void patch_jumps(struct builder *b)
{
	for (size_t i = 0; i < b->n_fixups; i++) {
		struct sock_filter *jump = &b->code[b->fixups[i].at];
		size_t distance = b->labels[b->fixups[i].label].place - b->fixups[i].at - 1;

		bj_assert(distance <=
			  UINT8_MAX); /* the table is const: a test builds every level */
		if (b->fixups[i].is_yes)
			jump->jt = (uint8_t)distance;
		else
			jump->jf = (uint8_t)distance;
	}
}

/* ---- items: the table of one architecture, in the order of the numbers ---- */

static uint32_t action_of(const struct builder *b, const struct bj_call *call)
{
	if (call->shape != BJ_SHAPE_DENY)
		return SECCOMP_RET_USER_NOTIF;
	if (b->level > BJ_OBSERVE_OFF && !call->is_silent)
		return SECCOMP_RET_USER_NOTIF; /* answered with the same errno, and recorded */
	return SECCOMP_RET_ERRNO | call->deny;
}

static int by_number(const void *a, const void *b)
{
	const struct item *left = a;
	const struct item *right = b;

	return left->from < right->from ? -1 : left->from > right->from;
}

static void collect_items(struct builder *b, enum bj_arch arch)
{
	size_t n = 0;

	for (size_t i = 0; i < bj_n_calls; i++) {
		const struct bj_call *call = &bj_calls[i];
		uint8_t test = call->test;

		if (call->nr[arch] < 0 || (call->shape != BJ_SHAPE_DENY && call->level > b->level))
			continue;
		if (test == BJ_TEST_OPEN_FLAGS && b->level >= BJ_OBSERVE_DEFAULT)
			test = BJ_TEST_NONE;
		b->items[n++] = (struct item){ (uint32_t)call->nr[arch], (uint32_t)call->nr[arch],
					       test, test == BJ_TEST_NONE ? 0 : call->test_arg,
					       action_of(b, call) };
	}
	qsort(b->items, n, sizeof(b->items[0]), by_number);

	/* Neighbours that are treated alike become one range. */
	b->n_items = 0;
	for (size_t i = 0; i < n; i++) {
		struct item *last = b->n_items > 0 ? &b->items[b->n_items - 1] : NULL;

		if (last && last->to + 1 == b->items[i].from &&
		    is_same_treatment(last, &b->items[i]))
			last->to = b->items[i].to;
		else
			b->items[b->n_items++] = b->items[i];
	}
}

/* ---- leaves: the tests of one argument ---- */

static void emit_leaf_mask(struct builder *b, const struct item *item, uint32_t mask, bool when_set)
{
	size_t at;

	emit_load_arg(b, item->arg, false);
	at = emit_jump(b, BPF_JSET, mask, 0, 0);
	jump_to_verdict(b, at, when_set, item->action);
	jump_to_verdict(b, at, !when_set, SECCOMP_RET_ALLOW);
}

static void emit_leaf_one_of(struct builder *b, const struct item *item, const uint32_t *values,
			     size_t n)
{
	size_t at = 0;

	emit_load_arg(b, item->arg, false);
	for (size_t i = 0; i < n; i++) {
		at = emit_jump(b, BPF_JEQ, values[i], 0, 0);
		jump_to_verdict(b, at, true, item->action);
	}
	jump_to_verdict(b, at, false, SECCOMP_RET_ALLOW);
}

static void emit_leaf_pointer(struct builder *b, const struct item *item)
{
	size_t at;

	emit_load_arg(b, item->arg, false);
	at = emit_jump(b, BPF_JEQ, 0, 0, 0);
	jump_to_verdict(b, at, false, item->action);
	emit_load_arg(b, item->arg, true);
	at = emit_jump(b, BPF_JEQ, 0, 0, 0);
	jump_to_verdict(b, at, false, item->action);
	jump_to_verdict(b, at, true, SECCOMP_RET_ALLOW);
}

static void emit_leaf(struct builder *b, const struct item *item)
{
	static const uint32_t tty_input[] = { TIOCSTI, TIOCLINUX };
	uint8_t calls[8];
	uint32_t values[8];
	size_t n;

	switch ((enum bj_call_test)item->test) {
	case BJ_TEST_NONE:
		emit_return(b, item->action);
		break;
	case BJ_TEST_OPEN_FLAGS:
		emit_leaf_mask(b, item, OPEN_WRITE_MASK, true);
		break;
	case BJ_TEST_NAMED:
		emit_leaf_mask(b, item, AT_EMPTY_PATH, false);
		break;
	case BJ_TEST_CLONE_NEW:
		emit_leaf_mask(b, item, CLONE_NEW_MASK, true);
		break;
	case BJ_TEST_UNSHARE_NEW:
		emit_leaf_mask(b, item, UNSHARE_NEW_MASK, true);
		break;
	case BJ_TEST_POINTER:
		emit_leaf_pointer(b, item);
		break;
	case BJ_TEST_TTY_INPUT:
		emit_leaf_one_of(b, item, tty_input, BJ_ARRAY_LEN(tty_input));
		break;
	case BJ_TEST_SOCKETCALL:
		n = bj_socketcalls(b->level, calls);
		for (size_t i = 0; i < n; i++)
			values[i] = calls[i];
		emit_leaf_one_of(b, item, values, n);
		break;
	}
}

/* Jumps go forward only: first the leaves that look at arguments, then the verdicts, which they may have asked for. */
static void emit_leaves(struct builder *b)
{
	for (int verdicts = 0; verdicts <= 1; verdicts++) {
		for (size_t i = 0; i < b->n_labels; i++) {
			if ((b->labels[i].treatment.test == BJ_TEST_NONE) != (verdicts == 1))
				continue;
			b->labels[i].place = b->len;
			emit_leaf(b, &b->labels[i].treatment);
		}
	}
}

/* ---- blocks and their tree ---- */

static void emit_block(struct builder *b, const struct item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool is_range = items[i].from != items[i].to;
		size_t at;

		/* The items are in order: below this one there is nothing any more. */
		if (is_range) {
			at = emit_jump(b, BPF_JGE, items[i].from, 0, 0);
			jump_to_verdict(b, at, false, SECCOMP_RET_ALLOW);
		}
		at = emit_jump(b, is_range ? BPF_JGT : BPF_JEQ, items[i].to, 0, 0);
		jump_to(b, at, !is_range, &items[i]);
		if (i + 1 == n)
			jump_to_verdict(b, at, is_range, SECCOMP_RET_ALLOW);
	}
}

static void emit_tree(struct builder *b, const struct item *items, size_t n)
{
	size_t n_left = (n / 2 + BLOCK_ITEMS - 1) / BLOCK_ITEMS * BLOCK_ITEMS;
	size_t at;

	if (n <= BLOCK_ITEMS) {
		emit_block(b, items, n);
		return;
	}
	at = emit_jump(b, BPF_JGE, items[n_left].from, 0, 0);
	emit_tree(b, items, n_left);
	bj_assert(b->len - at - 1 <= UINT8_MAX);
	b->code[at].jt = (uint8_t)(b->len - at - 1);
	emit_tree(b, items + n_left, n - n_left);
}

static void emit_arch(struct builder *b, enum bj_arch arch)
{
	size_t at;

	b->n_labels = 0;
	b->n_fixups = 0;
	emit_load(b, offsetof(struct seccomp_data, nr));
	/*
	 * Newer than the table, and all of x32: ENOSYS. -1 is what a tracer writes to skip a call: nothing happens, and the result is the
	 * tracer's.
	 */
	(void)emit_jump(b, BPF_JGT, BJ_SYSCALL_MAX, 0, 1);
	at = emit_jump(b, BPF_JEQ, UINT32_MAX, 0, 0);
	jump_to_verdict(b, at, true, SECCOMP_RET_ALLOW);
	jump_to_verdict(b, at, false, SECCOMP_RET_ERRNO | ENOSYS);
	collect_items(b, arch);
	emit_tree(b, b->items, b->n_items);
	emit_leaves(b);
	patch_jumps(b);
}

static void emit_x86_64(struct builder *b)
{
	size_t skip;

	(void)emit_jump(b, BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
	skip = emit(b, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	emit_arch(b, BJ_ARCH_X86_64);
	b->code[skip].k = (uint32_t)(b->len - skip - 1);
	(void)emit_jump(b, BPF_JEQ, AUDIT_ARCH_I386, 1, 0);
	emit_return(b, SECCOMP_RET_ERRNO | ENOSYS);
	emit_arch(b, BJ_ARCH_I386);
}

static void emit_aarch64(struct builder *b)
{
	(void)emit_jump(b, BPF_JEQ, AUDIT_ARCH_AARCH64, 1, 0);
	emit_return(b, SECCOMP_RET_ERRNO | ENOSYS); /* 32-bit ARM has no table */
	emit_arch(b, BJ_ARCH_AARCH64);
}

int bj_observer_filter_new_for(enum bj_arch arch, enum bj_observe level,
			       struct bj_observer_filter **out_filter, struct bj_err *err)
{
	struct bj_observer_filter *filter = BJ_NEW(struct bj_observer_filter);
	struct builder *b = BJ_NEW(struct builder);

	if (!filter || !b) {
		bj_free(filter);
		bj_free(b);
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for the system call filter");
	}
	b->level = level;
	b->code = filter->code;
	emit_load(b, offsetof(struct seccomp_data, arch));
	if (arch == BJ_ARCH_X86_64)
		emit_x86_64(b);
	else
		emit_aarch64(b);
	filter->level = level;
	filter->program.len = (unsigned short)b->len;
	filter->program.filter = filter->code;
	bj_free(b);
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
