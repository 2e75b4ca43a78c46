# SPDX-License-Identifier: Apache-2.0
"""Processes of this machine, found through /proc: who still runs, by marker or by descent."""

import itertools
import os
import time

_serial = itertools.count(1)


def marker():
    """A number of seconds that no other sleep has: `sleep MARKER` is then found by its argument."""
    return "%d.%07d" % (3600 + next(_serial), os.getpid() % 10**7)


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as f:
            return f.read()
    except (OSError, ValueError):
        return b""


def is_alive(pid):
    """False for zombies too: they run no more."""
    stat = _read(pid, "stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def is_stopped(pid):
    """By SIGSTOP or the like."""
    stat = _read(pid, "stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] == b"T"


def parent(pid):
    stat = _read(pid, "stat")
    return int(stat.rpartition(b")")[2].split()[1]) if stat else 0


def cmdline(pid):
    return _read(pid, "cmdline").split(b"\0")[:-1]


def with_argument(text):
    """Pids of live processes that have @text as one whole argument."""
    want = text.encode()
    return [pid for pid in _pids() if want in cmdline(pid) and is_alive(pid)]


def descendants(root):
    """Pids below @root, live ones."""
    children = {}
    for pid in _pids():
        children.setdefault(parent(pid), []).append(pid)
    out, todo = [], [root]
    while todo:
        for pid in children.get(todo.pop(), []):
            out.append(pid)
            todo.append(pid)
    return [pid for pid in out if is_alive(pid)]


def holdings(pid):
    """What a process tree holds: {thing: number}, for comparing before and after."""
    pids = [pid] + descendants(pid)
    out = {"processes": len(pids), "descriptors": 0, "threads": 0}
    for one in pids:
        for what, directory in (("descriptors", "fd"), ("threads", "task")):
            try:
                out[what] += len(os.listdir("/proc/%d/%s" % (one, directory)))
            except OSError:
                pass
    out["mounts"] = _read(pid, "mountinfo").count(b"\n")
    return out


def wait_until(check, seconds, every=0.01):
    """Polls check() until it is true. Return: its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() >= deadline:
            return value
        time.sleep(every)


def wait_started(text, seconds=20):
    """Pids of the processes with argument @text, as soon as there is one."""
    found = wait_until(lambda: with_argument(text), seconds)
    if not found:
        raise AssertionError("no process with argument %s came up in %d s" % (text, seconds))
    return found


def wait_gone(text, seconds):
    """Seconds until no process has argument @text; AssertionError when some are left."""
    start = time.monotonic()
    if not wait_until(lambda: not with_argument(text), seconds):
        raise AssertionError("after %s s still alive: %s" % (
            seconds, [(pid, cmdline(pid)) for pid in with_argument(text)]))
    return time.monotonic() - start
