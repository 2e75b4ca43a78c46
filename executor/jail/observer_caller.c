// SPDX-License-Identifier: Apache-2.0
/*
 * The caller of a notified system call: its memory and its names.
 *
 * While it waits for our answer it cannot exit or be replaced, unless it is killed; whoever uses what was read checks afterwards that
 * the notification was still there (the answer fails with ENOENT if not), and forgets it otherwise.
 *
 * Names cost some 20 us, so they are kept: until any exec, and for no longer than a pid needs to come round again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "executor/base/clock.h"
#include "executor/base/macros.h"
#include "executor/jail/observer-internal.h"

enum { PAGE_BYTES = 4096, PROC_NAME_BYTES = 64, CAP_DAC_OVERRIDE_BIT = 1 };

/* Thousands of processes must be made before a pid is used again; they take longer than this. */
static const uint64_t caller_lifetime_ns = 250 * BJ_NS_PER_MS;

static void close_filep(FILE **file)
{
	if (*file)
		(void)fclose(*file); /* was only read */
}

static ssize_t read_some(pid_t pid, uint64_t address, void *buf, size_t n_bytes)
{
	/* In two pieces at a page boundary, so that what stands before an unmapped page is had. */
	size_t first = BJ_MIN(n_bytes, PAGE_BYTES - (size_t)(address % PAGE_BYTES));
	struct iovec local = { buf, n_bytes };
	struct iovec remote[2] = {
		{ (void *)(uintptr_t)address, first }, /* NOLINT: an address of another process */
		{ (void *)(uintptr_t)(address + first), n_bytes - first },
	};
	ssize_t got;

	if (address > UINTPTR_MAX - n_bytes)
		return -EFAULT;
	got = process_vm_readv(pid, &local, 1, remote, n_bytes > first ? 2 : 1, 0);
	return got < 0 ? -errno : got;
}

int bj_caller_read(pid_t pid, uint64_t address, void *buf, size_t n_bytes)
{
	for (size_t done = 0; done < n_bytes;) {
		size_t n = BJ_MIN(n_bytes - done, (size_t)PAGE_BYTES);
		ssize_t got = read_some(pid, address + done, (char *)buf + done, n);

		if (got < 0)
			return (int)got;
		if (got == 0)
			return -EFAULT;
		done += (size_t)got;
	}
	return 0;
}

ssize_t bj_caller_read_string(pid_t pid, uint64_t address, char *buf, size_t cap)
{
	/* Most paths are short: a small first bite, then whole pages. */
	size_t bite = 256;

	for (size_t done = 0; done < cap - 1;) {
		size_t n = BJ_MIN(cap - 1 - done, bite);
		ssize_t got = read_some(pid, address + done, buf + done, n);
		const char *end;

		if (got < 0)
			return got;
		if (got == 0)
			return -EFAULT;
		end = memchr(buf + done, '\0', (size_t)got);
		if (end)
			return end - buf;
		done += (size_t)got;
		bite = PAGE_BYTES;
	}
	buf[cap - 1] = '\0';
	return -ENAMETOOLONG;
}

/* An object that was removed bears a suffix; so may a name that was chosen to look like it. */
static bool is_removed(const char *proc_name)
{
	struct stat st;

	return stat(proc_name, &st) != 0 || st.st_nlink == 0;
}

ssize_t bj_caller_readlink(pid_t pid, const char *name, char *buf, size_t cap)
{
	static const char suffix[] = " (deleted)";
	char proc_name[PROC_NAME_BYTES];
	ssize_t len;

	(void)snprintf(proc_name, sizeof(proc_name), "/proc/%d/%s", (int)pid, name);
	len = readlink(proc_name, buf, cap);
	if (len < 0)
		return -errno;
	if ((size_t)len >= cap)
		return -ENAMETOOLONG;
	buf[len] = '\0';
	if ((size_t)len >= sizeof(suffix) - 1 && buf[0] == '/' &&
	    memcmp(buf + len - (sizeof(suffix) - 1), suffix, sizeof(suffix) - 1) == 0 &&
	    is_removed(proc_name)) {
		len -= (ssize_t)sizeof(suffix) - 1;
		buf[len] = '\0';
	}
	return len;
}

