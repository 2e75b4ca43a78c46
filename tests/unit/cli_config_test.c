// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base_test_util.h"

#include "executor/base/alloc.h"
#include "executor/cli/config.h"

struct parsed {
	struct bj_arena arena;
	struct bj_config config;
	struct bj_err err;
	int result;
};

static struct parsed *parse(struct parsed *p, struct bj_str text)
{
	memset(p, 0, sizeof(*p));
	bj_arena_init(&p->arena, 0);
	bj_config_init(&p->config);
	p->result = bj_config_parse(text, "f.yaml", &p->arena, &p->config, &p->err);
	return p;
}

static void parse_ok(struct parsed *p, const char *text)
{
	parse(p, bj_str_of(text));
	if (p->result != 0)
		fail_msg("refused: %s", p->err.msg);
}

static void assert_str(struct bj_str is, const char *wanted)
{
	if (!bj_str_eq(is, bj_str_of(wanted)))
		fail_msg("\"%.*s\" is not \"%s\"", BJ_STR_FMT(is), wanted);
	assert_int_equal(is.ptr[is.len], '\0'); /* goes to system calls as it is */
}

/* ---- what is accepted ---- */

static void empty_files_change_nothing(void **state)
{
	(void)state;
	static const char *const files[] = { "",      "\n\n",	"# only a comment\n",
					     "---\n", "{}",	"---\n...",
					     "~",     "null\n", "--- {}" };
	struct bj_config defaults;
	bj_config_init(&defaults);
	for (size_t i = 0; i < BJ_ARRAY_LEN(files); i++) {
		struct parsed p;
		parse_ok(&p, files[i]);
		assert_memory_equal(&p.config, &defaults, sizeof(defaults));
		bj_arena_deinit(&p.arena);
	}
}

static void every_key(void **state)
{
	(void)state;
	struct parsed p;
	parse_ok(&p, "listen: [127.0.0.1:8980, 'unix:/run/s']\n"
		     "store: /var/b\n"
		     "slots: 3\n"
		     "workspaces:\n"
		     "- /home/a\n"
		     "- \"/home/b c\"\n"
		     "workBytes: 16777216\n"
		     "hotBytes: 1\n"
		     "storeMaxBytes: 1125899906842624\n"
		     "maxTimeoutSeconds: 100\n"
		     "defaultTimeoutSeconds: 99\n"
		     "cancelGraceSeconds: 0\n"
		     "stopGraceSeconds: 1\n"
		     "firstSlotUid: 1000\n"
		     "extraRoots: [/opt/x]\n"
		     "denyAnchors: []\n"
		     "tellHost: false\n"
		     "sandbox:\n"
		     "  write: strict\n"
		     "  observe: strict\n"
		     "  onViolation: fail\n"
		     "  ignore:\n"
		     "    read: [/exec/a, '/exec/b/*']\n"
		     "    write: ['**/*.tmp']\n"
		     "    network: ['127.0.0.1:80']\n"
		     "  bounds:\n"
		     "    minObserve: writes\n"
		     "    mayIgnore: false\n"
		     "    minOnViolation: report\n");
	const struct bj_config *c = &p.config;
	assert_int_equal(c->listen.n, 2);
	assert_str(c->listen.items[0], "127.0.0.1:8980");
	assert_str(c->listen.items[1], "unix:/run/s");
	assert_str(c->store, "/var/b");
	assert_int_equal(c->n_slots, 3);
	assert_int_equal(c->workspaces.n, 2);
	assert_str(c->workspaces.items[1], "/home/b c");
	assert_int_equal(c->work_bytes, 16777216);
	assert_int_equal(c->hot_bytes, 1);
	assert_int_equal(c->store_max_bytes, UINT64_C(1125899906842624));
	assert_int_equal(c->max_timeout_seconds, 100);
	assert_int_equal(c->default_timeout_seconds, 99);
	assert_int_equal(c->cancel_grace_seconds, 0);
	assert_int_equal(c->stop_grace_seconds, 1);
	assert_int_equal(c->first_slot_uid, 1000);
	assert_int_equal(c->extra_roots.n, 1);
	assert_str(c->extra_roots.items[0], "/opt/x");
	assert_int_equal(c->deny_anchors.n, 0);
	assert_true(c->has_tell_host);
	assert_false(c->tell_host);
	assert_int_equal(c->settings.write, BJP_WRITE_STRICT);
	assert_int_equal(c->settings.observe, BJP_OBSERVE_STRICT);
	assert_int_equal(c->settings.on_violation, BJP_ON_VIOLATION_FAIL);
	assert_int_equal(c->settings.n_ignore_read, 2);
	assert_int_equal(c->settings.n_ignore_write, 1);
	assert_int_equal(c->settings.n_ignore_network, 1);
	assert_int_equal(c->bounds.min_observe, BJP_OBSERVE_WRITES);
	assert_false(c->bounds.may_ignore);
	assert_int_equal(c->bounds.min_on_violation, BJP_ON_VIOLATION_REPORT);
	bj_arena_deinit(&p.arena);
}

