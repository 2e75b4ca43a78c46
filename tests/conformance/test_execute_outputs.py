# SPDX-License-Identifier: Apache-2.0
"""Execute: what is collected, under which name, in which field; exit codes and streams."""

import random

from bjtest import client as c
from bjtest import wire
from bjtest.case import BAD_INPUT, Case, slow
from bjtest.stubs import re_pb
from bjtest.tree import EMPTY, Exec, Link, digest_of


class Collection(Case):

    def test_plain_file(self):
        outcome = self.run_sh("echo hi > f", outputs=["f"])
        self.assertEqual({"output_files": ["f"]}, outcome.paths())
        self.assertEqual(b"hi\n", outcome.file("f"))
        self.assertFalse(outcome.file_entry("f").is_executable)

    def test_executable_file(self):
        for mode, wanted in (("755", True), ("700", True), ("644", False), ("600", False)):
            with self.subTest(mode=mode):
                outcome = self.run_sh("echo hi > f; chmod %s f" % mode, outputs=["f"])
                self.assertEqual(wanted, outcome.file_entry("f").is_executable)

    def test_executable_bit_in_a_tree(self):
        outcome = self.run_sh("mkdir o; echo x > o/x; chmod 755 o/x; echo n > o/n", outputs=["o"])
        tree = outcome.dir("o")
        self.assertIsInstance(tree["x"], Exec)
        self.assertNotIsInstance(tree["n"], Exec)

    def test_L03_directory_at_a_file_output(self):
        outcome = self.client.run("mkdir -p p/x", files=["p/x"])
        self.assert_refused(outcome, "p/x", "directory", "file", codes=(c.FAILED_PRECONDITION,))

    def test_L03_file_at_a_directory_output(self):
        outcome = self.client.run("echo > p", dirs=["p"])
        self.assert_refused(outcome, "p", "directory", "file", codes=(c.FAILED_PRECONDITION,))

    def test_L04_directory_never_made(self):
        outcome = self.run_sh("true", dirs=["never"])
        self.assertEqual({}, outcome.paths())

    def test_L04_outputs_never_made(self):
        outcome = self.run_sh("true", outputs=["a", "b/c"])
        self.assertEqual({}, outcome.paths())
        self.assertEqual({}, self.run_sh("true", files=["a", "b/c"]).paths())

    def test_L05_parents_only(self):
        """Parents of outputs are there before the run, the outputs are not."""
        script = "test -d a/b && test ! -e a/b/out && mkdir a/b/out && : > a/b/out/f"
        for fields in ({"outputs": ["a/b/out"]}, {"dirs": ["a/b/out"]}):
            outcome = self.run_sh(script, **fields)
            self.assertEqual({"f": b""}, outcome.dir("a/b/out"))
        self.run_sh("test -d a/b && test ! -e a/b/f", files=["a/b/f"])

    def test_L06_output_directory_made_anew(self):
        outcome = self.run_sh("rm -rf p; mkdir -p p/out; echo hi > p/out/f", outputs=["p/out"])
        self.assertEqual({"f": b"hi\n"}, outcome.dir("p/out"))

    def test_L07_relative_to_the_working_directory(self):
        outcome = self.run_sh("echo hi > o/f", inputs={"w": {}}, cwd="w", outputs=["o/f"])
        self.assertEqual({"output_files": ["o/f"]}, outcome.paths())
        for fields in ({"files": ["o/f"]}, {"dirs": ["o"]}):
            outcome = self.run_sh("mkdir -p o; echo hi > o/f", inputs={"w": {}}, cwd="w", **fields)
            self.assertEqual(1, len(outcome.paths()), outcome)

    def test_L08_output_paths_win(self):
        outcome = self.run_sh("echo > a; echo > b; mkdir c", outputs=["a"], files=["b"], dirs=["c"])
        self.assertEqual({"output_files": ["a"]}, outcome.paths())

    def test_L08_all_three_with_equal_contents(self):
        """What Bazel 6.3 sends: every output in the new field and in an old one."""
        outcome = self.run_sh("echo 1 > a; mkdir c; echo 2 > c/x",
                              outputs=["a", "c"], files=["a"], dirs=["c"])
        self.assertEqual({"output_files": ["a"], "output_directories": ["c"]}, outcome.paths())

    def test_L15_directory_above_outputs(self):
        outcome = self.run_sh("mkdir -p d/e; echo f > d/f; echo g > d/e/g", dirs=["d", "d/e"], files=["d/f"])
        self.assertEqual({"output_files": ["d/f"], "output_directories": ["d", "d/e"]}, outcome.paths())
        self.assertEqual({"f": b"f\n", "e": {"g": b"g\n"}}, outcome.dir("d"))
        self.assertEqual({"g": b"g\n"}, outcome.dir("d/e"))

    def test_L16_L01_file_under_an_output_directory(self):
        outcome = self.run_sh("mkdir -p d; echo hi > d/f", outputs=["d", "d/f"])
        self.assertEqual({"output_files": ["d/f"], "output_directories": ["d"]}, outcome.paths())
        self.assertEqual(outcome.tree("d").root.files[0].digest, outcome.file_entry("d/f").digest)

    def test_whole_working_directory(self):
        """output_directories may hold the empty path: everything, inputs too."""
        outcome = self.run_sh("echo o > o", inputs={"i": b"i\n"}, dirs=[""])
        self.assertEqual({"i": b"i\n", "o": b"o\n"}, outcome.dir(""))

    def test_L18_output_that_is_an_input_directory(self):
        inputs = {"out": {"old": b"old\n"}}
        outcome = self.run_sh("rm out/old; echo n > out/new", inputs=inputs, outputs=["out"])
        self.assertEqual({"new": b"n\n"}, outcome.dir("out"))
        self.run_sh("test \"$(cat out/old)\" = old && test ! -e out/new", inputs=inputs)

    def test_L18_output_that_is_an_input_file(self):
        """It may be written in place: a private copy."""
        inputs = {"f": b"old\n"}
        outcome = self.run_sh("echo new >> f", inputs=inputs, outputs=["f"])
        self.assertEqual(b"old\nnew\n", outcome.file("f"))
        self.assertEqual(b"old\n", self.run_sh("cat f", inputs=inputs).stdout)

    def test_untouched_input_as_output(self):
        outcome = self.run_sh("true", inputs={"f": b"old\n", "d": {"g": b"g\n"}}, outputs=["d", "f"])
        self.assertEqual(b"old\n", outcome.file("f"))
        self.assertEqual({"g": b"g\n"}, outcome.dir("d"))

    def test_output_moved_into_place(self):
        """A temporary file beside the output, renamed: what most tools do."""
        outcome = self.run_sh("echo hi > o/f.tmp && mv o/f.tmp o/f; mkdir t && echo 1 > t/x && mv t d",
                              outputs=["d", "o/f"])
        self.assertEqual(b"hi\n", outcome.file("o/f"))
        self.assertEqual({"x": b"1\n"}, outcome.dir("d"))

    def test_hard_linked_outputs(self):
        outcome = self.run_sh("echo hi > a; ln a b; mkdir d; ln a d/c", outputs=["a", "b", "d"])
        self.assertEqual([b"hi\n"] * 3, [outcome.file("a"), outcome.file("b"), outcome.dir("d")["c"]])

    def test_sparse_output(self):
        outcome = self.run_sh("truncate -s 20M f; printf x | dd of=f bs=1 seek=10000000 conv=notrunc 2>&1",
                              outputs=["f"])
        data = bytearray(20 << 20)
        data[10000000] = ord("x")
        self.assertEqual(digest_of(bytes(data)), outcome.file_entry("f").digest)
        self.assertEqual(bytes(data), outcome.file("f"))

    def test_empty_outputs(self):
        outcome = self.run_sh(": > f; mkdir d d/e", outputs=["d", "f"])
        self.assertEqual(EMPTY, outcome.file_entry("f").digest)
        self.assertEqual({"e": {}}, outcome.dir("d"))

    def test_L36_output_names_come_back_as_they_are(self):
        names = ["-x", "a b", "e\u0301", "\u00e9"]
        outcome = self.run_sh("for f in -x 'a b' '\u00e9' 'e\u0301'; do echo 1 > \"./$f\"; done; "
                              "mkdir d; echo 2 > 'd/\u90e8'", outputs=names[:2] + ["d"] + names[2:])
        self.assertEqual(sorted(names), outcome.paths()["output_files"])
        self.assertEqual({"\u90e8": b"2\n"}, outcome.dir("d"))

    def test_output_name_that_is_not_utf8(self):
        """A Tree cannot hold it: an error that says so, never a changed name."""
        outcome = self.client.run("mkdir o; python3 -c \"open(b'o/x\\xff','w')\"", outputs=["o"])
        self.assert_refused(outcome, "o/x", codes=(c.FAILED_PRECONDITION,))

    def test_L20_L16_tree_encoding(self):
        """If the flag is set: root first, parents before children, each distinct Directory once."""
        outcome = self.run_sh("mkdir -p o/a/s o/b/s; echo x > o/a/s/f; cp o/a/s/f o/b/s/f", outputs=["o"])
        entry = outcome.dir_entry("o")
        data = self.client.read(entry.tree_digest)
        records = wire.records(data)
        self.assertEqual([0x0a] + [0x12] * (len(records) - 1), [tag for tag, _ in records])
        if entry.is_topologically_sorted:
            self.assertEqual(3, len(records))
            seen = set()
            for tag, raw in records:
                if tag == 0x12:
                    self.assertIn(digest_of(raw).hash, seen)
                seen |= {d.digest.hash for d in re_pb.Directory.FromString(raw).directories}
        self.assertEqual({"a": {"s": {"f": b"x\n"}}, "b": {"s": {"f": b"x\n"}}}, outcome.dir("o"))

    def test_trees_are_canonical(self):
        """Children sorted by bytes in each list; the same Directory as a client would build."""
        outcome = self.run_sh("mkdir -p o/z o/B o/a; for n in z B a '\u00e9'; do "
                              "echo $n > o/f$n; ln -s $n o/l$n; done", outputs=["o"])
        tree = outcome.tree("o")
        spec = {"z": {}, "B": {}, "a": {}}
        for name in ("z", "B", "a", "\u00e9"):
            spec["f" + name] = (name + "\n").encode()
            spec["l" + name] = Link(name)
        self.assertEqual(self.client.put_dir(spec), digest_of(tree.root.SerializeToString()))

    def test_L19_equal_trees_have_equal_digests(self):
        order = list(range(50))
        digests = set()
        for seed in range(8):
            random.Random(seed).shuffle(order)
            script = "for i in %s; do mkdir -p o/d$i; echo $i > o/d$i/f; done" % " ".join(map(str, order))
            outcome = self.run_sh(script, outputs=["o"], do_not_cache=True)
            digests.add(outcome.dir_entry("o").tree_digest.hash)
        self.assertEqual(1, len(digests))

    def test_directory_format(self):
        """output_directory_format: a Tree always; a root Directory digest, if given, is the Tree's root."""
        for value in (0, 1, 2):
            def add(command, value=value):
                command.output_directory_format = value
            outcome = self.run_sh("mkdir -p o/s; echo x > o/s/f", outputs=["o"], more=add)
            entry = outcome.dir_entry("o")
            if value == 0 or entry.HasField("tree_digest"):
                self.assertEqual({"s": {"f": b"x\n"}}, outcome.dir("o"))
            if entry.HasField("root_directory_digest"):
                root = self.client.read(entry.root_directory_digest)
                self.assertEqual("s", re_pb.Directory.FromString(root).directories[0].name)

    def test_unknown_node_property(self):
        """Command.output_node_properties: INVALID_ARGUMENT when not recognised."""
        outcome = self.client.run("true", outputs=["f"],
                                  more=lambda command: command.output_node_properties.append("no.such"))
        self.assert_refused(outcome, "no.such", codes=(c.INVALID_ARGUMENT,))

    # ---- what is no file, directory or link ----

    def assert_special_refused(self, make, *paths):
        """A special file fails its output within seconds, named, and does not hold the server up."""
        for path, script in paths:
            with self.subTest(path=path):
                outcome = self.client.execute(self.client.sh(script + make % path, outputs=["o"]), timeout=20)
                self.assert_refused(outcome, path, codes=(c.FAILED_PRECONDITION,))

    def test_L22_fifo(self):
        self.assert_special_refused("mkfifo %s", ("o/p", "mkdir o; "), ("o", ""))

    def test_L22_socket(self):
        make = "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('%s')\""
        self.assert_special_refused(make, ("o/p", "mkdir o; "), ("o", ""))

    # ---- sizes ----

    def check_many(self, count):
        outcome = self.client.run("mkdir o; cd o; seq %d | xargs touch" % count, outputs=["o"], timeout=100)
        if outcome.code == c.RESOURCE_EXHAUSTED:
            return
        self.assert_ran(outcome)
        root = outcome.tree("o").root
        self.assertEqual(count, len(root.files))
        self.assertEqual({EMPTY.hash}, {f.digest.hash for f in root.files})

    def test_L23_many_files(self):
        self.check_many(5001)

    @slow
    def test_L23_all_of_100001_files(self):
        self.check_many(100001)

    def test_large_output(self):
        outcome = self.run_sh("head -c 60M /dev/zero > f", outputs=["f"])
        self.assertEqual(60 << 20, outcome.file_entry("f").digest.size_bytes)
        self.assertEqual(60 << 20, len(outcome.file("f")))

    def test_L92_no_space(self):
        """The server's want, not the command's: never cached; with more room the same action runs."""
        server = self.new_server(config={"workBytes": 16 << 20})
        client = self.new_client(server)
        action = client.sh("head -c 40M /dev/zero > f", outputs=["f"])
        outcome = client.execute(action)
        if outcome.code == c.OK:
            self.assertNotEqual(0, outcome.exit_code, outcome)
        else:
            self.assertEqual(c.RESOURCE_EXHAUSTED, outcome.code, outcome)
        self.assertIsNone(client.get_result(action))
        self.run_sh("true", client=client)
        server.stop()
        roomy = self.new_server(store=server.store)
        outcome = self.assert_ran(self.new_client(roomy).execute(action))
        self.assertEqual(40 << 20, outcome.file_entry("f").digest.size_bytes)

    def test_L81_file_size_limit(self):
        """Inherited or unlimited; a file of some size can be written."""
        outcome = self.run_sh("ulimit -f; head -c 1M /dev/zero > f", outputs=["f"])
        self.assertEqual(b"unlimited\n", outcome.stdout)
        self.assertEqual(1 << 20, outcome.file_entry("f").digest.size_bytes)

    def test_L83_large_stdout_is_not_inlined(self):
        """Even when the client asks for it: a response must fit a client's 4 MiB."""
        action = self.client.sh("head -c 8M /dev/zero; head -c 5M /dev/zero >&2")
        outcome = self.assert_ran(self.client.execute(action, inline_stdout=True, inline_stderr=True))
        self.assertEqual(8 << 20, outcome.result.stdout_digest.size_bytes)
        self.assertEqual(5 << 20, outcome.result.stderr_digest.size_bytes)
        self.assertEqual((b"", b""), (outcome.result.stdout_raw, outcome.result.stderr_raw))
        self.assertEqual(bytes(8 << 20), outcome.stdout)
        result = self.client.get_result(action, inline_stdout=True)
        self.assertEqual(b"", result.stdout_raw)

    def test_L83_many_inlined_files_fit(self):
        names = ["f%02d" % n for n in range(30)]
        action = self.client.sh("for f in %s; do head -c 300000 /dev/zero > $f; done" % " ".join(names),
                                outputs=names)
        outcome = self.assert_ran(self.client.execute(action, inline_output_files=names))
        self.assertLess(outcome.ops[-1].ByteSize(), c.MESSAGE_LIMIT)
        self.assertEqual(names, outcome.paths()["output_files"])

    def test_L83_result_too_large_for_a_message(self):
        """40,000 outputs with long names: fits, or RESOURCE_EXHAUSTED from the server, said by it."""
        client = self.new_client(options=[("grpc.max_receive_message_length", 64 << 20)])
        names = ["%0100d" % n for n in range(40000)]
        action = client.action(["/usr/bin/python3", "-c",
                                "for n in range(40000): open('%0100d' % n, 'w').close()"], outputs=names)
        outcome = client.execute(action, timeout=100)
        if outcome.code == c.OK:
            self.assertLess(outcome.ops[-1].ByteSize(), c.MESSAGE_LIMIT)
        else:
            self.assertEqual(c.RESOURCE_EXHAUSTED, outcome.code, outcome)


