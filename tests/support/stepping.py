"""A real host with the stepper plugin: runs that take the steps a test lists."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.events import Caller
from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, Settings
from hostler.host.data_directory import own_database
from hostler.host.host import Host
from hostler.runs.orchestrator import Accepted
from hostler.storage.stores import agents, journal
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import RunRecord
from support.databases import prepare_sqlite
from support.trust import plugin_entry

STEPPER = Path(__file__).with_name("plugins") / "stepper"
RUNNER = "plugin:test/stepper/"
WORKSPACE = "default"
CALLER = Caller(workspace_id=WORKSPACE, subject="tester", key_id="key")
WAIT_SECONDS = 110.0
"""Bound of every wait; generous, since it only has to end what hangs."""

Steps = Sequence[Sequence[Any]] | dict[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Ended:
    """A run that is over: its record, its results and its journal."""

    record: RunRecord
    results: list[dict[str, Any]]
    journal: list[dict[str, Any]]

    @property
    def types(self) -> list[str]:
        return [result["type"] for result in self.results]

    @property
    def last(self) -> dict[str, Any]:
        """The data of the terminal result."""
        data: dict[str, Any] = self.results[-1]["data"]
        return data

    @property
    def said(self) -> list[str]:
        """The completed messages."""
        return [r["data"]["message"]["content"] for r in self.results if r["type"] == "message.completed"]

    @property
    def told(self) -> Any:
        """What the last message holds as JSON: the answers to calls, or the context."""
        return json.loads(self.said[-1])

    @property
    def warnings(self) -> list[str]:
        return [entry["data"]["reason"] for entry in self.journal if entry["kind"] == "warning"]

    def entries(self, kind: str, type_: str | None = None) -> list[dict[str, Any]]:
        """What the journal holds of a kind."""
        return [e for e in self.journal if e["kind"] == kind and type_ in (None, e["type"])]


@dataclass
class Stage:
    """A host at work."""

    host: Host

    async def agent(self, name: str = "main", runner: str = "default", **fields: Any) -> None:
        """Store an agent that runs the stepper."""
        spec = convert({"name": name, "runner": RUNNER + runner, **fields}, AgentSpec, name)
        await self.host.apply(ConfigFile(agents=[spec]), actor="test")

    async def unchecked_agent(self, name: str = "main", runner: str = "default", **fields: Any) -> None:
        """Store an agent as if what it names had been there when it was saved."""
        spec = convert({"name": name, "runner": RUNNER + runner, **fields}, AgentSpec, name)
        await self.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, spec))
        self.host.event_router.changed(WORKSPACE)

    async def models(self, *models: ModelEntry) -> None:
        """Make models known."""
        await self.host.apply(ConfigFile(models=list(models)), actor="test")

    async def send(self, steps: Steps, **fields: Any) -> Accepted:
        """Send an event whose run takes these steps."""
        given = {"event_type": "message.received", "agent": "main", **fields}
        given.setdefault("input", {"text": json.dumps(steps, ensure_ascii=False)})
        return await self.host.orchestrator.accept(msgspec.convert(given, EventEnvelope), CALLER)

    async def start(self, steps: Steps, **fields: Any) -> str:
        """The same; the id of the run."""
        accepted = await self.send(steps, **fields)
        assert accepted.run is not None, accepted
        return accepted.run.run_id

    async def run(self, steps: Steps, **fields: Any) -> Ended:
        """The same; waits for the end."""
        return await self.ended(await self.start(steps, **fields))

    async def ended(self, run_id: str) -> Ended:
        """A run once it is over."""
        results: list[dict[str, Any]] = []
        async with asyncio.timeout(WAIT_SECONDS):
            async for batch in self.host.runs.feed.watch(run_id):
                results += [json.loads(result.json) for result in batch]
        entries = await self.entries(run_id)
        return Ended(await self.host.runs.record(WORKSPACE, run_id), results, entries)

    async def entries(self, run_id: str) -> list[dict[str, Any]]:
        """The journal of a run as it stands."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["position"] if found else 0
            page = await self.host.db.read(lambda tx, after=after: journal.page(tx, run_id, after))  # type: ignore[misc]
            for entry in page.items:
                plain = msgspec.to_builtins(entry)
                found.append({**plain, "data": json.loads(entry.data)})
            if not page.more:
                return found

    async def seen(self, run_id: str, type_: str, count: int = 1) -> None:
        """Wait until a run has shown so many results of a type."""
        async with asyncio.timeout(WAIT_SECONDS):
            async for batch in self.host.runs.feed.watch(run_id):
                count -= sum(result.type == type_ for result in batch)
                if count <= 0:
                    return
        raise AssertionError(f"run {run_id} ended without that many {type_}")

    async def running(self, run_id: str) -> None:
        """Wait until a run is stored as running, which may be a moment after its runner began."""
        async with asyncio.timeout(WAIT_SECONDS):
            while (await self.host.runs.record(WORKSPACE, run_id)).status != "running":
                await asyncio.sleep(0.005)

    async def cancel(self, run_id: str, reason: str = "enough") -> None:
        """Ask for the end of a run."""
        await self.host.cancel(WORKSPACE, run_id, reason=reason, actor="test")


@contextlib.asynccontextmanager
async def stage(
    data_dir: Path,
    *,
    database: str | None = None,
    plugin: Path = STEPPER,
    agent: bool = True,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """A host over a data directory, with the stepper and an agent `main`; ended in order."""
    quick: dict[str, Any] = {"shutdown_grace_seconds": 0.2, "cancel_grace_seconds": 0.5}
    wanted = Settings(data_dir=data_dir, database=database, **(quick | settings))
    if database is None:
        prepare_sqlite(own_database(data_dir))
    async with Host.open(wanted) as host:
        await host.apply(ConfigFile(plugins=[plugin_entry(plugin)]), actor="test")
        made = Stage(host)
        if agent:
            await made.agent()
        yield made


class Latch:
    """A Unix socket that `gate` steps wait at until it is opened."""

    def __init__(self, folder: Path, name: str = "gate") -> None:
        self.path = str(folder / f"{name}.sock")
        self._come = asyncio.Event()
        self._open = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Latch:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.open()
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reached(self) -> None:
        """Wait until a run stands at it."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._come.wait()

    def open(self) -> None:
        """Let everyone through, now and later."""
        self._open.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._come.set()
        await self._open.wait()
        writer.close()


def within(seconds: float = 120) -> asyncio.Timeout:
    """The bound of a whole test."""
    return asyncio.timeout(seconds)
