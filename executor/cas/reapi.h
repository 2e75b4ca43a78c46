// SPDX-License-Identifier: Apache-2.0
/**
 * cas/reapi.h - short names for REAPI's messages (protobuf-c writes the whole package into each), and Digest to and fro.
 * The only typedefs of structs in the project: generated names of 60 characters hide what a line does.
 * Owns nothing. Threads: any.
 */
#ifndef BJ_CAS_REAPI_H
#define BJ_CAS_REAPI_H

#include "build/bazel/remote/execution/v2/remote_execution.pb-c.h"
#include "executor/base/arena.h"
#include "executor/base/err.h"
#include "executor/cas/digest.h"

#define BJ_RE(name) Build__Bazel__Remote__Execution__V2__##name
typedef BJ_RE(Action) re_action;
typedef BJ_RE(Command) re_command;
typedef BJ_RE(Digest) re_digest;
typedef BJ_RE(Directory) re_directory;
typedef BJ_RE(DirectoryNode) re_directory_node;
typedef BJ_RE(FileNode) re_file_node;
typedef BJ_RE(SymlinkNode) re_symlink_node;
typedef BJ_RE(Tree) re_tree;
typedef BJ_RE(ActionResult) re_action_result;
typedef BJ_RE(OutputFile) re_output_file;
typedef BJ_RE(OutputDirectory) re_output_directory;
typedef BJ_RE(OutputSymlink) re_output_symlink;
typedef BJ_RE(ExecutedActionMetadata) re_action_metadata;
typedef BJ_RE(ExecuteResponse) re_execute_response;
typedef BJ_RE(LogFile) re_log_file;

/**
 * bj_digest_from_pb() - check a Digest that came from outside.
 * @pb: may be NULL: "is not set" is -INVALID_ARGUMENT naming @what
 */
BJ_MUST_USE int bj_digest_from_pb(enum bj_digest_fn fn, const re_digest *pb, const char *what,
				  struct bj_digest *out_digest, struct bj_err *err);
/** A message in @arena; NULL without memory. */
re_digest *bj_digest_to_pb(struct bj_arena *arena, const struct bj_digest *digest);

#endif