static void one_text_is_a_list_of_one(void **state)
{
	(void)state;
	struct parsed p;
	parse_ok(&p, "listen: 'unix:/s'\nsandbox: {ignore: {read: /exec/a}}\n");
	assert_int_equal(p.config.listen.n, 1);
	assert_str(p.config.listen.items[0], "unix:/s");
	assert_int_equal(p.config.settings.n_ignore_read, 1);
	bj_arena_deinit(&p.arena);
}

/* What the operator demands of every action holds for those that ask for nothing, too. */
static void defaults_rise_to_the_bounds(void **state)
{
	(void)state;
	struct parsed p;
	parse_ok(&p, "sandbox: {bounds: {minObserve: strict, minOnViolation: fail}}\n");
	assert_int_equal(p.config.settings.observe, BJP_OBSERVE_STRICT);
	assert_int_equal(p.config.settings.on_violation, BJP_ON_VIOLATION_FAIL);
	bj_arena_deinit(&p.arena);
}

static void tell_host_is_left_open(void **state)
{
	(void)state;
	struct parsed p;
	parse_ok(&p, "slots: 1\n");
	assert_false(p.config.has_tell_host);
	bj_arena_deinit(&p.arena);
}

/* ---- what is refused, and how ---- */

static const struct {
	const char *yaml, *text;
} refused[] = {
	{ "slots: 2\nslotz: 3\n",
	  "f.yaml:2: unknown key \"slotz\", known: listen, store, slots, workspaces, workBytes, "
	  "hotBytes, storeMaxBytes, maxTimeoutSeconds, defaultTimeoutSeconds, cancelGraceSeconds, "
	  "stopGraceSeconds, firstSlotUid, extraRoots, denyAnchors, tellHost, sandbox" },
	{ "sandbox:\n  ignore:\n    exec: []\n",
	  "f.yaml:3: unknown key \"exec\" of sandbox.ignore, known: read, write, network" },
	{ "sandbox:\n  on_violation: fail\n",
	  "f.yaml:2: unknown key \"on_violation\" of sandbox, known: write, observe, onViolation, "
	  "ignore, bounds" },
	{ "slots: 2\n\nstore: x\nslots: 2\n", "f.yaml:4: slots is given twice, first in line 1" },
	{ "sandbox: {write: strict}\nsandbox: {observe: off}\n",
	  "f.yaml:2: sandbox is given twice, first in line 1" },
	{ "slots: many\n",
	  "f.yaml:1: slots wants a whole number between 1 and 1024, not \"many\"" },
	{ "slots: '2'\n",
	  "f.yaml:1: slots wants a whole number between 1 and 1024, not \"2\" in quotes" },
	{ "slots: 0\n", "f.yaml:1: slots wants a whole number between 1 and 1024, not \"0\"" },
	{ "slots: 1025\n",
	  "f.yaml:1: slots wants a whole number between 1 and 1024, not \"1025\"" },
	{ "slots: -1\n", "f.yaml:1: slots wants a whole number between 1 and 1024, not \"-1\"" },
	{ "slots: 0x10\n",
	  "f.yaml:1: slots wants a whole number between 1 and 1024, not \"0x10\"" },
	{ "slots:\n",
	  "f.yaml:1: slots wants a whole number between 1 and 1024, but there is nothing" },
	{ "slots: [1]\n", "f.yaml:1: slots wants a whole number between 1 and 1024, not a list" },
	{ "storeMaxBytes: 99999999999999999999\n",
	  "f.yaml:1: storeMaxBytes wants a whole number between 0 and 1125899906842624, not "
	  "\"99999999999999999999\"" },
	{ "store:\n", "f.yaml:1: store wants a text, but there is nothing" },
	{ "store: ''\n", "f.yaml:1: store wants a text, not \"\" in quotes" },
	{ "store: ~\n", "f.yaml:1: store wants a text, but there is nothing" },
	{ "store: {a: b}\n", "f.yaml:1: store wants a text, not a mapping" },
	{ "store: \"a\\0b\"\n", "f.yaml:1: store holds a NUL byte" },
	{ "listen: [a, [b]]\n", "f.yaml:1: listen wants a list of texts, not a list" },
	{ "listen: [a,\n  ~]\n", "f.yaml:2: listen wants a list of texts, but there is nothing" },
	{ "listen: {a: b}\n", "f.yaml:1: listen wants a text or a list of texts, not a mapping" },
	{ "tellHost: yes\n", "f.yaml:1: tellHost wants true or false, not \"yes\"" },
	{ "tellHost: 'true'\n", "f.yaml:1: tellHost wants true or false, not \"true\" in quotes" },
	{ "sandbox: strict\n",
	  "f.yaml:1: sandbox wants a mapping of keys to values, not \"strict\"" },
	{ "sandbox:\n",
	  "f.yaml:1: sandbox wants a mapping of keys to values, but there is nothing" },
	{ "sandbox: {observe: Strict}\n",
	  "f.yaml:1: sandbox.observe wants one of off, writes, default, strict, not \"Strict\"" },
	{ "sandbox:\n  onViolation: [fail]\n",
	  "f.yaml:2: sandbox.onViolation wants one of report, fail, off, not a list" },
	{ "- slots\n", "f.yaml:1: the file wants a mapping of keys to values, not a list" },
	{ "slots\n", "f.yaml:1: the file wants a mapping of keys to values, not \"slots\"" },
	{ "[a]: b\n", "f.yaml:1: a key of the file must be a name, not a list" },
	{ "slots: 1\n---\nslots: 2\n", "f.yaml:2: a second document" },
	{ "slots: *x\n", "f.yaml:1: an alias (*x): write the value out" },
	{ "a: &a [x, x]\nb: &b [*a, *a]\n", NULL },
	{ "listen: &l [a]\nworkspaces: *l\n",
	  "f.yaml:1: an anchor (&l): anchors and aliases have no use here" },
	{ "listen: [&l a]\n", "f.yaml:1: an anchor (&l): anchors and aliases have no use here" },
	{ "&k slots: 1\n", "f.yaml:1: an anchor (&k): anchors and aliases have no use here" },
	{ "slots: !!int 1\n", "f.yaml:1: a tag (tag:yaml.org,2002:int): the key decides the type" },
	{ "sandbox: !x {}\n", "f.yaml:1: a tag (!x): the key decides the type" },
	{ "store: a\n\tslots: 1\n", NULL },
	{ "store: \"a\n", NULL },
	{ "store: [a\n", NULL },
	{ "a: b: c\n", NULL },
	{ "sandbox: {observe: off, bounds: {minObserve: writes}}\n",
	  "f.yaml: sandbox.observe off, sandbox.onViolation report: beyond sandbox.bounds "
	  "(minObserve writes, minOnViolation off)" },
	{ "sandbox: {onViolation: off, bounds: {minOnViolation: report}}\n",
	  "f.yaml: sandbox.observe default, sandbox.onViolation off: beyond sandbox.bounds "
	  "(minObserve off, minOnViolation report)" },
	{ "\"x\\u202e\\e[1m\": 1\n", NULL },
};

