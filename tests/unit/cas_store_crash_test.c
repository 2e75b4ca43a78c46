// SPDX-License-Identifier: Apache-2.0
/*
 * What is left after a process died in the middle, and after system calls failed: never a half blob, never a wrong one.
 * A death is a child that leaves by _exit() from within a system call of the store.
 */
#include "tests/unit/cas_test_util.h"

#include <sys/mman.h>

#include "executor/base/alloc.h"

static const char hello_hex[] = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

/* ---- system calls that fail, or end the process ---- */

enum call { OPENAT, WRITE, PREAD, FCHMOD, RENAMEAT, UNLINKAT, UTIMENSAT, SYNCFS, FSYNC, N_CALLS };

/* The plan: call number `at` (from 0) of `call` fails with `errnum`, or, when that is 0, kills the process. */
static struct {
	enum call call;
	int at;
	int errnum;
	bool is_armed, has_fired;
} plan;

static bool must_fail(enum call call)
{
	if (!plan.is_armed || call != plan.call || plan.at-- != 0)
		return false;
	plan.has_fired = true;
	if (plan.errnum == 0)
		_exit(0);
	errno = plan.errnum;
	return true;
}

static int fail_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	return must_fail(OPENAT) ? -1 : bj_store_io_sys.openat(dirfd, path, flags, mode);
}

/* Half of it reaches the disk before the failure. */
static ssize_t fail_write(int fd, const void *data, size_t n_bytes)
{
	size_t n = n_bytes > 1 ? n_bytes / 2 : n_bytes;
	if (plan.is_armed && plan.call == WRITE && plan.at == 0 && n > 0)
		(void)!bj_store_io_sys.write(fd, data, n);
	return must_fail(WRITE) ? -1 : bj_store_io_sys.write(fd, data, n);
}

static ssize_t fail_pread(int fd, void *data, size_t n_bytes, off_t offset)
{
	return must_fail(PREAD) ? -1 : bj_store_io_sys.pread(fd, data, n_bytes, offset);
}

static int fail_fchmod(int fd, mode_t mode)
{
	return must_fail(FCHMOD) ? -1 : bj_store_io_sys.fchmod(fd, mode);
}

static int fail_renameat(int from_dirfd, const char *from, int to_dirfd, const char *to)
{
	return must_fail(RENAMEAT) ? -1 : bj_store_io_sys.renameat(from_dirfd, from, to_dirfd, to);
}

static int fail_unlinkat(int dirfd, const char *path, int flags)
{
	return must_fail(UNLINKAT) ? -1 : bj_store_io_sys.unlinkat(dirfd, path, flags);
}

static int fail_utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
	return must_fail(UTIMENSAT) ? -1 : bj_store_io_sys.utimensat(dirfd, path, times, flags);
}

static int fail_syncfs(int fd)
{
	return must_fail(SYNCFS) ? -1 : sync_nothing(fd);
}

static int fail_fsync(int fd)
{
	return must_fail(FSYNC) ? -1 : sync_nothing(fd);
}

static const struct bj_store_io fail_io = {
	.openat = fail_openat,
	.write = fail_write,
	.pread = fail_pread,
	.fchmod = fail_fchmod,
	.renameat = fail_renameat,
	.unlinkat = fail_unlinkat,
	.utimensat = fail_utimensat,
	.syncfs = fail_syncfs,
	.fsync = fail_fsync,
};

static void arm(enum call call, int at, int errnum)
{
	plan.call = call;
	plan.at = at;
	plan.errnum = errnum;
	plan.has_fired = false;
	plan.is_armed = true;
}

static bool disarm(void)
{
	plan.is_armed = false;
	return plan.has_fired;
}

