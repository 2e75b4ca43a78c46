# SPDX-License-Identifier: Apache-2.0
"""belljar builds belljar: `bazel build --config=self //...` through a server built from the same tree, without a record."""

import os
import subprocess
import unittest

from bjtest import env
from bjtest.server import Server

from workspace import explain


class Self(unittest.TestCase):
    def test_belljar_builds_belljar(self):
        base = env.fresh_dir("base")
        startup = ["bazel", "--output_base=" + base, "--nohome_rc", "--max_idle_secs=60"]
        with Server("--workspace=" + env.REPO) as server:
            done = subprocess.run(
                startup + ["build", "--config=self", "--remote_executor=grpc://" + server.address, "--symlink_prefix=/",
                           "--noshow_progress", "--curses=no", "--color=no", "//executor/...", "//policy/...", "//proto/..."],
                cwd=env.REPO, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                check=False, timeout=900)
            subprocess.run(startup + ["shutdown"], cwd=env.REPO, check=False, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.assertRegex(done.stdout, r"\d+ remote")
            self.assertEqual(explain(server), (0, []))


if __name__ == "__main__":
    unittest.main()
