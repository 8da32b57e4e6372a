"""Bounds of outbound requests; each has a test that reaches it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_URL_CHARS = 8_192
"""What common servers take."""
MAX_ADDRESSES = 16
"""Addresses of one name that are looked at; an answer with more is cut, and all that is used is checked."""
RESOLVE_SECONDS = 10.0
"""One look-up of a name."""
CONNECT_SECONDS = 10.0
"""One connection, with TLS."""
MAX_RULES = 256
"""Entries of one list of a policy."""
MAX_CONNECTIONS = 32
"""Open connections of one user of this package."""
MAX_KEPT_CONNECTIONS = 8
KEPT_SECONDS = 15.0
"""How long an idle connection is kept. Its address was checked when it was made."""
READ_BYTES = 64 * 1024
"""One piece of a body."""
MAX_PIECES_WITHOUT_OUTPUT = 4_096
"""Pieces of a compressed body in a row that give no byte."""


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Bounds of one request with all its redirects."""

    seconds: float = 30.0
    """From the first look-up to the last byte."""
    max_bytes: int = 5 * 1024 * 1024
    """Of the body, decompressed. What is over it is not read."""
    max_redirects: int = 5
