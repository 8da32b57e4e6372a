"""The host: opens its parts, starts and ends its work in order, and accepts what callers ask of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal

import msgspec

from hostler.calls.cursors import Cursors
from hostler.domain.config_changes import ConfigDiff, ConfigProblem
from hostler.domain.retention import Retention
from hostler.host.audit_check import AuditCheck
from hostler.host.config import ConfigFile, Settings
from hostler.host.config_entries import EntryKind
from hostler.host.config_file import ConfigSource, read_config_file
from hostler.host.data_directory import check_address, check_database, note_database
from hostler.host.doctor_report import DoctorReport, stored_findings
from hostler.host.host_problems import HostProblems, redacted
from hostler.host.lease import BEATS_PER_LEASE
from hostler.host.lock import DataDirLock, Holder
from hostler.host.machine import THIS_MACHINE, Machine
from hostler.host.maintenance import keep_tidy
from hostler.host.moved_secrets import MovedSecrets
from hostler.host.parts import Installation
from hostler.host.planned_config import merged
from hostler.host.plugin_entries import add_shipped_runner
from hostler.host.run_parts import RunParts
from hostler.runs.dispatch import LOOK_SECONDS
from hostler.runs.orchestrator import Accepted
from hostler.runs.recovery import recover
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import installation, timeline
from hostler.storage.stores.redactions import take_over
from hostler.tools.knowledge.port import KnowledgeService
from hostler.version import VERSION
from hostler_protocol.errors import StorageError
from hostler_protocol.runs import RunRecord

log = logging.getLogger(__name__)

CONFIGURATION_SECONDS = 2.0
"""Between looks for changes by other hosts of one database: one row by its key."""
MCP_SECONDS = 20.0
"""How long unknown MCP servers get to list their tools before the first event is accepted."""
ROUTED_POLL_SECONDS = 0.2
"""Between two reads of a deferred event that is waited for; any host may route it."""
HostState = Literal["starting", "ready", "draining", "stopped"]


class Host:
    """One host process over one data directory. Use `open`."""

    def __init__(self, lock: DataDirLock, parts: Installation, run_parts: RunParts) -> None:
        self.settings = parts.settings
        self.state: HostState = "starting"
        self.started_at = time.time()
        self.workers = parts.workers
        self._lock = lock
        self.db, self.cursors, self.knowledge = parts.db, parts.cursors, parts.knowledge
        self.bases, self._indexer = parts.bases, parts.indexer
        self.data, self.blobs, self.folders = parts.data, parts.data.blobs, parts.data.folders
        self.sandboxes, self.supervisor, self.models = parts.sandboxes, parts.supervisor, parts.models
        self.tools, self.skills, self.mcp = parts.tools.sources, parts.tools.skills, parts.tools.mcp
        self.web = (parts.tools.fetch, parts.tools.openapi)
        self.filters, self.event_router = parts.filters, parts.event_router
        self.allowances, self.providers = parts.tools.allowances, parts.providers
        self.pins = parts.pins
        self.inventories, self.configurator = parts.inventories, parts.configurator
        self.diagnosis, self.master_key, self.secrets = parts.diagnosis, parts.master_key, parts.secrets
        self.moved_secrets = MovedSecrets(
            parts.db,
            parts.secrets,
            parts.entry_sealing,
            parts.supervisor.catalog.form_of,
            parts.configurator.load,
            parts.event_router.changed,
        )
        self.sealing, self.sealing_upkeep = parts.sealing, parts.sealing_upkeep
        self.runs, self.feed, self.gate = run_parts.reader, run_parts.reader.feed, run_parts.gate
        self.assets, self.audit_heads = run_parts.tokens, run_parts.audit_heads
        self.audit_anchors = run_parts.audit_anchors
        self.audit_check = AuditCheck(parts.db, parts.settings.data_dir)
        self.doctor = DoctorReport(
            parts.settings.data_dir,
            parts.workers.all,
            parts.supervisor.status,
            self.problems,
            partial(stored_findings, parts.db, parts.settings.workspace),
        )
        self.dispatcher, self.orchestrator = run_parts.dispatcher, run_parts.orchestrator
        self.rerouter, self.reruns, self.pauses = run_parts.rerouter, run_parts.reruns, run_parts.pauses
        self.trials, self.scheduler = run_parts.trials, run_parts.scheduler
        self.replays, self.push_sender = run_parts.replays, run_parts.push_sender
        self.hooks, self.widgets = run_parts.hooks, run_parts.widgets
        self.channels, self.channel_requests = run_parts.channels, run_parts.channel_requests
        self.remote_workers = run_parts.remote_workers
        self._problems = HostProblems(
            self.diagnosis,
            self.audit_anchors,
            self.master_key,
            self.providers,
            self.sealing_upkeep,
            self.hooks,
            self.widgets,
        )
        self.webhook_sender, self.freed = run_parts.webhook_sender, run_parts.attempt_services.freed
        self._attempt_services, self._lease = run_parts.attempt_services, run_parts.lease

    # -- start and end ----------------------------------------------------------------------------

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        knowledge: KnowledgeService | None = None,
        machine: Machine = THIS_MACHINE,
    ) -> AsyncIterator[Host]:
        """Open and start a host; end it in order after the block.

        `knowledge`: what serves its knowledge bases; None: it keeps them itself.

        ConflictError if another host has the data directory; StorageError; InvalidArgumentError for an
        invalid configuration, or a database that does not belong to the directory.
        """
        with DataDirLock(settings.data_dir) as lock:
            lock.acquire(Holder(pid=os.getpid(), started_at=time.time(), version=VERSION))
            check_address(settings.data_dir, settings.database)
            async with AsyncExitStack() as unfinished:
                db = machine.open_database(settings.database_url)
                unfinished.push_async_callback(db.close)
                parts = Installation(settings, db, await _open_cursors(settings, db), knowledge, machine)
                host = cls(lock, parts, RunParts(parts))
                unfinished.pop_all()  # from here on `stop` closes the database
            try:
                await host.start()
                yield host
            finally:
                await host.stop()

    async def start(self) -> None:
        """Activate the configuration, recover the runs of an earlier host, then accept events."""
        await take_over(self.db)
        await self.audit_heads.try_note()
        self.supervisor.sweep_orphans()
        if self.bases is not None:
            await self.bases.load()  # agents are checked against what there is
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
            await self._start_work()
        self.state = "ready"

    async def _start_work(self) -> None:
        if self.db.shared:
            await self._lease.begin()
            renewal = self.settings.lease_seconds / BEATS_PER_LEASE
            # no worker but this one notices in time that the lease is lost
            self.workers.start("lease", self._lease.keep, longest_wait=renewal)
            self.workers.start("recovery", self._lease.watch_others)
            self.workers.start("configuration", self._follow_configuration)
        for agent in await self.event_router.agents(self.settings.workspace):
            add_shipped_runner(self.supervisor, agent.spec.runner)
        started = await self.supervisor.start_all(self.settings.plugin_start_seconds)
        for plugin_key, error in started.items():
            if error is not None:
                log.error("plugin %s does not start: %s", plugin_key, error.message)
        # the lock on the data directory proves that the previous process with this host id has ended
        await recover(self.db, self.supervisor.catalog.is_resumable)
        await self.mcp.wait_for_lists(MCP_SECONDS)
        settings = self.settings
        retention = partial(keep_tidy, self.data, self._retention, settings.collect_seconds)
        self.workers.start("dispatcher", self.dispatcher.work, longest_wait=LOOK_SECONDS)
        self.workers.start("retention", retention)
        self.workers.start("audit heads", partial(self.audit_heads.keep, settings.note_heads_seconds))
        self.workers.start("audit anchors", self.audit_anchors.keep)
        self.workers.start("webhooks", self.webhook_sender.work)
        self.workers.start("schedules", self.scheduler.work)
        self.workers.start("push notifications", self.push_sender.work)
        self.workers.start("hooks", self.hooks.work)
        self.workers.start("sandbox audit", self.sandboxes.work)
        self.workers.start("pauses", self.pauses.keep_swept)
        self.workers.start("agent review", self.diagnosis.watch().keep)
        self.workers.start("rerouting", self.rerouter.work)
        self.workers.start("secrets", self._keep_secrets)
        self.workers.start("sealing", self.sealing_upkeep.keep)
        if self._indexer is not None:
            self.workers.start("knowledge", self._indexer.work)
        self.orchestrator.accepting = True
        self.workers.start("channels", self.channels.work)
        self.workers.start("channel requests", self.channel_requests.work)
        if self.db.shared:
            self.workers.start("forwarded requests", self.channel_requests.forwarding.work)

    async def _follow_configuration(self, succeeded: Callable[[], None]) -> None:
        """Activate what other hosts of the database change. A worker."""
        while True:
            await asyncio.sleep(CONFIGURATION_SECONDS)
            try:
                changed = await self.configurator.catch_up()
            except StorageError as error:
                log.warning("the configuration cannot be read now: %s", error.message)
                continue
            if changed:
                log.info("another host changed the configuration")
                await self.supervisor.start_all(0)  # a slow start must not keep the next change waiting
            succeeded()

    async def _keep_secrets(self, succeeded: Callable[[], None]) -> None:
        """Follow changes of secrets and keys, and audit uses. A worker."""
        loop, used = asyncio.get_running_loop(), asyncio.Event()
        self.secrets.own.on_use = lambda: _wake(loop, used)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONFIGURATION_SECONDS):
                    await used.wait()
            used.clear()
            try:
                if self.db.shared:
                    await self.secrets.follow()
                await self.secrets.note_uses()
                await self.secrets.rewrap()
                await self.configurator.entry_sealing.keep()
            except StorageError as error:
                log.warning("the stored secrets cannot be read now: %s", error.message)
                await asyncio.sleep(CONFIGURATION_SECONDS)  # whatever is used meanwhile
                continue
            succeeded()

    async def _retention(self) -> Retention:
        return (await self.export()).retention or Retention()

    def announce(self, url: str) -> None:
        """Record the URL of this host in the lock, for commands that look for it."""
        holder = Holder(pid=os.getpid(), started_at=self.started_at, url=url, version=VERSION)
        self._lock.note(holder)

    async def drain(self) -> None:
        """Refuse new events, let runs finish for the grace time, hand over the rest."""
        self.state = "draining"
        self.orchestrator.accepting = False
        await self.dispatcher.stop(self.settings.shutdown_grace_seconds)

    async def stop(self) -> None:
        """Drain, then end all processes and close all parts, the database last.

        A failure is logged and does not keep the rest from closing; one of the failures is raised at the end.
        """
        closers: list[tuple[str, Callable[[], Awaitable[None] | None]]] = [
            ("runs", self.drain),
            ("MCP servers", self.mcp.close),
            ("background work", self.workers.stop),
            ("channels", self.channels.close),
            ("webhooks", self.webhook_sender.close),
            ("remote workers", self.remote_workers.close),
            ("plugins", partial(self.supervisor.close, 0)),
            ("filters", self.filters.close),
            ("models", self.models.close),
            *((type(web).__name__, web.close) for web in self.web),
            ("identity providers", self.providers.close),
            ("working folders", self.folders.close),
            ("removals of files", self.blobs.settle),
            ("files", self.blobs.close),
            ("sandboxes", self.sandboxes.close),
            ("lease", self._lease.end),
            ("uses of secrets", self.secrets.note_uses),
            ("refusals of hooks", self.hooks.close),
            ("refusals of channels", self.channel_requests.close),
            ("audit heads", self.audit_heads.try_note),
            *(() if self.settings.passive else (("audit anchors", self.audit_anchors.finish),)),
            ("database", self.db.close),
        ]
        closing = AsyncExitStack()
        for name, close in reversed(closers):
            closing.push_async_callback(_close, name, close)
        try:
            await closing.aclose()
        finally:
            self.state = "stopped"

    @property
    def lost_lease(self) -> str | None:
        """Why the lease is lost, so that this host works on no run; None if it is not."""
        return self._lease.lost_because

    # -- events and runs --------------------------------------------------------------------------

    async def routed(self, workspace_id: str, accepted: Accepted, seconds: float) -> Accepted:
        """Return the outcome of a deferred event once it is routed, or the current one after `seconds`.

        UnavailableError if the event could not be routed.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            known = await self.orchestrator.known(workspace_id, accepted)
            left = until - asyncio.get_running_loop().time()
            if known.outcome != "deferred" or left <= 0:
                return known
            await asyncio.sleep(min(left, ROUTED_POLL_SECONDS))

    async def cancel(
        self, workspace_id: str, run_id: str, *, reason: str, actor: str, grace: float | None = None
    ) -> RunRecord:
        """Cancel a run, which has `grace` seconds to end (None: the host's). NotFoundError."""
        await self.orchestrator.cancel(workspace_id, run_id, reason=reason, actor=actor, grace=grace)
        return await self.runs.record(workspace_id, run_id)

    # -- configuration ----------------------------------------------------------------------------

    async def apply(
        self,
        config: ConfigFile,
        *,
        actor: str,
        dry_run: bool = False,
        prune: bool = False,
        source: ConfigSource | None = None,
    ) -> ConfigDiff:
        """Store and activate a configuration, and start its plugins. See `Configurator.apply`."""
        find = self._problems.find
        return await self._applied(
            await self.configurator.apply(
                config, actor=actor, dry_run=dry_run, prune=prune, source=source, forecast=find
            )
        )

    async def put_entry(
        self, kind: EntryKind, data: dict[str, Any], *, actor: str, name: str | None = None
    ) -> ConfigDiff:
        """Store one entry of the configuration. See `Configurator.put`."""
        return await self._applied(await self.configurator.put(kind, data, actor=actor, name=name))

    async def remove_entry(self, kind: EntryKind, name: str, *, actor: str) -> ConfigDiff:
        """Remove one entry of the configuration. NotFoundError."""
        return await self._applied(await self.configurator.remove(kind, name, actor=actor))

    async def _applied(self, diff: ConfigDiff) -> ConfigDiff:
        """Start the plugins of a change, and add the current problems to those that its review found."""
        problems = diff.problems
        if diff.applied:
            if not self.settings.passive:
                await self.supervisor.start_all()
            problems = merged(await self.problems(), problems)
        return msgspec.structs.replace(diff, problems=redacted(problems))

    async def problems(self) -> list[ConfigProblem]:
        """Return the problems of the configuration now. See `HostProblems`."""
        return await self._problems.find()

    async def export(self) -> ConfigFile:
        """Return the stored configuration."""
        return await self.configurator.export()


async def _open_cursors(settings: Settings, db: SqlDatabase) -> Cursors:
    """Check that the database belongs to the data directory, record it there, and return its cursors."""

    def read(tx: Tx) -> tuple[bytes, str]:
        if not db.shared:
            timeline.skip(tx)
        return installation.key(tx, "cursors"), installation.identity(tx)

    key, identity = await db.write(read)
    check_database(settings.data_dir, settings.database, identity)
    note_database(settings.data_dir, settings.database, identity)
    return Cursors(key)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of the loop, from any thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: the host ends, and has audited what it knew
        loop.call_soon_threadsafe(event.set)


async def _close(name: str, close: Callable[[], Awaitable[None] | None]) -> None:
    try:
        closing = close()
        if closing is not None:
            await closing
    except Exception:  # recorded here, raised again by `stop`
        log.exception("the end of a host: %s could not be closed; the rest is", name)
        raise
