"""The policy of outbound requests: public addresses on usual ports, and what the operator lists. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Self
from urllib.parse import urlsplit

from hostler.domain.record import Record
from hostler.egress.addresses import ALLOWED_BY_NAME, IPAddress, IPNetwork, kind_of, literal
from hostler.egress.errors import EgressRefusedError
from hostler.egress.limits import MAX_RULES, MAX_URL_CHARS
from hostler_protocol.errors import InvalidArgumentError

DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = r"(?!-)[a-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_ENDS_IN_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")
_ALLOWED_CHARS = re.compile(r"[!-~]+")


class Target(Record):
    """Scheme, host and port of a URL. `host` is in lower case, without brackets or a final dot."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if DEFAULT_PORTS[self.scheme] == self.port else f"{host}:{self.port}"


class HostRule(Record):
    """One entry of a list: `host`, `*.domain`, `address` or `network`, each with or without `:port`."""

    port: int | None
    name: str | None = None
    network: IPNetwork | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an entry. InvalidArgumentError with examples if it is malformed."""
        rest, port = _split_port(text.strip().lower())
        try:
            return cls(port, network=ip_network(rest))
        except ValueError:
            pass
        name = rest.removesuffix(".")
        if "/" in rest or not _NAME.fullmatch(name.removeprefix("*.")) or _ENDS_IN_NUMBER.search(name):
            raise InvalidArgumentError(
                f"{text!r} is neither a host nor a network: write example.org, *.example.org, 10.0.0.0/8, "
                "127.0.0.1:8080 or [::1]:8080"
            )
        return cls(port, name=name)

    def names(self, target: Target) -> bool:
        """Return whether the rule lists this host by its name, for this port."""
        if self.name is None or self.port not in (None, target.port):
            return False
        if self.name.startswith("*."):
            return target.host.endswith(self.name[1:])
        return target.host == self.name

    def contains(self, address: IPAddress, port: int) -> bool:
        """Return whether the rule lists this address, for this port."""
        if self.network is None or self.port not in (None, port):
            return False
        return address.version == self.network.version and address in self.network


class EgressPolicy(Record):
    """The addresses that one user of this package may reach.

    `network` allows addresses that are not public or on an unusual port. If `only` is not empty, all other
    addresses are refused. `deny` overrides both.
    """

    network: tuple[HostRule, ...] = ()
    only: tuple[HostRule, ...] = ()
    deny: tuple[HostRule, ...] = ()
    ports: frozenset[int] = frozenset({80, 443})
    any_port: bool = False
    """Allow any port of a public address, for addresses that an operator configured."""

    @classmethod
    def of(
        cls,
        network: Iterable[str] = (),
        *,
        only: Iterable[str] = (),
        deny: Iterable[str] = (),
        any_port: bool = False,
    ) -> Self:
        """Build a policy from configuration entries. InvalidArgumentError names a malformed one."""
        return cls(_rules(network), _rules(only), _rules(deny), any_port=any_port)

    def check_url(self, url: str) -> Target:
        """Check a URL by its text, before any name is resolved, and return its target. EgressRefusedError."""
        target = target_of(url)
        address = literal(target.host)
        if any(_matches(rule, target, address) for rule in self.deny):
            raise EgressRefusedError(f"{target} is denied by the configuration")
        if self.only and not any(_matches(rule, target, address) for rule in self.only):
            raise EgressRefusedError(f"{target} is none of the hosts that the configuration allows")
        listed = any(rule.names(target) for rule in self.network)
        if address is not None:
            self.check_address(target, address)
        elif not (self.any_port or target.port in self.ports or listed or self._may_contain(target.port)):
            raise EgressRefusedError(f"{target}: port {target.port} is not allowed{_LIST_IT}")
        return target

    def check_address(self, target: Target, address: IPAddress) -> None:
        """Check an address to which the target was resolved. EgressRefusedError names its kind."""
        if any(rule.contains(address, target.port) for rule in self.deny):
            raise EgressRefusedError(f"{target} is denied by the configuration")
        if any(rule.contains(address, target.port) for rule in self.network):
            return
        named = any(rule.names(target) for rule in self.network)
        kind = kind_of(address)
        if kind is not None and not (named and kind in ALLOWED_BY_NAME):
            raise EgressRefusedError(f"{target} is at an address that is not public ({kind}){_LIST_IT}")
        if not (named or self.any_port or target.port in self.ports):
            raise EgressRefusedError(f"{target}: port {target.port} is not allowed{_LIST_IT}")

    def _may_contain(self, port: int) -> bool:
        """Return whether a listed network allows this port, so that the resolved address decides."""
        return any(rule.network is not None and rule.port in (None, port) for rule in self.network)


_LIST_IT = "; the operator can list it under `network`"


def target_of(url: str) -> Target:
    """Parse a URL strictly. EgressRefusedError for one that two parsers could read differently."""
    if len(url) > MAX_URL_CHARS:
        raise EgressRefusedError(f"the address is longer than {MAX_URL_CHARS:,} characters")
    if not _ALLOWED_CHARS.fullmatch(url) or "\\" in url:
        raise EgressRefusedError("the address holds spaces, backslashes, or characters that must be escaped")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise EgressRefusedError("the address is not one: its host or port cannot be read") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise EgressRefusedError("the address must begin with https:// or http://")
    if "@" in parts.netloc:
        raise EgressRefusedError("the address holds a user name; leave it out")
    host = (parts.hostname or "").removesuffix(".")
    address = literal(host)
    if ("[" in parts.netloc) != (address is not None and address.version == 6):
        raise EgressRefusedError("the address has something else than an IPv6 address in brackets")
    if address is None and (not _NAME.fullmatch(host) or len(host) > 253):
        raise EgressRefusedError("the address has no host that can be looked up")
    if address is None and _ENDS_IN_NUMBER.search(host):
        raise EgressRefusedError(f"{host!r} is an unusual way to write an address; write it as four numbers")
    if port == 0 or (port is None and parts.netloc.endswith(":")):
        raise EgressRefusedError("the address names no port after its ':'")
    return Target(parts.scheme, str(address or host), port or DEFAULT_PORTS[parts.scheme])


def _rules(entries: Iterable[str]) -> tuple[HostRule, ...]:
    rules: Sequence[HostRule] = [HostRule.parse(entry) for entry in entries]
    if len(rules) > MAX_RULES:
        raise InvalidArgumentError(f"{len(rules)} hosts and networks are listed; at most {MAX_RULES}")
    return tuple(rules)


def _matches(rule: HostRule, target: Target, address: IPAddress | None) -> bool:
    return rule.names(target) or (address is not None and rule.contains(address, target.port))


def _split_port(text: str) -> tuple[str, int | None]:
    """Split `[::1]:80` into ("::1", 80). An IPv6 address or network without brackets has no port."""
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise InvalidArgumentError(f"{text!r} names no port after its ':'")
    if not port:
        return host, None
    if not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 65_536:
        raise InvalidArgumentError(f"{text!r}: {port!r} is no port: 1 to 65535")
    return host, int(port)