static void refused_with_line_and_reason(void **state)
{
	(void)state;
	struct bj_config defaults;
	bj_config_init(&defaults);
	for (size_t i = 0; i < BJ_ARRAY_LEN(refused); i++) {
		struct parsed p;
		parse(&p, bj_str_of(refused[i].yaml));
		if (p.result != -BJ_INVALID_ARGUMENT)
			fail_msg("row %zu gives %d: %s", i, p.result, p.err.msg);
		if (refused[i].text)
			assert_string_equal(p.err.msg, refused[i].text);
		assert_memory_equal(p.err.msg, "f.yaml:", strlen("f.yaml:"));
		assert_memory_equal(&p.config, &defaults, sizeof(defaults)); /* as before */
		bj_arena_deinit(&p.arena);
	}
}

/* The rest of the words is libyaml's. */
static void syntax_errors_have_a_line(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, BJ_STR_LIT("slots: 1\nstore: \"a\n"));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(p.err.msg, "f.yaml:3: not YAML: "));
	bj_arena_deinit(&p.arena);

	parse(&p, BJ_STR_LIT("slots: 1\n\nstore: \xff\n"));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(p.err.msg, "f.yaml:3: not YAML: "));
	bj_arena_deinit(&p.arena);
}

static void patterns_are_checked_as_a_property_is(void **state)
{
	(void)state;
	struct parsed p;
	parse(&p, BJ_STR_LIT("slots: 1\nsandbox: {ignore: {read: ['/exec/[a']}}\n"));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_memory_equal(p.err.msg, "f.yaml:2: ", strlen("f.yaml:2: "));
	assert_non_null(strstr(p.err.msg, "/exec/[a"));
	bj_arena_deinit(&p.arena);

	parse(&p, BJ_STR_LIT("sandbox: {ignore: {network: ['127.0.0.1:http']}}\n"));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(p.err.msg, "127.0.0.1:http"));
	bj_arena_deinit(&p.arena);
}

