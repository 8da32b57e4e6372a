"""What lives are said to be made of truly happens in them."""

from __future__ import annotations

from collections import Counter

from simulation.catalog import plan_of
from simulation.lives import live_all
from simulation.occurrences import ALL
from simulation.plan import Action, Plan

SEEDS = (
    *range(1, 25),
    29,
    45,
    56,
    73,
    74,
    96,
    128,
    134,
    145,
    147,
    148,
    150,
    163,
    173,
    174,
    197,
    203,
    240,
    247,
    272,
    299,
)
"""Lives that show all of it. If the plans of lives change: `python -m simulation coverage` names others."""

SENT = {"id": "e", "agent": "long", "conversation": "c", "steps": [["wait", 9], ["say", "done"]]}
STOPPED = Plan(
    seed="stopped",
    agents=[{"name": "long", "runner": "plugin:test/actor/resumable"}],
    actions=[Action(0.1, "message", SENT), Action(1.0, "stop host", {"host": 0, "seconds": 0.5})],
)
"""A host stops while a run has more to do than it waits for; one of 300 lives has that by itself."""


def test_everything_that_lives_are_made_of_happens() -> None:
    happened: Counter[str] = Counter()
    for ended in live_all([STOPPED, *(plan_of(str(seed)) for seed in SEEDS)]):
        happened.update(ended.counts)
    assert [name for name in ALL if not happened[name]] == []
