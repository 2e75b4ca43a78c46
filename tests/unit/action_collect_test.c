// SPDX-License-Identifier: Apache-2.0
/* Digests of trees were worked out by another program from hand-encoded messages; comments say of what. */
#include "tests/unit/action_collect_util.h"

#include "executor/base/map.h"
#include "executor/base/pb.h"

#define HI "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4/3" /* "hi\n" */
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/0"

static void want(struct scene *s, const char *path, enum bj_output_style style)
{
	assert_true(s->collect.n_outputs < BJ_ARRAY_LEN(s->outputs));
	s->outputs[s->collect.n_outputs++] =
		(struct bj_output){ .path = bj_str_of(path), .style = style };
}

static int collect(struct scene *s)
{
	build__bazel__remote__execution__v2__action_result__init(&s->result);
	return bj_collect_outputs(&s->collect, &s->result, &s->fix->err);
}

/* One output, alone, into a fresh result. */
static int collect_only(struct scene *s, const char *path, enum bj_output_style style)
{
	s->collect.n_outputs = 0;
	want(s, path, style);
	return collect(s);
}

static const char *text_of(struct scene *s, const re_digest *pb)
{
	const char *text =
		bj_arena_printf(&s->fix->arena, "%s/%lld", pb->hash, (long long)pb->size_bytes);
	assert_non_null(text);
	return text;
}

static struct bj_str blob_of(struct scene *s, const re_digest *pb)
{
	struct bj_digest digest;
	struct bj_str bytes;
	EXPECT_OK(s->fix, bj_digest_from_pb(BJ_DIGEST_SHA256, pb, "digest", &digest, &s->fix->err));
	EXPECT_OK(s->fix, bj_store_read(s->fix->store, &digest, SIZE_MAX, &bytes, &s->fix->arena,
					&s->fix->err));
	return bytes;
}

/* ---- files ---- */

static void files_and_their_bits(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	write_file(&s, "plain", "hi\n", 0644);
	write_file(&s, "tool", "hi\n", 0755);
	write_file(&s, "group-tool", "", 0454);
	write_file(&s, "shut", "hi\n", 0200);
	want(&s, "tool", BJ_OUTPUT_PATHS);
	want(&s, "plain", BJ_OUTPUT_FILE);
	want(&s, "group-tool", BJ_OUTPUT_FILE);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.result.n_output_files, 3);
	static const struct {
		const char *path, *digest;
		bool is_executable;
	} rows[] = { { "tool", HI, true }, { "plain", HI, false }, { "group-tool", EMPTY, true } };
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		const re_output_file *file = s.result.output_files[i];
		assert_string_equal(file->path, rows[i].path);
		assert_string_equal(text_of(&s, file->digest), rows[i].digest);
		assert_int_equal(file->is_executable, rows[i].is_executable);
		assert_int_equal(file->contents.len, 0);
		assert_true(s.outputs[i].found);
	}
	assert_true(bj_str_eq(blob_of(&s, s.result.output_files[0]->digest), BJ_STR_LIT("hi\n")));
	assert_int_equal(s.collect.n_bytes, 6);
	/* Root reads what its owner cannot; others are told that it is the action's doing. */
	if (geteuid() == 0)
		EXPECT_OK(s.fix, collect_only(&s, "shut", BJ_OUTPUT_PATHS));
	else
		EXPECT_ERR(s.fix, collect_only(&s, "shut", BJ_OUTPUT_PATHS), BJ_FAILED_PRECONDITION,
			   "\"shut\"");
	scene_down(&s);
}

