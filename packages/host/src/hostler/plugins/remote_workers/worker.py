"""One connected remote worker, on the side of the host: its messages, its plugin processes, its runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain import worker_limits as limits
from hostler.domain.clock import monotonic_clock
from hostler.domain.worker_labels import offers
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import OnViolation, PluginContext, RunningPlugin
from hostler.plugins.lifecycle import PluginLifecycle
from hostler.plugins.pins import machine_target
from hostler.plugins.remote_workers.archives import pack
from hostler.plugins.remote_workers.plugin_stream import PluginStream
from hostler.plugins.remote_workers.streams import FrameChannel, FrameQueue
from hostler.plugins.remote_workers.wire import (
    Answered,
    Beat,
    Closed,
    DrainMe,
    End,
    Fetch,
    FromHost,
    FromWorker,
    Granted,
    Hello,
    Open,
    Started,
    WorkerState,
    read_from_worker,
    read_piece,
)
from hostler.plugins.source import Folder, PluginSource, SingleFile, launch_of
from hostler.plugins.startup import admitted
from hostler_protocol.errors import PluginError, PluginProtocolError, PluginStartError, UnavailableError

CLOSE_SECONDS = 5.0
"""For the last messages to a worker that leaves."""
_log = logging.getLogger(__name__)


class RemoteWorker:
    """A worker from its registration to the end of its connection, which is its session.

    `on_beat` is called at each heartbeat, `on_drain` when the worker asks to be drained.
    """

    def __init__(
        self,
        workspace_id: str,
        hello: Hello,
        session: str,
        *,
        on_beat: Callable[[], None] = lambda: None,
        on_drain: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = monotonic_clock,
    ) -> None:
        self.workspace_id, self.worker_id, self.session = workspace_id, hello.worker_id, session
        self.hello = hello
        self.labels = frozenset(hello.labels)
        self.state: WorkerState = "active"
        self.held: set[tuple[str, int]] = set()
        """The attempts that have a place here."""
        self.refused: dict[str, float] = {}
        """Plugins that could not be started here, and until when no run of them is given to it."""
        self.emptied = asyncio.Event()
        """Set while no attempt has a place here."""
        self.emptied.set()
        self.drains_itself = False
        """Whether it has asked to be drained: nobody else makes it active again."""
        self.loop = asyncio.get_running_loop()
        self.why: str | None = None
        """Why the connection has ended; None: it has not."""
        self._on_beat, self._on_drain = on_beat, on_drain
        self._clock = clock
        self._heard_at = clock()
        self._beats_from, self._beats = clock(), 0
        self._frames = FrameQueue()
        self._streams: dict[int, PluginStream] = {}
        self._last_number = 0
        self._lives: dict[str, PluginLifecycle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    @property
    def name(self) -> str:
        """It as logs name it."""
        return f"worker {self.worker_id} of {self.workspace_id}"

    @property
    def free(self) -> int:
        """The number of runs that it may be given now."""
        if self.why is not None or self.state != "active":
            return 0
        return max(0, self.hello.slots - len(self.held))

    def fits(self, workspace: str, plugin: str, labels: Collection[str]) -> bool:
        """Whether it may be given such runs, once it has a free slot."""
        if self.why is not None or workspace != self.workspace_id or not offers(self.labels, labels):
            return False
        return self.refused.get(plugin, 0.0) <= self._clock()

    def has_emptied(self) -> None:
        """If no attempt has a place here, wake whoever waits for that, and end a worker that is drained."""
        if self.held:
            return
        self.emptied.set()
        if self.state == "draining":
            self.end("it was drained", again=False, drained=True)

    def refuse(self, plugin: str) -> None:
        """Give it no run of a plugin for a while, which could not be started here."""
        now = self._clock()
        self.refused = {key: until for key, until in self.refused.items() if until > now}
        self.refused[plugin] = now + limits.REFUSED_SECONDS

    @property
    def plugins(self) -> list[str]:
        """The plugins that have a process here, or had one."""
        return sorted(self._lives)

    # -- the connection ---------------------------------------------------------------------------

    async def serve(self, channel: FrameChannel) -> str:
        """Carry messages until the connection ends; return why. All its plugin processes are lost then."""
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(self._read(channel)),
            loop.create_task(self._frames.send_all(channel)),
            loop.create_task(self._watch()),
            loop.create_task(self._ended.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.is_set():  # the last message tells the worker why
                await asyncio.wait(tasks[:2], timeout=CLOSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            why = self.why or _why(tasks)
            await self._lost(why)
        return why

    async def _read(self, channel: FrameChannel) -> None:
        while (frame := await channel.receive()) is not None:
            if isinstance(frame, str):
                self._take(read_from_worker(frame))
                continue
            number, data = read_piece(frame)
            self._stream(number).received(data)

    def _stream(self, number: int) -> PluginStream:
        stream = self._streams.get(number)
        if stream is None:
            raise PluginProtocolError(f"stream {number} is none of this worker")
        return stream

    def _take(self, message: FromWorker) -> None:
        match message:
            case Beat(number=number):
                self._beat(number)
            case Fetch(stream=number):
                self._spawn(self._stream(number).send_archive())
            case Started(stream=number):
                self._stream(number).has_started(message)
            case Closed(stream=number):
                self._stream(number).has_closed(message)
                del self._streams[number]
            case Granted(stream=number, size=size):
                self._stream(number).granted(size)
            case DrainMe():
                self._on_drain()
            case Hello():
                raise PluginProtocolError("a worker says hello once")

    def _beat(self, number: int) -> None:
        now = self._clock()
        self._beats += 1
        if self._beats > limits.BEATS_AHEAD + (now - self._beats_from) / limits.MIN_BEAT_SECONDS:
            raise PluginProtocolError("a flood of heartbeats")
        self._heard_at = now
        self.put(Answered(number=number, state=self.state))
        self._on_beat()

    async def _watch(self) -> None:
        """Return once the worker was silent for too long."""
        while (left := self._heard_at + limits.STALE_SECONDS - self._clock()) > 0:  # noqa: ASYNC110  a clock
            await asyncio.sleep(left)
        raise TimeoutError(f"it was silent for {limits.STALE_SECONDS:g} s")

    def put(self, message: FromHost) -> None:
        """Queue a control message; a worker that does not read loses its connection."""
        try:
            self._frames.put(message)
        except PluginProtocolError as error:
            self.end(error.message)

    def end(self, why: str, *, again: bool = True, drained: bool = False) -> None:
        """End the connection; `again`: the worker should connect again. Its attempts end as lost."""
        if self.why is None:
            self.why = why
            with suppress(PluginProtocolError):
                self._frames.put(End(reason=why, again=again, drained=drained))
            self._frames.finish()
            self._ended.set()

    async def _lost(self, why: str) -> None:
        self.why = why
        lives, streams = list(self._lives.values()), list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            stream.lost(f"remote worker {self.worker_id} was lost: {why}")
        await asyncio.gather(*(life.close(0) for life in lives))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- plugins ----------------------------------------------------------------------------------

    async def connection(
        self, plugin_key: str, source: PluginSource, context: PluginContext
    ) -> PluginConnection:
        """Return the connection to a plugin's process here, started if there is none.

        Raises PluginStartError with the reason; UnavailableError if the worker was lost meanwhile.
        """
        if self.why is not None:
            raise UnavailableError(f"remote worker {self.worker_id} was lost: {self.why}")
        life = self._lives.get(plugin_key)
        if life is not None and life.source != source:
            self.retire(plugin_key)
            life = None
        if life is None:
            life = self._lives[plugin_key] = PluginLifecycle(plugin_key, source, context)
        try:
            return await life.connection()
        except PluginError as error:
            if self.why is not None:
                raise UnavailableError(f"remote worker {self.worker_id} was lost: {self.why}") from error
            raise

    def retire(self, plugin_key: str) -> None:
        """Let the process of a plugin finish its runs; later ones start on another one, of its files then."""
        life = self._lives.pop(plugin_key, None)
        if life is not None:
            self._spawn(life.close(life.context.start_limits.drain_seconds))

    def replace(self, connection: PluginConnection, why: str) -> None:
        """Start later runs of a plugin on another process than this one, if it is one of here."""
        life = self._lives.get(connection.expected_key)
        if life is not None:
            life.replace(connection, why)

    async def wait_free(self, run_ids: list[str], seconds: float) -> None:
        """Wait until no plugin here works on these runs, which have ended; end a process that does."""
        await asyncio.gather(*(life.wait_free(run_ids, seconds) for life in self._lives.values()))

    async def start_plugin(
        self,
        key: str,
        source: Folder | SingleFile,
        context: PluginContext,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_violation: OnViolation,
    ) -> RunningPlugin:
        """Start a plugin on the worker and do the handshake; a `StartPlugin`. Raises PluginStartError."""
        del spawn, on_violation  # the worker cleans up, and logs what its sandbox refuses
        if isinstance(source, SingleFile):
            raise PluginStartError("a runner of a single file runs on the host only", lasting=True)
        if source.level == "trusted" and key not in self.hello.trusted:
            text = f"worker {self.worker_id} does not trust it: start the worker with --trust {key}"
            raise PluginStartError(text, lasting=True)
        order, archive = await _order(key, source, context, self.hello.machine.target)
        stream = self._open(order, archive)
        try:
            try:
                async with asyncio.timeout(limits.START_SECONDS):
                    started = await stream.started
            except TimeoutError:
                text = f"the worker did not start it within {limits.START_SECONDS:g} s"
                raise PluginStartError(text) from None
            connection = PluginConnection(key, limits=context.connection_limits)
            stream.attach(connection)
            await connection.open(stream)
        except BaseException:
            stream.abort()
            raise
        level = f"on worker {self.worker_id}, {started.containment}"
        return RunningPlugin(
            connection, stream, context.clock(), level=level, warnings=tuple(started.warnings)
        )

    def _open(self, order: Open, archive: Path) -> PluginStream:
        if self.why is not None:
            raise PluginStartError(f"the worker was lost: {self.why}")
        if len(self._streams) >= limits.MAX_STREAMS:
            raise PluginStartError(f"the worker has {limits.MAX_STREAMS} plugin processes, which is the most")
        self._last_number += 1
        stream = PluginStream(self._last_number, archive, self._frames, self.put)
        self._streams[stream.number] = stream
        self.put(msgspec.structs.replace(order, stream=stream.number))
        return stream

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, PluginError | OSError):
                _log.error("%s: work in the background failed", self.name, exc_info=error)
            self.end(str(error) or type(error).__name__)


async def _order(key: str, source: Folder, context: PluginContext, target: str) -> tuple[Open, Path]:
    """Return what a worker is told to start, and the archive of it. Raises PluginStartError."""
    launch = await asyncio.to_thread(launch_of, source)
    if launch.identity.key != key:
        text = f"its manifest now names {launch.identity.key}; add it again under that name"
        raise PluginStartError(text, lasting=True)
    pins = context.pins if source.pin is not None else None
    facts = None if pins is None else await admitted(key, source, pins)
    digest, archive = await asyncio.to_thread(pack, launch.cwd, context.data_dir / "plugins" / "archives")
    if facts is not None and facts.files not in {None, digest}:
        raise PluginStartError("its files changed while it started: it is tried again", lasting=False)
    is_alike = (
        target == machine_target() and not source.allow_requires
    )  # whose lock names folders of the host
    plan = await pins.lock(key) if pins is not None and launch.requires and is_alike else None
    order = Open(
        stream=1,
        plugin=key,
        digest=digest,
        level=source.level,
        network=list(source.network),
        allow_requires=list(source.allow_requires),
        limits=source.limits,
        plan=plan,
        pinned=source.pin == "files",
    )
    return order, archive


def _why(tasks: list[asyncio.Task[Any]]) -> str:
    """Return why a connection ended: the error of the first task that has one."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, PluginProtocolError):
                return f"it broke the protocol: {error.message}"
            if not isinstance(error, ConnectionError | TimeoutError):
                _log.error("the connection of a remote worker failed", exc_info=error)
            return str(error) or type(error).__name__
    return "its connection was closed"
