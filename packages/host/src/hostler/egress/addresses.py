"""Kinds of internet addresses that are not public, from the registries and not from the Python version.

Sources: the IANA special-purpose address registries for IPv4 and IPv6, and RFC 6052, 3056, 4380, 4291 for
IPv6 addresses with an IPv4 address inside. Those are always refused; an operator who needs them (in a network
with NAT64) lists them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_KINDS: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "shared by carriers"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "metadata"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "for documentation"),
    ("192.31.196.0/24", "reserved"),
    ("192.52.193.0/24", "reserved"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "reserved"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated"),
    ("::/96", "IPv4-compatible"),
    ("64:ff9b::/96", "NAT64"),
    ("64:ff9b:1::/48", "NAT64"),
    ("100::/64", "discarded"),
    ("2001::/32", "Teredo"),
    ("2001:2::/48", "for benchmarks"),
    ("2001:db8::/32", "for documentation"),
    ("2001:10::/28", "reserved"),
    ("2001:20::/28", "reserved"),
    ("2001::/23", "reserved"),
    ("2002::/16", "6to4"),
    ("3fff::/20", "for documentation"),
    ("5f00::/16", "reserved"),
    ("fc00::/7", "private"),
    ("fe80::/10", "link-local"),
    ("fec0::/10", "site-local"),
    ("ff00::/8", "multicast"),
)
_SPECIAL: tuple[tuple[IPNetwork, str], ...] = tuple((ip_network(text), kind) for text, kind in _KINDS)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The assigned part of IPv6."""
ALLOWED_BY_NAME = frozenset({"private", "loopback", "shared by carriers"})
"""The kinds of addresses that a listed host name may have. Others must be listed by address: a listed name
must not lead to a cloud's metadata service, which is link-local.
"""


def kind_of(address: IPAddress) -> str | None:
    """Return the kind of an address that is not public, in one to three words; None if it is public."""
    for network, kind in _SPECIAL:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "reserved"
    return None


def literal(host: str) -> IPAddress | None:
    """Return the address that a host is, in its standard form; None if the host is a name."""
    if "%" in host:
        return None  # a scope names an interface of this machine
    try:
        return ip_address(host)
    except ValueError:
        return None
