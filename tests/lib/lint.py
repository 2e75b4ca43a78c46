# SPDX-License-Identifier: Apache-2.0
"""The house style, as far as a program can check it: `lint.py`. One case a rule, over every file that git would commit."""

import os
import re
import subprocess
import sys

ROOT = os.environ.get("BJ_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
CODE = (".c", ".h")
SPDX = "SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 800
MAX_LINES_WITH_REASON = 1500

BANNED = (
    "system popen strcpy strcat stpcpy sprintf vsprintf gets alloca strtok mktemp tmpnam tempnam "
    "atoi atol atoll atof strtol strtoul strtoll strtoull"
).split()

# In pieces, so that this file does not hold what it looks for.
FOREIGN = [
    "registry" + r"\.npmjs\.",
    "registry" + r"\.yarnpkg\.",
    r"\bpypi" + r"\.org",
    "pythonhosted" + r"\.org",
    r"proxy\.go" + r"lang\.org",
    r"deb\.debian" + r"\.org",
    r"crates" + r"\.io",
    "/wo" + "rk/",
    "bash_" + "jobs",
]


def listed():
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE,
    ).stdout.decode()
    return sorted(name for name in set(out.split("\0")) if name and os.path.isfile(os.path.join(ROOT, name)))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def is_data(name):
    """Inputs and expected outputs are what they are."""
    return any(part in name for part in ("/corpus/", "/golden/", "/testdata/")) or name == "LICENSE"


def is_text(name):
    if is_data(name):
        return False
    with open(os.path.join(ROOT, name), "rb") as file:
        return b"\0" not in file.read(8192)


def without_comments_and_strings(text):
    """The same lines, with what is quoted or commented out made blank."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def needs_spdx(name):
    base = os.path.basename(name)
    if base.endswith((".c", ".h", ".bzl", ".proto", ".py", ".sh")) or base in ("BUILD.bazel", "WORKSPACE", "MODULE.bazel"):
        return not name.startswith("bazel/stubs/") or base.endswith((".bzl", ".sh"))
    return os.access(os.path.join(ROOT, name), os.X_OK)


def check_clang_format(names):
    files = [n for n in names if n.endswith(CODE)]
    if not files:
        return []
    run = subprocess.run(
        ["clang-format", "--dry-run", "--style=file"] + files,
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    text = run.stdout.decode(errors="replace")
    found = sorted({m.group(1) for m in re.finditer(r"^(\S+?):\d+:\d+: ", text, re.MULTILINE)})
    problems = ["%s: run clang-format -i %s" % (f, f) for f in found]
    if run.returncode != 0 and not problems:
        problems = [text]
    return problems


def check_banned(names):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    problems = []
    for name in names:
        if name.endswith(CODE):
            for number, line in enumerate(without_comments_and_strings(read(name)).split("\n"), 1):
                for match in pattern.finditer(line):
                    problems.append("%s:%d: %s() is banned" % (name, number, match.group(1)))
    return problems


def check_size(names):
    problems = []
    for name in names:
        if name.endswith(CODE):
            text = read(name)
            lines = text.count("\n")
            limit = MAX_LINES_WITH_REASON if "long because" in text[:4000] else MAX_LINES
            if lines > limit:
                problems.append("%s: %d lines, more than %d" % (name, lines, limit))
    return problems


def check_spdx(names):
    problems = []
    for name in names:
        if not is_data(name) and needs_spdx(name):
            head = read(name).split("\n")[:2]
            where = head[1:] if head[0].startswith("#!") else head[:1]
            if not any(SPDX in line for line in where):
                problems.append("%s: the SPDX line is not the first" % name)
    return problems


def check_foreign(names):
    pattern = re.compile("|".join(FOREIGN))
    problems = []
    for name in names:
        if is_text(name):
            for number, line in enumerate(read(name).split("\n"), 1):
                if pattern.search(line):
                    problems.append("%s:%d: names a registry or a path of one machine" % (name, number))
    return problems


def check_whitespace(names):
    problems = []
    for name in names:
        if is_text(name):
            text = read(name)
            if text and not text.endswith("\n"):
                problems.append("%s: no newline at the end" % name)
            for number, line in enumerate(text.split("\n"), 1):
                if line != line.rstrip():
                    problems.append("%s:%d: blanks at the end of the line" % (name, number))
    return problems


def check_guards(names):
    """executor/cas/store.h guards with BJ_CAS_STORE_H, policy/verdict.h with BJP_VERDICT_H."""
    problems = []
    for name in names:
        if name.endswith(".h") and name.startswith(("executor/", "policy/")):
            room, _, rest = name.partition("/")
            want = ("BJ_" if room == "executor" else "BJP_") + re.sub(r"[/.-]", "_", rest).upper()
            if "#ifndef %s\n#define %s\n" % (want, want) not in read(name):
                problems.append("%s: the guard is not %s" % (name, want))
    return problems


def check_python(names):
    problems = []
    for name in names:
        text = read(name) if is_text(name) else ""
        if name.endswith(".py") or (text.startswith("#!") and "python3" in text.split("\n")[0]):
            try:
                compile(text, name, "exec")
            except SyntaxError as error:
                problems.append("%s:%s: %s" % (name, error.lineno, error.msg))
    return problems


def check_shell(names):
    problems = []
    for name in names:
        text = read(name) if is_text(name) else ""
        first = text.split("\n")[0]
        if name.endswith(".sh") or (first.startswith("#!") and re.search(r"/(ba)?sh\b", first)):
            shell = "sh" if re.search(r"/sh\b", first) else "bash"
            run = subprocess.run(
                [shell, "-n", os.path.join(ROOT, name)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            )
            if run.returncode != 0:
                problems.append(run.stdout.decode(errors="replace").strip())
    return problems


RULES = [
    ("clang-format", check_clang_format),
    ("banned functions", check_banned),
    ("file size", check_size),
    ("SPDX line", check_spdx),
    ("foreign names", check_foreign),
    ("white space", check_whitespace),
    ("header guards", check_guards),
    ("python syntax", check_python),
    ("shell syntax", check_shell),
]


def main():
    names = listed()
    failed = 0
    for title, check in RULES:
        problems = check(names)
        print("%-18s %s" % (title, "ok" if not problems else "FAILED"))
        for problem in problems:
            print("    " + problem)
        failed += bool(problems)
    print("%d passed, %d failed, 0 skipped" % (len(RULES) - failed, failed))
    return 1 if failed else 0


sys.exit(main())
