# SPDX-License-Identifier: Apache-2.0
"""Execution as a protocol: operations, stages, merging, leaving and coming back, missing blobs, restarts."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from bjtest import client as c
from bjtest import env, proc
from bjtest.case import Case
from bjtest.server import Server, ServerError
from bjtest.stubs import lro_pb, re_pb
from bjtest.tree import DirRef, FileRef, digest_of, digest_str

STAGE = re_pb.ExecutionStage
GRACE = 5  # seconds that an action goes on without a client (design §7)
SHORT_GRACE = 1
NONCE = "cat /proc/sys/kernel/random/uuid > f"


class Stages(Case):

    def test_stream_of_a_run(self):
        """Every Operation obeys the rules (client.check_operations); QUEUED or EXECUTING is seen first."""
        action = self.client.sh("sleep 0.3")
        outcome = self.assert_ran(self.client.execute(action))
        self.assertIn(STAGE.EXECUTING, outcome.stages)
        self.assertEqual(sorted(outcome.stages), outcome.stages)
        self.assertEqual(STAGE.COMPLETED, outcome.stages[-1])

    def test_first_operation_comes_at_once(self):
        """Not only when the action is done: the client needs the name."""
        action = self.client.sh("sleep 5")
        start = time.monotonic()
        call = self.client.start(action)
        self.client.first_op(call)
        self.assertLess(time.monotonic() - start, 4)
        call.cancel()

    def test_queued_behind_another(self):
        client = self.new_client(self.new_server("--slots=1"))
        mark = proc.marker()
        first = client.start(client.sh("exec timeout 1.5 sleep %s" % mark))
        client.first_op(first)
        proc.wait_started(mark)
        second = client.execute(client.sh("true"))
        self.assertEqual([STAGE.QUEUED, STAGE.EXECUTING, STAGE.COMPLETED],
                         [s for s in second.stages if s != STAGE.CACHE_CHECK])
        self.assert_ran(second)
        self.assert_ran(client.finish(first), 124)

    def test_cached_result_is_one_done_operation(self):
        self.client.wait_caching()
        action = self.client.sh("true")
        self.assert_ran(self.client.execute(action))
        outcome = self.assert_ran(self.client.execute(action))
        self.assertTrue(outcome.ops[-1].done)
        self.assertNotIn(STAGE.EXECUTING, outcome.stages)

    def test_done_operations_hold_no_descriptors(self):
        """They are kept for a while for late waiters: 3,000 within seconds, under a limit of 500 descriptors."""
        server = self.new_server(wrapper=["prlimit", "--nofile=500:500"])
        client = self.new_client(server)
        client.wait_caching()
        action = client.sh("true")
        self.assert_ran(client.execute(action))
        with ThreadPoolExecutor(4) as pool:
            codes = set(pool.map(lambda _: client.execute(action).code, range(3000)))
        self.assertEqual({c.OK}, codes)
        self.assert_ran(client.run("true"))

    def test_slots_run_side_by_side(self):
        client = self.new_client(self.new_server("--slots=3"))
        with ThreadPoolExecutor(3) as pool:
            metas = [self.assert_ran(outcome).result.execution_metadata
                     for outcome in pool.map(lambda _: client.run("sleep 1.5"), range(3))]
        starts = [m.execution_start_timestamp.ToNanoseconds() for m in metas]
        ends = [m.execution_completed_timestamp.ToNanoseconds() for m in metas]
        self.assertLess(max(starts), min(ends), "all three at one time")


class WaitExecution(Case):

    def test_L116_unknown(self):
        for name in ("nope", "operations/nope", "00000000-0000-0000-0000-000000000000", "x" * 5000):
            with self.subTest(name=name[:50]):
                outcome = self.client.finish(self.client.wait_execution(name))
                self.assertEqual((c.NOT_FOUND, "call"), (outcome.code, outcome.via), outcome)

    def test_no_name(self):
        outcome = self.client.finish(self.client.wait_execution(""))
        self.assertIn(outcome.code, (c.NOT_FOUND, c.INVALID_ARGUMENT))

    def test_beside_execute(self):
        """Answers at once with the present state, then the end; both streams say the same."""
        action = self.client.sh("sleep 1.5; " + NONCE, outputs=["f"])
        call = self.client.start(action)
        ops = self.client.first_op(call)
        waiting = self.client.wait_execution(ops[0].name)
        first = self.client.first_op(waiting)
        self.assertFalse(first[-1].done)
        self.assertEqual(ops[0].name, first[0].name)
        one = self.assert_ran(self.client.finish(waiting, action, first))
        two = self.assert_ran(self.client.finish(call, action, ops))
        self.assertEqual(one.result, two.result)

    def test_L115_coming_back(self):
        """The stream is cut mid-run; WaitExecution within the grace finds the action alive."""
        mark = proc.marker()
        action = self.client.sh("exec timeout 3 sleep %s" % mark)
        call = self.client.start(action)
        name = self.client.first_op(call)[0].name
        pids = proc.wait_started(mark)
        call.cancel()
        time.sleep(0.5)
        outcome = self.assert_ran(self.client.finish(self.client.wait_execution(name), action), 124)
        self.assertEqual(name, outcome.name)
        self.assertTrue(pids)

    def test_coming_back_on_another_connection(self):
        mark = proc.marker()
        gone = c.Client(self.server.address)
        call = gone.start(gone.sh("exec timeout 2 sleep %s" % mark))
        name = gone.first_op(call)[0].name
        proc.wait_started(mark)
        gone.close()
        self.assert_ran(self.client.finish(self.client.wait_execution(name)), 124)

    def test_after_the_end(self):
        """The done Operation for a while, or NOT_FOUND; never a hang."""
        outcome = self.assert_ran(self.client.run("true"))
        again = self.client.finish(self.client.wait_execution(outcome.name, timeout=10))
        if again.code != c.NOT_FOUND:
            self.assertEqual(outcome.result, self.assert_ran(again).result)

    def test_coming_back_after_the_end(self):
        """What a client does whose connection broke during a short action."""
        action = self.client.sh("sleep 0.5; echo hi > f", outputs=["f"])
        call = self.client.start(action)
        name = self.client.first_op(call)[0].name
        call.cancel()
        time.sleep(1.5)
        outcome = self.client.finish(self.client.wait_execution(name, timeout=10))
        if outcome.code == c.NOT_FOUND:
            outcome = self.client.execute(action)
        self.assertEqual(b"hi\n", self.assert_ran(outcome).file("f"))

    def test_many_waiters(self):
        action = self.client.sh("sleep 1; " + NONCE, outputs=["f"])
        call = self.client.start(action)
        name = self.client.first_op(call)[0].name
        with ThreadPoolExecutor(20) as pool:
            outcomes = list(pool.map(
                lambda _: self.client.finish(self.client.wait_execution(name)), range(20)))
        outcomes.append(self.client.finish(call))
        self.assertEqual(1, len({self.assert_ran(o).file("f") for o in outcomes}))


class Merging(Case):

    SLOW_NONCE = "sleep 1; " + NONCE

    def in_parallel(self, action, count=2, **fields):
        """The nonces of @count Executes of one action, started while the first one runs."""
        with ThreadPoolExecutor(count) as pool:
            outcomes = list(pool.map(lambda _: self.client.execute(action, **fields), range(count)))
        return [self.assert_ran(o).file("f") for o in outcomes]

    def test_L88_equal_actions_in_flight_run_once(self):
        action = self.client.sh(self.SLOW_NONCE, outputs=["f"])
        self.assertEqual(1, len(set(self.in_parallel(action, 6))))

    def test_L88_L89_do_not_cache_is_not_merged(self):
        action = self.client.sh(self.SLOW_NONCE, outputs=["f"], do_not_cache=True)
        self.assertEqual(2, len(set(self.in_parallel(action))))

    def test_L89_skip_cache_lookup(self):
        """May be merged; what it gets was made after the request."""
        action = self.client.sh(self.SLOW_NONCE, outputs=["f"])
        old = self.in_parallel(action, 1)[0]
        new = self.in_parallel(action, 2, skip_cache_lookup=True)
        self.assertNotIn(old, new)
        self.assertIn(self.in_parallel(action, 1)[0], new)

    def test_one_of_two_leaves(self):
        """The other one's action goes on, past any grace."""
        client = self.new_client(self.new_server(config={"cancelGraceSeconds": SHORT_GRACE}))
        mark = proc.marker()
        action = client.sh("exec timeout %d sleep %s" % (SHORT_GRACE + 2, mark))
        leaver, stayer = client.start(action), client.start(action)
        client.first_op(leaver)
        ops = client.first_op(stayer)
        proc.wait_started(mark)
        leaver.cancel()
        self.assert_ran(client.finish(stayer, action, ops), 124)

    def test_leaver_s_place_can_be_taken(self):
        """All leave; an equal Execute within the grace joins the running action."""
        mark = proc.marker()
        action = self.client.sh("timeout 3 sleep %s; %s" % (mark, NONCE), outputs=["f"])
        call = self.client.start(action)
        self.client.first_op(call)
        before = proc.wait_started(mark)
        call.cancel()
        outcome = self.client.execute(action)
        self.assert_ran(outcome)
        self.assertTrue(before)

    def test_instances_are_not_merged(self):
        action = self.client.sh(self.SLOW_NONCE, outputs=["f"])
        other = self.new_client(instance="other")
        with ThreadPoolExecutor(2) as pool:
            mine = pool.submit(self.client.execute, action)
            theirs = pool.submit(other.execute, action)
            theirs = theirs.result()
            if theirs.code == c.FAILED_PRECONDITION:
                self.assertTrue(theirs.missing)  # a CAS of its own: the action is not there
                self.assert_ran(mine.result())
                return
            self.assertNotEqual(self.assert_ran(mine.result()).file("f"), self.assert_ran(theirs).file("f"))


