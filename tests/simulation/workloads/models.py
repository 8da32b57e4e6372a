"""Runs that ask models, and faults of the models' service."""

from __future__ import annotations

import random
from typing import Any

from simulation.http_service import ILLS
from simulation.model_service import KEY_NAME, NAME, PRICE, URL
from simulation.plan import MAX_MOMENT, Draft
from simulation.workloads.services import plan_ills

MODEL = "thinker"


def plan(draft: Draft) -> None:
    """One agent that asks a model, some conversations with it, and faults of the model's service."""
    chance = draft.chance("models")
    draft.models.append(
        {
            "id": MODEL,
            "base_url": URL,
            "api_key": f"env:{KEY_NAME}",
            "timeout": chance.choice([2.0, 10.0]),
            "max_retries": chance.choice([0, 2]),
            "price": PRICE,
        }
    )
    draft.agents.append(
        {
            "name": "m0",
            "runner": f"plugin:test/actor/{'resumable' if chance.random() < 0.8 else 'plain'}",
            "config": {"model": MODEL, "timeout": chance.choice([8, 40])},
            "concurrency": {"on_busy": chance.choice(["queue", "parallel", "interrupt"])},
            "recovery": {"max_attempts": chance.choice([2, 3, 5])},
            "resource_policy": {"budget": {"max_tokens_per_run": 10_000}},
            "scope": {"type": "conversation", "id": "only for m0"},
        }
    )
    for number in range(chance.randint(0, 4)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "message",
            id=f"m{number}",
            agent="m0",
            conversation=f"m{chance.randint(1, 2)}",
            steps=program(chance, f"m{number}"),
            host=chance.randint(0, 1),
        )
    plan_ills(draft, NAME, ILLS)


def program(chance: random.Random, name: str) -> list[list[Any]]:
    """Return the steps of a run."""
    texts = iter(f"{name}.{n}" for n in range(100))

    def think() -> list[Any]:
        kind = chance.choice(["model", "stream"])
        return [kind, next(texts)] + ([1.0] if chance.random() < 0.2 else [])

    def step() -> list[Any]:
        tool = chance.choice(["note", "book", "pay", "price", "refund"])
        wait = ["wait", round(chance.uniform(0.01, 2), 3)]
        together = ["together", [think(), think(), think()]]
        return chance.choice([think(), think(), together, ["tool", tool, next(texts)], wait])

    return [step() for _ in range(chance.randint(1, 4))]
