# SPDX-License-Identifier: Apache-2.0
"""Module extension: the same system libraries for Bazel 7 and newer."""

load(":system.bzl", "system_repositories")

def _impl(_ctx):
    system_repositories()

system = module_extension(implementation = _impl)
