# SPDX-License-Identifier: Apache-2.0
"""Execute: processes, strays, timeouts, signals, and what happens to those that watch them."""

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from bjtest import client as c
from bjtest import proc
from bjtest.case import Case, slow
from bjtest.tree import FileRef, digest_of

SOON = 15  # seconds: far below the hour that every `sleep MARKER` lasts


class Strays(Case):

    def ends_soon(self, script, mark, **fields):
        """The result comes soon; then no process of the action is alive."""
        start = time.monotonic()
        outcome = self.client.run(script, **fields)
        self.assertLess(time.monotonic() - start, SOON)
        self.assertEqual([], proc.with_argument(mark))
        return outcome

    def test_L58_L59_daemon(self):
        mark = proc.marker()
        self.assert_ran(self.ends_soon("nohup sleep %s > /dev/null 2>&1 &" % mark, mark))

    def test_L62_stray_that_keeps_stdout(self):
        mark = proc.marker()
        outcome = self.assert_ran(self.ends_soon("echo a; setsid sleep %s & echo b" % mark, mark))
        self.assertEqual(b"a\nb\n", outcome.stdout)

    def test_double_fork(self):
        mark = proc.marker()
        script = "(setsid sh -c 'sleep %s & sleep %s' &) ; exit 0" % (mark, mark)
        self.assert_ran(self.ends_soon(script, mark))

    def test_stray_that_ignores_signals(self):
        mark = proc.marker()
        script = "sh -c 'trap \"\" TERM HUP INT; exec sleep %s' & sleep 0.1" % mark
        self.assert_ran(self.ends_soon(script, mark))

    def test_stray_that_stopped_itself(self):
        mark = proc.marker()
        self.assert_ran(self.ends_soon("sleep %s & kill -STOP $!" % mark, mark))

    def test_many_strays(self):
        mark = proc.marker()
        self.assert_ran(self.ends_soon("for i in $(seq 100); do sleep %s & done" % mark, mark))

    def test_exit_code_is_the_command_s(self):
        """Not that of the last process to end."""
        mark = proc.marker()
        self.assert_ran(self.ends_soon("(sleep 0.2; exit 9) & sleep %s & exit 5" % mark, mark), 5)

    def check_writer(self, runs):
        script = "(trap '' TERM; while :; do date +%N > o/f; done) & mkdir -p o; sleep .05; exit 0"
        for _ in range(runs):
            outcome = self.run_sh(script, outputs=["o"], do_not_cache=True)
            outcome.dir("o")  # every read is checked against its digest

    def test_L24_L68_stray_that_writes_an_output(self):
        self.check_writer(25)

    @slow
    def test_L68_500_runs(self):
        self.check_writer(500)

    def test_L24_file_that_grows(self):
        outcome = self.run_sh("(while :; do echo x >> f; done) & sleep 0.2", outputs=["f"])
        data = outcome.file("f")
        self.assertGreater(len(data), 0)
        time.sleep(0.1)
        self.assertEqual(data, self.client.read(outcome.file_entry("f").digest))

    def test_L66_a_quiet_action_lives(self):
        self.run_sh("sleep 3")


