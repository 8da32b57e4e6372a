"""A simulated year of schedules, as a program: `python -m support.schedule_year FOLDER`.

Two hosts share a database; they are killed and started again, and their clocks differ. The facts are left in
the folder, and when a host was up in `up.json`. Runs are not part of it: the events reach no agent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from hostler.channels.schedules import Scheduler
from hostler.domain.misfires import Misfire
from hostler.domain.schedules import Schedule
from hostler.host.config import Settings
from hostler.host.host import Host
from hostler.simulation.disk import SimulatedDisk
from hostler.simulation.entropy import EPOCH
from hostler.simulation.world import SimulatedHost, World
from hostler.storage.port import Tx
from hostler.storage.stores import schedules
from hostler_sdk.plugin import Plugin
from support.databases import prepare_sqlite

DAYS = 366
DAY = 86_400.0
GRACE = 60.0
LOOK_SECONDS = 6 * 3_600.0
"""A host looks this seldom for what the other one changed, which is nothing; so the year takes seconds."""
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu")
FACTS, UP = "shared.db", "up.json"
MISFIRES: tuple[Misfire, ...] = ("skip", "once", "all")
CRONS: tuple[tuple[str, tuple[Misfire, ...]], ...] = (
    ("30 2 * * *", MISFIRES),
    ("*/20 1-2 * * sun", ("all",)),
    ("0 * 25 10,3 *", ("all",)),
)


@dataclass
class Year:
    """The hosts, and when at least one of them was up."""

    world: World
    hosts: list[SimulatedHost]
    up: list[tuple[float, float]] = field(default_factory=list)
    _since: float | None = None

    def note(self, working: bool) -> None:
        """Note that a host works from now on, or that none does."""
        now = self.world.loop.time()
        if working and self._since is None:
            self._since = now
        elif not working and self._since is not None:
            self.up.append((self._since, now))
            self._since = None


def _no_plugin(*_: object) -> Plugin:
    raise AssertionError("no run starts")


async def _fire(host: Host) -> None:
    """Let a host that does nothing else accept events and fire schedules."""
    host.orchestrator.accepting = True
    scheduler = Scheduler(host.db, host.orchestrator, look_seconds=LOOK_SECONDS)
    host.workers.start("schedules", scheduler.work)


async def _live(year: Year, wanted: list[Schedule]) -> None:
    loop, chance = year.world.loop, year.world.chance.stream("life")

    async def begin(host: SimulatedHost) -> None:
        host.start()
        while not host.up:
            await asyncio.sleep(0.1)
        await host.ask(_fire)
        year.note(True)

    for host in year.hosts:
        await begin(host)

    def put(tx: Tx) -> None:
        for entry in wanted:
            schedules.put(tx, "default", entry, "ada")

    await year.hosts[0].ask(lambda host: host.db.write(put))
    for host in year.hosts:  # both learn of them now
        host.kill()
    year.note(False)
    for host in year.hosts:
        await begin(host)
    while loop.time() < (DAYS - 8) * DAY:
        await asyncio.sleep(chance.uniform(0.5, 6) * DAY)
        host = chance.choice(year.hosts)
        other = year.hosts[1 - year.hosts.index(host)]
        both = chance.random() < 0.4
        host.kill()
        if both:
            other.kill()
            year.note(False)
        host.clock.ahead = chance.uniform(-0.4, 0.4)
        await asyncio.sleep(chance.choice([5.0, 600.0, chance.uniform(0, 40) * 3_600]))
        if both:
            await begin(other)
            await asyncio.sleep(chance.uniform(0, 100))
        await begin(host)
    await asyncio.sleep(DAYS * DAY - loop.time())
    for host in year.hosts:
        host.kill()
    year.note(False)


def entries() -> list[Schedule]:
    """Return the schedules of the year."""
    found = [
        Schedule(
            name=f"{zone.rpartition('/')[2]}-{number}-{misfire}",
            cron=cron,
            timezone=zone,
            misfire=misfire,
            grace=GRACE,
        )
        for zone in ZONES
        for number, (cron, misfires) in enumerate(CRONS)
        for misfire in misfires
    ]
    found.append(Schedule(name="interval", every=28_800.0, misfire="all", grace=GRACE))
    found.append(Schedule(name="jittered", cron="0 12 * * *", jitter=1_800.0, misfire="all", grace=GRACE))
    found.append(Schedule(name="once", at="2000-01-01T00:00", timezone="UTC"))
    return found


def main(folder: Path) -> None:
    """Live a year."""
    world = World("a year of schedules", _no_plugin)
    disk = SimulatedDisk(prepare_sqlite(folder / FACTS), clock=lambda: EPOCH + world.loop.time())
    hosts = []
    for number in range(2):
        settings = Settings(
            data_dir=folder / f"h{number}", database="postgresql://simulated/hostler", passive=True
        )
        hosts.append(SimulatedHost(world, f"h{number}", settings, disk, shared=True))
    lived = Year(world, hosts)
    world.run(_live(lived, entries()))
    assert world.loop.errors == []
    (folder / UP).write_text(json.dumps(lived.up))


if __name__ == "__main__":
    gc.disable()  # what is left of killed processes is never closed
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)
