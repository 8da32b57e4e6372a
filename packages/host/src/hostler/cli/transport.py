"""Connections of a command to a server: send a request, read the answer whole or line by line.

An HTTP library with TLS and proxies takes longer to import than most commands run. So there are three
transports: plain HTTP (`cli/http_transport.py`), TLS and proxies (`cli/tls_transport.py`), and a host in this
process (`cli/in_process.py`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from urllib.parse import urlsplit

from hostler.domain.record import Record

PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PIECE_BYTES = 64 * 1024
"""The most of a body that is sent between two reports of how far it has come."""


class NotConnectedError(Exception):
    """The server cannot be connected to."""


class BrokenError(Exception):
    """The connection broke, or the answer is not HTTP; the message says which."""


def ignore_sent(sent: int) -> None:
    """Do nothing: nobody looks at how far a body has come."""


class HttpRequest(Record):
    """A request. `target` is the path with its query. `seconds` limits the whole answer; for a stream, the
    time to its head and each silence. `on_sent` is called with the bytes of the body sent so far."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    seconds: float
    on_sent: Callable[[int], None] = ignore_sent


class HttpReply(Record):
    """A whole answer."""

    status: int
    reason: str
    body: bytes


class Streamed(Record):
    """An answer whose lines, without line ends, are read as they arrive."""

    status: int
    reason: str
    lines: AsyncIterator[bytes]


class ServerTransport(Protocol):
    """A connection to a server. Its methods raise NotConnectedError and BrokenError."""

    async def send(self, request: HttpRequest) -> HttpReply:
        """Return the whole answer."""

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[Streamed]:
        """Return the answer line by line."""

    async def close(self) -> None:
        """Close all connections."""


def needs_library(url: str) -> bool:
    """Return whether the address needs TLS or a proxy."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return True
    return parts.hostname not in LOOPBACK and any(os.environ.get(name) for name in PROXY_VARIABLES)
