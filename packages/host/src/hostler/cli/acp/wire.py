"""Standard input and output as the transport of the protocol: one JSON-RPC message per line, within bounds.

The SDK's connection gets nothing but well-formed messages; everything else is answered or dropped here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from typing import Any

import msgspec

from hostler.cli.acp.limits import MAX_LINE_BYTES, MAX_OPEN_REQUESTS, MIB
from hostler_protocol.errors import InvalidArgumentError
from hostler_sdk.stdio import Wires

Message = dict[str, Any]
PARSE_ERROR, INVALID_REQUEST, OVERLOADED = -32700, -32600, -32001
CANCEL_REQUEST, CANCEL, PROMPT = "$/cancel_request", "session/cancel", "session/prompt"
log = logging.getLogger(__name__)


def check_pipes() -> None:
    """Raise InvalidArgumentError unless standard input and output can carry the protocol."""
    for number, name in ((0, "input"), (1, "output")):
        try:
            mode = os.fstat(number).st_mode
        except OSError as error:
            raise InvalidArgumentError(f"standard {name} is closed: an editor starts this command") from error
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)):
            raise InvalidArgumentError(
                f"standard {name} is a file: an editor starts this command with pipes; to talk to an agent "
                "from a shell, use `hostler run` or `hostler chat`"
            )


class EditorTransport:
    """Carries the messages of one editor, as `acp` wants its transports.

    `send` waits while the editor does not read, so that whoever reads results waits, too.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._open: dict[int | str, Any] = {}
        """The requests that are being answered -> the session of a prompt, None for any other."""
        self._asking: dict[asyncio.Task[Any], int | str] = {}
        self._after: dict[asyncio.Task[Any], Callable[[], object]] = {}
        self._lock = asyncio.Lock()
        self._is_gone = False

    async def send(self, message: Message) -> None:
        """Write a message. Once the editor is gone, it is dropped."""
        task = asyncio.current_task()
        assert task is not None
        if "method" not in message:
            self._open.pop(message["id"], None)
            after = self._after.pop(task, None)
            await self._write(message)
            if after is not None and "error" not in message:
                after()
            return
        if "id" in message:
            self._asking[task] = message["id"]
            task.add_done_callback(self._forget)
        await self._write(message)

    def after_answer(self, then: Callable[[], object]) -> None:
        """Call `then` once the answer to this task's request was written, unless it is an error.

        An editor knows a session only after it has the answer that names it.
        """
        task = asyncio.current_task()
        assert task is not None
        self._after[task] = then

    async def receive(self) -> Message | None:
        """Return the next message of the editor; None: it has closed its side."""
        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            message: Any = _decoded(line)
            if message is None:
                await self._refuse(None, PARSE_ERROR, "the line is not one JSON value in UTF-8")
                continue
            fault = fault_of(message)
            if fault is not None:
                if isinstance(message, dict) and "method" not in message and "id" in message:
                    log.info("an answer of the editor is not one: %s", fault)
                else:
                    await self._refuse(_id_of(message), INVALID_REQUEST, fault)
                continue
            if "method" in message and "id" in message and not await self._admit(message):
                continue
            return self._as_cancel(message) if message.get("method") == CANCEL_REQUEST else message
        self._is_gone = True
        return None

    async def close(self) -> None:
        """Close both sides."""
        self._writer.close()

    async def withdraw(self, task: asyncio.Task[Any]) -> None:
        """Tell the editor that the request which a task made needs no answer any more."""
        request_id = self._asking.pop(task, None)
        if request_id is not None:
            params = {"requestId": request_id}
            await self._write({"jsonrpc": "2.0", "method": CANCEL_REQUEST, "params": params})

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._asking.pop(task, None)

    def _as_cancel(self, message: Message) -> Message:
        """Return the withdrawal of a prompt as the notification that cancels it; others are as they are."""
        params = message.get("params") or {}
        asked = params.get("requestId")
        session = self._open.get(asked) if isinstance(asked, int | str) else None
        if not isinstance(session, str):
            return message
        return {"jsonrpc": "2.0", "method": CANCEL, "params": {"sessionId": session}}

    async def _admit(self, message: Message) -> bool:
        request_id = message["id"]
        if request_id in self._open:
            await self._refuse(request_id, INVALID_REQUEST, "a request with this id is still open")
            return False
        if len(self._open) >= MAX_OPEN_REQUESTS:
            await self._refuse(
                request_id, OVERLOADED, f"over {MAX_OPEN_REQUESTS} requests are open: wait for their answers"
            )
            return False
        params = message.get("params") or {}
        self._open[request_id] = params.get("sessionId") if message["method"] == PROMPT else None
        return True

    async def _refuse(self, request_id: int | str | None, code: int, text: str) -> None:
        error = {"code": code, "message": text}
        await self._write({"jsonrpc": "2.0", "id": request_id, "error": error})

    async def _write(self, message: Message) -> None:
        line = encoded(message)
        async with self._lock:  # drain is not for several at once
            if self._is_gone:
                return
            try:
                self._writer.write(line)
                await self._writer.drain()
            except (OSError, RuntimeError) as error:
                log.info("the editor does not read: %s", error)
                self._is_gone = True
                self._reader.feed_eof()  # it is over for both directions

    async def _line(self) -> bytes | None:
        """Return the next line; None at the end. A line that is too long is refused and passed over."""
        too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                too_long = True
                await self._reader.readexactly(error.consumed)
                continue
            except asyncio.IncompleteReadError as error:
                return error.partial if error.partial and not too_long else None
            except OSError:
                return None
            if not too_long:
                return line
            too_long = False
            await self._refuse(
                None, INVALID_REQUEST, f"a message has over {MAX_LINE_BYTES // MIB} MiB, the most"
            )


def encoded(message: Message) -> bytes:
    """Return a message as a line. Halves of surrogate pairs, which UTF-8 cannot hold, are replaced."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(message)) + b"\n"


def _clean(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_clean(name): _clean(member) for name, member in value.items()}
        case list() | tuple():
            return [_clean(member) for member in value]
        case _:
            return value


def fault_of(message: Any) -> str | None:
    """Return why a JSON value is not a message of JSON-RPC 2.0, or None if it is one."""
    if not isinstance(message, dict):
        return "a message is a JSON object; batches are not part of the protocol"
    is_answer = "method" not in message
    checks = {
        'jsonrpc: expected "2.0"': message.get("jsonrpc") == "2.0",
        "id: expected a string or a whole number": "id" not in message or _is_id(message["id"]),
        "neither method nor id": not is_answer or "id" in message,
        "method: expected a string": is_answer or isinstance(message["method"], str),
        "params: expected an object": is_answer or isinstance(message.get("params"), dict | None),
        "an answer has either result or error": not is_answer
        or ("result" in message) != ("error" in message),
        "error: expected an object": isinstance(message.get("error", {}), dict),
    }
    return next((fault for fault, holds in checks.items() if not holds), None)


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _id_of(message: Any) -> int | str | None:
    found = message.get("id") if isinstance(message, dict) else None
    return found if found is not None and _is_id(found) else None


def _decoded(line: bytes) -> Any:
    """Return the JSON value of a line, None if it is none (or `null`, which is no message either)."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def open_streams(wires: Wires) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return asyncio streams over the file descriptors of an editor."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(wires.read, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(wires.write, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    return reader, writer
