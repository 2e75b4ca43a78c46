# SPDX-License-Identifier: Apache-2.0
"""Service ByteStream over the CAS: names, reads, writes, write status."""

import hashlib
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc

from bjtest import client as c
from bjtest.case import Case
from bjtest.proc import wait_until
from bjtest.stubs import ZSTD, bs_pb, re_pb
from bjtest.tree import EMPTY, HELLO, digest_of, digest_str, key

UUID = "6f1b1e0a-7f5e-4a1c-9b53-3f2f1d2c3b4a"
HELLO_STR = digest_str(digest_of(HELLO))
HASH = digest_of(HELLO).hash
BAD_BLOB_PARTS = [
    "", "/", "blobs", "blobs/", "blobs/" + HASH, "blobs/%s/" % HASH, "blobs/%s/x" % HASH,
    "blobs/%s/-6" % HASH, "blobs/%s/+6" % HASH, "blobs/%s/ 6" % HASH, "blobs/%s/6x" % HASH,
    "blobs/%s/99999999999999999999" % HASH, "blobs/%s/6" % HASH[:63], "blobs/%s/6" % HASH.upper(),
    "blobs/%s0/6" % HASH, "blobs/%s/6\0" % HASH, "blob/%s/6" % HASH, "blobs//%s/6" % HASH,
]


class Read(Case):

    def setUp(self):
        super().setUp()
        self.data = bytes(range(256)) * 20
        self.name = self.client.blob_name(self.client.put(self.data))

    def test_whole(self):
        self.assertEqual(self.data, self.client.read_name(self.name))

    def test_offset_and_limit(self):
        for offset, limit in ((0, 1), (1, 0), (5, 10), (5119, 1), (5119, 0), (5119, 100), (0, 5120),
                              (0, 5121), (0, 2**62)):
            with self.subTest(offset=offset, limit=limit):
                self.assertEqual(self.data[offset:offset + limit if limit else None],
                                 self.client.read_name(self.name, offset, limit))

    def test_offset_at_the_end(self):
        self.assertEqual(b"", self.client.read_name(self.name, len(self.data)))

    def test_offset_out_of_range(self):
        """bytestream.proto: negative, or greater than the size of the resource."""
        for offset in (len(self.data) + 1, -1, 2**62, -2**63):
            with self.subTest(offset=offset), self.assert_code(c.OUT_OF_RANGE):
                self.client.read_name(self.name, offset)

    def test_negative_limit(self):
        with self.assert_code(c.INVALID_ARGUMENT, c.OUT_OF_RANGE):
            self.client.read_name(self.name, 0, -1)

    def test_absent(self):
        with self.assert_code(c.NOT_FOUND):
            self.client.read(digest_of(os.urandom(9)))

    def test_size_is_part_of_the_name(self):
        with self.assert_code(c.NOT_FOUND):
            self.client.read_name("blobs/%s/5119" % digest_of(self.data).hash)

    def test_L105_empty_blob(self):
        self.assertEqual(b"", self.client.read(EMPTY))
        with self.assert_code(c.OUT_OF_RANGE):
            self.client.read_name(self.client.blob_name(EMPTY), 1)

    def test_L111_bad_names(self):
        self.client.put(HELLO)
        for name in BAD_BLOB_PARTS + ["a/blobs/b/blobs/" + HELLO_STR, "/blobs/" + HELLO_STR,
                                      "a//blobs/" + HELLO_STR, "blobs/%s/x" % HELLO_STR]:
            with self.subTest(name=name), self.assert_code(c.INVALID_ARGUMENT):
                self.client.read_name(name)

    def test_compressed_name_unannounced(self):
        if ZSTD in self.client.get_capabilities().cache_capabilities.supported_compressors:
            return
        self.client.put(HELLO)
        with self.assert_code(c.INVALID_ARGUMENT, c.UNIMPLEMENTED):
            self.client.read_name("compressed-blobs/zstd/" + HELLO_STR)

    def test_messages_fit_a_default_client(self):
        digest = self.client.put(os.urandom(9 << 20))
        sizes = [len(r.data) for r in self.client.bytestream.Read(
            bs_pb.ReadRequest(resource_name=self.client.blob_name(digest)), timeout=c.DEADLINE)]
        self.assertEqual(9 << 20, sum(sizes))
        self.assertLess(max(sizes), c.MESSAGE_LIMIT)

    def test_reader_that_leaves(self):
        """Streams that are dropped half way hold nothing up."""
        digest = self.client.put(os.urandom(9 << 20))
        for _ in range(20):
            call = self.client.bytestream.Read(
                bs_pb.ReadRequest(resource_name=self.client.blob_name(digest)), timeout=c.DEADLINE)
            next(call)
            call.cancel()
        self.assert_serving()


