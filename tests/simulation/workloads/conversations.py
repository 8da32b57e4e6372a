"""People who write several messages to one agent, while it is busy, listens or waits for a person."""

from __future__ import annotations

from simulation.plan import MAX_MOMENT, Draft
from simulation.workloads.messages import program

ON_BUSY = ("steer", "steer", "queue", "interrupt", "reject", "parallel")


def plan(draft: Draft) -> None:
    """Mostly: one or two people write a few messages in one conversation."""
    chance = draft.chance("conversations")
    if chance.random() > 0.7:
        return
    concurrency = {
        "on_busy": chance.choice(ON_BUSY),
        "on_pause": chance.choice(["hold", "supersede", "reject"]),
        "leftover": chance.choice(["requeue", "requeue", "drop"]),
        "debounce": chance.choice([0.0, 0.0, 0.4]),
        "max_runs": chance.choice([None, None, 1]),
    }
    chosen = {
        "name": "talk",
        "runner": f"plugin:test/actor/{chance.choice(['resumable', 'plain'])}",
        "config": chance.choice([{}, {}, {"timeout": round(chance.uniform(1, 8), 2)}]),
        "idle_timeout": chance.choice([None, None, 1.5]),
        "concurrency": concurrency,
        "recovery": {
            "on_crash": chance.choice([None, "resume", "restart", "fail"]),
            "max_attempts": chance.choice([1, 3]),
        },
        "scope": {"type": "conversation", "id": "talks"},
        "priority": chance.randint(1, 3),
    }
    # a second agent wants the same messages where none is named: the first is chosen, for its priority
    other = {**chosen, "name": "talk too", "priority": 0, "concurrency": {"on_busy": "queue"}}
    draft.agents += [chosen, other]
    at = chance.uniform(0, MAX_MOMENT * 0.5)
    for number in range(chance.randint(2, 6)):
        at += chance.expovariate(1.0) * chance.choice([0.02, 0.3, 2.0])
        steps = program(chance, f"t{number}")
        if chance.random() < 0.5:
            steps.append(["listen", chance.randint(2, 4), round(chance.uniform(0.05, 1), 3)])
        draft.add(
            at,
            "message",
            id=f"t{number}",
            agent=chance.choice([None, None, "talk"]),
            conversation="talks",
            actor=chance.choice(["u1", "u1", "u2"]),
            steps=steps,
            host=chance.randint(0, 1),
            delay=chance.choice([None, None, None, round(chance.uniform(0.1, 4), 2)]),
        )
