# SPDX-License-Identifier: Apache-2.0
"""What tests/projects/full does; its text says it."""

import hashlib
import json
import os
import subprocess

from bjtest import env
from bjtest.client import Client
from bjtest.server import Server

from recorded import Recorded

KIND_READ = 1  # READ_UNDECLARED
KIND_MISSING_OUTPUT = 6
WANTED_REMOVALS = 20
STUBS = os.path.join(env.REPO, "bazel", "stubs")
OUTPUTS = (".o", ".a", ".so", ".pic.o")


class Tally:
    """Counts, and prints each case."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def check(self, name, ok, detail=""):
        print("%s  %s%s" % ("ok  " if ok else "FAIL", name, "" if ok else ": " + detail), flush=True)
        if ok:
            self.passed += 1
        else:
            self.failed += 1
        return ok

    def skip(self, name, why):
        if os.environ.get("BJ_MUST_RUN") == "1" and os.environ.get("BJ_PROJECTS"):
            self.check(name, False, "skipped: " + why)
            return
        print("skip  %s: %s" % (name, why), flush=True)
        self.skipped += 1


class Build:
    """One project with one Bazel."""

    def __init__(self, root, name, spec, bazel):
        self.dir = os.path.join(root, name)
        self.bazel = bazel
        self.spec = spec
        self.bases = env.fresh_dir("bases")
        self.flags = [flag.format(stubs=STUBS, projects=root) for flag in spec.get("flags", [])]
        self.flags += ["--override_repository=%s=%s/%s" % (repo, STUBS, repo)
                       for repo in ("rules_cc", "rules_java", "remote_coverage_tools")]

    def _run(self, base, args):
        argv = [self.bazel, "--output_base=" + os.path.join(self.bases, base), "--nohome_rc", "--max_idle_secs=30"]
        return subprocess.run(argv + args, cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=1800)

    def build(self, base, *flags):
        return self._run(base, [self.spec.get("command", "build"), "--nosandbox_debug", "--noshow_progress",
                                "--curses=no", "--color=no", "--incompatible_strict_action_env"]
                         + list(flags) + self.flags + self.spec["targets"])

    def outputs(self, base):
        """{path: sha256} of the objects and libraries that the build made."""
        found = {}
        top = self._run(base, ["info", "bazel-bin"] + self.flags).stdout.strip().splitlines()[-1]
        for at, _, names in os.walk(top):
            for name in names:
                path = os.path.join(at, name)
                if name.endswith(OUTPUTS) and not name.endswith(".runfiles") and os.path.isfile(path):
                    with open(path, "rb") as f:
                        found[os.path.relpath(path, top)] = hashlib.sha256(f.read()).hexdigest()
        return found

    def stop(self):
        for base in os.listdir(self.bases):
            self._run(base, ["shutdown"])


def reports_of(client):
    """The server's stored reports, oldest first."""
    # pylint: disable=import-outside-toplevel
    from bjtest.stubs import explain_pb
    reply = client.raw("/belljar.v1.Explain/ListReports", explain_pb.ListReportsRequest(limit=100000).SerializeToString())
    return list(reversed(explain_pb.ListReportsResponse.FromString(reply).reports))


def digest_from(text):
    from bjtest.stubs import re_pb  # pylint: disable=import-outside-toplevel
    name, size = text.split("/")
    return re_pb.Digest(hash=name, size_bytes=int(size))


def check_clean(tally, name, client):
    reports = reports_of(client)
    dirty = ["%s %s" % (v.kind, v.resolved) for r in reports for v in r.report.violations]
    tally.check("%s: %d actions, no record" % (name, len(reports)), reports and not dirty, "; ".join(dirty[:5]))
    return reports


def check_equal(tally, name, build):
    ours, local = build.outputs("remote"), build.outputs("local")
    wrong = sorted(p for p in set(ours) | set(local) if ours.get(p) != local.get(p))
    tally.check("%s: %d outputs equal a local build's" % (name, len(ours)), ours and not wrong, ", ".join(wrong[:5]))


def judge_removed(outcome, path):
    """None when the only undeclared read is @path, else what is wrong."""
    report = outcome.report()
    if report is None:
        return "no report: %s" % outcome
    named = {v.resolved for v in report.violations if v.kind == KIND_READ}
    if named != {"/exec/" + path}:
        return "named %s" % sorted(named)
    return None


def judge_unread(outcome):
    report = outcome.report()
    if report is None or outcome.exit_code != 0:
        return "did not run: %s" % outcome
    return "; ".join("%s %s" % (v.kind, v.resolved) for v in report.violations) or None


def check_removals(tally, name, client, reports):
    read = unread = 0
    for stored in reports:
        if read >= WANTED_REMOVALS and unread >= WANTED_REMOVALS:
            break
        if stored.report.mnemonic not in ("CppCompile", ""):
            continue
        action = Recorded(client, digest_from(stored.report.action_digest))
        prerequisites = action.depfile()
        if prerequisites is None:
            continue
        files = action.files()
        for path in sorted(files):
            is_read = path in prerequisites
            if (read if is_read else unread) >= WANTED_REMOVALS:
                continue
            outcome = action.run_without(path)
            wrong = judge_removed(outcome, path) if is_read else judge_unread(outcome)
            label = "%s: without %s (%s)" % (name, path, "read" if is_read else "not read")
            tally.check(label, wrong is None, wrong or "")
            read, unread = read + is_read, unread + (not is_read)
    print("      %s: %d read inputs removed, %d unread ones" % (name, read, unread))


def check_project(tally, name, root, spec, bazel):
    label = "%s with %s" % (name, os.path.basename(bazel))
    build = Build(root, name, spec, bazel)
    server = Server("--workspace=" + build.dir).start()
    client = Client(server.address)
    try:
        done = build.build("remote", "--remote_executor=grpc://" + server.address, "--noremote_local_fallback")
        if tally.check(label + ": builds through belljar", done.returncode == 0, done.stdout[-1500:]):
            reports = check_clean(tally, label, client)
            check_removals(tally, label, client, reports)
            local = build.build("local", "--symlink_prefix=/")
            if tally.check(label + ": builds locally", local.returncode == 0, local.stdout[-1500:]):
                check_equal(tally, label, build)
    finally:
        build.stop()
        client.close()
        server.stop()


def main(names):
    tally = Tally()
    root = os.environ.get("BJ_PROJECTS")
    if not root:
        tally.skip("projects", "BJ_PROJECTS names no directory of checkouts")
    else:
        root = os.path.realpath(root)
        with open(os.path.join(root, "flags.json"), encoding="utf-8") as f:
            specs = json.load(f)
        for name in names or sorted(specs):
            for bazel in ["bazel"] + os.environ.get("BJ_BAZELS", "").split():
                check_project(tally, name, root, specs[name], bazel)
    print("%d passed, %d failed, %d skipped" % (tally.passed, tally.failed, tally.skipped))
    return 1 if tally.failed else 0
