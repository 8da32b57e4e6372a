"""Agents that are chosen by filters, and filters that cannot be evaluated for a while."""

from __future__ import annotations

from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.workloads.messages import program

SIDES = ("left", "left", "right", "right", "neither", None)


def plan(draft: Draft) -> None:
    """Now and then: messages that name no agent, for one of two."""
    chance = draft.chance("filters")
    if chance.random() > 0.4:
        return
    for side in ("left", "right"):
        draft.agents.append(
            {
                "name": side,
                "runner": "plugin:test/actor/resumable",
                "concurrency": {"on_busy": "queue"},
                "filters": [f"event.data.side == '{side}'"],
                "scope": {"type": "conversation", "id": "sorted"},
            }
        )
    for number in range(chance.randint(2, 5)):
        chosen = chance.choice(SIDES)
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.7),
            "message",
            id=f"f{number}",
            agent=None,
            conversation="sorted",
            data={} if chosen is None else {"side": chosen},
            steps=program(chance, f"f{number}")[:2],
            host=chance.randint(0, 1),
        )
    if chance.random() < 0.6:
        at, seconds = chance.uniform(0, MAX_MOMENT * 0.5), chance.choice([0.5, 3.0, 8.0])
        draft.add(at, "filters break", seconds=seconds)


async def break_filters(life: Life, action: Action) -> None:
    """Let the processes that evaluate filters fail."""
    life.world.filters_broken = True
    await life.later(action.data["seconds"], lambda: setattr(life.world, "filters_broken", False))


ACTIONS = {"filters break": break_filters}
