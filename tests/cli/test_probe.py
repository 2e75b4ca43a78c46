# SPDX-License-Identifier: Apache-2.0
"""`belljar probe`: where the tests run, some profile works; where nothing may be mounted, it says why."""

import glob
import json
import os
import subprocess
import tempfile
import unittest

from test_general import belljar

from bjtest import env


class Probe(unittest.TestCase):

    def test_some_profile_works_here(self):
        done = belljar("probe", "--json")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        found = json.loads(done.stdout)
        self.assertTrue(found["works"])
        self.assertEqual(["privileged", "userns"], [p["profile"] for p in found["profiles"]])
        self.assertTrue(any(p["walls"] and p["observer"] for p in found["profiles"]))
        if os.geteuid() == 0:
            self.assertTrue(found["profiles"][0]["walls"], found["profiles"])
        else:
            self.assertFalse(found["profiles"][0]["tried"])
        roots = {r["path"]: r for r in found["roots"]}
        self.assertEqual("directory", roots["/usr"]["kind"])
        for path, root in roots.items():
            self.assertEqual(os.path.islink(path), root["kind"] == "symlink", root)

    def test_text(self):
        done = belljar("probe")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, r"\APROFILE +WALLS +OBSERVER +FAILED AT\nprivileged ")
        self.assertIn("\n  /usr/\n", done.stdout)

    def test_leaves_nothing(self):
        tmp = env.fresh_dir("probe")
        self.assertEqual(0, belljar("probe", env=dict(os.environ, TMPDIR=tmp)).returncode)
        self.assertEqual([], os.listdir(tmp))
        self.assertEqual([], glob.glob(os.path.join(tempfile.gettempdir(), "belljar-probe.*")))

    def test_links_that_leave_the_roots(self):
        found = json.loads(belljar("probe", "--json").stdout)
        for link in found["leaving"]:
            self.assertTrue(os.path.islink(link["path"]), link)
            self.assertEqual(os.path.realpath(link["path"]), link["leads_to"])
            self.assertFalse(link["leads_to"].startswith("/usr/"), link)

    def test_no_namespaces(self):
        """In a user namespace whose limit is zero, neither profile can be had: step, call and errno are said."""
        script = "echo 0 >/proc/sys/user/max_mnt_namespaces; exec \"$0\" \"$@\""
        command = ["unshare", "--user", "--map-root-user", "sh", "-c", script,
                   os.path.join(env.BIN, "belljar")]
        probe = subprocess.run(command + ["probe"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        if "unshare" in probe.stderr:
            self.skipTest("no user namespaces here: " + probe.stderr.strip())
        self.assertEqual(1, probe.returncode, probe.stdout)
        for part in ("privileged   no     no        mount-namespace\n", "  step:    mount-namespace\n",
                     "  syscall: unshare\n", "  errno:   ENOSPC ("):
            self.assertIn(part, probe.stdout)

        serve = subprocess.run(command + ["serve", "--listen=127.0.0.1:0", "--store=" + env.fresh_dir("serve")],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, timeout=60, check=False)
        self.assertEqual(1, serve.returncode)
        self.assertNotIn("ready", serve.stderr)
