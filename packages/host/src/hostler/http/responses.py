"""What a route can answer with. Each knows how to send itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hostler.http.asgi import Receive, Scope, Send
from hostler_protocol._base import Strict

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

Headers = list[tuple[bytes, bytes]]

COMMON_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
"""On every answer: what is private is not to be kept by anyone in between, nor guessed at by a browser."""

_encoder = msgspec.json.Encoder()


class Answer(Protocol):
    """An answer that can send itself."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it all; the status it had."""


class Listing(Strict, Generic[U]):
    """One page of a list. Hand `next_cursor` back to get the next; it is opaque, and bound to this list."""

    items: list[U]
    next_cursor: str | None = None
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class Json(Generic[T_co]):
    """A value as JSON. `kept`: what a repeated Idempotency-Key is answered instead of `value`."""

    value: T_co
    status: int = 200
    headers: Headers = field(default_factory=list)
    kept: Any = None

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it."""
        body = _encoder.encode(self.value)
        return await send_whole(
            scope,
            send,
            status=self.status,
            media_type=b"application/json",
            body=body,
            headers=self.headers,
        )

    def keep(self) -> bytes:
        """The body that a repetition gets."""
        return _encoder.encode(self.value if self.kept is None else self.kept)


@dataclass(frozen=True, slots=True)
class Whole:
    """A body as it is."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Headers = field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it."""
        return await send_whole(
            scope,
            send,
            status=self.status,
            media_type=self.media_type.encode("ascii"),
            body=self.body,
            headers=self.headers,
        )


@dataclass(frozen=True, slots=True)
class Empty:
    """A status and headers."""

    status: int = 204
    headers: Headers = field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it."""
        await send(
            {"type": "http.response.start", "status": self.status, "headers": COMMON_HEADERS + self.headers}
        )
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return self.status


@dataclass(frozen=True, slots=True)
class Pieces:
    """A body of known size that is sent piece by piece, never held whole."""

    pieces: AsyncIterator[bytes]
    size: int
    status: int = 200
    headers: Headers = field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it. For HEAD nothing is read."""
        headers = [*COMMON_HEADERS, *self.headers, (b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        if scope["method"] != "HEAD":
            async for piece in self.pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return self.status


async def send_whole(
    scope: Scope, send: Send, *, status: int, media_type: bytes, body: bytes, headers: Headers
) -> int:
    """Send a body that is there as a whole; a HEAD gets its headers."""
    head = [
        *COMMON_HEADERS,
        *headers,
        (b"content-type", media_type),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": head})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown, "more_body": False})
    return status
