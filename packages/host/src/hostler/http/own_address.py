"""The address of this host, as a client may reach it."""

from __future__ import annotations

import re

from hostler.http.asgi import Scope

_HOST = re.compile(r"[A-Za-z0-9.\[\]:_-]{1,255}")


def own_address(public_url: str | None, scope: Scope) -> str:
    """Return the configured address, else the one that a request was sent to; "" if that is malformed."""
    if public_url is not None:
        return public_url.rstrip("/")
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return f"{scope['scheme']}://{found[0]}" if len(found) == 1 and _HOST.fullmatch(found[0]) else ""
