# SPDX-License-Identifier: Apache-2.0
"""
protobuf's wire format by hand, for bytes that a library refuses to write: names with NUL or invalid
UTF-8, records in the wrong order, cut messages.

    msg(field(1, b"a/b"), field(2, msg(field(1, b"5891…"), field(2, 6))))
"""


def varint(value):
    """Base-128 varint; negative numbers as their 64-bit two's complement, as int64 does."""
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        low = value & 0x7f
        value >>= 7
        if not value:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def field(number, value):
    """One field: int and bool as varint, bytes and str length-delimited."""
    if isinstance(value, (bool, int)):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def msg(*fields):
    """A message: its fields one after another, as given."""
    return b"".join(fields)


def read_varint(data, at):
    """(value, position after it)"""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def records(data):
    """[(tag, payload bytes)] of a message that has length-delimited fields only."""
    out = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 != 2:
            raise ValueError("tag %#x is not length-delimited" % tag)
        size, at = read_varint(data, at)
        out.append((tag, data[at:at + size]))
        at += size
    return out
