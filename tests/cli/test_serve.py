# SPDX-License-Identifier: Apache-2.0
"""`belljar serve`: its configuration file, its store, its two signals. tests/conformance has the rest of its life."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from test_general import belljar

from bjtest import client as c
from bjtest import env, proc
from bjtest.case import Case


class Config(Case):

    def file(self, text):
        path = os.path.join(env.fresh_dir("config"), "belljar.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def refused(self, text, *flags):
        """Return: what is said about a file with this text."""
        path = self.file(text)
        done = belljar("serve", "--listen=127.0.0.1:0", "--store=" + env.fresh_dir("serve"),
                       "--config=" + path, *flags)
        self.assertEqual((2, ""), (done.returncode, done.stdout), done.stderr)
        return done.stderr.replace(path, "FILE")

    def test_a_wrong_file_is_refused_with_its_line(self):
        self.assertIn('FILE:2: unknown key "slotz", known: listen, ', self.refused("slots: 1\nslotz: 2\n"))
        self.assertIn('FILE:1: slots wants a whole number', self.refused("slots: two\n"))
        self.assertIn('FILE:2: slots is given twice', self.refused("slots: 1\nslots: 2\n"))
        self.assertIn("FILE:1: an anchor (&a)", self.refused("listen: &a [x]\nworkspaces: *a\n"))

    def test_the_pieces_must_fit(self):
        self.assertIn("hotBytes 33554433 is more than workBytes 33554432",
                      self.refused("workBytes: 33554432\nhotBytes: 33554433\n"))
        self.assertIn("defaultTimeoutSeconds 9 is more than maxTimeoutSeconds 8",
                      self.refused("maxTimeoutSeconds: 8\ndefaultTimeoutSeconds: 9\n"))
        self.assertIn("denyAnchors[0]", self.refused("denyAnchors: [relative/path]\n"))
        self.assertIn('workspace "/no/such/dir"', self.refused("workspaces: [/no/such/dir]\n"))
        self.assertIn("--log-level=loud", self.refused("", "--log-level=loud"))

    def test_an_address_of_the_file_needs_insecure_too(self):
        path = self.file("listen: 0.0.0.0:0\n")
        done = belljar("serve", "--store=" + env.fresh_dir("serve"), "--config=" + path)
        self.assertEqual(2, done.returncode)
        self.assertIn("--insecure", done.stderr)

    def test_flags_beat_the_file(self):
        path = self.file("listen: 192.0.2.1:1\nslots: 7\nstore: /proc/no\n")
        server = self.new_server("--config=" + path, "--slots=1")
        self.assertIn(" slots=1 ", server.log())

    def test_settings_reach_the_actions(self):
        path = self.file("sandbox: {onViolation: fail, observe: writes}\nmaxTimeoutSeconds: 60\n")
        client = self.new_client(self.new_server("--config=" + path))
        outcome = self.run_sh("echo x > left-behind", exit_code=121, client=client)
        self.assertEqual("writes", outcome.report().observer)
        self.assert_refused(client.run("true", timeout=61), "60")

    def test_bounds_reach_the_actions(self):
        path = self.file("sandbox: {bounds: {minObserve: default, minOnViolation: report, mayIgnore: false}}\n")
        client = self.new_client(self.new_server("--config=" + path))
        for name, value in (("sandbox.observe", "off"), ("sandbox.onViolation", "off"),
                            ("sandbox.ignore.read", "/exec/x")):
            with self.subTest(name):
                self.assert_refused(client.run("true", platform={name: value}), name)
        self.run_sh("true", client=client, platform={"sandbox.observe": "strict"})

    def test_extra_roots(self):
        root = tempfile.mkdtemp(prefix="bj-root-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, root)
        with open(os.path.join(root, "f"), "w", encoding="ascii") as f:
            f.write("extra\n")
        os.chmod(root, 0o755)
        path = self.file("extraRoots: ['%s']\n" % root)
        client = self.new_client(self.new_server("--config=" + path))
        self.assertEqual(b"extra\n", self.run_sh("cat %s/f" % root, client=client).stdout)

    def test_extra_roots_that_no_action_would_see(self):
        for root in ("/tmp", "/tmp/x", "/dev/shm", "/proc/self", "/exec/x", "/"):
            self.assertIn('extraRoots[0] "%s"' % root, self.refused("extraRoots: ['%s']\n" % root))


class Start(Case):

    def test_ready_line_and_port_file(self):
        server = self.new_server()
        line = re.search(r"(?m)^\S+Z info serve: ready .*$", server.log()).group(0)
        self.assertIn(" port=%s " % server.address.split(":")[1], line)
        self.assertIn(" store=%s " % os.path.realpath(server.store), line)

    def test_several_addresses(self):
        """The port file has the port of the first TCP listener, whatever stands beside it."""
        path = os.path.join(env.fresh_dir("sock"), "s")
        server = self.new_server("--listen=unix:" + path)
        self.run_sh("true", client=self.new_client(server))
        client = c.Client("unix:" + path)
        self.addCleanup(client.close)
        self.run_sh("true", client=client)

    def test_two_servers_one_store(self):
        server = self.new_server()
        done = belljar("serve", "--listen=127.0.0.1:0", "--store=" + server.store)
        self.assertEqual(1, done.returncode)
        self.assertIn("is in use by process %d" % server.pid, done.stderr)
        self.run_sh("true", client=self.new_client(server))

    def test_killed_while_an_action_ran(self):
        """The next one starts on the same store, and nothing of the old one runs."""
        server = self.new_server()
        client = self.new_client(server)
        blob = client.put(b"kept over a kill -9")
        mark = proc.marker()
        client.first_op(client.start(client.sh("sleep " + mark)))
        self.assertTrue(proc.wait_until(lambda: proc.with_argument(mark), 10))
        server.kill()
        self.assertEqual([], proc.with_argument(mark))
        client = self.new_client(server.start())
        self.assertEqual(b"kept over a kill -9", client.read(blob))
        self.run_sh("true", client=client)

    def test_no_jail_beside_it(self):
        """Which paths were tried, and the flag that helps."""
        alone = env.fresh_dir("alone")
        copy = os.path.join(alone, "belljar")
        with open(os.path.join(env.BIN, "belljar"), "rb") as source, open(copy, "wb") as target:
            target.write(source.read())
        os.chmod(copy, 0o755)
        done = subprocess.run([copy, "serve", "--store=" + env.fresh_dir("serve")], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn(os.path.join(alone, "belljar-jail"), done.stderr)
        self.assertIn("--jail=PATH", done.stderr)

    def test_port_in_use_ends_before_any_line_says_ready(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            port_file = os.path.join(env.fresh_dir("port"), "port")
            done = belljar("serve", "--listen=" + address, "--store=" + env.fresh_dir("serve"),
                           "--port-file=" + port_file)
        self.assertEqual(1, done.returncode)
        self.assertIn(address, done.stderr)
        self.assertNotIn("serve: ready", done.stderr)
        self.assertFalse(os.path.exists(port_file))


class Stop(Case):

    def busy_server(self, *flags):
        """Return: a server with an action that runs for an hour, and that action's call."""
        server = self.new_server(*flags)
        client = self.new_client(server)
        mark = proc.marker()
        call = client.start(client.sh("sleep " + mark))
        client.first_op(call)
        self.assertTrue(proc.wait_until(lambda: proc.with_argument(mark), 10))
        return server, mark

    def ended(self, server):
        code = server.process.wait(20)
        server.process = None
        return code

    def test_a_second_signal_ends_the_grace(self):
        path = os.path.join(env.fresh_dir("config"), "c")
        with open(path, "w", encoding="ascii") as f:
            f.write("stopGraceSeconds: 3600\n")
        server, mark = self.busy_server("--config=" + path)
        os.kill(server.pid, signal.SIGTERM)
        self.assertTrue(proc.wait_until(lambda: "serve: stopping" in server.log(), 10))
        self.assertTrue(proc.with_argument(mark))
        os.kill(server.pid, signal.SIGINT)
        self.assertEqual(0, self.ended(server))
        self.assertEqual([], proc.with_argument(mark))

    def test_without_grace(self):
        path = os.path.join(env.fresh_dir("config"), "c")
        with open(path, "w", encoding="ascii") as f:
            f.write("stopGraceSeconds: 0\n")
        server, mark = self.busy_server("--config=" + path)
        began = time.monotonic()
        os.kill(server.pid, signal.SIGHUP)
        self.assertEqual(0, self.ended(server))
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual([], proc.with_argument(mark))
