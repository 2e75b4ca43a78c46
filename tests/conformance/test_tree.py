# SPDX-License-Identifier: Apache-2.0
"""
Input roots: malformed Directory messages and odd but legal ones. The fixtures N1 … D40 are those of the
bug log's appendix, built by hand from wire bytes; their digests are checked before they are used.
"""

import os

from bjtest import client as c
from bjtest import wire
from bjtest.case import BAD_INPUT, Case
from bjtest.stubs import re_pb
from bjtest.tree import (HELLO, DirRef, Exec, FileRef, Link, digest_of, digest_str, raw_digest, raw_dir,
                         raw_file, raw_link)

FIXTURES = {
    "OK": ("ae403d5ebc65a81bbd5947ee8696c27ceda3c42f171fecf8cedbb3b2dfda9abe/150",
           raw_file(b"a") + raw_file(b"b")),
    "N1": ("7d3feca8c8dc75b647b618d13cebac4fef62ddcf7d1ea6570a02e3837989b8bc/77", raw_file(b"a/b")),
    "N2": ("9d7b75ae0e5f0d25b6cbe5b8a36605a62166664a1596bcc4683c4eb3c8fb3380/76", raw_file(b"..")),
    "N2b": ("d41772ef1257e2a40c551b8f828c7af8189670bc8509838ed290eb1a3d3593a5/75", raw_file(b".")),
    "N2c": ("c61cf0e4c0dafbfccee12bc901356f32e47453ac9df436ef34a1d6259e9cb883/77", raw_file(b"a\0b")),
    "N3": ("da1c28d3b35438aea7fccab03d1a710eefa274c14443b14476405bb6d0e540c7/72", raw_file(b"")),
    "N4": ("68f3e35976534dcda026f776d31704162224fae49f45ad3bf3da687d71143d94/150",
           raw_file(b"a") + raw_file(b"a")),
    "N7": ("1ac67c3a112dbc14241401f726bbf13afd5b2f4913ba35de1f9293a4283362a2/5", raw_link(b"p", b"")),
    "N8": ("b8e238f21da9b6e98f189cbbfb0b90111f55514df0c1d18c207c9a339b031f2c/150",
           raw_file(b"b") + raw_file(b"a")),
    "N9": ("54f72d7087a4974d77c98eac93e838f570fe469475f52277621f1d2fe9a6ee28/75", raw_file(b"\xff")),
    "U1": ("cb528ee8e55567be257ae6281b8b6017926541a444f2c02e620e40b32f3946b1/81",
           raw_file("部.txt".encode())),
    "A1": ("8ae55b4a4a148b786d62e3c77d3d909bdd409a068b710bcfb0b36b0b4ad275e9/20",
           raw_link(b"p", b"/etc/hostname")),
    "E1": ("198bccb2233f39c8819d8cad9fefe70c8ae87c6eee35d3df41aea562757693d9/73", raw_dir(b"e", b"")),
}
D40 = "9f02bc331821450732ff71e02e78d80c11cbf682488120c2ae37f73ac02ef67e/152"


def d40():
    """40 levels of Directories with two equal children each, leaf first."""
    levels = [b""]
    for _ in range(40):
        levels.append(raw_dir(b"a", levels[-1]) + raw_dir(b"b", levels[-1]))
    return levels


def bad_digest(hash_=None, size=6):
    """The bytes of a Digest message with these fields; None leaves one out."""
    return wire.msg(*([] if hash_ is None else [wire.field(1, hash_)]),
                    *([] if size is None else [wire.field(2, size)]))


class TreeCase(Case):

    def setUp(self):
        super().setUp()
        self.client.put(HELLO)

    def run_root(self, raw, script="true", **fields):
        """Executes a script over the input root whose Directory has the bytes @raw."""
        return self.client.execute(self.client.sh(script, root=self.client.put(raw), **fields))

    def assert_root_refused(self, raw, *words):
        """Refused at the root, and again one level down; the bad Directory is named in both."""
        hash_ = digest_of(raw).hash
        self.assert_refused(self.run_root(raw), hash_, *words)
        outer = {"f": b"1", "sub": DirRef(raw=raw)}
        self.assert_refused(self.client.run("true", inputs=outer), hash_, *words)


