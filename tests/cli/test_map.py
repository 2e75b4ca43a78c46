# SPDX-License-Identifier: Apache-2.0
"""The map in executor/main.c: it names every file, and no file that is not there."""

import os
import re
import unittest

from bjtest import env

ROOMS = ("policy", "executor/base", "executor/rpc", "executor/cas", "executor/jail", "executor/action",
         "executor/service", "executor/join", "executor/cli")


def files_of(room):
    """Names without their ending; private headers are not on the map."""
    folder = os.path.join(env.REPO, room)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {name[:-2] for name in names if name.endswith((".c", ".h")) and not name.endswith("-internal.h")}


def mapped():
    """Return: {room: names}, from the lines of the map."""
    with open(os.path.join(env.REPO, "executor", "main.c"), encoding="utf-8") as f:
        comment = f.read().split("*/")[0]
    rooms, room = {}, None
    for line in comment.splitlines():
        head = re.match(r" \* ((?:executor/)?\w+)/ {2,}", line)
        names = re.match(r" \*   ([a-z]\w*(?: [a-z]\w*)*)(?: {2,}|$)", line)
        if head:
            room = head.group(1)
            rooms[room] = set()
        elif names and room:
            rooms[room].update(names.group(1).split())
    return rooms


class Map(unittest.TestCase):

    def test_every_file_is_on_it(self):
        rooms = mapped()
        for room in ROOMS:
            with self.subTest(room):
                self.assertEqual(set(), files_of(room) - rooms[room], "add these to the map in executor/main.c")
                self.assertEqual(set(), rooms[room] - files_of(room), "gone: take these off the map")
