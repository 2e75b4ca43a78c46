// SPDX-License-Identifier: Apache-2.0
#include "policy_test_util.h"

static const struct bjp_bounds wide = { .min_observe = BJP_OBSERVE_OFF,
					.may_ignore = true,
					.min_on_violation = BJP_ON_VIOLATION_OFF };

/* Applies one property over the defaults. */
static int apply(const struct bjp_bounds *bounds, const char *name, const char *value,
		 struct bjp_settings *settings, struct bj_arena *arena, struct bj_err *err)
{
	struct bjp_property prop = { bj_str_of(name), bj_str_of(value) };
	*settings = bjp_settings_default();
	*err = BJ_ERR_NULL;
	return bjp_settings_apply(settings, bounds, &prop, 1, arena, err);
}

static void defaults(void **state)
{
	(void)state;
	struct bjp_settings s = bjp_settings_default();
	assert_int_equal(s.write, BJP_WRITE_SCRATCH);
	assert_int_equal(s.observe, BJP_OBSERVE_DEFAULT);
	assert_int_equal(s.on_violation, BJP_ON_VIOLATION_REPORT);
	assert_int_equal(s.n_ignore_read + s.n_ignore_write + s.n_ignore_network, 0);
}

/* vx-36: one vocabulary; what is printed is what is parsed. */
static void names_and_parsers_agree_vx_36(void **state)
{
	(void)state;
	for (int i = BJP_OBSERVE_OFF; i <= BJP_OBSERVE_STRICT; i++) {
		enum bjp_observe level = BJP_OBSERVE_OFF;
		assert_true(bjp_observe_parse(bj_str_of(bjp_observe_name((enum bjp_observe)i)),
					      &level));
		assert_int_equal(level, i);
	}
	for (int i = BJP_WRITE_SCRATCH; i <= BJP_WRITE_STRICT; i++) {
		enum bjp_write_mode mode = BJP_WRITE_SCRATCH;
		assert_true(bjp_write_mode_parse(
			bj_str_of(bjp_write_mode_name((enum bjp_write_mode)i)), &mode));
		assert_int_equal(mode, i);
	}
	for (int i = BJP_ON_VIOLATION_REPORT; i <= BJP_ON_VIOLATION_OFF; i++) {
		enum bjp_on_violation mode = BJP_ON_VIOLATION_REPORT;
		assert_true(bjp_on_violation_parse(
			bj_str_of(bjp_on_violation_name((enum bjp_on_violation)i)), &mode));
		assert_int_equal(mode, i);
	}
	enum bjp_observe untouched = BJP_OBSERVE_STRICT;
	assert_false(bjp_observe_parse(S("Default"), &untouched));
	assert_false(bjp_observe_parse(S(""), &untouched));
	assert_int_equal(untouched, BJP_OBSERVE_STRICT);
}

static void scalars(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_settings s;
	struct bj_err err;
	assert_int_equal(apply(&wide, "sandbox.write", "strict", &s, &arena, &err), 0);
	assert_int_equal(s.write, BJP_WRITE_STRICT);
	assert_int_equal(apply(&wide, "sandbox.observe", "writes", &s, &arena, &err), 0);
	assert_int_equal(s.observe, BJP_OBSERVE_WRITES);
	assert_int_equal(apply(&wide, "sandbox.onViolation", "fail", &s, &arena, &err), 0);
	assert_int_equal(s.on_violation, BJP_ON_VIOLATION_FAIL);
	assert_int_equal(apply(&wide, "sandbox.onViolation", "off", &s, &arena, &err), 0);
	assert_int_equal(s.on_violation, BJP_ON_VIOLATION_OFF);
}

/* ---- the table: (bounds, property, code, what the text must name) ---- */

static const struct bjp_bounds tight = { .min_observe = BJP_OBSERVE_DEFAULT,
					 .may_ignore = false,
					 .min_on_violation = BJP_ON_VIOLATION_FAIL };
static const struct bjp_bounds zero = { .min_observe = BJP_OBSERVE_OFF };

#define OK 0
#define BAD (-BJ_INVALID_ARGUMENT)
#define NO (-BJ_FAILED_PRECONDITION)

