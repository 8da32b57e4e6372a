"""The host: the one place that builds everything, starts it and ends it in order."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal

import msgspec

from hostler.calls.cursors import Cursors
from hostler.calls.gate import Gate
from hostler.calls.run_tokens import RunDoors
from hostler.calls.scope import Services
from hostler.domain.config_changes import ConfigDiff, ConfigProblem
from hostler.domain.events import Caller
from hostler.domain.grants import Catalog
from hostler.domain.retention import Retention
from hostler.host.apply_config import Configurator, LiveModels
from hostler.host.audit_heads import AuditHeads
from hostler.host.bundled import shipped_runner
from hostler.host.config import ConfigFile, Settings
from hostler.host.config_entries import EntryKind
from hostler.host.config_file import ConfigSource, read_config_file
from hostler.host.data_directory import check_address, check_database, note_database
from hostler.host.diagnosis import Diagnosis, silent_sources
from hostler.host.inventory import Inventories
from hostler.host.lease import BEATS_PER_LEASE, HostLease, host_id_of
from hostler.host.lock import DataDirLock, Holder, RemovalGate
from hostler.host.maintenance import HostData, keep_tidy
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.webhooks import WebhookSender
from hostler.host.workers import Workers
from hostler.journal.feed import OWN_POLL_SECONDS, SHARED_POLL_SECONDS, Feed, Seen, StoredResult
from hostler.pauses.explicit import ExplicitPauses
from hostler.pauses.service import PauseService
from hostler.plugins.connection import PluginConnection
from hostler.plugins.source import Folder
from hostler.plugins.supervisor import Supervisor
from hostler.plugins.tool_servers import McpProcesses
from hostler.runs.attempt import ActiveRun
from hostler.runs.attempt_parts import Equipment
from hostler.runs.child_runs import RunController
from hostler.runs.dispatch import LOOK_SECONDS, Dispatcher
from hostler.runs.filters import FilterProcesses
from hostler.runs.orchestrator import Accepted, Orchestrator
from hostler.runs.preparation import Preparer
from hostler.runs.projections import Projector
from hostler.runs.records import record
from hostler.runs.recovery import recover, settle_lost
from hostler.runs.rerouting import Rerouter
from hostler.runs.reruns import Reruns
from hostler.runs.routing import EventRouter
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import hosts, installation, journal, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.redactions import take_over
from hostler.storage.stores.run_endings import end_waiting
from hostler.storage.stores.run_rows import Run
from hostler.tools.builtin.exec import ExecTools
from hostler.tools.builtin.fetch import FetchTools
from hostler.tools.builtin.files import FilesTools
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiTools
from hostler.tools.pins import StoredPins
from hostler.tools.plugin_tools import PluginTools
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSources
from hostler.tools.workspaces.folders import WorkingFolders
from hostler.version import NAME, VERSION
from hostler_protocol.calls import HostInfo
from hostler_protocol.errors import NotFoundError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from hostler_protocol.runs import TERMINAL_STATUSES, RunRecord

log = logging.getLogger(__name__)

MCP_SECONDS = 20.0
"""What MCP servers that were never seen get to list their tools, before the first event is taken."""
ROUTED_LOOK_SECONDS = 0.2
"""From one look at a deferred event that is waited for to the next; whichever host routes it."""
HostState = Literal["starting", "ready", "draining", "stopped"]


class Host:
    """One host process over one data directory. Use `open`."""

    def __init__(
        self, settings: Settings, lock: DataDirLock, knowledge: KnowledgeService | None = None
    ) -> None:
        self.settings = settings
        self.knowledge = knowledge
        self.state: HostState = "starting"
        self.started_at = time.time()
        self._lock = lock
        self.host_id = host_id_of(settings.data_dir)
        self.db = open_database(settings.database_url)
        self.blobs = BlobFolder(settings.data_dir / "blobs")
        self.gate = Gate()
        self.models = LiveModels()
        self.sandboxes = AuditedSandboxes(self.db, settings.workspace)
        self.supervisor = Supervisor(settings.data_dir, sandbox=self.sandboxes.find)
        self.filters = FilterProcesses()
        self.feed = Feed(
            self._read_results,
            OWN_POLL_SECONDS if self.db.dialect == "sqlite" else SHARED_POLL_SECONDS,
        )
        self.event_router = EventRouter(self.db, self.filters)
        self.assets = RunDoors(settings.assets_url)
        self.skills = Skills(self.db, settings.workspace)
        self.folders = WorkingFolders(settings.data_dir / "workspaces")
        built_in = (ExecTools(self.folders, self.sandboxes.find), FilesTools(self.folders))
        openapi = OpenApiTools(settings.workspace, settings.data_dir / "openapi")
        self.web = (FetchTools(settings.workspace), openapi)
        self.pins = StoredPins(self.db, settings.workspace)
        servers = McpContext(McpProcesses(settings.data_dir, self.sandboxes.find), self.pins)
        self.mcp = McpTools(settings.workspace, servers, running=not settings.passive)
        self.tools = ToolSources(
            [
                PluginTools(self.supervisor.catalog, self.supervisor.connection),
                self.skills,
                *built_in,
                self.mcp,
                *self.web,
            ],
            on_refused=self.pins.refuse,
        )
        self.inventories = Inventories(
            self.db,
            settings.workspace,
            self.supervisor,
            self.tools,
            self.skills,
            partial(silent_sources, self.mcp, openapi, settings.workspace),
            not settings.passive,
            knowledge,
        )
        self.configurator = Configurator(
            self.db,
            settings.workspace,
            self.supervisor,
            self.models,
            self.event_router,
            skills=self.skills,
            tools=(*built_in, self.mcp, *self.web),
            working_folders=self.folders.configure,
            inventories=self.inventories,
        )
        self.diagnosis = Diagnosis(
            settings.workspace, self.configurator, self.inventories, self.event_router, self.mcp, openapi
        )
        self.run_controller = RunController(self.db)
        self.dispatcher = Dispatcher(
            self.db,
            lambda: self._lease.member,
            self._execution,
            _fail,
            lambda lost: settle_lost(self.db, lost, self._is_resumable),
            max_active=settings.max_active_runs,
            max_queued=settings.max_queued_runs,
            max_per_workspace=settings.max_runs_per_workspace,
            max_per_plugin=settings.max_runs_per_plugin,
        )
        self.orchestrator = Orchestrator(
            self.db, self.blobs, self.event_router, self.dispatcher, self.feed, can_steer=self._can_steer
        )
        self.rerouter = Rerouter(self.db, self.event_router, self.orchestrator)
        self.orchestrator.on_deferred = self.rerouter.wake
        self.webhook_sender = WebhookSender(self.db, settings.workspace)
        self.pauses = PauseService(self.db, pin=self.tools.pin)
        self.run_controller.attach(self.orchestrator, self.wait)
        self.pauses.listen(self.dispatcher.pause_changed)
        self.pauses.attach(self.orchestrator.cancelled)
        self.reruns = Reruns(
            self.db, self.blobs, self.dispatcher, lambda: self.orchestrator.accepting, VERSION
        )
        self.cursors: Cursors
        self._equipment: Equipment
        self._lease = HostLease(
            self.db,
            self.host_id,
            f"{socket.gethostname()}:{settings.port}",
            settings.lease_seconds,
            lambda: recover(self.db, self._is_resumable),
            self._end_work,
            self.dispatcher.look,
            member=Membership(self.host_id) if self.db.dialect == "sqlite" else None,
        )
        self.data = HostData(self.db, self.blobs, self.folders, RemovalGate(settings.data_dir))
        self.audit_heads = AuditHeads(self.db, settings.data_dir)
        self.workers = Workers()

    # -- start and end ----------------------------------------------------------------------------

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, *, knowledge: KnowledgeService | None = None
    ) -> AsyncIterator[Host]:
        """A started host, ended in order when the block is left. `knowledge` serves its knowledge bases.

        ConflictError where another host has the data directory; StorageError; InvalidArgumentError for a
        wrong configuration, or a database that is not the directory's.
        """
        with DataDirLock(settings.data_dir) as lock:
            lock.acquire(Holder(pid=os.getpid(), started_at=time.time(), version=VERSION))
            check_address(settings.data_dir, settings.database)
            host = cls(settings, lock, knowledge)
            try:
                await host.start()
                yield host
            finally:
                await host.stop()

    async def start(self) -> None:
        """Bring everything up, settle what an earlier host left, then take events."""
        key, identity = await self.db.write(
            lambda tx: (installation.key(tx, "cursors"), installation.identity(tx))
        )
        check_database(self.settings.data_dir, self.settings.database, identity)
        note_database(self.settings.data_dir, self.settings.database, identity)
        await take_over(self.db)
        await self.audit_heads.try_note()
        self.cursors = Cursors(key)
        self._equip()
        self.supervisor.sweep_orphans()
        await self.configurator.load()
        for plugin_key in await self.db.read(keys.remote_plugins):
            self.supervisor.expect(plugin_key)
        if self.settings.config is not None:
            config, source = await asyncio.to_thread(read_config_file, self.settings.config)
            await self.configurator.apply(
                config,
                actor="config file",
                prune=self.settings.prune,
                source=source,
                discovery_seconds=self.settings.plugin_start_seconds,
            )
        if not self.settings.passive:
            await self._begin_work()
        self.state = "ready"

    async def _begin_work(self) -> None:
        if self.db.dialect == "postgres":
            await self._lease.begin()
            beat = self.settings.lease_seconds / BEATS_PER_LEASE  # nobody else sees in time that it is lost
            self.workers.start("lease", self._lease.keep, longest_wait=beat)
            self.workers.start("recovery", self._lease.watch_others)
        for agent in await self.event_router.agents(self.settings.workspace):
            self._add_shipped(agent.spec.runner)
        started = await self.supervisor.start_all(self.settings.plugin_start_seconds)
        for plugin_key, error in started.items():
            if error is not None:
                log.error("plugin %s does not start: %s", plugin_key, error.message)
        # the lock on the data directory proves that whoever had this host id before is gone
        await recover(self.db, self._is_resumable)
        await self.mcp.wait_for_lists(MCP_SECONDS)
        settings = self.settings
        retention = partial(keep_tidy, self.data, self._retention, settings.collect_seconds)
        self.workers.start("dispatcher", self.dispatcher.work, longest_wait=LOOK_SECONDS)
        self.workers.start("retention", retention)
        self.workers.start("audit heads", partial(self.audit_heads.keep, settings.note_heads_seconds))
        self.workers.start("webhooks", self.webhook_sender.work)
        self.workers.start("pauses", self.pauses.keep_swept)
        self.workers.start("agent review", self.diagnosis.watch().keep)
        self.workers.start("rerouting", self.rerouter.work)
        self.orchestrator.accepting = True

    def announce(self, url: str) -> None:
        """Write down where this host serves HTTP, for commands that look for it."""
        holder = Holder(pid=os.getpid(), started_at=self.started_at, url=url, version=VERSION)
        self._lock.note(holder)

    async def drain(self) -> None:
        """Take no new events, let runs finish for a while, hand over the rest; watchers see how they end."""
        self.state = "draining"
        self.orchestrator.accepting = False
        await self.dispatcher.stop(self.settings.shutdown_grace_seconds)

    async def stop(self) -> None:
        """Drain, then end all processes and close what is open, the database last.

        Each failure is logged, and the others still end; one of the failures is raised.
        """
        closers: list[tuple[str, Callable[[], Awaitable[None] | None]]] = [
            ("runs", self.drain),
            ("background work", self.workers.stop),
            ("plugins", partial(self.supervisor.close, 0)),
            ("filters", self.filters.close),
            ("models", self.models.close),
            ("MCP servers", self.mcp.close),
            *((type(web).__name__, web.close) for web in self.web),
            ("working folders", self.folders.close),
            ("removals of files", self.blobs.settle),
            ("files", self.blobs.close),
            ("sandboxes", self.sandboxes.close),
            ("lease", self._lease.end),
            ("audit heads", self.audit_heads.try_note),
            ("database", self.db.close),
        ]
        closing = AsyncExitStack()
        for name, close in reversed(closers):
            closing.push_async_callback(_close, name, close)
        try:
            await closing.aclose()
        finally:
            self.state = "stopped"

    def _equip(self) -> None:
        services = Services(
            db=self.db,
            blobs=self.blobs,
            cursors=self.cursors,
            models=self.models,
            runs=self.run_controller,
            info=HostInfo(name=NAME, version=VERSION, protocol=PROTOCOL_VERSION, limits=Limits()),
            clock=time.time,
            tools=self.tools,
            knowledge=self.knowledge,
        )
        explicit_pauses = ExplicitPauses(self.db, self.blobs, self.tools, self.configurator.vault)
        preparer = Preparer(services, self.blobs, self._catalog, VERSION, explicit_pauses)
        self._equipment = Equipment(
            db=self.db,
            feed=self.feed,
            gate=self.gate,
            connect=self._connect,
            replace=self.supervisor.replace,
            prepare=preparer.prepare,
            projector=Projector(self.blobs),
            blobs=self.blobs,
            host_id=self.host_id,
            cancel_grace_seconds=self.settings.cancel_grace_seconds,
            hold_seconds=self.settings.hold_seconds,
            explicit_pauses=explicit_pauses,
            assets=self.assets,
            stall_seconds=self.settings.stall_seconds,
        )

    async def _end_work(self, why: str) -> None:
        """The lease was lost: end every attempt, and wait until the plugins work on none of them any more."""
        ended = await self.dispatcher.end_all(why)
        await self.supervisor.wait_free(ended)

    @property
    def lost_lease(self) -> str | None:
        """Why this host works on no run at present; None: it does, as far as its lease goes."""
        return self._lease.lost_because

    # -- what the core asks -----------------------------------------------------------------------

    async def _retention(self) -> Retention:
        return (await self.export()).retention or Retention()

    def _execution(self, run: Run) -> ActiveRun:
        return ActiveRun(self._equipment, run)

    def _add_shipped(self, runner_id: str) -> None:
        """A runner that comes with the host needs no plugin entry; an entry of that name goes before it."""
        try:
            plugin_key, _ = split_runner_id(runner_id)
        except ValueError:
            return  # of an agent that was stored unchecked: its runs end with the reason
        if plugin_key not in self.supervisor and (folder := shipped_runner(plugin_key)) is not None:
            self.supervisor.add(Folder(folder))

    async def _connect(self, runner_id: str) -> PluginConnection:
        self._add_shipped(runner_id)
        plugin_key, _ = split_runner_id(runner_id)
        return await self.supervisor.connection(plugin_key)

    def _catalog(self) -> Catalog:
        tools = self.tools.offered(self.settings.workspace)
        return Catalog(
            models={model.model_id: model.resource() for model in self.models.list()},
            tools={name: tool.resource for name, tool in tools.items()},
            tool_pins={name: tool.pin for name, tool in tools.items()},
            skills=self.skills.resources(),
            knowledge_bases=self.knowledge.offered(self.settings.workspace) if self.knowledge else {},
            interactions=True,
        )

    def _is_resumable(self, runner_id: str) -> bool:
        return self.supervisor.catalog.is_resumable(runner_id)

    def _can_steer(self, runner_id: str) -> bool:
        manifest = self.supervisor.catalog.find(runner_id)
        return manifest is not None and manifest.capabilities.steering

    async def _read_results(self, run_id: str, after: int, at_most: int) -> Seen:
        def look(tx: Tx) -> Seen:
            run = runs.by_id(tx, run_id)
            page = journal.results(tx, run_id, after, max_items=at_most)
            results = [
                StoredResult.of(run_id, entry.sequence or 0, entry.type, entry.data.encode())
                for entry in page.items
            ]
            return Seen(results, run is None or run.status in TERMINAL_STATUSES)

        return await self.db.read(look)

    # -- the face of the host ---------------------------------------------------------------------

    async def accept(
        self, envelope: EventEnvelope, caller: Caller, *, delay: float | None = None
    ) -> Accepted:
        """Store an event and open its run. See `Orchestrator.accept`."""
        return await self.orchestrator.accept(envelope, caller, delay=delay)

    async def routed(self, workspace_id: str, accepted: Accepted, seconds: float) -> Accepted:
        """What became of a deferred event once its agent is known, or as it stands when the time is over.

        UnavailableError where that could not be found out.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            known = await self.orchestrator.known(workspace_id, accepted)
            left = until - asyncio.get_running_loop().time()
            if known.outcome != "deferred" or left <= 0:
                return known
            await asyncio.sleep(min(left, ROUTED_LOOK_SECONDS))

    async def cancel(
        self, workspace_id: str, run_id: str, *, reason: str, actor: str, grace: float | None = None
    ) -> RunRecord:
        """Ask for the end of a run; after `grace` seconds (None: the host's) it ends. NotFoundError."""
        await self.orchestrator.cancel(workspace_id, run_id, reason=reason, actor=actor, grace=grace)
        return await self.run_record(workspace_id, run_id)

    async def run_record(self, workspace_id: str, run_id: str) -> RunRecord:
        """A run with its output. NotFoundError."""
        return await self.db.read(lambda tx: record(tx, workspace_id, run_id), brief=True)

    async def wait(
        self, workspace_id: str, run_id: str, seconds: float, *, accepted: bool = False
    ) -> RunRecord:
        """The run once it is terminal or paused, or as it stands when the time is over. NotFoundError.

        `accepted`: the workspace has just been given this run, so that nobody need look.
        """
        results = self.feed.watch(run_id) if accepted else self.watch(workspace_id, run_id)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                async for batch in results:
                    if batch[-1].type == "run.paused":
                        break
        except TimeoutError:
            pass
        return await self.run_record(workspace_id, run_id)

    async def watch(
        self, workspace_id: str, run_id: str, after: int = 0
    ) -> AsyncIterator[list[StoredResult]]:
        """The run's results after a sequence, each once, until the terminal one. NotFoundError."""
        run = await self.db.read(lambda tx: runs.find(tx, workspace_id, run_id), brief=True)
        if run is None:
            raise NotFoundError(f"there is no run {run_id!r}")
        async for batch in self.feed.watch(run_id, after):
            yield batch

    async def apply(
        self,
        config: ConfigFile,
        *,
        actor: str,
        dry_run: bool = False,
        prune: bool = False,
        source: ConfigSource | None = None,
    ) -> ConfigDiff:
        """Make a configuration hold; its plugins are started. See `Configurator.apply`."""
        diff = await self.configurator.apply(config, actor=actor, dry_run=dry_run, prune=prune, source=source)
        return await self._applied(diff)

    async def put_entry(
        self, kind: EntryKind, data: dict[str, Any], *, actor: str, name: str | None = None
    ) -> ConfigDiff:
        """Store one entry of the configuration. See `Configurator.put`."""
        return await self._applied(await self.configurator.put(kind, data, actor=actor, name=name))

    async def remove_entry(self, kind: EntryKind, name: str, *, actor: str) -> ConfigDiff:
        """Remove one entry of the configuration. NotFoundError."""
        return await self._applied(await self.configurator.remove(kind, name, actor=actor))

    async def _applied(self, diff: ConfigDiff) -> ConfigDiff:
        """Start the plugins of a change, and add what does not work now."""
        if not diff.applied:
            return diff
        if not self.settings.passive:
            await self.supervisor.start_all()
        return msgspec.structs.replace(diff, problems=await self.problems())

    async def problems(self) -> list[ConfigProblem]:
        """What does not work of the configuration right now. See `Diagnosis.problems`."""
        return await self.diagnosis.problems()

    async def export(self) -> ConfigFile:
        """The configuration as it stands."""
        return await self.configurator.export()


async def _close(name: str, close: Callable[[], Awaitable[None] | None]) -> None:
    try:
        closing = close()
        if closing is not None:
            await closing
    except Exception:  # the top of what ends one part of a host
        log.exception("the end of a host: %s could not be closed; the rest is", name)
        raise


def _fail(tx: Tx, run: Run) -> None:
    """End a run that this host could not carry through."""
    current = runs.by_id(tx, run.run_id)
    if current is None or current.attempt != run.attempt or not hosts.holds(tx, run.member):
        return  # it is not this host's any more
    if current.status not in TERMINAL_STATUSES:
        error = "the host failed to carry this run through; its log says why"
        end_waiting(tx, current, "failed", "host.error", error, actor="host")
