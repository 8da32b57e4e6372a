"""Messages in quick succession or sent again, readers that come late, hosts with few slots."""

from __future__ import annotations

from typing import Any

from hostler.storage.stores.journal import page_backward
from hostler_protocol.errors import ConflictError, HostlerError
from simulation.life import WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.messages import CUSTOMER, envelope_of, program, read


def plan(draft: Draft) -> None:
    """Now and then: bursts of one person; a second delivery or a late reader of some messages; few slots."""
    _bursts(draft)
    _again(draft)
    _few_slots(draft)


def _bursts(draft: Draft) -> None:
    chance = draft.chance("bursts")
    if chance.random() > 0.5:
        return
    draft.agents.append(
        {
            "name": "burst",
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain'])}",
            "concurrency": {
                "on_busy": chance.choice(["queue", "steer"]),
                "on_pause": chance.choice(["supersede", "supersede", "hold", "reject"]),
                "debounce": chance.choice([0.0, 0.5]),
                "leftover": chance.choice(["requeue", "drop", "drop"]),
            },
            "recovery": {"on_crash": "restart"},
            "scope": {"type": "conversation", "id": "only for bursts"},
        }
    )
    draft.settings.setdefault("hold_seconds", chance.choice([0.2, 3.0]))
    for burst in range(chance.randint(1, 2)):
        at = chance.uniform(0, MAX_MOMENT * 0.6)
        begins: list[list[list[Any]]] = [
            [["ask", f"b{burst}"]],
            [["wait", 1.5]],
            program(chance, f"b{burst}.first"),
        ]
        first = chance.choice(begins)
        for number in range(chance.randint(2, 6)):
            name = f"b{burst}.{number}"
            draft.add(
                at,
                "message",
                id=name,
                agent="burst",
                conversation=f"b{chance.choice([burst, burst, burst, 9])}",
                actor=chance.choice(["u1", "u1", "u1", "u2"]),
                steps=[*first, ["say", name]] if number == 0 else [["say", name]],
                host=chance.randint(0, 1),
            )
            at += chance.expovariate(1.0) * chance.choice([0.05, 0.2, 1.0])


def _again(draft: Draft) -> None:
    chance = draft.chance("again")
    sent = [action for action in draft.actions if action.what == "message" and "workspace" not in action.data]
    if chance.random() > 0.7 or not sent:
        return
    for number in range(chance.randint(1, 3)):
        first = chance.choice(sent)
        at = first.at + chance.expovariate(1.0) * chance.choice([0.001, 0.1, 3.0])
        what = chance.choice(["send again", "send again", "send another", "read late"])
        draft.add(at, what, event=first.data["id"], number=number, host=chance.randint(0, 1))


def _few_slots(draft: Draft) -> None:
    chance = draft.chance("slots")
    if chance.random() > 0.25:
        return
    draft.settings |= chance.choice(
        [
            {"max_active_runs": 2},
            {"max_runs_per_workspace": 2},
            {"max_runs_per_plugin": 2},
            {"max_active_runs": 1, "max_queued_runs": 3},
        ]
    )
    for spec in draft.agents:
        spec.setdefault("priority", chance.randint(0, 2))


async def send_again(life: Life, action: Action) -> None:
    """Deliver an event a second time, perhaps with another body: only the first counts."""
    name, other = action.data["event"], action.what == "send another"
    original = next(one for one in life.plan.actions if one.what == "message" and one.data["id"] == name)
    if "workspace" in original.data:
        return
    before = _answer(life, name)
    data = {**original.data, "steps": [["say", "another"]]} if other else original.data
    if other and before is None:
        return  # then it would be the first one
    envelope = envelope_of(data)
    try:
        again = await life.persist(
            action.data["host"], lambda h: h.orchestrator.accept(envelope, CUSTOMER, delay=data.get("delay"))
        )
    except ConflictError as error:
        life.outside.note("sent again", event=name, other=other, code=error.code)
        if not other and before is not None:
            _wrong(life, f"event {name} was sent again with the same body, and refused: {error.message}")
        return
    except HostlerError as error:
        life.outside.note("sent again", event=name, other=other, code=error.code)
        return
    life.outside.note("sent again", event=name, other=other, duplicate=again.duplicate)
    if other:
        _wrong(life, f"event {name} was sent again with another body, and accepted")
    if before is not None and not again.duplicate:
        _wrong(life, f"event {name} was acknowledged, and accepted as new when it was sent again")
    # what a run absorbed and did not pull is a run of its own after its end, and what was deferred is decided
    if before is not None and before["outcome"] not in (again.outcome, "steered", "deferred"):
        _wrong(life, f"event {name} was {before['outcome']}, and {again.outcome} when it was sent again")


def _answer(life: Life, name: str) -> dict[str, Any] | None:
    for _, kind, data in life.outside.notes:
        if kind == "accepted" and data["event"] == name and data["workspace"] == WORKSPACE:
            return data
    return None


def _wrong(life: Life, text: str) -> None:
    life.outside.note("wrong", text=text)


async def read_late(life: Life, action: Action) -> None:
    """Read the stream of a run from its beginning, and its journal backwards, once it is over."""
    run = await life.run_of(action.data["event"])
    if run is None:
        return
    host, reader = action.data["host"], f"{action.data['event']} reader {action.data['number']}"
    await read(life, run, host, reader)
    await read(life, run, host, f"{reader} late")
    page = await life.persist(host, lambda h: h.db.read(lambda tx: page_backward(tx, run, 1_000_000, 50)))
    positions = [entry.position for entry in page.items]
    if positions != sorted(positions, reverse=True) or not positions:
        _wrong(life, f"the journal of run {run} reads backwards as {positions}")
    life.outside.note("read late", run=run)


ACTIONS = {"send again": send_again, "send another": send_again, "read late": read_late}
