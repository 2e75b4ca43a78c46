# SPDX-License-Identifier: Apache-2.0
"""
A REAPI client for tests: small, blocking, and strict about what comes back.

Client holds one channel and the stubs of every service. Outcome is one answered Execute or
WaitExecution: the spec lets a server report an error either as the call's status or in
ExecuteResponse.status, so both are folded into Outcome.code; Outcome.via says which it was.
"""

import os
import re
import time
import uuid

import grpc

from . import tree as trees
from .stubs import (bs_grpc, bs_pb, error_details_pb2, lro_grpc, re_grpc, re_pb, report_pb,
                    status_pb2)

DEADLINE = 60
MESSAGE_LIMIT = 4 << 20  # what a gRPC client receives by default; a server must stay below it
DEFAULT_ENV = {"PATH": "/usr/bin:/bin"}
CHUNK = 1 << 20

OK = 0
CANCELLED = 1
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14


def code_of(error):
    """The number of a grpc.RpcError's code."""
    return error.code().value[0]


def status_of(error):
    """The google.rpc.Status in a grpc.RpcError's grpc-status-details-bin, or one of its code and text."""
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            return status_pb2.Status.FromString(value)
    return status_pb2.Status(code=code_of(error), message=error.details() or "")


def violations_of(status):
    """[(type, subject, description)] of every google.rpc.PreconditionFailure in @status."""
    out = []
    for detail in status.details:
        failure = error_details_pb2.PreconditionFailure()
        if detail.Is(failure.DESCRIPTOR):
            detail.Unpack(failure)
            out += [(v.type, v.subject, v.description) for v in failure.violations]
    return out


class Outcome:
    """
    What an Execute or WaitExecution came to.

    code, text   google.rpc code and message, from the call or from the response
    via          "call" or "response"
    ops          every Operation that was received
    response     ExecuteResponse, or None
    result       its ActionResult, or None when the response has none
    """

    def __init__(self, client, ops, error):
        self.client = client
        self.ops = ops
        self.response = None
        self.result = None
        self.via = "response"
        if error is not None:
            self.via = "call"
            self.status = status_of(error)
            self.grpc_code = code_of(error)
        else:
            self.status = self._take_response()
            self.grpc_code = OK
        self.code = self.status.code
        self.text = self.status.message

    def _take_response(self):
        if not self.ops or not self.ops[-1].done:
            raise AssertionError("stream ended with OK but without a done Operation: %s" % self.ops)
        last = self.ops[-1]
        if last.WhichOneof("result") != "response":
            raise AssertionError("done Operation holds %r, not a response" % last.WhichOneof("result"))
        self.response = re_pb.ExecuteResponse()
        if not last.response.Unpack(self.response):
            raise AssertionError("response is a " + last.response.type_url)
        if self.response.HasField("result"):
            self.result = self.response.result
        if self.response.status.code == OK and self.result is None:
            raise AssertionError("status OK without a result")
        return self.response.status

    @property
    def name(self):
        return self.ops[0].name if self.ops else None

    @property
    def exit_code(self):
        return self.result.exit_code

    @property
    def stages(self):
        return [metadata_of(op).stage for op in self.ops]

    @property
    def violations(self):
        return violations_of(self.status)

    @property
    def missing(self):
        """Subjects of the violations of type MISSING, sorted."""
        return sorted(subject for kind, subject, _ in self.violations if kind == "MISSING")

    @property
    def stdout(self):
        return self._stream(self.result.stdout_raw, "stdout_digest")

    @property
    def stderr(self):
        return self._stream(self.result.stderr_raw, "stderr_digest")

    def _stream(self, raw, field):
        if raw or not self.result.HasField(field):
            return raw
        return self.client.read(getattr(self.result, field))

    def file_entry(self, path):
        """The OutputFile of @path, or None."""
        found = [f for f in self.result.output_files if f.path == path]
        assert len(found) <= 1, "%s twice in output_files" % path
        return found[0] if found else None

    def file(self, path):
        """Contents of the output file @path."""
        entry = self.file_entry(path)
        assert entry is not None, "no output file %s in %s" % (path, self.paths())
        return self.client.read(entry.digest)

    def dir_entry(self, path):
        found = [d for d in self.result.output_directories if d.path == path]
        assert len(found) <= 1, "%s twice in output_directories" % path
        return found[0] if found else None

    def tree(self, path):
        """The Tree message of the output directory @path."""
        entry = self.dir_entry(path)
        assert entry is not None, "no output directory %s in %s" % (path, self.paths())
        return re_pb.Tree.FromString(self.client.read(entry.tree_digest))

    def dir(self, path):
        """The output directory @path as a dict."""
        return trees.unfold(self.tree(path), self.client.read)

    def links(self, field="output_symlinks"):
        return {link.path: link.target for link in getattr(self.result, field)}

    def paths(self):
        """{field: [paths]} of everything that came back."""
        r = self.result
        fields = ("output_files", "output_directories", "output_symlinks", "output_file_symlinks",
                  "output_directory_symlinks")
        return {f: sorted(e.path for e in getattr(r, f)) for f in fields if getattr(r, f)}

    def report(self):
        """The belljar.v1.SandboxReport of the result, or None."""
        if report_pb is None or self.result is None:
            return None
        for extra in self.result.execution_metadata.auxiliary_metadata:
            report = report_pb.SandboxReport()
            if extra.Is(report.DESCRIPTOR):
                extra.Unpack(report)
                return report
        return None

    def __str__(self):
        out = ["code %d via %s: %s" % (self.code, self.via, self.text)]
        for violation in self.violations[:10]:
            out.append("  violation %s" % (violation,))
        if self.response is not None and self.response.message:
            out.append("  message: " + self.response.message)
        if self.result is not None:
            out.append("  exit code %d, %s" % (self.result.exit_code, self.paths()))
            for what in ("stdout", "stderr"):
                try:
                    data = getattr(self, what)
                except grpc.RpcError as error:
                    data = str(error).encode()
                if data:
                    out.append("  %s: %r" % (what, data[:2000]))
        return "\n".join(out)


