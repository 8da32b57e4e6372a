"""Replays that the host makes: who waits, who is refused, and what is known before one begins."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile, PluginEntry
from hostler.host.replays import MAX_WAITING, MAX_WAITING_OF_WORKSPACE, HostReplay, Replays
from hostler.sandbox.machine import MachineSandbox
from hostler.storage.stores import agents, audit
from hostler_protocol.errors import ConflictError, PluginStartError, RateLimitedError, UnauthorizedError
from support.http_host import OTHER, WORKSPACE, Served, serving

pytestmark = pytest.mark.timeout(200)
BOUND_SECONDS = 150.0
COLLECTOR = Path(__file__).parents[2] / "support" / "plugins" / "collector"
RUNNER = "plugin:test/collector/default"
THIRD = "third"


@dataclass
class Gated:
    """A host with a run in three workspaces, whose replays start no plugin before `go` is set."""

    served: Served
    folder: Path
    runs: dict[str, str]
    started: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def sandbox(self) -> MachineSandbox:
        self.started += 1
        self.begun.set()
        await self.go.wait()
        return await self.served.host.replays.sandbox()

    def replays(self, **settings: Any) -> Replays:
        return replace(self.served.host.replays, sandbox=self.sandbox, **settings)

    async def audited(self, workspace: str = WORKSPACE) -> list[str]:
        """What the audit log of a workspace says of replays."""
        rows = await self.served.host.db.read(lambda tx: audit.page(tx, workspace))
        return [row.target for row in rows if row.action == "run.replayed"]


@asynccontextmanager
async def gated(tmp_path: Path) -> AsyncIterator[Gated]:
    folder = tmp_path / "collector"
    shutil.copytree(COLLECTOR, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "forms.json").write_text(json.dumps({"default": []}))
    spec = AgentSpec(name="collector", runner=RUNNER)
    async with asyncio.timeout(BOUND_SECONDS), serving(tmp_path / "data", agent=False) as served:
        entry = PluginEntry(path=str(folder), pin=True)
        await served.host.apply(ConfigFile(plugins=[entry]), actor="test")
        runs = {}
        body = {"event_type": "message.received", "input": {"text": "hi"}, "agent": "collector"}
        for workspace in (WORKSPACE, OTHER, THIRD):
            await served.host.db.write(partial(agents.apply, workspace_id=workspace, spec=spec))
            served.host.event_router.changed(workspace)
            async with served.as_key(await served.key(workspace)) as client:
                run = (await client.post("/v1/events", json=body, params={"wait": 30})).json()
            assert run["status"] == "completed", run
            runs[workspace] = run["run_id"]
        yield Gated(served, folder, runs)


async def test_one_is_made_and_the_places_of_those_that_wait_are_shared(tmp_path: Path) -> None:
    async with gated(tmp_path) as host:
        replays = host.replays()

        def asked(workspace: str) -> asyncio.Task[HostReplay]:
            work = replays.replay(workspace, host.runs[workspace], actor="test")
            return asyncio.create_task(work)

        working = asked(WORKSPACE)
        await host.begun.wait()
        assert await host.audited() == [host.runs[WORKSPACE]], "it is recorded before its plugin starts"
        waiting = [asked(WORKSPACE) for _ in range(MAX_WAITING_OF_WORKSPACE)]
        await asyncio.sleep(0)
        with pytest.raises(RateLimitedError, match="of this workspace"):
            await asked(WORKSPACE)
        while len(waiting) < MAX_WAITING:
            waiting.append(asked(OTHER))
        await asyncio.sleep(0)
        with pytest.raises(RateLimitedError, match="enough replays are waiting") as refused:
            await asked(THIRD)
        assert refused.value.retry_after is not None
        assert await host.audited(OTHER) == [], "one that waits has not been made"

        waiting.pop().cancel()  # whoever gives up leaves the place
        await asyncio.sleep(0)
        waiting.append(asked(THIRD))
        await asyncio.sleep(0)
        assert not any(one.done() for one in (working, *waiting))
        host.go.set()
        for one in (working, *waiting):
            assert (await one).replayed.is_identical
        assert host.started == 1 + MAX_WAITING, "each has processes of its own"
        assert len(await host.audited()) == 1 + MAX_WAITING_OF_WORKSPACE
        assert (await asked(WORKSPACE)).replayed.is_identical


async def test_a_plugin_that_does_not_start_holds_no_place(tmp_path: Path) -> None:
    async with gated(tmp_path) as host:
        replays = host.replays(start_seconds=0.2, seconds=0.1)
        for _ in range(2):
            with pytest.raises(PluginStartError, match=r"did not start within 0\.2 s"):
                await replays.replay(WORKSPACE, host.runs[WORKSPACE], actor="test")
        host.go.set()
        made = await host.replays().replay(WORKSPACE, host.runs[WORKSPACE], actor="test")
        assert made.replayed.is_identical


async def test_no_runner_that_the_workspace_may_not_use_and_no_plugin_that_changed(tmp_path: Path) -> None:
    async with gated(tmp_path) as host:
        host.go.set()
        replays, put = host.replays(), host.served.client.put
        entry = {"name": OTHER, "runners": ["plugin:test/none/*"]}
        assert (await put(f"/v1/config/workspaces/{OTHER}", json=entry)).status_code == 200
        with pytest.raises(UnauthorizedError, match="may not use runner"):
            await replays.replay(OTHER, host.runs[OTHER], actor="test")
        with pytest.raises(UnauthorizedError, match="may not use runner"):
            await replays.replay(OTHER, host.runs[OTHER], actor="test", agent_version=1)
        (host.folder / "more.py").write_text("")
        with pytest.raises(ConflictError, match="plugins confirm"):
            await replays.replay(WORKSPACE, host.runs[WORKSPACE], actor="test")
        assert host.started == 0
        assert await host.audited(OTHER) == []
