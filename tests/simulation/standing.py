"""What hosts hold when a life has come to rest: tasks, slots, watchers, and what their metrics say."""

from __future__ import annotations

import asyncio
import fcntl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.http.host_metrics import samples_of
from hostler.http.streams import Streams
from simulation.outside import HUNG_SECONDS

if TYPE_CHECKING:
    from hostler.host.host import Host
    from hostler.simulation.loop import SimulatedProcess
    from hostler.simulation.world import SimulatedHost, World

SETTLE_SECONDS = 20.0
"""After all facts are at their end: calls give up within 10 s, cancelled attempts leave within 10 s."""
MCP_TASKS = {"McpConnection._run": 1, "TaskHandle._run_coro": 3, "Event.wait": 3}
"""Tasks of the session with an MCP server at rest, and how many there are at most."""
LOCK_LOOKS = 200


@dataclass
class Standing:
    """One host at rest."""

    host: str
    id: str
    starts: int
    tasks: Counter[str]
    """Names of the coroutines of tasks that are not done."""
    active: int
    """Attempts under way."""
    slots: int
    places: int
    """Places in the queue that are reserved for runs about to be opened."""
    channels: list[str]
    """Runs whose results are held for readers."""
    tokens: int
    """Tokens of runs that are still good."""
    locked: bool
    """Whether it holds the lock that excludes backups, longer than a round of removals takes."""
    metrics: dict[str, dict[tuple[str, ...], float]]
    plugins: dict[str, Counter[str]] = field(default_factory=dict)
    """Name of each living plugin process -> its tasks."""


async def look(world: World, hosts: Sequence[SimulatedHost]) -> list[Standing]:
    """Give the hosts time to finish, then look at each."""
    await asyncio.sleep(SETTLE_SECONDS)
    await _requests_end(hosts)
    found = []
    for host in hosts:
        process = host.process
        if host.up and process is not None and host.host is not None:
            metrics = await host.ask(_metrics)
            locked = await _stays_locked(host.settings.data_dir / "maintenance.lock")
            found.append(_standing(world, host, process, host.host, metrics, locked=locked))
    return found


async def _requests_end(hosts: Sequence[SimulatedHost]) -> None:
    """Wait for requests to an MCP server whose calls have given up: the SDK keeps them open.

    They end when the connection does: here the server breaks it, otherwise the host after
    `hostler.tools.mcp.sessions.QUIET_SECONDS`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + HUNG_SECONDS
    processes = [host.process for host in hosts if host.process is not None]
    while loop.time() < until and any(
        tasks_of(process)[name] > most for process in processes for name, most in MCP_TASKS.items()
    ):
        await asyncio.sleep(1.0)


async def _stays_locked(path: Path) -> bool:
    for _ in range(LOCK_LOOKS):
        if not path.exists() or _is_free(path):
            return False
        await asyncio.sleep(SETTLE_SECONDS / LOCK_LOOKS)
    return True


def _is_free(path: Path) -> bool:
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


async def _metrics(host: Host) -> dict[str, dict[tuple[str, ...], float]]:
    return {sample.name: dict(sample.values) for sample in await samples_of(host, Streams())}


def _standing(
    world: World,
    host: SimulatedHost,
    process: SimulatedProcess,
    inside: Host,
    metrics: dict[str, dict[tuple[str, ...], float]],
    *,
    locked: bool,
) -> Standing:
    dispatcher = inside.dispatcher
    return Standing(
        host.name,
        (host.settings.data_dir / "host_id").read_text(),
        host.starts,
        tasks_of(process),
        dispatcher.active,
        dispatcher._slots.taken,
        dispatcher.queue._coming,
        sorted(inside.feed._channels),
        len(inside.assets._open),
        locked,
        metrics,
        {
            life.process.name: tasks_of(life.process)
            for life in world.plugins.lives
            if life.process.alive and life.process.name.startswith(f"{host.name}.")
        },
    )


def tasks_of(process: SimulatedProcess) -> Counter[str]:
    """Count the tasks of a process that are not done, by the names of their coroutines."""
    names = (getattr(task.get_coro(), "__qualname__", "?") for task in process.tasks if not task.done())
    return Counter(names)
