// SPDX-License-Identifier: Apache-2.0
/*
 * The file `clean`: written at the end of a clean stop, removed before anything new is named. Its text:
 *
 *	belljar clean 1
 *	blobs/sha256/58/5891b5…be03-6          a blob that is still suspect from an earlier unclean stop
 *	…
 *	end 1                                  how many; a marker that was cut has no such line
 *
 * Without the list a clean stop would turn suspects that nobody used into trusted blobs, or, if it left the marker
 * out, one crash would make every later start hash everything again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "executor/base/alloc.h"
#include "executor/base/buf.h"
#include "executor/base/fd.h"
#include "executor/base/log.h"
#include "executor/cas/store-internal.h"

#define FLUSH_BYTES ((size_t)64 * 1024)
#define MAX_MARKER_BYTES ((size_t)1024 * 1024 * 1024)

static const struct bj_str first_line = BJ_STR_LIT("belljar clean 1");

void bj_store_marker_deinit(struct bj_store_marker *marker)
{
	bj_map_deinit(&marker->suspects);
	bj_free(marker->keys);
	*marker = BJ_STORE_MARKER_NULL;
}

/* ---- reading ---- */

static size_t count_lines(struct bj_str text)
{
	size_t n = 0;
	for (size_t at = 0; (at = bj_str_find(text, '\n', at)) < text.len; at++)
		n++;
	return n;
}

static bool parse_suspect(struct bj_str line, struct bj_store_key *out_key)
{
	static const struct bj_str prefix = BJ_STR_LIT("blobs/sha256/");
	char path[BJ_STORE_PATH_BYTES];
	if (!bj_str_has_prefix(line, prefix) || line.len < prefix.len + 3)
		return false;
	struct bj_str name = bj_str_sub(line, prefix.len + 3, line.len);
	if (!bj_store_key_parse(name, BJ_DIGEST_SHA256, out_key))
		return false;
	bj_store_key_path(out_key, path);
	return bj_str_eq(line, bj_str_of(path));
}

static bool is_end_line(struct bj_str line, size_t n_suspects)
{
	static const struct bj_str prefix = BJ_STR_LIT("end ");
	uint64_t n = 0;
	return bj_str_has_prefix(line, prefix) &&
	       bj_str_to_u64(bj_str_sub(line, prefix.len, line.len), &n) && n == n_suspects;
}

/* Return: 1 for a good text, 0 for any other, negative without memory. */
static int parse(struct bj_str text, struct bj_store_marker *marker, struct bj_err *err)
{
	size_t n_lines = count_lines(text), n = 0;
	if (!bj_str_has_suffix(text, BJ_STR_LIT("\n")) ||
	    !bj_str_eq(bj_str_cut(&text, '\n'), first_line))
		return 0;
	marker->keys = BJ_NEW_ARRAY(struct bj_store_key, n_lines);
	if (!marker->keys)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for the marker of the store");
	while (text.len > 0) {
		struct bj_str line = bj_str_cut(&text, '\n');
		if (is_end_line(line, n))
			return text.len == 0;
		struct bj_store_key *key = &marker->keys[n];
		if (!parse_suspect(line, key))
			return 0;
		if (!bj_map_put(&marker->suspects, bj_str_n(key->bytes, key->len), key, NULL))
			return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
					  "no memory for the marker of the store");
		n++;
	}
	return 0;
}

int bj_store_marker_read(struct bj_store *store, struct bj_store_marker *marker, struct bj_err *err)
{
	struct bj_buf text = BJ_BUF_INIT(MAX_MARKER_BYTES);
	int r = bj_file_read_all(store->root_fd, "clean", &text, err);
	if (r == 0) {
		r = parse(bj_buf_str(&text), marker, err);
		marker->is_clean = r == 1;
		if (r == 0)
			bj_debug("cas: the marker of a clean stop is damaged");
	}
	bj_buf_deinit(&text);
	return r < 0 ? r : 0;
}

int bj_store_marker_remove(struct bj_store *store, struct bj_err *err)
{
	if (store->io->unlinkat(store->root_fd, "clean", 0) < 0) {
		if (errno == ENOENT)
			return 0;
		return bj_err_errno(err, errno, "remove the marker of the store");
	}
	/* Before anything new is named: a file system may write names in any order. */
	if (store->io->fsync(store->root_fd) < 0)
		return bj_err_errno(err, errno, "sync the directory of the store");
	return 0;
}

bool bj_store_marker_trusts(const struct bj_store_marker *marker, const struct bj_store_key *key)
{
	return marker->is_clean && !bj_map_get(&marker->suspects, bj_str_n(key->bytes, key->len));
}

/* ---- writing ---- */

static int flush(struct bj_store *store, int fd, struct bj_buf *text, struct bj_err *err)
{
	if (text->failed)
		return bj_err_set(err, BJ_RESOURCE_EXHAUSTED,
				  "no memory for the marker of the store");
	int r = bj_store_write_all(store, fd, text->data, text->len, err);
	bj_buf_clear(text);
	return r;
}

static int write_text(struct bj_store *store, int fd, struct bj_buf *text, struct bj_err *err)
{
	size_t pos = 0;
	bj_buf_append_str(text, first_line);
	bj_buf_append_char(text, '\n');
	for (const struct bj_map_slot *slot; (slot = bj_map_next(&store->map, &pos));) {
		const struct bj_store_entry *entry = slot->value;
		char path[BJ_STORE_PATH_BYTES];
		if (entry->state != BJ_ENTRY_SUSPECT)
			continue;
		struct bj_store_key key = bj_store_entry_key(entry);
		bj_store_key_path(&key, path);
		bj_buf_printf(text, "%s\n", path);
		if (text->failed || text->len > FLUSH_BYTES) {
			int r = flush(store, fd, text, err);
			if (r < 0)
				return r;
		}
	}
	bj_buf_printf(text, "end %zu\n", store->stats.n_suspects);
	return flush(store, fd, text, err);
}

static int write_marker(struct bj_store *store, int fd, struct bj_err *err)
{
	struct bj_buf text = BJ_BUF_INIT(FLUSH_BYTES + BJ_STORE_PATH_BYTES + 64);
	int r = write_text(store, fd, &text, err);
	bj_buf_deinit(&text);
	if (r < 0)
		return r;
	if (store->io->fsync(fd) < 0 || store->io->fsync(store->root_fd) < 0)
		return bj_err_errno(err, errno, "sync the marker of the store");
	return 0;
}

int bj_store_marker_put(struct bj_store *store, struct bj_err *err)
{
	bj_cleanup(bj_close_fdp) int fd =
		store->io->openat(store->root_fd, "clean", O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return bj_err_errno(err, errno, "make the marker of the store");
	int r = write_marker(store, fd, err);
	if (r < 0) /* a marker that stays all the same is cut (no "end"), or true */
		(void)store->io->unlinkat(store->root_fd, "clean", 0);
	return r;
}
