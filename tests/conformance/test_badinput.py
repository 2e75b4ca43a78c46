# SPDX-License-Identifier: Apache-2.0
"""
What malformed requests get: the code that the spec names, the field in the text, and a server that goes
on. Messages that no library would write are made of wire bytes (bjtest.wire).
"""

import os
import random
import socket

import grpc

from bjtest import client as c
from bjtest import wire
from bjtest.case import BAD_INPUT, Case
from bjtest.stubs import re_pb
from bjtest.tree import HELLO, digest_of, raw_digest
from test_cas import BAD_DIGESTS

RE = "/build.bazel.remote.execution.v2."
BS = "/google.bytestream.ByteStream/"
UNARY = [RE + "Capabilities/GetCapabilities", RE + "ContentAddressableStorage/FindMissingBlobs",
         RE + "ContentAddressableStorage/BatchUpdateBlobs",
         RE + "ContentAddressableStorage/BatchReadBlobs",
         RE + "ActionCache/GetActionResult", RE + "ActionCache/UpdateActionResult", BS + "QueryWriteStatus"]
STREAMED = [RE + "ContentAddressableStorage/GetTree", RE + "Execution/Execute", RE + "Execution/WaitExecution",
            BS + "Read"]
EXECUTE = RE + "Execution/Execute"
# A field 1 that is cut short, a varint without end, a group, field number 0, a length beyond the end.
MALFORMED = [b"\x0a\xff", b"\x08" + b"\xff" * 11, b"\x0b\x0b\x0b", b"\x02\x01x",
             b"\x0a\xff\xff\xff\xff\x0f", b"\x0a", b"\x0d\x01", b"\x0a\x02\xff\xfe"]


class Wire(Case):

    def call(self, method, data):
        """The code of a call with @data as the request."""
        try:
            if method in UNARY:
                self.client.raw(method, data, timeout=20)
            elif method == BS + "Write":
                self.client.raw_upload(method, [data], timeout=20)
            else:
                self.client.raw_stream(method, data, timeout=20)
        except grpc.RpcError as error:
            return c.code_of(error)
        return c.OK

    def test_malformed_messages(self):
        for method in UNARY + STREAMED + [BS + "Write"]:
            for data in MALFORMED:
                with self.subTest(method=method, data=data):
                    self.assertEqual(c.INVALID_ARGUMENT, self.call(method, data))
        self.assert_serving()

    def test_random_bytes(self):
        """Whatever they mean, an answer comes, and it is not INTERNAL or UNKNOWN."""
        rand = random.Random(2)
        for method in UNARY + STREAMED + [BS + "Write"]:
            for _ in range(60):
                data = rand.randbytes(rand.choice((1, 3, 10, 40, 300)))
                with self.subTest(method=method, data=data):
                    code = self.call(method, data)
                    self.assertIn(code, (c.OK, c.INVALID_ARGUMENT, c.NOT_FOUND, c.OUT_OF_RANGE,
                                         c.FAILED_PRECONDITION, c.RESOURCE_EXHAUSTED))
        self.assert_serving()

    def test_mutated_requests(self):
        """A good Execute with one byte changed."""
        action = self.client.sh("true")
        good = re_pb.ExecuteRequest(action_digest=action, instance_name="a").SerializeToString()
        rand = random.Random(3)
        for _ in range(150):
            data = bytearray(good)
            data[rand.randrange(len(data))] = rand.randrange(256)
            with self.subTest(data=bytes(data)):
                self.assertNotIn(self.call(EXECUTE, bytes(data)), (2, c.INTERNAL, c.UNAVAILABLE, 4))
        self.assert_serving()

    def test_empty_messages(self):
        """Every request that needs a field names it; a list may be empty."""
        needs = {RE + "ActionCache/GetActionResult": "action_digest",
                 RE + "ActionCache/UpdateActionResult": "action_digest",
                 RE + "ContentAddressableStorage/GetTree": "root_digest",
                 EXECUTE: "action_digest", BS + "Read": "resource_name", BS + "Write": "resource_name",
                 BS + "QueryWriteStatus": "resource_name"}
        for method, field in needs.items():
            with self.subTest(method=method), self.assert_code(c.INVALID_ARGUMENT, words=[field]):
                if method in UNARY:
                    self.client.raw(method, b"")
                elif method == BS + "Write":
                    self.client.raw_upload(method, [b""])
                else:
                    self.client.raw_stream(method, b"")

    def test_message_above_the_limit(self):
        request = re_pb.FindMissingBlobsRequest(
            blob_digests=[digest_of(b"%d" % n) for n in range(80000)])
        self.assertGreater(request.ByteSize(), 5 << 20)
        with self.assert_code(c.RESOURCE_EXHAUSTED):
            self.client.cas.FindMissingBlobs(request, timeout=c.DEADLINE)
        self.assert_serving()

    def test_strings_with_nul_or_bad_utf8(self):
        """Not cut at the NUL: what stands before it names something that exists."""
        hello = self.client.put(HELLO)
        action = self.client.sh("true")
        self.assert_ran(self.client.execute(action))
        for tail in (b"\0", b"\0x", b"\xff", b"\xed\xa0\x80"):
            digest = wire.msg(wire.field(1, hello.hash.encode() + tail), wire.field(2, 6))
            act = wire.msg(wire.field(1, action.hash.encode() + tail), wire.field(2, action.size_bytes))
            name = ("blobs/%s/6" % hello.hash).encode() + tail
            upload = b"uploads/6f1b1e0a-7f5e-4a1c-9b53-3f2f1d2c3b4a/" + name
            cases = [
                (RE + "ContentAddressableStorage/FindMissingBlobs", wire.field(2, digest)),
                (RE + "ContentAddressableStorage/GetTree", wire.field(2, digest)),
                (RE + "ActionCache/GetActionResult", wire.field(2, act)),
                (RE + "ActionCache/GetActionResult",
                 wire.field(1, b"a" + tail) + wire.field(2, raw_action(action))),
                (RE + "Capabilities/GetCapabilities", wire.field(1, b"a" + tail)),
                (EXECUTE, wire.field(6, act)),
                (EXECUTE, wire.field(1, b"a" + tail) + wire.field(6, raw_action(action))),
                (BS + "Read", wire.field(1, name)),
                (BS + "QueryWriteStatus", wire.field(1, upload)),
                (BS + "Write", wire.msg(wire.field(1, upload), wire.field(3, 1), wire.field(10, HELLO))),
            ]
            for method, data in cases:
                with self.subTest(method=method, tail=tail):
                    self.assertEqual(c.INVALID_ARGUMENT, self.call(method, data))
            with self.subTest("WaitExecution", tail=tail):
                self.assertIn(self.call(RE + "Execution/WaitExecution", wire.field(1, b"nope" + tail)),
                              (c.INVALID_ARGUMENT, c.NOT_FOUND))

    def test_operation_name_is_not_cut_at_nul(self):
        call = self.client.start(self.client.sh("sleep 2"))
        name = self.client.first_op(call)[0].name
        self.assertIn(self.call(RE + "Execution/WaitExecution", wire.field(1, name.encode() + b"\0x")),
                      (c.INVALID_ARGUMENT, c.NOT_FOUND))
        call.cancel()


