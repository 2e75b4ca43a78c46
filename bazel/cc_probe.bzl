# SPDX-License-Identifier: Apache-2.0
"""Asks the compiler which of our optional flags it knows, so that gcc, clang and later versions share one list."""

# Hardening that not every compiler or processor has. Each is kept only if an empty file compiles with it under -Werror.
_OPTIONAL = [
    "-fstack-protector-strong",
    "-fstack-clash-protection",
    "-fcf-protection=full",
    "-ftrivial-auto-var-init=zero",
    "-fstrict-flex-arrays=3",
    "-Wtrampolines",
    "-Wlogical-op",
    "-Wduplicated-cond",
]

# gcc's false alarms under the sanitizers, which are built in dbg; clang does not know the names.
_OPTIONAL_DBG = [
    "-Wno-maybe-uninitialized",
    "-Wno-tsan",
]

# The compilers of Debian 12. A later one has warnings that we have not met: they are shown, and the build goes on.
_WERROR = ["gcc 12", "clang 14"]

def _version(ctx, cc):
    """The compiler and its major version, as in _WERROR."""
    kind = "clang" if "clang" in ctx.execute([cc, "--version"]).stdout else "gcc"
    return kind + " " + ctx.execute([cc, "-dumpversion"]).stdout.strip().split(".")[0]

def _known(ctx, cc, flags):
    return [
        flag
        for flag in flags
        if ctx.execute([cc, "-Werror", "-Wall", flag, "-c", "empty.c", "-o", "empty.o"]).return_code == 0
    ]

def _impl(ctx):
    name = ctx.os.environ.get("CC", "gcc")
    cc = name if name.startswith("/") else ctx.which(name)
    if cc == None:
        fail("the compiler %s is missing. Run: apt-get install gcc (or clang, for --config=clang)" % name)
    ctx.file("empty.c", "extern int nothing;\n")
    ctx.file("flags.bzl", "OPTIONAL_COPTS = %s\n\nOPTIONAL_DBG_COPTS = %s\n" % (
        repr((["-Werror"] if _version(ctx, cc) in _WERROR else []) + _known(ctx, cc, _OPTIONAL)),
        repr(_known(ctx, cc, _OPTIONAL_DBG)),
    ))
    ctx.file("BUILD.bazel", "")

cc_probe = repository_rule(
    implementation = _impl,
    doc = "Writes @name//:flags.bzl with OPTIONAL_COPTS, the flags that this compiler takes.",
    environ = ["CC", "PATH"],
    local = True,
)
