"""The send queue of a connection: at most two writes per loop turn, with a bound on unsent bytes."""

from __future__ import annotations

import asyncio

from hostler.plugins.limits import ConnectionLimits
from hostler.plugins.transport import PluginTransport


class SendQueue:
    """Sends the first message of a loop turn at once, and the others of that turn together at its end.

    Counts the bytes the peer has not read.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.transport: PluginTransport | None = None
        self.is_closed = False
        self.sent_bytes = 0
        """Bytes given to the transport so far."""
        self._messages: list[bytes] = []
        self._bytes = 0
        self._collecting = False
        self._writable = asyncio.Event()

    @property
    def transport_bytes(self) -> int:
        """Bytes given to the transport that the peer has not read."""
        return 0 if self.transport is None else self.transport.unsent_bytes

    def send(self, data: bytes) -> str | None:
        """Send a message, now or at the end of this loop turn. Return the reason if too much is unsent."""
        if not data or self.is_closed:
            return None
        if self._collecting or self.transport is None:
            self._messages.append(data)
            self._bytes += len(data)
        else:
            self._collecting = True
            self.sent_bytes += len(data)
            try:
                self.transport.send([data])
            finally:  # only now: the peer is at work already
                asyncio.get_running_loop().call_soon(self._end_of_turn)
        unsent = self._bytes + self.transport_bytes
        if unsent > self.limits.write_limit_bytes:
            return f"the process does not read: {unsent:,} bytes wait for it"
        return None

    def _end_of_turn(self) -> None:
        self._collecting = False
        self.flush()

    def flush(self) -> None:
        """Send the collected messages now."""
        messages, self._messages = self._messages, []
        self.sent_bytes += self._bytes
        self._bytes = 0
        if messages and self.transport is not None and not self.is_closed:
            self.transport.send(messages)

    async def drain(self) -> None:
        """Wait until few bytes are unsent, or the queue is closed."""
        while not self.is_closed and self._bytes + self.transport_bytes > self.limits.write_pause_bytes:
            self._writable.clear()
            await self._writable.wait()

    def sent_some(self) -> None:
        """Note that the peer has read something."""
        self._writable.set()

    def close(self) -> None:
        """Drop unsent messages and wake all waiters."""
        self.is_closed = True
        self._messages.clear()
        self._bytes = 0
        self._writable.set()
