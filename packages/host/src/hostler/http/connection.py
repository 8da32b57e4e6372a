"""uvicorn's HTTP/1.1 connection with limits against hostile clients.

h11 limits the size of headers. This adds a limit on the time they take, one on the number of connections, and
problem documents for input that is not HTTP.
"""

from __future__ import annotations

import asyncio
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hostler.http.descriptors import connections_within
from hostler.http.limits import HEADER_SECONDS, MAX_CONNECTIONS, MAX_CORKED_BYTES, MAX_HEADER_BYTES
from hostler.http.problems import PROBLEM_TYPE, RequestTimeoutError, encode_problem, problem_of, status_of
from hostler_protocol.errors import HostlerError, InvalidArgumentError, UnavailableError

_LENGTHS = (b"content-length", b"transfer-encoding")


def raw_problem(error: HostlerError, reason: str) -> bytes:
    """Return a complete response, for connections that never become a request."""
    body = encode_problem(problem_of(error))
    return (
        f"HTTP/1.1 {status_of(error)} {reason}\r\ncontent-type: {PROBLEM_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    ).encode("ascii") + body


class BufferedTransport:
    """A transport that joins all writes of one turn of the event loop.

    uvicorn writes head and body of a response separately, each of which would be a system call and a packet.
    """

    __slots__ = ("_buffer", "_loop", "_size", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._buffer: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write at the end of this turn; over MAX_CORKED_BYTES write now, so that flow control applies."""
        if not data:
            return
        if not self._buffer:
            self._loop.call_soon(self._flush)
        self._buffer.append(data)
        self._size += len(data)
        if self._size > MAX_CORKED_BYTES:
            self._flush()

    def write_now(self, data: bytes) -> None:
        """Write now, after everything buffered so far."""
        if self._buffer:
            self._flush()
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Close after writing everything buffered."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping everything buffered."""
        self._buffer, self._size = [], 0
        self._transport.abort()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand the connection to another protocol, after writing everything buffered."""
        self._flush()
        self._transport.set_protocol(protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        if self._buffer:
            chunks, self._buffer, self._size = self._buffer, [], 0
            if not self._transport.is_closing():
                self._transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))


class StrictRequests(h11.Connection):
    """h11's parser, which also refuses a request whose body has two lengths.

    h11 goes by Transfer-Encoding. A proxy in front that goes by Content-Length would take what follows for
    another request, or the other way round (RFC 9112, 6.1): one person's request could hide another's.
    """

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event. RemoteProtocolError if a request has both headers."""
        event = super().next_event()
        if type(event) is h11.Request:
            lengths = {name for name, _ in event.headers if name in _LENGTHS}
            if len(lengths) > 1:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding in one request")
        return event


class BoundedConnection(H11Protocol):
    """One connection of a client."""

    header_seconds = HEADER_SECONDS
    max_connections = MAX_CONNECTIONS
    _headers_due: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = StrictRequests(h11.SERVER, MAX_HEADER_BYTES)
        self.app_state = {**self.app_state, "connection": self}
        """The `state` of each request's ASGI scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the headers; refuse the connection if there are too many."""
        self._corked = BufferedTransport(transport, self.loop)
        super().connection_made(cast("asyncio.Transport", self._corked))
        most = min(self.max_connections, connections_within(getrlimit(RLIMIT_NOFILE)[0]))
        if len(self.connections) > most:
            error = UnavailableError(f"more than {most:,} connections are open")
            self._end(raw_problem(error, "Service Unavailable"))
            return
        self._await_headers()

    def write_chunk(self, chunk: bytes) -> bool:
        """Write one framed chunk. Return False if `drained` has to be awaited before the next."""
        self._corked.write_now(chunk)
        return not self.flow.write_paused

    async def drained(self) -> None:
        """Wait until the write buffer has room."""
        await self.flow.drain()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request. The first one after a request starts the timer for the next headers."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._headers_came()
        elif self._headers_due is None and not self.transport.is_closing():
            self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._headers_came()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP with a problem document."""
        error = InvalidArgumentError(f"this is not an HTTP/1.1 request, or its headers are too large: {msg}")
        self._end(raw_problem(error, "Bad Request"))

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(self.header_seconds, self._headers_late)

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _headers_late(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            error = RequestTimeoutError(f"no complete request within {self.header_seconds:g} seconds")
            self._end(raw_problem(error, "Request Timeout"))

    def _end(self, answer: bytes) -> None:
        self._headers_came()
        self.transport.write(answer)
        self.transport.close()


def bounded_socket(*args: Any, **kwargs: Any) -> asyncio.Protocol:
    """Create a WebSocket connection. Its modules are imported for the first one."""
    from hostler.http.web_socket import BoundedSocket  # noqa: PLC0415

    return BoundedSocket(*args, **kwargs)
