# SPDX-License-Identifier: Apache-2.0
"""
Discovery and reporting. One line per test, failures in full after it, last line

    N passed, N failed, N skipped

A skip prints its reason and counts as a failure under BJ_MUST_RUN=1. Tests marked slow() run alone with
--slow, or when the pattern names them in full; otherwise they are not selected, and their number is said.
"""

import argparse
import faulthandler
import importlib
import os
import random
import re
import resource
import sys
import time
import unittest

from . import case, env

TEST_LIMIT_SECONDS = 300


class _Result(unittest.TestResult):
    """Counts tests, not subtests: a test with a failed subtest is one failed test."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.passed = self.failed = self.n_skipped = 0
        self._problems = []
        self._skip = None
        self._start = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._problems, self._skip = [], None
        self._start = time.monotonic()
        faulthandler.dump_traceback_later(TEST_LIMIT_SECONDS, exit=True)

    def addError(self, test, err):
        self._problems.append(self._exc_info_to_string(err, test))
        if not hasattr(test, "_testMethodName"):  # set-up of a class or module
            self._report(str(test))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            where = str(subtest._subDescription())
            self._problems.append(where + "\n" + self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self._skip = reason

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        self._report(name_of(test))

    def _report(self, name):
        seconds = time.monotonic() - self._start
        if self._skip is not None and not self._problems and env.MUST_RUN:
            self._problems.append("skipped under BJ_MUST_RUN=1: %s\n" % self._skip)
        if self._problems:
            self.failed += 1
            self.out.write("FAIL %s (%.2f s)\n" % (name, seconds))
            for problem in self._problems:
                self.out.write("".join("    " + line + "\n" for line in problem.splitlines()))
        elif self._skip is not None:
            self.n_skipped += 1
            self.out.write("skip %s: %s\n" % (name, self._skip))
        else:
            self.passed += 1
            self.out.write("ok   %s (%.2f s)\n" % (name, seconds))
        self._problems, self._skip = [], None
        self.out.flush()

    def add_module_error(self, module, text):
        self._problems = [text]
        self._report(module)


def name_of(test):
    return "%s.%s.%s" % (type(test).__module__, type(test).__name__, test._testMethodName)


def _tests_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _tests_of(item)
        else:
            yield item


def _is_slow(test):
    return getattr(getattr(test, test._testMethodName, None), "bj_slow", False)


def main(directory, argv=None):
    """Runs the test_*.py files of @directory. Return: the exit status."""
    parser = argparse.ArgumentParser(description="Run the tests in %s." % os.path.basename(directory))
    parser.add_argument("pattern", nargs="*",
                        help="regular expressions; a test runs when one is found in its name")
    parser.add_argument("--slow", action="store_true", help="the tests that take long, and only these")
    parser.add_argument("--shuffle", metavar="SEED", type=int, help="in another order within each file")
    parser.add_argument("--list", action="store_true", help="only print the names")
    options = parser.parse_args(argv)

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.path.insert(0, directory)
    result = _Result(sys.stdout)
    n_unselected = 0
    began = time.monotonic()
    for file in sorted(os.listdir(directory)):
        if not re.fullmatch(r"test_\w+\.py", file):
            continue
        module = importlib.import_module(file[:-3])
        chosen = []
        for test in _tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            name = name_of(test)
            if options.pattern and not any(re.search(p, name) for p in options.pattern):
                continue
            if _is_slow(test) != options.slow and name not in options.pattern:
                n_unselected += _is_slow(test)
                continue
            chosen.append(test)
        if options.shuffle is not None:
            random.Random(options.shuffle).shuffle(chosen)
        if options.list:
            for test in chosen:
                print(name_of(test))
            continue
        unittest.TestSuite(chosen).run(result)
        for error in case.stop_shared(file[:-3]):
            result.add_module_error(file[:-3] + ".(stop)", error)
    if options.list:
        return 0
    if n_unselected:
        print("%d slow tests not selected (--slow)" % n_unselected)
    print("%.0f s" % (time.monotonic() - began))
    if result.passed + result.failed + result.n_skipped == 0:
        print("no test has such a name")
        result.failed = 1
    print("%d passed, %d failed, %d skipped" % (result.passed, result.failed, result.n_skipped))
    return 1 if result.failed else 0
