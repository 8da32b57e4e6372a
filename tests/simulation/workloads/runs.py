"""What is done with runs: children, cancellations, retries and forks."""

from __future__ import annotations

from functools import partial
from typing import Any

from hostler_protocol.errors import HostlerError
from simulation.life import WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.messages import program, read

CHILD = {
    "name": "child",
    "runner": "plugin:test/actor/resumable",
    "scope": {"type": "conversation", "id": "only for children"},
    "resource_policy": {"allowed_agents": ["child"]},
}
AGENT = {
    "name": "worker",
    "scope": {"type": "conversation", "id": "only for work"},
    "resource_policy": {"allowed_agents": ["child"]},
}


def plan(draft: Draft) -> None:
    """Mostly: one or two runs with children, or that fail, and what people do with them."""
    draft.agents.append(CHILD)
    chance = draft.chance("runs")
    if chance.random() > 0.7:
        return
    runner = f"plugin:test/actor/{chance.choice(['resumable', 'resumable', 'plain'])}"
    recovery = {"max_attempts": chance.choice([1, 3])}
    draft.agents.append({**AGENT, "runner": runner, "recovery": recovery})
    for number in range(chance.randint(1, 2)):
        name, at = f"w{number}", chance.uniform(0, MAX_MOMENT * 0.5)
        steps = program(chance, name)[:2]
        last = chance.choice(["child", "child", "leave", "stubborn", "fail_retryably", "nothing"])
        if last in ("child", "leave"):
            grandchild = [["child", program(chance, f"{name}cc")[:1]]] if chance.random() < 0.3 else []
            steps.append([last, [*program(chance, f"{name}c")[:2], *grandchild]])
        elif last == "stubborn":
            steps.append([last, round(chance.uniform(0.5, 4), 2)])
        elif last == "fail_retryably":
            steps.append([last])
        host = chance.randint(0, 1)
        draft.add(at, "message", id=name, agent="worker", conversation=name, steps=steps, host=host)
        what = chance.choice(["cancel", "cancel", "retry", "fork", "fork", "nothing"])
        after = at + chance.expovariate(1.0) * chance.choice([0.05, 0.5, 3.0])
        if what == "cancel":
            draft.add(after, what, event=name, grace=chance.choice([None, 0.0, 0.2, 3.0]), host=host)
        elif what != "nothing":
            part = round(chance.random(), 3)
            draft.add(after, what, event=name, host=host, part=part, effects=chance.random() < 0.5)


async def cancel(life: Life, action: Action) -> None:
    """Cancel the run of an event, as soon as it has one."""
    data = action.data
    run = await life.run_of(data["event"])
    if run is None:
        return
    await life.persist(
        data["host"],
        lambda h: h.cancel(WORKSPACE, run, reason="they wish so", actor="customer", grace=data["grace"]),
    )
    life.outside.note("cancelled", event=data["event"], run=run, grace=data["grace"])


async def retry(life: Life, action: Action) -> None:
    """Retry the run of an event once it is over, or fork it; read the stream of what comes of it."""
    data = action.data
    run = await life.run_of(data["event"])
    if run is None:
        return
    if action.what == "retry":
        await read(life, run, data["host"], f"{data['event']} again")
    work: Any = partial(_retry, run) if action.what == "retry" else partial(_fork, run, data)
    try:
        made = await life.persist(data["host"], work)
    except HostlerError as error:
        life.outside.note("not done again", run=run, what=action.what, code=error.code, error=error.message)
        return
    life.outside.note("done again", what=action.what, source=run, run=made, effects=data["effects"])
    await read(life, made, data["host"], f"{data['event']} {action.what}")


async def _retry(run: str, host: Any) -> str:
    made: str = await host.reruns.retry(WORKSPACE, run, actor="customer")
    return made


async def _fork(run: str, data: dict[str, Any], host: Any) -> str:
    at = None if data["part"] > 0.7 else int(data["part"] * 5)  # a step that it may not have
    made: str = await host.reruns.fork(WORKSPACE, run, actor="customer", at=at, effects=data["effects"])
    return made


ACTIONS = {"cancel": cancel, "retry": retry, "fork": retry}