static const struct {
	const struct bjp_bounds *bounds;
	const char *name, *value;
	int want;
	const char *text;
} rows[] = {
	/* malformed: property, value and the values it knows */
	{ &wide, "sandbox.write", "loose", BAD,
	  "\"sandbox.write\"=\"loose\": not a value that it has; known: scratch, strict" },
	{ &wide, "sandbox.observe", "", BAD, "known: off, writes, default, strict" },
	{ &wide, "sandbox.onViolation", "Fail", BAD, "known: report, fail, off" },
	{ &wide, "sandbox.allow.pty", "maybe", BAD, "known: true, false" },
	{ &wide, "sandbox.ignore.read", "a/[b", BAD, "\"sandbox.ignore.read\": pattern \"a/[b\"" },
	{ &wide, "sandbox.ignore.read", "", BAD, "is empty" },
	{ &wide, "sandbox.ignore.read", "a,,b", BAD, "is empty" },
	{ &wide, "sandbox.ignore.write", "~/x", BAD, "starts with \"~\"" }, /* vx-49 */
	{ &wide, "sandbox.ignore.network", "10.0.0.1:x", BAD,
	  "known: ADDRESS, ADDRESS:PORT, *:PORT" },
	{ &wide, "sandbox.ignore.network", "10.0.0.1:65536", BAD, "between 0 and 65535" },
	{ &wide, "sandbox.ignore.network", "10.0.0.1:", BAD, "no port behind" },
	{ &wide, "sandbox.ignore.network", ":80", BAD, "no address" },
	{ &wide, "sandbox.ignore.network", "[::1", BAD, "no \"]\"" },
	{ &wide, "sandbox.ignore.network", "[::1]80", BAD, "behind \"]\"" },
	/* beyond a bound: the bound is named (vx-38: the operator wins) */
	{ &tight, "sandbox.observe", "writes", NO,
	  "the operator observes every action at least at default" },
	{ &tight, "sandbox.observe", "strict", OK, NULL },
	{ &tight, "sandbox.onViolation", "report", NO, "at least sandbox.onViolation=fail" },
	{ &tight, "sandbox.onViolation", "off", NO, "at least sandbox.onViolation=fail" },
	{ &tight, "sandbox.onViolation", "fail", OK, NULL },
	{ &tight, "sandbox.ignore.read", "x", NO, "lets no action extend the ignore lists" },
	{ &zero, "sandbox.onViolation", "off", NO, "at least sandbox.onViolation=report" },
	{ &zero, "sandbox.onViolation", "report", OK, NULL },
	{ &zero, "sandbox.observe", "off", OK, NULL },
	/* ours, not to be had: never silently weaker, never silently nothing (vx-35, 37, 40, 41, 42, 43, 45, 46) */
	{ &wide, "sandbox.allow.network", "true", NO,
	  "gives an action no network but its own loopback; here it can be false,none,loopback or "
	  "empty" },
	{ &wide, "sandbox.allow.network", "example.org", NO, "no network" },
	{ &wide, "sandbox.allow.network", "loopback", OK, NULL },
	{ &wide, "sandbox.deny.network", "*", OK, NULL },
	{ &wide, "sandbox.allow.read", "/home/u", NO, "derives what may be touched" },
	{ &wide, "sandbox.allow.write", "", OK, NULL },
	{ &wide, "sandbox.allow.unixSockets", "true", NO, "no socket of the host" },
	{ &wide, "sandbox.allow.localBinding", "true", OK, NULL },
	{ &wide, "sandbox.allow.localBinding", "false", NO, "loopback is always up" },
	{ &wide, "sandbox.allow.localBinding", "8080", NO, "ports of the host" },
	{ &wide, "sandbox.allow.systemInfo", "false", NO, "does not mask" },
	{ &wide, "sandbox.allow.machLookup", "org.x", NO, "no service of the host" },
	{ &wide, "sandbox.allow.pty", "true", NO, "no pseudo-terminals" },
	{ &wide, "sandbox.allow.pty", "false", OK, NULL },
	{ &wide, "sandbox.allow.gitConfig", "true", OK, NULL },
	{ &wide, "sandbox.allow.namespaces", "true", NO, "namespaces of its own" },
	{ &wide, "sandbox.weakerWhenNested", "true", OK, NULL },
	{ &wide, "sandbox.weakerNetworkIsolation", "perhaps", BAD, "known: true, false" },
	{ &wide, "sandbox.reportWithin", "t", NO,
	  "reports every zone; use sandbox.ignore.read and sandbox.ignore.write; here it can be "
	  "empty" },
	{ &wide, "sandbox.reportWithin", "", OK, NULL },
	/* what other executors have taught clients */
	{ &wide, "OSFamily", "linux", OK, NULL },
	{ &wide, "OSFamily", "Linux", OK, NULL },
	{ &wide, "OSFamily", "windows", NO,
	  "\"OSFamily\"=\"windows\": this is a Linux machine; here it can be linux" },
	{ &wide, "os", "linux", OK, NULL }, /* bug log L117 */
	{ &wide, "os", "a", NO, "\"os\"=\"a\"" },
	{ &wide, "ISA", "vax", NO, "another instruction set" },
	{ &wide, "container-image", "", OK, NULL },
	{ &wide, "container-image", "docker://x", NO, "not in a container" },
	{ &wide, "dockerNetwork", "off", OK, NULL },
	{ &wide, "dockerNetwork", "standard", NO, "no network" },
	{ &wide, "network", "none", OK, NULL },
	{ &wide, "network", "external", NO, "no network" },
	{ &wide, "block-network", "true", OK, NULL },
	{ &wide, "block-network", "", OK, NULL },
	{ &wide, "requires-network", "true", NO, "no network" },
	{ &wide, "requires-network", "", NO, "no network" },
	{ &wide, "requires-network", "false", OK, NULL },
	{ &wide, "no-sandbox", "true", NO, "nothing outside of its sandbox" },
	{ &wide, "dockerRunAsRoot", "true", NO, "no action is root" },
	{ &wide, "Pool", "default", OK, NULL },
	{ &wide, "cache-silo-key", "anything at all", OK, NULL },
	/* unknown: named, with the known ones (bug log L117) */
	{ &wide, "nope", "1", NO,
	  "unknown platform property \"nope\"; known: sandbox.write, sandbox.observe" },
	{ &wide, "", "1", NO, "unknown platform property \"\"" },
	{ &wide, "sandbox.onviolation", "fail", NO, "did you mean sandbox.onViolation?" },
	{ &wide, "sandbox.writ", "strict", NO, "did you mean sandbox.write?" },
	{ &wide, "sandbox.wrtie", "strict", NO,
	  "unknown platform property \"sandbox.wrtie\"; known" },
	{ &wide, "sandboxx.write", "strict", NO, "did you mean sandbox.write?" },
	{ &wide, "dockerNetwork\n", "off", NO,
	  "unknown platform property \"dockerNetwork\\n\" (did you mean dockerNetwork?)" },
};

