// SPDX-License-Identifier: Apache-2.0
/*
 * A property that is not understood is refused: a client that asks for a wall or for a hole and silently gets neither
 * is worse off than one that is told. The second half of the table has the names that users of other executors carry
 * in their platforms; each is either satisfied here, or refused with the reason, or chooses among machines of a farm,
 * which one machine cannot get wrong.
 *
 * Knowingly left out, so that they are refused: names of foreign file systems and of persistent workers.
 */
#include "policy/settings-internal.h"

#include "policy/policy-internal.h"

#if defined(__x86_64__)
#define MACHINE "x86-64,x86_64,amd64,k8,x64"
#elif defined(__aarch64__)
#define MACHINE "aarch64,arm64,arm-a64,armv8-a"
#else
#define MACHINE ""
#endif

#define NO_NETWORK "this build gives an action no network but its own loopback"
#define NO_GRANTS                                                                                  \
	"this build derives what may be touched from the declared tree alone; the operator can "   \
	"add a root"
#define NO_CONTAINER                                                                               \
	"actions run in belljar's own sandbox over the operator's toolchain roots, not in a "      \
	"container"
#define NO_OUTSIDE "belljar runs nothing outside of its sandbox"

const struct bjp_prop bjp_props[] = {
	{ "sandbox.write", BJP_PROP_WRITE, NULL, NULL },
	{ "sandbox.observe", BJP_PROP_OBSERVE, NULL, NULL },
	{ "sandbox.onViolation", BJP_PROP_ON_VIOLATION, NULL, NULL },
	{ "sandbox.ignore.read", BJP_PROP_IGNORE_READ, NULL, NULL },
	{ "sandbox.ignore.write", BJP_PROP_IGNORE_WRITE, NULL, NULL },
	{ "sandbox.ignore.network", BJP_PROP_IGNORE_NETWORK, NULL, NULL },
	{ "sandbox.ignore.systemInfo", BJP_PROP_PLACE, NULL, NULL }, /* nothing is recorded */
	{ "sandbox.allow.read", BJP_PROP_WORD, ",none", NO_GRANTS },
	{ "sandbox.allow.write", BJP_PROP_WORD, ",none", NO_GRANTS },
	{ "sandbox.allow.network", BJP_PROP_WORD, ",false,none,loopback", NO_NETWORK },
	{ "sandbox.deny.network", BJP_PROP_PLACE, NULL, NULL }, /* there is none to deny */
	{ "sandbox.allow.unixSockets", BJP_PROP_WORD, ",false,none",
	  "this build shows an action no socket of the host" },
	{ "sandbox.allow.localBinding", BJP_PROP_WORD, ",true",
	  "loopback is always up and private to the action; ports of the host cannot be had in "
	  "this build" },
	{ "sandbox.allow.systemInfo", BJP_PROP_BOOL, "true",
	  "this build does not mask what /proc says about the machine" },
	{ "sandbox.allow.machLookup", BJP_PROP_WORD, ",false,none",
	  "this build shows an action no service of the host" },
	{ "sandbox.allow.pty", BJP_PROP_BOOL, "false", "this build gives no pseudo-terminals" },
	{ "sandbox.allow.gitConfig", BJP_PROP_BOOL, "true,false", "" }, /* only inputs are there */
	{ "sandbox.allow.namespaces", BJP_PROP_BOOL, "false",
	  "this build lets no action make namespaces of its own" },
	{ "sandbox.weakerWhenNested", BJP_PROP_BOOL, "true,false", "" }, /* never weaker here */
	{ "sandbox.weakerNetworkIsolation", BJP_PROP_BOOL, "true,false", "" },
	{ "sandbox.reportWithin", BJP_PROP_WORD, "",
	  "this build reports every zone; use sandbox.ignore.read and sandbox.ignore.write" },

	{ "OSFamily", BJP_PROP_WORD, "linux", "this is a Linux machine" },
	{ "os", BJP_PROP_WORD, "linux", "this is a Linux machine" },
	{ "os_family", BJP_PROP_WORD, "linux", "this is a Linux machine" },
	{ "ISA", BJP_PROP_WORD, MACHINE, "this machine has another instruction set" },
	{ "Arch", BJP_PROP_WORD, MACHINE, "this machine has another instruction set" },
	{ "arch", BJP_PROP_WORD, MACHINE, "this machine has another instruction set" },
	{ "cpu", BJP_PROP_WORD, MACHINE, "this machine has another instruction set" },
	{ "container-image", BJP_PROP_WORD, ",none", NO_CONTAINER },
	{ "workload-isolation-type", BJP_PROP_WORD, ",none", NO_CONTAINER },
	{ "dockerNetwork", BJP_PROP_WORD, ",off,none", NO_NETWORK },
	{ "dockerPrivileged", BJP_PROP_WORD, ",false", NO_CONTAINER },
	{ "dockerRunAsRoot", BJP_PROP_WORD, ",false", "no action is root" },
	{ "dockerAddCapabilities", BJP_PROP_WORD, "", "no action has capabilities" },
	{ "dockerDropCapabilities", BJP_PROP_PLACE, NULL, NULL }, /* all are dropped */
	{ "dockerSiblingContainers", BJP_PROP_WORD, ",false", NO_CONTAINER },
	{ "dockerReuse", BJP_PROP_WORD, ",false", NO_CONTAINER },
	{ "network", BJP_PROP_WORD, ",off,none,false", NO_NETWORK },
	{ "block-network", BJP_PROP_WORD, ",true,false,1,0", "say true or false" },
	{ "requires-network", BJP_PROP_WORD, "false,0", NO_NETWORK },
	{ "no-sandbox", BJP_PROP_WORD, "false,0", NO_OUTSIDE },
	{ "requires-fakeroot", BJP_PROP_WORD, "false,0", "no action is root" },
	{ "requires-root", BJP_PROP_WORD, "false,0", "no action is root" },

	{ "Pool", BJP_PROP_PLACE, NULL, NULL },
	{ "pool", BJP_PROP_PLACE, NULL, NULL },
	{ "cache-silo-key", BJP_PROP_PLACE, NULL, NULL }, /* it is part of the action's digest */
	{ "gceMachineType", BJP_PROP_PLACE, NULL, NULL },
	{ "machineType", BJP_PROP_PLACE, NULL, NULL },
	{ "OSVersion", BJP_PROP_PLACE, NULL, NULL },
	{ "min-cores", BJP_PROP_PLACE, NULL, NULL },
	{ "max-cores", BJP_PROP_PLACE, NULL, NULL },
	{ "min-mem", BJP_PROP_PLACE, NULL, NULL },
	{ "max-mem", BJP_PROP_PLACE, NULL, NULL },
	{ "EstimatedCPU", BJP_PROP_PLACE, NULL, NULL },
	{ "EstimatedMemory", BJP_PROP_PLACE, NULL, NULL },
	{ "EstimatedComputeUnits", BJP_PROP_PLACE, NULL, NULL },
	{ "EstimatedFreeDiskBytes", BJP_PROP_PLACE, NULL, NULL },
	{ "recycle-runner", BJP_PROP_WORD, ",false", "nothing of an action outlives it" },
	{ "preserve-workspace", BJP_PROP_WORD, ",false", "nothing of an action outlives it" },
};
const size_t bjp_n_props = BJ_ARRAY_LEN(bjp_props);

