# SPDX-License-Identifier: Apache-2.0
"""exec_properties for actions that run under belljar:

    load("@belljar//bazel:properties.bzl", "belljar")

    genrule(
        name = "survey",
        ...
        exec_properties = belljar(on_violation = "fail", ignore_read = ["/usr/share/zoneinfo/**"]),
    )

The server calls these settings sandbox.onViolation, sandbox.ignore.read and so on. Bazel takes what stands before a dot
for the name of an execution group, and refuses it on a target, so that a colon stands for each dot here.
"""

_WRITE = ["scratch", "strict"]
_ON_VIOLATION = ["report", "fail", "off"]
_OBSERVE = ["off", "writes", "default", "strict"]

def _name(key):
    return "sandbox:" + key.replace(".", ":")

def _one_of(out, key, value, known):
    if value == None:
        return
    if value not in known:
        fail("%s = %s: must be one of %s" % (key, repr(value), ", ".join(known)))
    out[_name(key)] = value

def _patterns(out, key, patterns):
    for pattern in patterns:
        if "," in pattern or pattern.strip() != pattern or not pattern:
            fail("%s: %s is empty, begins or ends with a blank, or holds a comma" % (key, repr(pattern)))
    if patterns:
        out[_name(key)] = ",".join(patterns)

def belljar(
        on_violation = None,
        observe = None,
        write = None,
        ignore_read = [],
        ignore_write = [],
        ignore_network = []):
    """A dictionary for exec_properties. What is not given is left to the server.

    Args:
      on_violation: report (records come with the result), fail (and exit 121), or off
      observe: off, writes, default or strict: how much the observer sees
      write: scratch (what is neither declared nor scratch is thrown away and reported) or strict (it is refused)
      ignore_read: patterns of paths whose undeclared reading is counted and not reported
      ignore_write: likewise for writing
      ignore_network: likewise for addresses

    Returns:
      a dictionary of strings
    """
    out = {}
    _one_of(out, "onViolation", on_violation, _ON_VIOLATION)
    _one_of(out, "observe", observe, _OBSERVE)
    _one_of(out, "write", write, _WRITE)
    _patterns(out, "ignore.read", ignore_read)
    _patterns(out, "ignore.write", ignore_write)
    _patterns(out, "ignore.network", ignore_network)
    return out
