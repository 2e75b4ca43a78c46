# SPDX-License-Identifier: Apache-2.0
"""
The report that comes with a result, for those rows of the bug log that ask for a record. A record is one
Violation of belljar.v1.SandboxReport; tests/e2e has the records of real builds.
"""

import os
import re
import shutil
import socket
import tempfile

from bjtest import client as c
from bjtest import proc
from bjtest.case import Case
from bjtest.stubs import report_pb
from bjtest.tree import HELLO


class Records(Case):

    def report(self, outcome):
        report = outcome.report()
        self.assertIsNotNone(report, "no SandboxReport in auxiliary_metadata\n%s" % outcome)
        return report

    def records(self, outcome, kind):
        """The violations of one kind."""
        value = getattr(report_pb.Violation, kind)
        return [v for v in self.report(outcome).violations if v.kind == value]

    def one(self, outcome, kind):
        found = self.records(outcome, kind)
        self.assertEqual(1, len(found), self.report(outcome))
        return found[0]

    def python(self, script, **fields):
        return self.assert_ran(self.client.execute(self.client.action(
            ["/usr/bin/python3", "-c", script], **fields)))

    def test_none_for_a_clean_action(self):
        outcome = self.run_sh("cat in > out; cat /etc/passwd > /dev/null; echo 1 > /tmp/x",
                              inputs={"in": HELLO}, outputs=["out"])
        report = self.report(outcome)
        self.assertEqual([], list(report.violations))
        self.assertTrue(report.observation_complete)
        self.assertEqual(0, report.dropped)
        self.assertEqual(b"", outcome.stderr)

    def test_what_ran_is_said(self):
        """L130: the level of the walls stands in each result."""
        report = self.report(self.run_sh("true"))
        self.assertIn(report.profile, ("privileged", "userns", "nested", "landlock"))
        self.assertEqual("none", report.network)
        self.assertNotEqual("", report.observer)
        self.assertEqual("scratch", report.write_mode)

    def test_L59_stray_process(self):
        """A record, not a failure."""
        mark = proc.marker()
        outcome = self.run_sh("nohup sleep %s > /dev/null 2>&1 & sleep 0.1" % mark)
        record = self.one(outcome, "STRAY_PROCESS")
        self.assertIn("sleep", (record.comm, os.path.basename(record.exe), record.argv0))

    def test_strays_are_not_cached(self):
        """design §3.3: such a result is not closed."""
        action = self.client.sh("sleep %s & sleep 0.1" % proc.marker())
        self.assertFalse(self.report(self.assert_ran(self.client.execute(action))).closed)
        self.assertIsNone(self.client.get_result(action))

    def test_L120_network(self):
        outcome = self.python("import socket; socket.socket().connect_ex(('192.0.2.1', 80))")
        record = self.one(outcome, "NETWORK")
        self.assertEqual(("192.0.2.1", 80), (record.address, record.port))
        self.assertNotEqual(0, record.errno_value)
        self.assertTrue(record.enforced)

    def test_L120_loopback_is_no_violation(self):
        outcome = self.python("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
                              "socket.create_connection(s.getsockname())")
        self.assertEqual([], self.records(outcome, "NETWORK"))

    def test_L125_writes_outside(self):
        outcome = self.run_sh("mkdir /foo; touch /etc/x; true")
        found = {v.resolved or v.path: v for v in self.records(outcome, "WRITE_UNDECLARED")}
        self.assertEqual({"/foo", "/etc/x"}, set(found))
        for record in found.values():
            self.assertTrue(record.enforced)
            self.assertNotEqual("", record.operation)

    def test_L128_socket_of_the_host(self):
        path = os.path.join(tempfile.mkdtemp(prefix="bjtest-", dir="/var/tmp"), "sock")
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            outcome = self.python("import socket; socket.socket(socket.AF_UNIX).connect_ex('%s')" % path)
        record = self.one(outcome, "UNIX_SOCKET")
        self.assertIn(path, (record.address, record.path, record.resolved))

    def test_L142_io_uring(self):
        outcome = self.python("import ctypes; p = ctypes.create_string_buffer(120);"
                              "ctypes.CDLL(None).syscall(425, 4, p)")
        record = self.one(outcome, "SYSCALL")
        self.assertIn("io_uring", record.operation)

    def test_L78_no_guess_at_memory(self):
        """137 alone does not prove that memory ran out."""
        outcome = self.run_sh("kill -9 $$", 137)
        self.assertEqual([], self.records(outcome, "RESOURCE"))

    def test_L42_write_to_an_input(self):
        outcome = self.run_sh("echo x >> in; true", inputs={"in": HELLO})
        record = self.one(outcome, "WRITE_TO_INPUT")
        self.assertTrue((record.resolved or record.path).endswith("/in"), record)

    def test_undeclared_output(self):
        """Made and lost: reported with its size; what was removed again is not."""
        outcome = self.run_sh("printf 12345 > lost; echo x > gone; rm gone; echo > f", outputs=["f"])
        record = self.one(outcome, "UNDECLARED_OUTPUT")
        self.assertTrue((record.resolved or record.path).endswith("lost"), record)
        self.assertEqual(5, record.size_bytes)

    def test_L04_missing_output_of_a_success_is_no_record(self):
        """Bazel's tests declare ten outputs that are often absent."""
        outcome = self.run_sh("true", outputs=["never", "d/never"])
        self.assertEqual([], self.records(outcome, "MISSING_OUTPUT"))

    def test_missing_output_of_a_failure(self):
        outcome = self.run_sh("exit 1", 1, outputs=["never"])
        self.assertEqual("never", self.one(outcome, "MISSING_OUTPUT").wanted)

    def test_read_of_a_host_file(self):
        """One that the host has and the jar has not."""
        # Not below /tmp, which is the action's own.
        fd, path = tempfile.mkstemp(prefix="bjtest-canary-", dir="/var/tmp")
        os.close(fd)
        self.addCleanup(os.unlink, path)
        outcome = self.run_sh("cat %s; true" % path)
        record = self.one(outcome, "READ_UNDECLARED")
        self.assertEqual(path, record.resolved or record.path)
        self.assertTrue(record.on_host and record.enforced)
        self.assertNotEqual(b"", outcome.stderr)

    def test_search_is_no_violation(self):
        """A path that exists nowhere: counted, not reported."""
        outcome = self.run_sh("cat /no/such/file; cat no-such; true", inputs={"in": HELLO})
        self.assertEqual([], list(self.report(outcome).violations))

    def test_records_survive_the_cache(self):
        self.client.wait_caching()
        action = self.client.sh("cat /root/.profile /etc/shadow; echo > lost; true")
        first = self.assert_ran(self.client.execute(action))
        again = self.assert_ran(self.client.execute(action))
        self.assertTrue(again.response.cached_result)
        self.assertEqual(list(self.report(first).violations), list(self.report(again).violations))
        self.assertGreater(len(self.report(again).violations), 0)

    def test_fail_turns_success_into_121(self):
        """design §3.3: status OK, exit code 121 if the command's was 0, a line in message; on hits too."""
        self.client.wait_caching()
        salt = os.urandom(8)
        script = "echo > lost; true"
        strict = self.client.sh(script, platform={"sandbox.onViolation": "fail"}, salt=salt)
        for _ in range(2):
            outcome = self.assert_ran(self.client.execute(strict), 121)
            self.assertIn("lost", outcome.response.message)
        self.run_sh(script + "; exit 3", 3, platform={"sandbox.onViolation": "fail"})
        self.run_sh(script, platform={"sandbox.onViolation": "off"})

    def test_a_host_name_is_the_network(self):
        """Nobody answers libc on loopback's port 53: the wish is recorded all the same."""
        outcome = self.run_sh("getent hosts example.com; true")
        self.assertEqual(53, self.one(outcome, "NETWORK").port)
        self.assertIn(b"host name", outcome.stderr)

    def test_full_work_area(self):
        """An action that meets a full disk and goes on has another result than alone: told, and not cached (L92)."""
        server = self.new_server(config={"workBytes": 16 << 20})
        client = self.new_client(server)
        client.wait_caching()
        action = client.sh("dd if=/dev/zero of=/tmp/x bs=1M count=64 2>/dev/null || true")
        outcome = self.assert_ran(client.execute(action))
        self.assertEqual("disk", self.one(outcome, "RESOURCE").operation)
        self.assertIsNone(client.get_result(action))
        self.assert_ran(client.run("test -z \"$(ls -A /tmp)\" && : > g", outputs=["g"]))

    def test_server_log(self):
        outcome = self.run_sh("mkdir /foo; true")
        log = outcome.response.server_logs["sandbox"]
        self.assertTrue(log.human_readable)
        self.assertIn(b"/foo", self.client.read(log.digest))

    def test_strange_names_do_not_break_the_report(self):
        """Not UTF-8, control characters, long: the record is valid, stderr is clean of escapes."""
        outcome = self.python("import os; open(b'a\\xff\\x1b[31m\\n' + b'x' * 200, 'w').close()")
        record = self.one(outcome, "UNDECLARED_OUTPUT")
        self.assertIn(b"\xff", record.raw_path)
        self.assertNotIn(b"\x1b", outcome.stderr)
        self.assertLessEqual(outcome.stderr.count(b"\n"), 3)

    def test_stderr_is_the_command_s_first(self):
        outcome = self.run_sh("echo own >&2; echo > lost", 0)
        self.assertTrue(outcome.stderr.startswith(b"own\n"), outcome.stderr)
        lines = outcome.stderr.splitlines()[1:]
        self.assertTrue(1 <= len(lines) <= 3, lines)
        self.assertTrue(all(line.startswith(b"belljar:") for line in lines), lines)
        again = self.run_sh("echo own >&2; echo > lost", 0)
        # The action's own digest is the one thing that may differ between two actions.
        self.assertEqual(*(re.sub(rb"explain [0-9a-f]+", b"explain X", o.stderr) for o in (outcome, again)))

    def test_not_ok_has_no_121(self):
        """A violation never makes the status other than OK: a client might fall back to local execution."""
        outcome = self.client.run("mkdir /foo; cat /etc/shadow", platform={"sandbox.onViolation": "fail"})
        self.assertEqual(c.OK, outcome.code, outcome)
