"""Errors that our own transports put into a server's place, and what each says of the call it answers."""

from __future__ import annotations

import secrets
from typing import Literal

TOO_LARGE_CODE = -32050
"""An answer came and was not read: the tool has done its work."""
OWN_CODE = -32051
"""One of the kinds below; it counts only with the mark of this process, which no server knows."""
Kind = Literal["refused", "lost", "gone"]
"""`refused`: nothing was asked. `lost`: the server may have been asked. `gone`: it has forgotten the session,
and was asked nothing.
"""
_MARK = secrets.token_hex(16)


def own_data(kind: Kind) -> str:
    """The `data` of such an error."""
    return f"{_MARK}:{kind}"


def own_kind(code: int, data: object) -> Kind | None:
    """What kind it is; None: it is the server's own error."""
    if code != OWN_CODE or not isinstance(data, str):
        return None
    mark, _, kind = data.partition(":")
    if not secrets.compare_digest(mark.encode(), _MARK.encode()):
        return None
    kinds: dict[str, Kind] = {"refused": "refused", "lost": "lost", "gone": "gone"}
    return kinds.get(kind)


def too_large(max_bytes: int) -> str:
    """How it is told that an answer is over its limit."""
    return f"the answer has over {max_bytes:,} bytes"
