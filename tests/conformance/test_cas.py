# SPDX-License-Identifier: Apache-2.0
"""Service ContentAddressableStorage."""

import os

from bjtest import client as c
from bjtest.case import Case
from bjtest.stubs import ZSTD, re_pb
from bjtest.tree import EMPTY, HELLO, DirRef, digest_of, key

HELLO_DIGEST = digest_of(HELLO)
BAD_DIGESTS = {
    "negative size": re_pb.Digest(hash=HELLO_DIGEST.hash, size_bytes=-1),
    "upper case": re_pb.Digest(hash=HELLO_DIGEST.hash.upper(), size_bytes=6),
    "short": re_pb.Digest(hash=HELLO_DIGEST.hash[:63], size_bytes=6),
    "long": re_pb.Digest(hash=HELLO_DIGEST.hash + "0", size_bytes=6),
    "no hex": re_pb.Digest(hash="g" + HELLO_DIGEST.hash[1:], size_bytes=6),
    "blank": re_pb.Digest(hash=" " + HELLO_DIGEST.hash[1:], size_bytes=6),
    "NUL after it": re_pb.Digest(hash=HELLO_DIGEST.hash + "\0", size_bytes=6),
    "no hash": re_pb.Digest(size_bytes=6),
    "nothing": re_pb.Digest(),
}


class FindMissing(Case):

    def test_present_and_absent(self):
        present = self.client.put(os.urandom(20))
        absent = digest_of(os.urandom(20))
        self.assertEqual({key(absent)}, self.client.find_missing([present, absent]))

    def test_none_asked(self):
        self.assertEqual(set(), self.client.find_missing([]))

    def test_asked_twice(self):
        absent = digest_of(os.urandom(20))
        self.assertEqual({key(absent)}, self.client.find_missing([absent, absent]))

    def test_size_is_part_of_the_digest(self):
        data = os.urandom(20)
        self.client.put(data)
        other = re_pb.Digest(hash=digest_of(data).hash, size_bytes=21)
        self.assertEqual({key(other)}, self.client.find_missing([other]))

    def test_L105_empty_blob_is_never_missing(self):
        self.assertEqual(set(), self.client.find_missing([EMPTY]))

    def test_L108_bad_digests(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what), self.assert_code(c.INVALID_ARGUMENT):
                self.client.find_missing([HELLO_DIGEST, digest])

    def test_L109_many_digests(self):
        """30,000 digests of about 70 bytes fit in a message; the answer lists them all."""
        present = self.client.put(os.urandom(20))
        salt = os.urandom(8)
        absent = [digest_of(salt + b"%d" % n) for n in range(30000)]
        self.assertEqual({key(d) for d in absent}, self.client.find_missing(absent + [present]))