/* Runs @fn with an open store in a child that dies without closing it. */
static void in_dying_process(struct fix *fix, void (*fn)(struct fix *fix))
{
	assert_null(fix->store);
	fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		fix_open_with(fix, 0, &fail_io);
		fn(fix);
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void reopen(struct fix *fix)
{
	fix_close(fix);
	fix_open_with(fix, 0, &fail_io);
}

static struct bj_digest big_digest(struct fix *fix)
{
	return bj_digest_of(BJ_DIGEST_SHA256, make_blob(fix, 300000, 1));
}

/* ---- death ---- */

static void write_blobs(struct fix *fix)
{
	struct bj_digest digest;
	struct bj_str big = make_blob(fix, 300000, 1);
	struct bj_store_writer *writer = NULL;
	CHILD_CHECK(bj_store_put(fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("hello\n"), NULL, &digest,
				 &fix->err) == 0);
	CHILD_CHECK(bj_store_ac_put(fix->store, BJ_STR_LIT("i"), &digest, BJ_STR_LIT("value"),
				    &fix->err) == 0);
	CHILD_CHECK(bj_store_writer_new(fix->store, BJ_DIGEST_SHA256, UINT64_MAX, &writer,
					&fix->err) == 0);
	for (size_t at = 0; at < big.len; at += 100000)
		CHILD_CHECK(bj_store_writer_append(writer, big.ptr + at, 100000, &fix->err) == 0);
	CHILD_CHECK(bj_store_writer_commit(writer, NULL, &digest, &fix->err) == 0);
}

/* What is there is right, what is not there can be stored. */
static void expect_whole_or_absent(struct fix *fix)
{
	struct bj_digest hello = digest_of_hex(hello_hex, 6), big = big_digest(fix);
	struct bj_str value = BJ_STR_NULL;
	assert_int_equal(count_files(fix, "tmp"), 0);
	if (bj_store_has(fix->store, &hello))
		expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
	if (bj_store_has(fix->store, &big))
		expect_blob(fix, &big, make_blob(fix, 300000, 1));
	int r = bj_store_ac_get(fix->store, BJ_STR_LIT("i"), &hello, &value, &fix->arena,
				&fix->err);
	assert_true(r == BJ_STORE_E_MISSING || (r == 0 && bj_str_eq(value, BJ_STR_LIT("value"))));
	(void)put(fix, BJ_STR_LIT("hello\n"));
	(void)put_random(fix, 300000, 1);
	expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
	expect_blob(fix, &big, make_blob(fix, 300000, 1));
	assert_int_equal(stats_of(fix).n_damaged, 0);
}

/* At every call of each kind, until one is never reached. */
static void death_at_every_system_call(void **state)
{
	static const enum call calls[] = { OPENAT, WRITE, FCHMOD, RENAMEAT };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(calls); i++) {
		for (int at = 0; at < 8; at++) {
			assert_int_equal(bj_remove_tree(AT_FDCWD, fix->root), 0);
			arm(calls[i], at, 0);
			in_dying_process(fix, write_blobs);
			(void)disarm();
			fix_open_with(fix, 0, &fail_io);
			expect_whole_or_absent(fix);
			fix_close(fix);
		}
	}
}

static void what_was_committed_survives_a_death(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6), big = big_digest(fix);
	in_dying_process(fix, write_blobs);
	fix_open_with(fix, 0, &fail_io);
	assert_int_equal(stats_of(fix).n_suspects, 2);
	assert_true(bj_store_has(fix->store, &hello));
	assert_true(bj_store_has(fix->store, &big));
	assert_int_equal(stats_of(fix).n_suspects, 0);
}

static void leave_a_writer_open(struct fix *fix)
{
	struct bj_str big = make_blob(fix, 300000, 1);
	struct bj_store_writer *writer = NULL;
	CHILD_CHECK(bj_store_writer_new(fix->store, BJ_DIGEST_SHA256, UINT64_MAX, &writer,
					&fix->err) == 0);
	CHILD_CHECK(bj_store_writer_append(writer, big.ptr, big.len, &fix->err) == 0);
	CHILD_CHECK(count_files(fix, "tmp") == 1);
}

static void tmp_is_emptied_at_open(void **state)
{
	struct fix *fix = *state;
	in_dying_process(fix, leave_a_writer_open);
	assert_int_equal(count_files(fix, "tmp"), 1);
	fix_open_with(fix, 0, &fail_io);
	assert_int_equal(count_files(fix, "tmp"), 0);
	assert_int_equal(stats_of(fix).n_blobs, 0);
}

/* ---- suspects ---- */