static void what_does_not_exist_is_left_out(void **state)
{
	static char long_name[300], long_path[8192];
	struct scene s;
	scene_up(&s, *state);
	write_file(&s, "f", "x", 0644);
	make_link(&s, "loop", "loop");
	make_link(&s, "/etc", "etc");
	make_link(&s, "../../../../../../../../etc", "up");
	memset(long_name, 'n', sizeof(long_name) - 1);
	for (size_t i = 0; i + 2 < sizeof(long_path); i += 2)
		memcpy(long_path + i, "a/", 2);
	long_path[sizeof(long_path) - 2] = 'a';
	const char *const paths[] = { "none",	      "none/below",  "f/below", "loop/below",
				      "etc/hostname", "up/hostname", long_name, long_path };
	for (size_t i = 0; i < BJ_ARRAY_LEN(paths); i++)
		want(&s, paths[i], i % 2 ? BJ_OUTPUT_PATHS : BJ_OUTPUT_FILE);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.result.n_output_files + s.result.n_output_directories +
				 s.result.n_output_symlinks + s.result.n_output_file_symlinks,
			 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(paths); i++)
		assert_false(s.outputs[i].found);
	scene_down(&s);
}

static void paths_are_relative_to_the_working_directory(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "w");
	write_file(&s, "w/f", "hi\n", 0644);
	write_file(&s, "f", "not this one", 0644);
	s.collect.working_dir = BJ_STR_LIT("w");
	want(&s, "f", BJ_OUTPUT_PATHS);
	want(&s, "w/f", BJ_OUTPUT_PATHS);
	want(&s, "", BJ_OUTPUT_DIRECTORY);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.result.n_output_files, 1);
	assert_string_equal(s.result.output_files[0]->path, "f");
	assert_string_equal(text_of(&s, s.result.output_files[0]->digest), HI);
	assert_int_equal(s.result.n_output_directories, 1);
	assert_string_equal(s.result.output_directories[0]->path, "");
	/* Tree{root{files{f = "hi\n"}}} */
	assert_string_equal(text_of(&s, s.result.output_directories[0]->tree_digest),
			    "a9a9c393aa21b3c3a18d968e7f423f6dab815b0edee31870a63585fe13107618/77");
	scene_down(&s);
}

/* L15, L16: a directory and what lies in it. */
static void outputs_within_outputs(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "d");
	make_dir(&s, "d/e");
	write_file(&s, "d/f", "hi\n", 0644);
	want(&s, "d", BJ_OUTPUT_DIRECTORY);
	want(&s, "d/e", BJ_OUTPUT_DIRECTORY);
	want(&s, "d/f", BJ_OUTPUT_FILE);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.result.n_output_directories, 2);
	assert_int_equal(s.result.n_output_files, 1);
	scene_down(&s);
}

/* ---- refusals ---- */

static void bind_socket(struct scene *s, const char *path)
{
	assert_int_equal(mknodat(s->fd, path, S_IFSOCK | 0644, 0), 0);
}

static void kinds_that_are_refused(void **state)
{
	static const struct {
		const char *path;
		enum bj_output_style style;
		const char *text;
	} rows[] = {
		{ "dir", BJ_OUTPUT_FILE, "\"dir\" is a directory, wanted a file" },
		{ "file", BJ_OUTPUT_DIRECTORY, "\"file\" is a file, wanted a directory" },
		{ "fifo", BJ_OUTPUT_PATHS,
		  "\"fifo\" is a fifo, wanted a file, directory or symlink" },
		{ "fifo", BJ_OUTPUT_FILE, "\"fifo\" is a fifo, wanted a file" },
		{ "sock", BJ_OUTPUT_PATHS, "\"sock\" is a socket" },
		{ "holds", BJ_OUTPUT_PATHS, "\"holds/sub/fifo\" is a fifo" },
		{ "odd", BJ_OUTPUT_PATHS, "odd/x\\xff" },
		{ "to-fifo", BJ_OUTPUT_FILE, "\"to-fifo\" is a symlink to a fifo, wanted a file" },
		{ "to-dir", BJ_OUTPUT_FILE,
		  "\"to-dir\" is a symlink to a directory, wanted a file" },
		{ "to-file", BJ_OUTPUT_DIRECTORY,
		  "\"to-file\" is a symlink to a file, wanted a directory" },
		{ "bad-text", BJ_OUTPUT_PATHS, "symlink to \"\\xff\", which is not UTF-8" },
		{ "links", BJ_OUTPUT_PATHS, "\"links/in\" is a symlink to \"/exec/f\"" },
	};
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "dir");
	make_dir(&s, "holds");
	make_dir(&s, "holds/sub");
	make_dir(&s, "odd");
	make_dir(&s, "links");
	write_file(&s, "file", "x", 0644);
	write_file(&s, "odd/x\xff", "x", 0644);
	assert_int_equal(mkfifoat(s.fd, "fifo", 0644), 0);
	assert_int_equal(mkfifoat(s.fd, "holds/sub/fifo", 0644), 0);
	bind_socket(&s, "sock");
	make_link(&s, "fifo", "to-fifo");
	make_link(&s, "dir", "to-dir");
	make_link(&s, "file", "to-file");
	make_link(&s, "\xff", "bad-text");
	make_link(&s, "/exec/f", "links/in");
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
		EXPECT_ERR(s.fix, collect_only(&s, rows[i].path, rows[i].style),
			   BJ_FAILED_PRECONDITION, rows[i].text);
	scene_down(&s);
}

