"""Descriptions of refused system calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from hostler.sandbox.syscalls import MACHINES, names

FAMILIES = {1: "Unix", 2: "IPv4", 10: "IPv6", 17: "packet", 38: "crypto", 40: "vsock"}
TYPES = {1: "stream", 2: "datagram", 3: "raw", 5: "packet sequence"}
SPOKEN = {(2, 1): "TCP", (10, 1): "TCP over IPv6", (2, 2): "UDP", (10, 2): "UDP over IPv6"}
TYPE_MASK = 0xF


class Refusal(NamedTuple):
    """A refused operation. `subject` identifies it, so that it is reported once; `text` is a line for
    people."""

    subject: str
    text: str


@cache
def _names() -> dict[int, str]:
    machine = os.uname().machine
    return names(machine) if machine in MACHINES else {}


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
