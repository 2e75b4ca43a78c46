# SPDX-License-Identifier: Apache-2.0
"""Execute: environment, argv, standard input, identity, fixed values."""

from concurrent.futures import ThreadPoolExecutor

from bjtest import client as c
from bjtest import env
from bjtest.case import BAD_INPUT, Case
from bjtest.server import Server, ServerError
from bjtest.tree import Exec

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"  # design §7
SHOW_ARGV = ("import sys; a = open('/proc/self/cmdline','rb').read().split(b'\\0')[:-1]; "
             "sys.stdout.buffer.write(b'|'.join(a[:1] + a[3:]))")


class Environment(Case):

    def env_of(self, environ):
        outcome = self.assert_ran(self.client.execute(self.client.action(
            ["/usr/bin/env", "-0"], environ=environ)))
        return sorted(outcome.stdout.decode().split("\0")[:-1])

    def test_exactly_the_command_s(self):
        environ = {"A": "1", "B": "", "C": "x y\nz=é", "PATH": "/usr/bin"}
        self.assertEqual(sorted("%s=%s" % pair for pair in environ.items()), self.env_of(environ))

    def test_L52_default_path(self):
        self.assertEqual(["PATH=" + DEFAULT_PATH], self.env_of({}))
        outcome = self.assert_ran(self.client.execute(self.client.action(
            ["sh", "-c", "echo ${PATH-unset}"], environ={})))
        self.assertEqual(DEFAULT_PATH + "\n", outcome.stdout.decode())

    def test_L52_empty_path_stays_empty(self):
        self.assertEqual(["PATH="], self.env_of({"PATH": ""}))

    def test_L52_lookup_in_an_empty_path(self):
        """Not found, said with the name; or an empty PATH inside. The same each time."""
        seen = set()
        for _ in range(3):
            outcome = self.client.execute(self.client.action(
                ["sh", "-c", "echo $PATH"], environ={"PATH": ""}))
            if outcome.code == c.OK:
                self.assertIn(outcome.exit_code, (0, 127), outcome)
                seen.add((outcome.code, outcome.exit_code, outcome.stdout))
            else:
                self.assert_refused(outcome, "sh")
                seen.add(outcome.code)
        self.assertEqual(1, len(seen), seen)

    def test_L53_the_server_s_environment_does_not_leak(self):
        """The server runs with BJ_SECRET and HOME=/root."""
        self.assertIn("BJ_SECRET", self.server.environ)
        outcome = self.run_sh("env; cat /proc/*/environ | tr '\\0' '\\n'")
        self.assertNotIn(b"BJ_SECRET", outcome.stdout)
        self.assertNotIn(b"HOME=/root", outcome.stdout)

    def test_bad_names(self):
        """Empty, or with an equals sign: no environment can hold it."""
        for name in ("", "A=B"):
            with self.subTest(name=name):
                outcome = self.client.execute(self.client.action(["/bin/true"], environ={name: "1"}))
                self.assert_refused(outcome, "environment_variables")


