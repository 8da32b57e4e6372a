"""The responses that a route can return. Each sends itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeGuard, TypeVar

import msgspec

from hostler.domain.record import Record
from hostler.http.asgi import Receive, Scope, Send
from hostler.http.problems import UnauthenticatedError
from hostler_protocol._base import Strict

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

Headers = list[tuple[bytes, bytes]]

COMMON_HEADERS: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
"""On every response: no cache may store private content, no browser may guess its type."""

_encoder = msgspec.json.Encoder()


class ApiResponse(Protocol):
    """A response that sends itself."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the whole response; return its status."""


class Listing(Strict, Generic[U]):
    """One page of a list.

    Pass `next_cursor` back to get the next; it is opaque and valid for this list only.
    """

    items: list[U]
    next_cursor: str | None = None
    has_more: bool = False


def is_body(result: object) -> TypeGuard[msgspec.Struct]:
    """Whether what a route returns is a value to encode as JSON, and not a response itself."""
    return isinstance(result, msgspec.Struct) and not isinstance(result, Record)


class Json(Record, Generic[T_co]):
    """A value as JSON. `kept`: sent instead of `value` when an Idempotency-Key is repeated."""

    value: T_co
    status: int = 200
    headers: Headers = msgspec.field(default_factory=list)
    kept: Any = None

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the response; return its status."""
        body = _encoder.encode(self.value)
        return await send_whole(
            scope, send, status=self.status, media_type=b"application/json", body=body, headers=self.headers
        )

    def keep(self) -> bytes:
        """Return the body to store for a repeated Idempotency-Key."""
        return _encoder.encode(self.value if self.kept is None else self.kept)


class RawBody(Record):
    """A body that is already encoded."""

    body: bytes
    media_type: str
    status: int = 200
    headers: Headers = msgspec.field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the response; return its status."""
        return await send_whole(
            scope,
            send,
            status=self.status,
            media_type=self.media_type.encode("ascii"),
            body=self.body,
            headers=self.headers,
        )


class Empty(Record):
    """A response without a body."""

    status: int = 204
    headers: Headers = msgspec.field(default_factory=list)

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send the response; return its status."""
        await send(
            {"type": "http.response.start", "status": self.status, "headers": COMMON_HEADERS + self.headers}
        )
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return self.status


class StreamedBody(Record):
    """A body of known size, sent in chunks and never held whole in memory."""

    chunks: AsyncIterator[bytes]
    size: int
    status: int = 200
    headers: Headers = msgspec.field(default_factory=list)
    while_valid: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Raises UnauthenticatedError in its block when the reader's key ends: the connection is broken off."""

    async def send(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Send it. For HEAD no chunk is read."""
        headers = [*COMMON_HEADERS, *self.headers, (b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        try:
            async with self.while_valid():
                if scope["method"] != "HEAD":
                    async for chunk in self.chunks:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except UnauthenticatedError:
            connection = scope.get("state", {}).get("connection")
            if connection is None:
                raise
            connection.transport.abort()  # it would first send what its reader has not taken yet
            return self.status
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return self.status


async def send_whole(
    scope: Scope, send: Send, *, status: int, media_type: bytes, body: bytes, headers: Headers
) -> int:
    """Send a complete body, to HEAD its headers alone; return the status."""
    head = [*COMMON_HEADERS, *headers, (b"content-type", media_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown, "more_body": False})
    return status
