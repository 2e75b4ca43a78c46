# SPDX-License-Identifier: Apache-2.0
"""README.md's table of rows says what the tests say."""

import os
import re
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))


def tests_by_row():
    """{row: {file.test}} from the names of the test methods."""
    out = {}
    for file in os.listdir(HERE):
        if re.fullmatch(r"test_\w+\.py", file):
            with open(os.path.join(HERE, file), encoding="utf-8") as f:
                for name in re.findall(r"    def (test_\w+)\(", f.read()):
                    for row in re.findall(r"L\d+", name):
                        out.setdefault(row, set()).add(file[5:-3] + "." + name)
    return out


def table():
    """{row: the last cell of its line} of README.md."""
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        return dict(re.findall(r"^\| (L\d+) \|.*\| ([^|]*) \|$", f.read(), re.M))


class Readme(unittest.TestCase):

    def test_table_names_every_test_of_a_row(self):
        said = {row: set(re.findall(r"`(\w+\.test_\w+)`", cell)) for row, cell in table().items()}
        self.assertEqual(tests_by_row(), {row: names for row, names in said.items() if names})
