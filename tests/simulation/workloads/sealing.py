"""Pauses whose state is sealed, under a key that an operator replaces."""

from __future__ import annotations

import hashlib
import os

from hostler.host.config import ConfigFile
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft

NAMES = ("HOSTLER_SIMULATED_PAUSE_KEY", "HOSTLER_SIMULATED_LATER_PAUSE_KEY")
OLD, NEW = (f"env:{name}" for name in NAMES)
for name in NAMES:
    os.environ[name] = hashlib.sha256(name.encode()).hexdigest()


def plan(draft: Draft) -> None:
    """In some lives: an agent that keeps its own state over pauses, sealed; perhaps the key changes."""
    chance = draft.chance("sealing")
    draft.pause_key = [OLD]
    draft.agents.append(
        {
            "name": "sealed",
            "runner": "plugin:test/actor/keeper",
            "concurrency": {"on_busy": "queue", "on_pause": chance.choice(["hold", "supersede"])},
            "scope": {"type": "conversation", "id": "only for the sealed"},
        }
    )
    for number in range(chance.randint(1, 3)):
        kinds = chance.sample(["refund", "pick", "ask"], chance.randint(1, 2))
        steps = [
            ["hold", [[kind, f"y{number}.{kind}"] for kind in kinds]],
            ["say", f"y{number}"],
            ["hold", [["ask", f"y{number}.again"]]],
        ]
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"y{number}",
            agent="sealed",
            conversation=f"y{chance.randint(1, 2)}",
            steps=steps,
            host=chance.randint(0, 1),
        )
    if draft.hosts == 1 and chance.random() < 0.5:  # several hosts would have to learn of it at once
        draft.add(chance.uniform(0, MAX_MOMENT), "change pause key", host=0)


async def change_key(life: Life, action: Action) -> None:
    """Seal with another key from now on; the old one still opens what it sealed."""
    life.pause_key = [NEW, OLD]
    change = ConfigFile(pause_key=life.pause_key)
    await life.persist(0, lambda h: h.apply(change, actor="operator"), seconds=60)
    life.outside.note("operated", what=action.what)


ACTIONS = {"change pause key": change_key}
