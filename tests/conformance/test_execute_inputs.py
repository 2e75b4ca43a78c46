# SPDX-License-Identifier: Apache-2.0
"""Execute: the input root as the action sees it; working directory, rights, times, privacy."""

import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor

from bjtest import client as c
from bjtest.case import Case, slow
from bjtest.stubs import re_pb
from bjtest.tree import HELLO, DirRef, Exec, Link, digest_of


class WorkingDirectory(Case):

    def test_in_the_root_by_default(self):
        outcome = self.run_sh("pwd; ls", inputs={"a": b"1"})
        self.assertEqual(b"a", outcome.stdout.split()[1])

    def test_L25_dot_is_the_root(self):
        """design §7."""
        inputs = {"a": b"1"}
        plain = self.run_sh("pwd; ls", inputs=inputs)
        dot = self.run_sh("pwd; ls", inputs=inputs, cwd=".")
        self.assertEqual(plain.stdout, dot.stdout)

    def test_nested(self):
        outcome = self.run_sh("cat f ../g", inputs={"w": {"x": {"f": b"1"}, "g": b"2"}}, cwd="w/x")
        self.assertEqual(b"12", outcome.stdout)

    def test_L26_absent(self):
        """Parents of outputs do not make it an input; refused before the run, nothing cached."""
        for outputs in (["f"], []):
            action = self.client.sh("echo > f", cwd="out/x", outputs=outputs)
            outcome = self.client.execute(action)
            self.assert_refused(outcome, "out/x")
            self.assertIsNone(self.client.get_result(action))

    def test_L26_a_file(self):
        self.assert_refused(self.client.run("true", inputs={"w": b"1"}, cwd="w"), "w")

    def test_L26_outside(self):
        for cwd in ("..", "../x", "w/../..", "/", "/tmp", "/exec"):
            with self.subTest(cwd=cwd):
                self.assert_refused(self.client.run("true", inputs={"w": {}}, cwd=cwd), cwd)

    def test_L26_through_a_link_that_climbs(self):
        """A link is no directory of the input tree, even where it leads to one."""
        outcome = self.client.run("pwd", inputs={"l": Link("../../tmp")}, cwd="l")
        self.assert_refused(outcome, "l")


class Privacy(Case):
    """Whatever an action does to its inputs, nobody else sees it."""

    def assert_intact(self, script, inputs, check):
        """After @script another action over the same inputs passes @check."""
        self.client.run(script, inputs=inputs)
        self.run_sh(check, inputs=inputs)

    def test_L39_names_in_an_input_directory(self):
        self.assert_intact("rm d/f; : > d/g", {"d": {"f": HELLO}}, "test -f d/f -a ! -e d/g")

    def test_L39_creation_is_possible(self):
        self.run_sh("rm d/f && : > d/g && mkdir d/h && mv d/g d/h/g", inputs={"d": {"f": HELLO}})

    def test_L40_modes(self):
        inputs = {"t": Exec(b"#!/bin/sh\nexit 0\n")}
        self.assert_intact("chmod 0 t; chmod 644 t", inputs, "./t")

    def test_L42_bytes_of_an_input(self):
        """design §3.1: appended to, truncated, replaced: refused, or a private copy."""
        inputs = {"in": HELLO, "d": {"in": HELLO}}
        for script in ("echo x >> in", ": > in", "truncate -s 3 d/in", "rm in; echo x > in",
                       "echo x > n; mv n in", "sed -i s/h/j/ in", "cp /bin/true in",
                       "python3 -c \"import mmap; f=open('in','r+b'); mmap.mmap(f.fileno(),0)[0]=88\""):
            with self.subTest(script):
                self.assert_intact(script, inputs, "test \"$(cat in d/in)\" = \"$(printf 'hello\\nhello')\"")

    def test_L42_new_files_beside_inputs(self):
        self.run_sh("echo x > new && cat new", inputs={"in": HELLO})

    def test_L42_stored_blob_is_intact(self):
        data = os.urandom(50)
        self.client.run("echo x >> in; chmod 777 in; : > in", inputs={"in": data})
        self.assertEqual(data, self.client.read(digest_of(data)))

    def test_two_at_a_time(self):
        """The same tree in two slots: each has its own."""
        script = ("for i in $(seq 30); do echo $$ > d/n; test \"$(cat d/n)\" = $$ || exit 1; done; "
                  "test $(ls d | wc -l) = 2")
        with ThreadPoolExecutor(4) as pool:
            for outcome in pool.map(lambda _: self.client.run(script, inputs={"d": {"f": HELLO}}), range(8)):
                self.assert_ran(outcome)

    def test_nothing_is_left_for_the_next(self):
        """Files of one action in /tmp, /dev/shm, the root: gone for all that follow, in whatever slot."""
        for _ in range(4):
            self.run_sh("touch /tmp/left /dev/shm/left left; mkdir -p /tmp/d/e")
        for _ in range(4):
            self.run_sh("test -z \"$(ls -A /tmp /dev/shm . | grep -v :)\"")


