// SPDX-License-Identifier: Apache-2.0
/**
 * main.c - the map of the program. Arrows point one way: a room may include what stands above it here, never below. A name stands
 * for NAME.c, NAME.h or both; a header NAME-internal.h belongs to its room alone.
 *
 * executor/base/     what every room uses; knows nothing of builds
 *   macros           attributes, cleanup, assertions
 *   err              one error value: code, errno, place, text
 *   alloc            the one door to the heap, where a test makes any allocation fail
 *   str buf arena    borrowed bytes, owned bytes, memory that dies at once
 *   map              hash table from bytes to a pointer
 *   fd fd_remove     whole reads and writes, opening beneath a root, removing trees
 *   clock log        the two clocks; one line an event
 *   pool             a few threads for work that blocks
 *   json             a streaming writer
 *   pb               protobuf-c behind a capped arena, with the checks that it leaves out
 *
 * policy/            what an action may touch: pure functions, no I/O, a library of its own (prefix bjp_)
 *   policy           the interface: settings, paths, derivation
 *   vocab props      the words, and the platform properties made of them
 *   settings         an action's properties over the operator's settings, within bounds
 *   path glob walk   lexical paths, patterns, declared links followed
 *   index derive     the declared tree as a hash index; from declarations to a policy
 *   classify         which of the three baselines a path belongs to
 *   write_rules      what a write is, by mode and place
 *   nearest          "did you mean"
 *   record           the interface: attempts become records
 *   collect facts    attempts while the command runs; what is known when it has ended
 *   noise ignore     what is counted and not reported, by us and by the operator
 *   judge missing    the verdicts; what a failed command looked for and nobody has
 *   report           findings as records that own their strings
 *   hint summary     what to do about one; the lines on stderr
 *   text             a policy as text, which its digest is taken over
 *
 * executor/rpc/      the one wrapper over gRPC C core
 *   rpc              the interface
 *   loop call        a completion queue and its thread; one call's life on it
 *   server accept    the server's slots; our own accept loop
 *   listen           sockets, TCP and Unix
 *   client           channels and calls the other way
 *   message          between slices and protobuf-c
 *
 * executor/cas/      content by digest
 *   digest           digests and the functions that make them
 *   reapi            short names for REAPI's messages
 *   store            reading blobs; the interface
 *   store_open store_scan store_marker   opening, what a crash left, the mark of a clean stop
 *   store_index store_lru                every file has an entry in memory; which was used longest ago
 *   store_write store_sync               writing, verified before it is seen; new data made durable in batches
 *   store_ac                             the action cache's files
 *   tree tree_check                      walking a Merkle tree; the rules for one Directory
 *
 * executor/jail/     the sandbox. The executor's side:
 *   jail run         starting and ending a zygote; one action from this side
 *   check            trying every wall once
 *   host roots       our own process prepared; the toolchain roots of this host
 *   hints            what a failed wall means and what to set
 *   observer         the witness's interface and its loop
 *   observer_filter observer_calls                 the BPF program and the table that it is made of
 *   observer_decode observer_caller observer_path  one notified call: arguments, its process, its paths
 *   observer_exec observer_sockets observer_net    interpreters and loaders; socket calls and their addresses
 *   observer_predict                               what the call will do
 *                    Both sides:
 *   spec wire        the codec of what crosses the socket; the messages
 *                    Inside belljar-jail:
 *   jail_main zygote  the program; one slot's life
 *   template copy    the root that every action starts from; the part of /etc in it
 *   mnt layers net   the new mount API; an action's three mounts; its network
 *   init creds       pid 1 of an action; from the zygote's rights to none
 *
 * executor/action/   one action's life as a state machine
 *   engine engine_op engine_waiter    who waits for what: queue, slots, merging
 *   run runner                        the seam between engine and life; what all lives share
 *   life                             the table of states
 *   fetch derive     what the client declared, read and checked; the policy made of it
 *   layout layout_make hot            the work area, one input root, blobs ready to be linked
 *   command witness  the command behind the walls; from what is seen to what is judged
 *   collect collect_dir collect_left  outputs into the store; what else was left
 *   finish report reports             the result; its SandboxReport; the last reports
 *   response         packing what goes out
 *   cache cache_check cached          results with their origin, served only whole, as Execute sees them
 *   fingerprint      which toolchain an action saw
 *
 * executor/service/  the REAPI services over cas/ and action/
 *   service          registration, unary methods on the pool
 *   capabilities cas tree action_cache execution   one file a service or method
 *   read write resource                            ByteStream and its names
 *   explain          belljar's own: the last reports
 *
 * executor/join/     the engines that we join as a worker, one file each
 *
 * executor/cli/      one file a subcommand
 *   cli flags        finds the subcommand; a table of flags and its parser
 *   serve serve_options config host  the server's life; what it is told; the YAML file; what this machine gives
 *   probe probe_roots probe_print    whether this host can give the jar
 *   explain explain_text explain_json
 *                    what the last actions touched
 *
 * proto/             the wire, .proto files only
 *
 * Two programs: belljar (server and command line, threaded, never forks once it serves) and belljar-jail (one
 * single-threaded zygote a slot, which forks and nothing else). A pair of sockets is all that connects them.
 */
#include "executor/cli/cli.h"

int main(int argc, char **argv)
{
	return bj_cli_main(argc, argv);
}
