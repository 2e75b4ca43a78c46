# SPDX-License-Identifier: Apache-2.0
"""The flags that every C file of ours is compiled and linked with. Under Debian 12's compilers -Werror is among them."""

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
] + [flag for flag in OPTIONAL_COPTS if flag != "-Werror"]

BJ_LINKOPTS = [
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
    "-Wl,--as-needed",
]