/* ---- names ---- */

static size_t read_proc(pid_t pid, const char *name, char *buf, size_t cap)
{
	char proc_name[PROC_NAME_BYTES];
	bj_cleanup(bj_close_fdp) int fd = -EBADF;
	size_t done = 0;

	(void)snprintf(proc_name, sizeof(proc_name), "/proc/%d/%s", (int)pid, name);
	fd = open(proc_name, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && done < cap - 1) {
		ssize_t got = read(fd, buf + done, cap - 1 - done);

		if (got <= 0)
			break;
		done += (size_t)got;
	}
	buf[done] = '\0';
	return done;
}

/* The @n-th number (from 0) of a line of /proc/PID/status, in the given base; 0 when it is not there. */
static uint64_t status_number(const char *status, const char *label, unsigned int n,
			      unsigned int base)
{
	const char *at = strstr(status, label);
	uint64_t value = 0;

	if (!at)
		return 0;
	at += strlen(label);
	for (unsigned int i = 0;; i++) {
		at += strspn(at, "\t ");
		value = 0;
		for (;; at++) {
			unsigned int digit;

			if (*at >= '0' && *at <= '9')
				digit = (unsigned int)(*at - '0');
			else if (base == 16 && *at >= 'a' && *at <= 'f')
				digit = (unsigned int)(*at - 'a') + 10;
			else
				break;
			value = value * base + digit;
		}
		if (i == n || (*at != '\t' && *at != ' '))
			return i == n ? value : 0;
	}
}

