"""Resolve a name once, check all its addresses, and connect only to these."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Protocol

from hostler.egress.addresses import IPAddress, literal
from hostler.egress.errors import EgressUnreachableError
from hostler.egress.limits import MAX_ADDRESSES, RESOLVE_SECONDS
from hostler.egress.policy import EgressPolicy, Target


class Network(Protocol):
    """Resolves host names, and makes connections."""

    async def resolve(self, host: str, port: int) -> Sequence[IPAddress]:
        """Return the addresses of a name, the preferred one first. OSError if there are none."""
        ...

    def backend(self, core: Any) -> Any:
        """Return the network backend for `core`, the module httpcore or httpcore2."""
        ...


class SystemNetwork:
    """The network of the machine, with its hosts file and DNS."""

    async def resolve(self, host: str, port: int) -> Sequence[IPAddress]:
        """See `Network`."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        addresses = []
        for family, _, _, _, where in found:
            if family in (socket.AF_INET, socket.AF_INET6):
                # The scope (`fe80::1%eth0`) is dropped: such an address is refused anyway.
                address = literal(str(where[0]).partition("%")[0])
                if address is not None:
                    addresses.append(address)
        return list(dict.fromkeys(addresses))

    def backend(self, core: Any) -> Any:
        """See `Network`."""
        return core.AnyIOBackend()


class Guard:
    """A policy on a network. Every connection uses `addresses`."""

    def __init__(self, policy: EgressPolicy, network: Network | None = None) -> None:
        self.policy = policy
        self.network = network or SystemNetwork()

    def check_url(self, url: str) -> Target:
        """See `EgressPolicy.check_url`."""
        return self.policy.check_url(url)

    async def addresses(self, target: Target) -> Sequence[IPAddress]:
        """Return the addresses to connect to. EgressRefusedError if one of them is not allowed: a name with a
        public and a private address is an attempt to bypass the guard.
        """
        written = literal(target.host)
        found = [written] if written is not None else await self._look_up(target)
        for address in found:
            self.policy.check_address(target, address)
        return found

    async def _look_up(self, target: Target) -> Sequence[IPAddress]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await self.network.resolve(target.host, target.port)
        except TimeoutError:
            raise EgressUnreachableError(f"{target.host} could not be looked up in time") from None
        except (OSError, UnicodeError):
            raise EgressUnreachableError(f"there is no host {target.host}") from None
        if not found:
            raise EgressUnreachableError(f"there is no host {target.host}")
        return found[:MAX_ADDRESSES]