static void damage_after_an_unclean_stop_is_found_on_first_use(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6), big = big_digest(fix);
	int fd = -1;
	in_dying_process(fix, write_blobs);
	flip_bit(blob_path(fix, &hello), 5);
	flip_bit(blob_path(fix, &big), 299999);
	fix_open_with(fix, 0, &fail_io);
	assert_int_equal(stats_of(fix).n_blobs, 2);
	/* FindMissing must not say that it is there, or the client will not send it again. */
	assert_false(bj_store_has(fix->store, &hello));
	EXPECT_ERR(fix, bj_store_open_blob(fix->store, &big, &fd, &fix->err), BJ_DATA_LOSS,
		   "damaged");
	assert_int_equal(bj_store_open_blob(fix->store, &big, &fd, &fix->err), BJ_STORE_E_MISSING);
	assert_int_equal(stats_of(fix).n_damaged, 2);
	assert_int_equal(stats_of(fix).n_blobs, 0);
	assert_false(file_exists(blob_path(fix, &big)));
	assert_false(bj_store_pin(fix->store, &big));
}

static void a_cut_file_is_removed_at_open(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6), big = big_digest(fix);
	in_dying_process(fix, write_blobs);
	assert_int_equal(chmod(blob_path(fix, &big), 0644), 0);
	assert_int_equal(truncate(blob_path(fix, &big), 4096), 0);
	fix_open_with(fix, 0, &fail_io);
	assert_false(file_exists(blob_path(fix, &big)));
	assert_false(bj_store_has(fix->store, &big));
	assert_true(bj_store_has(fix->store, &hello));
	assert_int_equal(stats_of(fix).n_damaged, 1);
}

/* An upload of a suspect blob replaces the file without a look at it. */
static void an_upload_heals_a_suspect(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	in_dying_process(fix, write_blobs);
	flip_bit(blob_path(fix, &hello), 5);
	fix_open_with(fix, 0, &fail_io);
	(void)put(fix, BJ_STR_LIT("hello\n"));
	expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
	assert_int_equal(stats_of(fix).n_blobs, 2);
	assert_int_equal(stats_of(fix).n_bytes, 300006);
	assert_int_equal(stats_of(fix).n_damaged, 0);
}

/* After a clean stop nothing is hashed again: the size is looked at when a blob is opened, the hash when it is read. */
static void a_clean_stop_makes_no_suspects(void **state)
{
	struct fix *fix = *state;
	fix_open_with(fix, 0, &fail_io);
	struct bj_digest hello = put(fix, BJ_STR_LIT("hello\n"));
	reopen(fix);
	assert_int_equal(stats_of(fix).n_suspects, 0);
	arm(PREAD, 0, EIO);
	assert_true(bj_store_has(fix->store, &hello));
	assert_false(disarm());
}

/* A suspect that nobody used must not be trusted after the next clean stop, while those that were hashed are. */
static void suspicion_outlives_a_clean_stop(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6), big = big_digest(fix);
	in_dying_process(fix, write_blobs);
	flip_bit(blob_path(fix, &hello), 5);
	fix_open_with(fix, 0, &fail_io);
	assert_true(bj_store_has(fix->store, &big));
	for (int i = 0; i < 3; i++) {
		reopen(fix);
		assert_int_equal(stats_of(fix).n_suspects, 1);
		arm(PREAD, 0, EIO);
		assert_true(bj_store_has(fix->store, &big));
		assert_false(disarm());
	}
	assert_false(bj_store_has(fix->store, &hello));
	reopen(fix);
	assert_int_equal(stats_of(fix).n_suspects, 0);
	assert_int_equal(stats_of(fix).n_blobs, 1);
}

