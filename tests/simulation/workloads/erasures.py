"""Conversations and people's data that are deleted on request, while runs are under way and people are asked.

Every message bears a word of its own, which must be nowhere after its deletion.
"""

from __future__ import annotations

import random
from typing import Any

from hostler.host import maintenance
from hostler.host.host import Host
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler_protocol.errors import ConflictError
from simulation.life import WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft

WORDS = ("amber", "birch", "cedar", "dahlia", "elder", "fennel", "ginger")
PEOPLE = ("person-iris", "person-jade")
TALKS = ("talk-kelp", "talk-lime")
RETRY_SECONDS = 0.5


def plan(draft: Draft) -> None:
    """Often: messages of two people in two conversations; one of either is deleted."""
    chance = draft.chance("erasures")
    if chance.random() > 0.4:
        return
    draft.agents.append(
        {
            "name": "teller",
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'keeper', 'maker', 'maker'])}",
            "concurrency": {
                "on_busy": chance.choice(["queue", "interrupt", "parallel"]),
                "on_pause": chance.choice(["hold", "supersede"]),
                "debounce": chance.choice([0.0, 0.0, 0.4]),
            },
            "state_policy": {"state_scopes": ["conversation", "actor"]},
            "resource_policy": {
                "allowed_agents": ["child"],
                "tool_approval": {"actor.refund": {"approval": "required", "editable": True}},
            },
            "scope": {"type": "conversation", "id": "only for tellers"},
        }
    )
    for number, word in enumerate(WORDS[: chance.randint(2, len(WORDS))]):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"z{number}",
            agent="teller",
            conversation=chance.choice(TALKS),
            actor=chance.choice(PEOPLE),
            steps=_steps(chance, word),
            host=chance.randint(0, 1),
        )
    for _ in range(chance.choice([1, 1, 2])):
        kind = chance.choice(["conversation", "actor"])
        draft.add(
            chance.uniform(MAX_MOMENT * 0.2, MAX_MOMENT),
            "erase",
            kind=kind,
            id=(TALKS if kind == "conversation" else PEOPLE)[0],
            cancels=chance.random() < 0.5,
            host=chance.randint(0, 1),
        )


def _steps(chance: random.Random, word: str) -> list[list[Any]]:
    texts = iter(f"{word} {n}" for n in range(100))

    def step() -> list[Any]:
        match chance.choice(["say", "tool", "ask", "hold", "set", "file", "scopes", "child", "wait"]):
            case "tool":
                return ["tool", chance.choice(["note", "book", "pick", "refund"]), next(texts)]
            case "hold":
                call = f"call of {word[:3]} {next(texts).partition(' ')[2]}"  # ids of calls are kept
                return ["hold", [["refund", f"{call}r"], ["ask", f"{call}a"]]]
            case "set":
                return ["set", word, next(texts)]
            case "file":
                return ["file", next(texts), chance.choice([1, 900, 5_000])]
            case "scopes":
                return ["scopes", word, next(texts)]
            case "child":
                return ["child", [["say", next(texts)], ["tool", "refund", next(texts)]]]
            case "wait":
                return ["wait", round(chance.uniform(0.1, 4), 2)]
            case kind:
                return [kind, next(texts)]

    steps = [step() for _ in range(chance.randint(1, 4))]
    makers = ("file", "scopes")  # another runner says it instead
    return [one for one in steps if one[0] not in makers] + [one for one in steps if one[0] in makers]


async def erase(life: Life, action: Action) -> None:
    """Delete, and ask again until no run is in the way; some cancel what is."""
    data = action.data
    while not life.over:
        began = life.world.loop.time()
        try:
            receipt = await life.persist(data["host"], lambda h: _delete(h, data), seconds=60)
        except ConflictError as error:
            life.outside.note("erasure refused", id=data["id"], error=error.message)
            if data["cancels"]:
                await _cancel(life, data)
            await life.look_again(RETRY_SECONDS)
        else:
            life.outside.note(
                "erased", what=data["kind"], id=data["id"], began=began, deleted=receipt.deleted
            )
            return


async def _delete(host: Host, data: dict[str, Any]) -> DeletionReceipt:
    if data["kind"] == "conversation":
        return await maintenance.delete_conversation(host.data, WORKSPACE, data["id"], by="operator")
    return await maintenance.delete_actor(host.data, WORKSPACE, data["id"], by="operator", actor_type=None)


async def _cancel(life: Life, data: dict[str, Any]) -> None:
    for (run,) in life.rows(
        "SELECT r.run_id FROM runs r JOIN events e ON e.workspace_id = r.workspace_id"
        f" AND e.event_id = r.event_id WHERE '{data['id']}' IN (e.conversation_id, e.actor_id)"
        " AND r.finished_at IS NULL"
    ):
        await life.persist(
            data["host"],
            lambda h, run=run: h.cancel(WORKSPACE, run, reason="it is deleted", actor="operator", grace=0.5),  # type: ignore[misc]
        )


ACTIONS = {"erase": erase}
