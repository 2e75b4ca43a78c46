# SPDX-License-Identifier: Apache-2.0
"""A rule whose output is a directory: one file a word of its source."""

def _impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run_shell(
        inputs = [ctx.file.src],
        outputs = [out],
        command = "mkdir -p \"$2\"; n=0; for word in $(cat \"$1\"); do n=$((n + 1)); echo \"$word\" > \"$2/$n.txt\"; done",
        arguments = [ctx.file.src.path, out.path],
        mnemonic = "Pages",
    )
    return [DefaultInfo(
        files = depset([out]),
        runfiles = ctx.runfiles(files = [out]),
    )]

pages = rule(
    implementation = _impl,
    attrs = {"src": attr.label(allow_single_file = True, mandatory = True)},
)
