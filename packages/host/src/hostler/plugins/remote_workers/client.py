"""A remote worker: it stays connected to its host, and hosts the plugin processes that this asks for."""

from __future__ import annotations

import asyncio
import json
import logging
import platform
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from hostler.domain import worker_limits as limits
from hostler.domain.clock import chance, monotonic_clock
from hostler.domain.record import Record
from hostler.plugins.catalog import PluginCatalog
from hostler.plugins.context import PluginContext
from hostler.plugins.environment import Environments
from hostler.plugins.limits import (
    DEFAULT_CONNECTION_LIMITS,
    DEFAULT_PROCESS_LIMITS,
    DEFAULT_START_LIMITS,
)
from hostler.plugins.orphans import Register
from hostler.plugins.pins import machine_target
from hostler.plugins.remote_workers.hosted_plugin import HostedPlugin
from hostler.plugins.remote_workers.streams import FrameQueue
from hostler.plugins.remote_workers.wire import (
    Answered,
    Archive,
    Beat,
    CloseInput,
    DrainMe,
    End,
    FromHost,
    FromWorker,
    Granted,
    Hello,
    Kill,
    Machine,
    Open,
    Welcome,
    read_from_host,
    read_piece,
)
from hostler.plugins.startup import start_plugin
from hostler.sandbox.probe import find_sandbox
from hostler.version import VERSION
from hostler_protocol.errors import (
    InvalidArgumentError,
    PluginProtocolError,
    UnauthorizedError,
    UnavailableError,
)

CONNECT_SECONDS = 30.0
WELCOME_SECONDS = 30.0
CLOSE_SECONDS = 5.0
_REFUSED = frozenset({400, 401, 403, 404, 405, 426})
"""Statuses of a handshake that another try would meet again."""
_log = logging.getLogger(__name__)


class WorkerSettings(Record):
    """What a worker is. `url`: of the host, ws:// or wss://. `trusted`: plugins that need no sandbox here."""

    url: str
    key: str
    worker_id: str
    data_dir: Path
    labels: tuple[str, ...] = ()
    slots: int = 8
    trusted: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Session:
    """One connection to the host."""

    frames: FrameQueue = field(default_factory=FrameQueue)
    plugins: dict[int, HostedPlugin] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    ended: End | None = None
    failed: str | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    confirmed_at: float = 0.0
    """When the last heartbeat was sent that the host has answered."""
    sent: dict[int, float] = field(default_factory=dict)
    """When the heartbeats were sent that it has not answered yet."""


