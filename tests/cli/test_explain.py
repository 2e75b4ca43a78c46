# SPDX-License-Identifier: Apache-2.0
"""`belljar explain` against a running server."""

import json
import os
import socket

from test_general import belljar

from bjtest.case import Case
from bjtest.stubs import re_pb

NOTHING, SHOWN = 0, 3


def request_metadata(target, mnemonic="Test", invocation="inv-1"):
    message = re_pb.RequestMetadata(
        target_id=target, action_mnemonic=mnemonic, tool_invocation_id=invocation)
    return [("build.bazel.remote.execution.v2.requestmetadata-bin", message.SerializeToString())]


class Explain(Case):

    def setUp(self):
        super().setUp()
        self.server = self.new_server()
        self.client = self.new_client()

    def explain(self, *flags, code=SHOWN):
        done = belljar("explain", "--server=" + self.server.address, *flags)
        self.assertEqual((code, ""), (done.returncode, done.stderr), done.stdout)
        return done.stdout

    def records(self, *flags, code=SHOWN):
        return json.loads(self.explain("--json", *flags, code=code))

    def leave(self, name, target, **metadata):
        """An action that leaves an undeclared file. Return: its digest's hash."""
        action = self.client.sh("echo x > " + name)
        self.assert_ran(self.client.execute(action, metadata=request_metadata(target, **metadata)))
        return action.hash

    def test_nothing_yet(self):
        self.assertEqual([], self.records(code=NOTHING))
        self.assertIn("nothing to show", self.explain(code=NOTHING))
        self.run_sh("true")
        self.assertEqual([], self.records(code=NOTHING))

    def test_a_record_in_full(self):
        hash_ = self.leave("left", "//p:t", mnemonic="Genrule", invocation="inv-7")
        record, = self.records()
        expected = {"kind": "undeclared_output", "target": "//p:t", "mnemonic": "Genrule",
                    "invocation": "inv-7", "exit_code": 0, "cached": False, "on_host": False,
                    "in_workspace": False, "enforced": False, "size_bytes": 2, "zone": "input_root",
                    "ignore_list": "ignore.write", "resolved": "/exec/left"}
        self.assertEqual(expected, {key: record[key] for key in expected})
        self.assertTrue(record["action"].startswith(hash_ + "/"), record)
        self.assertIn("$TMPDIR", record["fix"])
        text = self.explain()
        for part in ("//p:t\n", "  Genrule %s, exit 0" % hash_[:16], "undeclared_output: made left",
                     "size:      2 bytes", "silence:   sandbox.ignore.write"):
            self.assertIn(part, text)
        self.assertNotIn("\033", text)

    def test_newest_last_and_by_target(self):
        self.leave("a1", "//p:a")
        self.leave("b1", "//p:b")
        self.leave("a2", "//p:a")
        self.assertEqual(["b1", "a1", "a2"],
                         [os.path.basename(r["path"]) for r in self.records()])
        text = self.explain()
        self.assertLess(text.index("//p:b\n"), text.index("//p:a\n"))
        self.assertEqual(1, text.count("//p:a\n"))

    def test_filters(self):
        first = self.leave("one", "//p:a", mnemonic="M1", invocation="inv-1")
        self.leave("two", "//p:b", mnemonic="M2", invocation="inv-2")
        self.leave("three", "//p:b", mnemonic="M1", invocation="inv-2")
        for flags, names in (
                (["--target=//p:b"], ["two", "three"]),
                (["--mnemonic=M1"], ["one", "three"]),
                (["--target=//p:b", "--mnemonic=M1"], ["three"]),
                (["--invocation=inv-1"], ["one"]),
                (["--last-build"], ["two", "three"]),
                ([first[:10]], ["one"])):
            with self.subTest(flags):
                self.assertEqual(names, [os.path.basename(r["path"]) for r in self.records(*flags)])
        self.assertEqual([], self.records("--target=//p", code=NOTHING))
        self.assertEqual([], self.records("--", "ffffffffffffffff" * 4, code=NOTHING))

    def test_all_shows_the_innocent_too(self):
        self.assert_ran(self.client.execute(self.client.sh("true"), metadata=request_metadata("//p:ok")))
        record, = self.records("--all", code=NOTHING)
        self.assertEqual((None, "//p:ok"), (record["kind"], record["target"]))
        self.assertIn("kept to what it declares", self.explain("--all", code=NOTHING))
        record, = self.records(record["action"][:8], code=NOTHING)
        self.assertEqual("//p:ok", record["target"])

    def test_hostile_names(self):
        self.leave("'a\033[31m\nb'", "//p:\033]0;t\007")
        text = self.explain()
        self.assertTrue(all(ch >= " " or ch == "\n" for ch in text), ascii(text))
        record, = self.records()
        self.assertNotIn("\033", record["path"])

    def test_scheme_is_taken_as_bazel_has_it(self):
        done = belljar("explain", "--server=grpc://" + self.server.address)
        self.assertEqual(NOTHING, done.returncode, done.stderr)

    def test_no_server(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % free.getsockname()[1]
        done = belljar("explain", "--server=" + address)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn(address, done.stderr)
        self.assertIn("--server=ADDR", done.stderr)
