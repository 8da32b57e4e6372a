"""People lose the right to approve, with what they have approved that is not carried out yet."""

from __future__ import annotations

import asyncio

from hostler.host.host import Host
from simulation.life import Life, wait
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads import signing_in


def plan(draft: Draft) -> None:
    """Now and then the key of somebody is revoked, often just when a decision was acknowledged."""
    chance = draft.chance("rights")
    for _ in range(chance.choice([1, 1, 2, 3])):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.7),
            "revoke key",
            who=chance.choice(["clerk", "clerk", "boss"]),
            decisions=chance.choice([0, 1, 1, 2]),
            seconds=round(chance.choice([0.01, 1.0, 5.0]) * chance.uniform(0.5, 1.5), 3),
        )


async def revoke(life: Life, action: Action) -> None:
    """Revoke the key of a person, after so many more decisions; a while later there is a new one."""
    data = action.data
    left, decided = data["decisions"], asyncio.Event()

    def noted(kind: str) -> None:
        nonlocal left
        left -= kind == "decided"
        if left == 0:
            life.world.loop.call_soon(decided.set, context=life.clients.context())

    life.outside.at_note.append(noted)
    if left:
        await life.first_of(decided, life.calm)
    life.outside.at_note.remove(noted)
    key = life.keys.pop(data["who"], None)
    if key is None:
        return

    async def work(host: Host) -> None:
        await host.db.write(lambda tx: signing_in.leave(tx, key))

    life.revoked.add(key)
    await life.persist(0, work)
    life.outside.note("revoked", who=data["who"], key=key)
    await wait(data["seconds"])
    life.renewed.add(key)


ACTIONS = {"revoke key": revoke}
