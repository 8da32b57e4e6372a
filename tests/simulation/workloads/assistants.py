"""The shipped agent, whose model asks for the tools that a message names, round after round."""

from __future__ import annotations

from simulation.plan import MAX_MOMENT, Draft
from simulation.workloads.models import MODEL

TOOLS = ("note", "book", "pay", "price", "refund")


def plan(draft: Draft) -> None:
    """Often: one or two conversations with the shipped agent."""
    chance = draft.chance("assistants")
    if chance.random() > 0.55 or not draft.models:
        return
    draft.agents.append(
        {
            "name": "assistant",
            "runner": "plugin:hostler/local-agent/default",
            "config": {
                "model": {"primary": MODEL},
                "timeout": chance.choice([0, 60]),
                "tool-execution-mode": chance.choice(["parallel", "serial"]),
            },
            "concurrency": {"on_busy": chance.choice(["steer", "steer", "queue", "interrupt"])},
            "recovery": {"max_attempts": 5},
            "resource_policy": {"allowed_tool_names": [f"actor.{tool}" for tool in TOOLS]},
            "scope": {"type": "conversation", "id": "only for assistants"},
        }
    )
    at = chance.uniform(0, MAX_MOMENT * 0.5)
    for number in range(chance.randint(1, 4)):
        rounds = [chance.sample(TOOLS, chance.randint(1, 3)) for _ in range(chance.randint(0, 3))]
        asked = ", ".join(" ".join(tools) for tools in rounds)
        draft.add(
            at,
            "message",
            id=f"l{number}",
            agent="assistant",
            conversation=f"l{chance.randint(1, 2)}",
            steps=[],
            text=f"l{number}: {asked}",
            host=chance.randint(0, 1),
        )
        at += chance.expovariate(1.0) * chance.choice([0.05, 0.5, 3.0])