class WorkerClient:
    """A remote worker. `run` returns once it was drained; `drain` and `stop` may be called any time."""

    def __init__(self, settings: WorkerSettings, *, clock: Callable[[], float] = monotonic_clock) -> None:
        self.settings = settings
        self.on_joined: Callable[[], None] = lambda: None
        self._clock = clock
        self._process = secrets.token_hex(16)
        self._draining = False
        self._stopping = asyncio.Event()
        self._session: _Session | None = None
        self._context = _context_of(settings, clock)
        self._sandbox = ""

    async def run(self) -> None:
        """Stay connected until drained or stopped. Raises UnauthorizedError or InvalidArgumentError if the
        host refuses the worker for good, UnavailableError if it was removed."""
        self._context.register.sweep()
        sandbox = await find_sandbox()
        self._sandbox = sandbox.mechanism
        wait = limits.RETRY_SECONDS[0]
        while not self._stopping.is_set():
            before = self._clock()
            ended, why = await self._connected()
            if ended is not None and ended.drained:
                return
            if ended is not None and not ended.again:
                raise UnavailableError(f"the host ended the connection: {ended.reason}")
            if self._draining or self._stopping.is_set():
                return
            if self._clock() - before > limits.RETRY_SECONDS[1]:
                wait = limits.RETRY_SECONDS[0]
            rest = wait * (0.5 + chance() / 2)  # so that many workers do not come at once
            _log.warning("not connected: %s; trying again in %.1f s", why, rest)
            with suppress(TimeoutError):
                async with asyncio.timeout(rest):
                    await self._stopping.wait()
            wait = min(wait * 2, limits.RETRY_SECONDS[1])

    def drain(self) -> None:
        """Take no new runs, and end after the last one; at once if there is no connection."""
        self._draining = True
        if self._session is None:
            self._stopping.set()
        else:
            self._put(self._session, DrainMe())

    def stop(self) -> None:
        """End now, with all plugin processes."""
        self._stopping.set()
        if self._session is not None:
            self._session.over.set()

    # -- the connection ---------------------------------------------------------------------------

    async def _connected(self) -> tuple[End | None, str]:
        """Connect and stay so; return what the host said at the end, and why it ended."""
        settings = self.settings
        try:
            connection = await connect(
                settings.url,
                additional_headers={"authorization": f"Bearer {settings.key}"},
                max_size=limits.MAX_MESSAGE_BYTES,
                max_queue=16,
                compression=None,
                ping_interval=None,  # heartbeats say more
                open_timeout=CONNECT_SECONDS,
                close_timeout=CLOSE_SECONDS,
            )
        except InvalidURI as error:
            raise InvalidArgumentError(f"--connect {settings.url}: {error}") from error
        except InvalidStatus as error:
            return None, _refusal(error)
        except (OSError, TimeoutError, InvalidHandshake) as error:
            return None, f"{settings.url}: {error or type(error).__name__}"
        async with connection:
            return await self._serve(connection)

    async def _serve(self, connection: ClientConnection) -> tuple[End | None, str]:
        session = self._session = _Session()
        session.confirmed_at = self._clock()
        channel = ClientChannel(connection)
        tasks = [
            asyncio.create_task(self._read(session, channel)),
            asyncio.create_task(session.frames.send_all(channel)),
            asyncio.create_task(self._beat(session)),
            asyncio.create_task(session.over.wait()),
        ]
        self._put(session, self._hello())
        if self._draining:
            self._put(session, DrainMe())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._session = None
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self._end_plugins(session)
        errors = [e for task in tasks if not task.cancelled() and (e := task.exception()) is not None]
        for error in errors:
            if not isinstance(error, ConnectionError | TimeoutError | PluginProtocolError):
                _log.error("the connection to the host failed", exc_info=error)
        first = str(errors[0]) if errors else None
        why = (
            session.failed
            or first
            or (session.ended.reason if session.ended else "the connection was closed")
        )
        return session.ended, why

    def _hello(self) -> Hello:
        settings, target = self.settings, machine_target()
        system, python = platform.platform()[:200], platform.python_version()
        return Hello(
            protocol=limits.PROTOCOL,
            worker_id=settings.worker_id,
            process=self._process,
            slots=settings.slots,
            labels=sorted(settings.labels),
            version=VERSION,
            machine=Machine(system=system, python=python, target=target[:200], sandbox=self._sandbox),
            trusted=sorted(settings.trusted),
        )

    async def _read(self, session: _Session, channel: ClientChannel) -> None:
        while session.ended is None and (frame := await channel.receive()) is not None:
            if isinstance(frame, str):
                self._take(session, read_from_host(frame))
                continue
            number, data = read_piece(frame)
            if (plugin := session.plugins.get(number)) is not None:
                plugin.received(data)  # else it has just ended: the host does not know it yet

    def _take(self, session: _Session, message: FromHost) -> None:
        match message:
            case Welcome():
                _log.info("joined as %s", self.settings.worker_id)
                self.on_joined()
            case Answered(number=number, state=state):
                session.confirmed_at = max(session.confirmed_at, session.sent.pop(number, 0.0))
                self._draining = self._draining or state == "draining"
            case Open():
                self._open(session, message)
            case End():
                session.ended = message
            case _:
                self._take_for(session, message)

    def _take_for(self, session: _Session, message: Archive | CloseInput | Kill | Granted) -> None:
        plugin = session.plugins.get(message.stream)
        if plugin is None:
            return  # it has just ended
        match message:
            case Archive():
                plugin.announced(message)
            case CloseInput():
                plugin.close_input()
            case Kill():
                plugin.end("the host has ended it")
            case Granted(size=size):
                plugin.granted(size)

    async def _beat(self, session: _Session) -> None:
        """Send heartbeats; TimeoutError once they were not answered for too long."""
        number, next_at = 0, self._clock()
        while True:
            now = self._clock()
            if now >= next_at:
                number, next_at = number + 1, now + limits.BEAT_SECONDS
                session.sent[number] = now
                self._put(session, Beat(number=number))
            left = session.confirmed_at + limits.QUIET_SECONDS - now
            if left <= 0:
                raise TimeoutError(f"the host did not answer for {limits.QUIET_SECONDS:g} s")
            await asyncio.sleep(max(0.0, min(left, next_at - now)))

    def _put(self, session: _Session, message: FromWorker) -> None:
        try:
            session.frames.put(message)
        except PluginProtocolError as error:
            session.failed = error.message
            session.over.set()

    # -- plugins ----------------------------------------------------------------------------------

    def _open(self, session: _Session, order: Open) -> None:
        if order.stream in session.plugins or len(session.plugins) >= limits.MAX_STREAMS:
            raise PluginProtocolError(f"stream {order.stream} cannot be opened")
        plugin = HostedPlugin(
            order,
            self._context,
            session.frames,
            lambda message: self._put(session, message),
            trusted=self.settings.trusted,
            used=lambda: {one.order.digest for one in session.plugins.values()},
        )
        session.plugins[order.stream] = plugin
        task = asyncio.create_task(self._host(session, plugin), name=f"plugin {order.plugin}")
        session.tasks.add(task)
        task.add_done_callback(lambda task: self._hosted(session, task))

    async def _host(self, session: _Session, plugin: HostedPlugin) -> None:
        try:
            await plugin.run()
        finally:
            session.plugins.pop(plugin.order.stream, None)

    def _hosted(self, session: _Session, task: asyncio.Task[None]) -> None:
        session.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a plugin could not be hosted", exc_info=error)
            session.failed = f"a plugin could not be hosted: {error}"
            session.over.set()  # the host must not wait for a process that is none

    async def _end_plugins(self, session: _Session) -> None:
        """End all plugin processes: the host has given their runs to others, or is about to."""
        plugins, tasks = list(session.plugins.values()), list(session.tasks)
        for plugin in plugins:
            plugin.end("the connection to the host has ended")
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.gather(*(plugin.settled() for plugin in plugins))