/* vx-34, vx-35, vx-37 to vx-46: validated against what the operator allows and what this build can give. */
static void properties_table_vx_34_to_46(void **state)
{
	(void)state;
	for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bjp_settings s;
		struct bj_err err;
		int got = apply(rows[i].bounds, rows[i].name, rows[i].value, &s, &arena, &err);
		if (got != rows[i].want)
			fail_msg("%s=%s: got %d (%s)", rows[i].name, rows[i].value, got, err.msg);
		assert_int_equal(bj_err_is_set(&err), got < 0);
		if (got < 0)
			expect_contains(err.msg, rows[i].text);
	}
}

/* Bazel's exec_properties of a target take what stands before a dot for an execution group: there it is a colon. */
static void a_colon_stands_for_a_dot(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_settings s;
	struct bj_err err;
	assert_int_equal(apply(&wide, "sandbox:onViolation", "fail", &s, &arena, &err), 0);
	assert_int_equal(s.on_violation, BJP_ON_VIOLATION_FAIL);
	assert_int_equal(apply(&wide, "sandbox:ignore:read", "a", &s, &arena, &err), 0);
	assert_int_equal(s.n_ignore_read, 1);
	assert_int_equal(apply(&wide, "sandbox:nope", "1", &s, &arena, &err),
			 -BJ_FAILED_PRECONDITION);
	assert_int_equal(apply(&wide, "OSFamily.", "linux", &s, &arena, &(struct bj_err){ 0 }),
			 -BJ_FAILED_PRECONDITION);
}

