# SPDX-License-Identifier: Apache-2.0
"""The flags that every C file of ours is compiled and linked with."""

load("@cc_probe//:flags.bzl", "OPTIONAL_COPTS", "OPTIONAL_DBG_COPTS")

BJ_COPTS = [
    "-std=gnu17",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wformat=2",
    "-Wvla",
    "-Wundef",
    "-Werror",
    # Our assertions stay on in every mode; Bazel's opt mode would turn assert() off.
    "-UNDEBUG",
    "-fvisibility=hidden",
] + OPTIONAL_COPTS + select({
    # The macro needs an optimiser, and the sanitizers (built in dbg) check more than it does.
    "//bazel:opt": [
        "-U_FORTIFY_SOURCE",
        "-D_FORTIFY_SOURCE=3",
    ],
    "//bazel:dbg": OPTIONAL_DBG_COPTS,
    "//conditions:default": [],
})

# For generated code, which is not ours to mend: no warnings.
BJ_GENERATED_COPTS = [
    "-std=gnu17",
    "-w",
] + OPTIONAL_COPTS

BJ_LINKOPTS = [
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
    "-Wl,--as-needed",
]
