"""The transport of a child process: newline-delimited messages on its stdin and stdout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from hostler.plugins.process import PluginProcess
from hostler.plugins.transport import Receiver
from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.read_pipe import connect_read_pipe
from hostler_protocol.errors import PluginCrashedError, PluginError

LOW_MARK_BYTES = 256 * 1024
HIGH_MARK_BYTES = 1024 * 1024

_log = logging.getLogger(__name__)


class _Stdout(asyncio.Protocol):
    def __init__(self, owner: StdioTransport) -> None:
        self._owner = owner

    def data_received(self, data: bytes) -> None:
        self._owner._received += 1
        self._owner.receiver.bytes_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner._stdout_over.set()
        self._owner._pipe_ended()


class _Stdin(asyncio.Protocol):
    def __init__(self, owner: StdioTransport) -> None:
        self._owner = owner

    def resume_writing(self) -> None:
        self._owner.receiver.sent_some()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner._stdin_ended()


class StdioTransport:
    """Carries messages to and from a `PluginProcess`, and ends the process with the connection."""

    def __init__(self, process: PluginProcess, receiver: Receiver) -> None:
        self.process = process
        self.receiver = receiver
        self._ending: asyncio.Task[None] | None = None
        self._stdin: asyncio.WriteTransport
        self._stdout: asyncio.ReadTransport
        self._paused = False
        self._asked_to_end = False
        self._received = 0
        self._stdout_over = asyncio.Event()
        self._opened = asyncio.Event()

    @classmethod
    async def open(cls, process: PluginProcess, receiver: Receiver) -> StdioTransport:
        """Take over the pipes of a newly started process.

        The process may end before both are taken over; its end is reported afterwards.
        """
        transport = cls(process, receiver)
        loop = asyncio.get_running_loop()
        transport._stdin, _ = await loop.connect_write_pipe(
            lambda: _Stdin(transport), process.take_pipe(0, "wb")
        )
        transport._stdin.set_write_buffer_limits(HIGH_MARK_BYTES, LOW_MARK_BYTES)
        transport._stdout, _ = await connect_read_pipe(lambda: _Stdout(transport), process.take_pipe(1, "rb"))
        transport._opened.set()
        return transport

    @property
    def unsent_bytes(self) -> int:
        """Bytes waiting for the pipe."""
        return self._stdin.get_write_buffer_size()

    def send(self, messages: Sequence[bytes]) -> None:
        """Write messages; they wait in memory while the pipe is full."""
        if not self._stdin.is_closing():
            self._stdin.write(messages[0] if len(messages) == 1 else b"".join(messages))

    def pause_reading(self) -> None:
        """Stop reading: once the pipe is full the plugin blocks."""
        if not self._paused and not self._stdout.is_closing():
            self._paused = True
            self._stdout.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading."""
        if self._paused and not self._stdout.is_closing():
            self._paused = False
            self._stdout.resume_reading()

    def close_sending(self) -> None:
        """Close the plugin's stdin."""
        self._asked_to_end = True
        if not self._stdin.is_closing():
            self._stdin.close()

    def abort(self) -> None:
        """Kill the process and everything it started."""
        self.process.kill()
        self._abort_stdin()
        self._stdout.close()

    def _abort_stdin(self) -> None:
        # asyncio's pipe transport reports its end twice, and fails, if aborted while it closes
        if not self._stdin.is_closing() or self._stdin.get_write_buffer_size():
            self._stdin.abort()

    def _stdin_ended(self) -> None:
        if not self._asked_to_end:
            self._pipe_ended()  # the process closed it, so nothing can be sent to it

    def _pipe_ended(self) -> None:
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._tell_end())

    async def _tell_end(self) -> None:
        """Report the end, whatever happens: runs and the restart of the plugin wait for it."""
        await self._opened.wait()
        try:
            reason = await self._end_reason()
        except Exception as error:  # noqa: BLE001  the top of a worker: recorded here
            _log.exception("process %d: the reason of its end is not known", self.process.pid)
            reason = PluginCrashedError(f"the process ended; why is not known ({type(error).__name__})")
        self.receiver.lost(reason)
        self.abort()

    async def _end_reason(self) -> PluginError:
        """Wait for the rest of the output; return why the process ended, by its exit status if known soon."""
        self._abort_stdin()
        try:
            async with asyncio.timeout(self.process.limits.status_seconds):
                status: ExitStatus | None = await asyncio.shield(self.process.exited)
        except TimeoutError:
            status = None
        if status is not None:
            await self._read_to_end()
        await self._drain_log()
        return _explain(self.process, status)

    async def _read_to_end(self) -> None:
        """Read what the process wrote before its end; an escaped process may hold the pipe open."""
        while not self._stdout_over.is_set():
            before = self._received
            try:
                async with asyncio.timeout(self.process.limits.status_seconds):
                    await self._stdout_over.wait()
            except TimeoutError:
                if self._received == before and not self._paused:
                    return

    async def _drain_log(self) -> None:
        """Wait for the rest of stderr, which usually has the reason."""
        if self.process.log_finished is not None:
            try:
                async with asyncio.timeout(self.process.limits.status_seconds):
                    await asyncio.shield(self.process.log_finished)
            except TimeoutError:
                return


def _explain(process: PluginProcess, status: ExitStatus | None) -> PluginError:
    limit = next((one for one in process.violations if one.kind == "limit"), None)
    if limit is not None:
        text = f"it was killed at its limit of {limit.subject}: {limit.text}"
        return PluginCrashedError(text, exit_status=None, limit=limit.subject)
    if process.log.error is not None:
        return PluginCrashedError(process.log.error, exit_status=None if status is None else status.code)
    what = "the process closed its output" if status is None else str(status)
    last = process.log.last_line
    return PluginCrashedError(
        f"{what}; its last words were: {last[:300]}" if last else f"{what} and said nothing",
        exit_status=None if status is None else status.code,
    )
