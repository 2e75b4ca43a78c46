# SPDX-License-Identifier: Apache-2.0
"""proto_c_library: C from .proto files by the system's protoc-c. libprotobuf-c-dev brings no code for the well-known
types, so that they are generated like our own."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load(":copts.bzl", "BJ_GENERATED_COPTS")

ProtoFilesInfo = provider(
    doc = "What a .proto that imports these needs.",
    fields = {
        "files": "depset of .proto files",
        "roots": "depset of directories for -I",
    },
)

def _root(file, name):
    """The directory under which a file is imported as name; "" if it is another file."""
    if file.path == name:
        return "."
    if file.path.endswith("/" + name):
        return file.path[:-len(name) - 1]
    return ""

def _impl(ctx):
    here = ctx.attr.out
    direct = {}
    for name in ctx.attr.protos:
        for file in ctx.files.srcs:
            root = _root(file, name)
            if root:
                direct[root] = None
    files = depset(ctx.files.srcs, transitive = [d[ProtoFilesInfo].files for d in ctx.attr.deps])
    roots = depset(direct.keys(), transitive = [d[ProtoFilesInfo].roots for d in ctx.attr.deps])

    sources = []
    headers = []
    for name in ctx.attr.protos:
        stem = here + "/" + name[:-len(".proto")]
        sources.append(ctx.actions.declare_file(stem + ".pb-c.c"))
        headers.append(ctx.actions.declare_file(stem + ".pb-c.h"))
    outdir = "/".join([p for p in [ctx.bin_dir.path, ctx.label.workspace_root, ctx.label.package, here] if p])

    args = ctx.actions.args()
    args.add(outdir)
    args.add_all(roots, format_each = "-I%s")
    args.add("--c_out=" + outdir)
    args.add_all(ctx.attr.protos)
    ctx.actions.run_shell(
        inputs = files,
        outputs = sources + headers,
        arguments = [args],
        command = "mkdir -p \"$1\" && shift && exec protoc-c \"$@\"",
        mnemonic = "ProtocC",
        progress_message = "Generating C from %s" % ctx.label,
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(files = depset(sources + headers)),
        OutputGroupInfo(hdrs = depset(headers), srcs = depset(sources)),
        ProtoFilesInfo(files = files, roots = roots),
    ]

_proto_c_sources = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(providers = [ProtoFilesInfo]),
        "out": attr.string(mandatory = True),
        "protos": attr.string_list(mandatory = True),
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
    },
)

def proto_c_library(name, protos, srcs, deps = [], **kwargs):
    """A C library of messages; its headers are included as PATH/OF/FILE.pb-c.h.

    Args:
      name: the library
      protos: the files to generate from, by the names under which they are imported
      srcs: the labels that hold these files
      deps: the proto_c_library targets (of the same package) that they import from
      **kwargs: as for cc_library
    """
    out = name + "_gen"
    _proto_c_sources(
        name = name + "_sources",
        srcs = srcs,
        out = out,
        protos = protos,
        deps = [d + "_sources" for d in deps],
    )
    native.filegroup(name = name + "_c", srcs = [name + "_sources"], output_group = "srcs")
    native.filegroup(name = name + "_h", srcs = [name + "_sources"], output_group = "hdrs")
    cc_library(
        name = name,
        srcs = [name + "_c"],
        hdrs = [name + "_h"],
        copts = BJ_GENERATED_COPTS,
        includes = [out],
        linkstatic = True,
        deps = deps + ["@protobuf_c//:protobuf_c"],
        **kwargs
    )
