"""Faults at a moment in the course of a run: at its claim, in the middle of a tool's call, when it waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from hostler.simulation.loop import SimulatedProcess
from hostler.simulation.world import SimulatedHost
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.faults import cut_power

KINDS = ("kill host at call", "power cut at call", "freeze host at call", "kill plugin at call")
STAGES = ("intended", "intended", "asked", "arrived", "done", "answered", "claimed", "claimed")
"""When: the intent of a call is committed and nobody knows yet; the tool asks its service; the request has
arrived; it has been carried out; its outcome is committed. Or a run is claimed."""
COMMITTED = {
    "intended": "kind = 'intent' AND type = 'tool.call'",
    "answered": "kind = 'call' AND type = 'tool.call'",
    "claimed": "kind = 'lifecycle' AND type = 'claimed'",
    "waiting": "kind = 'decision' AND type = 'pause.open'",
    "going on": "kind = 'decision' AND type = 'pause.resuming'",
    "told": "kind = 'result'",
}
"""Journal entries whose commit is the moment. Waiting: for people; going on: after they decided."""
HEARD = ("accepted", "decided")
"""When a client has heard that its event, or its decision, was taken."""
FREEZES = (*["intended"] * 3, "asked", "claimed", *["waiting"] * 3, "told", "told")


def plan(draft: Draft) -> None:
    """Faults at calls in half of the lives; freezes that outlast the lease in most with two hosts; power cuts
    in two of five with one host; faults when a run goes on after a pause, where people decide a lot."""
    chance = draft.chance("calls")
    if chance.random() < 0.5:
        for _ in range(chance.choice([1, 1, 2])):
            _draw(draft, chance, chance.choice(KINDS), chance.choice(STAGES), chance.choice([1, 1, 2, 3, 5]))
    chance = draft.chance("freezes")
    for _ in range(chance.choice([0, 1, 2, 2]) if draft.hosts > 1 else 0):
        stage = chance.choice(FREEZES)
        count = chance.randint(1, 8) if stage == "told" else chance.choice([1, 1, 2])
        _draw(draft, chance, "freeze host at call", stage, count, chance.uniform(7, 13))
    chance = draft.chance("power cuts")
    if draft.hosts == 1 and chance.random() < 0.4:
        stage = chance.choice([*HEARD, "asked"])
        _draw(draft, chance, "power cut at call", stage, chance.choice([1, 2, 3]))
    chance = draft.chance("going on")
    if draft.people and chance.random() < 0.75:
        for _ in range(chance.choice([1, 2])):
            what = chance.choice(["kill host at call", "kill plugin at call"])
            _draw(draft, chance, what, "going on", chance.choice([1, 1, 2]))


def _draw(
    draft: Draft, chance: random.Random, what: str, stage: str, count: int, seconds: float | None = None
) -> None:
    lasts = seconds or chance.choice([0.05, 1.0, 8.0]) * chance.uniform(0.7, 1.3)
    at = chance.uniform(0.0, MAX_MOMENT * 0.5)
    draft.add(at, what, stage=stage, count=count, seconds=round(lasts, 3))


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
            life.outside.note("struck", what=action.what, host=host.name, data=data)
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
    if stage in COMMITTED:
        return _watch_journal(life, COMMITTED[stage], reached)
    if stage in HEARD:
        return _watch_notes(life, stage, reached)

    def watch(kind: str, at: str, caller: SimulatedProcess | None) -> None:
        if kind == "tool" and at == stage and caller is not None:
            for host in life.hosts:
                if host.process is not None and caller.name.startswith(f"{host.process.name}/"):
                    life.world.loop.call_soon(reached, host, context=life.clients.context())

    life.outside.watchers.append(watch)
    return lambda: life.outside.watchers.remove(watch)


def _watch_notes(life: Life, stage: str, reached: Callable[[SimulatedHost], None]) -> Callable[[], None]:
    def heard(kind: str) -> None:
        if kind == stage:
            life.world.loop.call_soon(reached, life.hosts[0], context=life.clients.context())

    life.outside.at_note.append(heard)
    return lambda: life.outside.at_note.remove(heard)


def _watch_journal(life: Life, entries: str, reached: Callable[[SimulatedHost], None]) -> Callable[[], None]:
    query = f"SELECT count(*) FROM journal WHERE {entries}"
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
