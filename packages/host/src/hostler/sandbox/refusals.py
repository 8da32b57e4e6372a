"""Descriptions of refused system calls."""

from __future__ import annotations

import _socket
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from hostler.sandbox.syscalls import MACHINES, names

FAMILIES = {1: "Unix", 2: "IPv4", 10: "IPv6", 17: "packet", 38: "crypto", 40: "vsock"}
TYPES = {1: "stream", 2: "datagram", 3: "raw", 5: "packet sequence"}
SPOKEN = {(2, 1): "TCP", (10, 1): "TCP over IPv6", (2, 2): "UDP", (10, 2): "UDP over IPv6"}
TYPE_MASK = 0xF
IPV4_END, IPV6_END = 8, 24
"""Where the address ends in the kernel's form of a socket address."""
SOCKET_ADDRESS_BYTES = 28
"""The size of the larger one."""


class Refusal(NamedTuple):
    """A refused operation. `subject` identifies it, so that it is reported once; `text` is a line for
    people."""

    subject: str
    text: str


@cache
def _names() -> dict[int, str]:
    machine = os.uname().machine
    return names(machine) if machine in MACHINES else {}


def out_of_reach(address: bytes) -> Refusal | None:
    """Describe an address to connect to, in the kernel's form, that is not on the loopback; else None.

    A sandbox with a network of its own reaches nothing else: the kernel refuses the connection.
    """
    family = int.from_bytes(address[:2], sys.byteorder)
    if family == _socket.AF_INET and len(address) >= IPV4_END:
        host, port = _socket.inet_ntop(family, address[4:IPV4_END]), int.from_bytes(address[2:4], "big")
        if host.startswith(("127.", "0.")):
            return None
    elif family == _socket.AF_INET6 and len(address) >= IPV6_END:
        host, port = _socket.inet_ntop(family, address[8:IPV6_END]), int.from_bytes(address[2:4], "big")
        if host in ("::1", "::") or host.startswith("::ffff:127."):
            return None
        host = f"[{host}]"
    else:
        return None
    place = f"{host}:{port}"
    return Refusal(f"connecting {place}", f"connecting to {place}: it has no network but its own processes")


def describe(number: int, arguments: Sequence[int]) -> Refusal:
    """Describe a refused call, given its number on this machine."""
    name = _names().get(number, f"call {number}")
    if name in ("socket", "socketpair"):
        family, kind = arguments[0] & 0xFFFFFFFF, arguments[1] & TYPE_MASK
        subject = SPOKEN.get((family, kind))
        if subject is None:
            family_name = FAMILIES.get(family, f"family {family}")
            subject = f"{family_name}" if family == 1 else f"{family_name} {TYPES.get(kind, kind)}"
        return Refusal(f"{name} {subject}", f"{name}: {subject} sockets are not allowed")
    return Refusal(name, f"the system call {name} is not allowed")
