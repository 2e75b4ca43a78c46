// SPDX-License-Identifier: Apache-2.0
/*
 * stderr becomes one end of a socket pair that keeps message boundaries, so a test sees what each write(2) held.
 */
#include "tests/unit/base_test_util.h"

#include <ctype.h>
#include <sys/socket.h>
#include <time.h>

#include "executor/base/log.h"

struct catcher {
	int stderr_copy;
	int fd;		 /* what was written comes out here */
	char line[8192]; /* the last message */
};

static int catch_stderr(void **state)
{
	static struct catcher catcher;
	int ends[2];
	fflush(stderr);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
	catcher.stderr_copy = dup(STDERR_FILENO);
	catcher.fd = ends[0];
	assert_true(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	close(ends[1]);
	bj_log_set_level(BJ_LOG_INFO);
	*state = &catcher;
	return 0;
}

static int release_stderr(void **state)
{
	struct catcher *catcher = *state;
	dup2(catcher->stderr_copy, STDERR_FILENO);
	close(catcher->stderr_copy);
	close(catcher->fd);
	return 0;
}

/* The next message, or NULL when nothing was written. */
static const char *next_line(struct catcher *catcher)
{
	ssize_t n = recv(catcher->fd, catcher->line, sizeof(catcher->line) - 1, MSG_DONTWAIT);
	if (n < 0)
		return NULL;
	catcher->line[n] = '\0';
	return catcher->line;
}

/* What follows the time stamp, whose form is checked. */
static const char *next_text(struct catcher *catcher)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
	const char *line = next_line(catcher);
	assert_non_null(line);
	for (size_t i = 0; form[i]; i++) {
		if (form[i] == 'd')
			assert_true(isdigit((unsigned char)line[i]));
		else
			assert_int_equal(line[i], form[i]);
	}
	return line + strlen(form);
}

static void a_line_is_one_write(void **state)
{
	bj_info("cas: stored digest=%s size=%d", "abc", 7);
	assert_string_equal(next_text(*state), "info cas: stored digest=abc size=7\n");
	assert_null(next_line(*state));
}

static void the_level_filters(void **state)
{
	static const struct {
		enum bj_log_level level;
		const char *prefix;
	} rows[] = {
		{ BJ_LOG_DEBUG, "debug x\n" },
		{ BJ_LOG_INFO, "info x\n" },
		{ BJ_LOG_WARN, "warn x\n" },
		{ BJ_LOG_ERROR, "error x\n" },
	};
	for (size_t min = 0; min < BJ_ARRAY_LEN(rows); min++) {
		bj_log_set_level(rows[min].level);
		for (size_t i = 0; i < BJ_ARRAY_LEN(rows); i++)
			bj_log(rows[i].level, "x");
		for (size_t i = min; i < BJ_ARRAY_LEN(rows); i++)
			assert_string_equal(next_text(*state), rows[i].prefix);
		assert_null(next_line(*state));
	}
}

static void the_default_is_info(void **state)
{
	bj_debug("hidden");
	assert_null(next_line(*state));
	bj_info("shown");
	assert_non_null(next_line(*state));
}

static void the_time_is_utc_now(void **state)
{
	assert_int_equal(setenv("TZ", "Asia/Tokyo", 1), 0);
	tzset();
	time_t before = time(NULL) - 1; /* time() may lag by a tick */
	bj_info("x");
	time_t after = time(NULL) + 1;
	const char *line = next_line(*state);
	assert_non_null(line);
	struct tm tm = { 0 };
	assert_non_null(strptime(line, "%Y-%m-%dT%H:%M:%S", &tm));
	time_t stamp = timegm(&tm);
	assert_true(stamp >= before && stamp <= after);
	unsetenv("TZ");
	tzset();
}

static void controls_are_escaped(void **state)
{
	bj_info("a: b path=%s", "x\nfake\r\x1b[2J\x7f\xff\xe2\x80\xae caf\xc3\xa9 \\n");
	assert_string_equal(next_text(*state), "info a: b path=x\\nfake\\x0d\\x1b[2J\\x7f\\xff"
					       "\\xe2\\x80\\xae caf\xc3\xa9 \\n\n");
	assert_null(next_line(*state));
}

static void long_text_is_cut(void **state)
{
	static char text[6000];
	const size_t prefix = strlen("info ");
	memset(text, 'a', 4096);
	bj_info("%s", text);
	assert_int_equal(strlen(next_text(*state)), prefix + 4096 + 1);
	text[4096] = 'a';
	bj_info("%s", text);
	const char *line = next_text(*state);
	assert_int_equal(strlen(line), prefix + 4096 + 1);
	assert_int_equal(line[strlen(line) - 1], '\n');

	memset(text, '\x01', 5999); /* 1,024 escapes of four bytes fit, and no half of one */
	bj_info("%s", text);
	line = next_text(*state);
	assert_int_equal(strlen(line), prefix + 4096 + 1);
	text[0] = 'x';
	bj_info("%s", text);
	line = next_text(*state);
	assert_int_equal(strlen(line), prefix + 1 + 1023 * 4 + 1);
	assert_string_equal(line + strlen(line) - 5, "\\x01\n");
}

static void errno_survives(void **state)
{
	errno = ENOTTY;
	bj_info("x");
	assert_int_equal(errno, ENOTTY);
	assert_non_null(next_line(*state));
	close(STDERR_FILENO); /* nothing to write to */
	errno = ENOTTY;
	bj_info("x");
	int after = errno;
	assert_true(dup2(((struct catcher *)*state)->stderr_copy, STDERR_FILENO) >= 0);
	assert_int_equal(after, ENOTTY);
}

static void levels_are_parsed(void **state)
{
	(void)state;
	enum bj_log_level level;
	assert_true(bj_log_parse_level("debug", &level) && level == BJ_LOG_DEBUG);
	assert_true(bj_log_parse_level("info", &level) && level == BJ_LOG_INFO);
	assert_true(bj_log_parse_level("warn", &level) && level == BJ_LOG_WARN);
	assert_true(bj_log_parse_level("error", &level) && level == BJ_LOG_ERROR);
	static const char *const bad[] = { "", "INFO", "warning", "inf", "info ", "0" };
	for (size_t i = 0; i < BJ_ARRAY_LEN(bad); i++)
		assert_false(bj_log_parse_level(bad[i], &level));
	assert_int_equal(level, BJ_LOG_ERROR);
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, catch_stderr, release_stderr)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(a_line_is_one_write),	LOG_TEST(the_level_filters),
		LOG_TEST(the_default_is_info),	LOG_TEST(the_time_is_utc_now),
		LOG_TEST(controls_are_escaped), LOG_TEST(long_text_is_cut),
		LOG_TEST(errno_survives),	cmocka_unit_test(levels_are_parsed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
