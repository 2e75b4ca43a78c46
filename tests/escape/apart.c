// SPDX-License-Identifier: Apache-2.0
/*
 * Inputs stay what they are, and nothing of one action reaches another, before, beside or after it.
 */
#include "tests/escape/cases.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "executor/base/fd.h"

/* ---- inputs ---- */

static void test_inputs_intact(void)
{
	struct outcome o;
	struct action a = {
		.argv = { "./probe", "inputs", userns_owner() },
		.inputs = { { "in/f", "hello", false }, { "in/g", "world", false } },
		.dirs = { "in/sub" },
		.keep = true,
	};
	expect_exit(&a, 0, &o);
	CHECK(file_is(o.dir, "lower/in/f", "hello"));
	CHECK(file_is(o.dir, "lower/in/g", "world"));
	CHECK(!file_is(o.dir, "lower/in/new", ""));
	CHECK(file_is(o.dir, "upper/in/f", "evil"));
	struct stat st;
	char path[400];
	(void)snprintf(path, sizeof(path), "%s/lower/in/f", o.dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0444);
	action_remove(o.dir);
	outcome_free(&o);
}

static void test_rename_input_dir(void)
{
	struct outcome o;
	struct action a = { .argv = { "/bin/mv", "in", "moved" },
			    .inputs = { { "in/f", "hello", false } },
			    .keep = true };
	expect_exit(&a, 0, &o);
	CHECK(file_is(o.dir, "lower/in/f", "hello"));
	action_remove(o.dir);
	outcome_free(&o);
}

static void test_dotdot_is_real(void)
{
	struct outcome o;
	struct action a = {
		.argv = { "/bin/sh", "-c",
			  "cat d/e/../../x && cd d/e && cat ../../x && test ! -L ../../d" },
		.inputs = { { "d/e/keep", "", false }, { "x", "x\n", false } }
	}; /* L50 */
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "x\nx\n"));
	outcome_free(&o);
}

static void test_strict(void)
{
	struct outcome o;
	struct action a = {
		.argv = { "/bin/sh", "-c",
			  "echo a > out/a && mv out/a out/b && mkdir out/d && ! (: > x) "
			  "2>/dev/null && ! rm -f in/f 2>/dev/null && "
			  "! mkdir in/d 2>/dev/null && (: > /tmp/x) && ! mv in/f out/ 2>/dev/null; "
			  "echo $?" },
		.inputs = { { "in/f", "f", false } },
		.dirs = { "out" },
		.strict = true,
		.writable = { "out" },
		.keep = true,
	};
	expect_exit(&a, 0, &o);
	CHECK(out_is(&o, "0\n"));
	CHECK(file_is(o.dir, "upper/out/b", "a\n"));
	action_remove(o.dir);
	outcome_free(&o);
}

static void test_strict_no_follow(void)
{
	/* L135: a writable path that leads through a link of the tree is refused, nothing runs */
	struct outcome o;
	struct action a = { .argv = { "/bin/true" },
			    .dirs = { "real/out" },
			    .strict = true,
			    .writable = { "link/out" } };
	char dir[320], path[400];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	(void)snprintf(path, sizeof(path), "%s/lower/link", dir);
	CHECK(symlink("real", path) == 0);
	action_execute(&slot, &a, dir, &o);
	CHECK(o.code == -BJ_FAILED_PRECONDITION && strstr(o.err.msg, "link/out"));
	action_remove(dir);
	outcome_free(&o);
}

static void test_odd_tree_names(void)
{
	/* L135: links in the tree named as our mount points lead nowhere of ours */
	struct outcome o;
	struct action a = { .argv = { "/bin/sh", "-c",
				      "test -d /tmp && test -c /dev/null && echo ok" } };
	char dir[320], path[400];
	action_lay_out(&slot, &a, dir, sizeof(dir));
	(void)snprintf(path, sizeof(path), "%s/lower/tmp", dir);
	CHECK(symlink("/nonexistent", path) == 0);
	(void)snprintf(path, sizeof(path), "%s/lower/dev", dir);
	CHECK(symlink("/", path) == 0);
	action_execute(&slot, &a, dir, &o);
	CHECK(ran(&o) && out_is(&o, "ok\n"));
	action_remove(dir);
	outcome_free(&o);
}

/* ---- one action and the next, and the one beside it ---- */

static void test_nothing_left_behind(void)
{
	probe("ipc-set", NULL, NULL);
	probe("ipc-get", NULL, NULL);
}

static void test_network(void)
{
	probe("net", NULL, NULL); /* L120 */
	probe("net", NULL, NULL); /* the same ports again: no TIME_WAIT of the first */
}

static void net_name(const char *before, char *out, size_t cap)
{
	struct outcome o;
	char script[128];
	(void)snprintf(script, sizeof(script), "%s; readlink /proc/self/ns/net", before);
	sh(script, &o);
	(void)snprintf(out, cap, "%.*s", (int)o.out.len, o.out.len ? o.out.data : "");
	outcome_free(&o);
}

/** A network namespace is passed on by an action that did nothing with it, and only then. */
static void test_network_is_fresh(void)
{
	static const char *const uses[] = {
		"./probe net",
		"./probe udp-unreachable",
		"./probe socket-in-flight",
		"./probe flow-label",
	};
	char first[64], second[64];
	net_name(":", first, sizeof(first));
	net_name("cat /proc/net/snmp > /dev/null", second, sizeof(second));
	CHECK(first[0] && strcmp(first, second) == 0);
	for (size_t i = 0; i < BJ_ARRAY_LEN(uses); i++) {
		net_name(uses[i], first, sizeof(first));
		net_name(":", second, sizeof(second));
		if (strcmp(first, second) == 0)
			failed("the network namespace was passed on after %s", uses[i]);
	}
}

static void test_host_network(void)
{
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	CHECK(bind(tcp, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(tcp, 4) == 0 &&
	      getsockname(tcp, (struct sockaddr *)&a, &len) == 0);
	int un = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un u = { .sun_family = AF_UNIX };
	int n = snprintf(u.sun_path + 1, sizeof(u.sun_path) - 1, "belljar-escape-%d",
			 (int)getpid());
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	CHECK(bind(un, (struct sockaddr *)&u, len) == 0 && listen(un, 4) == 0);
	char port[16];
	(void)snprintf(port, sizeof(port), "%u", (unsigned)ntohs(a.sin_port));
	probe("host-net", port, u.sun_path + 1);
	(void)close(tcp);
	(void)close(un);
}

static void test_two_slots(void)
{
	/* L120, L121: the same port and the same /tmp name, at the same time */
	struct action a = {
		.argv = { "/bin/sh", "-c",
			  "set -C; : > /tmp/s.$$ && sleep 0.2 && ./probe net && sleep 0.2" }
	};
	struct parallel p[2];
	in_parallel(&a, p);
	for (int i = 0; i < 2; i++)
		outcome_free(&p[i].outcome);
}

const struct test apart_tests[] = {
	TEST_CASE(inputs_intact),	TEST_CASE(rename_input_dir),
	TEST_CASE(dotdot_is_real),	TEST_CASE(strict),
	TEST_CASE(strict_no_follow),	TEST_CASE(odd_tree_names),
	TEST_CASE(nothing_left_behind), TEST_CASE(network),
	TEST_CASE(network_is_fresh),	TEST_CASE(host_network),
	TEST_CASE(two_slots),		{ NULL, NULL },
};
