# SPDX-License-Identifier: Apache-2.0
"""Where things are: the repository, the binaries under test, the scratch directory."""

import atexit
import os
import shutil
import tempfile

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BIN = os.path.abspath(os.environ.get("BJ_BIN") or os.path.join(REPO, "bazel-bin", "executor"))
MUST_RUN = os.environ.get("BJ_MUST_RUN") == "1"

_tmp = None


def tmp():
    """The scratch directory: BJ_TMP, or one made now and removed at exit."""
    global _tmp
    if _tmp is None:
        _tmp = os.environ.get("BJ_TMP")
        if _tmp:
            os.makedirs(_tmp, exist_ok=True)
        else:
            _tmp = tempfile.mkdtemp(prefix="bjtest-")
            atexit.register(shutil.rmtree, _tmp, ignore_errors=True)
    return _tmp


def fresh_dir(prefix):
    """A new empty directory below the scratch directory."""
    return tempfile.mkdtemp(prefix=prefix + "-", dir=tmp())