/* The message of something that lies deep shows its end, which tells more than its start. */
static void a_long_path_is_shown_from_its_end(void **state)
{
	struct scene s;
	char path[2048] = "d";
	scene_up(&s, *state);
	make_dir(&s, "d");
	for (int i = 0; i < 10; i++) {
		size_t len = strlen(path);
		path[len] = '/';
		memset(path + len + 1, 'a' + i, 100);
		path[len + 101] = '\0';
		make_dir(&s, path);
	}
	(void)snprintf(path + strlen(path), 10, "/pipe");
	assert_int_equal(mkfifoat(s.fd, path, 0644), 0);
	EXPECT_ERR(s.fix, collect_only(&s, "d", BJ_OUTPUT_PATHS), BJ_FAILED_PRECONDITION,
		   "jjj/pipe\" is a fifo");
	scene_down(&s);
}

static void sizes_are_bounded(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	write_file(&s, "sparse", "", 0644);
	write_file(&s, "small", "12345", 0644);
	int fd = openat(s.fd, "sparse", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	s.collect.max_bytes = 10;
	EXPECT_ERR(s.fix, collect_only(&s, "sparse", BJ_OUTPUT_PATHS), BJ_RESOURCE_EXHAUSTED,
		   "\"sparse\" of 1099511627776 bytes");
	make_dir(&s, "d");
	assert_int_equal(renameat(s.fd, "sparse", s.fd, "d/sparse"), 0);
	EXPECT_ERR(s.fix, collect_only(&s, "d", BJ_OUTPUT_PATHS), BJ_RESOURCE_EXHAUSTED,
		   "d/sparse");
	/* All outputs together; the limit itself is allowed. */
	s.collect.n_outputs = 0;
	want(&s, "small", BJ_OUTPUT_PATHS);
	want(&s, "small", BJ_OUTPUT_FILE);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.collect.n_bytes, 10);
	want(&s, "small", BJ_OUTPUT_FILE);
	EXPECT_ERR(s.fix, collect(&s), BJ_RESOURCE_EXHAUSTED, "may have 10");
	scene_down(&s);
}

/* ---- symlinks ---- */

