# SPDX-License-Identifier: Apache-2.0
"""The system libraries belljar is built from, each a repository of its own, all from Debian packages."""

load(":cc_probe.bzl", "cc_probe")
load(":pkg_config.bzl", "pkg_config", "system_protos")

def system_repositories():
    """Declares every repository. Called from WORKSPACE and, for Bazel 7 and newer, from extensions.bzl."""
    cc_probe(name = "cc_probe")

    # With the shared library the transitive list (hundreds of absl libraries) is not needed.
    pkg_config(name = "grpc", module = "grpc", package = "libgrpc-dev", libs = ["grpc", "gpr"])
    pkg_config(name = "protobuf_c", module = "libprotobuf-c", package = "libprotobuf-c-dev")
    pkg_config(name = "seccomp", module = "libseccomp", package = "libseccomp-dev")
    pkg_config(name = "xxhash", module = "libxxhash", package = "libxxhash-dev")
    pkg_config(name = "openssl", module = "libcrypto", package = "libssl-dev")
    pkg_config(name = "cap", module = "libcap", package = "libcap-dev")
    pkg_config(name = "zstd", module = "libzstd", package = "libzstd-dev")
    pkg_config(name = "yaml", module = "yaml-0.1", package = "libyaml-dev")
    pkg_config(name = "cmocka", module = "cmocka", package = "libcmocka-dev")
    system_protos(name = "system_protos")
