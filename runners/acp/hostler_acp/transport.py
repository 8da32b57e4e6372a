"""The messages of an agent: JSON lines within bounds, for the connection of the protocol's SDK."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import (
    MAX_EXCERPT_CHARS,
    MAX_FOREIGN_LINES,
    MAX_LINE_BYTES,
    MAX_OPEN_REQUESTS,
    MAX_OUTPUT_BYTES,
    MAX_UPDATES,
    MIB,
)
from hostler_acp.notes import Notes
from hostler_acp.process import AgentProcess

Message = dict[str, Any]
OnUpdate = Callable[[Any], Awaitable[None]]
UPDATE = "session/update"


class AgentTransport:
    """Carries the messages of one agent, as `acp` wants its transports.

    Updates of the session do not reach the connection: they go to `on_update` one after the other, before
    the next line is read. So they are in order with the answer to the prompt, and an agent that is faster
    than the host waits. Without `on_update` they are dropped, like those that repeat a loaded session.

    What ends the run is kept in `failure`, and the connection is closed.
    """

    def __init__(self, process: AgentProcess, notes: Notes) -> None:
        self._process = process
        self._notes = notes
        self._bytes = 0
        self._updates = 0
        self._foreign = 0
        self._open: set[str] = set()
        self.on_update: OnUpdate | None = None
        self.failure: BaseException | None = None
        self.is_over = False
        """Whether no message will come any more."""

    async def send(self, message: Message) -> None:
        """Write a message. Raises ConnectionError if the agent does not read any more."""
        if "method" not in message:
            self._open.discard(repr(message.get("id")))
        try:
            self._process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._process.stdin.drain()
        except (OSError, RuntimeError) as error:  # RuntimeError: the pipe is closed
            raise ConnectionError(f"the agent does not read: {error}") from error

    async def receive(self) -> Message | None:
        """Return the next request or answer of the agent; None: there is no further one."""
        try:
            while (message := await self._next()) is not None:
                if message.get("method") != UPDATE:
                    return message
                await self._update(message.get("params"))
        except Exception as error:  # noqa: BLE001 - the run's task raises it
            self.failure = error
        self.is_over = True
        return None

    async def close(self) -> None:
        """Do nothing: the process is ended by its owner."""

    async def _update(self, params: Any) -> None:
        self._updates += 1
        if self._updates > MAX_UPDATES:
            raise AcpFailure("too_much_output", f"the agent sent over {MAX_UPDATES:,} updates in one run")
        if self.on_update is not None:
            await self.on_update(params)

    async def _next(self) -> Message | None:
        """Return the next message that is of use."""
        while line := await self._line():
            if not line.strip():
                continue
            message = _decoded(line)
            if message is None:
                self._skip(line)
            elif "id" in message and "method" in message:
                return self._request(message)
            elif "id" in message or message.get("method") == UPDATE:
                return message
            else:
                self._notes.write(f"unknown notification of the agent: {message['method']!r:.100}")
        return None

    async def _line(self) -> bytes:
        try:
            line = await self._process.stdout.readline()
        except ValueError:  # of the reader: it found no end within its limit
            raise AcpFailure(
                "too_much_output", f"a message of the agent has over {MAX_LINE_BYTES // MIB} MiB, the maximum"
            ) from None
        self._bytes += len(line)
        if self._bytes > MAX_OUTPUT_BYTES:
            raise AcpFailure(
                "too_much_output",
                f"the agent sent over {MAX_OUTPUT_BYTES // MIB} MiB in one run",
            )
        return line

    def _request(self, message: Message) -> Message:
        self._open.add(repr(message["id"]))
        if len(self._open) > MAX_OPEN_REQUESTS:
            raise AcpFailure(
                "too_much_output", f"over {MAX_OPEN_REQUESTS} requests of the agent wait for an answer"
            )
        return message

    def _skip(self, line: bytes) -> None:
        shown = line[:MAX_EXCERPT_CHARS].decode(errors="replace").strip()
        self._foreign += 1
        if self._foreign > MAX_FOREIGN_LINES:
            raise AcpFailure(
                "not_acp",
                f"over {MAX_FOREIGN_LINES} lines that the agent printed are no messages of the Agent Client "
                f"Protocol, at last: {shown}. Check config `command`: many agents need a flag such as --acp",
            )
        self._notes.write(f"a line of the agent is no message: {shown}", "warning")


def _decoded(line: bytes) -> Message | None:
    """Return a message that has a method or an id; None for anything else."""
    try:
        message = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    method, id_ = message.get("method"), message.get("id")
    is_id = isinstance(id_, str | int) and not isinstance(id_, bool)
    if ("method" in message and not isinstance(method, str)) or ("id" in message and not is_id):
        return None
    return message if "method" in message or "id" in message else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