class Fixtures(TreeCase):

    def test_fixtures_are_what_the_log_says(self):
        for name, (wanted, raw) in FIXTURES.items():
            with self.subTest(name):
                self.assertEqual(wanted, digest_str(digest_of(raw)))
        self.assertEqual(D40, digest_str(digest_of(d40()[-1])))

    def test_ok(self):
        self.assert_ran(self.run_root(FIXTURES["OK"][1], "cmp a b && grep -qx hello a"))

    def test_L28_N1_slash_in_a_name(self):
        self.assert_root_refused(FIXTURES["N1"][1], "a/b")

    def test_L28_N2_dot_dot(self):
        self.assert_root_refused(FIXTURES["N2"][1], "..")

    def test_L28_N2b_dot(self):
        self.assert_root_refused(FIXTURES["N2b"][1])

    def test_L28_N2c_nul_in_a_name(self):
        self.assert_root_refused(FIXTURES["N2c"][1])

    def test_L28_N3_empty_name(self):
        self.assert_root_refused(FIXTURES["N3"][1])

    def test_L30_N4_name_twice(self):
        outcome = self.run_root(FIXTURES["N4"][1])
        self.assert_refused(outcome, digest_of(FIXTURES["N4"][1]).hash)
        self.assertRegex(outcome.text, r"""["'`]a["'`]""")
        self.assert_root_refused(FIXTURES["N4"][1])

    def test_L31_N7_empty_symlink_target_is_dot(self):
        """design §7."""
        outcome = self.assert_ran(self.run_root(FIXTURES["N7"][1], "readlink p"))
        self.assertEqual(b".\n", outcome.stdout)

    def test_N8_unsorted(self):
        """design §7: unsorted but valid is refused."""
        self.assert_root_refused(FIXTURES["N8"][1])

    def test_N9_name_that_is_not_utf8(self):
        self.assert_root_refused(FIXTURES["N9"][1])

    def test_L36_U1_unicode_name(self):
        outcome = self.assert_ran(self.run_root(FIXTURES["U1"][1], "cat 部.txt"))
        self.assertEqual(HELLO, outcome.stdout)

    def test_L11_A1_absolute_input_link(self):
        """DISALLOWED: INVALID_ARGUMENT. ALLOWED: the link is there, its target text unchanged."""
        outcome = self.run_root(FIXTURES["A1"][1], "readlink p")
        strategy = self.client.get_capabilities().cache_capabilities.symlink_absolute_path_strategy
        if strategy == re_pb.SymlinkAbsolutePathStrategy.DISALLOWED:
            self.assert_refused(outcome, "p", codes=(c.INVALID_ARGUMENT,))
        else:
            self.assertEqual(b"/etc/hostname\n", self.assert_ran(outcome).stdout)

    def test_L27_E1_empty_directory(self):
        self.assert_ran(self.run_root(FIXTURES["E1"][1], "test -d e && test -z \"$(ls -A e)\""))

    def test_L37_D40_does_not_hang(self):
        for level in d40():
            digest = self.client.put(level)
        outcome = self.client.execute(self.client.sh("true", root=digest), timeout=30)
        self.assertIn(outcome.code, (c.RESOURCE_EXHAUSTED, c.INVALID_ARGUMENT), outcome)
        self.assert_serving()


