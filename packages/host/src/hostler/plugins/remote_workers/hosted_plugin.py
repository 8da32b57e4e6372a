"""One plugin process on a remote worker: its archive, its start in the worker's sandbox, its bytes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sys
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, BinaryIO

from hostler.domain.worker_limits import MAX_REASON_CHARS, WINDOW_BYTES
from hostler.plugins.context import PluginContext
from hostler.plugins.process import PluginProcess
from hostler.plugins.remote_workers.archives import MAX_ARCHIVE_BYTES, unpack, unpacked
from hostler.plugins.remote_workers.streams import FrameQueue, ReceiveHalf, SendHalf
from hostler.plugins.remote_workers.wire import Archive, Closed, Fetch, FromWorker, Open, Started
from hostler.plugins.source import Folder, launch_of
from hostler.plugins.startup import LASTING_EXIT_STATUS, start_confined
from hostler.plugins.stdio import HIGH_MARK_BYTES, LOW_MARK_BYTES, StdioTransport
from hostler.sandbox.port import Violation
from hostler_protocol.errors import HostlerError, PluginError, PluginProtocolError, PluginStartError

_log = logging.getLogger(__name__)


def plugins_folder(data_dir: Path) -> Path:
    """Return the folder with the unpacked plugins of a worker."""
    return data_dir / "plugins" / "unpacked"


class HostedPlugin:
    """A plugin process of this worker, from the order to start it until nothing is left of it.

    It is the `Receiver` of the process. `put` queues a control message; it does not raise. `trusted`: the
    plugins that may start without a sandbox; `used`: returns digests of plugins that have processes.
    """

    def __init__(
        self,
        order: Open,
        context: PluginContext,
        frames: FrameQueue,
        put: Callable[[FromWorker], None],
        *,
        trusted: Collection[str],
        used: Callable[[], Collection[str]],
    ) -> None:
        self.order = order
        self._context = context
        self._put = put
        self._trusted = trusted
        self._used = used
        self._out = SendHalf(order.stream, frames, self._sent_out)
        self._in = ReceiveHalf(order.stream, frames)
        self._archive: tuple[BinaryIO, int] | None = None
        """The archive that comes in, and how many of its bytes are missing."""
        self._incoming: BinaryIO | None = None
        """The file for the archive, once the host was asked for it."""
        self._arrived = asyncio.Event()
        self._killed = False
        self._process: PluginProcess | None = None
        self._stdio: StdioTransport | None = None
        self._unused = 0
        """Bytes given to the process that its pipe has not taken yet."""
        self._paused = False
        self._ended: asyncio.Future[PluginError] = asyncio.get_running_loop().create_future()
        self._cleaning: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Start the process and carry its bytes until it is gone; say so to the host then."""
        lasting = False
        try:
            await self._start()
            reason = (await self._ended).message
        except HostlerError as error:
            reason = error.message
            lasting = bool(error.details.get("lasting"))
        except OSError as error:
            reason = f"it cannot be started: {error}"
        finally:
            await self.kill()
        exit_status = self._ended.result().details.get("exit_status") if self._ended.done() else None
        lasting = lasting or exit_status == LASTING_EXIT_STATUS
        _log.info("plugin %s ended: %s", self.order.plugin, reason)
        self._put(Closed(stream=self.order.stream, reason=reason[:MAX_REASON_CHARS], lasting=lasting))

    async def kill(self) -> None:
        """End the process and everything it started, and wait until it is gone."""
        self._killed = True
        if self._stdio is not None:
            self._stdio.abort()
        if self._process is not None:
            self._process.kill()
            await self._process.wait_gone()

    def end(self, why: str) -> None:
        """Have `run` end the process."""
        self._killed = True
        self._arrived.set()
        if not self._ended.done():
            self._ended.set_result(PluginStartError(why))

    # -- starting ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        order, context = self.order, self._context
        if order.level == "trusted" and order.plugin not in self._trusted:
            text = f"this worker does not trust it: start the worker with --trust {order.plugin}"
            raise PluginStartError(text, lasting=True)
        folder = await self._folder()
        source = Folder(
            folder,
            level=order.level,
            network=tuple(order.network),
            allow_requires=tuple(order.allow_requires),
            limits=order.limits,
            pin="files" if order.pinned else None,
        )
        launch = await asyncio.to_thread(launch_of, source)
        if launch.identity.key != order.plugin:
            raise PluginStartError(f"its archive is that of {launch.identity.key}", lasting=True)
        python = sys.executable
        if launch.requires:
            python, _ = await context.environments.build(
                launch.requires, base=launch.cwd, allowed=launch.allow_requires, plan=order.plan
            )
        if self._killed:
            raise PluginStartError("it was told to end before it had started")
        confined = await start_confined(
            order.plugin, source, launch, python, context, spawn=self._clean, on_violation=self._refused
        )
        self._process = confined.process
        confined.process.log.note(f"started as process {confined.process.pid}")
        containment = f"{confined.level}; {confined.process.containment}"
        warnings = [text[:MAX_REASON_CHARS] for text in confined.warnings[:32]]
        self._stdio = await StdioTransport.open(confined.process, self)
        self._put(Started(stream=order.stream, containment=containment[:400], warnings=warnings))

    async def _folder(self) -> Path:
        """Return the folder of the plugin, from the host unless it is here."""
        digest, plugins = self.order.digest, plugins_folder(self._context.data_dir)
        if not (len(digest) == 64 and all(one in "0123456789abcdef" for one in digest)):
            raise PluginStartError(f"{digest!r:.80} is no digest of a plugin", lasting=True)
        known = await asyncio.to_thread(unpacked, digest, plugins)
        if known is not None:
            return known
        archives = self._context.data_dir / "plugins" / "archives"
        archives.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = archives / f".incoming-{secrets.token_hex(8)}"
        try:
            with path.open("xb") as file:
                self._incoming = file
                self._put(Fetch(stream=self.order.stream))
                await self._arrived.wait()
                self._incoming = self._archive = None
            if self._killed:
                raise PluginStartError("it was told to end before it had started")
            return await asyncio.to_thread(unpack, path, digest, plugins, self._used())
        finally:
            path.unlink(missing_ok=True)

    def _refused(self, violation: Violation) -> None:
        _log.warning("plugin %s: %s: %s", self.order.plugin, violation.kind, violation.text)

    def _clean(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    # -- what the host says -----------------------------------------------------------------------

    def announced(self, message: Archive) -> None:
        """Note that the archive follows. PluginProtocolError if nobody asked for it, or it is too large."""
        if self._killed:
            return
        if self._incoming is None or self._archive is not None or not 0 < message.size <= MAX_ARCHIVE_BYTES:
            raise PluginProtocolError(f"stream {message.stream}: an archive of {message.size:,} bytes")
        self._archive = (self._incoming, message.size)

    def received(self, data: bytes) -> None:
        """Take bytes of the host. PluginProtocolError for more than the window allows."""
        self._in.received(len(data))
        if self._killed:
            self._in.used(len(data))
        elif self._archive is not None:
            file, missing = self._archive
            if len(data) > missing:
                raise PluginProtocolError(f"stream {self.order.stream}: more bytes than its archive has")
            file.write(data)
            self._archive = (file, missing - len(data))
            self._in.used(len(data))
            if missing == len(data):
                self._arrived.set()
        elif self._stdio is not None:
            self._unused += len(data)
            self._stdio.send([data])
            self.sent_some()
        else:
            raise PluginProtocolError(f"stream {self.order.stream}: bytes before the process was started")

    def granted(self, size: int) -> None:
        """Note that the host has used bytes. PluginProtocolError if it has not had as many."""
        self._out.granted(size)

    def close_input(self) -> None:
        """Close the standard input of the process."""
        if self._stdio is not None:
            self._stdio.close_sending()

    # -- what the process does --------------------------------------------------------------------

    def bytes_received(self, data: bytes) -> None:
        """Send what the process wrote; it is read no further while too much waits."""
        self._out.send([data])
        if self._out.unsent > WINDOW_BYTES and not self._paused and self._stdio is not None:
            self._paused = True
            self._stdio.pause_reading()

    def _sent_out(self) -> None:
        if self._paused and self._out.unsent < LOW_MARK_BYTES and self._stdio is not None:
            self._paused = False
            self._stdio.resume_reading()

    def frame_received(self, data: bytes | str) -> None:
        """Do nothing: a process has no frames."""

    def sent_some(self) -> None:
        """Grant the host what the pipe has taken."""
        if self._unused and self._stdio is not None and self._stdio.unsent_bytes <= HIGH_MARK_BYTES:
            used, self._unused = self._unused, 0
            self._in.used(used)

    def lost(self, error: PluginError) -> None:
        """Note that the process has ended."""
        if not self._ended.done():
            self._ended.set_result(error)

    async def settled(self) -> None:
        """Wait until the log of the process is closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._context.process_limits.kill_seconds):
                await asyncio.gather(*self._cleaning)
