# SPDX-License-Identifier: Apache-2.0
"""Case: a TestCase with a running server, shared by all cases of one module that want the same flags."""

import contextlib
import unittest

import grpc

from . import client as clients
from .server import Server

# What a server that MAY refuse an input answers when it does.
BAD_INPUT = (clients.INVALID_ARGUMENT, clients.FAILED_PRECONDITION)

_shared = {}


def slow(test):
    """Marks a test that takes more than about five seconds; it runs with --slow only."""
    test.bj_slow = True
    return test


class Case(unittest.TestCase):
    """
    self.server is running and self.client talks to it. A server that died is a failure of the test
    during which it died; the next test gets a new one.
    """

    server_flags = ()
    server_config = {}
    longMessage = True
    maxDiff = None

    def setUp(self):
        self.server, self.client = shared_server(
            type(self).__module__, tuple(self.server_flags), self.server_config)

    def tearDown(self):
        if not self.server.is_alive():
            code = self.server.process.returncode if self.server.process else None
            self.fail("the server died (status %s):\n%s" % (code, self.server.log_tail()))

    def new_server(self, *flags, **options):
        """A server of this test alone, started; killed at the end of the test if it still runs."""
        server = Server(*flags, **options)
        self.addCleanup(server.kill)
        return server.start()

    def new_client(self, server=None, **options):
        client = clients.Client((server or self.server).address, **options)
        self.addCleanup(client.close)
        return client

    # ---- assertions ----

    def assert_ran(self, outcome, exit_code=0):
        """Status OK and this exit code."""
        self.assertEqual(clients.OK, outcome.code, outcome)
        self.assertEqual(exit_code, outcome.exit_code, outcome)
        return outcome

    def run_sh(self, script, exit_code=0, client=None, **fields):
        """Runs a shell script as an action, which must end with @exit_code. Return: Outcome."""
        return self.assert_ran((client or self.client).run(script, **fields), exit_code)

    def assert_refused(self, outcome, *words, codes=BAD_INPUT):
        """An error of @codes, no blob claimed to be missing, every one of @words in the text."""
        self.assertIn(outcome.code, codes, outcome)
        self.assertEqual([], outcome.missing, outcome)
        for word in words:
            self.assertIn(word, outcome.text, outcome)
        self.assertFalse(outcome.result is not None and outcome.result.output_files, outcome)

    @contextlib.contextmanager
    def assert_code(self, *codes, words=()):
        """The block raises an RpcError with one of @codes whose text holds every one of @words."""
        try:
            yield
        except grpc.RpcError as error:
            self.assertIn(clients.code_of(error), codes, error.details())
            for word in words:
                self.assertIn(word, error.details())
        else:
            self.fail("OK, where a code of %s is due" % (codes,))

    def assert_serving(self):
        """The server still does its work: a blob goes in and out."""
        self.assertEqual(b"alive", self.client.read(self.client.put(b"alive")))


def shared_server(module, flags, config):
    """(Server, Client) for a module and settings; started on first use, stopped after the module."""
    key = (module, flags, tuple(sorted(config.items())))
    if key not in _shared or not _shared[key][0].is_alive():
        if key in _shared:
            _shared.pop(key)[1].close()
        server = Server(*flags, config=config).start()
        _shared[key] = (server, clients.Client(server.address))
    return _shared[key]


def stop_shared(module):
    """Stops the module's servers. Return: [text] of what went wrong; SIGTERM must give exit status 0."""
    errors = []
    for key in [k for k in _shared if k[0] == module]:
        server, client = _shared.pop(key)
        client.close()
        if not server.is_alive():
            continue  # the test that saw it die has failed
        try:
            server.stop()
        except AssertionError as error:
            errors.append(str(error))
    return errors
