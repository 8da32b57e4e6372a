"""Limits of outbound requests. Each has a test that reaches it."""

from __future__ import annotations

from hostler.domain.record import Record

MAX_URL_CHARS = 8_192
"""The longest URL that common servers accept."""
MAX_ADDRESSES = 16
"""Addresses used of one name. Further ones are dropped; those that are used are all checked."""
RESOLVE_SECONDS = 10.0
"""The most that resolving a name may take."""
CONNECT_SECONDS = 10.0
"""The most that connecting may take, with TLS."""
MAX_RULES = 256
"""The most entries in one list of a policy."""
MAX_CONNECTIONS = 32
"""The most open connections of one user of this package."""
MAX_KEPT_CONNECTIONS = 8
KEPT_SECONDS = 15.0
"""How long an idle connection is kept. Its address was checked when it was opened."""
READ_BYTES = 64 * 1024
"""The largest piece of a body."""
MAX_PIECES_WITHOUT_OUTPUT = 4_096
"""The most successive pieces of a compressed body that decompress to nothing."""


class ExchangeLimits(Record):
    """Limits of one request with all its redirects."""

    seconds: float = 30.0
    """From resolving the name to the last byte."""
    max_bytes: int = 5 * 1024 * 1024
    """The most bytes of the decompressed body; the rest is not read."""
    max_redirects: int = 5