static void lists_are_bounded(void **state)
{
	(void)state;
	struct bj_buf text = BJ_BUF_INIT(1 << 20);
	struct parsed p;
	bj_buf_append_cstr(&text, "listen:\n");
	for (int i = 0; i < BJ_CONFIG_MAX_ITEMS; i++)
		bj_buf_append_cstr(&text, "- a\n");
	parse(&p, bj_buf_str(&text));
	assert_int_equal(p.result, 0);
	assert_int_equal(p.config.listen.n, BJ_CONFIG_MAX_ITEMS);
	bj_arena_deinit(&p.arena);

	bj_buf_append_cstr(&text, "- a\n");
	parse(&p, bj_buf_str(&text));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_string_equal(p.err.msg, "f.yaml:1026: listen has more than 1024 items");
	bj_arena_deinit(&p.arena);
	bj_buf_deinit(&text);
}

/* Nested beyond all reason: an error at the first bracket that is not expected, whatever follows. */
static void depth_costs_nothing(void **state)
{
	(void)state;
	struct bj_buf text = BJ_BUF_INIT(1 << 20);
	struct parsed p;
	bj_buf_append_cstr(&text, "sandbox: ");
	for (int i = 0; i < 100000; i++)
		bj_buf_append_char(&text, '[');
	parse(&p, bj_buf_str(&text));
	assert_int_equal(p.result, -BJ_INVALID_ARGUMENT);
	assert_string_equal(p.err.msg,
			    "f.yaml:1: sandbox wants a mapping of keys to values, not a list");
	bj_arena_deinit(&p.arena);
	bj_buf_deinit(&text);
}