static void links_by_style_and_target(void **state)
{
	static const struct {
		const char *path;
		enum bj_output_style style;
		const char *target;
		size_t n_new, n_file, n_dir;
	} rows[] = {
		{ "to-file", BJ_OUTPUT_PATHS, "d/f", 1, 1, 0 },
		{ "to-dir", BJ_OUTPUT_PATHS, "d", 1, 0, 1 },
		{ "dangling", BJ_OUTPUT_PATHS, "nowhere", 1, 1, 0 },
		{ "loop", BJ_OUTPUT_PATHS, "loop", 1, 1, 0 },
		{ "abs", BJ_OUTPUT_PATHS, "/etc", 1, 1, 0 },
		{ "climb", BJ_OUTPUT_PATHS, "../x", 1, 1, 0 },
		{ "to-fifo", BJ_OUTPUT_PATHS, "fifo", 1, 1, 0 },
		{ "to-file", BJ_OUTPUT_FILE, "d/f", 0, 1, 0 },
		{ "dangling", BJ_OUTPUT_FILE, "nowhere", 0, 1, 0 },
		{ "abs", BJ_OUTPUT_FILE, "/etc", 0, 1, 0 },
		{ "to-dir", BJ_OUTPUT_DIRECTORY, "d", 0, 0, 1 },
		{ "dangling", BJ_OUTPUT_DIRECTORY, "nowhere", 0, 0, 1 },
		{ "abs", BJ_OUTPUT_DIRECTORY, "/etc", 0, 0, 1 },
		{ "execute", BJ_OUTPUT_PATHS, "/executable", 1, 1, 0 },
	};
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "d");
	write_file(&s, "d/f", "hi\n", 0644);
	assert_int_equal(mkfifoat(s.fd, "fifo", 0644), 0);
	make_link(&s, "d/f", "to-file");
	make_link(&s, "d", "to-dir");
	make_link(&s, "nowhere", "dangling");
	make_link(&s, "loop", "loop");
	make_link(&s, "/etc", "abs");
	make_link(&s, "../x", "climb");
	make_link(&s, "fifo", "to-fifo");
	make_link(&s, "/executable", "execute");
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		const re_action_result *r = &s.result;
		EXPECT_OK(s.fix, collect_only(&s, rows[i].path, rows[i].style));
		if (r->n_output_symlinks != rows[i].n_new ||
		    r->n_output_file_symlinks != rows[i].n_file ||
		    r->n_output_directory_symlinks != rows[i].n_dir)
			fail_msg("row %zu, \"%s\": %zu %zu %zu", i, rows[i].path,
				 r->n_output_symlinks, r->n_output_file_symlinks,
				 r->n_output_directory_symlinks);
		const re_output_symlink *link = rows[i].n_dir ? r->output_directory_symlinks[0]
							      : r->output_file_symlinks[0];
		assert_string_equal(link->path, rows[i].path);
		assert_string_equal(link->target, rows[i].target);
		assert_int_equal(r->n_output_files + r->n_output_directories, 0);
		assert_true(s.outputs[0].found);
	}
	scene_down(&s);
}

static void links_into_the_jail_are_refused(void **state)
{
	static const char *const targets[] = { "/exec",		  "/exec/",	"/exec/in",
					       "//exec//in",	  "/./exec/in", "/usr/../exec/in",
					       "/exec/../exec/in" };
	struct scene s;
	scene_up(&s, *state);
	for (size_t i = 0; i < BJ_ARRAY_LEN(targets); i++) {
		make_link(&s, targets[i], "l");
		EXPECT_ERR(s.fix, collect_only(&s, "l", BJ_OUTPUT_PATHS), BJ_FAILED_PRECONDITION,
			   "outside the sandbox");
		assert_int_equal(unlinkat(s.fd, "l", 0), 0);
	}
	scene_down(&s);
}

static void outputs_behind_a_link(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "real");
	make_dir(&s, "real/deep");
	write_file(&s, "real/f", "hi\n", 0644);
	make_link(&s, "real/deep/..", "out");
	want(&s, "out/f", BJ_OUTPUT_PATHS);
	EXPECT_OK(s.fix, collect(&s));
	assert_int_equal(s.result.n_output_files, 1);
	assert_string_equal(s.result.output_files[0]->path, "out/f");
	scene_down(&s);
}

/* ---- trees ---- */

static const re_output_directory *tree_of(struct scene *s, const char *path)
{
	EXPECT_OK(s->fix, collect_only(s, path, BJ_OUTPUT_PATHS));
	assert_int_equal(s->result.n_output_directories, 1);
	assert_string_equal(s->result.output_directories[0]->path, path);
	return s->result.output_directories[0];
}

static void trees_by_hand(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "empty");
	const re_output_directory *dir = tree_of(&s, "empty");
	/* Tree{root{}} = 0a 00 */
	assert_string_equal(text_of(&s, dir->tree_digest),
			    "102b51b9765a56a3e899f7cf0ee38e5251f9c503b357b330a49183eb7b155604/2");
	assert_true(dir->is_topologically_sorted);
	assert_null(dir->root_directory_digest);

	make_dir(&s, "o");
	make_dir(&s, "o/d");
	make_link(&s, "f", "o/l");
	write_file(&s, "o/x", "x", 0755);
	/* Tree{root{files{x: "x", executable} directories{d: EMPTY} symlinks{l -> f}} children{{}}} */
	assert_string_equal(text_of(&s, tree_of(&s, "o")->tree_digest),
			    "cb66c65db2d663fd01c14ab992191ba7a20b02384ff637f60bd108384133df35/163");
	scene_down(&s);
}

