"""What goes wrong: crashes, freezes, power cuts, full, slow and defective disks, jumps of clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.plugins import PluginLife
from hostler.simulation.world import SimulatedHost
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft

T = TypeVar("T")

KINDS = (
    "kill host",
    "kill host",
    "kill plugin",
    "freeze host",
    "power cut",
    "disk full",
    "disk slow",
    "clock",
    "stop host",
)

MOMENTS = (
    "kill host after commits",
    "kill host after commits",
    "power cut after commits",
    "freeze host after commits",
    "kill host after messages",
    "kill plugin after messages",
    "disconnect plugin",
    "freeze plugin",
    "plugin dies again and again",
    "kill all",
    "freeze all",
)
COMMITS = ("commit fails", "commit unheard")


def plan(draft: Draft) -> None:
    """None to five faults, each followed by its end."""
    chance = draft.chance("faults")
    draft.hosts = chance.choice([1, 1, 2])
    for _ in range(chance.choice([0, 1, 1, 2, 3, 5])):
        at, kind = chance.uniform(0.05, MAX_MOMENT * 0.9), chance.choice(KINDS)
        host = chance.randint(0, draft.hosts - 1)
        lasts = chance.choice([0.05, 0.5, 3.0, 12.0, 25.0]) * chance.uniform(0.5, 1.5)
        draft.add(at, kind, host=host, seconds=round(lasts, 3), by=round(chance.uniform(-600, 600), 1))


async def fault(life: Life, action: Action) -> None:
    """Let something go wrong; it ends by itself at the latest when the life calms down."""
    host = life.hosts[action.data["host"] % len(life.hosts)]
    seconds = action.data["seconds"]
    match action.what:
        case "kill host":
            host.kill()
            await life.later(seconds, host.start)
        case "stop host":
            host.stop()
            await life.later(seconds, host.start)
        case "power cut":
            cut_power(life, host)
            await life.later(seconds, host.start)
        case "kill plugin":
            for process in life.plugins_of(host):
                process.kill()
        case "freeze host":
            frozen = host.process
            host.freeze()
            await life.later(seconds, lambda: None if frozen is None else frozen.thaw())
        case "disk full":
            host.disk.full = True
            await life.later(seconds, lambda: setattr(host.disk, "full", False))
        case "disk slow":
            host.disk.stall_seconds = 0.5
            await life.later(seconds, lambda: setattr(host.disk, "stall_seconds", 0.0))
        case "clock":
            host.clock.ahead += action.data["by"]


# -- exact moments ---------------------------------------------------------------------------------


def plan_moments(draft: Draft) -> None:
    """In two of five lives: one to three faults at the n-th commit or message, or of several at once."""
    chance = draft.chance("moments")
    if chance.random() > 0.4:
        return
    for _ in range(chance.choice([1, 1, 2, 3])):
        lasts = chance.choice([0.05, 1.0, 8.0]) * chance.uniform(0.5, 1.5)
        draft.add(
            chance.uniform(0.0, MAX_MOMENT * 0.8),
            chance.choice(MOMENTS),
            host=chance.randint(0, draft.hosts - 1),
            count=int(chance.expovariate(1.0) * chance.choice([2, 15])) + 1,
            seconds=round(lasts, 3),
        )


def plan_commits(draft: Draft) -> None:
    """In one of four lives: commits that fail with an I/O error or, of a database that hosts share, that
    happen without an answer to the host."""
    chance = draft.chance("commits")
    if chance.random() > 0.25:
        return
    for _ in range(chance.choice([1, 1, 2, 3])):
        draft.add(
            chance.uniform(0.0, MAX_MOMENT * 0.8),
            COMMITS[draft.hosts > 1],
            host=chance.randint(0, draft.hosts - 1),
            count=int(chance.expovariate(1.0) * chance.choice([2, 15])) + 1,
            times=chance.choice([1, 1, 1, 2, 5]),
            seconds=chance.choice([0.0, 0.0, round(chance.uniform(0, 10), 3)]),
        )


async def moment(life: Life, action: Action) -> None:
    """Let something go wrong when something else has happened so often, or to several at once."""
    data = action.data
    host = life.hosts[data["host"] % len(life.hosts)]
    match action.what:
        case "kill host after commits":
            await _counted(life, action, _Commits(host), host.kill)
            await life.later(data["seconds"], host.start)
        case "power cut after commits":
            await _counted(life, action, _Commits(host), lambda: cut_power(life, host))
            await life.later(data["seconds"], host.start)
        case "freeze host after commits":
            await _counted(life, action, _Commits(host), host.freeze)
            await life.later(data["seconds"], host.thaw)
        case "kill host after messages":
            await _counted(life, action, _Pieces(life, host), host.kill)
            await life.later(data["seconds"], host.start)
        case "kill plugin after messages":
            await _counted(
                life,
                action,
                _Pieces(life, host),
                lambda: _plugins(life, host, lambda plugin: plugin.process.kill()),
            )
        case "disconnect plugin":
            await _counted(
                life, action, _Pieces(life, host), lambda: _plugins(life, host, PluginLife.disconnect)
            )
        case "freeze plugin":
            frozen = life.plugins_of(host)
            for process in frozen:
                process.freeze()
            await life.later(data["seconds"], lambda: _each(frozen, SimulatedProcess.thaw))
        case "plugin dies again and again":
            await _crash_loop(life, host, data)
        case "commit fails":
            await _counted(life, action, _Commits(host), lambda: _defect(host, data["times"]))
        case "commit unheard":
            breaks = [data["seconds"]] * data["times"]
            await _counted(life, action, _Commits(host), lambda: host.disk.breaks.extend(breaks))
        case "kill all":
            for one in life.hosts:
                one.kill()
            await life.later(data["seconds"], lambda: _each(life.hosts, SimulatedHost.start))
        case "freeze all":
            processes = [one.process for one in life.hosts if one.process is not None]
            for process in processes:
                process.freeze()
            await life.later(data["seconds"], lambda: _each(processes, SimulatedProcess.thaw))
    life.outside.note("fault", what=action.what)


def _each(things: list[T], do: Callable[[T], None]) -> None:
    for thing in things:
        do(thing)


def _defect(host: SimulatedHost, times: int) -> None:
    host.disk.defects += times


class _Commits:
    """Counts the commits of a host."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host

    def hook(self, count: Callable[[], None]) -> Callable[[], None]:
        self._host.at_commit.append(count)
        return lambda: self._host.at_commit.remove(count)


