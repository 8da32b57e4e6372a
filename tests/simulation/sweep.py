"""A fault at every await of one short life: each point is a life of its own."""

from __future__ import annotations

from collections.abc import Iterator

from simulation.life import Ended
from simulation.lives import Workers
from simulation.plan import Action, Plan
from simulation.workloads.strikes import KINDS

FREEZE_SECONDS = 9.0
"""Longer than the lease of a host of a life."""
NEVER = 10**9
STEPS = [["tool", "refund", "s.0"], ["set", "s", "s.1"], ["tool", "note", "s.2"], ["say", "s.3"]]
"""An approval, a write of state, a call with an effect, an answer."""


def plan(kind: str, count: int, steps: list[list[str]] = STEPS) -> Plan:
    """Return the life in which a fault comes after so many callbacks from the message on."""
    frozen = "freeze" in kind
    data = {"host": 0, "count": count, "seconds": FREEZE_SECONDS if frozen else 0.5, "event": "s"}
    sent = {"id": "s", "agent": "swept", "conversation": "s", "steps": steps, "host": 0}
    return Plan(
        seed="sweep",
        hosts=2 if frozen else 1,
        agents=[{"name": "swept", "runner": "plugin:test/actor/resumable"}],
        actions=[Action(0.0, kind, data), Action(0.0, "message", sent)],
    )


def points(workers: Workers, kind: str) -> int:
    """Return how many callbacks there are from the message to the end of its run, without a fault."""
    ended = workers.live(plan(kind, NEVER))
    if ended.findings:
        raise RuntimeError(f"the life has findings without a fault: {ended.findings}")
    ((_, _, data),) = [note for note in ended.log if note[1] == "counted"]
    found: int = data["callbacks"]
    return found


def sweep(workers: Workers, kind: str, every: int = 1) -> Iterator[Ended]:
    """Live the life once for each point, or for each n-th one."""
    yield from workers.live_all(plan(kind, count) for count in range(1, points(workers, kind) + 1, every))


def place_of(ended: Ended) -> str:
    """Return which point a life of a sweep is."""
    strike = next(action for action in ended.plan.actions if action.what in KINDS)
    return f"{strike.what} {strike.data['count']}"