static void a_marker_that_is_damaged_counts_as_none(void **state)
{
	static const char *const contents[] = {
		"",
		"clean\n",
		"nonsense",
		"belljar clean 1\n",
		"belljar clean 1\nx\n",
		"belljar clean 1\nx\nend 1\n",
		"belljar clean 1\nblobs/sha256/58/x\nend 1\n",
		"belljar clean 1\nend 1\n",
		"belljar clean 1\nend 0",
		"belljar clean 1\nend 00\n",
		"belljar clean 1\nend 0\nend 0\n",
		"belljar clean 1\nblobs/sha256/59/"
		"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-6\nend 1\n",
		"belljar clean 1\nac/sha256/58/"
		"5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03-6\nend 1\n",
	};
	struct fix *fix = *state;
	char path[8192];
	(void)snprintf(path, sizeof(path), "%s/clean", fix->root);
	fix_open_with(fix, 0, &fail_io);
	(void)put(fix, BJ_STR_LIT("hello\n"));
	for (size_t i = 0; i < BJ_ARRAY_LEN(contents); i++) {
		fix_close(fix);
		int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, contents[i], strlen(contents[i])), strlen(contents[i]));
		close(fd);
		fix_open_with(fix, 0, &fail_io);
		assert_int_equal(stats_of(fix).n_suspects, 1);
		assert_false(file_exists(path));
	}
}

/* An I/O error while hashing says nothing about the blob: it stays, and stays suspect. */
static void an_error_while_hashing_keeps_the_suspect(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	int fd = -1;
	in_dying_process(fix, write_blobs);
	fix_open_with(fix, 0, &fail_io);
	arm(PREAD, 0, EIO);
	EXPECT_ERR(fix, bj_store_open_blob(fix->store, &hello, &fd, &fix->err), BJ_INTERNAL,
		   "Input/output error");
	assert_true(disarm());
	arm(OPENAT, 0, EMFILE);
	EXPECT_ERR(fix, bj_store_open_blob(fix->store, &hello, &fd, &fix->err),
		   BJ_RESOURCE_EXHAUSTED, "Too many open files");
	assert_true(disarm());
	assert_int_equal(stats_of(fix).n_suspects, 2);
	assert_true(bj_store_has(fix->store, &hello));
	expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
}

/* ---- failing system calls ---- */

static int write_big(struct fix *fix, struct bj_str big)
{
	struct bj_store_writer *writer = NULL;
	int r = bj_store_writer_new(fix->store, BJ_DIGEST_SHA256, UINT64_MAX, &writer, &fix->err);
	if (r < 0)
		return r;
	for (size_t at = 0; at < big.len && r == 0; at += 100000)
		r = bj_store_writer_append(writer, big.ptr + at, 100000, &fix->err);
	if (r < 0) {
		bj_store_writer_abort(writer);
		return r;
	}
	return bj_store_writer_commit(writer, NULL, NULL, &fix->err);
}

static int put_big_by_writer(struct fix *fix)
{
	return write_big(fix, make_blob(fix, 300000, 1));
}

static int put_hello(struct fix *fix)
{
	return bj_store_put(fix->store, BJ_DIGEST_SHA256, BJ_STR_LIT("hello\n"), NULL, NULL,
			    &fix->err);
}

static int put_value(struct fix *fix)
{
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	return bj_store_ac_put(fix->store, BJ_STR_LIT("i"), &hello, BJ_STR_LIT("value"), &fix->err);
}

