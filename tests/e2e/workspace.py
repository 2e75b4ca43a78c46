# SPDX-License-Identifier: Apache-2.0
"""A copy of bazel/sample (or of belljar itself) and a Bazel in it."""

import json
import os
import shutil
import subprocess

from bjtest import env

SAMPLE = os.path.join(env.REPO, "bazel", "sample")
STUBS = os.path.join(env.REPO, "bazel", "stubs")


def bazels():
    """The system's Bazel, then those of BJ_BAZELS."""
    return ["bazel"] + os.environ.get("BJ_BAZELS", "").split()


class Workspace:
    """One workspace directory, one Bazel, one output base; nothing of it lies in the repository."""

    def __init__(self, bazel="bazel"):
        self.bazel = bazel
        self.base = env.fresh_dir("base")
        self.dir = os.path.join(env.fresh_dir("workspace"), "sample")
        # The sample names the stubs by a relative path.
        shutil.copytree(SAMPLE, self.dir, ignore=shutil.ignore_patterns("bazel-*"))
        self._point_at_stubs()

    def _point_at_stubs(self):
        path = os.path.join(self.dir, "WORKSPACE")
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace('"../stubs', '"' + STUBS))

    def run(self, command, *args, timeout=300):
        """Return: (exit code, all that Bazel printed)."""
        argv = [self.bazel, "--output_base=" + self.base, "--nohome_rc", "--max_idle_secs=60", command]
        if command in ("build", "test"):
            argv += ["--nosandbox_debug", "--noshow_progress", "--curses=no", "--color=no",
                     "--incompatible_strict_action_env", "--noremote_local_fallback"]
        done = subprocess.run(argv + list(args), cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=timeout)
        return done.returncode, done.stdout

    def stop(self):
        self.run("shutdown")


def explain(server, *args):
    """The records that `belljar explain --json` prints. Return: (exit code, list of dicts)."""
    done = subprocess.run([os.path.join(env.BIN, "belljar"), "explain", "--server=" + server.address, "--json"] + list(args),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=30)
    if done.returncode not in (0, 3):
        raise AssertionError("explain ended with %d: %s" % (done.returncode, done.stderr))
    return done.returncode, json.loads(done.stdout or "[]")
