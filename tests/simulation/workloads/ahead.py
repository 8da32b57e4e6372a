"""People who approve ahead: with one call those that are like it, so many times."""

from __future__ import annotations

from simulation.plan import MAX_MOMENT, Draft


def plan(draft: Draft) -> None:
    """In some lives: an agent whose calls are like one another, and people who approve some of them ahead."""
    chance = draft.chance("ahead")
    draft.people = {**draft.people, "ahead": chance.choice([0.5, 1.0])}
    draft.agents.append(
        {
            "name": "ahead",
            "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain'])}",
            "concurrency": {"on_busy": chance.choice(["queue", "parallel"])},
            "scope": {"type": "conversation", "id": "only for those ahead"},
        }
    )
    for number in range(chance.randint(1, 3)):
        texts = [f"x{number} same {chance.randint(1, 2)}" for _ in range(chance.randint(1, 4))]
        calls = [["tool", "refund", text] for text in texts]
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.6),
            "message",
            id=f"x{number}",
            agent="ahead",
            conversation=f"x{chance.randint(1, 2)}",
            steps=[["together", calls]] if chance.random() < 0.3 else calls,
            host=chance.randint(0, 1),
        )
