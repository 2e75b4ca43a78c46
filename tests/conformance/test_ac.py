# SPDX-License-Identifier: Apache-2.0
"""Service ActionCache, and what Execute does with its entries."""

import os

from bjtest import client as c
from bjtest.case import Case
from bjtest.stubs import re_pb
from bjtest.tree import EMPTY, HELLO, digest_of
from test_cas import BAD_DIGESTS


class Update(Case):

    def new_action(self):
        """An uploaded Action that prints `real`."""
        return self.client.sh("echo real; echo real > f", outputs=["f"])

    def result(self, **fields):
        """An ActionResult of a client's making, its blob uploaded."""
        result = re_pb.ActionResult(**fields)
        data = os.urandom(30)
        result.output_files.add(path="f", digest=self.client.put(data))
        return result

    def assert_not_served(self, action, result):
        """Either the update is refused, or the entry is NOT_FOUND afterwards."""
        try:
            self.client.update_result(action, result)
        except c.grpc.RpcError as error:
            self.assertIn(c.code_of(error), (c.INVALID_ARGUMENT, c.FAILED_PRECONDITION), error.details())
        self.assertIsNone(self.client.get_result(action))

    def test_round_trip(self):
        action = self.new_action()
        result = self.result(exit_code=0, stdout_digest=self.client.put(b"out\n"),
                             execution_metadata=re_pb.ExecutedActionMetadata(worker="me"))
        result.output_symlinks.add(path="l", target="f")
        tree = re_pb.Tree()
        tree.root.files.add(name="x", digest=self.client.put(HELLO))
        result.output_directories.add(path="d", tree_digest=self.client.put_msg(tree))
        self.assertEqual(result, self.client.update_result(action, result))
        self.assertEqual(result, self.client.get_result(action))

    def test_unknown_action(self):
        with self.assert_code(c.NOT_FOUND):
            self.client.ac.GetActionResult(
                re_pb.GetActionResultRequest(action_digest=digest_of(os.urandom(9))), timeout=c.DEADLINE)

    def test_replaced(self):
        action = self.new_action()
        first, second = self.result(), self.result()
        self.client.update_result(action, first)
        self.client.update_result(action, second)
        self.assertEqual(second.output_files, self.client.get_result(action).output_files)

    def test_instances_do_not_share(self):
        """design §3.1: clients of one instance trust each other's results; instances don't."""
        action = self.new_action()
        self.client.update_result(action, self.result())
        self.assertIsNone(self.new_client(instance="other").get_result(action))

    def test_L94_empty_entry(self):
        self.assert_not_served(self.new_action(), re_pb.ActionResult())

    def test_L108_bad_action_digest(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what):
                with self.assert_code(c.INVALID_ARGUMENT):
                    self.client.get_result(digest)
                with self.assert_code(c.INVALID_ARGUMENT):
                    self.client.update_result(digest, self.result())

    def test_missing_fields(self):
        with self.assert_code(c.INVALID_ARGUMENT, words=["action_digest"]):
            self.client.ac.GetActionResult(re_pb.GetActionResultRequest(), timeout=c.DEADLINE)
        with self.assert_code(c.INVALID_ARGUMENT, words=["action_digest"]):
            self.client.ac.UpdateActionResult(re_pb.UpdateActionResultRequest(
                action_result=self.result()), timeout=c.DEADLINE)
        with self.assert_code(c.INVALID_ARGUMENT, words=["action_result"]):
            self.client.ac.UpdateActionResult(re_pb.UpdateActionResultRequest(
                action_digest=self.new_action()), timeout=c.DEADLINE)

    def test_L108_bad_digest_in_the_result(self):
        for what, digest in BAD_DIGESTS.items():
            if what == "nothing":
                continue  # an unset digest: covered by the next test
            with self.subTest(what):
                action = self.new_action()
                result = re_pb.ActionResult()
                result.output_files.add(path="f", digest=digest)
                words = [] if "NUL" in what else ["output_files"]  # a string with NUL: no message at all
                with self.assert_code(c.INVALID_ARGUMENT, words=words):
                    self.client.update_result(action, result)
                self.assertIsNone(self.client.get_result(action))

    def test_output_without_digest(self):
        result = re_pb.ActionResult()
        result.output_files.add(path="f")
        self.assert_not_served(self.new_action(), result)

    def test_absent_output_is_not_served(self):
        """GetActionResult SHOULD ensure that what the result refers to is there: each place in turn."""
        absent = digest_of(os.urandom(9))
        file_, out, err, tree, inner = (re_pb.ActionResult(exit_code=0) for _ in range(5))
        file_.output_files.add(path="f", digest=absent)
        out.stdout_digest.CopyFrom(absent)
        err.stderr_digest.CopyFrom(absent)
        tree.output_directories.add(path="d", tree_digest=absent)
        message = re_pb.Tree()
        child = re_pb.Directory()
        child.files.add(name="x", digest=absent)
        message.root.directories.add(name="s", digest=digest_of(child.SerializeToString()))
        message.children.append(child)
        inner.output_directories.add(path="d", tree_digest=self.client.put_msg(message))
        for what, result in (("file", file_), ("stdout", out), ("stderr", err), ("tree", tree),
                             ("file in a tree", inner)):
            with self.subTest(what):
                self.assert_not_served(self.new_action(), result)

    def test_L107_empty_outputs_are_present(self):
        action = self.new_action()
        result = re_pb.ActionResult(exit_code=0, stdout_digest=EMPTY)
        result.output_files.add(path="f", digest=EMPTY)
        self.client.update_result(action, result)
        self.assertEqual(result.output_files, self.client.get_result(action).output_files)

    def test_tree_that_is_none(self):
        result = re_pb.ActionResult()
        result.output_directories.add(path="d", tree_digest=self.client.put(b"\xff\xff not a Tree"))
        self.assert_not_served(self.new_action(), result)

    def test_not_served_to_execute(self):
        """design §3.3: what a client uploads goes to GetActionResult, not to Execute."""
        action = self.new_action()
        self.client.update_result(action, self.result())
        outcome = self.assert_ran(self.client.execute(action))
        self.assertFalse(outcome.response.cached_result)
        self.assertEqual(b"real\n", outcome.file("f"))

    def test_L91_failure_from_a_client_is_not_served_to_execute(self):
        action = self.new_action()
        self.client.update_result(action, self.result(exit_code=1))
        outcome = self.assert_ran(self.client.execute(action))
        self.assertFalse(outcome.response.cached_result)

    def test_L95_execution_replaces_a_stale_entry(self):
        self.client.wait_caching()
        action = self.new_action()
        self.client.update_result(action, self.result())
        fresh = self.assert_ran(self.client.execute(action, skip_cache_lookup=True))
        self.assertEqual(b"real\n", fresh.file("f"))
        again = self.assert_ran(self.client.execute(action))
        self.assertTrue(again.response.cached_result)
        self.assertEqual(fresh.result.output_files, again.result.output_files)
        self.assertEqual(fresh.result.output_files, self.client.get_result(action).output_files)