class _Pieces:
    """Counts the pieces that plugins of a host and the host read from each other."""

    def __init__(self, life: Life, host: SimulatedHost) -> None:
        self._plugins = life.world.plugins
        self._host = host

    def hook(self, count: Callable[[], None]) -> Callable[[], None]:
        def read(plugin: PluginLife) -> None:
            if plugin.host is self._host.process:
                count()

        self._plugins.at_piece.append(read)
        return lambda: self._plugins.at_piece.remove(read)


async def _counted(
    life: Life, action: Action, source: _Commits | _Pieces, work: Callable[[], object]
) -> None:
    """Do something at the n-th event of a source; not at all if there are fewer before the faults end."""
    left = action.data["count"]
    done = asyncio.Event()

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            unhook()
            host = life.hosts[action.data["host"] % len(life.hosts)]
            life.outside.note("struck", what=action.what, host=host.name, data=action.data)
            work()
            life.world.loop.call_soon(done.set, context=life.clients.context())

    unhook = source.hook(count)
    await life.first_of(done, life.calm)
    if not done.is_set():
        unhook()


async def _crash_loop(life: Life, host: SimulatedHost, data: dict[str, Any]) -> None:
    """Kill each process of a plugin soon after its start, the next ones too."""
    loop, left = life.world.loop, data["count"]

    def started(plugin: PluginLife) -> None:
        nonlocal left
        if left > 0 and not life.calm.is_set() and plugin.host is host.process:
            left -= 1
            loop.call_later(data["seconds"] / 10, plugin.process.kill, context=life.clients.context())

    life.world.plugins.at_start.append(started)
    for process in life.plugins_of(host):
        process.kill()
    await life.calm.wait()


def _plugins(life: Life, host: SimulatedHost, do: Callable[[PluginLife], None]) -> None:
    for plugin in life.world.plugins.lives:
        if plugin.process.alive and plugin.host is host.process:
            do(plugin)


def cut_power(life: Life, host: SimulatedHost) -> None:
    """Kill a host; the commits that its disk had not synced may be lost, if the disk is its own."""
    if host.shared:
        host.kill()
        life.outside.note("power cut", host=host.name, lost=0)
    else:
        life.outside.note("power cut", host=host.name, lost=host.lose_power())


ACTIONS = {**dict.fromkeys(KINDS, fault), **dict.fromkeys((*MOMENTS, *COMMITS), moment)}
