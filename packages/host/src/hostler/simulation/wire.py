"""Two byte streams between two simulated processes, like the pipes of a plugin."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from hostler.simulation.latency import Latency
from hostler.simulation.loop import SimulatedLoop, SimulatedProcess

MAX_PIECE_BYTES = 64 * 1024


class Stream:
    """One direction. Bytes arrive in order, cut anywhere, after a while; `received` runs in the process that
    reads. Bytes of a process that was killed may be lost, the newest first."""

    def __init__(
        self,
        loop: SimulatedLoop,
        reader: SimulatedProcess,
        latency: Latency,
        received: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        self.unread = 0
        """Bytes on their way."""
        self.on_read: Callable[[], None] = lambda: None
        """Called in the process that writes after bytes were read."""
        self._loop = loop
        self._reader = reader
        self._latency = latency
        self._received = received
        self._ended = ended
        self._pieces: deque[bytes] = deque()
        self._paused = False
        self._closed = False
        self._due = False

    def write(self, data: bytes, chance: random.Random) -> None:
        """Send bytes; they may arrive in several pieces."""
        if self._closed or not data:
            return
        self.unread += len(data)
        at = 0
        while at < len(data):
            size = min(MAX_PIECE_BYTES, len(data) - at)
            if size > 1 and chance.random() < 0.1:
                size = chance.randint(1, size)
            self._pieces.append(data[at : at + size])
            at += size
        self._deliver_later()

    def close(self) -> None:
        """Send the end of the stream after what was written."""
        if not self._closed:
            self._closed = True
            self._deliver_later()

    def cut(self, chance: random.Random) -> None:
        """End the stream; some of the newest pieces on their way are lost."""
        for _ in range(chance.randint(0, len(self._pieces))):
            self.unread -= len(self._pieces.pop())
        self.close()

    def pause(self) -> None:
        """Deliver nothing more for now."""
        self._paused = True

    def resume(self) -> None:
        """Go on delivering."""
        self._paused = False
        self._deliver_later()

    def _deliver_later(self) -> None:
        if not self._due and not self._paused and (self._pieces or self._closed):
            self._due = True
            context = self._reader.context()
            self._loop.call_later(self._latency.message(), self._deliver, context=context)

    def _deliver(self) -> None:
        self._due = False
        if self._paused:
            return
        if self._pieces:
            piece = self._pieces.popleft()
            self.unread -= len(piece)
            self._received(piece)
            self.on_read()
            self._deliver_later()
        elif self._closed:
            self._ended()
