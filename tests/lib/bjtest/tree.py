# SPDX-License-Identifier: Apache-2.0
"""
Merkle trees: an input root is written as a dict, an output Tree is read back into one.

    {"a.txt": b"hello\\n", "tool": Exec(b"#!/bin/sh\\n…"), "l": Link("a.txt"), "d": {"e": {}}}
"""

import hashlib

from . import wire
from .stubs import re_pb

HELLO = b"hello\n"


class Exec(bytes):
    """Contents of a file that is executable."""


class Link(str):
    """A symbolic link; the string is its target."""


class DirRef:
    """A subdirectory by digest: raw Directory bytes, or a digest that nobody uploaded."""

    def __init__(self, raw=None, digest=None):
        self.raw = raw
        self.digest = digest if digest is not None else digest_of(raw)


class FileRef:
    """A file by digest, without its bytes."""

    def __init__(self, digest, executable=False):
        self.digest = digest
        self.executable = executable


def digest_of(data):
    """SHA-256 Digest of bytes."""
    return re_pb.Digest(hash=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def key(digest):
    """A Digest as something that a set can hold."""
    return (digest.hash, digest.size_bytes)


def digest_str(digest):
    return "%s/%d" % (digest.hash, digest.size_bytes)


EMPTY = digest_of(b"")


def build(spec, blobs):
    """The Directory for @spec; every blob of the tree goes into @blobs {key: bytes}. Return: its digest."""
    directory = re_pb.Directory()
    for name in sorted(spec, key=lambda n: n.encode()):
        value = spec[name]
        if isinstance(value, dict):
            directory.directories.add(name=name, digest=build(value, blobs))
        elif isinstance(value, DirRef):
            if value.raw is not None:
                blobs[key(value.digest)] = value.raw
            directory.directories.add(name=name, digest=value.digest)
        elif isinstance(value, Link):
            directory.symlinks.add(name=name, target=str(value))
        elif isinstance(value, FileRef):
            directory.files.add(name=name, digest=value.digest, is_executable=value.executable)
        else:
            data = value.encode() if isinstance(value, str) else bytes(value)
            digest = digest_of(data)
            blobs[key(digest)] = data
            directory.files.add(name=name, digest=digest, is_executable=isinstance(value, Exec))
    data = directory.SerializeToString(deterministic=True)
    digest = digest_of(data)
    blobs[key(digest)] = data
    return digest


def unfold(tree, read):
    """A Tree as a dict in the form that build() takes; file contents through read(digest)."""
    children = {key(digest_of(d.SerializeToString())): d for d in tree.children}

    def walk(directory):
        out = {}
        for node in directory.files:
            data = read(node.digest)
            out[node.name] = Exec(data) if node.is_executable else data
        for node in directory.symlinks:
            out[node.name] = Link(node.target)
        for node in directory.directories:
            if key(node.digest) == key(EMPTY) and key(EMPTY) not in children:
                raise AssertionError("Tree lacks the empty child %r" % node.name)
            out[node.name] = walk(children[key(node.digest)])
        return out

    return walk(tree.root)


# ---- Directory messages that no library writes ----

def raw_digest(data):
    """Digest message of @data, encoded by hand."""
    return wire.msg(wire.field(1, hashlib.sha256(data).hexdigest()), wire.field(2, len(data)))


def raw_file(name, data=HELLO, digest=None):
    """A files entry of a Directory. @name: bytes, whatever they are."""
    return wire.field(1, wire.msg(*([wire.field(1, name)] if name else []),
                                  wire.field(2, raw_digest(data) if digest is None else digest)))


def raw_dir(name, child):
    """A directories entry; @child: the bytes of the child Directory."""
    digest = wire.msg(wire.field(1, hashlib.sha256(child).hexdigest()),
                      *([wire.field(2, len(child))] if child else []))
    return wire.field(2, wire.msg(*([wire.field(1, name)] if name else []), wire.field(2, digest)))


def raw_link(name, target):
    """A symlinks entry."""
    return wire.field(3, wire.msg(*([wire.field(1, name)] if name else []),
                                  *([wire.field(2, target)] if target else [])))
