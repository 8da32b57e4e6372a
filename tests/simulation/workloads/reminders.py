"""Runs that have themselves reminded, while hosts come and go."""

from __future__ import annotations

from simulation.plan import MAX_MOMENT, Draft

AGENT = "minder"
CONVERSATION = "reminders"


def plan(draft: Draft) -> None:
    """In some lives an agent that makes reminders, and people who ask it to."""
    chance = draft.chance("reminders")
    if chance.random() >= 0.15:
        return
    draft.agents.append(
        {
            "name": AGENT,
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain'])}",
            "resource_policy": {"allow_schedules": True},
            "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
            "recovery": {"on_crash": chance.choice([None, "restart"]), "max_attempts": 5},
            "scope": {"type": "conversation", "id": "only for the minder"},
        }
    )
    for number in range(chance.randint(1, 3)):
        name = f"m{number}"
        later = [["tool", "note", f"{name}.later"]]
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=name,
            agent=AGENT,
            conversation=CONVERSATION,
            actor="minded",
            steps=[
                ["wait", chance.choice([0.01, 0.3])],
                ["remind", name, chance.choice([1, 2.5, 6]), later],
                ["wait", chance.choice([0.01, 0.5])],
            ],
            host=chance.randint(0, 1),
        )
