# SPDX-License-Identifier: Apache-2.0
"""
Message classes and service stubs, generated at run time into the scratch directory.

Source: the official .proto files in Debian's bazel-bootstrap-source (REAPI 2.2/2.3, google.bytestream,
google.longrunning, google.rpc, google.api). That copy lacks the fields that REAPI gained since. They are
added to the text of the copy before protoc sees it, from the table NEWER below, whose numbers were read
in the official 2.12 file. This was chosen over a second set of stubs made from belljar's own proto/:
both sets would claim the same package, hence need a process each, and a number that is wrong in our
.proto would be wrong on both sides of the wire. belljar.v1 (the report) is ours alone, so there proto/
is the specification and is compiled as it stands.
"""

import hashlib
import os
import re
import subprocess
import sys

from . import env

OFFICIAL = os.environ.get("BJ_OFFICIAL_PROTO", "/usr/src/bazel-bootstrap/third_party")
ROOTS = [os.path.join(OFFICIAL, "remoteapis"), os.path.join(OFFICIAL, "googleapis")]
RE_PROTO = "build/bazel/remote/execution/v2/remote_execution.proto"
FILES = [
    RE_PROTO,
    "build/bazel/semver/semver.proto",
    "google/api/annotations.proto",
    "google/api/http.proto",
    "google/bytestream/bytestream.proto",
    "google/longrunning/operations.proto",
    "google/rpc/code.proto",
    "google/rpc/error_details.proto",
    "google/rpc/status.proto",
]
REPORT_PROTO = "belljar/v1/report.proto"
EXPLAIN_PROTO = "belljar/v1/explain.proto"

# message (a nested one after a dot) -> fields that the official file has and Debian's copy has not
NEWER = {
    "Command": ["int32 output_directory_format = 9;"],  # an enum there; the same on the wire
    "ExecutedActionMetadata": ["google.protobuf.Duration virtual_execution_duration = 12;"],
    "OutputDirectory": [
        "bool is_topologically_sorted = 4;",
        "Digest root_directory_digest = 5;",
    ],
    "ExecuteRequest": [
        "DigestFunction.Value digest_function = 9;",
        "bool inline_stdout = 10;",
        "bool inline_stderr = 11;",
        "repeated string inline_output_files = 12;",
    ],
    "ExecuteOperationMetadata": [
        "ExecutedActionMetadata partial_execution_metadata = 5;",
        "DigestFunction.Value digest_function = 6;",
    ],
    "GetActionResultRequest": ["DigestFunction.Value digest_function = 6;"],
    "UpdateActionResultRequest": ["DigestFunction.Value digest_function = 5;"],
    "FindMissingBlobsRequest": ["DigestFunction.Value digest_function = 3;"],
    "BatchUpdateBlobsRequest": ["DigestFunction.Value digest_function = 5;"],
    "BatchUpdateBlobsRequest.Request": ["int32 compressor = 3;"],
    "BatchReadBlobsRequest": [
        "repeated int32 acceptable_compressors = 3;",
        "DigestFunction.Value digest_function = 4;",
    ],
    "BatchReadBlobsResponse.Response": ["int32 compressor = 4;"],
    "GetTreeRequest": ["DigestFunction.Value digest_function = 5;"],
    "CacheCapabilities": [
        "repeated int32 supported_compressors = 6;",
        "repeated int32 supported_batch_update_compressors = 7;",
        "int64 max_cas_blob_size_bytes = 8;",
        "bool split_blob_support = 9;",
        "bool splice_blob_support = 10;",
    ],
    "ExecutionCapabilities": ["repeated DigestFunction.Value digest_functions = 5;"],
}
ZSTD = 1
BLAKE3 = 9


def _overlay(text):
    """The copy's text with the fields of NEWER that it lacks."""
    for path, fields in NEWER.items():
        at = 0
        for name in path.split("."):
            found = re.compile(r"^\s*message %s \{" % name, re.M).search(text, at)
            if not found:
                raise RuntimeError("%s: no message %s" % (RE_PROTO, path))
            at = found.end()
        end = re.compile(r"^%s\}" % ("  " if "." in path else ""), re.M).search(text, at).start()
        body = text[at:end]
        for field in fields:
            name = field.split(" = ")[0].split()[-1]
            if not re.search(r"\b%s\s*=" % name, body):
                body += "  " + field + "\n"
        text = text[:at] + body + text[end:]
    # BLAKE3 is a value that only newer clients know; proto3 enums are open, so its number suffices.
    return text


def _read(name):
    for root in ROOTS:
        path = os.path.join(root, name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return f.read()
    raise RuntimeError("%s is not below %s; install bazel-bootstrap-source" % (name, OFFICIAL))


def _generate():
    sources = {name: _read(name) for name in FILES}
    sources[RE_PROTO] = _overlay(sources[RE_PROTO])
    for name in (REPORT_PROTO, EXPLAIN_PROTO):
        ours = os.path.join(env.REPO, "proto", name)
        if os.path.exists(ours):
            with open(ours, encoding="utf-8") as f:
                sources[name] = f.read()
    key = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:16]
    out = os.path.join(env.tmp(), "stubs-" + key)
    if not os.path.exists(out):
        part = env.fresh_dir("stubs")
        src = os.path.join(part, "src")
        for name, text in sources.items():
            os.makedirs(os.path.dirname(os.path.join(src, name)), exist_ok=True)
            with open(os.path.join(src, name), "w", encoding="utf-8") as f:
                f.write(text)
        done = subprocess.run(
            ["protoc", "-I" + src, "--python_out=" + part, "--grpc_python_out=" + part,
             "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin"] + sorted(sources),
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError("protoc: " + done.stderr)
        try:
            os.rename(part, out)
        except OSError:
            if not os.path.exists(out):  # else another process was faster, with the same bytes
                raise
    sys.path.insert(0, out)
    return REPORT_PROTO in sources


_has_report = _generate()

# pylint: disable=wrong-import-position
from build.bazel.remote.execution.v2 import remote_execution_pb2 as re_pb  # noqa: E402
from build.bazel.remote.execution.v2 import remote_execution_pb2_grpc as re_grpc  # noqa: E402
from google.bytestream import bytestream_pb2 as bs_pb  # noqa: E402
from google.bytestream import bytestream_pb2_grpc as bs_grpc  # noqa: E402
from google.longrunning import operations_pb2 as lro_pb  # noqa: E402
from google.longrunning import operations_pb2_grpc as lro_grpc  # noqa: E402
from google.rpc import code_pb2, error_details_pb2, status_pb2  # noqa: E402

report_pb = explain_pb = None
if _has_report:
    from belljar.v1 import report_pb2 as report_pb  # noqa: E402
    from belljar.v1 import explain_pb2 as explain_pb  # noqa: E402

__all__ = ["re_pb", "re_grpc", "bs_pb", "bs_grpc", "lro_pb", "lro_grpc", "code_pb2",
           "error_details_pb2", "status_pb2", "report_pb", "explain_pb", "ZSTD", "BLAKE3"]