class Arguments(Case):

    INPUTS = {"bin": {"t": Exec(b"#!/bin/sh\necho BAD\n")},
              "w": {"bin": {"t": Exec(b"#!/bin/sh\necho $0\n")}}}

    def run_args(self, arguments, **fields):
        return self.client.execute(self.client.action(arguments, **fields))

    def test_L51_with_a_slash(self):
        """Relative to the working directory; the name stays as given."""
        outcome = self.assert_ran(self.run_args(["bin/t"], inputs=self.INPUTS, cwd="w"))
        self.assertEqual(b"bin/t\n", outcome.stdout)
        outcome = self.assert_ran(self.run_args(["./bin/t"], inputs=self.INPUTS, cwd="w"))
        self.assertEqual(b"./bin/t\n", outcome.stdout)

    def test_L51_without_a_slash(self):
        """By the Command's PATH, relative entries from the working directory."""
        outcome = self.assert_ran(self.run_args(["t"], inputs=self.INPUTS, cwd="w", environ={"PATH": "bin"}))
        self.assertEqual(b"bin/t\n", outcome.stdout)

    def test_L51_order_of_path(self):
        inputs = {"a": {"t": Exec(b"#!/bin/sh\necho a\n")}, "b": {"t": Exec(b"#!/bin/sh\necho b\n")},
                  "n": {"t": b"not executable"}}
        for path, wanted in (("a:b", b"a\n"), ("b:a", b"b\n"), ("no:n:b", b"b\n")):
            with self.subTest(path=path):
                outcome = self.assert_ran(self.run_args(["t"], inputs=inputs, environ={"PATH": path}))
                self.assertEqual(wanted, outcome.stdout)

    def test_L51_argv0_is_as_given(self):
        outcome = self.assert_ran(self.run_args(["python3", "-c", SHOW_ARGV, "x", "", "é y"]))
        self.assertEqual("python3|x||é y".encode(), outcome.stdout)

    def test_not_to_be_found(self):
        """127 as a shell has it, or an error; the name is in the text."""
        for name in ("/no/such", "no/such", "no-such"):
            with self.subTest(name=name):
                outcome = self.run_args([name])
                if outcome.code == c.OK:
                    self.assertEqual(127, outcome.exit_code, outcome)
                    self.assertIn(name, str(outcome))
                else:
                    self.assert_refused(outcome, name)

    def test_not_to_be_executed(self):
        inputs = {"plain": b"echo\n", "d": {}, "junk": Exec(b"\0\1\2"),
                  "interp": Exec(b"#!/no/such/interpreter\n")}
        for name in ("./plain", "./d", "./junk", "./interp"):
            with self.subTest(name=name):
                outcome = self.run_args([name], inputs=inputs)
                if outcome.code == c.OK:
                    self.assertIn(outcome.exit_code, (126, 127), outcome)
                else:
                    self.assert_refused(outcome, name[2:])

    def test_none(self):
        self.assert_refused(self.run_args([]), "arguments")

    def test_empty_first(self):
        outcome = self.run_args([""])
        if outcome.code == c.OK:
            self.assertEqual(127, outcome.exit_code)
        else:
            self.assertIn(outcome.code, BAD_INPUT)

    def test_many_and_long(self):
        """100,000 bytes in one argument, 5,000 arguments; what execve cannot take says so."""
        outcome = self.assert_ran(self.run_args(
            ["/bin/sh", "-c", "echo ${#1} $#", "sh", "x" * 100000] + ["y"] * 5000))
        self.assertEqual(b"100000 5001\n", outcome.stdout)
        outcome = self.run_args(["/bin/true", "x" * 200000])
        if outcome.code == c.OK:
            self.assertIn(outcome.exit_code, (126, 127), outcome)
        else:
            self.assertIn(outcome.code, BAD_INPUT + (c.RESOURCE_EXHAUSTED,), outcome)

    def test_L87_standard_input(self):
        outcome = self.run_sh("cat; echo $?; readlink /proc/self/fd/0")
        self.assertEqual(b"0\n/dev/null\n", outcome.stdout)


class Identity(Case):

    def test_not_root(self):
        outcome = self.run_sh("id -u; id -g; id -G")
        self.assertNotIn(b"0", outcome.stdout.split())

    def test_L55_user_has_a_name(self):
        self.run_sh("id -un && id -gn && getent passwd $(id -u) && "
                    "python3 -c 'import getpass; getpass.getuser()'")

    def test_L54_parent_can_be_signalled(self):
        self.run_sh("kill -0 $PPID")

    def test_fixed_values(self):
        """design §3.1: uid, gid, hostname, umask, locale and zone are the same on every slot."""
        script = ("id; hostname; umask; date +%Z; locale 2>/dev/null | head -1; pwd; "
                  "cat /etc/passwd; ulimit -a")
        with ThreadPoolExecutor(8) as pool:
            seen = set(o.stdout for o in pool.map(lambda _: self.run_sh(script), range(16)))
        self.assertEqual(1, len(seen), seen)

    def test_signals_are_as_new(self):
        """Nothing blocked, nothing ignored, whatever the server does with its own."""
        outcome = self.run_sh("grep -E 'Sig(Blk|Ign)' /proc/self/status")
        self.assertEqual([b"0" * 16] * 2, outcome.stdout.split()[1::2])

    def test_L136_short_paths(self):
        script = ("import os, socket; d = os.environ.get('TMPDIR', '/tmp'); assert len(os.getcwd()) <= 40;"
                  "socket.socket(socket.AF_UNIX).bind(d + '/' + 'x' * 40)")
        self.assert_ran(self.client.execute(self.client.action(["/usr/bin/python3", "-c", script])))

    def test_L137_long_store_path(self):
        """150 characters: works, or the start says what the limit is."""
        store = env.fresh_dir("long") + "/" + "s" * 150
        server = Server(store=store)
        self.addCleanup(server.kill)
        try:
            server.start()
        except ServerError as error:
            self.assertIn("108", str(error))
            return
        self.run_sh("true", client=self.new_client(server))