class OutputPathRules(Case):
    """Command's rules for output paths; all are checked before anything runs."""

    def test_L17_twice(self):
        for fields in ({"files": ["a", "a"]}, {"dirs": ["a", "a"]}, {"outputs": ["a", "a"]},
                       {"files": ["a"], "dirs": ["a"]}):
            with self.subTest(fields):
                self.assert_refused(self.client.run("true", **fields), "a", codes=(c.INVALID_ARGUMENT,))

    def test_L15_file_above_file(self):
        self.assert_refused(self.client.run("true", files=["a", "a/b"]), "a", codes=(c.INVALID_ARGUMENT,))

    def test_L17_unsorted(self):
        """A server MAY refuse, but does the same for each field."""
        codes = {self.client.run("echo 1 > a; echo 2 > b; mkdir -p x y", **fields).code for fields in (
            {"files": ["b", "a"]}, {"outputs": ["b", "a"]}, {"dirs": ["y", "x"]})}
        self.assertEqual(1, len(codes), codes)
        self.assertIn(codes.pop(), (c.OK, c.INVALID_ARGUMENT))

    def test_L21_bad_paths(self):
        """Absolute, climbing, with a trailing slash, or nothing at all."""
        for path in ("/x", "/", "../x", "..", "a/../../x", "../../etc/hostname", "x/", "a/b/"):
            for field in ("outputs", "files", "dirs"):
                with self.subTest(path=path, field=field):
                    outcome = self.client.run("true", **{field: [path]})
                    self.assert_refused(outcome, path, codes=(c.INVALID_ARGUMENT,))

    def test_L21_empty_file_path(self):
        self.assert_refused(self.client.run("true", files=[""]), codes=(c.INVALID_ARGUMENT,))

    def test_L21_unclean_paths(self):
        """`//`, `.` and an inner `..`: refused, or answered under exactly the path that was asked for."""
        for path in ("a//b", "./a", "a/./b", "a/../b", "."):
            with self.subTest(path=path):
                outcome = self.client.run("mkdir -p a; echo 1 > a/b; echo 2 > b", outputs=[path])
                if outcome.code == c.OK:
                    found = sum(outcome.paths().values(), [])
                    self.assertTrue(set(found) <= {path}, found)
                else:
                    self.assert_refused(outcome, path, codes=(c.INVALID_ARGUMENT,))

    def test_L21_climbing_within_the_root(self):
        """From a working directory: decided once; never an ActionResult with a path that leaves the root."""
        inputs = {"w": {}}
        outcome = self.client.run("echo 1 > ../x", inputs=inputs, cwd="w", outputs=["../x"])
        if outcome.code != c.OK:
            self.assert_refused(outcome, "../x", codes=(c.INVALID_ARGUMENT,))
        outcome = self.client.run("true", inputs=inputs, cwd="w", outputs=["../../x"])
        self.assert_refused(outcome, "../../x", codes=(c.INVALID_ARGUMENT,))

    def test_path_through_an_input_file(self):
        """The parent of an output is a file of the input tree: an error that names it, not a crash."""
        outcome = self.client.run("true", inputs={"a": b"1"}, outputs=["a/b"])
        self.assert_refused(outcome, "a")

    def test_path_through_an_input_link(self):
        """`l` leads out of the input root; outputs behind it must not be made or read there."""
        outcome = self.client.run("true", inputs={"l": Link("../../../tmp")}, outputs=["l/x"])
        if outcome.code == c.OK:
            self.assertEqual({}, outcome.paths())
        else:
            self.assert_refused(outcome, "l")

    def test_output_behind_a_link_of_the_action(self):
        """p becomes a link to /etc: p/hostname is then not collected from there."""
        outcome = self.client.run("rmdir p && ln -s /etc p", outputs=["p/hosts"])
        if outcome.code == c.OK:
            self.assertEqual({}, outcome.paths())
        else:
            self.assert_refused(outcome, "p/hosts", codes=BAD_INPUT)


