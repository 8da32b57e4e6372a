"""Faults after the n-th callback of a process: at any await of a host or a plugin, not only at its events.

A commit is one callback, and what hears of it is another: before, between and after them are three of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.world import SimulatedHost
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.faults import cut_power
from simulation.workloads.messages import read

KINDS = ("kill host at await", "power cut at await", "freeze host at await", "kill plugin at await")


def plan(draft: Draft) -> None:
    """In one of three lives: one of these, up to a thousand callbacks after a moment."""
    chance = draft.chance("strikes")
    if chance.random() > 0.33:
        return
    draft.add(
        chance.uniform(0.0, MAX_MOMENT * 0.6),
        chance.choice(KINDS),
        host=chance.randint(0, draft.hosts - 1),
        count=int(chance.expovariate(1.0) * chance.choice([10, 100, 1000])) + 1,
        seconds=round(chance.choice([0.05, 1.0, 12.0]) * chance.uniform(0.7, 1.3), 3),
    )


async def strike(life: Life, action: Action) -> None:
    """Count callbacks from now on, and let something go wrong after the n-th.

    `event`: count no further than to the end of its run.
    """
    data = action.data
    host = life.hosts[data["host"] % len(life.hosts)]
    struck, counted = asyncio.Event(), 0

    def count() -> None:
        nonlocal counted
        counted += 1
        if counted == data["count"]:
            life.outside.note("struck", what=action.what, host=host.name, data=data)
            _strike(life, host, action.what)
            life.world.loop.call_soon(struck.set, context=life.clients.context())

    watched = _watched(life, host, action.what)
    _watch(watched, count)
    waits = [asyncio.ensure_future(one) for one in (struck.wait(), _until_over(life, data))]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    _watch(watched, None)
    for task in waits:
        task.cancel()
    if struck.is_set():
        life.outside.note("fault", what=action.what, host=host.name, after=counted)
        await life.later(data["seconds"], host.thaw if "freeze" in action.what else host.start)
    else:
        life.outside.note("counted", callbacks=counted)


async def _until_over(life: Life, data: dict[str, object]) -> None:
    event = data.get("event")
    if event is None:
        await life.calm.wait()
        return
    run = await life.run_of(str(event))
    if run is not None:
        await read(life, run, 0, "strike")


def _watched(life: Life, host: SimulatedHost, what: str) -> list[SimulatedProcess]:
    if "plugin" in what:
        return life.plugins_of(host)
    return [] if host.process is None else [host.process]


def _watch(processes: Sequence[SimulatedProcess], count: Callable[[], None] | None) -> None:
    for process in processes:
        process.after_callback = count


def _strike(life: Life, host: SimulatedHost, what: str) -> None:
    match what:
        case "kill host at await":
            host.kill()
        case "power cut at await":
            cut_power(life, host)
        case "freeze host at await":
            host.freeze()
        case "kill plugin at await":
            for process in life.plugins_of(host):
                process.kill()


ACTIONS = dict.fromkeys(KINDS, strike)