class Leaving(Case):

    server_config = {"cancelGraceSeconds": SHORT_GRACE}

    def start_marked(self, client=None):
        mark = proc.marker()
        client = client or self.client
        call = client.start(client.sh("sleep %s & sleep %s" % (mark, mark)))
        client.first_op(call)
        proc.wait_started(mark)
        return call, mark

    def test_L115_last_client_leaves(self):
        """Alive within the grace, which is five seconds by default, gone after it."""
        call, mark = self.start_marked(self.new_client(self.new_server()))
        call.cancel()
        time.sleep(GRACE - 3)
        self.assertTrue(proc.with_argument(mark))
        proc.wait_gone(mark, 3 + 10)

    def test_L115_connection_is_lost(self):
        client = c.Client(self.server.address)
        _, mark = self.start_marked(client)
        client.close()
        proc.wait_gone(mark, GRACE + 10)

    def test_L115_deadline_of_the_call(self):
        mark = proc.marker()
        outcome = self.client.execute(self.client.sh("sleep " + mark), timeout=1)
        self.assertEqual(c.DEADLINE_EXCEEDED, outcome.code)
        proc.wait_gone(mark, GRACE + 10)

    def test_L115_grace_is_a_setting(self):
        client = self.new_client(self.new_server(config={"cancelGraceSeconds": 0}))
        call, mark = self.start_marked(client)
        call.cancel()
        proc.wait_gone(mark, GRACE - 1)

    def test_leaving_the_queue(self):
        """An action that nobody waits for any more does not start."""
        server = self.new_server("--slots=1", config=self.server_config)
        client = self.new_client(server)
        first, mark = self.start_marked(client)
        queued_mark = proc.marker()
        second = client.start(client.sh("sleep " + queued_mark))
        client.first_op(second)
        second.cancel()
        time.sleep(SHORT_GRACE + 1)
        first.cancel()
        proc.wait_gone(mark, GRACE + 10)
        self.assert_ran(client.run("true"))
        self.assertEqual([], proc.with_argument(queued_mark))

    def test_nothing_of_it_is_cached(self):
        mark = proc.marker()
        action = self.client.sh("sleep " + mark)
        call = self.client.start(action)
        self.client.first_op(call)
        proc.wait_started(mark)
        call.cancel()
        proc.wait_gone(mark, GRACE + 10)
        self.assertIsNone(self.client.get_result(action))

    def test_hundred_leave(self):
        """Streams cut in every state; the server goes on and no process stays."""
        mark = proc.marker()
        calls = []
        for n in range(100):
            action = self.client.sh("sleep " + mark, salt=b"%d" % n + os.urandom(4))
            calls.append(self.client.start(action))
        for call in calls:
            call.cancel()
        proc.wait_gone(mark, GRACE + 20)
        self.run_sh("true")

    def test_L113_cancel_operation(self):
        """ExecuteResponse.status CANCELLED, Operation.error unset; or UNIMPLEMENTED, which the spec permits."""
        mark = proc.marker()
        call = self.client.start(self.client.sh("sleep " + mark))
        ops = self.client.first_op(call)
        proc.wait_started(mark)
        try:
            self.client.operations.CancelOperation(
                lro_pb.CancelOperationRequest(name=ops[0].name), timeout=10)
        except grpc.RpcError as error:
            self.assertEqual(c.UNIMPLEMENTED, c.code_of(error))
            call.cancel()
            return
        outcome = self.client.finish(call, before=ops)
        self.assertEqual((c.CANCELLED, "response"), (outcome.code, outcome.via), outcome)
        proc.wait_gone(mark, 2)