static void this_machine_is_known(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_settings s;
	struct bj_err err;
#if defined(__x86_64__)
	assert_int_equal(apply(&wide, "ISA", "x86-64", &s, &arena, &err), 0);
	assert_int_equal(apply(&wide, "Arch", "amd64", &s, &arena, &err), 0);
	assert_int_equal(apply(&wide, "ISA", "aarch64", &s, &arena, &err), NO);
#elif defined(__aarch64__)
	assert_int_equal(apply(&wide, "ISA", "aarch64", &s, &arena, &err), 0);
#else
	assert_int_equal(apply(&wide, "ISA", "x86-64", &s, &arena, &err), NO);
#endif
}

/* ---- lists ---- */

static void lists_by_comma_and_by_repetition(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bj_str operators[] = { S("/opt/**") };
	struct bjp_settings s = bjp_settings_default();
	s.ignore_read = operators;
	s.n_ignore_read = 1;
	struct bjp_property props[] = {
		{ S("sandbox.ignore.read"), S("a/*.h,b/**") },
		{ S("sandbox.ignore.network"), S("10.0.0.1,10.0.0.2:443,[::1]:80,*:53,*,fe80::1") },
		{ S("sandbox.ignore.read"), S("with\\,comma") },
		{ S("sandbox.ignore.write"), S("x") },
	};
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_settings_apply(&s, &wide, props, 4, &arena, &err), 0);
	assert_int_equal(s.n_ignore_read, 4);
	expect_str(s.ignore_read[0], "/opt/**", "operator's");
	expect_str(s.ignore_read[1], "a/*.h", "first");
	expect_str(s.ignore_read[2], "b/**", "second");
	expect_str(s.ignore_read[3], "with\\,comma", "quoted");
	assert_true(bjp_glob_match(s.ignore_read[3], S("with,comma")));
	assert_int_equal(s.n_ignore_network, 6);
	expect_str(s.ignore_network[2], "[::1]:80", "v6");
	assert_int_equal(s.n_ignore_write, 1);
	expect_str(operators[0], "/opt/**", "the operator's list is not written to");
}

static void lists_are_bounded(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	char *many = bj_malloc(2 * 1025);
	for (size_t i = 0; i < 1025; i++)
		memcpy(many + 2 * i, "a,", 2);
	struct bjp_property prop = { S("sandbox.ignore.read"), bj_str_n(many, 2 * 1024 - 1) };
	struct bjp_settings s = bjp_settings_default();
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_settings_apply(&s, &wide, &prop, 1, &arena, &err), 0);
	assert_int_equal(s.n_ignore_read, 1024);
	prop.value = S("b");
	assert_int_equal(bjp_settings_apply(&s, &wide, &prop, 1, &arena, &err), BAD);
	expect_contains(err.msg, "more than 1024 entries");
	assert_int_equal(s.n_ignore_read, 1024);
	bj_free(many);
}

/* ---- properties of the whole ---- */

static void twice_the_same_is_fine_two_values_are_not(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_property same[] = { { S("sandbox.write"), S("strict") },
				       { S("sandbox.write"), S("strict") } };
	struct bjp_property other[] = { { S("sandbox.write"), S("strict") },
					{ S("sandbox.write"), S("scratch") } };
	struct bjp_property back[] = { other[1], other[0] };
	struct bjp_settings s = bjp_settings_default();
	struct bj_err err = BJ_ERR_NULL, err_back = BJ_ERR_NULL;
	assert_int_equal(bjp_settings_apply(&s, &wide, same, 2, &arena, &err), 0);
	assert_int_equal(s.write, BJP_WRITE_STRICT);
	assert_int_equal(bjp_settings_apply(&s, &wide, other, 2, &arena, &err), BAD);
	assert_int_equal(bjp_settings_apply(&s, &wide, back, 2, &arena, &err_back), BAD);
	assert_string_equal(err.msg, err_back.msg);
	expect_contains(err.msg, "given twice, as \"scratch\" and as \"strict\"");
}