static void load(struct bj_caller *caller, pid_t pid)
{
	char status[2048];
	ssize_t len;
	size_t n;

	*caller = (struct bj_caller){
		.pid = pid, .read_at_ns = bj_now_ns(), .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	/* Real, effective, saved and file system ids; a name with a newline in it is escaped by the kernel. */
	if (read_proc(pid, "status", status, sizeof(status)) > 0) {
		caller->uid = (uid_t)status_number(status, "\nUid:", 3, 10);
		caller->gid = (gid_t)status_number(status, "\nGid:", 3, 10);
		caller->process = (pid_t)status_number(status, "\nTgid:", 0, 10);
		caller->has_override =
			(status_number(status, "\nCapEff:", 0, 16) >> CAP_DAC_OVERRIDE_BIT) & 1;
	}
	n = read_proc(pid, "comm", caller->comm, sizeof(caller->comm));
	if (n > 0 && caller->comm[n - 1] == '\n')
		caller->comm[n - 1] = '\0';
	len = bj_caller_readlink(pid, "exe", caller->exe, sizeof(caller->exe));
	caller->exe_len = len > 0 ? (size_t)len : 0;
	n = read_proc(pid, "cmdline", caller->argv0, sizeof(caller->argv0));
	caller->argv0_len = strnlen(caller->argv0, n);
}

const struct bj_caller *bj_caller_get(struct bj_callers *callers, pid_t pid)
{
	struct bj_caller *slot = &callers->slots[(unsigned int)pid % BJ_N_CALLERS];

	if (slot->pid != pid || bj_now_ns() - slot->read_at_ns > caller_lifetime_ns)
		load(slot, pid);
	return slot;
}

void bj_callers_forget(struct bj_callers *callers)
{
	for (size_t i = 0; i < BJ_N_CALLERS; i++)
		callers->slots[i].pid = 0;
}

/* ---- its working directory ---- */

/* Who has died since has done what it had to do (mv makes its one call and exits). */
static void forget_dead_movers(struct bj_cwds *cwds)
{
	for (size_t i = 0; i < cwds->n_movers; i++)
		if (syscall(SYS_tkill, cwds->movers[i], 0) != 0 && errno == ESRCH)
			cwds->movers[i--] = cwds->movers[--cwds->n_movers];
}

ssize_t bj_cwds_get(struct bj_cwds *cwds, pid_t pid, char *buf, size_t cap)
{
	struct bj_cwd *slot = &cwds->slots[(unsigned int)pid % BJ_N_CWDS];
	uint64_t now_ns;
	ssize_t len;

	if (cwds->is_off)
		return bj_caller_readlink(pid, "cwd", buf, cap);
	now_ns = bj_now_ns();
	if (slot->pid == pid && now_ns - slot->read_at_ns <= caller_lifetime_ns &&
	    slot->len < cap) {
		memcpy(buf, slot->path, slot->len + 1);
		return (ssize_t)slot->len;
	}
	len = bj_caller_readlink(pid, "cwd", buf, cap);
	forget_dead_movers(cwds);
	if (len > 0 && (size_t)len < sizeof(slot->path) && cwds->n_movers == 0) {
		slot->pid = pid;
		slot->read_at_ns = now_ns;
		slot->len = (size_t)len;
		memcpy(slot->path, buf, slot->len + 1);
	}
	return len;
}

void bj_cwds_arrive(struct bj_cwds *cwds, pid_t pid)
{
	for (size_t i = 0; i < cwds->n_movers; i++)
		if (cwds->movers[i] == pid)
			cwds->movers[i--] = cwds->movers[--cwds->n_movers];
}

void bj_cwds_move(struct bj_cwds *cwds, pid_t pid)
{
	bj_cwds_forget(cwds);
	bj_cwds_arrive(cwds, pid);
	if (cwds->n_movers == BJ_MAX_MOVERS)
		forget_dead_movers(cwds);
	if (cwds->n_movers == BJ_MAX_MOVERS)
		cwds->is_off = true;
	else
		cwds->movers[cwds->n_movers++] = pid;
}

void bj_cwds_forget(struct bj_cwds *cwds)
{
	for (size_t i = 0; i < BJ_N_CWDS; i++)
		cwds->slots[i].pid = 0;
}

/* ---- its network ---- */

bool bj_caller_has_only_loopback(pid_t pid)
{
	char text[4096];
	size_t n_interfaces = 0;
	bool has_loopback = false;

	/* Two lines of headings, then "  name: counters". More than fits is more than one interface. */
	if (read_proc(pid, "net/dev", text, sizeof(text)) == 0)
		return false;
	for (const char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n')) {
		const char *name = at + 1 + strspn(at + 1, " ");
		const char *end = strpbrk(name, ":|\n");

		if (!end || *end != ':')
			continue;
		n_interfaces++;
		has_loopback = has_loopback || (end - name == 2 && memcmp(name, "lo", 2) == 0);
	}
	return has_loopback && n_interfaces == 1;
}

/* As the text of an address shows it: what is not printable is a dot. */
static bool is_shown_as(const char *raw, size_t len, const char *name)
{
	size_t name_len = strlen(name);

	if (len < name_len)
		return false;
	for (size_t i = 0; i < name_len; i++) {
		char c = raw[i] >= ' ' && raw[i] <= '~' ? raw[i] : '.';

		/* The kernel prints '@' for each NUL. */
		if (c != name[i] && !(raw[i] == '@' && name[i] == '.'))
			return false;
	}
	/* A text that fills its buffer may have been cut. */
	return len == name_len || name_len + 1 == sizeof(((struct bj_address *)0)->text);
}

bool bj_caller_has_abstract(pid_t pid, const char *name)
{
	char path[PROC_NAME_BYTES];
	char line[512];
	bj_cleanup(close_filep) FILE *file = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		char *at = strchr(line, '@');

		/* Its place: the last column, after seven others. */
		if (at && at > line && at[-1] == ' ' && is_shown_as(at, strcspn(at, "\n"), name))
			return true;
	}
	return false;
}

bool bj_caller_may(const struct bj_caller *caller, const struct bj_found *found, int mask)
{
	unsigned int shift = caller->uid == found->uid ? 6 : caller->gid == found->gid ? 3 : 0;

	if (caller->has_override) /* everything, but no execution of what nobody may execute */
		return !(mask & X_OK) || found->is_dir || (found->mode & 0111);
	return ((found->mode >> shift) & (unsigned int)mask) == (unsigned int)mask;
}
