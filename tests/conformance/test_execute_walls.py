# SPDX-License-Identifier: Apache-2.0
"""
Execute: what is outside stays outside. The rows of the bug log only; tests/escape has the guarantees
one by one, with a probe of its own.
"""

import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from bjtest.case import Case


HELLO_C = b"#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n"


class WallCase(Case):

    def python(self, script, exit_code=0, **fields):
        """Runs a Python script as the action."""
        return self.assert_ran(self.client.execute(self.client.action(
            ["/usr/bin/python3", "-c", script], **fields)), exit_code)


class Files(WallCase):

    def test_L118_dev_shm(self):
        """Private, writable, empty at start, gone at the end."""
        script = ("test -z \"$(ls -A /dev/shm)\" && python3 -c 'import multiprocessing as m; m.Lock()' "
                  "&& : > /dev/shm/x")
        for _ in range(4):
            self.run_sh(script)

    def test_L121_private_tmp(self):
        script = ("test -z \"$(ls -A /tmp)\" && set -C && : > /tmp/s.$$ && sleep 0.5 && "
                  "test \"$(ls -A /tmp)\" = s.$$")
        with ThreadPoolExecutor(2) as pool:
            for outcome in pool.map(lambda _: self.client.run(script), range(4)):
                self.assert_ran(outcome)

    def test_L125_root_is_not_writable(self):
        self.run_sh("! mkdir /foo && ! touch /etc/x && ! (: > /usr/x) && ! (: >> /bin/sh) && "
                    "! mkdir /exec/../bar")

    def test_devices(self):
        self.run_sh("echo x > /dev/null && test -z \"$(cat /dev/null)\" && head -c 3 /dev/zero | wc -c "
                    "&& test $(head -c 8 /dev/urandom | wc -c) = 8 && ! echo > /dev/full && "
                    "test -z \"$(find /dev -type b)\"")

    def test_nothing_of_the_host(self):
        """A file that everyone may read, where everyone looks: not there inside."""
        canary = os.path.join(self.server.dir, "canary")
        with open(canary, "w", encoding="ascii") as f:
            f.write("host secret")
        os.chmod(canary, 0o644)
        for path in (canary, self.server.store, "/root", "/home", "/var", "/srv", "/run", "/sys/kernel",
                     "/boot"):
            with self.subTest(path=path):
                self.run_sh("ls -A %s 2>/dev/null | grep -q . && exit 1; exit 0" % path)

    def test_nothing_of_other_actions(self):
        """While another action runs, its files are not to be found."""
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self.client.run, "echo > very-special-name; sleep 2")
            time.sleep(0.5)
            found = self.run_sh("find / -name very-special-name 2>/dev/null; "
                                "ls -d /proc/[0-9]*/root/exec/very* 2>/dev/null; true")
            self.assertEqual(b"", found.stdout)
            self.assert_ran(other.result())

    def test_other_processes_are_not_visible(self):
        """The server and its helpers are not in /proc."""
        outcome = self.run_sh("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
        self.assertNotIn(b"serve", outcome.stdout.split())
        self.assertNotIn(self.server.store.encode(), outcome.stdout)

    def test_L126_setuid_bit_by_any_way(self):
        script = r"""
import ctypes, os, stat, subprocess, tarfile
libc = ctypes.CDLL(None, use_errno=True)
def has(name):
    return bool(os.stat(name).st_mode & stat.S_ISUID)
def new(name):
    open(name, "w").close()
    return name
seen = {}
def way(name, act):
    try:
        act()
        seen[name] = "set" if has(name) else "cleared"
    except OSError as error:
        seen[name] = "errno %d" % error.errno
way("chmod", lambda: os.chmod(new("chmod"), 0o4755))
def fchmodat2():
    if libc.syscall(452, -100, new("fchmodat2").encode(), 0o4755, 0) < 0:
        raise OSError(ctypes.get_errno(), "")
way("fchmodat2", fchmodat2)
if seen["fchmodat2"] == "errno 38":
    del seen["fchmodat2"]   # an older kernel
way("fchmod", lambda: os.fchmod(os.open(new("fchmod"), os.O_RDWR), 0o4755))
os.umask(0)
way("open", lambda: os.open("open", os.O_CREAT | os.O_WRONLY, 0o4755))
print(sorted(set(seen.values())), seen)
assert len(set(seen.values())) == 1, seen
"""
        self.python(script)

    def test_L126_setuid_bit_is_no_part_of_the_result(self):
        outcome = self.client.run("echo 1 > f; chmod 755 f; chmod 4755 f; true", outputs=["f"])
        self.assert_ran(outcome)
        self.assertTrue(outcome.file_entry("f").is_executable)

    def test_L127_setuid_has_no_effect(self):
        outcome = self.run_sh("test -u /usr/bin/su && su root -c 'echo root shell' < /dev/null; echo $?; "
                              "grep NoNewPrivs /proc/self/status")
        self.assertNotIn(b"root shell", outcome.stdout)
        self.assertNotEqual(b"0", outcome.stdout.split()[0])
        self.assertEqual([b"NoNewPrivs:", b"1"], outcome.stdout.split()[-2:])

    def test_no_capabilities(self):
        outcome = self.run_sh("grep -E 'Cap(Prm|Eff|Bnd|Amb|Inh)' /proc/self/status")
        self.assertEqual({b"0" * 16}, set(outcome.stdout.split()[1::2]))

    def test_L145_descriptors_do_not_leak(self):
        """The server holds /etc/hostname open at 2048 without CLOEXEC."""
        fd = os.open("/etc/hostname", os.O_RDONLY)
        try:
            os.dup2(fd, 2048)
            os.set_inheritable(2048, True)
            server = self.new_server(keep_fds=(2048,))
        finally:
            os.close(fd)
            os.close(2048)
        outcome = self.run_sh("ls /proc/self/fd", client=self.new_client(server))
        self.assertEqual([b"0", b"1", b"2", b"3"], outcome.stdout.split())  # 3 is ls's own


class Network(WallCase):

    def test_L120_loopback(self):
        """lo is up, both families; the same port in parallel actions."""
        script = ("import socket, time\n"
                  "for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n"
                  "    s = socket.socket(family); s.bind((host, 8080)); s.listen()\n"
                  "    k = socket.create_connection((host, 8080), 5); a, _ = s.accept(); k.sendall(b'hi')\n"
                  "    assert a.recv(2) == b'hi'; time.sleep(0.5)\n")
        with ThreadPoolExecutor(2) as pool:
            for outcome in pool.map(lambda _: self.python(script), range(4)):
                self.assertEqual(b"", outcome.stderr)

    def test_L120_nothing_else(self):
        """At once, with an errno that says why."""
        start = time.monotonic()
        self.python("import errno, socket\n"
                    "for a in (('192.0.2.1', 80), ('8.8.8.8', 53), ('10.0.0.1', 1)):\n"
                    "    e = socket.socket().connect_ex(a)\n"
                    "    assert e in (errno.ENETUNREACH, errno.EPERM, errno.EACCES), e\n"
                    "e = socket.socket(socket.AF_INET6).connect_ex(('2001:db8::1', 80))\n"
                    "assert e in (errno.ENETUNREACH, errno.EPERM, errno.EACCES, errno.EADDRNOTAVAIL), e\n")
        self.assertLess(time.monotonic() - start, 15)

    def test_L120_the_host_s_loopback_is_another(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            self.python("import errno, socket; e = socket.socket().connect_ex(('127.0.0.1', %d));"
                        "assert e == errno.ECONNREFUSED, e" % listener.getsockname()[1])

    def test_no_interface_but_lo(self):
        self.assertEqual(b"lo", self.run_sh("tail -n +3 /proc/net/dev | cut -d: -f1").stdout.strip())

    def test_L128_no_host_socket_by_path(self):
        self.assertEqual(b"", self.run_sh("find / -type s 2>/dev/null; true").stdout)

    def test_L128_no_host_socket_by_abstract_name(self):
        name = "\0bjtest-%d" % os.getpid()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name)
            listener.listen()
            self.python("import errno, socket; s = socket.socket(socket.AF_UNIX); e = s.connect_ex('\\0%s');"
                        "assert e == errno.ECONNREFUSED, e" % name[1:])


class Syscalls(WallCase):

    def test_L141_unknown_is_enosys(self):
        """glibc falls back on ENOSYS, not on EPERM; threads come up."""
        self.python("import ctypes, threading\n"
                    "libc = ctypes.CDLL(None, use_errno=True)\n"
                    "assert libc.syscall(9999) == -1 and ctypes.get_errno() == 38, ctypes.get_errno()\n"
                    "done = []\n"
                    "ts = [threading.Thread(target=done.append, args=(i,)) for i in range(20)]\n"
                    "[t.start() for t in ts]; [t.join() for t in ts]; assert len(done) == 20\n")

    def test_L142_io_uring(self):
        self.python("import ctypes\n"
                    "libc = ctypes.CDLL(None, use_errno=True)\n"
                    "p = ctypes.create_string_buffer(120)\n"
                    "assert libc.syscall(425, 4, p) == -1, 'a ring'\n"
                    "assert ctypes.get_errno() in (1, 38), ctypes.get_errno()\n")

    def test_L144_leak_sanitizer(self):
        """It ptraces its own process."""
        if not shutil.which("cc", path="/usr/bin"):
            self.skipTest("no C compiler in /usr/bin")
        self.run_sh("cc -fsanitize=address h.c -o a && ./a", inputs={"h.c": HELLO_C})

    def test_L141_compiler_works(self):
        if not shutil.which("cc", path="/usr/bin"):
            self.skipTest("no C compiler in /usr/bin")
        outcome = self.run_sh("cc -O1 h.c -o a && ./a", outputs=["a"], inputs={"h.c": HELLO_C})
        self.assertEqual(b"hello\n", outcome.stdout)