def metadata_of(operation):
    """The ExecuteOperationMetadata of an Operation."""
    metadata = re_pb.ExecuteOperationMetadata()
    if not operation.metadata.Unpack(metadata):
        raise AssertionError("metadata is a %r" % operation.metadata.type_url)
    return metadata


def check_operations(ops, action_digest=None):
    """The rules that every stream of Operations obeys."""
    for at, op in enumerate(ops):
        if op.WhichOneof("result") == "error":
            raise AssertionError("Operation.error is set: %s" % op.error)
        if not op.name or op.name != ops[0].name:
            raise AssertionError("operation name %r after %r" % (op.name, ops[0].name))
        metadata = metadata_of(op)
        is_completed = metadata.stage == re_pb.ExecutionStage.COMPLETED
        if is_completed != op.done:
            raise AssertionError("done is %s in stage %d" % (op.done, metadata.stage))
        if op.done and at != len(ops) - 1:
            raise AssertionError("an Operation follows the done one")
        if metadata.stage == re_pb.ExecutionStage.UNKNOWN:
            raise AssertionError("stage UNKNOWN")
        if action_digest is not None and metadata.action_digest != action_digest:
            raise AssertionError("metadata is about action %s" % metadata.action_digest)


class Client:
    """One channel to one server. Thread-safe as gRPC stubs are."""

    def __init__(self, address, instance="", options=()):
        self.instance = instance
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0),
            ("grpc.max_send_message_length", -1)] + list(options))
        self.capabilities = re_grpc.CapabilitiesStub(self.channel)
        self.cas = re_grpc.ContentAddressableStorageStub(self.channel)
        self.ac = re_grpc.ActionCacheStub(self.channel)
        self.execution = re_grpc.ExecutionStub(self.channel)
        self.bytestream = bs_grpc.ByteStreamStub(self.channel)
        self.operations = lro_grpc.OperationsStub(self.channel)

    def close(self):
        self.channel.close()

    # ---- raw calls: bytes out, bytes in ----

    def raw(self, method, data, timeout=DEADLINE):
        """A unary call with @data as the request, whatever it is. Return: the reply's bytes."""
        return self.channel.unary_unary(method)(data, timeout=timeout)

    def raw_stream(self, method, data, timeout=DEADLINE):
        """A server-streaming call with @data as the request. Return: the list of replies' bytes."""
        return list(self.channel.unary_stream(method)(data, timeout=timeout))

    def raw_upload(self, method, messages, timeout=DEADLINE):
        """A client-streaming call. Return: the reply's bytes."""
        return self.channel.stream_unary(method)(iter(messages), timeout=timeout)

    def get_capabilities(self):
        return self.capabilities.GetCapabilities(
            re_pb.GetCapabilitiesRequest(instance_name=self.instance), timeout=DEADLINE)

    # ---- CAS ----

    def find_missing(self, digests):
        """The Digests of @digests that the server lacks, as keys."""
        request = re_pb.FindMissingBlobsRequest(instance_name=self.instance, blob_digests=digests)
        reply = self.cas.FindMissingBlobs(request, timeout=DEADLINE)
        return {trees.key(d) for d in reply.missing_blob_digests}

    def has(self, digest):
        return not self.find_missing([digest])

    def batch_update(self, pairs, **fields):
        """BatchUpdateBlobs of [(Digest, bytes)]. Return: {key: google.rpc.Status}."""
        request = re_pb.BatchUpdateBlobsRequest(instance_name=self.instance, **fields)
        for digest, data in pairs:
            request.requests.add(digest=digest, data=data)
        reply = self.cas.BatchUpdateBlobs(request, timeout=DEADLINE)
        return {trees.key(r.digest): r.status for r in reply.responses}

    def batch_read(self, digests):
        """BatchReadBlobs. Return: {key: (code, data)}."""
        request = re_pb.BatchReadBlobsRequest(instance_name=self.instance, digests=digests)
        reply = self.cas.BatchReadBlobs(request, timeout=DEADLINE)
        return {trees.key(r.digest): (r.status.code, r.data) for r in reply.responses}

    def get_tree(self, root, **fields):
        """GetTree. Return: [GetTreeResponse]."""
        request = re_pb.GetTreeRequest(instance_name=self.instance, root_digest=root, **fields)
        return list(self.cas.GetTree(request, timeout=DEADLINE))

    def put(self, data):
        """Uploads @data. Return: its Digest."""
        digest = trees.digest_of(data)
        self.put_blobs({trees.key(digest): data})
        return digest

    def put_blobs(self, blobs):
        """Uploads {key: bytes}: those that are missing, small ones in batches."""
        digests = [re_pb.Digest(hash=h, size_bytes=n) for h, n in blobs]
        batch, size = [], 0
        for at in range(0, len(digests), 10000):
            for hash_, n_bytes in sorted(self.find_missing(digests[at:at + 10000])):
                digest = re_pb.Digest(hash=hash_, size_bytes=n_bytes)
                data = blobs[(hash_, n_bytes)]
                if n_bytes > CHUNK:
                    self.write(self.upload_name(digest), data)
                    continue
                if batch and size + n_bytes + 100 > 3 * CHUNK:
                    self._put_batch(batch)
                    batch, size = [], 0
                batch.append((digest, data))
                size += n_bytes + 100
        if batch:
            self._put_batch(batch)

    def _put_batch(self, batch):
        for where, status in self.batch_update(batch).items():
            if status.code != OK:
                raise AssertionError("upload of %s: %s" % (where, status))

    def put_msg(self, message):
        return self.put(message.SerializeToString(deterministic=True))

    def put_dir(self, spec):
        """Uploads the tree that @spec describes (see tree.py). Return: its root's Digest."""
        blobs = {}
        root = trees.build(spec, blobs)
        self.put_blobs(blobs)
        return root

    # ---- ByteStream ----

    def _prefix(self):
        return self.instance + "/" if self.instance else ""

    def upload_name(self, digest, suffix=""):
        return "%suploads/%s/blobs/%s%s" % (self._prefix(), uuid.uuid4(), trees.digest_str(digest), suffix)

    def blob_name(self, digest):
        return "%sblobs/%s" % (self._prefix(), trees.digest_str(digest))

    def write(self, name, data, chunk=CHUNK, timeout=DEADLINE):
        """ByteStream.Write of all of @data. Return: committed_size."""
        return self.bytestream.Write(write_requests(name, data, chunk), timeout=timeout).committed_size

    def write_status(self, name):
        return self.bytestream.QueryWriteStatus(
            bs_pb.QueryWriteStatusRequest(resource_name=name), timeout=DEADLINE)

    def read_name(self, name, offset=0, limit=0):
        """ByteStream.Read. Return: the bytes."""
        request = bs_pb.ReadRequest(resource_name=name, read_offset=offset, read_limit=limit)
        return b"".join(r.data for r in self.bytestream.Read(request, timeout=DEADLINE))

    def read(self, digest):
        """The blob, checked against its digest."""
        data = self.read_name(self.blob_name(digest))
        if trees.digest_of(data) != digest:
            raise AssertionError("read of %s gave %s" % (
                trees.digest_str(digest), trees.digest_str(trees.digest_of(data))))
        return data

    # ---- ActionCache ----

    def get_result(self, action_digest, **fields):
        """GetActionResult, or None when it is NOT_FOUND."""
        request = re_pb.GetActionResultRequest(
            instance_name=self.instance, action_digest=action_digest, **fields)
        try:
            return self.ac.GetActionResult(request, timeout=DEADLINE)
        except grpc.RpcError as error:
            if code_of(error) == NOT_FOUND:
                return None
            raise

    def update_result(self, action_digest, result):
        request = re_pb.UpdateActionResultRequest(
            instance_name=self.instance, action_digest=action_digest, action_result=result)
        return self.ac.UpdateActionResult(request, timeout=DEADLINE)

    # ---- Execution ----

    def action(self, arguments, inputs=None, outputs=None, files=None, dirs=None, cwd="",
               environ=None, platform=None, command_platform=None, timeout=None,
               do_not_cache=False, salt=None, root=None, command=None, more=None):
        """
        Uploads an Action with its Command and inputs. Return: its Digest.

        @outputs, @files, @dirs: Command.output_paths, output_files, output_directories, as given
        @platform: {name: value} for Action.platform; @command_platform: for Command.platform
        @salt: random by default, so that no two tests share a cache entry
        @root: Digest of the input root, in place of @inputs; @command: of the Command
        @more: called with the Command before it is uploaded
        """
        if command is None:
            message = re_pb.Command(
                arguments=arguments, output_paths=outputs or [], output_files=files or [],
                output_directories=dirs or [], working_directory=cwd)
            for name, value in sorted((DEFAULT_ENV if environ is None else environ).items()):
                message.environment_variables.add(name=name, value=value)
            _add_platform(message.platform, command_platform)
            if more:
                more(message)
            command = self.put_msg(message)
        action = re_pb.Action(
            command_digest=command,
            input_root_digest=self.put_dir(inputs or {}) if root is None else root,
            do_not_cache=do_not_cache, salt=os.urandom(8) if salt is None else salt)
        if timeout is not None:
            action.timeout.FromNanoseconds(int(timeout * 10**9))
        _add_platform(action.platform, platform)
        return self.put_msg(action)

    def sh(self, script, **fields):
        """action() of `/bin/sh -c script`."""
        return self.action(["/bin/sh", "-c", script], **fields)

    def start(self, action_digest, timeout=DEADLINE, skip_cache_lookup=False, metadata=None, **fields):
        """Execute. Return: the call, an iterator over Operations."""
        request = re_pb.ExecuteRequest(
            instance_name=self.instance, action_digest=action_digest,
            skip_cache_lookup=skip_cache_lookup, **fields)
        return self.execution.Execute(request, timeout=timeout, metadata=metadata)

    def execute(self, action_digest, **fields):
        """Execute to the end. Return: Outcome; the rules for Operations are checked."""
        return self.finish(self.start(action_digest, **fields), action_digest)

    def wait_execution(self, name, timeout=DEADLINE):
        """WaitExecution. Return: the call."""
        return self.execution.WaitExecution(re_pb.WaitExecutionRequest(name=name), timeout=timeout)

    def finish(self, call, action_digest=None, before=()):
        """Reads @call to its end. @before: Operations already taken from it. Return: Outcome."""
        ops, error = list(before), None
        try:
            for op in call:
                ops.append(op)
        except grpc.RpcError as caught:
            error = caught
        check_operations(ops, action_digest)
        return Outcome(self, ops, error)

    def run(self, script, **fields):
        """sh() and execute()."""
        return self.execute(self.sh(script, **fields))

    def wait_caching(self, seconds=60):
        """Until results are cached: a server first has to know which toolchain it has."""
        deadline = time.monotonic() + seconds
        while True:
            action = self.sh("true")
            self.execute(action)
            if self.execute(action).response.cached_result:
                return
            if time.monotonic() > deadline:
                raise AssertionError("nothing is cached %d s after the start" % seconds)

    def first_op(self, call, stage=None):
        """[Operations] of @call up to the first one, or the first in @stage."""
        ops = []
        for op in call:
            ops.append(op)
            if op.done or stage is None or metadata_of(op).stage == stage:
                return ops
        raise AssertionError("stream ended before stage %s: %s" % (stage, ops))


def _add_platform(message, properties):
    for name, value in sorted((properties or {}).items()):
        for one in value if isinstance(value, list) else [value]:
            message.properties.add(name=name, value=one)


def write_requests(name, data, chunk=CHUNK, offset=0, finish=True):
    """The WriteRequests for @data from @offset on; the name stands in the first one only."""
    view = memoryview(data)
    at = offset
    while True:
        part = bytes(view[at:at + chunk])
        is_last = at + len(part) >= len(data)
        yield bs_pb.WriteRequest(resource_name=name if at == offset else "", write_offset=at,
                                 finish_write=is_last and finish, data=part)
        at += len(part)
        if is_last:
            return


def seconds_in(text):
    """The times that a text names ("1s", "1.0 s", "1 seconds", "1000 ms"), in seconds."""
    found = re.findall(r"(\d+(?:\.\d+)?)\s?(s|ms)(?:ec|\b)", text)
    return [float(n) / (1000 if unit == "ms" else 1) for n, unit in found]