static size_t count_fds(void)
{
	size_t n = 0;
	DIR *dir = opendir("/proc/self/fd");
	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Disk full at every call that writes: the answer says so, nothing is visible, and the next try works. */
static void disk_full_at_every_system_call(void **state)
{
	static const enum call calls[] = { OPENAT, WRITE, FCHMOD, RENAMEAT };
	static int (*const puts[])(struct fix *) = { put_hello, put_big_by_writer, put_value };
	struct fix *fix = *state;
	int n_fired = 0;
	for (size_t k = 0; k < BJ_ARRAY_LEN(puts); k++) {
		for (size_t i = 0; i < BJ_ARRAY_LEN(calls); i++) {
			for (int at = 0;; at++) {
				assert_int_equal(bj_remove_tree(AT_FDCWD, fix->root), 0);
				fix_open_with(fix, 0, &fail_io);
				size_t n_fds = count_fds();
				arm(calls[i], at, ENOSPC);
				int r = puts[k](fix);
				bool has_fired = disarm();
				assert_int_equal(count_fds(), n_fds);
				n_fired += has_fired;
				assert_int_equal(count_files(fix, "tmp"), 0);
				if (has_fired) {
					assert_int_equal(r, -BJ_RESOURCE_EXHAUSTED);
					assert_int_equal(fix->err.sys_errno, ENOSPC);
					assert_non_null(
						strstr(fix->err.msg, "No space left on device"));
					bj_err_clear(&fix->err);
					assert_int_equal(stats_of(fix).n_blobs, 0);
					assert_int_equal(stats_of(fix).n_ac_entries, 0);
					assert_int_equal(fix->store->map.n_entries, 0);
				}
				EXPECT_OK(fix, puts[k](fix));
				fix_close(fix);
				if (!has_fired)
					break;
			}
		}
	}
	assert_true(n_fired > 15);
}

/* The old value stays when the new one cannot be written. */
static void a_failed_replacement_keeps_the_old_value(void **state)
{
	static const enum call calls[] = { OPENAT, WRITE, FCHMOD, RENAMEAT };
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	fix_open_with(fix, 0, &fail_io);
	EXPECT_OK(fix, put_value(fix));
	for (size_t i = 0; i < BJ_ARRAY_LEN(calls); i++) {
		struct bj_str value = BJ_STR_NULL;
		arm(calls[i], 0, ENOSPC);
		EXPECT_ERR(fix,
			   bj_store_ac_put(fix->store, BJ_STR_LIT("i"), &hello,
					   BJ_STR_LIT("a new value"), &fix->err),
			   BJ_RESOURCE_EXHAUSTED, "No space left");
		assert_true(disarm());
		EXPECT_OK(fix, bj_store_ac_get(fix->store, BJ_STR_LIT("i"), &hello, &value,
					       &fix->arena, &fix->err));
		assert_true(bj_str_eq(value, BJ_STR_LIT("value")));
		assert_int_equal(stats_of(fix).n_ac_bytes, 48 + 5);
	}
}

static void put_fd_gives_up_when_it_cannot_read(void **state)
{
	struct fix *fix = *state;
	fix_open_with(fix, 0, &fail_io);
	struct bj_str big = make_blob(fix, 300000, 1);
	struct bj_digest digest;
	int fd = memfd_create("file", MFD_CLOEXEC);
	assert_int_equal(write(fd, big.ptr, big.len), big.len);
	for (int at = 0; at < 3; at++) {
		size_t n_fds = count_fds();
		arm(PREAD, at, EIO);
		EXPECT_ERR(fix,
			   bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, fd, &digest, &fix->err),
			   BJ_INTERNAL, "Input/output error");
		assert_true(disarm());
		assert_int_equal(count_fds(), n_fds);
		assert_int_equal(count_files(fix, "tmp"), 0);
		assert_int_equal(stats_of(fix).n_blobs, 0);
	}
	arm(PREAD, 1, EINTR);
	EXPECT_OK(fix, bj_store_put_fd(fix->store, BJ_DIGEST_SHA256, fd, &digest, &fix->err));
	assert_true(disarm());
	expect_blob(fix, &digest, big);
	close(fd);
}

static void reads_that_are_interrupted_go_on(void **state)
{
	struct fix *fix = *state;
	fix_open_with(fix, 0, &fail_io);
	arm(WRITE, 0, EINTR);
	EXPECT_OK(fix, put_big_by_writer(fix));
	(void)disarm();
	EXPECT_OK(fix, put_hello(fix));
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	arm(PREAD, 0, EINTR);
	expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
	assert_true(disarm());
}

/* A file that cannot be removed stays counted, stays suspect, and is not served before it was hashed. */
static void a_file_that_cannot_be_removed(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	fix_open_with(fix, 0, &fail_io);
	EXPECT_OK(fix, put_hello(fix));
	arm(UNLINKAT, 0, EIO);
	bj_store_discard(fix->store, &hello);
	assert_true(disarm());
	assert_int_equal(stats_of(fix).n_blobs, 1);
	assert_int_equal(stats_of(fix).n_bytes, 6);
	assert_int_equal(stats_of(fix).n_suspects, 1);
	flip_bit(blob_path(fix, &hello), 0);
	assert_false(bj_store_has(fix->store, &hello));
	assert_int_equal(stats_of(fix).n_blobs, 0);
}

/* ---- the marker and its syncs ---- */

