"""HTTP transport for the SDK on guarded connections, with bounded responses and precise errors.

A network error, or a response that is not MCP, is returned to the SDK as the error of that one request:
raised, it would end the whole connection and leave the outcome of all its calls unknown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx2

from hostler.egress import Guard, GuardedTransport
from hostler.tools.mcp.limits import MAX_REASON_CHARS
from hostler.tools.mcp.transport_errors import OWN_CODE, Kind, own_data, too_large

ERROR_BODY_BYTES = 64 * 1024
"""Bytes read of a response with an error status."""
_SESSION = "mcp-session-id"
_JSON = "application/json"
_EVENTS = "text/event-stream"
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class BrokenAnswerError(httpx2.StreamError):
    """A response that ended too early or is over its limit."""


class McpTransport(httpx2.AsyncBaseTransport):
    """Sends requests that `guard` permits. Event streams may exceed `max_bytes`; cookies are not kept."""

    def __init__(self, guard: Guard, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._inner = GuardedTransport(guard, library="httpx2")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, or a JSON-RPC error in its place."""
        try:
            found: httpx2.Response = await self._inner.handle_async_request(request)
        except _NOT_SENT as error:
            return _own("refused", f"it cannot be reached: {_said(error)}")
        except httpx2.TransportError as error:
            return _own("lost", f"it did not answer: {_said(error)}")
        wrong = await self._wrong(request, found)
        if wrong is not None:
            await found.stream.aclose()  # type: ignore[union-attr]
            return wrong
        limit = None if _is(found, _EVENTS) else self._max_bytes
        return httpx2.Response(
            found.status_code,
            headers=[(name, value) for name, value in found.headers.multi_items() if name != "set-cookie"],
            stream=_Body(found.stream, limit),
            extensions=found.extensions,
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    async def _wrong(self, request: httpx2.Request, found: httpx2.Response) -> httpx2.Response | None:
        """Return a replacement for a response that the SDK would misread or hide, else None."""
        status = found.status_code
        if found.headers.get("content-encoding", "identity").lower() != "identity":
            return _own("lost", "it answered compressed, which was not asked for")
        if status == HTTPStatus.NOT_FOUND and _SESSION in request.headers:
            return _own("gone", "it has forgotten the session")
        if status < HTTPStatus.BAD_REQUEST or status == HTTPStatus.NOT_FOUND or request.method != "POST":
            return None
        if _is(found, _JSON) and (body := await _error_body(found.stream)) is not None:
            return httpx2.Response(status, headers={"content-type": _JSON}, content=body)
        kind: Kind = "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "lost"
        return _own(kind, f"it answered {_status(status)}")


class _Body(httpx2.AsyncByteStream):
    """The body of a response, up to `limit` bytes; None: unlimited."""

    def __init__(self, stream: Any, limit: int | None) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for part in self._stream:
                size += len(part)
                if self._limit is not None and size > self._limit:
                    raise BrokenAnswerError(too_large(self._limit))
                yield part
        except httpx2.TransportError as error:
            raise BrokenAnswerError(f"the answer broke off: {_said(error)}") from error

    async def aclose(self) -> None:
        """Release the connection."""
        await self._stream.aclose()


async def _error_body(stream: Any) -> bytes | None:
    """Return the body if it is a JSON-RPC error, else None."""
    body = b""
    try:
        async for part in stream:
            body += part
            if len(body) > ERROR_BODY_BYTES:
                return None
        parsed = json.loads(body)
    except (ValueError, RecursionError, httpx2.TransportError):
        return None
    return body if isinstance(parsed, dict) and "jsonrpc" in parsed and "error" in parsed else None


def _own(kind: Kind, text: str) -> httpx2.Response:
    error = {"code": OWN_CODE, "message": text[:MAX_REASON_CHARS], "data": own_data(kind)}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    return httpx2.Response(HTTPStatus.BAD_GATEWAY, headers={"content-type": _JSON}, content=body)


def _is(found: httpx2.Response, kind: str) -> bool:
    return found.headers.get("content-type", "").partition(";")[0].strip().lower() == kind


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _said(error: Exception) -> str:
    return str(error)[:MAX_REASON_CHARS] or type(error).__name__