class Inline(Case):
    """L84: only on request, and never instead of the digest."""

    def setUp(self):
        super().setUp()
        self.action = self.client.sh("echo out; echo err >&2; echo f > f; echo g > g", outputs=["f", "g"])

    def check(self, result, out=False, err=False, files=()):
        self.assertEqual(digest_of(b"out\n"), result.stdout_digest)
        self.assertEqual(digest_of(b"err\n"), result.stderr_digest)
        self.assertIn(result.stdout_raw, (b"out\n", b"") if out else (b"",))
        self.assertIn(result.stderr_raw, (b"err\n", b"") if err else (b"",))
        for file in result.output_files:
            wanted = file.path.encode() + b"\n"
            self.assertEqual(digest_of(wanted), file.digest)
            self.assertIn(file.contents, (wanted, b"") if file.path in files else (b"",))

    def test_L84_execute(self):
        self.check(self.assert_ran(self.client.execute(self.action)).result)
        for fields in ({"inline_stdout": True}, {"inline_stderr": True}, {"inline_output_files": ["f"]}):
            with self.subTest(fields=fields):
                outcome = self.client.execute(self.action, skip_cache_lookup=True, **fields)
                self.check(self.assert_ran(outcome).result, out="inline_stdout" in fields,
                           err="inline_stderr" in fields, files=fields.get("inline_output_files", ()))

    def test_L84_get_action_result(self):
        self.assert_ran(self.client.execute(self.action))
        self.check(self.client.get_result(self.action))
        self.check(self.client.get_result(self.action, inline_stdout=True), out=True)
        self.check(self.client.get_result(self.action, inline_stderr=True), err=True)
        self.check(self.client.get_result(self.action, inline_output_files=["f"]), files=["f"])
        self.check(self.client.get_result(self.action, inline_output_files=["nothing"]))