static void a_refusal_changes_nothing(void **state)
{
	(void)state;
	bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
	bj_arena_init(&arena, 0);
	struct bjp_property props[] = { { S("sandbox.write"), S("strict") },
					{ S("sandbox.ignore.read"), S("a") },
					{ S("nope"), S("1") } };
	struct bjp_settings s = bjp_settings_default();
	struct bj_err err = BJ_ERR_NULL;
	assert_int_equal(bjp_settings_apply(&s, &wide, props, 3, &arena, &err), NO);
	assert_int_equal(s.write, BJP_WRITE_SCRATCH);
	assert_int_equal(s.n_ignore_read, 0);
}

static void the_order_of_properties_does_not_matter(void **state)
{
	(void)state;
	struct bjp_property props[] = {
		{ S("sandbox.write"), S("strict") },
		{ S("sandbox.observe"), S("strict") },
		{ S("OSFamily"), S("linux") },
		{ S("sandbox.onViolation"), S("fail") },
		{ S("Pool"), S("p") },
		{ S("sandbox.ignore.write"), S("x,y") },
	};
	uint64_t seed = 3;
	for (int i = 0; i < 50; i++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bjp_settings s = bjp_settings_default();
		struct bj_err err = BJ_ERR_NULL;
		shuffle(props, BJ_ARRAY_LEN(props), sizeof(props[0]), &seed);
		assert_int_equal(
			bjp_settings_apply(&s, &wide, props, BJ_ARRAY_LEN(props), &arena, &err), 0);
		assert_int_equal(s.write, BJP_WRITE_STRICT);
		assert_int_equal(s.observe, BJP_OBSERVE_STRICT);
		assert_int_equal(s.on_violation, BJP_ON_VIOLATION_FAIL);
		assert_int_equal(s.n_ignore_write, 2);
	}
}

static void each_allocation_fails_once(void **state)
{
	(void)state;
	/* A small cap makes the arena refuse at every size; both outcomes must be clean. */
	struct bjp_property props[] = { { S("sandbox.ignore.read"), S("aaaaaaaa,bbbbbbbb") },
					{ S("sandbox.ignore.network"), S("10.0.0.1") } };
	for (uint64_t n = 0;; n++) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, 0);
		struct bjp_settings s = bjp_settings_default();
		struct bj_err err = BJ_ERR_NULL;
		bj_alloc_fail_after(n);
		int r = bjp_settings_apply(&s, &wide, props, 2, &arena, &err);
		bool hit = bj_alloc_fail_disarm();
		if (!hit) {
			assert_int_equal(r, 0);
			break;
		}
		assert_int_equal(r, -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(s.n_ignore_read, 0);
	}
	for (size_t cap = 1; cap < 6000; cap += 16) {
		bj_cleanup(bj_arena_cleanup) struct bj_arena arena;
		bj_arena_init(&arena, cap);
		struct bjp_settings s = bjp_settings_default();
		struct bj_err err = BJ_ERR_NULL;
		int r = bjp_settings_apply(&s, &wide, props, 2, &arena, &err);
		assert_true(r == 0 || r == -BJ_RESOURCE_EXHAUSTED);
		assert_int_equal(s.n_ignore_read, r == 0 ? 2 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(names_and_parsers_agree_vx_36),
		cmocka_unit_test(scalars),
		cmocka_unit_test(properties_table_vx_34_to_46),
		cmocka_unit_test(a_colon_stands_for_a_dot),
		cmocka_unit_test(this_machine_is_known),
		cmocka_unit_test(lists_by_comma_and_by_repetition),
		cmocka_unit_test(lists_are_bounded),
		cmocka_unit_test(twice_the_same_is_fine_two_values_are_not),
		cmocka_unit_test(a_refusal_changes_nothing),
		cmocka_unit_test(the_order_of_properties_does_not_matter),
		cmocka_unit_test(each_allocation_fails_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