class Write(Case):

    def new_blob(self, n_bytes=100):
        data = os.urandom(n_bytes)
        return data, digest_of(data)

    def send(self, requests, timeout=20):
        """Write of hand-made WriteRequests. Return: committed_size."""
        return self.client.bytestream.Write(iter(requests), timeout=timeout).committed_size

    def request(self, name, offset, data, finish=False):
        return bs_pb.WriteRequest(resource_name=name, write_offset=offset, data=data, finish_write=finish)

    def assert_absent(self, digest):
        self.assertEqual({key(digest)}, self.client.find_missing([digest]))

    # ---- what must work ----

    def test_chunk_sizes(self):
        """1 byte to 4 MiB a message; a message of 4 MiB of data is a little larger than that."""
        for chunk, n_bytes in ((1, 3000), (17, 30000), (4096, 200000), (65536, 1 << 20),
                               (1 << 20, (3 << 20) + 1), (4 << 20, 9 << 20)):
            with self.subTest(chunk=chunk):
                data, digest = self.new_blob(n_bytes)
                self.assertEqual(n_bytes, self.client.write(self.client.upload_name(digest), data, chunk))
                self.assertEqual(data, self.client.read(digest))

    def test_hundred_megabytes(self):
        part = os.urandom(1 << 20)
        hasher = hashlib.sha256()
        for _ in range(100):
            hasher.update(part)
        digest = re_pb.Digest(hash=hasher.hexdigest(), size_bytes=100 << 20)
        name = self.client.upload_name(digest)
        requests = (self.request(name if n == 0 else "", n << 20, part, n == 99) for n in range(100))
        self.assertEqual(100 << 20, self.send(requests, 120))
        hasher = hashlib.sha256()
        for reply in self.client.bytestream.Read(
                bs_pb.ReadRequest(resource_name=self.client.blob_name(digest)), timeout=120):
            hasher.update(reply.data)
        self.assertEqual(digest.hash, hasher.hexdigest())

    def test_L105_empty_blob(self):
        self.assertEqual(0, self.client.write(self.client.upload_name(EMPTY), b""))

    def test_name_repeated_in_each_message(self):
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        self.assertEqual(100, self.send([self.request(name, 0, data[:50]),
                                         self.request(name, 50, data[50:], True)]))
        self.assertEqual(data, self.client.read(digest))

    def test_messages_without_data(self):
        """They tell the server that the client is alive; the last may carry finish_write alone."""
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        self.assertEqual(100, self.send([
            self.request(name, 0, b""), self.request("", 0, data[:60]), self.request("", 60, b""),
            self.request("", 60, data[60:]), self.request("", 100, b"", True)]))
        self.assertEqual(data, self.client.read(digest))

    def test_many_writers_of_one_blob(self):
        data, digest = self.new_blob(8 << 20)
        clients = [self.new_client() for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            sizes = list(pool.map(
                lambda one: one.write(one.upload_name(digest), data, 1 << 18), clients))
        self.assertEqual([8 << 20] * 8, sizes)
        self.assertEqual(data, self.client.read(digest))

    def test_writers_share_a_uuid(self):
        """A uuid may serve for several blobs."""
        for _ in range(2):
            data, digest = self.new_blob()
            self.client.write("uploads/%s/blobs/%s" % (UUID, digest_str(digest)), data)
            self.assertTrue(self.client.has(digest))

    def test_L111_names(self):
        for instance in ("x/y", ""):
            for suffix in ("/foo/bar", "", "/blobs/x"):
                with self.subTest(instance=instance, suffix=suffix):
                    data, digest = self.new_blob()
                    client = self.new_client(instance=instance)
                    self.assertEqual(100, client.write(client.upload_name(digest, suffix), data))
                    self.assertEqual(data, client.read(digest))

    # ---- early answers ----

    def answered_early(self, first):
        """committed_size of a Write whose stream stays open after @first."""
        hold = threading.Event()

        def requests():
            yield first
            hold.wait(30)

        call = self.client.bytestream.Write.future(requests(), timeout=25)
        try:
            return call.result(timeout=20).committed_size
        finally:
            hold.set()

    def test_L96_present_blob_is_answered_at_once(self):
        """OK with the full size, never ALREADY_EXISTS, however little was sent."""
        data, digest = self.new_blob(1000)
        self.client.put(data)
        self.assertEqual(1000, self.answered_early(
            self.request(self.client.upload_name(digest), 0, data[:10])))

    def test_L96_present_blob_sent_whole(self):
        data, digest = self.new_blob(3 << 20)
        self.client.put(data)
        for chunk in (1 << 16, 1 << 20):
            self.assertEqual(3 << 20, self.client.write(self.client.upload_name(digest), data, chunk))

    def test_L96_empty_blob_at_once(self):
        self.assertEqual(0, self.answered_early(self.request(self.client.upload_name(EMPTY), 0, b"")))

    # ---- wrong data ----

    def test_L103_wrong_bytes(self):
        data, digest = self.new_blob()
        with self.assert_code(c.INVALID_ARGUMENT, words=[digest.hash]):
            self.client.write(self.client.upload_name(digest), data[:-1] + bytes([data[-1] ^ 1]))
        self.assert_absent(digest)

    def test_L103_wrong_size(self):
        data, digest = self.new_blob()
        for size in (99, 101, 0, 1 << 40):
            with self.subTest(size=size):
                wrong = re_pb.Digest(hash=digest.hash, size_bytes=size)
                with self.assert_code(c.INVALID_ARGUMENT):
                    self.client.write(self.client.upload_name(wrong), data)
                self.assert_absent(wrong)
        self.assert_absent(digest)

    def test_too_much_is_refused_on_the_way(self):
        """The first byte too many ends it; the client need not send a gigabyte to hear of it."""
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        hold = threading.Event()

        def requests():
            yield self.request(name, 0, data + b"x")
            hold.wait(30)

        try:
            with self.assert_code(c.INVALID_ARGUMENT):
                self.client.bytestream.Write(requests(), timeout=20)
        finally:
            hold.set()
        self.assert_absent(digest)

    def test_unfinished(self):
        """Half-closed without finish_write: not complete, and never said to be."""
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        for sent in (data[:60], data):
            with self.subTest(sent=len(sent)):
                try:
                    committed = self.send([self.request(name, 0, sent)])
                    self.assertLessEqual(committed, len(sent))
                except grpc.RpcError as error:
                    self.assertIn(c.code_of(error), (c.INVALID_ARGUMENT, c.CANCELLED, c.FAILED_PRECONDITION,
                                                     c.OUT_OF_RANGE))
                self.assert_absent(digest)
                self.assertFalse(self.client.write_status(name).complete)

    def test_nothing_sent(self):
        with self.assert_code(c.INVALID_ARGUMENT):
            self.send([])

    def test_no_name(self):
        with self.assert_code(c.INVALID_ARGUMENT, words=["resource_name"]):
            self.send([self.request("", 0, HELLO, True)])

    def test_name_changes(self):
        data, digest = self.new_blob()
        with self.assert_code(c.INVALID_ARGUMENT):
            self.send([self.request(self.client.upload_name(digest), 0, data[:50]),
                       self.request(self.client.upload_name(digest), 50, data[50:], True)])
        self.assert_absent(digest)

    def test_offsets_that_do_not_follow(self):
        data, digest = self.new_blob()
        for second in (49, 51, 0, -1, 2**62):
            with self.subTest(second=second):
                with self.assert_code(c.INVALID_ARGUMENT, c.OUT_OF_RANGE):
                    self.send([self.request(self.client.upload_name(digest), 0, data[:50]),
                               self.request("", second, data[50:], True)])
                self.assert_absent(digest)

    def test_L99_first_offset(self):
        """Neither 0 nor what was committed: an error, and the blob stays absent."""
        data, digest = self.new_blob()
        for offset in (3, -1, 100, 2**62):
            with self.subTest(offset=offset):
                with self.assert_code(c.INVALID_ARGUMENT, c.OUT_OF_RANGE):
                    self.send([self.request(self.client.upload_name(digest), offset, data[:50], True)])
                self.assert_absent(digest)

    def test_L99_restart_at_zero(self):
        """After a stream that broke, the same resource name starts again at 0."""
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        for _ in range(3):
            self.break_off(name, data[:5])
        self.assertEqual(100, self.client.write(name, data))
        self.assertEqual(data, self.client.read(digest))

    def test_L99_restart_inside(self):
        """From offset 3 with at most 5 committed: an error, blob absent; then from 0 it works."""
        data, digest = self.new_blob()
        name = self.client.upload_name(digest)
        self.break_off(name, data[:5])
        with self.assert_code(c.INVALID_ARGUMENT, c.OUT_OF_RANGE):
            self.send([self.request(name, 3, data[3:], True)])
        self.assert_absent(digest)
        self.assertEqual(100, self.client.write(name, data))

    def break_off(self, name, data):
        """Sends @data and then cancels the call."""
        sent, hold = threading.Event(), threading.Event()

        def requests():
            yield self.request(name, 0, data)
            sent.set()
            hold.wait(30)

        call = self.client.bytestream.Write.future(requests(), timeout=25)
        sent.wait(10)
        call.cancel()
        hold.set()
        with self.assertRaises(grpc.FutureCancelledError):
            call.result(timeout=10)

    def test_after_finish(self):
        """What follows finish_write is an error or unread; the finished blob stays what it is."""
        data, digest = self.new_blob()
        try:
            self.assertEqual(100, self.send([self.request(self.client.upload_name(digest), 0, data, True),
                                             self.request("", 100, b"more", True)]))
        except grpc.RpcError as error:
            self.assertEqual(c.INVALID_ARGUMENT, c.code_of(error))
        if self.client.has(digest):
            self.assertEqual(data, self.client.read(digest))

    def test_L111_bad_names(self):
        for part in BAD_BLOB_PARTS:
            name = "uploads/%s/%s" % (UUID, part)
            with self.subTest(name=name), self.assert_code(c.INVALID_ARGUMENT):
                self.client.write(name, HELLO)
        for name in ("a/blobs/b/uploads/%s/blobs/%s" % (UUID, HELLO_STR), "blobs/" + HELLO_STR,
                     "uploads/blobs/" + HELLO_STR, "/uploads/%s/blobs/%s" % (UUID, HELLO_STR),
                     "uploads//blobs/" + HELLO_STR, "actions/uploads/%s/blobs/%s" % (UUID, HELLO_STR)):
            with self.subTest(name=name), self.assert_code(c.INVALID_ARGUMENT):
                self.client.write(name, HELLO)

    def test_writers_that_leave(self):
        """50 uploads broken off by a lost connection: the blob stays absent, the server goes on."""
        data, digest = self.new_blob(1 << 20)
        before = self.bytes_in_store()
        for _ in range(50):
            client = c.Client(self.server.address)
            hold = threading.Event()

            def requests(client=client, hold=hold):
                yield self.request(client.upload_name(digest), 0, data[:1000])
                hold.wait(10)

            call = client.bytestream.Write.future(requests(), timeout=10)
            client.close()
            hold.set()
            call.exception(timeout=10) if not call.cancelled() else None
        self.assert_absent(digest)
        self.assertTrue(wait_until(lambda: self.bytes_in_store() == before, 10), "parts of uploads stay")
        self.assertEqual(1 << 20, self.client.write(self.client.upload_name(digest), data))

    def bytes_in_store(self):
        """Apparent size of all files below the store, half written ones too."""
        total = 0
        for directory, _, names in os.walk(self.server.store):
            for name in names:
                try:
                    total += os.lstat(os.path.join(directory, name)).st_size
                except FileNotFoundError:
                    pass
        return total


class QueryWriteStatus(Case):

    def test_L100_unseen(self):
        digest = digest_of(os.urandom(9))
        status = self.client.write_status(self.client.upload_name(digest))
        self.assertEqual((0, False), (status.committed_size, status.complete))

    def test_L100_present(self):
        digest = self.client.put(os.urandom(900))
        status = self.client.write_status(self.client.upload_name(digest))
        self.assertEqual((900, True), (status.committed_size, status.complete))

    def test_L100_after_the_write(self):
        data = os.urandom(900)
        name = self.client.upload_name(digest_of(data))
        self.client.write(name, data)
        status = self.client.write_status(name)
        self.assertEqual((900, True), (status.committed_size, status.complete))

    def test_L105_empty(self):
        status = self.client.write_status(self.client.upload_name(EMPTY))
        self.assertEqual((0, True), (status.committed_size, status.complete))

    def test_L111_bad_names(self):
        for part in BAD_BLOB_PARTS:
            name = "uploads/%s/%s" % (uuid.uuid4(), part)
            with self.subTest(name=name), self.assert_code(c.INVALID_ARGUMENT):
                self.client.write_status(name)


class Rot(Case):
    def test_damaged_blob_is_never_served_whole(self):
        """L46: bytes that changed on the disk are found before the last of them is sent, and the blob is missing from then on."""
        server = self.new_server()
        client = self.new_client(server)
        data = os.urandom(3 << 20)
        digest = client.put(data)
        found = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(server.store, "blobs"))
                 for name in names if name.startswith(digest.hash)]
        self.assertEqual(1, len(found))
        os.chmod(found[0], 0o644)
        with open(found[0], "r+b") as f:
            f.write(bytes([data[0] ^ 1]))
        with self.assert_code(15, words=(digest.hash,)):
            client.read(digest)
        self.assertFalse(client.has(digest))
        client.put(data)
        self.assertEqual(data, client.read(digest))