class Malformed(TreeCase):

    def test_L30_one_name_of_two_kinds(self):
        for what, raw in (("file and directory", raw_file(b"a") + raw_dir(b"a", b"")),
                          ("file and link", raw_file(b"a") + raw_link(b"a", b"x")),
                          ("directory and link", raw_dir(b"a", b"") + raw_link(b"a", b"x")),
                          ("directory twice", raw_dir(b"a", b"") * 2),
                          ("link twice", raw_link(b"a", b"x") * 2)):
            with self.subTest(what):
                self.assert_root_refused(raw)

    def test_unsorted_directories_and_links(self):
        self.assert_root_refused(raw_dir(b"b", b"") + raw_dir(b"a", b""))
        self.assert_root_refused(raw_link(b"b", b"x") + raw_link(b"a", b"x"))

    def test_sorting_is_by_bytes(self):
        """Upper case before lower, U+FF21 before U+10000 (UTF-16 order would turn these round)."""
        names = sorted(["B", "a", "Z", "\uff21", "\U00010000", "é", "e\u0301"], key=lambda n: n.encode())
        raw = b"".join(raw_file(n.encode()) for n in names)
        outcome = self.assert_ran(self.run_root(raw, "ls | wc -l"))
        self.assertEqual(b"7", outcome.stdout.strip())
        swapped = raw_file("\U00010000".encode()) + raw_file("\uff21".encode())
        self.assert_root_refused(swapped)

    def test_L28_bad_names_of_directories_and_links(self):
        for name in (b"", b".", b"..", b"a/b", b"/", b"a\0b", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80"):
            with self.subTest(name=name):
                self.assert_root_refused(raw_dir(name, b""))
                self.assert_root_refused(raw_link(name, b"x"))

    def test_bad_link_targets(self):
        self.assert_root_refused(raw_link(b"p", b"a\0b"))
        self.assert_root_refused(raw_link(b"p", b"\xff"))

    def test_L108_bad_digests_of_files(self):
        hello = digest_of(HELLO).hash
        for what, digest in (("absent", b""), ("no hash", bad_digest(None)), ("short", bad_digest(hello[:-1])),
                             ("upper case", bad_digest(hello.upper())), ("negative", bad_digest(hello, -1)),
                             ("NUL", bad_digest(hello + "\0")), ("no hex", bad_digest("g" * 64))):
            with self.subTest(what):
                self.assert_root_refused(raw_file(b"a", digest=digest))

    def test_node_without_digest(self):
        self.assert_root_refused(wire.field(1, wire.field(1, b"a")))
        self.assert_root_refused(wire.field(2, wire.field(1, b"a")))

    def test_bytes_that_are_no_directory(self):
        for raw in (b"\x0a\xff", b"\x0a\x05ab", b"\x09\x00", b"hello, world\n", b"\x0d"):
            with self.subTest(raw=raw):
                self.assert_root_refused(raw)

    def test_unknown_node_property(self):
        """The spec lets a server name those it accepts; an unknown one is not ignored in silence."""
        properties = wire.field(1, wire.msg(wire.field(1, b"no.such"), wire.field(2, b"1")))
        node = wire.field(1, wire.msg(wire.field(1, b"a"), wire.field(2, raw_digest(HELLO)),
                                      wire.field(6, properties)))
        outcome = self.run_root(node)
        self.assert_refused(outcome, "node property")


class Legal(TreeCase):

    def test_L30_case_differs(self):
        outcome = self.run_sh("cat Foo foo", inputs={"Foo": b"1\n", "foo": b"2\n"})
        self.assertEqual(b"1\n2\n", outcome.stdout)

    def test_L36_nfc_and_nfd(self):
        outcome = self.run_sh("cat '\u00e9' 'e\u0301'; ls | wc -l",
                              inputs={"\u00e9": b"c\n", "e\u0301": b"d\n"})
        self.assertEqual([b"c", b"d", b"2"], outcome.stdout.split())

    def test_odd_names(self):
        names = ["-rf", " ", "a\nb", "\t", "\\", "\"", "'", "*", "$x", "~", "...", ".hidden", "%s", "\x7f",
                 "a" * 255, "é" * 127]
        inputs = {name: b"%d" % n for n, name in enumerate(names)}
        script = "import os,sys\nfor n in sorted(os.listdir(b'.')): sys.stdout.buffer.write(n+b'\\0')"
        outcome = self.assert_ran(self.client.execute(self.client.action(
            ["/usr/bin/python3", "-c", script], inputs=inputs)))
        self.assertEqual(sorted(n.encode() for n in names), outcome.stdout.split(b"\0")[:-1])

    def test_L44_name_too_long_for_the_kernel(self):
        """256 bytes: legal in the protocol, impossible here; refused with the name or the cause."""
        self.assert_refused(self.client.run("true", inputs={"a" * 256: b"1"}), "aaa",
                            codes=BAD_INPUT + (c.RESOURCE_EXHAUSTED,))

    def test_path_longer_than_path_max(self):
        """20 levels of 250 bytes: made, or refused with a reason; never an internal error."""
        spec = {"leaf": b"1"}
        for _ in range(20):
            spec = {"d" * 250: spec}
        outcome = self.client.run("find . -name leaf | wc -l", inputs=spec)
        if outcome.code == c.OK:
            self.assertEqual(b"1", outcome.stdout.strip(), outcome)
        else:
            self.assert_refused(outcome, codes=BAD_INPUT + (c.RESOURCE_EXHAUSTED,))
        self.assert_serving()

    def test_deep_tree(self):
        """100 levels are ordinary."""
        spec = {"leaf": b"1"}
        for _ in range(100):
            spec = {"d": spec}
        self.assertEqual(b"1", self.run_sh("find . -name leaf -exec cat {} +", inputs=spec).stdout)

    def test_deeper_than_any_build(self):
        """5,000 levels: made or refused, the server lives."""
        raw = raw_file(b"leaf")
        blobs = {}
        for _ in range(5000):
            digest = digest_of(raw)
            blobs[(digest.hash, digest.size_bytes)] = raw
            raw = raw_dir(b"d", raw)
        self.client.put_blobs(blobs)
        outcome = self.run_root(raw)
        if outcome.code != c.OK:
            self.assert_refused(outcome, codes=BAD_INPUT + (c.RESOURCE_EXHAUSTED,))
        self.assert_serving()

    def test_executable_bit(self):
        """is_executable, and nothing else, decides; the same blob may be both."""
        script = b"#!/bin/sh\necho ran\n"
        outcome = self.run_sh("./x; test -x n && echo bad; test -r n && echo readable",
                              inputs={"x": Exec(script), "n": bytes(script)})
        self.assertEqual(b"ran\nreadable\n", outcome.stdout)

    def test_no_two_paths_share_an_inode(self):
        """design §4: hard-linked twins break #pragma once; Python and tar see them too."""
        twins = {"a": HELLO, "b": HELLO, "d": {"c": HELLO}, "e": {"c": HELLO}, "x": Exec(HELLO)}
        outcome = self.run_sh("stat -c %i a b d/c e/c x", inputs=twins)
        lines = outcome.stdout.split(b"\n")[:-1]
        self.assertEqual(5, len(set(lines)), lines)

    def test_L12_L105_empty_files(self):
        """Never uploaded, always there."""
        server = self.new_server()
        client = self.new_client(server)
        outcome = client.run("test -f e -a ! -s e && test -x x", inputs={
            "e": FileRef(digest_of(b"")), "x": FileRef(digest_of(b""), executable=True)})
        self.assert_ran(outcome)

    def test_L105_empty_root(self):
        """The empty Directory is the empty blob."""
        action = self.client.sh("test -z \"$(ls -A)\"", root=digest_of(b""))
        self.assert_ran(self.client.execute(action))

    def test_links_inside(self):
        outcome = self.run_sh("cat l d/up dl/f; readlink l d/up dl", inputs={
            "l": Link("d/f"), "d": {"f": b"1\n", "up": Link("../g")}, "dl": Link("d"), "g": b"2\n"})
        self.assertEqual(b"1\n2\n1\nd/f\n../g\nd\n", outcome.stdout)

    def test_links_that_lead_nowhere_or_round(self):
        outcome = self.run_sh("readlink n o; cat n o 2>/dev/null || echo no",
                              inputs={"n": Link("no/such"), "o": Link("o")})
        self.assertEqual(b"no/such\no\nno\n", outcome.stdout)

    def test_links_that_climb_out_find_nothing_of_the_host(self):
        """`..` is legal in a target. What lies above the input root is the jar's, not the host's."""
        secret = os.path.join(self.server.dir, "secret")
        with open(secret, "wb") as f:
            f.write(b"host secret")
        climbing = "../" * 12 + secret.lstrip("/")
        outcome = self.client.run("cat p", inputs={"p": Link(climbing)})
        if outcome.code == c.OK:
            self.assertNotEqual(0, outcome.exit_code, outcome)
            self.assertNotIn(b"host secret", outcome.stdout)
        else:
            self.assert_refused(outcome, "p")