/* L20: root, one shared a/b, one shared s. */
static void equal_directories_stand_once(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "o");
	for (int i = 0; i < 2; i++) {
		make_dir(&s, i ? "o/b" : "o/a");
		make_dir(&s, i ? "o/b/s" : "o/a/s");
		write_file(&s, i ? "o/b/s/f" : "o/a/s/f", "x\n", 0644);
	}
	assert_string_equal(text_of(&s, tree_of(&s, "o")->tree_digest),
			    "043f74f985ede9d9654b2c656f5aa6f938ab2f2222bfa47d3d75188bb21c7a9b/307");
	scene_down(&s);
}

static void formats(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "o");
	make_dir(&s, "o/d");
	make_dir(&s, "o/d/e");
	write_file(&s, "o/d/e/f", "hi\n", 0644);
	s.collect.wants_tree = false;
	s.collect.wants_directories = true;
	const re_output_directory *dir = tree_of(&s, "o");
	assert_null(dir->tree_digest);
	assert_false(dir->is_topologically_sorted);
	/* Every Directory is a blob of its own, down to the last. */
	const re_digest *next = dir->root_directory_digest;
	static const char *const names[] = { "d", "e" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(names); i++) {
		ProtobufCMessage *message;
		EXPECT_OK(s.fix,
			  bj_pb_unpack(blob_of(&s, next),
				       &build__bazel__remote__execution__v2__directory__descriptor,
				       &s.fix->arena, &message, &s.fix->err));
		const re_directory *d = (const re_directory *)message;
		assert_int_equal(d->n_directories, 1);
		assert_string_equal(d->directories[0]->name, names[i]);
		next = d->directories[0]->digest;
	}
	/* Directory{files{f = "hi\n"}} */
	assert_string_equal(text_of(&s, next),
			    "ea8310dbc42b00870acfc8804eb04d2fb8affc31c50fa0cac022bc4f44b6959d/75");
	assert_int_equal(blob_of(&s, next).len, 75);
	s.collect.wants_tree = true;
	dir = tree_of(&s, "o");
	assert_non_null(dir->tree_digest);
	assert_non_null(dir->root_directory_digest);
	scene_down(&s);
}

/* One record of a Tree: its tag, its bytes; false at the end. */
static bool next_record(struct bj_str *rest, char *out_tag, struct bj_str *out_bytes)
{
	size_t at = 0, len = 0;
	if (rest->len == 0)
		return false;
	*out_tag = rest->ptr[at++];
	for (unsigned shift = 0;; shift += 7) {
		unsigned char c = (unsigned char)rest->ptr[at++];
		len |= (size_t)(c & 0x7f) << shift;
		if (!(c & 0x80))
			break;
	}
	*out_bytes = bj_str_sub(*rest, at, at + len);
	*rest = bj_str_sub(*rest, at + len, rest->len);
	return true;
}

/* Parents before children, each once, all but the root named by an earlier one: what is_topologically_sorted promises. */
static size_t check_records(struct scene *s, struct bj_str tree)
{
	struct bj_map known =
		BJ_MAP_NULL; /* hash in hex -> seen as a child (1), seen as a record (2) */
	static char child, record;
	size_t n = 0;
	char tag;
	for (struct bj_str bytes; next_record(&tree, &tag, &bytes); n++) {
		struct bj_digest digest = bj_digest_of(BJ_DIGEST_SHA256, bytes);
		char hex[2 * BJ_HASH_MAX_BYTES + 1];
		ProtobufCMessage *message;
		bj_digest_hex(&digest, hex);
		struct bj_str key = bj_arena_str(&s->fix->arena, bj_str_of(hex));
		assert_int_equal((unsigned char)tag, n ? 0x12 : 0x0a);
		assert_ptr_equal(bj_map_get(&known, key), n ? &child : NULL);
		assert_true(bj_map_put(&known, key, &record, NULL));
		EXPECT_OK(s->fix,
			  bj_pb_unpack(bytes,
				       &build__bazel__remote__execution__v2__directory__descriptor,
				       &s->fix->arena, &message, &s->fix->err));
		const re_directory *d = (const re_directory *)message;
		for (size_t i = 0; i < d->n_directories; i++) {
			struct bj_str name = bj_str_of(d->directories[i]->digest->hash);
			assert_ptr_not_equal(bj_map_get(&known, name), &record);
			assert_true(bj_map_put(&known, name, &child, NULL));
		}
	}
	bj_map_deinit(&known);
	return n;
}

