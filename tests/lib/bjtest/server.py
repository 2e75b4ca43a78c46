# SPDX-License-Identifier: Apache-2.0
"""One `belljar serve` process, with a store of its own, started and stopped by a test."""

import os
import re
import select
import shlex
import signal
import subprocess
import time

from . import env, proc

START_SECONDS = 30
STOP_SECONDS = 30
# So that a server never outlives the tests, however they end. No preexec_fn: this process has gRPC's threads.
_LAUNCH = ["setpriv", "--pdeathsig", "KILL", "--"]


class ServerError(AssertionError):
    """The server did not do what a server process must (start, stop, exit 0)."""


class Server:
    """
    A running server after start(). The store outlives stop() and kill(), so that start() again is a restart.

    @flags: more flags for `serve`
    @store: directory; a fresh one by default
    @config: {key: scalar} for a file that --config names
    @environ: the server's whole environment; a small one by default
    @wrapper: argv that comes before the server's own, e.g. ["prlimit", "--core=0:0"]
    @keep_fds: descriptors that the server process inherits, at the same numbers
    """

    def __init__(self, *flags, store=None, config=None, environ=None, wrapper=(), keep_fds=()):
        self.dir = env.fresh_dir("server")
        self.store = store or os.path.join(self.dir, "store")
        self.log_path = os.path.join(self.dir, "log")
        self.flags = list(flags) + shlex.split(os.environ.get("BJ_SERVE_FLAGS", ""))
        if config:
            path = os.path.join(self.dir, "config.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines("%s: %s\n" % pair for pair in config.items())
            self.flags.append("--config=" + path)
        self.environ = environ or {"PATH": "/usr/bin:/bin", "HOME": "/root", "BJ_SECRET": "leak-1"}
        self.wrapper = list(wrapper)
        self.keep_fds = keep_fds
        self.process = None
        self.address = None
        self._starts = 0

    def start(self, wait=True):
        """Starts it and waits until it has written its port. Return: self."""
        assert not self.process, "already running"
        self._starts += 1
        port_file = os.path.join(self.dir, "port-%d" % self._starts)
        argv = _LAUNCH + self.wrapper + [
            os.path.join(env.BIN, "belljar"), "serve", "--listen=127.0.0.1:0",
            "--store=" + self.store, "--port-file=" + port_file] + self.flags
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environ, cwd="/",
                pass_fds=self.keep_fds)
        if wait:
            self._wait_port(port_file)
        return self

    def _wait_port(self, port_file):
        deadline = time.monotonic() + START_SECONDS
        gone = select.poll()
        pidfd = os.pidfd_open(self.process.pid)
        try:
            gone.register(pidfd, select.POLLIN)
            while True:
                try:
                    with open(port_file, encoding="ascii") as f:
                        found = re.search(r"(\d+)\s*$", f.read())
                    if found:
                        self.address = "127.0.0.1:" + found.group(1)
                        return
                except FileNotFoundError:
                    pass
                if gone.poll(5):
                    code = self.process.wait()
                    self.process = None
                    raise ServerError("server ended with %d at start:\n%s" % (code, self.log_tail()))
                if time.monotonic() > deadline:
                    log = self.log_tail()
                    self.kill()
                    raise ServerError("no port after %d s:\n%s" % (START_SECONDS, log))
        finally:
            os.close(pidfd)

    @property
    def pid(self):
        return self.process.pid

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        try:
            with open(self.log_path, "rb") as f:
                return f.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def log_tail(self, lines=25):
        return "\n".join(self.log().splitlines()[-lines:])

    def stop(self):
        """SIGTERM. It must exit with 0 and leave no process behind."""
        if not self.process:
            return
        below = proc.descendants(self.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log = self.log_tail()
            self.kill()
            raise ServerError("still there %d s after SIGTERM:\n%s" % (STOP_SECONDS, log)) from None
        self.process = None
        if code != 0:
            raise ServerError("exit status %d after SIGTERM:\n%s" % (code, self.log_tail()))
        self._expect_gone(below)

    def kill(self):
        """SIGKILL; what it had started must die with it."""
        if not self.process:
            return
        below = proc.descendants(self.pid)
        self.process.kill()
        self.process.wait()
        self.process = None
        self._expect_gone(below)

    @staticmethod
    def _expect_gone(pids):
        if not proc.wait_until(lambda: not any(proc.is_alive(pid) for pid in pids), 10):
            left = [(pid, proc.cmdline(pid)) for pid in pids if proc.is_alive(pid)]
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            raise ServerError("outlived the server: %s" % left)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()
