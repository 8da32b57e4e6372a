"""Cross-origin requests: the entry `cors` of a configuration, and origins. Pure.

An origin is what a browser says about the page that makes a request: scheme, host and port. Programs say
none, or any: origins protect the people at browsers, keys protect the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler_protocol._base import Strict

ANY_ORIGIN = "*"
MAX_ORIGINS = 1_000
"""Of one configuration."""
MAX_ORIGIN_CHARS = 300
"""A name has at most 253 characters (RFC 1035), a scheme and a port a few more."""
_ORIGIN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,31})://"
    r"(?P<host>[a-z0-9_](?:[a-z0-9_.-]{0,252})|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[1-9][0-9]{0,4}))?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class CorsEntry(Strict):
    """The pages that may call this host from a browser.

    `origins`: like `https://app.example.com`, or `*` alone for all. `max_age`: seconds for which a browser
    remembers the answer. `private_network`: also pages of a more public network than the host's. Cookies are
    never taken from other origins, so that there is no setting for credentials.
    """

    origins: list[str] = []
    max_age: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 600
    private_network: bool = False


def origin_mistake(text: str) -> str | None:
    """Return what is wrong with an origin, or None. It has to be written as browsers send it."""
    if text == "null":
        return "'null' is what pages without an origin send, any of them: serve the page from an origin"
    found = _ORIGIN.fullmatch(text) if len(text) <= MAX_ORIGIN_CHARS else None
    if found is not None:
        port = found["port"]
        if port is not None and port == _DEFAULT_PORTS.get(found["scheme"]):
            return f"browsers leave out the port of {found['scheme']}: write it without :{port}"
        return None if port is None or int(port) < 65_536 else f"there is no port {port}"
    if ANY_ORIGIN in text:
        return "there are no patterns: list each origin, or '*' alone for all"
    if _ORIGIN.fullmatch(text.lower().rstrip("/")):
        return f"write it as browsers send it: {text.lower().rstrip('/')}"
    return f"{text!r:.100} is no origin: expected scheme://host or scheme://host:port, without a path"


def cors_mistakes(entry: CorsEntry) -> Iterator[Mistake]:
    """Yield the mistakes of an entry."""
    if len(entry.origins) > MAX_ORIGINS:
        yield Mistake("origins", f"there are {len(entry.origins):,}; at most {MAX_ORIGINS:,} are possible")
    if ANY_ORIGIN in entry.origins:
        if len(entry.origins) > 1:
            yield Mistake("origins", "'*' is every origin: leave out the others, or '*'")
        if entry.private_network:
            yield Mistake(
                "private_network",
                "with '*' every page of the internet could call this host: list the origins",
            )
        return
    for number, origin in enumerate(entry.origins[:MAX_ORIGINS]):
        if (wrong := origin_mistake(origin)) is not None:
            yield Mistake(f"origins[{number}]", wrong)
