"""A transport for the SDK over a server process: newline-delimited messages of bounded length."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from hostler.tools.mcp.port import ServerPipes
from hostler.tools.mcp.transport_errors import TOO_LARGE_CODE, too_large

Incoming = SessionMessage | Exception
HEAD_BYTES = 512
"""Beginning of an unreadable message in which its id is searched."""
_ID = re.compile(rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,128})")')


class LineReader:
    """Split bytes into messages. A line over `max_bytes` is dropped, and its request gets an error."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Incoming]:
        """Add bytes; return the messages that are complete."""
        found: list[Incoming] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._take(end, found)
            if not self._skipping and self._line.strip():
                found.append(_message(bytes(self._line)))
            self._line.clear()
            self._skipping = False
        self._take(rest, found)
        return found

    def _take(self, part: bytes, found: list[Incoming]) -> None:
        if self._skipping:
            return
        self._line += part
        if len(self._line) > self._max_bytes:
            self._skipping = True
            found.append(_too_large_error(bytes(self._line[:HEAD_BYTES]), self._max_bytes))
            self._line.clear()


def _message(line: bytes) -> Incoming:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        text = f"a line that is no message: {error.errors()[0]['msg']}"
        head = line[:HEAD_BYTES]
        is_answer = b'"jsonrpc"' in head and (b'"result"' in head or b'"error"' in head)
        return _error_response(head, types.PARSE_ERROR, text) if is_answer else ValueError(text)


def _too_large_error(head: bytes, max_bytes: int) -> Incoming:
    return _error_response(head, TOO_LARGE_CODE, too_large(max_bytes))


def _error_response(head: bytes, code: int, text: str) -> Incoming:
    """Return an error for the request whose response cannot be read; it would wait until its timeout."""
    match = _ID.search(head)
    if match is None:
        return ValueError(text)
    id_: int | str = int(match[1]) if match[1] else match[2].decode("utf-8", "replace")
    error = types.ErrorData(code=code, message=text)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))


@asynccontextmanager
async def over_pipes(
    pipes: ServerPipes, *, max_bytes: int, close_seconds: float
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]]:
    """Yield the streams to a process; on exit the process and its children are ended."""
    to_session, from_server = anyio.create_memory_object_stream[Incoming](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        lines = LineReader(max_bytes)
        async with to_session:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                while data := await pipes.read():
                    for message in lines.feed(data):
                        await to_session.send(message)

    async def write() -> None:
        async with from_session:
            with suppress(OSError):
                async for message in from_session:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await pipes.write(text.encode() + b"\n")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await pipes.close(close_seconds)
                from_server.close()
                to_server.close()