static void a_stop_that_cannot_sync_is_not_clean(void **state)
{
	static const struct {
		enum call call;
		int at;
	} faults[] = { { SYNCFS, 0 }, { OPENAT, 0 }, { FSYNC, 0 }, { WRITE, 0 } };
	struct fix *fix = *state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(faults); i++) {
		fix_open_with(fix, 0, &fail_io);
		EXPECT_OK(fix, put_hello(fix));
		(void)put_random(fix, 10, i);
		arm(faults[i].call, faults[i].at, EIO);
		fix_close(fix);
		assert_true(disarm());
		fix_open_with(fix, 0, &fail_io);
		assert_int_equal(stats_of(fix).n_suspects, stats_of(fix).n_blobs);
		fix_close(fix);
	}
}

static void a_sync_that_failed_once_is_remembered(void **state)
{
	struct fix *fix = *state;
	fix_open_with(fix, 0, &fail_io);
	EXPECT_OK(fix, put_hello(fix));
	arm(SYNCFS, 0, EIO);
	EXPECT_ERR(fix, bj_store_sync(fix->store, &fix->err), BJ_INTERNAL, "sync the store");
	assert_true(disarm());
	EXPECT_OK(fix, put_big_by_writer(fix));
	EXPECT_OK(fix, bj_store_sync(fix->store, &fix->err));
	reopen(fix);
	assert_int_equal(stats_of(fix).n_suspects, 2);
}

static void sync_does_nothing_when_nothing_is_new(void **state)
{
	struct fix *fix = *state;
	fix_open_with(fix, 0, &fail_io);
	EXPECT_OK(fix, put_hello(fix));
	arm(SYNCFS, 1, EIO);
	EXPECT_OK(fix, bj_store_sync(fix->store, &fix->err));
	EXPECT_OK(fix, bj_store_sync(fix->store, &fix->err));
	EXPECT_OK(fix, put_hello(fix)); /* it is there: nothing new */
	EXPECT_OK(fix, bj_store_sync(fix->store, &fix->err));
	assert_false(disarm());
}

static void open_fails_cleanly(void **state)
{
	static const struct {
		enum call call;
		int errnum;
	} faults[] = { { UNLINKAT, EROFS }, { FSYNC, EIO } };
	struct fix *fix = *state;
	struct bj_store_opts opts = { .sync_interval_ns = UINT64_MAX };
	fix_open_with(fix, 0, &fail_io);
	EXPECT_OK(fix, put_hello(fix));
	fix_close(fix);
	for (size_t i = 0; i < BJ_ARRAY_LEN(faults); i++) {
		struct bj_store *store = NULL;
		arm(faults[i].call, 0, faults[i].errnum);
		EXPECT_ERR(fix, bj_store_open_with(fix->root, &opts, &fail_io, &store, &fix->err),
			   BJ_INTERNAL, strerror(faults[i].errnum));
		assert_true(disarm());
		assert_null(store);
	}
	fix_open_with(fix, 0, &fail_io); /* the lock was given back */
}

/* ---- allocation ---- */

