"""Pages of this host itself: which origins they have, as browsers say it.

A browser that signs in says at which page, in `Origin`, and at which name it reached the host, in `Host`.
Both have to be the same, or another site signs the browser in. And the name has to be one that this host is
known by: a page of any other name could be made to lead here (DNS rebinding), with a cookie of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hostler_protocol.errors import UnauthorizedError

if TYPE_CHECKING:
    from hostler.host.host import Host

_PORTS = {"http": 80, "https": 443}


def own_origin(headers: Mapping[str, str], known: Collection[str]) -> str:
    """Return the origin of the page of this host that sent a request.

    `known`: the names of this host, beside `localhost` and addresses. UnauthorizedError for other pages.
    """
    origin, host = headers.get("origin", "").lower(), headers.get("host", "").lower()
    page, called = _place(origin), _place(f"{origin.partition('://')[0]}://{host}")
    if page is None or page != called:
        raise UnauthorizedError(
            "browsers sign in at a page of this host: the Origin of the request is not the name in its Host"
        )
    if not (_is_local(page[0]) or page[0] in known):
        raise UnauthorizedError(
            f"{page[0]!r:.200} is no name of this host: start it with --public-url {origin[:200]}"
        )
    return origin


def own_names(host: Host) -> set[str]:
    """Return the names by which a host is known, beside `localhost` and addresses."""
    urls = [entry.origin for entry in host.providers.entries]
    if host.settings.public_url is not None:
        urls.append(host.settings.public_url)
    return {name_of(url) for url in urls}


def name_of(url: str) -> str:
    """Return the name in a URL or an origin."""
    return (urlsplit(url).hostname or "").lower()


def _is_local(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _place(origin: str) -> tuple[str, int] | None:
    """Return the name and port of an origin; None for what is none."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or not parts.hostname or parts.username or parts.path or parts.query:
        return None
    return parts.hostname, port or _PORTS[parts.scheme]