class Timeout(Case):

    def test_L63_kills_the_tree(self):
        mark = proc.marker()
        start = time.monotonic()
        outcome = self.client.run("sleep %s & setsid sleep %s & wait" % (mark, mark), timeout=1)
        spent = time.monotonic() - start
        self.assertEqual(c.DEADLINE_EXCEEDED, outcome.code, outcome)
        self.assertEqual("response", outcome.via)
        self.assertGreaterEqual(spent, 1)
        self.assertLess(spent, SOON)
        self.assertEqual([], proc.with_argument(mark))

    def test_timeout_keeps_what_was_printed(self):
        """And the outputs that were made; nothing of it is cached."""
        mark = proc.marker()
        action = self.client.sh("echo out; echo err >&2; echo 1 > f; sleep %s" % mark,
                                timeout=1, outputs=["f"])
        outcome = self.client.execute(action)
        self.assertEqual(c.DEADLINE_EXCEEDED, outcome.code, outcome)
        self.assertEqual((b"out\n", b"err\n"), (outcome.stdout, outcome.stderr))
        self.assertIsNone(self.client.get_result(action))

    def test_L63_ignoring_signals_does_not_help(self):
        mark = proc.marker()
        outcome = self.client.run("trap '' TERM INT HUP; sleep %s; sleep %s" % (mark, mark), timeout=1)
        self.assertEqual(c.DEADLINE_EXCEEDED, outcome.code, outcome)
        self.assertEqual([], proc.with_argument(mark))

    def test_L72_covers_execution_only(self):
        """A queue is no part of it: eight actions of 1.5 s each, with a timeout of 4 s, on two slots."""
        server = self.new_server("--slots=2")
        client = self.new_client(server)
        with ThreadPoolExecutor(8) as pool:
            for outcome in pool.map(lambda _: client.run("sleep 1.5", timeout=4), range(8)):
                self.assert_ran(outcome)

    def test_L72_above_the_maximum(self):
        """Refused, not cut down to it; what is just below runs."""
        client = self.new_client(self.new_server(config={"maxTimeoutSeconds": 60}))
        for timeout in (61, 60.000000001):
            outcome = client.run("true", timeout=timeout)
            self.assert_refused(outcome, "timeout", codes=(c.INVALID_ARGUMENT,))
        self.run_sh("true", client=client, timeout=60)

    def test_L72_above_any_maximum(self):
        outcome = self.client.run("true", timeout=3 * 10**9)
        self.assert_refused(outcome, "timeout", codes=(c.INVALID_ARGUMENT,))

    def test_L72_is_part_of_the_action(self):
        salt = os.urandom(8)
        one, two = (self.client.sh("true", timeout=t, salt=salt) for t in (10, 20))
        self.assertNotEqual(one, two)
        self.assert_ran(self.client.execute(one))
        self.assertFalse(self.assert_ran(self.client.execute(two)).response.cached_result)

    def test_negative(self):
        outcome = self.client.run("true", timeout=-1)
        self.assert_refused(outcome, "timeout", codes=(c.INVALID_ARGUMENT,))

    def test_L73_message(self):
        """Limit, and how many processes were killed."""
        outcome = self.client.run("sleep %s & sleep %s" % ((proc.marker(),) * 2), timeout=1)
        text = outcome.text + "\n" + outcome.response.message
        self.assertIn(1.0, c.seconds_in(text), text)
        self.assertRegex(text, r"[1-9]\d* process")


class Signals(Case):

    def test_L76_death_by_signal(self):
        """design §7: 128 + n."""
        for name, number in (("SEGV", 11), ("KILL", 9), ("TERM", 15), ("ABRT", 6)):
            with self.subTest(name):
                self.run_sh("kill -%s $$" % name, 128 + number)

    def test_L76_exit_139_is_an_exit(self):
        self.run_sh("exit 139", 139)

    def test_a_child_s_death_is_the_shell_s_affair(self):
        self.run_sh("sh -c 'kill -KILL $$'; exit 3", 3)

    def test_L82_no_core_file(self):
        """Even where the hard limit is 0; and it is not raised."""
        server = self.new_server(wrapper=["prlimit", "--core=0:0"])
        outcome = self.run_sh("mkdir o; cd o; kill -SEGV $$", 139,
                              client=self.new_client(server), outputs=["o"])
        self.assertEqual({}, outcome.dir("o"))

    def test_L82_soft_limit(self):
        server = self.new_server(wrapper=["prlimit", "--core=unlimited:unlimited"])
        outcome = self.run_sh("ulimit -c", client=self.new_client(server))
        self.assertEqual(b"0\n", outcome.stdout)

    def test_kill_everything(self):
        """kill -1 reaches the action's own processes and nobody else's."""
        bystander = proc.marker()
        with ThreadPoolExecutor(2) as pool:
            other = pool.submit(self.client.run, "exec timeout 2 sleep %s" % bystander)
            proc.wait_started(bystander)
            self.client.run("kill -KILL -1")
            self.client.run("kill -TERM 1; kill -KILL 1; kill -STOP 1; true")
            self.assert_ran(other.result(), 124)
        self.assert_serving()
        self.run_sh("true")