static void each_allocation_fails_once(void **state)
{
	struct fix *fix = *state;
	struct bj_digest hello = digest_of_hex(hello_hex, 6);
	struct bj_str big = make_blob(fix, 300000, 1);
	uint64_t n_failures = 0;
	for (uint64_t n = 0;; n++) {
		struct bj_store *store = NULL;
		struct bj_store_opts opts = { .sync_interval_ns = UINT64_MAX };
		assert_int_equal(bj_remove_tree(AT_FDCWD, fix->root), 0);
		bj_alloc_fail_after(n);
		int r = bj_store_open_with(fix->root, &opts, &fail_io, &store, &fix->err);
		fix->store = store;
		if (r == 0)
			r = put_hello(fix);
		if (r == 0)
			r = put_value(fix);
		if (r == 0)
			r = write_big(fix, big);
		bool has_failed = bj_alloc_fail_disarm();
		n_failures += has_failed;
		assert_int_equal(r, has_failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		bj_err_clear(&fix->err);
		if (store) {
			assert_int_equal(count_files(fix, "tmp"), 0);
			EXPECT_OK(fix, put_hello(fix));
			expect_blob(fix, &hello, BJ_STR_LIT("hello\n"));
		}
		fix_close(fix);
		if (!has_failed)
			break;
	}
	assert_true(n_failures > 5);
}

static void each_allocation_of_a_second_open_fails_once(void **state)
{
	struct fix *fix = *state;
	struct bj_store_opts opts = { .sync_interval_ns = UINT64_MAX };
	in_dying_process(fix, write_blobs);
	uint64_t n_failures = 0;
	for (uint64_t n = 0;; n++) {
		struct bj_digest hello = digest_of_hex(hello_hex, 6);
		bj_alloc_fail_after(n);
		int r = bj_store_open_with(fix->root, &opts, &fail_io, &fix->store, &fix->err);
		if (r == 0) {
			int fd = -1;
			r = bj_store_open_blob(fix->store, &hello, &fd, &fix->err);
			if (r == 0)
				close(fd);
		}
		bool has_failed = bj_alloc_fail_disarm();
		n_failures += has_failed;
		assert_int_equal(r, has_failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		bj_err_clear(&fix->err);
		fix_close(fix);
		if (!has_failed)
			break;
	}
	assert_true(n_failures > 3);
}

static void an_open_that_fails_leaves_a_clean_stop_clean(void **state)
{
	struct fix *fix = *state;
	struct bj_store_opts opts = { .sync_interval_ns = UINT64_MAX };
	uint64_t n_failures = 0;
	fix_open_with(fix, 0, &fail_io);
	(void)put_random(fix, 100, 1);
	fix_close(fix);
	for (uint64_t n = 0;; n++) {
		bj_alloc_fail_after(n);
		int r = bj_store_open_with(fix->root, &opts, &fail_io, &fix->store, &fix->err);
		bool has_failed = bj_alloc_fail_disarm();
		n_failures += r < 0;
		assert_int_equal(r, has_failed ? -BJ_RESOURCE_EXHAUSTED : 0);
		bj_err_clear(&fix->err);
		if (!has_failed)
			break;
	}
	assert_int_equal(stats_of(fix).n_suspects, 0);
	assert_int_equal(stats_of(fix).n_blobs, 1);
	assert_true(n_failures > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST_CLOSED(death_at_every_system_call),
		FIX_TEST_CLOSED(what_was_committed_survives_a_death),
		FIX_TEST_CLOSED(tmp_is_emptied_at_open),
		FIX_TEST_CLOSED(damage_after_an_unclean_stop_is_found_on_first_use),
		FIX_TEST_CLOSED(a_cut_file_is_removed_at_open),
		FIX_TEST_CLOSED(an_upload_heals_a_suspect),
		FIX_TEST_CLOSED(a_clean_stop_makes_no_suspects),
		FIX_TEST_CLOSED(suspicion_outlives_a_clean_stop),
		FIX_TEST_CLOSED(a_marker_that_is_damaged_counts_as_none),
		FIX_TEST_CLOSED(an_error_while_hashing_keeps_the_suspect),
		FIX_TEST_CLOSED(disk_full_at_every_system_call),
		FIX_TEST_CLOSED(a_failed_replacement_keeps_the_old_value),
		FIX_TEST_CLOSED(put_fd_gives_up_when_it_cannot_read),
		FIX_TEST_CLOSED(reads_that_are_interrupted_go_on),
		FIX_TEST_CLOSED(a_file_that_cannot_be_removed),
		FIX_TEST_CLOSED(a_stop_that_cannot_sync_is_not_clean),
		FIX_TEST_CLOSED(a_sync_that_failed_once_is_remembered),
		FIX_TEST_CLOSED(sync_does_nothing_when_nothing_is_new),
		FIX_TEST_CLOSED(open_fails_cleanly),
		FIX_TEST_CLOSED(each_allocation_fails_once),
		FIX_TEST_CLOSED(each_allocation_of_a_second_open_fails_once),
		FIX_TEST_CLOSED(an_open_that_fails_leaves_a_clean_stop_clean),
	};
	return cmocka_run_group_tests_name("cas_store_crash", tests, NULL, NULL);
}
