"""Attempts on a real database, with a plugin at the other end of a real connection in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from hostler.calls.gate import Gate
from hostler.domain.slots import Slots
from hostler.journal.feed import Feed, Seen
from hostler.plugins.connection import PluginConnection
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, ConnectionLimits
from hostler.runs.attempt import Attempt
from hostler.runs.attempt_parts import AttemptServices
from hostler.runs.preparation import PreparedAttempt
from hostler.runs.projections import Projector
from hostler.runs.running_attempt import RunningAttempt
from hostler.runs.snapshot import FactsAhead
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import journal, pauses, runs, transcripts
from hostler.storage.stores import run_claims as claims
from hostler.storage.stores.journal import StoredEntry
from hostler.storage.stores.run_rows import Run
from hostler_protocol.manifest import AgentRunnerManifest, Capabilities
from support.call_world import catalog
from support.grants import manifest_of
from support.linked_plugin import LinkedPlugin
from support.preparations import HOST, Preparations, preparing

FINISHED = ("run.completed", {"finish_reason": "stop"})
MESSAGE = {"message": {"role": "assistant", "content": "hello"}}
COMPLETED = ("message.completed", MESSAGE)

PATIENT = msgspec.structs.replace(DEFAULT_CONNECTION_LIMITS, answer_seconds=3600.0)
"""No wait for an answer ends by itself."""


def delta(text: str) -> tuple[str, Any]:
    return "message.delta", {"chunk": {"role": "assistant", "content": text}}


@dataclass
class Attempts:
    """Opens runs and executes their attempts."""

    host: Preparations
    plugin: LinkedPlugin
    connection: PluginConnection
    services: AttemptServices
    replaced: list[str] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def open(self, **changes: Any) -> Run:
        """Open and claim a run."""
        return await self.host.open(**changes)

    async def claim_again(self, run: Run) -> Run:
        """Queue a run again, and claim it for its next attempt."""

        def work(tx: Tx) -> Run:
            runs.transition(tx, run.run_id, run.attempt, "queued", cause="test", actor="t")
            claimed = claims.claim(tx, HOST, Slots(100), []).runs  # those of the world among them
            return next(one for one in claimed if one.run_id == run.run_id)

        return await self.host.world.db.write(work)

    def attempt(self, run: Run) -> Attempt:
        return Attempt(self.services, run)

    def execute(self, attempt: Attempt) -> asyncio.Task[None]:
        """Execute an attempt in the background; it is cancelled at the end of the test."""
        task = asyncio.create_task(attempt.execute())
        self._tasks.append(task)
        return task

    async def started(self, run: Run) -> tuple[Attempt, asyncio.Task[None]]:
        """Execute an attempt until its runner works."""
        attempt = self.attempt(run)
        task, before = self.execute(attempt), len(self.plugin.started)
        await self.plugin.until(lambda: task.done() or len(self.plugin.started) > before)
        await self.until(lambda: self._is_running(run))
        return attempt, task

    async def _is_running(self, run: Run) -> bool:
        return (await self.run(run)).status == "running"

    async def over(self, task: asyncio.Task[None]) -> None:
        """Wait until an attempt is over, even if it raises."""
        await asyncio.wait([task])

    def park(self, attempt: Attempt) -> None:
        """Park an attempt as if the hold time of its calls were over."""
        running = attempt._stage
        assert isinstance(running, RunningAttempt)
        running._park()

    def forget(self) -> None:
        """Refer to no attempt any more."""
        self._tasks.clear()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- what is stored ---------------------------------------------------------------------------

    async def run(self, run: Run) -> Run:
        """The run as it is stored now."""
        return await self.host.world.db.read(lambda tx: runs.get(tx, run.workspace_id, run.run_id))

    async def ending(self, run: Run) -> tuple[str, str | None]:
        """Status and code of a run."""
        stored = await self.run(run)
        return stored.status, stored.status_code

    async def entries(self, run: Run, *kinds: str) -> list[StoredEntry]:
        """Its journal, of some kinds."""
        page = await self.host.world.db.read(lambda tx: journal.page(tx, run.run_id))
        return [entry for entry in page.items if not kinds or entry.kind in kinds]

    async def types(self, run: Run) -> list[str]:
        """The types of its results, in order."""
        return [entry.type for entry in await self.entries(run, "result")]

    async def last(self, run: Run) -> dict[str, Any]:
        """The data of its last result."""
        data: dict[str, Any] = msgspec.json.decode((await self.entries(run, "result"))[-1].data)["data"]
        return data

    async def said(self, run: Run) -> list[str]:
        """Its messages in the transcript."""
        db = self.host.world.db
        messages = await db.read(lambda tx: transcripts.of_run(tx, run.workspace_id, run.run_id))
        return [str(message.content) for message in messages]

    async def pause(self, run: Run) -> Any:
        """Its unsettled pause."""
        return await self.host.world.db.read(lambda tx: pauses.unsettled(tx, run.run_id))

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds of the database."""
        async with asyncio.timeout(60):
            while not await holds():
                await asyncio.sleep(0)

    # -- what is set for the next attempt ---------------------------------------------------------

    def change_prepared(self, **changes: Any) -> None:
        """Change what is prepared for attempts from now on."""
        prepare = self.services.prepare

        async def changed(
            run: Run, runners: Mapping[str, AgentRunnerManifest], ahead: FactsAhead | None
        ) -> PreparedAttempt:
            return msgspec.structs.replace(await prepare(run, runners, ahead), **changes)

        self.services.prepare = changed


@asynccontextmanager
async def attempts(
    database: SqlDatabase,
    folder: Path,
    *,
    capabilities: Capabilities | None = None,
    limits: ConnectionLimits = DEFAULT_CONNECTION_LIMITS,
    **services: Any,
) -> AsyncIterator[Attempts]:
    """Attempts whose runner has these capabilities; `services` replaces parts of the host's."""
    manifest = manifest_of(capabilities=capabilities or Capabilities(streaming=True), form=[])
    plugin = LinkedPlugin(manifest)
    connection = await plugin.connect(limits)
    replaced: list[str] = []

    async def connect(run: Run) -> PluginConnection:
        return connection

    async def nothing(run_id: str, after: int, at_most: int) -> Seen:
        return Seen([], is_over=False)

    async with preparing(database, folder) as host:
        models = host.world.services.models
        host.preparer.catalog = lambda _: msgspec.structs.replace(catalog(models), interactions=True)
        made = AttemptServices(
            db=database,
            feed=Feed(nothing),
            gate=Gate(),
            connect=connect,
            replace=lambda _, why: replaced.append(why),
            prepare=host.preparer.prepare,
            projector=Projector(host.world.db, host.world.services.blobs),
            blobs=host.world.services.blobs,
            host_id="h1",
            cancel_grace_seconds=60,
            hold_seconds=60,
            explicit_pauses=host.preparer.explicit_pauses,
            stall_seconds=60,
        )
        held = Attempts(host, plugin, connection, replace(made, **services), replaced)
        try:
            yield held
        finally:
            await held.close()
            connection.abort("the test is over")


def raising(error: Exception) -> Any:
    """Connect no plugin: raise an error."""

    async def connect(run: Run) -> PluginConnection:
        raise error

    return connect


def after(host: Attempts, happens: Callable[[], None]) -> Any:
    """Prepare attempts; something happens before they are prepared."""
    prepare = host.services.prepare

    async def prepared(
        run: Run, runners: Mapping[str, AgentRunnerManifest], ahead: FactsAhead | None
    ) -> PreparedAttempt:
        happens()
        return await prepare(run, runners, ahead)

    return prepared
