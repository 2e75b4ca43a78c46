# SPDX-License-Identifier: Apache-2.0
"""The sample workspace through an unmodified Bazel: a clean half without a record, a half with one record a target."""

import os
import re
import subprocess
import unittest

from bjtest import env
from bjtest.server import Server

from workspace import Workspace, bazels, explain

# target -> (does it build, kind, path, what stands in Bazel's own output)
UNDECLARED = {
    "//bad:header": (False, "read_undeclared", "/exec/bad/secret.h", "buildozer 'add hdrs secret.h' //bad:header"),
    "//bad:host_file": (True, "read_undeclared", "/etc/debian_version", "/etc/debian_version of the host"),
    "//bad:network": (True, "network", "192.0.2.1", "tried to reach 192.0.2.1:80"),
    "//bad:leftover": (True, "undeclared_output", "undeclared.txt", "not declared and thrown away"),
}


def flatten(records):
    """[(kind, text of the whole record)]."""
    return [(record.get("kind"), str(record)) for record in records]


class Sample(unittest.TestCase):
    bazel = "bazel"

    @classmethod
    def setUpClass(cls):
        cls.workspace = Workspace(cls.bazel)
        cls.server = Server("--workspace=" + cls.workspace.dir).start()
        cls.remote = "--remote_executor=grpc://" + cls.server.address

    @classmethod
    def tearDownClass(cls):
        cls.workspace.stop()
        cls.server.stop()

    def setUp(self):
        self.workspace.run("clean")

    def bazel_run(self, command, *args, code=0):
        got, text = self.workspace.run(command, self.remote, *args)
        self.assertEqual(got, code, text)
        return text

    def test_clean_half_builds_and_tests_without_a_record(self):
        text = self.bazel_run("test", "//good/...")
        self.assertIn("Executed 2 out of 2 tests: 2 tests pass", text)
        self.assertRegex(text, r"\d+ remote")
        self.assertNotIn("belljar:", text)
        code, records = explain(self.server, "--last-build")
        self.assertEqual((code, records), (0, []))

    def test_each_undeclared_access_is_a_record(self):
        for target, (builds, kind, path, shown) in sorted(UNDECLARED.items()):
            with self.subTest(target):
                text = self.bazel_run("build", target, code=0 if builds else 1)
                self.assertIn(shown, text)
                code, records = explain(self.server, "--last-build", "--target=" + target)
                self.assertEqual(code, 3)
                if self.bazel == "bazel":  # 2.1.0 does not tell its target
                    self.assertTrue(any(k == kind and path in r for k, r in flatten(records)), records)

    def test_explain_has_words_for_every_record(self):
        self.bazel_run("build", "//bad:header", code=1)
        done = subprocess.run([os.path.join(env.BIN, "belljar"), "explain", "--server=" + self.server.address, "--last-build"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, timeout=30)
        self.assertIn("did not make its output bazel-out/", done.stdout)
        self.assertNotRegex(done.stdout, r"(?m): *$")

    def test_a_cached_result_shows_the_same_lines(self):
        first = self.bazel_run("build", "//bad:leftover")
        self.workspace.run("clean")
        again = self.bazel_run("build", "//bad:leftover")
        self.assertRegex(again, r"\d+ remote cache hit")
        lines = [re.findall(r"belljar: .*", text) for text in (first, again)]
        self.assertEqual(lines[0] or lines[1], lines[1])
        self.assertTrue(lines[1])

    def test_on_violation_fail_fails_the_action_and_its_hit(self):
        flag = "--remote_default_exec_properties=sandbox:onViolation=fail"
        if self.bazel != "bazel":
            self.skipTest("2.1.0 has no --remote_default_exec_properties")
        for _ in range(2):
            text = self.bazel_run("build", flag, "//bad:host_file", code=1)
            self.assertIn("(Exit 121)", text)


class RemoteCache(unittest.TestCase):
    """`--remote_cache`: actions run locally, results come back from our cache."""

    def test_a_second_build_is_served(self):
        workspace = Workspace()
        server = Server().start()
        try:
            flags = ["--remote_cache=grpc://" + server.address, "//good:hello", "//good:greeting"]
            code, text = workspace.run("build", *flags)
            self.assertEqual(code, 0, text)
            workspace.run("clean")
            code, text = workspace.run("build", *flags)
            self.assertEqual(code, 0, text)
            self.assertRegex(text, r"[3-9] remote cache hit")
        finally:
            workspace.stop()
            server.stop()


def load_tests(loader, tests, _pattern):
    """The same class again for each Bazel of BJ_BAZELS."""
    for bazel in bazels()[1:]:
        tests.addTests(loader.loadTestsFromTestCase(type("Sample_" + re.sub(r"\W", "_", bazel), (Sample,), {"bazel": bazel})))
    return tests


if __name__ == "__main__":
    unittest.main()