/* A directory that is found first high up and again far below. */
static void the_order_of_records(void **state)
{
	struct scene s;
	scene_up(&s, *state);
	static const char *const dirs[] = {
		"o",	      "o/a",	  "o/a/shared", "o/b",	 "o/b/c",	 "o/b/c/shared",
		"o/b/shared", "o/shared", "o/z",	"o/z/a", "o/z/a/shared",
	};
	for (size_t i = 0; i < BJ_ARRAY_LEN(dirs); i++) {
		char path[64];
		make_dir(&s, dirs[i]);
		if (!strstr(dirs[i], "shared"))
			continue;
		(void)snprintf(path, sizeof(path), "%s/f", dirs[i]);
		write_file(&s, path, "hi\n", 0644);
	}
	/* o, b, z, a (= b/c = z/a), shared */
	assert_int_equal(check_records(&s, blob_of(&s, tree_of(&s, "o")->tree_digest)), 5);
	scene_down(&s);
}

static void the_order_of_making_does_not_matter(void **state)
{
	struct scene s;
	char first[128], path[64];
	scene_up(&s, *state);
	for (int round = 0; round < 2; round++) {
		make_dir(&s, "o");
		for (int i = 0; i < 60; i++) {
			int n = round ? 59 - i : i;
			(void)snprintf(path, sizeof(path), "o/d%d", n);
			make_dir(&s, path);
			(void)snprintf(path, sizeof(path), "o/d%d/f", n);
			write_file(&s, path, n % 2 ? "odd" : "even", 0644);
			(void)snprintf(path, sizeof(path), "o/\xc3\xa9-%d", n);
			write_file(&s, path, "x", 0644);
		}
		const char *digest = text_of(&s, tree_of(&s, "o")->tree_digest);
		if (round == 0)
			(void)snprintf(first, sizeof(first), "%s", digest);
		else
			assert_string_equal(digest, first);
		assert_int_equal(bj_remove_tree(s.fd, "o"), 0);
	}
	scene_down(&s);
}

static void deep_directories(void **state)
{
	enum { MAX = 512 };
	struct scene s;
	scene_up(&s, *state);
	make_dir(&s, "o"); /* the first level */
	int fd = openat(s.fd, "o", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 1; i < MAX; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int below = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = below;
	}
	assert_int_equal(check_records(&s, blob_of(&s, tree_of(&s, "o")->tree_digest)), MAX);
	assert_int_equal(mkdirat(fd, "d", 0755), 0);
	close(fd);
	EXPECT_ERR(s.fix, collect_only(&s, "o", BJ_OUTPUT_PATHS), BJ_FAILED_PRECONDITION,
		   "512 levels");
	scene_down(&s);
}

