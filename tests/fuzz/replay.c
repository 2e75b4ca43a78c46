// SPDX-License-Identifier: Apache-2.0
/*
 * main() of a fuzz target that is not built for libFuzzer: runs every file that the arguments name, directories with
 * all that is below them, in the order of their names. An empty corpus fails, for a test that ran nothing passed nothing.
 */
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	struct stat st;
	ssize_t got = -1;
	uint8_t *data = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, &st) == 0) {
		/* Exactly as long as the input, so that a sanitizer sees a read past the end. */
		data = malloc((size_t)st.st_size);
		if (data || st.st_size == 0)
			got = read(fd, data, (size_t)st.st_size);
	}
	if (got < 0)
		perror(path);
	else
		(void)LLVMFuzzerTestOneInput(data, (size_t)got); /* its result means nothing here */
	free(data);
	if (fd >= 0)
		close(fd);
	return got < 0 ? -1 : 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

int main(int argc, char **argv)
{
	int n_run = 0;
	int n_failed = 0;
	FTS *walk = argc > 1 ? fts_open(argv + 1, FTS_LOGICAL | FTS_NOCHDIR, by_name) : NULL;

	if (!walk) {
		fprintf(stderr, "usage: %s FILE-OR-DIRECTORY...\n", argv[0]);
		return 2;
	}
	for (FTSENT *entry = fts_read(walk); entry; entry = fts_read(walk)) {
		if (entry->fts_info == FTS_F) {
			n_run++;
			if (replay_file(entry->fts_accpath) != 0)
				n_failed++;
		} else if (entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR) {
			fprintf(stderr, "%s: %s\n", entry->fts_path, strerror(entry->fts_errno));
			n_failed++;
		}
	}
	fts_close(walk);
	printf("%d inputs, %d unreadable\n", n_run, n_failed);
	return n_run > 0 && n_failed == 0 ? 0 : 1;
}
