"""The transport of a plugin process on a remote worker: one stream of the worker's connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from hostler.domain.worker_limits import CHUNK_BYTES, MAX_REASON_CHARS, WINDOW_BYTES
from hostler.plugins.remote_workers.streams import FrameQueue, ReceiveHalf, SendHalf
from hostler.plugins.remote_workers.wire import Archive, Closed, CloseInput, FromHost, Kill, Started
from hostler.plugins.stdio import LOW_MARK_BYTES
from hostler.plugins.transport import Receiver
from hostler_protocol.errors import PluginCrashedError, PluginProtocolError, PluginStartError


class PluginStream:
    """Carries messages to and from one plugin process of a worker; `PluginTransport` for its connection.

    `put` queues a control message; it does not raise.
    """

    def __init__(
        self, number: int, archive: Path, frames: FrameQueue, put: Callable[[FromHost], None]
    ) -> None:
        self.number = number
        self.started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        """Done once the process runs; PluginStartError if it does not start."""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the worker has said that nothing is left of the process, or is lost."""
        self._archive: Path | None = archive
        self._out = SendHalf(number, frames, self._sent_some)
        self._in = ReceiveHalf(number, frames)
        self._put = put
        self._receiver: Receiver | None = None
        self._held: deque[bytes] = deque()
        """Bytes that came and are not delivered, bounded by the window."""
        self._paused = False
        self._room = asyncio.Event()
        self._over = False
        """Whether the receiver was told of the end, or the process was killed before it had one."""

    # -- what the worker says ---------------------------------------------------------------------

    async def send_archive(self) -> None:
        """Send the archive, as the worker asked for it. PluginProtocolError if it has asked before."""
        archive, self._archive = self._archive, None
        if archive is None or self.started.done():
            raise PluginProtocolError(f"stream {self.number}: its archive was fetched twice")
        with archive.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            self._put(Archive(stream=self.number, size=size))
            while data := await asyncio.to_thread(file.read, CHUNK_BYTES * 4):
                self._out.send([data])
                while self._out.unsent > WINDOW_BYTES and not self._over:
                    self._room.clear()
                    await self._room.wait()
                if self._over:
                    return

    def has_started(self, message: Started) -> None:
        """Note that the process runs. PluginProtocolError if that was said before."""
        if self.started.done() and not self._over:
            raise PluginProtocolError(f"stream {self.number}: its process was started twice")
        if not self.started.done():
            self.started.set_result(message)

    def has_closed(self, message: Closed) -> None:
        """Note that nothing is left of the process."""
        if not self.gone.done():
            self.gone.set_result(None)
        self._end(message.reason[:MAX_REASON_CHARS], lasting=message.lasting)

    def lost(self, why: str) -> None:
        """Note that the worker is lost."""
        if not self.gone.done():
            self.gone.set_result(None)
        self._end(why, lasting=False)

    def granted(self, size: int) -> None:
        """Note that the worker has used bytes. PluginProtocolError if it has not had as many."""
        self._out.granted(size)

    def received(self, data: bytes) -> None:
        """Take what the process wrote. PluginProtocolError for more than the window allows."""
        self._in.received(len(data))
        if self._over:
            self._in.used(len(data))
            return
        self._held.append(data)
        self._deliver()

    def attach(self, receiver: Receiver) -> None:
        """Deliver what the process writes, from now on."""
        self._receiver = receiver
        self._deliver()

    def _deliver(self) -> None:
        while self._held and self._receiver is not None and not self._paused and not self._over:
            data = self._held.popleft()
            self._receiver.bytes_received(data)
            self._in.used(len(data))

    def _end(self, why: str, *, lasting: bool) -> None:
        if not self.started.done():
            self.started.set_exception(PluginStartError(why, lasting=lasting))
            self.started.exception()  # it may be that nobody waits for it any more
        if self._over:
            return
        self._paused = False
        self._deliver()  # what the process said before its end
        self._over = True
        self._out.drop()
        self._room.set()
        if self._receiver is not None:
            self._receiver.lost(PluginCrashedError(why))

    # -- the transport ----------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are not on their way to the worker."""
        return self._out.unsent

    def _sent_some(self) -> None:
        if self._out.unsent < LOW_MARK_BYTES:
            self._room.set()
            if self._receiver is not None:
                self._receiver.sent_some()

    def send(self, messages: Sequence[bytes]) -> None:
        """Queue messages; the connection bounds their size."""
        if not self._over:
            self._out.send(messages)

    def pause_reading(self) -> None:
        """Deliver nothing more: once the window is used up the worker stops reading from the process."""
        self._paused = True

    def resume_reading(self) -> None:
        """Continue delivering."""
        self._paused = False
        self._deliver()

    def close_sending(self) -> None:
        """Have the worker close the standard input of the process."""
        if not self._over:
            self._put(CloseInput(stream=self.number))

    def abort(self) -> None:
        """Have the worker kill the process."""
        if self._over:
            return
        self._over = True
        self._out.drop()
        self._room.set()
        self._put(Kill(stream=self.number))
        if not self.started.done():
            self.started.cancel()
        if self._receiver is not None:
            asyncio.get_running_loop().call_soon(
                self._receiver.lost, PluginCrashedError("its process was killed")
            )
