"""The remote workers that are connected to this host: who has room for which run, and what each one did."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

import msgspec

from hostler.domain import worker_limits as limits
from hostler.domain.worker_labels import check_labels, check_worker_id
from hostler.host.worker_places import HANDED_ON, WorkerPlaces
from hostler.plugins.connection import PluginConnection
from hostler.plugins.context import RunningPlugin, StartPlugin
from hostler.plugins.remote_workers.streams import FrameChannel
from hostler.plugins.remote_workers.wire import Hello, Welcome, encode, read_from_worker
from hostler.plugins.remote_workers.worker import RemoteWorker
from hostler.plugins.supervisor import Supervisor
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import Joining, StoredWorker, WorkerState
from hostler.storage.stores.run_rows import Run
from hostler.version import VERSION
from hostler_protocol.errors import (
    ConflictError,
    InvalidArgumentError,
    NotFoundError,
    PluginProtocolError,
    PluginStartError,
    StorageError,
    UnavailableError,
)

MAX_CONNECTIONS = 2_000
"""Connections of workers to one host at once, of all workspaces."""
EMPTY_SECONDS = 10.0
"""How long the record of a lost worker waits for the end of its attempts."""
log = logging.getLogger(__name__)


class RemoteWorkers:
    """The remote workers that are connected to this host.

    `prepare`: called with the id of a runner before its plugin is looked up. `look`: called when runs may
    find room.
    """

    def __init__(
        self,
        db: Database,
        host_id: str,
        supervisor: Supervisor,
        *,
        prepare: Callable[[str], None] = lambda _: None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._db = db
        self._host_id = host_id
        self._supervisor = supervisor
        self._prepare = prepare
        self._look = look
        self.places = WorkerPlaces()
        self._joining = asyncio.Lock()
        self._serving = 0
        self._beats: dict[str, asyncio.Task[None]] = {}

    # -- attempts ---------------------------------------------------------------------------------

    async def connection(self, run: Run) -> PluginConnection | None:
        """Return the connection to the plugin of an attempt that has a place here; None if it has none.

        Raises PluginStartError; UnavailableError if its worker was lost, so that the run is queued again.
        """
        place = self.places.of(run)
        if place is None:
            return None
        self._prepare(run.runner_id)
        plugin_key = run.runner_id.removeprefix("plugin:").rpartition("/")[0]
        source = self._supervisor.source_of(plugin_key)
        if source is None:
            raise NotFoundError(f"there is no plugin {plugin_key} on this host")
        worker = place.worker
        place.outcome = HANDED_ON
        context = self._supervisor.context_for(_checked(worker, self._supervisor), worker.name)
        try:
            return await worker.connection(plugin_key, source, context)
        except PluginStartError as error:
            if not self.places.refuse(place):
                raise
            text = f"worker {worker.worker_id} cannot start {plugin_key}, another one may: {error.message}"
            log.warning("%s", text)
            raise UnavailableError(text) from error

    def replace(self, connection: PluginConnection, why: str) -> None:
        """Start later runs of a plugin on another process than this one, wherever it is."""
        for worker in self.places.workers():
            worker.replace(connection, why)

    def retire(self, plugin_key: str) -> None:
        """Start later runs of a plugin from its present files, at every worker."""
        for worker in self.places.workers():
            worker.retire(plugin_key)

    async def wait_free(self, run_ids: Collection[str], seconds: float) -> None:
        """Wait until no plugin of a worker works on these runs, which the host has ended."""
        ids = list(run_ids)
        await asyncio.gather(*(one.wait_free(ids, seconds) for one in self.places.workers()))

    # -- connections ------------------------------------------------------------------------------

    async def serve(self, workspace_id: str, key_id: str, channel: FrameChannel) -> str:
        """Serve a worker from its first message to the end of its connection; return why that ended.

        ConflictError while another process has its id; InvalidArgumentError for a wrong first message;
        RateLimitedError for too many workers, UnavailableError for too many connections.
        """
        if self._serving >= MAX_CONNECTIONS:
            raise UnavailableError(f"{MAX_CONNECTIONS:,} workers are connected, which is the most: try again")
        self._serving += 1
        try:
            return await self._serve(workspace_id, key_id, channel)
        finally:
            self._serving -= 1

    async def _serve(self, workspace_id: str, key_id: str, channel: FrameChannel) -> str:
        hello = await _hello(channel)
        name = (workspace_id, hello.worker_id)
        async with self._joining:
            before = self.places.worker(*name)
            if before is not None and before.hello.process == hello.process:
                before.end("the same process has connected again", again=False)
                self.places.leave(before)
                before = None
            worker = await self._join(workspace_id, key_id, hello, connected_here=before is not None)
            self.places.enter(worker)
        log.info("%s has joined, with %d slots and %s", worker.name, hello.slots, sorted(worker.labels))
        why = "the host failed"
        try:
            await channel.send(_welcome(worker))
            self._look()
            why = await worker.serve(channel)
        finally:
            self.places.leave(worker)
            log.warning("%s has left: %s", worker.name, why)
            await self._left(worker, why)
        return why

    async def _join(
        self, workspace_id: str, key_id: str, hello: Hello, *, connected_here: bool
    ) -> RemoteWorker:
        session = secrets.token_hex(16)
        joining = Joining(
            workspace_id=workspace_id,
            worker_id=hello.worker_id,
            process=hello.process,
            session=session,
            host_id=self._host_id,
            labels=tuple(hello.labels),
            slots=hello.slots,
            version=hello.version,
            machine=msgspec.to_builtins(hello.machine),
            key_id=key_id,
        )
        stale_ms = int(limits.STALE_SECONDS * 1000)

        def join(tx: Tx) -> WorkerState:
            known = stored.find(tx, workspace_id, hello.worker_id)
            state = stored.join(tx, joining, stale_ms=stale_ms, connected_here=connected_here)
            if known is None or known.process != hello.process:
                body = {"key_id": key_id, "labels": sorted(hello.labels), "slots": hello.slots}
                audit.record(tx, workspace_id, f"key:{key_id}", "worker.joined", hello.worker_id, body)
            return state

        worker = RemoteWorker(
            workspace_id,
            hello,
            session,
            on_beat=lambda: self._beat(worker),
            on_drain=lambda: self._drain(worker),
        )
        worker.state = await self._db.write(join)
        return worker

    async def _left(self, worker: RemoteWorker, why: str) -> None:
        beat = self._beats.pop(worker.session, None)
        if beat is not None:
            await asyncio.wait([beat])
        if worker.held:
            worker.emptied.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(EMPTY_SECONDS):
                    await worker.emptied.wait()  # what its attempts came to is recorded as well
        try:
            await self._write_hours(worker)
            await self._db.write(
                lambda tx: stored.leave(tx, worker.workspace_id, worker.worker_id, worker.session, why)
            )
        except StorageError as error:
            log.warning("the end of %s is not recorded: %s", worker.name, error.message)
        self._look()

    # -- heartbeats -------------------------------------------------------------------------------

    def _beat(self, worker: RemoteWorker) -> None:
        """Record a sign of life, unless the one before is still being recorded."""
        if worker.session not in self._beats and worker.why is None:
            task = asyncio.get_running_loop().create_task(self._record(worker), name=f"beat of {worker.name}")
            self._beats[worker.session] = task
            task.add_done_callback(lambda task: self._recorded(worker, task))

    def _recorded(self, worker: RemoteWorker, task: asyncio.Task[None]) -> None:
        if self._beats.get(worker.session) is task:
            del self._beats[worker.session]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a heartbeat of %s was not recorded", worker.name, exc_info=error)

    async def _record(self, worker: RemoteWorker) -> None:
        ws, worker_id, session = worker.workspace_id, worker.worker_id, worker.session
        try:
            await self._write_hours(worker)
            beat = partial(stored.beat, active=len(worker.held), drains=worker.drains_itself)
            state = await self._db.write(lambda tx: beat(tx, ws, worker_id, session))
        except StorageError as error:
            log.warning("a heartbeat of %s is not recorded: %s", worker.name, error.message)
            return
        if state is None:
            worker.end("it was removed, or its id is used by another connection", again=False)
        else:
            self._set_state(worker, state)

    async def _write_hours(self, worker: RemoteWorker) -> None:
        for hour in self.places.take_hours(worker):
            await self._db.write(
                partial(stored.add, workspace_id=worker.workspace_id, worker_id=worker.worker_id, hour=hour)
            )

    # -- what operators ask for -------------------------------------------------------------------

    async def change(self, workspace_id: str, worker_id: str, state: WorkerState, actor: str) -> StoredWorker:
        """Change whether a worker gets new runs, on whichever host it is. NotFoundError."""

        def write(tx: Tx) -> StoredWorker:
            found = stored.set_state(tx, workspace_id, worker_id, state)
            audit.record(tx, workspace_id, actor, f"worker.{state}", worker_id, {})
            return found

        found = await self._db.write(write)
        worker = self.places.worker(workspace_id, worker_id)
        if worker is not None:
            self._set_state(worker, state)
        return found

    async def remove(self, workspace_id: str, worker_id: str, actor: str) -> None:
        """Forget a worker; if it is connected its attempts end, and its process too. NotFoundError."""

        def write(tx: Tx) -> None:
            stored.remove(tx, workspace_id, worker_id)
            audit.record(tx, workspace_id, actor, "worker.removed", worker_id, {})

        await self._db.write(write)
        worker = self.places.worker(workspace_id, worker_id)
        if worker is not None:
            worker.end("it was removed", again=False)

    def _drain(self, worker: RemoteWorker) -> None:
        """Drain a worker that asks for it."""
        if not worker.drains_itself:
            self._set_state(worker, "draining", by_itself=True)
            self._beat(worker)

    def _set_state(self, worker: RemoteWorker, state: WorkerState, *, by_itself: bool = False) -> None:
        if worker.drains_itself and not by_itself:
            return
        worker.drains_itself = worker.drains_itself or by_itself
        worker.state = state
        worker.has_emptied()
        if state == "active":
            self._look()

    async def close(self) -> None:
        """End all connections: the host stops, and its workers connect again."""
        for worker in self.places.workers():
            worker.end("the host was stopped", again=True)


async def _hello(channel: FrameChannel) -> Hello:
    try:
        async with asyncio.timeout(limits.HELLO_SECONDS):
            frame = await channel.receive()
        if not isinstance(frame, str):
            raise InvalidArgumentError("the first message of a worker is a text: its hello")
        hello = read_from_worker(frame)
        if not isinstance(hello, Hello):
            raise InvalidArgumentError("the first message of a worker is its hello")
        check_worker_id(hello.worker_id)
        check_labels(hello.labels)
    except TimeoutError:
        raise InvalidArgumentError(f"no hello came within {limits.HELLO_SECONDS:g} s") from None
    except (PluginProtocolError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from error
    if hello.protocol != limits.PROTOCOL:
        raise ConflictError(
            f"the worker speaks version {hello.protocol} of the protocol of workers, and this host version "
            f"{limits.PROTOCOL}: install the same version of hostler (this is {VERSION})"
        )
    return hello


def _welcome(worker: RemoteWorker) -> str:
    return encode(
        Welcome(
            session=worker.session,
            version=VERSION,
            beat_seconds=limits.BEAT_SECONDS,
            quiet_seconds=limits.QUIET_SECONDS,
        )
    )


def _checked(worker: RemoteWorker, supervisor: Supervisor) -> StartPlugin:
    """Return the start of plugins on a worker; a runner is what this host knows it to be, if it knows it."""

    async def start(key: str, *args: object, **kwargs: object) -> RunningPlugin:
        running = await worker.start_plugin(key, *args, **kwargs)  # type: ignore[arg-type]
        known, offered = supervisor.catalog.of_plugin(key), running.connection.runners
        if known:
            running.connection.runners = {name: one for name, one in known.items() if name in offered}
        return running

    return start