class BatchUpdate(Case):

    def test_round_trip(self):
        blobs = [os.urandom(n) for n in (1, 2, 1000, 65537)]
        statuses = self.client.batch_update([(digest_of(b), b) for b in blobs])
        self.assertEqual({key(digest_of(b)): c.OK for b in blobs},
                         {k: s.code for k, s in statuses.items()})
        for blob in blobs:
            self.assertEqual(blob, self.client.read(digest_of(blob)))

    def test_again_is_fine(self):
        blob = os.urandom(20)
        for _ in range(2):
            statuses = self.client.batch_update([(digest_of(blob), blob)])
            self.assertEqual(c.OK, statuses[key(digest_of(blob))].code)

    def test_same_blob_twice_in_one_batch(self):
        blob = os.urandom(20)
        statuses = self.client.batch_update([(digest_of(blob), blob)] * 2)
        self.assertEqual(c.OK, statuses[key(digest_of(blob))].code)

    def test_L105_empty_blob(self):
        statuses = self.client.batch_update([(EMPTY, b"")])
        self.assertEqual(c.OK, statuses[key(EMPTY)].code)

    def test_L103_mismatch(self):
        """Right hash with other bytes or another size: INVALID_ARGUMENT for that blob, which stays absent."""
        data = os.urandom(30)
        right = digest_of(data)
        longer = re_pb.Digest(hash=right.hash, size_bytes=31)
        shorter = re_pb.Digest(hash=right.hash, size_bytes=29)
        cases = {"bytes": (right, data[:-1] + bytes([data[-1] ^ 1])), "size + 1": (longer, data),
                 "size - 1": (shorter, data), "cut": (right, data[:-1]), "none": (right, b""),
                 "data under EMPTY": (EMPTY, b"x")}
        for what, (digest, sent) in cases.items():
            with self.subTest(what):
                statuses = self.client.batch_update([(digest, sent)])
                self.assertEqual(c.INVALID_ARGUMENT, statuses[key(digest)].code)
                if digest != EMPTY:
                    self.assertFalse(self.client.has(digest))

    def test_L110_one_bad_blob(self):
        good, bad = os.urandom(20), os.urandom(20)
        statuses = self.client.batch_update([(digest_of(bad), good), (digest_of(good), good)])
        self.assertEqual(c.INVALID_ARGUMENT, statuses[key(digest_of(bad))].code)
        self.assertIn(digest_of(bad).hash, statuses[key(digest_of(bad))].message)
        self.assertEqual(c.OK, statuses[key(digest_of(good))].code)
        self.assertTrue(self.client.has(digest_of(good)))

    def test_L110_exactly_the_advertised_sum(self):
        limit = self.client.get_capabilities().cache_capabilities.max_batch_total_size_bytes
        blobs = [os.urandom(limit // 500) for _ in range(499)]
        blobs.append(os.urandom(limit - sum(map(len, blobs))))
        statuses = self.client.batch_update([(digest_of(b), b) for b in blobs])
        self.assertEqual({c.OK}, {s.code for s in statuses.values()})
        self.assertEqual(500, len(statuses))

    def test_L110_one_byte_more(self):
        limit = self.client.get_capabilities().cache_capabilities.max_batch_total_size_bytes
        blobs = [os.urandom(limit // 2), os.urandom(limit - limit // 2 + 1)]
        with self.assert_code(c.INVALID_ARGUMENT):
            self.client.batch_update([(digest_of(b), b) for b in blobs])
        self.assertFalse(self.client.has(digest_of(blobs[0])))

    def test_L108_bad_digests(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what):
                self.assert_blob_code(c.INVALID_ARGUMENT, digest, lambda d: {
                    k: s.code for k, s in self.client.batch_update([(d, HELLO)]).items()})

    def assert_blob_code(self, code, digest, call):
        """A malformed digest may fail its own entry, or the call."""
        try:
            self.assertEqual({key(digest): code}, call(digest))
        except c.grpc.RpcError as error:
            self.assertEqual(code, c.code_of(error))

    def test_unannounced_compressor(self):
        if ZSTD in self.client.get_capabilities().cache_capabilities.supported_batch_update_compressors:
            return
        data = os.urandom(20)
        request = re_pb.BatchUpdateBlobsRequest()
        request.requests.add(digest=digest_of(data), data=data, compressor=ZSTD)
        try:
            reply = self.client.cas.BatchUpdateBlobs(request, timeout=c.DEADLINE)
            self.assertEqual([c.INVALID_ARGUMENT], [r.status.code for r in reply.responses])
        except c.grpc.RpcError as error:
            self.assertEqual(c.INVALID_ARGUMENT, c.code_of(error))
        self.assertFalse(self.client.has(digest_of(data)))

    def test_none(self):
        self.assertEqual({}, self.client.batch_update([]))


class BatchRead(Case):

    def test_L105_present_absent_empty(self):
        blob = os.urandom(20)
        self.client.put(blob)
        absent = digest_of(os.urandom(20))
        got = self.client.batch_read([digest_of(blob), absent, EMPTY])
        self.assertEqual({key(digest_of(blob)): (c.OK, blob), key(absent): (c.NOT_FOUND, b""),
                          key(EMPTY): (c.OK, b"")}, got)

    def test_wrong_size_is_another_blob(self):
        blob = os.urandom(20)
        digest = self.client.put(blob)
        other = re_pb.Digest(hash=digest.hash, size_bytes=19)
        self.assertEqual({key(other): (c.NOT_FOUND, b"")}, self.client.batch_read([other]))

    def test_L110_up_to_the_advertised_sum(self):
        """The answer to the largest batch reaches a client with gRPC's default limits, framing and all."""
        limit = self.client.get_capabilities().cache_capabilities.max_batch_total_size_bytes
        halves = [self.client.put(os.urandom(limit // 2)), self.client.put(os.urandom(limit - limit // 2))]
        got = self.client.batch_read(halves)
        self.assertEqual({c.OK}, {code for code, _ in got.values()})
        one_more = self.client.put(b"1")
        with self.assert_code(c.INVALID_ARGUMENT):
            self.client.batch_read(halves + [one_more])

    def test_L108_bad_digests(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what):
                try:
                    self.assertEqual({key(digest): (c.INVALID_ARGUMENT, b"")},
                                     self.client.batch_read([digest]))
                except c.grpc.RpcError as error:
                    self.assertEqual(c.INVALID_ARGUMENT, c.code_of(error))

    def test_none(self):
        self.assertEqual({}, self.client.batch_read([]))


class GetTree(Case):

    SPEC = {"f": b"1", "a": {"g": b"2", "s": {"x": b"3"}}, "b": {"s": {"x": b"3"}}, "e": {}}

    def directories(self, root, **fields):
        """Keys of all Directories in the answer; none may come twice (L37)."""
        found = [key(digest_of(d.SerializeToString())) for r in self.client.get_tree(root, **fields)
                 for d in r.directories]
        self.assertEqual(len(set(found)), len(found), "a Directory came twice")
        return set(found)

    def expected(self):
        """Digests of the five distinct Directories of SPEC, made one by one."""
        return {key(self.client.put_dir(spec)) for spec in (
            self.SPEC, self.SPEC["a"], self.SPEC["b"], {"x": b"3"}, {})}

    def test_L37_all_of_it_each_once(self):
        self.assertEqual(self.expected(), self.directories(self.client.put_dir(self.SPEC)))

    def test_pages(self):
        """At most page_size Directories a response; a token leads to what follows its page."""
        root = self.client.put_dir(self.SPEC)
        for size in (1, 2, 3, 100):
            with self.subTest(page_size=size):
                pages = self.client.get_tree(root, page_size=size)
                self.assertLessEqual(max(len(p.directories) for p in pages), size)
                self.assertEqual("", pages[-1].next_page_token)
                seen = set()
                for page in pages:
                    seen |= {key(digest_of(d.SerializeToString())) for d in page.directories}
                    if page.next_page_token:
                        rest = self.directories(root, page_size=size, page_token=page.next_page_token)
                        self.assertEqual(self.expected(), seen | rest)
                        self.assertFalse(seen & rest)
                self.assertEqual(self.expected(), seen)

    def test_L105_empty_root(self):
        self.assertEqual({key(EMPTY)}, self.directories(EMPTY))

    def test_missing_root(self):
        with self.assert_code(c.NOT_FOUND):
            self.client.get_tree(digest_of(os.urandom(9)))

    def test_missing_part_is_left_out(self):
        absent = DirRef(digest=digest_of(b"\x0a\x03\x0a\x01x" + os.urandom(3)))
        root = self.client.put_dir({"a": {"f": b"1"}, "m": absent})
        self.assertEqual({key(root), key(self.client.put_dir({"f": b"1"}))}, self.directories(root))

    def test_L37_d40(self):
        """Two equal children on each of 40 levels: 2^40 paths, and few Directories."""
        child = EMPTY  # put_dir() would walk all the paths, so the levels are made one by one
        expected = {key(EMPTY)}
        for _ in range(40):
            directory = re_pb.Directory()
            directory.directories.add(name="a", digest=child)
            directory.directories.add(name="b", digest=child)
            child = self.client.put_msg(directory)
            expected.add(key(child))
        try:
            self.assertEqual(expected, self.directories(child))
        except c.grpc.RpcError as error:
            self.assertIn(c.code_of(error), (c.RESOURCE_EXHAUSTED, c.INVALID_ARGUMENT))

    def test_root_that_is_no_directory(self):
        digest = self.client.put(b"\xff" * 40)
        with self.assert_code(c.INVALID_ARGUMENT, c.FAILED_PRECONDITION, c.NOT_FOUND):
            self.client.get_tree(digest)

    def test_strange_token(self):
        root = self.client.put_dir(self.SPEC)
        for token in ("x", "-1", "99999999999999999999", "\x01"):
            with self.subTest(token=token), self.assert_code(c.INVALID_ARGUMENT):
                self.client.get_tree(root, page_token=token)

    def test_negative_page_size(self):
        with self.assert_code(c.INVALID_ARGUMENT):
            self.client.get_tree(self.client.put_dir(self.SPEC), page_size=-1)

    def test_L108_bad_digests(self):
        for what, digest in BAD_DIGESTS.items():
            with self.subTest(what), self.assert_code(c.INVALID_ARGUMENT):
                self.client.get_tree(digest)
        with self.assert_code(c.INVALID_ARGUMENT, words=["root_digest"]):
            list(self.client.cas.GetTree(re_pb.GetTreeRequest(), timeout=c.DEADLINE))
