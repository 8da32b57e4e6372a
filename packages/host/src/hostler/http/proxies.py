"""Proxies in front of the server, and the addresses of the clients behind them."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from hostler_protocol.errors import InvalidArgumentError

MAX_PROXIES = 100
"""Addresses and networks that can be named."""
MAX_HOPS = 32
"""Addresses of one X-Forwarded-For that are looked at, from the last on."""
CLIENT_PREFIX = 64
"""Bits of an IPv6 address that stand for one client: a provider gives each at least a /64 (RFC 6177)."""


class TrustedProxies:
    """The proxies that are believed when they say whose request they pass on.

    Each proxy appends the address that it was called from to X-Forwarded-For. What stands before the last
    address that no trusted proxy has was written by that client, and may be anything.
    """

    def __init__(self, named: Sequence[str] = ()) -> None:
        if len(named) > MAX_PROXIES:
            raise InvalidArgumentError(f"{len(named)} trusted proxies; at most {MAX_PROXIES} are possible")
        self._networks = [_network(text) for text in named]

    def client_of(self, peer: str, forwarded_for: str | None) -> str:
        """Return the address of the client of a request that `peer` sent."""
        if not self._networks or forwarded_for is None or not self._trusts(_address(peer)):
            return peer
        found = peer
        for text in reversed(forwarded_for.split(",")[-MAX_HOPS:]):
            address = _address(_without_port(text.strip()))
            if address is None:  # the proxy after it did not know better
                return found
            found = str(address)
            if not self._trusts(address):
                return found
        return found

    def _trusts(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)


def rate_key(address: str) -> str:
    """Return what the limits for one address count by: IPv6 clients have many addresses in one network."""
    found = _address(address)
    if isinstance(found, IPv6Address):
        return str(IPv6Network((found, CLIENT_PREFIX), strict=False))
    return address if found is None else str(found)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise InvalidArgumentError(
            f"trusted proxy {text.strip()!r:.100}: {error}; "
            "expected an address or a network, like 10.0.0.7 or 10.0.0.0/8"
        ) from None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