/*
 * Bazel takes what stands before a dot in a target's exec_properties for the name of an execution group, so a target cannot say
 * sandbox.write: it writes sandbox:write, and means the same.
 */
static bool is_spelled(struct bj_str name, const char *known)
{
	size_t len = strlen(known);

	if (name.len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name.ptr[i] != known[i] && !(name.ptr[i] == ':' && known[i] == '.'))
			return false;
	return true;
}

const struct bjp_prop *bjp_prop_find(struct bj_str name)
{
	for (size_t i = 0; i < bjp_n_props; i++) {
		if (is_spelled(name, bjp_props[i].name))
			return &bjp_props[i];
	}
	return NULL;
}

/* True when one insertion, deletion or replacement, or another letter case, makes one of the other. */
static bool is_near(struct bj_str a, struct bj_str b)
{
	if (bjp_str_case_eq(a, b))
		return true;
	size_t longest = BJ_MAX(a.len, b.len), shortest = BJ_MIN(a.len, b.len);
	if (longest - shortest > 1 || shortest < 3)
		return false;
	size_t head = 0;
	while (head < shortest && a.ptr[head] == b.ptr[head])
		head++;
	size_t skip_a = head + (a.len == longest), skip_b = head + (b.len == longest);
	return bj_str_eq(bj_str_sub(a, skip_a, a.len), bj_str_sub(b, skip_b, b.len));
}

const char *bjp_prop_near(struct bj_str name)
{
	for (size_t i = 0; i < bjp_n_props; i++) {
		if (is_near(name, bj_str_of(bjp_props[i].name)))
			return bjp_props[i].name;
	}
	return NULL;
}

bool bjp_word_in(struct bj_str value, const char *list)
{
	struct bj_str rest = bj_str_of(list);
	do {
		if (bjp_str_case_eq(value, bj_str_cut(&rest, ',')))
			return true;
	} while (rest.ptr);
	return false;
}