class Result(Case):
    """Exit codes and streams."""

    def test_L74_non_zero_exit(self):
        outcome = self.run_sh("echo x > f; exit 7", 7, outputs=["f"])
        self.assertEqual(b"x\n", outcome.file("f"))

    def test_exit_codes(self):
        for code in (1, 2, 126, 127, 128, 255):
            with self.subTest(code=code):
                self.run_sh("exit %d" % code, code)

    def test_streams_byte_exact(self):
        script = "import os; os.write(1, bytes(range(256))); os.write(2, b'\\xff\\0end')"
        outcome = self.assert_ran(self.client.execute(self.client.action(["/usr/bin/python3", "-c", script])))
        self.assertEqual(bytes(range(256)), outcome.stdout)
        self.assertEqual(b"\xff\0end", outcome.stderr)

    def test_silent_streams(self):
        """No output: a digest of nothing, or none."""
        result = self.run_sh("true").result
        for field in ("stdout_digest", "stderr_digest"):
            if result.HasField(field):
                self.assertEqual(EMPTY, getattr(result, field))
        self.assertEqual((b"", b""), (result.stdout_raw, result.stderr_raw))

    def test_large_streams_do_not_block(self):
        """Both pipes full at once, in turns."""
        script = ("i=0; while [ $i -lt 40 ]; do head -c 100000 /dev/zero; "
                  "head -c 100000 /dev/zero >&2; i=$((i+1)); done")
        outcome = self.run_sh(script)
        self.assertEqual((4000000, 4000000), (len(outcome.stdout), len(outcome.stderr)))

    def test_metadata_times(self):
        """Every time that ExecutedActionMetadata has is set and they follow each other."""
        meta = self.run_sh("sleep 0.2").result.execution_metadata
        names = ["queued_timestamp", "worker_start_timestamp", "input_fetch_start_timestamp",
                 "input_fetch_completed_timestamp", "execution_start_timestamp",
                 "execution_completed_timestamp", "output_upload_start_timestamp",
                 "output_upload_completed_timestamp", "worker_completed_timestamp"]
        for name in names:
            self.assertTrue(meta.HasField(name), name)
        times = [getattr(meta, name).ToNanoseconds() for name in names]
        self.assertEqual(sorted(times), times, meta)
        spent = meta.execution_completed_timestamp.ToNanoseconds() - \
            meta.execution_start_timestamp.ToNanoseconds()
        self.assertGreaterEqual(spent, 200_000_000)
        self.assertNotEqual("", meta.worker)
