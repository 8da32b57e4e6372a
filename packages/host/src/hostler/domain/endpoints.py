"""Network endpoints that a process may be allowed to reach: a host name and a port."""

from __future__ import annotations

from typing import NamedTuple

MAX_PORT = 65535
ANY = "*"
"""In a manifest: the operator names the endpoints, since the service may be anywhere."""


class HostPort(NamedTuple):
    """A host name or address, and a port."""

    name: str
    port: int

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"


def parse_host_port(text: str) -> HostPort:
    """Parse `name:port` or `[address]:port`. Raise ValueError, which says what is wrong."""
    name, colon, port = text.rpartition(":")
    name = name.strip().removeprefix("[").removesuffix("]").rstrip(".").lower()
    if not colon or not name or not port.isascii() or not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise ValueError(f"{text!r} is not a place on a network; write name:port, like api.example.com:443")
    if any(character in name for character in "/@*? "):
        raise ValueError(f"{text!r} names no single host; write name:port, like api.example.com:443")
    return HostPort(name, int(port))
