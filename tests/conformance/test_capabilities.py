# SPDX-License-Identifier: Apache-2.0
"""Service Capabilities, the health service, and what a server says to methods that it lacks."""

import grpc

from bjtest import client as c
from bjtest.case import Case
from bjtest.stubs import BLAKE3, ZSTD, re_pb

SHA256 = re_pb.DigestFunction.SHA256
HEALTH = "/grpc.health.v1.Health/Check"


class Capabilities(Case):

    def setUp(self):
        super().setUp()
        self.caps = self.client.get_capabilities()
        self.cache = self.caps.cache_capabilities
        self.exec = self.caps.execution_capabilities

    def test_versions(self):
        """design §7: low 2.0; high 2.3 first. Bazel 4.2.3 speaks 2.0 and takes no deprecation well."""
        low, high = self.caps.low_api_version, self.caps.high_api_version
        self.assertEqual((2, 0), (low.major, low.minor))
        self.assertEqual((2, 3), (high.major, high.minor))
        self.assertFalse(low.prerelease or high.prerelease)
        deprecated = self.caps.deprecated_api_version
        self.assertLessEqual((deprecated.major, deprecated.minor), (2, 0))

    def test_digest_functions(self):
        self.assertEqual(SHA256, self.exec.digest_function)
        self.assertIn(SHA256, self.cache.digest_function)
        if self.exec.digest_functions:
            self.assertIn(self.exec.digest_function, self.exec.digest_functions)

    def test_execution_enabled(self):
        self.assertTrue(self.exec.exec_enabled)

    def test_update_enabled(self):
        self.assertTrue(self.cache.action_cache_update_capabilities.update_enabled)

    def test_priorities(self):
        """Priority 0, the default, lies in a published range; ranges are not empty."""
        for what in (self.cache.cache_priority_capabilities, self.exec.execution_priority_capabilities):
            ranges = [(r.min_priority, r.max_priority) for r in what.priorities]
            self.assertTrue(any(low <= 0 <= high for low, high in ranges), ranges)
            self.assertTrue(all(low <= high for low, high in ranges), ranges)

    def test_symlink_strategy(self):
        self.assertIn(self.cache.symlink_absolute_path_strategy,
                      (re_pb.SymlinkAbsolutePathStrategy.ALLOWED,
                       re_pb.SymlinkAbsolutePathStrategy.DISALLOWED))

    def test_L110_batch_size(self):
        """A client receives 4 MiB by default, so the advertised size must leave room for framing."""
        self.assertGreater(self.cache.max_batch_total_size_bytes, 1 << 20)
        self.assertLessEqual(self.cache.max_batch_total_size_bytes, c.MESSAGE_LIMIT)

    def test_split_not_announced(self):
        self.assertFalse(self.cache.split_blob_support or self.cache.splice_blob_support)

    def test_L111_instances(self):
        """Any instance name with legal segments is answered; a reserved keyword is no segment."""
        for name in ("", "a", "a/b/c", "main"):
            with self.subTest(instance=name):
                caps = self.new_client(instance=name).get_capabilities()
                self.assertTrue(caps.execution_capabilities.exec_enabled)
        for name in ("blobs", "a/uploads", "actions/x", "actionResults", "operations", "capabilities",
                     "compressed-blobs", "a/blobs/b", "/a", "a/", "a//b"):
            with self.subTest(instance=name), self.assert_code(c.INVALID_ARGUMENT):
                self.new_client(instance=name).get_capabilities()

    def test_L112_only_what_is_announced(self):
        """BLAKE3 unless announced: INVALID_ARGUMENT, from every method that has the field."""
        if BLAKE3 in self.cache.digest_function:
            return
        hello = self.client.put(b"hello\n")
        calls = {
            "FindMissing": lambda: self.client.cas.FindMissingBlobs(re_pb.FindMissingBlobsRequest(
                blob_digests=[hello], digest_function=BLAKE3), timeout=c.DEADLINE),
            "BatchUpdate": lambda: self.client.cas.BatchUpdateBlobs(re_pb.BatchUpdateBlobsRequest(
                digest_function=BLAKE3), timeout=c.DEADLINE),
            "BatchRead": lambda: self.client.cas.BatchReadBlobs(re_pb.BatchReadBlobsRequest(
                digests=[hello], digest_function=BLAKE3), timeout=c.DEADLINE),
            "GetTree": lambda: list(self.client.cas.GetTree(re_pb.GetTreeRequest(
                root_digest=hello, digest_function=BLAKE3), timeout=c.DEADLINE)),
            "GetActionResult": lambda: self.client.ac.GetActionResult(re_pb.GetActionResultRequest(
                action_digest=hello, digest_function=BLAKE3), timeout=c.DEADLINE),
            "UpdateActionResult": lambda: self.client.ac.UpdateActionResult(
                re_pb.UpdateActionResultRequest(
                    action_digest=hello, digest_function=BLAKE3,
                    action_result=re_pb.ActionResult(exit_code=1)), timeout=c.DEADLINE),
            "Execute": lambda: list(self.client.start(hello, digest_function=BLAKE3)),
            "Read": lambda: self.client.read_name("blobs/blake3/%s/6" % hello.hash),
            "Write": lambda: self.client.write(
                "uploads/6f1b1e0a-7f5e-4a1c-9b53-3f2f1d2c3b4a/blobs/blake3/%s/6" % hello.hash, b"hello\n"),
        }
        for name, call in calls.items():
            with self.subTest(method=name), self.assert_code(c.INVALID_ARGUMENT):
                call()

    def test_sha256_may_be_named(self):
        hello = self.client.put(b"hello\n")
        reply = self.client.cas.FindMissingBlobs(re_pb.FindMissingBlobsRequest(
            blob_digests=[hello], digest_function=SHA256), timeout=c.DEADLINE)
        self.assertEqual([], list(reply.missing_blob_digests))

    def test_compressors(self):
        """Only what is known; identity need not be listed."""
        for value in list(self.cache.supported_compressors) + \
                list(self.cache.supported_batch_update_compressors):
            self.assertIn(value, (0, ZSTD))

    def test_unknown_methods(self):
        for method in ("/build.bazel.remote.execution.v2.ContentAddressableStorage/SplitBlob",
                       "/build.bazel.remote.execution.v2.Execution/Nothing", "/no.such.Service/Method"):
            with self.subTest(method=method), self.assert_code(c.UNIMPLEMENTED):
                self.client.raw(method, b"")

    def test_health(self):
        """grpc.health.v1: status SERVING (1) for the server as a whole; NOT_FOUND for what is not there."""
        self.assertEqual(b"\x08\x01", self.client.raw(HEALTH, b""))
        with self.assert_code(c.NOT_FOUND):
            self.client.raw(HEALTH, b"\x0a\x0cno.such.Name")

    def test_large_metadata_harms_nobody(self):
        """A header above the limit fails its own call or connection, no other client's."""
        other = self.new_client()
        try:
            other.channel.unary_unary(HEALTH)(b"", timeout=c.DEADLINE, metadata=[("x-big", "y" * 200000)])
        except grpc.RpcError:
            pass
        self.assert_serving()
