# SPDX-License-Identifier: Apache-2.0
"""cc_library, cc_binary and cc_test with belljar's flags, and the two kinds of test that we have."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")
load(":copts.bzl", "BJ_COPTS", "BJ_LINKOPTS")

def bj_cc_library(name, copts = [], **kwargs):
    """A library of one room. Static only: nothing of ours is loaded at run time."""
    cc_library(
        name = name,
        copts = BJ_COPTS + copts,
        linkstatic = True,
        **kwargs
    )

def bj_cc_binary(name, copts = [], linkopts = [], **kwargs):
    cc_binary(
        name = name,
        copts = BJ_COPTS + copts,
        linkopts = BJ_LINKOPTS + linkopts,
        **kwargs
    )

def bj_cc_test(name, copts = [], linkopts = [], size = "small", **kwargs):
    cc_test(
        name = name,
        copts = BJ_COPTS + copts,
        linkopts = BJ_LINKOPTS + linkopts,
        linkstatic = True,
        size = size,
        **kwargs
    )

def bj_unit_test(name, deps = [], srcs = None, **kwargs):
    """A cmocka program: NAME.c, and what else srcs names.

    Args:
      name: the test, whose source is NAME.c unless srcs says otherwise
      deps: the libraries under test; cmocka is added
      srcs: sources and private headers
      **kwargs: as for cc_test
    """
    bj_cc_test(
        name = name,
        srcs = srcs or [name + ".c"],
        deps = deps + ["@cmocka//:cmocka"],
        **kwargs
    )

def bj_cc_fuzz(name, deps = [], srcs = None, corpus = None, **kwargs):
    """A fuzz target: a test that replays its corpus, and with --config=fuzz a libFuzzer program.

    Args:
      name: ends in _fuzz; NAME.c defines LLVMFuzzerTestOneInput unless srcs says otherwise
      deps: the libraries under test
      srcs: sources and private headers
      corpus: the directory of inputs in this package, corpus/NAME unless given; it must hold at least one file
      **kwargs: as for cc_test
    """
    corpus = corpus or "corpus/" + name
    bj_cc_test(
        name = name,
        srcs = srcs or [name + ".c"],
        args = select({
            # libFuzzer would write what it finds into the first directory it is given; -runs=0 only replays.
            "//bazel:fuzz": ["-runs=0"],
            "//conditions:default": [],
        }) + [native.package_name() + "/" + corpus],
        data = native.glob([corpus + "/**"]),
        linkopts = select({
            "//bazel:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//bazel:fuzz": [],
            "//conditions:default": ["//tests/fuzz:replay"],
        }),
        **kwargs
    )