class ClientChannel:
    """The WebSocket of a worker, as a `FrameChannel`."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def receive(self) -> str | bytes | None:
        """See `FrameChannel`."""
        try:
            return await self._connection.recv()
        except ConnectionClosed:
            return None

    async def send(self, data: str | bytes) -> None:
        """See `FrameChannel`."""
        try:
            await self._connection.send(data)
        except ConnectionClosed as error:
            raise ConnectionResetError(str(error)) from error

    async def close(self, code: int, reason: str) -> None:
        """See `FrameChannel`."""
        await self._connection.close(code, reason)


def _context_of(settings: WorkerSettings, clock: Callable[[], float]) -> PluginContext:
    """Return the settings of plugins of a worker: those of a host over the data directory of the worker."""
    plugins = settings.data_dir / "plugins"
    return PluginContext(
        log_folder=settings.data_dir / "logs" / "plugins",
        register=Register(plugins / "processes"),
        environments=Environments(plugins / "environments", DEFAULT_START_LIMITS),
        catalog=PluginCatalog(),
        containment="auto",
        connection_limits=DEFAULT_CONNECTION_LIMITS,
        process_limits=DEFAULT_PROCESS_LIMITS,
        start_limits=DEFAULT_START_LIMITS,
        clock=clock,
        notice=lambda _kind, _key, _text: None,
        data_dir=settings.data_dir.resolve(),
        sandbox=find_sandbox,
        start=start_plugin,
    )


def _refusal(error: InvalidStatus) -> str:
    """Return why the handshake was refused. UnauthorizedError or InvalidArgumentError if that is for good."""
    status = error.response.status_code
    try:
        body: Any = json.loads(error.response.body or b"")
        detail = str(body["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the handshake was answered with status {status}"
    if status in {401, 403}:
        raise UnauthorizedError(f"the host refuses this worker: {detail}")
    if status in _REFUSED:
        raise InvalidArgumentError(f"this is no host of workers: {detail}")
    return detail
