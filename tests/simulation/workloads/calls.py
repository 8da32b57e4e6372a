"""Faults in the middle of a tool's call: asked for, on its way, done, or about to be made by its intent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.world import SimulatedHost
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.faults import cut_power

KINDS = ("kill host at call", "power cut at call", "freeze host at call", "kill plugin at call")
STAGES = ("intended", "intended", "asked", "arrived", "done", "answered")
"""When: its intent is committed and nobody knows yet; the tool asks its service; the request has arrived; it
has been carried out; its outcome is committed."""


def plan(draft: Draft) -> None:
    """In two of five lives: one or two faults at the n-th call."""
    chance = draft.chance("calls")
    if chance.random() > 0.4:
        return
    for _ in range(chance.choice([1, 1, 2])):
        what = chance.choice([*KINDS, *KINDS[2:3] * 2] if draft.hosts > 1 else KINDS)
        lasts = chance.choice([1.0, 8.0, 12.0] if what.startswith("freeze") else [0.05, 1.0, 8.0])
        draft.add(
            chance.uniform(0.0, MAX_MOMENT * 0.5),
            what,
            stage=chance.choice(STAGES),
            count=chance.choice([1, 1, 2, 3, 5]),
            seconds=round(lasts * chance.uniform(0.7, 1.3), 3),
        )


async def fault(life: Life, action: Action) -> None:
    """Let something go wrong at the n-th call from now on, on the host that makes it."""
    data = action.data
    struck: list[SimulatedHost] = []
    done = asyncio.Event()
    left = data["count"]

    def reached(host: SimulatedHost) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not life.calm.is_set():
            _strike(life, host, action.what)
            struck.append(host)
            life.world.loop.call_soon(done.set, context=life.clients.context())

    unhook = _watch(life, data["stage"], reached)
    await life.first_of(done, life.calm)
    unhook()
    for host in struck:
        life.outside.note("fault", what=action.what, host=host.name, stage=data["stage"])
        freezes = action.what.startswith("freeze")
        await life.later(data["seconds"], host.thaw if freezes else host.start)


def _strike(life: Life, host: SimulatedHost, what: str) -> None:
    match what:
        case "kill host at call":
            host.kill()
        case "power cut at call":
            cut_power(life, host)
        case "freeze host at call":
            host.freeze()
        case "kill plugin at call":
            for process in life.plugins_of(host):
                process.kill()


def _watch(life: Life, stage: str, reached: Callable[[SimulatedHost], None]) -> Callable[[], None]:
    """Call `reached` at each call that comes to the stage; return how to stop that."""
    if stage in ("intended", "answered"):
        return _watch_journal(life, "intent" if stage == "intended" else "call", reached)

    def watch(kind: str, at: str, caller: SimulatedProcess | None) -> None:
        if kind == "tool" and at == stage and caller is not None:
            for host in life.hosts:
                if host.process is not None and caller.name.startswith(f"{host.process.name}/"):
                    life.world.loop.call_soon(reached, host, context=life.clients.context())

    life.outside.watchers.append(watch)
    return lambda: life.outside.watchers.remove(watch)


def _watch_journal(life: Life, kind: str, reached: Callable[[SimulatedHost], None]) -> Callable[[], None]:
    query = f"SELECT count(*) FROM journal WHERE kind = '{kind}' AND type = 'tool.call'"
    known = {host.name: life.rows(query, host)[0][0] for host in life.hosts}

    def committed(host: SimulatedHost) -> None:
        count = life.rows(query, host)[0][0]
        if count > known[host.name]:
            reached(host)
        known.update((one.name, count) for one in life.hosts if one.disk is host.disk)

    calls = [partial(committed, host) for host in life.hosts]
    for host, call in zip(life.hosts, calls, strict=True):
        host.at_commit.append(call)

    def unhook() -> None:
        for host, call in zip(life.hosts, calls, strict=True):
            host.at_commit.remove(call)

    return unhook


ACTIONS = dict.fromkeys(KINDS, fault)