class Missing(Case):
    """L32–L35: FAILED_PRECONDITION, one violation of type MISSING each, subject blobs/HASH/SIZE."""

    def new_digest(self):
        return digest_of(b"\x0a\x03\x0a\x01x" + os.urandom(6))

    def assert_missing(self, outcome, *digests):
        self.assertEqual(c.FAILED_PRECONDITION, outcome.code, outcome)
        self.assertEqual(sorted("blobs/" + digest_str(d) for d in digests), outcome.missing, outcome)
        self.assertEqual(len(digests), len(outcome.violations), outcome)
        self.assertIn(digests[0].hash, outcome.text)

    def test_L33_action(self):
        digest = self.new_digest()
        self.assert_missing(self.client.execute(digest), digest)

    def test_L33_command(self):
        digest = self.new_digest()
        self.assert_missing(self.client.execute(self.client.action([], command=digest)), digest)

    def test_L32_L34_root(self):
        digest = self.new_digest()
        self.assert_missing(self.client.execute(self.client.sh("true", root=digest)), digest)

    def test_L33_nested_directory(self):
        digest = self.new_digest()
        self.assert_missing(self.client.run("true", inputs={"a": {"b": DirRef(digest=digest)}}), digest)

    def test_L33_file(self):
        digest = self.new_digest()
        self.assert_missing(self.client.run("true", inputs={"a": {"f": FileRef(digest)}}), digest)

    def test_L35_all_of_them(self):
        """Not just the first: Command, directories and files at once, each once."""
        command, directory, one, two = (self.new_digest() for _ in range(4))
        root = self.client.put_dir({"d": DirRef(digest=directory), "f": FileRef(one), "g": FileRef(one),
                                    "s": {"h": FileRef(two)}, "there": b"1"})
        outcome = self.client.execute(self.client.action([], command=command, root=root))
        self.assert_missing(outcome, command, directory, one, two)

    def test_L35_hundreds(self):
        digests = [self.new_digest() for _ in range(500)]
        outcome = self.client.run("true", inputs={"f%d" % n: FileRef(d) for n, d in enumerate(digests)})
        self.assertEqual(c.FAILED_PRECONDITION, outcome.code, str(outcome)[:1000])
        self.assertEqual(sorted("blobs/" + digest_str(d) for d in digests), outcome.missing)

    def test_uploaded_then_run(self):
        """The client mends it and the same action runs."""
        data = os.urandom(20)
        action = self.client.sh("test $(stat -c %s f) = 20", inputs={"f": FileRef(digest_of(data))})
        self.assert_missing(self.client.execute(action), digest_of(data))
        self.client.put(data)
        self.assert_ran(self.client.execute(action))

    def test_wrong_size_is_missing(self):
        data = os.urandom(20)
        self.client.put(data)
        wrong = re_pb.Digest(hash=digest_of(data).hash, size_bytes=21)
        self.assert_missing(self.client.run("true", inputs={"f": FileRef(wrong)}), wrong)