class Staging(Case):

    def test_L43_many_names_for_one_blob(self):
        self.many_names(300)

    @slow
    def test_L43_more_names_than_links(self):
        """ext4 has 65,000 links to a file at most."""
        self.many_names(65100)

    def many_names(self, count):
        inputs = {"%05d" % n: HELLO for n in range(count)}
        self.assertEqual(count, int(self.run_sh("ls -f | grep -c '[0-9]'", inputs=inputs).stdout))

    def test_L45_fresh_executables(self):
        """A distinct program each time, run at once: no ETXTBSY, no exit 126."""
        def one(number):
            tool = Exec(b"#!/bin/sh\n# %d\nexit 0\n" % number)
            return self.client.execute(self.client.action(["./t"], inputs={"t": tool}))
        with ThreadPoolExecutor(8) as pool:
            for outcome in pool.map(one, range(200)):
                self.assert_ran(outcome)

    def test_L45_fresh_binary(self):
        """The same with an ELF file, which the kernel itself refuses to run while it is written."""
        with open("/bin/true", "rb") as f:
            true = f.read()
        with ThreadPoolExecutor(4) as pool:
            for outcome in pool.map(lambda n: self.client.execute(self.client.action(
                    ["./t"], inputs={"t": Exec(true + b"%d" % n)})), range(40)):
                self.assert_ran(outcome)

    def test_L48_mtime_is_after_1980(self):
        self.run_sh("python3 -m zipfile -c o.zip f", inputs={"f": HELLO})

    def test_L49_mtime_is_in_the_past(self):
        inputs = {"f%d" % n: b"%d" % n for n in range(20)}
        self.run_sh("for f in *; do test $(stat -c %Y $f) -lt $(date +%s) || exit 1; done", inputs=inputs)

    def test_one_fixed_mtime(self):
        """design §4: one for all inputs (only equal contents may differ, by a second), and every run."""
        inputs = {"a": b"1", "d": {"b": b"2"}}
        outcomes = {self.run_sh("stat -c %Y a d/b", inputs=inputs).stdout for _ in range(3)}
        self.assertEqual(1, len(outcomes))
        self.assertEqual(1, len(set(outcomes.pop().split())))

    def test_outputs_are_newer(self):
        self.run_sh("echo > o && test o -nt a", inputs={"a": b"1"})

    def test_L50_dot_dot(self):
        """Staged directories are real ones."""
        self.run_sh("cat d/e/../../x && cd d/e && cat ../../x && test ! -L ../../d && "
                    "test \"$(pwd -P)\" = \"$PWD\"",
                    inputs={"d": {"e": {"keep": b"1"}}, "x": b"2"})

    def test_L109_thousands_of_files(self):
        self.thousands(3000)

    @slow
    def test_L109_all_of_100000_files(self):
        self.thousands(100000)

    def thousands(self, count):
        inputs = {}
        for n in range(count):
            inputs.setdefault("d%03d" % (n // 500), {})["%08d" % n] = b"%08d" % n
        outcome = self.run_sh("find . -type f | wc -l; cat d000/00000007", inputs=inputs)
        self.assertEqual(b"%d\n00000007" % count, outcome.stdout)

    def test_equal_subtrees(self):
        sub = {"s": {"x": HELLO}}
        outcome = self.run_sh("cat a/s/x b/s/x c/d/s/x; rm a/s/x; cat b/s/x",
                              inputs={"a": sub, "b": sub, "c": {"d": sub}})
        self.assertEqual(HELLO * 4, outcome.stdout)

    def test_inputs_are_readable(self):
        """By the user of the action, whatever the umask of the server was."""
        server = self.new_server(wrapper=["sh", "-c", "umask 077; exec \"$@\"", "sh"])
        outcome = self.run_sh("cat f d/g && ./x", client=self.new_client(server), inputs={
            "f": b"1", "d": {"g": b"2"}, "x": Exec(b"#!/bin/sh\nexit 0\n")})
        self.assertEqual(b"12", outcome.stdout)

    def test_L57_tar_of_root(self):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo("member")
            info.size = len(HELLO)
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            tar.addfile(info, io.BytesIO(HELLO))
        outcome = self.run_sh("tar -xf t.tar && cat member", inputs={"t.tar": buffer.getvalue()})
        self.assertEqual(HELLO, outcome.stdout)

    def test_L56_chown_to_another(self):
        """Refused with an errno that says why: not mapped, or not permitted."""
        outcome = self.run_sh("touch f; chown 12345:12345 f", 1)
        self.assertRegex(outcome.stderr, b"Invalid argument|not permitted")

    def test_L122_directories_without_write(self):
        for _ in range(5):
            self.run_sh("mkdir -p a/b; : > a/b/f; chmod 555 a a/b")
            self.run_sh("mkdir -p /tmp/a/b; : > /tmp/a/b/f; chmod 0 /tmp/a/b /tmp/a")
        self.run_sh("test ! -e a && test ! -e /tmp/a")

    def test_L124_output_directory_without_write(self):
        outcome = self.run_sh("mkdir o; echo hi > o/f; chmod 444 o/f; chmod 555 o", outputs=["o"])
        self.assertEqual({"f": b"hi\n"}, outcome.dir("o"))

    def test_L124_output_that_nobody_may_read(self):
        for script in ("mkdir o; echo hi > o/f; chmod 000 o/f", "mkdir o; echo hi > o/f; chmod 000 o"):
            with self.subTest(script):
                outcome = self.client.run(script, outputs=["o"])
                if outcome.code == c.OK:
                    self.assertEqual({"f": b"hi\n"}, outcome.dir("o"))
                else:
                    self.assert_refused(outcome, "o", codes=(c.FAILED_PRECONDITION,))

    def test_L135_links_where_mounts_are(self):
        """Names of the input root mean nothing for the jar's own mounts."""
        strategy = self.client.get_capabilities().cache_capabilities.symlink_absolute_path_strategy
        is_allowed = strategy == re_pb.SymlinkAbsolutePathStrategy.ALLOWED
        inputs = {"tmp": Link("/nonexistent" if is_allowed else "nonexistent"),
                  "dev": Link("/" if is_allowed else "."), "proc": Link("nowhere"), "etc": {}, "exec": {}}
        self.run_sh("echo 1 > /tmp/x && test -c /dev/null && test -r /proc/self/status && test -d exec",
                    inputs=inputs)


class Damage(Case):

    def test_L46_damaged_blob(self):
        """A bit flips in the store: an error or the right bytes, never wrong bytes with OK."""
        server = self.new_server()
        client = self.new_client(server)
        data = os.urandom(64).hex().encode()
        digest = client.put(data)
        server.kill()  # an unclean stop makes every blob suspect
        found = [os.path.join(d, f) for d, _, files in os.walk(server.store) for f in files
                 if digest.hash in os.path.join(d, f)]
        self.assertEqual(1, len(found), "no file of the store bears the hash")
        os.chmod(found[0], 0o644)
        with open(found[0], "r+b") as f:
            f.write(b"X")
        server.start()
        client = self.new_client(server)
        inputs = {"g": data}
        root = re_pb.Directory()
        root.files.add(name="g", digest=digest)
        outcome = client.execute(client.sh("cat g", root=client.put_msg(root)))
        if outcome.code == c.OK:
            self.assertEqual(data, outcome.stdout)
        else:
            self.assertIn(outcome.code, (c.FAILED_PRECONDITION, 15))  # MISSING, or DATA_LOSS
        self.assertEqual(data, self.run_sh("cat g", client=client, inputs=inputs).stdout)

    def test_missing_subdirectory_is_named_once(self):
        """Twice in the tree, one violation."""
        absent = DirRef(digest=digest_of(b"\x0a\x03\x0a\x01x" + os.urandom(4)))
        outcome = self.client.run("true", inputs={"a": absent, "b": absent})
        self.assertEqual(c.FAILED_PRECONDITION, outcome.code, outcome)
        self.assertEqual(1, len(outcome.missing), outcome)
