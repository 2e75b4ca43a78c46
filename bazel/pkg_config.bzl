# SPDX-License-Identifier: Apache-2.0
"""Repository rules for what the system has: libraries found by pkg-config, and protobuf's well-known types."""

def _words(text):
    return [w for w in text.replace("\n", " ").split(" ") if w]

def _query(ctx, tool, args):
    result = ctx.execute([tool] + args + [ctx.attr.module])
    if result.return_code != 0:
        fail("%s is missing. Run: apt-get install %s\n(%s)" % (
            ctx.attr.module,
            ctx.attr.package,
            result.stderr.strip(),
        ))
    return _words(result.stdout)

def _pkg_config_impl(ctx):
    tool = ctx.which("pkg-config")
    if tool == None:
        fail("pkg-config is missing. Run: apt-get install pkg-config")
    cflags = _query(ctx, tool, ["--cflags"])
    if ctx.attr.libs:
        libs = ["-l" + lib for lib in ctx.attr.libs] + _query(ctx, tool, ["--libs-only-L"])
    else:
        libs = _query(ctx, tool, ["--libs"])

    # Bazel takes headers below its own trees only, so a non-default directory is linked into the repository.
    includes = []
    for flag in cflags:
        if flag.startswith("-I") and flag != "-I/usr/include":
            link = "include%d" % len(includes)
            ctx.symlink(flag[2:], link)
            includes.append(link)

    # Under bzlmod the repository's canonical name carries the module and the extension before the name we gave.
    name = ctx.name.split("~")[-1].split("+")[-1]
    ctx.file("BUILD.bazel", """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = {name},
    hdrs = glob({globs}, allow_empty = True),
    defines = {defines},
    includes = {includes},
    linkopts = {libs},
)
""".format(
        name = repr(name),
        globs = repr([i + "/**/*.h" for i in includes]),
        defines = repr([f[2:] for f in cflags if f.startswith("-D")]),
        includes = repr(includes),
        libs = repr(libs),
    ))

pkg_config = repository_rule(
    implementation = _pkg_config_impl,
    doc = "One system library as @name//:name.",
    attrs = {
        "libs": attr.string_list(doc = "link these only, instead of what pkg-config --libs says"),
        "module": attr.string(mandatory = True, doc = "pkg-config's name for it"),
        "package": attr.string(mandatory = True, doc = "the Debian package that brings it, for the error text"),
    },
    environ = ["PATH", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"],
    local = True,
)

def _system_protos_impl(ctx):
    if not ctx.path("/usr/include/google/protobuf/any.proto").exists:
        fail("google/protobuf/*.proto are missing. Run: apt-get install libprotobuf-dev")
    ctx.symlink("/usr/include/google/protobuf", "google/protobuf")
    ctx.file("BUILD.bazel", """package(default_visibility = ["//visibility:public"])

filegroup(
    name = "wkt",
    srcs = glob(["google/protobuf/*.proto"]),
)
""")

system_protos = repository_rule(
    implementation = _system_protos_impl,
    doc = "protobuf's well-known types as files, @name//:wkt.",
    local = True,
)