class Executed(Case):
    """Entries that Execute writes."""

    def setUp(self):
        super().setUp()
        self.client.wait_caching()

    def test_L94_never_an_empty_entry(self):
        action = self.client.sh("true")
        self.assert_ran(self.client.execute(action))
        result = self.client.get_result(action)
        self.assertGreater(result.ByteSize(), 0)
        self.assertNotEqual("", result.execution_metadata.worker)

    def test_L107_empty_output_hits_the_cache(self):
        """On a store to which nobody ever wrote the empty blob."""
        client = self.new_client(self.new_server())
        client.wait_caching()
        action = client.sh(": > f", outputs=["f"])
        first = self.assert_ran(client.execute(action))
        self.assertEqual(EMPTY, first.file_entry("f").digest)
        self.assertTrue(self.assert_ran(client.execute(action)).response.cached_result)
        self.assertIsNotNone(client.get_result(action))

    def test_L88_plain_then_cached(self):
        action = self.client.sh("cat /proc/sys/kernel/random/uuid > f", outputs=["f"])
        first = self.assert_ran(self.client.execute(action))
        second = self.assert_ran(self.client.execute(action))
        self.assertEqual((False, True), (first.response.cached_result, second.response.cached_result))
        self.assertEqual(first.file("f"), second.file("f"))
        self.assertEqual(c.re_pb.ExecutionStage.COMPLETED, second.stages[-1])

    def test_L88_do_not_cache(self):
        action = self.client.sh("cat /proc/sys/kernel/random/uuid > f", outputs=["f"], do_not_cache=True)
        first, second = (self.assert_ran(self.client.execute(action)) for _ in range(2))
        self.assertNotEqual(first.file("f"), second.file("f"))
        self.assertFalse(second.response.cached_result)
        self.assertIsNone(self.client.get_result(action))

    def test_L88_skip_cache_lookup(self):
        action = self.client.sh("cat /proc/sys/kernel/random/uuid > f", outputs=["f"])
        first = self.assert_ran(self.client.execute(action))
        skipped = self.assert_ran(self.client.execute(action, skip_cache_lookup=True))
        self.assertFalse(skipped.response.cached_result)
        self.assertNotEqual(first.file("f"), skipped.file("f"))
        third = self.assert_ran(self.client.execute(action))
        self.assertTrue(third.response.cached_result)
        self.assertEqual(skipped.file("f"), third.file("f"))

    def test_L90_failure_is_not_cached(self):
        action = self.client.sh("cat /proc/sys/kernel/random/uuid; exit 2")
        first, second = (self.assert_ran(self.client.execute(action), 2) for _ in range(2))
        self.assertFalse(second.response.cached_result)
        self.assertNotEqual(first.stdout, second.stdout)
        self.assertIsNone(self.client.get_result(action))

    def test_entry_survives_a_restart(self):
        server = self.new_server()
        client = self.new_client(server)
        client.wait_caching()
        action = client.sh("echo hi > f", outputs=["f"])
        first = self.assert_ran(client.execute(action))
        server.stop()
        server.start()
        client = self.new_client(server)
        client.wait_caching()
        self.assertEqual(first.result.output_files, client.get_result(action).output_files)
        self.assertEqual(b"hi\n", self.assert_ran(client.execute(action)).file("f"))
