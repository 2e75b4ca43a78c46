# SPDX-License-Identifier: Apache-2.0
"""`belljar serve` as a process: where it listens, how it stops, what it says when it cannot start."""

import os
import signal
import socket
import subprocess

from bjtest import client as c
from bjtest import env, proc
from bjtest.case import Case
from bjtest.server import Server
from bjtest.stubs import re_pb

BELLJAR = os.path.join(env.BIN, "belljar")


class Serve(Case):

    def refused(self, *arguments):
        """Runs `serve` with arguments that must end it soon. Return: (exit status, what it printed)."""
        done = subprocess.run([BELLJAR, "serve"] + list(arguments), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30, check=False)
        self.assertNotEqual(0, done.returncode, done.stdout)
        self.assertGreater(done.returncode, 0, "ended by a signal: " + done.stdout)
        return done.returncode, done.stdout

    def store(self):
        return "--store=" + env.fresh_dir("serve")

    def test_unix_socket(self):
        path = os.path.join(env.fresh_dir("sock"), "s")
        server = subprocess.Popen([BELLJAR, "serve", "--listen=unix:" + path, self.store()],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            client = c.Client("unix:" + path)
            caps = client.capabilities.GetCapabilities(
                re_pb.GetCapabilitiesRequest(), timeout=30, wait_for_ready=True)
            client.close()
            self.assertTrue(caps.execution_capabilities.exec_enabled)
        finally:
            server.terminate()
            self.assertEqual(0, server.wait(30))

    def test_not_loopback_needs_insecure(self):
        """design §7."""
        for address in ("0.0.0.0:0", "[::]:0"):
            _, text = self.refused("--listen=" + address, self.store())
            self.assertIn("--insecure", text)
        server = self.new_server("--listen=0.0.0.0:0", "--insecure")
        self.run_sh("true", client=self.new_client(server))

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            _, text = self.refused("--listen=" + address, self.store())
        self.assertIn(address, text)

    def test_bad_arguments(self):
        """Each names what it does not know."""
        for argument in ("--no-such-flag", "--slots=x", "--slots=0", "--slots=-1", "--listen=nowhere",
                         "--listen=127.0.0.1:99999", "--config=/no/such/file", "stray"):
            with self.subTest(argument):
                code, text = self.refused("--listen=127.0.0.1:0", self.store(), argument)
                self.assertIn(code, (1, 2))
                self.assertIn(argument.split("=")[-1].lstrip("-"), text)

    def test_store_that_cannot_be(self):
        path = os.path.join(env.fresh_dir("file"), "f")
        with open(path, "w", encoding="ascii"):
            pass
        _, text = self.refused("--listen=127.0.0.1:0", "--store=" + path)
        self.assertIn(path, text)

    def test_stops_on_each_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                server = self.new_server()
                self.run_sh("true", client=self.new_client(server))
                os.kill(server.pid, number)
                self.assertEqual(0, server.process.wait(30))
                server.process = None

    def test_stop_does_not_wait_for_idle_clients(self):
        """Open connections and streams end; the server does not hang on them."""
        server = self.new_server(config={"stopGraceSeconds": 1})
        client = self.new_client(server)
        client.get_capabilities()
        call = client.start(client.sh("sleep " + proc.marker()))
        client.first_op(call)
        server.stop()

    def test_ten_starts(self):
        """Nothing is left that a later start would stumble over."""
        server = Server()
        self.addCleanup(server.kill)
        for number in range(10):
            client = c.Client(server.start().address)
            self.assert_ran(client.run("true"))
            client.close()
            (server.kill if number % 2 else server.stop)()

    def test_store_inside_is_private(self):
        """No other user of the machine reads the store."""
        self.assertEqual(0, os.stat(self.server.store).st_mode & 0o077)