def raw_action(digest):
    return wire.msg(wire.field(1, digest.hash), wire.field(2, digest.size_bytes))


class Execute(Case):

    def run_action(self, raw):
        return self.client.execute(self.client.put(raw))

    def action_of(self, command_bytes):
        """An Action over the Command with these bytes and an empty root."""
        return self.client.execute(self.client.action([], command=self.client.put(command_bytes)))

    def test_L108_bad_action_digest(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what):
                outcome = self.client.finish(self.client.start(digest))
                self.assert_refused(outcome, codes=(c.INVALID_ARGUMENT,))

    def test_no_action_digest(self):
        outcome = self.client.finish(self.client.execution.Execute(re_pb.ExecuteRequest(), timeout=20))
        self.assert_refused(outcome, "action_digest", codes=(c.INVALID_ARGUMENT,))

    def test_action_without_digests(self):
        command = self.client.put_msg(re_pb.Command(arguments=["true"]))
        self.assert_refused(self.client.execute(self.client.put_msg(re_pb.Action(
            input_root_digest=digest_of(b"")))), "command_digest", codes=(c.INVALID_ARGUMENT,))
        self.assert_refused(self.client.execute(self.client.put_msg(re_pb.Action(
            command_digest=command))), "input_root_digest", codes=(c.INVALID_ARGUMENT,))

    def test_empty_action(self):
        """The empty blob is an Action without fields."""
        self.assert_refused(self.run_action(b""), "command_digest", codes=(c.INVALID_ARGUMENT,))

    def test_empty_command(self):
        self.assert_refused(self.action_of(b""), "arguments", codes=(c.INVALID_ARGUMENT,))

    def test_L108_bad_digests_inside(self):
        for what, digest in BAD_DIGESTS.items():
            if what == "nothing":
                continue
            def words(field, what=what):
                return [] if "NUL" in what else [field]  # a string with NUL: no message at all

            with self.subTest(what):
                action = re_pb.Action(command_digest=digest, input_root_digest=digest_of(b""))
                outcome = self.client.execute(self.client.put_msg(action))
                self.assert_refused(outcome, *words("command_digest"), codes=(c.INVALID_ARGUMENT,))
                command = self.client.put_msg(re_pb.Command(arguments=["true"]))
                action = re_pb.Action(command_digest=command, input_root_digest=digest)
                outcome = self.client.execute(self.client.put_msg(action))
                self.assert_refused(outcome, *words("input_root_digest"), codes=(c.INVALID_ARGUMENT,))

    def test_blobs_that_are_no_messages(self):
        for raw in MALFORMED:
            with self.subTest(raw=raw):
                self.assert_refused(self.run_action(raw), codes=(c.INVALID_ARGUMENT,))
                self.assert_refused(self.action_of(raw), codes=(c.INVALID_ARGUMENT,))

    def test_command_strings_with_nul_or_bad_utf8(self):
        """protobuf-c would cut them: refused, with the field named."""
        env = wire.msg(wire.field(1, b"A\0B"), wire.field(2, b"1"))
        value = wire.msg(wire.field(1, b"A"), wire.field(2, b"1\0002"))
        prop = wire.field(1, wire.msg(wire.field(1, b"sandbox.write\0x"), wire.field(2, b"scratch")))
        true = wire.field(1, b"/bin/true")
        cases = {
            "arguments": wire.field(1, b"/bin/true\0x"), "arguments, UTF-8": true + wire.field(1, b"\xff"),
            "environment_variables, name": true + wire.field(2, env),
            "environment_variables, value": true + wire.field(2, value),
            "output_files": true + wire.field(3, b"a\0b"),
            "output_directories": true + wire.field(4, b"a\0b"),
            "platform": true + wire.field(5, prop),
            "working_directory": true + wire.field(6, b"\0x"),
            "output_paths": true + wire.field(7, b"a\0b"),
            "output_paths, UTF-8": true + wire.field(7, b"\xff"),
        }
        for what, command in cases.items():
            with self.subTest(what):
                self.assert_refused(self.action_of(command), codes=(c.INVALID_ARGUMENT,))

    def test_action_platform_with_nul(self):
        command = self.client.put_msg(re_pb.Command(arguments=["/bin/true"]))
        prop = wire.field(1, wire.msg(wire.field(1, b"sandbox.write"), wire.field(2, b"scratch\0x")))
        raw = wire.msg(wire.field(1, raw_action(command)), wire.field(2, raw_digest(b"")),
                       wire.field(10, prop))
        self.assert_refused(self.run_action(raw), codes=(c.INVALID_ARGUMENT,))

    def test_L72_timeouts_that_are_none(self):
        """Negative, nanos out of range, signs that differ, beyond Duration's range."""
        command = self.client.put_msg(re_pb.Command(arguments=["/bin/true"]))
        for seconds, nanos in ((-1, 0), (0, -1), (1, 10**9), (1, -5), (2**62, 0), (-2**62, 0)):
            with self.subTest(seconds=seconds, nanos=nanos):
                timeout = wire.msg(*([wire.field(1, seconds)] if seconds else []),
                                   *([wire.field(2, nanos)] if nanos else []))
                raw = wire.msg(wire.field(1, raw_action(command)),
                               wire.field(2, wire.msg(wire.field(1, digest_of(b"").hash))),
                               wire.field(6, timeout), wire.field(9, os.urandom(6)))
                self.assert_refused(self.run_action(raw), "timeout", codes=(c.INVALID_ARGUMENT,))

    def test_unknown_fields_are_no_error(self):
        """Clients newer than the server add some."""
        command = re_pb.Command(arguments=["/bin/true"])
        raw = command.SerializeToString() + wire.field(500, b"new") + wire.field(501, 7)
        self.assert_ran(self.action_of(raw))
        request = re_pb.ExecuteRequest(action_digest=self.client.sh("true")).SerializeToString()
        self.assertTrue(self.client.raw_stream(EXECUTE, request + wire.field(500, b"new")))

    def test_huge_command(self):
        """3 MiB of environment: runs, or says that it is too large."""
        outcome = self.client.execute(self.client.action(["/bin/true"], environ={
            "V%03d" % n: "x" * 30000 for n in range(100)}))
        self.assertIn(outcome.code, (c.OK, c.RESOURCE_EXHAUSTED) + BAD_INPUT, outcome)
        self.assert_serving()

    def test_huge_action_blob(self):
        """64 MiB that claim to be an Action."""
        digest = self.client.put(b"\x4a" + wire.varint(64 << 20) + bytes(64 << 20))
        outcome = self.client.execute(digest)
        self.assertIn(outcome.code, (c.INVALID_ARGUMENT, c.RESOURCE_EXHAUSTED), outcome)
        self.assert_serving()

    def test_strange_request_metadata(self):
        """RequestMetadata that is none, and one with odd names: no reason to refuse or to fall over."""
        key = "build.bazel.remote.execution.v2.requestmetadata-bin"
        good = re_pb.RequestMetadata(tool_invocation_id="i\n\x1b[31m", action_id="x" * 3000)
        for value in (b"\xff\xff\xff", b"", good.SerializeToString(),
                      wire.field(2, b"a\0b") + wire.field(6, b"\xff")):
            with self.subTest(value=value[:20]):
                self.assert_ran(self.client.execute(self.client.sh("true"), metadata=[(key, value)]))


class Connections(Case):

    def test_bytes_that_are_no_http2(self):
        host, port = self.server.address.split(":")
        for junk in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(500), b"",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(99)):
            with socket.create_connection((host, int(port)), 5) as s:
                s.sendall(junk)
                s.settimeout(0.2)
                try:
                    s.recv(1000)
                except (socket.timeout, ConnectionError):
                    pass
        self.assert_serving()

    def test_many_connections(self):
        clients = [c.Client(self.server.address) for _ in range(100)]
        try:
            for client in clients:
                self.assertTrue(client.get_capabilities().execution_capabilities.exec_enabled)
        finally:
            for client in clients:
                client.close()
        self.assert_serving()
