// SPDX-License-Identifier: Apache-2.0
/**
 * main.c - the map of the program. Arrows point one way: a room may include what stands above it here, never below.
 *
 *   policy/            what an action may touch: pure functions, no I/O, a library of its own (prefix bjp_)
 *   executor/base/     errors, strings, buffers, arenas, maps, logging, descriptors, clock, threads
 *   executor/rpc/      the one wrapper over gRPC C core: server, client, streams, status with details
 *   executor/cas/      digests, the blob store, the action cache, walks over Merkle trees
 *   executor/jail/     the sandbox, a binary of its own (belljar-jail): zygote, mounts, namespaces, seccomp, the
 *                      observer; the library half starts and drives that binary
 *   executor/action/   one action's life as a state machine: fetch, lay out, run, collect, report
 *   executor/service/  the REAPI services over cas/ and action/
 *   executor/join/     the engines that we join as a worker, one file each
 *   executor/cli/      one file a subcommand; bj_cli_main() finds it
 *   proto/             the wire, .proto files only
 *
 * Two programs: belljar (server and command line, threaded, never forks once it serves) and belljar-jail (one
 * single-threaded zygote a slot, which forks and nothing else). A pair of sockets is all that connects them.
 */
#include "executor/cli/cli.h"

int main(int argc, char **argv)
{
	return bj_cli_main(argc, argv);
}
