# SPDX-License-Identifier: Apache-2.0
"""Recorded actions: read back from the CAS, changed in one place, sent again."""

import posixpath

from bjtest import tree as trees
from bjtest.stubs import re_pb


class Recorded:
    """One action that a Bazel has run, with its whole input tree."""

    def __init__(self, client, digest):
        self.client = client
        self.action = re_pb.Action.FromString(client.read(digest))
        self.command = re_pb.Command.FromString(client.read(self.action.command_digest))
        self.directories = {}
        self._load(self.action.input_root_digest)
        self.result = client.get_result(digest)

    def _load(self, digest):
        if trees.key(digest) in self.directories:
            return
        directory = re_pb.Directory.FromString(self.client.read(digest))
        self.directories[trees.key(digest)] = directory
        for node in directory.directories:
            self._load(node.digest)

    def files(self):
        """{path: FileNode} of the input tree."""
        found = {}
        todo = [("", self.action.input_root_digest)]
        while todo:
            base, digest = todo.pop()
            directory = self.directories[trees.key(digest)]
            for node in directory.files:
                found[posixpath.join(base, node.name)] = node
            todo += [(posixpath.join(base, node.name), node.digest) for node in directory.directories]
        return found

    def depfile(self):
        """The prerequisites that the compiler wrote, as paths of the input tree; None without a .d output."""
        for output in self.result.output_files:
            if output.path.endswith(".d"):
                text = self.client.read(output.digest).decode().replace("\\\n", " ")
                return {posixpath.normpath(word) for word in text.split(":", 1)[1].split()}
        return None

    def _without(self, digest, parts, blobs):
        directory = re_pb.Directory()
        directory.CopyFrom(self.directories[trees.key(digest)])
        if len(parts) == 1:
            keep = [node for node in directory.files if node.name != parts[0]]
            del directory.files[:]
            directory.files.extend(keep)
        else:
            for node in directory.directories:
                if node.name == parts[0]:
                    node.digest.CopyFrom(self._without(node.digest, parts[1:], blobs))
        data = directory.SerializeToString(deterministic=True)
        made = trees.digest_of(data)
        blobs[trees.key(made)] = data
        return made

    def run_without(self, path):
        """Sends the action again, its tree without @path. Return: the Outcome."""
        blobs = {}
        action = re_pb.Action()
        action.CopyFrom(self.action)
        action.do_not_cache = True
        action.input_root_digest.CopyFrom(self._without(self.action.input_root_digest, path.split("/"), blobs))
        self.client.put_blobs(blobs)
        return self.client.execute(self.client.put_msg(action))
