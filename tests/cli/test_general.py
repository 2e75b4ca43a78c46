# SPDX-License-Identifier: Apache-2.0
"""What holds for every subcommand: help, version, wrong arguments."""

import os
import subprocess
import unittest

from bjtest import env

BELLJAR = os.path.join(env.BIN, "belljar")
COMMANDS = ("serve", "probe", "explain")


def belljar(*arguments, **options):
    """Return: the finished process, its two streams apart, as text."""
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([BELLJAR] + list(arguments), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, **options)


class General(unittest.TestCase):

    def test_version(self):
        done = belljar("--version")
        self.assertEqual(0, done.returncode)
        self.assertRegex(done.stdout, r"\Abelljar \d+\.\d+\.\d+\n\Z")
        self.assertEqual("", done.stderr)

    def test_help_names_the_commands(self):
        done = belljar("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for command in COMMANDS:
            self.assertRegex(done.stdout, r"(?m)^  %s +\w" % command)

    def test_help_of_each_command(self):
        for command in COMMANDS:
            with self.subTest(command):
                done = belljar(command, "--no-such-flag", "--help")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertIn("usage: belljar %s " % command, done.stdout)
                self.assertIn("Exit status: 0", done.stdout)

    def test_no_command(self):
        done = belljar()
        self.assertEqual((2, ""), (done.returncode, done.stdout))
        self.assertIn("usage: ", done.stderr)

    def test_unknown_command(self):
        done = belljar("sreve")
        self.assertEqual(2, done.returncode)
        self.assertIn('"sreve"', done.stderr)

    def test_unknown_flag(self):
        """It is named, and so are those that there are."""
        for command in COMMANDS:
            with self.subTest(command):
                done = belljar(command, "--jsno")
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn('belljar %s: unknown flag "--jsno", known: --' % command, done.stderr)

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([BELLJAR, "--help"], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(1, done.returncode)
        self.assertIn(b"standard output", done.stderr)