class Platform(Case):

    def test_L117_unknown_property(self):
        start = time.monotonic()
        for fields in ({"platform": {"nope": "1"}}, {"command_platform": {"nope": "1"}}):
            with self.subTest(fields):
                outcome = self.client.run("true", **fields)
                self.assert_refused(outcome, "nope")
        self.assertLess(time.monotonic() - start, 10)

    def test_L117_action_wins(self):
        """Since 2.2 servers SHOULD prefer the Action's properties."""
        outcome = self.client.run("true", platform={"sandbox.write": "scratch"},
                                  command_platform={"sandbox.write": "no such"})
        self.assert_ran(outcome)

    def test_command_platform_counts_alone(self):
        """Clients of 2.0 and 2.1 have no other."""
        self.assert_refused(self.client.run("true", command_platform={"sandbox.write": "no such"}),
                            "sandbox.write")
        self.run_sh("true", command_platform={"sandbox.write": "scratch"})

    def test_bad_value_names_the_key(self):
        self.assert_refused(self.client.run("true", platform={"sandbox.write": "no such"}),
                            "sandbox.write", "no such")

    def test_standard_properties(self):
        """platform.md knows OSFamily and ISA; ours are accepted, others are refused by name."""
        self.run_sh("true", platform={"OSFamily": "linux"})
        self.assert_refused(self.client.run("true", platform={"OSFamily": "windows"}), "OSFamily")

    def test_write_strict(self):
        """design §3.1: strict refuses creation outside the outputs, scratch does not."""
        self.run_sh("echo x > undeclared", inputs={"d": {}}, platform={"sandbox.write": "scratch"})
        outcome = self.run_sh("echo x > d/undeclared; echo $?; echo y > o/f", inputs={"d": {}},
                              platform={"sandbox.write": "strict"}, outputs=["o/f"])
        self.assertNotEqual(b"0\n", outcome.stdout)
        self.assertEqual(b"y\n", outcome.file("o/f"))


