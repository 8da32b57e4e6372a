"""People who write to agents, and read what they answer."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import msgspec

from hostler.domain.events import Caller
from hostler.simulation.world import HostGoneError
from hostler_protocol.errors import HostlerError
from hostler_protocol.events import EventEnvelope
from simulation.life import RETRY_SECONDS, WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft

CUSTOMER = Caller(workspace_id=WORKSPACE, subject="customer", key_id="k1")


def plan(draft: Draft) -> None:
    """Two or three agents of different policies; some conversations; messages at random moments."""
    chance = draft.chance("messages")
    policies = [
        {"on_busy": chance.choice(["steer", "queue", "interrupt", "parallel", "reject"])},
        {"on_busy": "queue", "debounce": chance.choice([0.0, 0.3])},
    ]
    for number, concurrency in enumerate(policies):
        resumable = chance.random() < 0.7
        recovery: dict[str, Any] = {"max_attempts": chance.choice([2, 3, 5])}
        draft.agents.append(
            {
                "name": f"a{number}",
                "runner": f"plugin:test/actor/{'resumable' if resumable else 'plain'}",
                "concurrency": concurrency,
                "recovery": recovery,
                "scope": {"type": "conversation", "id": f"only for a{number}"},
            }
        )
    for number in range(chance.randint(1, 8)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"e{number}",
            agent=chance.choice(["a0", "a1"]),
            conversation=f"c{chance.randint(1, 3)}",
            steps=program(chance, f"e{number}"),
            host=chance.randint(0, 1),
        )


def program(chance: random.Random, name: str) -> list[list[Any]]:
    """Return the steps of a run."""
    texts = iter(f"{name}.{n}" for n in range(100))

    def tool(*kinds: str) -> list[Any]:
        return ["tool", chance.choice(kinds), next(texts)]

    def block(kind: str) -> list[list[Any]]:
        match kind:
            case "serial":
                return [tool("note", "book", "pay", "price") for _ in range(chance.randint(1, 3))]
            case "parallel":
                return [["together", [tool("note"), tool("book"), tool("pay"), tool("price")]]]
            case "approved":
                return [tool("refund")]
            case "mixed":
                return [["together", [tool("refund"), tool("pick"), tool("note")]]]
            case "ask":
                return [["ask", next(texts)]]
            case "state":
                return [["set", name, next(texts)], ["get", name]]
            case "wait":
                return [["wait", round(chance.uniform(0.01, 3), 3)]]
            case "pull":
                return [["pull"]]
            case "fail":
                return [["fail"]]
            case _:
                return [["deltas", chance.randint(1, 4), "d "], ["say", next(texts)]]

    kinds = ["serial", "parallel", "approved", "mixed", "ask", "state", "wait", "wait", "pull", "say", "say"]
    chosen = [chance.choice(kinds) for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.05:
        chosen.append("fail")
    return [step for kind in chosen for step in block(kind)]


def envelope_of(data: dict[str, Any]) -> EventEnvelope:
    """Return the event of a message."""
    event = {
        "event_id": data["id"],
        "event_type": "message.received",
        "agent": data["agent"],
        "conversation_id": data["conversation"],
        "actor": {"actor_type": "user", "actor_id": data.get("actor", "u1")},
        "input": {"text": data.get("text", json.dumps(data["steps"])), "contents": data.get("contents", [])},
        "data": data.get("data", {}),
    }
    return msgspec.convert(event, EventEnvelope)


async def message(life: Life, action: Action) -> None:
    """Send a message until it is taken, and read the stream of its run to its end."""
    data = action.data
    envelope = envelope_of(data)
    workspace, prefer = data.get("workspace", WORKSPACE), data.get("host", 0)
    caller = replace(CUSTOMER, workspace_id=workspace)
    try:
        accepted = await life.persist(
            prefer, lambda h: h.orchestrator.accept(envelope, caller, delay=data.get("delay"))
        )
    except HostlerError as error:
        life.outside.note("refused", event=data["id"], code=error.code, error=error.message)
        return
    run = None if accepted.run is None else accepted.run.run_id
    life.outside.note(
        "accepted",
        event=data["id"],
        workspace=workspace,
        outcome=accepted.outcome,
        run=run,
        agent=data["agent"],
    )
    if run is not None:
        life.runs[workspace, data["id"]] = run
        await read(life, run, prefer, data["id"])


async def read(life: Life, run_id: str, prefer: int, reader: str) -> None:
    """Read the results of a run to its end, from one host or another."""
    after = 0
    while not life.over:
        host = await life.some_host(prefer)

        async def more(h: Any, after: int = after) -> list[tuple[int, str, bytes]]:
            got: list[tuple[int, str, bytes]] = []
            async for batch in h.runs.feed.watch(run_id, after):
                got += [(result.sequence, result.type, bytes(result.json)) for result in batch]
                break
            return got

        try:
            results = await host.ask(more, seconds=10)
        except (HostGoneError, HostlerError):
            await life.look_again(RETRY_SECONDS)
            continue
        for sequence, kind, text in results:
            life.outside.note(
                "seen", reader=reader, run=run_id, sequence=sequence, type=kind, text=text.decode()
            )
            after = sequence
            if kind in ("run.completed", "run.failed"):
                return
        if not results:
            if not life.rows(f"SELECT 1 FROM journal WHERE run_id = '{run_id}'"):
                return  # it was deleted
            await life.look_again(RETRY_SECONDS)


ACTIONS = {"message": message}
