"""Pages that may call `/mcp`: a page of another site may not, and none that a false name led here."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from hostler.http.request import ApiRequest
from hostler_protocol.errors import UnauthorizedError


async def check_origin(request: ApiRequest) -> None:
    """Raise UnauthorizedError for a browser page that is neither allowed by CORS nor of this host.

    A name may have been pointed at this machine for the purpose (DNS rebinding): so a page is of this host if
    that is its configured address, or if it is called by an address or `localhost`.
    """
    origin = request.headers.get("origin")
    if origin is None or await request.state.cors.allowed(origin, request.address) is not None:
        return
    public = request.state.host.settings.public_url
    if public is not None and urlsplit(public).netloc.lower() == urlsplit(origin).netloc.lower():
        return
    if not _is_own(origin, request.headers):
        raise UnauthorizedError("pages of other origins may not call this")


def _is_own(origin: str, headers: Mapping[str, str]) -> bool:
    try:
        parts = urlsplit(origin)
        name = parts.hostname or ""
    except ValueError:
        return False
    if parts.netloc.lower() != headers.get("host", "").lower():
        return False
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
