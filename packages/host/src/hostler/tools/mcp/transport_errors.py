"""JSON-RPC errors that the host's transports create, and what each means for the call."""

from __future__ import annotations

import secrets
from typing import Literal

TOO_LARGE_CODE = -32050
"""A response arrived but was too large to be read: the tool has done its work."""
OWN_CODE = -32051
"""An error of one of the kinds below; valid only with the mark of this process, which no server knows."""
Kind = Literal["refused", "lost", "gone"]
"""`refused`: the request was not made. `lost`: it may have been made. `gone`: the server has forgotten the
session, and the request was not made.
"""
_MARK = secrets.token_hex(16)


def own_data(kind: Kind) -> str:
    """Return the `data` of such an error."""
    return f"{_MARK}:{kind}"


def own_kind(code: int, data: object) -> Kind | None:
    """Return the kind of such an error; None: an error by the server."""
    if code != OWN_CODE or not isinstance(data, str):
        return None
    mark, _, kind = data.partition(":")
    if not secrets.compare_digest(mark.encode(), _MARK.encode()):
        return None
    kinds: dict[str, Kind] = {"refused": "refused", "lost": "lost", "gone": "gone"}
    return kinds.get(kind)


def too_large(max_bytes: int) -> str:
    """Return the message for a response over its limit."""
    return f"the answer has over {max_bytes:,} bytes"
