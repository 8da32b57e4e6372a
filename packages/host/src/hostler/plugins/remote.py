"""The transport of a remote plugin process: one message per WebSocket frame."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from hostler.plugins.stdio import LOW_MARK_BYTES
from hostler.plugins.transport import Receiver
from hostler_protocol.errors import PluginCrashedError

_log = logging.getLogger(__name__)


class Channel(Protocol):
    """An accepted WebSocket of any server."""

    async def receive(self) -> str | bytes | None:
        """Return the next frame, or None once the connection is closed."""

    async def send(self, data: str) -> None:
        """Send one frame; return when the next may follow. Raises ConnectionError once it is closed."""

    async def close(self, code: int, reason: str) -> None:
        """Close the connection if it is open."""


class RemoteTransport:
    """Carries messages over a `Channel` within `running`."""

    def __init__(self, channel: Channel, receiver: Receiver) -> None:
        self._channel = channel
        self._receiver = receiver
        self._queue: deque[bytes] = deque()
        self._unsent = 0
        self._wake = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._ending = asyncio.Event()
        self._closing = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read and write in the background; close the channel at the end of the block."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._read()), loop.create_task(self._write())]
        watcher = loop.create_task(self._end(tasks))
        try:
            yield
        finally:
            self._ending.set()
            await asyncio.wait([watcher])

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        ending = asyncio.get_running_loop().create_task(self._ending.wait())
        await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        for task in (*tasks, ending):
            task.cancel()
        await asyncio.wait([*tasks, ending])
        failed = [error for t in tasks if not t.cancelled() and (error := t.exception()) is not None]
        why = f": {failed[0]}" if failed else ""
        for error in failed:
            if not isinstance(error, ConnectionError):
                _log.error("the connection of a remote plugin failed", exc_info=error)
        self._receiver.lost(PluginCrashedError(f"the connection of the remote plugin was closed{why}"))
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(5):
                await self._channel.close(1000, "done")

    async def _read(self) -> None:
        while True:
            await self._may_read.wait()
            frame = await self._channel.receive()
            if frame is None:
                return
            self._receiver.frame_received(frame)

    async def _write(self) -> None:
        while True:
            while self._queue:
                message = self._queue.popleft()
                await self._channel.send(message.decode())
                self._unsent -= len(message)
                if self._unsent < LOW_MARK_BYTES:
                    self._receiver.sent_some()
            if self._closing:
                return
            self._wake.clear()
            await self._wake.wait()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait to be sent."""
        return self._unsent

    def send(self, messages: Sequence[bytes]) -> None:
        """Queue messages; the connection bounds their size."""
        for message in messages:
            self._queue.append(message)
            self._unsent += len(message)
        self._wake.set()

    def pause_reading(self) -> None:
        """Stop receiving frames."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Continue receiving frames."""
        self._may_read.set()

    def close_sending(self) -> None:
        """Send what is queued, then close."""
        self._closing = True
        self._wake.set()

    def abort(self) -> None:
        """Close at once."""
        self._ending.set()