/* L23: all of them, or a refusal; never a part. */
static void a_hundred_thousand_and_one_files(void **state)
{
	enum { N = 100001 };
	struct scene s;
	ProtobufCMessage *message;
	char name[32];
	scene_up(&s, *state);
	make_dir(&s, "o");
	for (int i = 0; i < N; i++) {
		(void)snprintf(name, sizeof(name), "o/%d", i);
		int fd = openat(s.fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		close(fd);
	}
	struct bj_str bytes = blob_of(&s, tree_of(&s, "o")->tree_digest);
	EXPECT_OK(s.fix, bj_pb_unpack(bytes, &build__bazel__remote__execution__v2__tree__descriptor,
				      &s.fix->arena, &message, &s.fix->err));
	const re_tree *tree = (const re_tree *)message;
	assert_int_equal(tree->root->n_files, N);
	assert_int_equal(tree->n_children, 0);
	assert_string_equal(tree->root->files[0]->name, "0");
	assert_string_equal(tree->root->files[1]->name, "1");
	assert_string_equal(tree->root->files[2]->name, "10");
	assert_string_equal(tree->root->files[N - 1]->name, "99999");

	/* With memory for a part only. */
	struct bj_arena small;
	bj_arena_init(&small, 4 << 20);
	s.collect.arena = &small;
	EXPECT_ERR(s.fix, collect_only(&s, "o", BJ_OUTPUT_PATHS), BJ_RESOURCE_EXHAUSTED, "memory");
	assert_int_equal(s.result.n_output_directories, 0);
	bj_arena_deinit(&small);
	scene_down(&s);
}

static void each_allocation_fails_once(void **state)
{
	struct scene s;
	bool failed = true;
	uint64_t n = 0;
	scene_up(&s, *state);
	make_dir(&s, "o");
	make_dir(&s, "o/d");
	write_file(&s, "o/d/f", "hi\n", 0644);
	write_file(&s, "f", "hi\n", 0644);
	make_link(&s, "f", "o/l");
	make_link(&s, "f", "l");
	want(&s, "f", BJ_OUTPUT_FILE);
	want(&s, "l", BJ_OUTPUT_PATHS);
	want(&s, "o", BJ_OUTPUT_PATHS);
	for (; failed; n++) {
		struct bj_arena arena;
		bj_arena_init(&arena, 0);
		s.collect.arena = &arena;
		bj_alloc_fail_after(n);
		int r = collect(&s);
		failed = bj_alloc_fail_disarm();
		assert_true(r == 0 || (failed && r < 0));
		assert_int_equal(bj_err_is_set(&s.fix->err), r < 0);
		bj_err_clear(&s.fix->err);
		bj_arena_deinit(&arena);
	}
	assert_true(n > 5);
	scene_down(&s);
}

/* The arena's cap hits at any point: cleanly, and never with half a result that says OK. */
static void each_size_of_memory(void **state)
{
	struct scene s;
	int r = -1;
	scene_up(&s, *state);
	make_dir(&s, "o");
	make_dir(&s, "o/d");
	write_file(&s, "o/d/f", "hi\n", 0644);
	make_link(&s, "f", "o/l");
	want(&s, "o", BJ_OUTPUT_PATHS);
	for (size_t cap = 64; r < 0; cap += 64) {
		struct bj_arena arena;
		bj_arena_init(&arena, cap);
		s.collect.arena = &arena;
		r = collect(&s);
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(s.result.n_output_directories, r == 0);
		bj_err_clear(&s.fix->err);
		bj_arena_deinit(&arena);
		assert_true(cap < 1 << 20);
	}
	scene_down(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIX_TEST(files_and_their_bits),
		FIX_TEST(what_does_not_exist_is_left_out),
		FIX_TEST(paths_are_relative_to_the_working_directory),
		FIX_TEST(outputs_within_outputs),
		FIX_TEST(kinds_that_are_refused),
		FIX_TEST(a_long_path_is_shown_from_its_end),
		FIX_TEST(sizes_are_bounded),
		FIX_TEST(links_by_style_and_target),
		FIX_TEST(links_into_the_jail_are_refused),
		FIX_TEST(outputs_behind_a_link),
		FIX_TEST(trees_by_hand),
		FIX_TEST(equal_directories_stand_once),
		FIX_TEST(formats),
		FIX_TEST(the_order_of_records),
		FIX_TEST(the_order_of_making_does_not_matter),
		FIX_TEST(deep_directories),
		FIX_TEST(a_hundred_thousand_and_one_files),
		FIX_TEST(each_allocation_fails_once),
		FIX_TEST(each_size_of_memory),
	};
	return cmocka_run_group_tests_name("action/collect", tests, NULL, NULL);
}
