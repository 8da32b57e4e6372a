"""The streams of one connection, and the frames that wait to be sent. No IO: both ends use it.

Each stream has a window in each direction: as many bytes may be under way as its receiver has granted. So a
slow receiver of one stream holds up neither the others nor the heartbeats, and what waits in memory is
bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from hostler.domain.worker_limits import CHUNK_BYTES, MAX_QUEUED_BYTES, WINDOW_BYTES
from hostler.plugins.remote_workers.wire import FromHost, FromWorker, Granted, encode, piece
from hostler_protocol.errors import PluginProtocolError


class FrameChannel(Protocol):
    """A WebSocket, of a server or a client."""

    async def receive(self) -> str | bytes | None:
        """Return the next frame, or None once the connection is closed."""

    async def send(self, data: str | bytes) -> None:
        """Send one frame; return when the next may follow. Raises ConnectionError once it is closed."""

    async def close(self, code: int, reason: str) -> None:
        """Close the connection if it is open."""


class FrameQueue:
    """Frames in the order in which they are sent. Pieces of streams are bounded by their windows."""

    def __init__(self) -> None:
        self._frames: deque[tuple[str | bytes, Callable[[], None] | None]] = deque()
        self._control_bytes = 0
        self._wake = asyncio.Event()
        self._closing = False

    def put(self, message: FromHost | FromWorker) -> None:
        """Queue a control message. PluginProtocolError if too many wait: the peer does not read."""
        frame = encode(message)
        self._control_bytes += len(frame)
        if self._control_bytes > MAX_QUEUED_BYTES:
            raise PluginProtocolError(f"{self._control_bytes:,} bytes of control messages wait to be read")
        self._frames.append((frame, None))
        self._wake.set()

    def put_piece(self, stream: int, data: bytes, sent: Callable[[], None]) -> None:
        """Queue a piece of a stream; `sent` is called once it is sent."""
        self._frames.append((piece(stream, data), sent))
        self._wake.set()

    def finish(self) -> None:
        """Let `send_all` return once all that is queued is sent."""
        self._closing = True
        self._wake.set()

    async def send_all(self, channel: FrameChannel) -> None:
        """Send frames until `finish`. ConnectionError once the channel is closed."""
        while True:
            while self._frames:
                frame, sent = self._frames.popleft()
                if sent is None:
                    self._control_bytes -= len(frame)
                await channel.send(frame)
                if sent is not None:
                    sent()
            if self._closing:
                return
            self._wake.clear()
            await self._wake.wait()


class SendHalf:
    """What is sent on one stream. `sent_some` is called whenever some of it is sent."""

    def __init__(self, number: int, frames: FrameQueue, sent_some: Callable[[], None]) -> None:
        self.number = number
        self._frames = frames
        self._sent_some = sent_some
        self._waiting: deque[bytes] = deque()
        self._window = WINDOW_BYTES
        self.unsent = 0
        """Bytes that are not on their way yet."""

    def send(self, messages: Sequence[bytes]) -> None:
        """Send bytes once the window has room; the caller bounds how many wait."""
        for data in messages:
            if data:
                self._waiting.append(data)
                self.unsent += len(data)
        self._fill()

    def granted(self, size: int) -> None:
        """Note that the receiver has used `size` bytes. PluginProtocolError if it has not had as many."""
        self._window += size
        if self._window > WINDOW_BYTES:
            raise PluginProtocolError(f"stream {self.number}: more bytes were granted than were sent")
        self._fill()

    def drop(self) -> None:
        """Drop what waits: nobody is there to read it."""
        self._waiting.clear()
        self.unsent = 0

    def _fill(self) -> None:
        while self._waiting and self._window:
            data = self._waiting.popleft()
            size = min(len(data), self._window, CHUNK_BYTES)
            if size < len(data):
                self._waiting.appendleft(data[size:])
                data = data[:size]
            self._window -= size
            self._frames.put_piece(self.number, data, lambda size=size: self._sent(size))  # type: ignore[misc]

    def _sent(self, size: int) -> None:
        self.unsent = max(0, self.unsent - size)
        self._sent_some()


class ReceiveHalf:
    """What is received on one stream: its window, and the grants that open it again."""

    def __init__(self, number: int, frames: FrameQueue) -> None:
        self.number = number
        self._frames = frames
        self._window = WINDOW_BYTES
        self._used = 0

    def received(self, size: int) -> None:
        """Note that bytes came. PluginProtocolError for more than the window has room for."""
        self._window -= size
        if self._window < 0:
            raise PluginProtocolError(f"stream {self.number}: more bytes came than its window allows")

    def used(self, size: int) -> None:
        """Note that bytes were used; they are granted again in large pieces."""
        self._used += size
        if self._used >= WINDOW_BYTES // 2:
            self._window += self._used
            self._frames.put(Granted(stream=self.number, size=self._used))
            self._used = 0
