"""Runs that use what a host keeps, with budgets, rates and long streams; retention removes some of it."""

from __future__ import annotations

import random
from typing import Any

from hostler.domain.retention import Retention
from hostler.host.config import ConfigFile
from hostler.host.host import Host
from simulation.life import Life
from simulation.plan import MAX_MOMENT, Action, Draft

SECONDS_PER_DAY = 86_400.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LONG_STREAM = (1_100, 1_600)
"""Deltas of one run: more than the first credit of a runner."""


def plan(draft: Draft) -> None:
    """Mostly: some runs of an agent that keeps files, state and storage."""
    chance = draft.chance("keeping")
    if chance.random() > 0.7:
        return
    budget: dict[str, Any] = chance.choice([{}, {}, {"max_calls_per_run": 12}, {"max_calls_per_day": 25}])
    draft.agents.append(
        {
            "name": "maker",
            "runner": "plugin:test/actor/maker",
            "config": chance.choice([{}, {"timeout": 30}]),
            "allow_questions": chance.random() < 0.5,
            "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
            "state_policy": {"state_scopes": ["conversation", "actor", "runner"]},
            "delivery_policy": {"enable_streaming": chance.random() < 0.8},
            "resource_policy": {
                "allowed_agents": ["child"],
                "budget": budget,
                "rate": {"calls_per_second": chance.choice([None, None, 20.0])},
                "allow_plugin_storage": chance.random() < 0.9,
            },
            "scope": {"type": "conversation", "id": "only for makers"},
        }
    )
    for number in range(chance.randint(1, 3)):
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"k{number}",
            agent="maker",
            conversation=f"k{chance.randint(1, 2)}",
            steps=_steps(chance, f"k{number}"),
            contents=[{"type": "image_base64", "image_base64": f"data:image/png;base64,{PIXEL}"}]
            if chance.random() < 0.3
            else [],
            host=chance.randint(0, 1),
        )
    if chance.random() < 0.4:
        draft.settings["collect_seconds"] = 2.0
        seconds = chance.choice([1.0, 5.0])
        at = chance.uniform(0, MAX_MOMENT * 0.7)
        draft.add(at, "keep for seconds", seconds=seconds, host=chance.randint(0, 1))


def _steps(chance: random.Random, name: str) -> list[list[Any]]:
    texts = iter(f"{name}.{n}" for n in range(100))

    def step() -> list[Any]:
        match chance.choice(
            ["file", "file", "scopes", "store", "recall", "look", "stop", "flow", "calls", "ask"]
        ):
            case "file":
                return ["file", next(texts), chance.choice([0, 1, 900, 5_000])]
            case "scopes":
                return ["scopes", name, next(texts)]
            case "store":
                return ["store", name, next(texts)]
            case "stop":
                return ["begin_and_stop", [["wait", chance.choice([0.0, 1.0])], ["say", next(texts)]]]
            case "flow":
                return ["flow", chance.choice([20, 300, chance.randint(*LONG_STREAM)])]
            case "calls":
                return ["calls", chance.choice([3, 15, 30]), next(texts)]
            case "ask":
                return ["ask", next(texts)]
            case one:
                return [one]

    return [*(step() for _ in range(chance.randint(1, 4))), ["say", f"{name} said"]]


async def keep_for_seconds(life: Life, action: Action) -> None:
    """Let files and state be removed a few seconds after their last use."""
    days = action.data["seconds"] / SECONDS_PER_DAY
    config = ConfigFile(retention=Retention(artifacts=days, states=days))

    async def work(host: Host) -> None:
        await host.apply(config, actor="operator")

    await life.persist(action.data["host"], work, seconds=60)
    life.outside.note("operated", what=action.what)


ACTIONS = {"keep for seconds": keep_for_seconds}