class Watchers(Case):
    """The observer, the zygote, the runner: under load and when they die."""

    def test_L139_pipelines(self):
        script = "for i in $(seq 100); do test \"$(echo abc | cat | cat)\" = abc || exit 1; done"
        self.run_sh(script)

    def test_L138_signals_at_the_supervisor(self):
        stop = threading.Event()

        def pester():
            while not stop.wait(0.001):
                os.kill(self.server.pid, signal.SIGURG)

        thread = threading.Thread(target=pester)
        thread.start()
        try:
            outcome = self.assert_ran(self.client.execute(self.client.action(
                ["/usr/bin/python3", "-c",
                 "for i in range(10000): open('f').close()\nprint('done')"], inputs={"f": b"1"})))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(b"done\n", outcome.stdout)

    def test_L140_killed_while_notified(self):
        script = ("import os, random, signal, time\n"
                  "pids = []\n"
                  "for i in range(200):\n"
                  "    pid = os.fork()\n"
                  "    if not pid:\n"
                  "        while True:\n"
                  "            try: open('/no/such')\n"
                  "            except OSError: pass\n"
                  "    pids.append(pid)\n"
                  "random.seed(1); random.shuffle(pids)\n"
                  "for pid in pids: time.sleep(0.001); os.kill(pid, signal.SIGKILL)\n"
                  "for pid in pids: os.waitpid(pid, 0)\n")
        self.assert_ran(self.client.execute(self.client.action(["/usr/bin/python3", "-c", script])))
        self.run_sh("true")

    def test_L75_killed_supervisor_is_no_exit_code(self):
        """Each process between the server and the command is killed once: UNAVAILABLE, or run again."""
        server = self.new_server("--slots=1")
        client = self.new_client(server)
        for level in (1, 2):
            with self.subTest(level=level), ThreadPoolExecutor(1) as pool:
                mark = proc.marker()
                action = client.sh("exec timeout 3 sleep %s" % mark)
                running = pool.submit(client.execute, action)
                pid = proc.wait_until(lambda mark=mark: [
                    p for p in proc.with_argument(mark) if proc.cmdline(p)[:1] == [b"sleep"]], SOON)[0]
                chain = []  # from the command up to the server, without both
                while proc.parent(pid) not in (server.pid, 0, 1):
                    pid = proc.parent(pid)
                    if b"timeout" not in proc.cmdline(pid)[:1]:
                        chain.append(pid)
                if level > len(chain):
                    continue
                os.kill(chain[level - 1], signal.SIGKILL)
                outcome = running.result(timeout=60)
                if outcome.code == c.OK:
                    self.assertEqual(124, outcome.exit_code, outcome)
                else:
                    self.assertEqual(c.UNAVAILABLE, outcome.code, outcome)
                proc.wait_gone(mark, SOON)
                self.assert_ran(client.run("true"))
                self.assertIsNone(client.get_result(action))

    def test_fork_bomb_is_bounded(self):
        """It ends by its timeout at the latest, and the server lives."""
        outcome = self.client.run("f() { f | f & }; f; sleep 3", timeout=5)
        self.assertIn(outcome.code, (c.OK, c.DEADLINE_EXCEEDED, c.RESOURCE_EXHAUSTED), outcome)
        self.run_sh("true")

    def test_random_kills(self):
        """Children that die at any moment leave the action's result right."""
        random.seed(7)
        script = ("for i in $(seq 30); do (cat /etc/passwd > /dev/null; sleep 5) & kill -9 $!; done; "
                  "wait; echo ok")
        self.assertEqual(b"ok\n", self.run_sh(script).stdout)

    def test_nothing_accumulates(self):
        """After 300 actions of every sort the server holds what it held after 60."""
        server = self.new_server()
        client = self.new_client(server)

        def some(rounds):
            for _ in range(rounds):
                client.run("echo 1 > a/f; mkdir d; sleep 600 & exit 0", inputs={"a": {}}, outputs=["a", "d"])
                client.run("exit 3")
                client.run("kill -9 $$")
                client.run("true", inputs={"f": FileRef(digest_of(os.urandom(8)))})
                call = client.start(client.sh("sleep 0.05"))
                client.first_op(call)
                call.cancel()
                client.run("sleep 5", timeout=0.05)
            time.sleep(0.5)

        some(10)
        before = proc.holdings(server.pid)
        some(40)
        after = {}

        def is_back():
            after.update(proc.holdings(server.pid))
            return all(after[what] <= before[what] + 4 for what in before)

        self.assertTrue(proc.wait_until(is_back, 15, 0.5), "%s, then %s" % (before, after))

    def test_output_digest_of_a_known_file(self):
        outcome = self.run_sh("printf hello > f; exit 0", outputs=["f"])
        self.assertEqual(digest_of(b"hello"), outcome.file_entry("f").digest)
