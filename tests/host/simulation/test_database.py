"""The simulated database commits whatever is queued, as the writing thread does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hostler.simulation.database import SimulatedDatabase
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.latency import Latency
from hostler.simulation.world import World
from hostler_sdk.loading import load_folder


def test_a_write_that_needs_a_sync_follows_a_group_without_one(tmp_path: Path) -> None:
    world = World("1", lambda _, source: load_folder(Path(source.path)))

    async def write_both() -> list[int]:
        latency = Latency(world.chance.stream("database"))
        disk = SimulatedDisk(tmp_path / "hostler.db")
        database = SimulatedDatabase(disk, latency, shared=False, on_commit=lambda: None)
        async with asyncio.timeout(60):
            written = await asyncio.gather(
                database.write(lambda _: 1, synced=False), database.write(lambda _: 2, synced=True)
            )
        await database.close()
        return list(written)

    assert world.run(write_both()) == [1, 2]
