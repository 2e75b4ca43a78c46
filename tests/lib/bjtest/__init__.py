# SPDX-License-Identifier: Apache-2.0
"""
bjtest - what belljar's Python tests share: a server to start and stop, an independent client, a runner.

Nothing here looks at belljar's C code or at its .proto files for the public API. The message classes
come from the .proto files that Debian ships in bazel-bootstrap-source (see stubs.py), so that a wrong
field number of ours cannot be right on both sides.

    stubs    generated message classes and service stubs
    wire     protobuf's wire format by hand: messages that no library would write
    tree     input roots from dicts, output Trees back into dicts
    client   Client (all services) and Outcome (one answered Execute)
    server   Server: one `belljar serve` process with a store of its own
    proc     looking for processes by a marker in their command line
    case     Case, the TestCase that shares one server per module
    runner   discovery, selection, the final line

Environment: BJ_BIN (directory of belljar and belljar-jail; default bazel-bin/executor),
BJ_TMP (scratch; default a fresh directory, removed at exit), BJ_MUST_RUN=1 (a skip is a failure),
BJ_SERVE_FLAGS (more flags for every server, split at blanks).
"""
