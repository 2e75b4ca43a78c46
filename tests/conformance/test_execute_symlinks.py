# SPDX-License-Identifier: Apache-2.0
"""Execute: symbolic links as outputs, old fields and new."""

from bjtest import client as c
from bjtest.case import Case
from bjtest.stubs import re_pb
from bjtest.tree import Link

ALLOWED = re_pb.SymlinkAbsolutePathStrategy.ALLOWED


class Links(Case):

    def is_allowed(self):
        """Does the server allow absolute targets?"""
        return self.client.get_capabilities().cache_capabilities.symlink_absolute_path_strategy == ALLOWED

    def test_L01_link_into_an_undeclared_place(self):
        outcome = self.run_sh("mkdir d; echo hi > d/f; ln -s d/f bar", outputs=["bar"])
        self.assertEqual({"bar": "d/f"}, outcome.links())
        self.assertEqual([], list(outcome.result.output_files))

    def test_L01_link_and_its_directory(self):
        outcome = self.run_sh("mkdir d; echo hi > d/f; ln -s d/f bar", outputs=["bar", "d"])
        self.assertEqual({"bar": "d/f"}, outcome.links())
        self.assertEqual({"f": b"hi\n"}, outcome.dir("d"))

    def test_L09_legacy_link_to_a_file(self):
        outcome = self.run_sh("ln -s t l", inputs={"t": b"1"}, files=["l"])
        self.assertEqual({"output_file_symlinks": ["l"]}, outcome.paths())
        self.assertEqual({"l": "t"}, outcome.links("output_file_symlinks"))

    def test_L09_legacy_link_to_a_directory(self):
        outcome = self.run_sh("ln -s d l", inputs={"d": {"x": b"1"}}, dirs=["l"])
        self.assertEqual({"output_directory_symlinks": ["l"]}, outcome.paths())
        self.assertEqual({"l": "d"}, outcome.links("output_directory_symlinks"))

    def test_L09_legacy_link_of_the_other_kind(self):
        """FAILED_PRECONDITION, says ActionResult, in both directions."""
        outcome = self.client.run("ln -s d l", inputs={"d": {"x": b"1"}}, files=["l"])
        self.assert_refused(outcome, "l", codes=(c.FAILED_PRECONDITION,))
        outcome = self.client.run("ln -s t l", inputs={"t": b"1"}, dirs=["l"])
        self.assert_refused(outcome, "l", codes=(c.FAILED_PRECONDITION,))

    def test_L10_new_field_for_new_commands(self):
        """One entry per path whatever the target; the old fields hold at most the same link."""
        for make, target in (("ln -s t l", "t"), ("ln -s d l", "d"), ("ln -s no l", "no")):
            with self.subTest(target=target):
                outcome = self.run_sh(make, inputs={"t": b"1", "d": {}}, outputs=["l"])
                self.assertEqual({"l": target}, outcome.links())
                for field in ("output_file_symlinks", "output_directory_symlinks"):
                    self.assertIn(outcome.links(field), ({}, {"l": target}))

    def test_L10_new_field_stays_empty_for_old_commands(self):
        outcome = self.run_sh("ln -s t l", inputs={"t": b"1"}, files=["l"])
        self.assertEqual({}, outcome.links())

    def test_L11_absolute_target(self):
        for target in ("/nonexistent/x", "/etc/passwd", "/"):
            with self.subTest(target=target):
                outcome = self.client.run("ln -s %s l" % target, outputs=["l"])
                if self.is_allowed():
                    self.assertEqual({"l": target}, self.assert_ran(outcome).links())
                else:
                    self.assert_refused(outcome, "l", codes=(c.FAILED_PRECONDITION,))

    def test_L11_absolute_target_in_a_directory(self):
        outcome = self.client.run("mkdir d; ln -s /nonexistent/x d/l", outputs=["d"])
        if self.is_allowed():
            self.assertEqual({"l": Link("/nonexistent/x")}, self.assert_ran(outcome).dir("d"))
        else:
            self.assert_refused(outcome, "d/l", codes=(c.FAILED_PRECONDITION,))

    def test_L12_link_into_the_exec_root(self):
        """Refused whatever the strategy: the sandbox's own root means nothing to a client."""
        outcome = self.client.run("ln -s \"$PWD/in\" l", inputs={"in": b"1"}, outputs=["l"])
        self.assert_refused(outcome, "l", codes=(c.FAILED_PRECONDITION,))
        outcome = self.client.run("mkdir o; ln -s \"$PWD/in\" o/l", inputs={"in": b"1"}, outputs=["o"])
        self.assert_refused(outcome, "o/l", codes=(c.FAILED_PRECONDITION,))

    def test_L13_dangling(self):
        outcome = self.run_sh("ln -s nowhere l", outputs=["l"])
        self.assertEqual({"l": "nowhere"}, outcome.links())

    def test_L13_dangling_legacy(self):
        """The spec leaves it open; Bazel reads a file link."""
        outcome = self.run_sh("ln -s nowhere l", files=["l"])
        self.assertEqual({"l": "nowhere"}, outcome.links("output_file_symlinks"))

    def test_L13_loop(self):
        self.assertEqual({"l": "l"}, self.run_sh("ln -s l l", outputs=["l"]).links())

    def test_L14_link_to_another_output(self):
        outcome = self.run_sh("echo hi > a; ln -s a b", outputs=["a", "b"])
        self.assertEqual(["a"], outcome.paths()["output_files"])
        self.assertEqual({"b": "a"}, outcome.links())

    def test_links_inside_a_directory(self):
        """Kept as links, dangling or not, files and directories."""
        outcome = self.run_sh("mkdir -p o/d; echo 1 > o/f; ln -s f o/lf; ln -s d o/ld; "
                              "ln -s ../../x o/up; ln -s no o/n", outputs=["o"])
        self.assertEqual({"f": b"1\n", "d": {}, "lf": Link("f"), "ld": Link("d"), "up": Link("../../x"),
                          "n": Link("no")}, outcome.dir("o"))

    def test_legacy_directory_with_links_in_it(self):
        outcome = self.run_sh("mkdir o; ln -s nowhere o/l", dirs=["o"])
        self.assertEqual({"l": Link("nowhere")}, outcome.dir("o"))

    def test_targets_are_not_changed(self):
        for target in ("./a/../b", "a//b", "../x", "é", "a b", "x" * 1000):
            with self.subTest(target=target):
                outcome = self.assert_ran(self.client.execute(self.client.action(
                    ["/bin/ln", "-s", target, "l"], outputs=["l"])))
                self.assertEqual({"l": target}, outcome.links())

    def test_target_that_is_not_utf8(self):
        """No proto3 string can hold it."""
        outcome = self.client.run("python3 -c \"import os; os.symlink(b'x\\xff', b'l')\"", outputs=["l"])
        self.assert_refused(outcome, "l", codes=(c.FAILED_PRECONDITION,))

    def test_link_that_replaces_an_input(self):
        inputs = {"f": b"old\n", "g": b"g\n"}
        outcome = self.run_sh("ln -sf g f; cat f", inputs=inputs, outputs=["f"])
        self.assertEqual({"f": "g"}, outcome.links())
        self.assertEqual(b"old\n", self.run_sh("cat f", inputs=inputs).stdout)