class Restart(Case):

    def test_L61_L70_kill_in_mid_action(self):
        """kill -9: no process of the action remains; a restart serves the same action."""
        server = self.new_server()
        client = self.new_client(server)
        mark = proc.marker()
        script = "mkdir m && : > m/f && chmod 0 m; setsid sleep %s & sleep %s" % (mark, mark)
        call = client.start(client.sh(script))
        name = client.first_op(call)[0].name
        proc.wait_started(mark)
        server.kill()
        proc.wait_gone(mark, 10)
        start = time.monotonic()
        server.start()
        self.assertLess(time.monotonic() - start, 10)
        client = self.new_client(server)
        outcome = client.finish(client.wait_execution(name))
        self.assertEqual(c.NOT_FOUND, outcome.code)  # L116
        for _ in range(4):
            self.assert_ran(client.run("test ! -e m && mkdir m"))

    def test_L65_killed_at_any_moment(self):
        """20 starts, each killed within milliseconds of a running action: nothing stays."""
        mark = proc.marker()
        server = self.new_server()
        for n in range(8):
            client = c.Client(server.address)
            action = client.sh("setsid sleep %s & sleep %s" % (mark, mark))
            calls = [client.start(action, skip_cache_lookup=True) for _ in range(2)]
            time.sleep(0.004 * n)
            server.kill()
            proc.wait_gone(mark, 10)
            client.close()
            del calls
            server.start()
        self.assert_ran(self.new_client(server).run("true"))

    def test_killed_in_every_state(self):
        """The server stops itself as an action enters a state; kill -9 there; a restart gives the right result."""
        store = env.fresh_dir("states")
        for state in ("fetch", "derive", "layout", "run", "collect", "report", "done"):
            with self.subTest(state=state):
                server = Server(store=store, environ={"PATH": "/usr/bin:/bin", "BJ_TEST_STOP_IN": state})
                try:
                    self.kill_in_state(server)
                finally:
                    server.kill()

    def kill_in_state(self, server):
        client = self.new_client(server.start())
        data = os.urandom(1000)
        action = client.sh("mkdir o; cat in in > o/f; chmod 555 o; echo > lost",
                           inputs={"in": data}, outputs=["o"])
        call = client.start(action)
        self.assertTrue(proc.wait_until(lambda: proc.is_stopped(server.pid), 20), "never stopped")
        server.kill()
        call.cancel()
        server.environ = {"PATH": "/usr/bin:/bin"}
        client = self.new_client(server.start())
        outcome = self.assert_ran(client.execute(action))
        self.assertEqual({"f": data * 2}, outcome.dir("o"))
        server.stop()

    def test_blobs_survive_a_kill(self):
        """What was acknowledged is there; what was half written is not."""
        server = self.new_server()
        client = self.new_client(server)
        whole = [client.put(os.urandom(n)) for n in (10, 100000, 3 << 20)]
        half = os.urandom(2 << 20)
        sent, hold = threading.Event(), threading.Event()

        def requests():
            yield next(c.write_requests(client.upload_name(digest_of(half)), half, 1 << 20))
            sent.set()
            hold.wait(20)

        call = client.bytestream.Write.future(requests(), timeout=20)
        sent.wait(10)
        time.sleep(0.2)
        server.kill()
        hold.set()
        self.assertIsNotNone(call.exception(timeout=20))
        server.start()
        client = self.new_client(server)
        self.assertEqual({(digest_of(half).hash, len(half))}, client.find_missing(whole + [digest_of(half)]))
        for digest in whole:
            client.read(digest)
        client.put(half)
        self.assertEqual(half, client.read(digest_of(half)))

    def test_term_in_mid_action(self):
        """SIGTERM: exit status 0 within bounds, the action's processes gone, the client told."""
        server = self.new_server(config={"stopGraceSeconds": 1})
        client = self.new_client(server)
        mark = proc.marker()
        call = client.start(client.sh("sleep " + mark))
        ops = client.first_op(call)
        proc.wait_started(mark)
        server.stop()
        proc.wait_gone(mark, 5)
        outcome = client.finish(call, before=ops)
        self.assertIn(outcome.code, (c.CANCELLED, c.UNAVAILABLE), outcome)

    def test_one_server_per_store(self):
        """A second one on the same store refuses to start and says why; the first goes on."""
        second = Server(store=self.server.store)
        self.addCleanup(second.kill)
        with self.assertRaises(ServerError) as caught:
            second.start()
        self.assertIn(str(self.server.pid), str(caught.exception))
        self.assert_serving()