static void no_memory_is_no_mistake(void **state)
{
	(void)state;
	const struct bj_str text =
		BJ_STR_LIT("listen: [a, b]\nstore: c\nsandbox: {ignore: {read: [/exec/d]}}\n");
	uint64_t n = 0;
	for (;; n++) {
		struct parsed p;
		bj_alloc_fail_after(n);
		parse(&p, text);
		bool failed = bj_alloc_fail_disarm();
		if (failed && p.result != 0)
			assert_int_equal(p.result, -BJ_RESOURCE_EXHAUSTED);
		else
			assert_int_equal(p.result, 0);
		bj_arena_deinit(&p.arena);
		if (!failed)
			break;
	}
	assert_true(n > 0);
}

/* ---- files ---- */

static void files(void **state)
{
	(void)state;
	char dir[4096], path[4200];
	int dir_fd = make_temp_dir(dir);
	struct bj_config config;
	struct bj_err err = BJ_ERR_NULL;
	struct bj_arena arena;

	bj_arena_init(&arena, 0);
	bj_config_init(&config);
	snprintf(path, sizeof(path), "%s/c.yaml", dir);
	assert_int_equal(bj_config_read(path, &arena, &config, &err), -BJ_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, path));
	bj_err_clear(&err);

	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "slots: 7\n", 9), 9);
	assert_int_equal(bj_config_read(path, &arena, &config, &err), 0);
	assert_int_equal(config.n_slots, 7);

	assert_int_equal(ftruncate(fd, BJ_CONFIG_MAX_BYTES + 1), 0);
	close(fd);
	assert_true(bj_config_read(path, &arena, &config, &err) < 0);
	assert_non_null(strstr(err.msg, path));
	bj_err_clear(&err);

	assert_true(bj_config_read(dir, &arena, &config, &err) < 0);
	assert_non_null(strstr(err.msg, dir));
	assert_int_equal(unlinkat(dir_fd, "c.yaml", 0), 0);
	assert_int_equal(rmdir(dir), 0);
	close(dir_fd);
	bj_arena_deinit(&arena);
}

/* The help that the README promises: a line for every key that the error names as known. */
static void help_lists_every_key(void **state)
{
	(void)state;
	static const char *const keys[] = {
		"listen",
		"store",
		"slots",
		"workspaces",
		"workBytes",
		"hotBytes",
		"storeMaxBytes",
		"maxTimeoutSeconds",
		"defaultTimeoutSeconds",
		"cancelGraceSeconds",
		"stopGraceSeconds",
		"firstSlotUid",
		"extraRoots",
		"denyAnchors",
		"tellHost",
		"sandbox.write",
		"sandbox.observe",
		"sandbox.onViolation",
		"sandbox.ignore.read",
		"sandbox.ignore.write",
		"sandbox.ignore.network",
		"sandbox.bounds.minObserve",
		"sandbox.bounds.mayIgnore",
		"sandbox.bounds.minOnViolation",
	};
	struct bj_buf out = BJ_BUF_INIT(1 << 16);
	char line[64];
	bj_config_help(&out);
	for (size_t i = 0; i < BJ_ARRAY_LEN(keys); i++) {
		snprintf(line, sizeof(line), "  %s ", keys[i]);
		if (!strstr(bj_buf_cstr(&out), line))
			fail_msg("no help for %s", keys[i]);
	}
	assert_null(strstr(bj_buf_cstr(&out), "(null)"));
	bj_buf_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_files_change_nothing),
		cmocka_unit_test(every_key),
		cmocka_unit_test(one_text_is_a_list_of_one),
		cmocka_unit_test(defaults_rise_to_the_bounds),
		cmocka_unit_test(tell_host_is_left_open),
		cmocka_unit_test(refused_with_line_and_reason),
		cmocka_unit_test(syntax_errors_have_a_line),
		cmocka_unit_test(patterns_are_checked_as_a_property_is),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(depth_costs_nothing),
		cmocka_unit_test(no_memory_is_no_mistake),
		cmocka_unit_test(files),
		cmocka_unit_test(help_lists_every_key),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
