# SPDX-License-Identifier: Apache-2.0
"""Counts the cases of a `bazel test` from its build events: `count_bazel.py EVENTS STATUS`.

A cmocka program says in its log how many of its cases passed, failed and were skipped; any other test is one case. A target
that failed counts at least one failure whatever its log says, and so does a Bazel that failed for another reason.
"""

import json
import re
import sys
import urllib.parse
import urllib.request

CMOCKA = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) ?\s*\] (\d+) test\(s\)", re.MULTILINE)
RAN = re.compile(r"^\[=+\] .*?(\d+) test\(s\) run\.", re.MULTILINE)


def read_events(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    except OSError:
        return []


def read_log(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.log" and output.get("uri", "").startswith("file:"):
            path = urllib.request.url2pathname(urllib.parse.urlparse(output["uri"]).path)
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
    return ""


def count_log(text, passed):
    """(passed, failed, skipped) of one run of one test."""
    counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for kind, number in CMOCKA.findall(text):
        counts[kind] += int(number)
    if sum(int(n) for n in RAN.findall(text)) == 0:
        counts = {"PASSED": int(passed), "FAILED": 0, "SKIPPED": 0}
    if not passed and counts["FAILED"] == 0:
        counts["FAILED"] = 1
    return counts["PASSED"], counts["FAILED"], counts["SKIPPED"]


def skip_reasons(label, text):
    """What each skipped case printed between its RUN line and its SKIPPED line."""
    pattern = re.compile(r"^\[ RUN      \] (\S+)\n(.*?)^\[  SKIPPED \] \1$", re.MULTILINE | re.DOTALL)
    return [
        "skipped: %s %s: %s" % (label, name, " ".join(said.split()) or "it gives no reason")
        for name, said in pattern.findall(text)
        if "[ RUN " not in said
    ]


def main():
    total = [0, 0, 0]
    results = {}
    summaries = {}
    for event in read_events(sys.argv[1]):
        identity = event.get("id", {})
        if "testResult" in identity and "testResult" in event:
            label = identity["testResult"]["label"]
            results.setdefault(label, []).append(event["testResult"])
        if "testSummary" in identity and "testSummary" in event:
            summaries[identity["testSummary"]["label"]] = event["testSummary"]["overallStatus"]
        if "targetCompleted" in identity and event.get("completed", {}).get("success") is not True:
            summaries.setdefault(identity["targetCompleted"]["label"], "FAILED_TO_BUILD")
    for label in sorted(set(results) | set(summaries)):
        status = summaries.get(label, "NO_STATUS")
        runs = results.get(label, [])
        counts = [count_log(read_log(r), r.get("status") == "PASSED") for r in runs]
        here = [sum(c[i] for c in counts) for i in range(3)]
        if status != "PASSED" and here[1] == 0:
            here[1] = 1
        for run in runs:
            for reason in skip_reasons(label, read_log(run)):
                print(reason)
        print("%-48s %-16s %d passed, %d failed, %d skipped" % ((label, status) + tuple(here)))
        total = [a + b for a, b in zip(total, here)]
    if int(sys.argv[2]) != 0 and total[1] == 0:
        print("bazel ended with status %s" % sys.argv[2])
        total[1] = 1
    print("%d passed, %d failed, %d skipped" % tuple(total))
    return 1 if total[1] else 0


sys.exit(main())
