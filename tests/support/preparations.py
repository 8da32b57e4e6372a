"""Runs that are opened, claimed and prepared without a dispatcher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec, ResourcePolicy
from hostler.domain.allowances import Allowances
from hostler.domain.lanes import lane_of
from hostler.domain.place import Place
from hostler.pauses.explicit import ExplicitPauses
from hostler.runs.preparation import PreparedAttempt, Preparer
from hostler.runs.snapshot import FactsAhead, Offer, look_ahead
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import NewRun, Run
from hostler_protocol.ids import new_id
from hostler_protocol.manifest import AgentRunnerManifest
from support.call_world import World, catalog, world_of
from support.grants import RUNNER, manifest_of

HOST = Membership("h1")


@dataclass
class Preparations:
    """Prepares attempts of runs on the world's own event."""

    world: World
    preparer: Preparer
    runners: dict[str, AgentRunnerManifest] = field(default_factory=lambda: {"default": manifest_of()})

    async def open(self, **changes: Any) -> Run:
        """Open and claim a run of a new version of the agent `helper`."""
        return (await self.open_ahead(**changes))[0]

    async def open_ahead(self, **changes: Any) -> tuple[Run, FactsAhead]:
        """Open and claim a run, and read the facts of its attempt in the same transaction."""
        offer = Offer(self.runners["default"], self.preparer.catalog("main"))
        spec = changes.pop("spec", {})
        run_id = new_id()

        def work(tx: Tx) -> tuple[Run, FactsAhead]:
            policy = ResourcePolicy(allowed_model_ids=["gpt"])
            agent = agents.apply(
                tx, "main", AgentSpec(name="helper", runner=RUNNER, resource_policy=policy, **spec)
            )
            new = {
                "workspace_id": "main",
                "run_id": run_id,
                "agent_id": agent.agent_id,
                "agent_name": agent.name,
                "agent_version": agent.version,
                "runner_id": RUNNER,
                "lane": lane_of(
                    workspace_id="main",
                    agent_id=agent.agent_id,
                    place=Place(conversation_id="c1"),
                    event_id=run_id,
                ),
                "event_id": "e-own",
                "conversation_id": "c1",
                "parallel": True,
                **changes,
            }
            opened = runs.open(tx, NewRun(**new), HOST)
            return opened, look_ahead(tx, opened, offer, agent)

        return await self.world.db.write(work)

    async def prepare(self, run: Run, ahead: FactsAhead | None = None) -> PreparedAttempt:
        return await self.preparer.prepare(run, self.runners, ahead)


@asynccontextmanager
async def preparing(database: SqlDatabase, folder: Path) -> AsyncIterator[Preparations]:
    async with world_of(database, folder) as world:
        services = world.services
        pauses = ExplicitPauses(world.db, services.blobs, None)
        preparer = Preparer(
            services, services.blobs, lambda _: catalog(services.models), Allowances("ws"), "1.0", pauses
        )
        yield Preparations(world, preparer)
