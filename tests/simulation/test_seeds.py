"""Lives of whole hosts: the judges have nothing to say, and everything that lives are made of happens.

Long odds are for `just soak`, which lives the first thousand seeds (docs/simulation.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from simulation.catalog import plan_of
from simulation.life import Ended
from simulation.lives import Workers
from simulation.occurrences import ALL
from simulation.plan import Action, Plan
from simulation.story import plain, story_of
from support.examples import examples

SHOWING = (
    *range(1, 25),
    29,
    45,
    49,
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

OTHERS = [seed for seed in range(1, examples(120, 1_000) + 1) if seed not in SHOWING]
EACH = 25
"""How many of the others a test lives, so that tests spread over the workers."""
MAX_STORY_LINES = 30
pytestmark = pytest.mark.timeout(900)


def lived(workers: Workers, plans: Iterable[Plan]) -> list[Ended]:
    """Live lives in which the judges find nothing."""
    ended = list(workers.live_all(plans))
    if found := [one for one in ended if one.findings]:
        pytest.fail("\n\n".join(map(told, found)), pytrace=False)
    return ended


def test_everything_that_lives_are_made_of_happens_and_leaves_nothing_for_the_judges(
    workers: Workers,
) -> None:
    happened: Counter[str] = Counter()
    for ended in lived(workers, [STOPPED, *(plan_of(str(seed)) for seed in SHOWING)]):
        happened.update(ended.counts)
    assert [name for name in ALL if not happened[name]] == []


@pytest.mark.parametrize("first", range(0, len(OTHERS), EACH))
def test_lives_leave_nothing_for_the_judges(first: int, workers: Workers) -> None:
    lived(workers, (plan_of(str(seed)) for seed in OTHERS[first : first + EACH]))


def told(ended: Ended) -> str:
    """Tell what was found in a life, and the end of its story."""
    seed = ended.plan.seed
    story = plain(story_of(ended)).splitlines()
    left_out = [f"({len(story) - MAX_STORY_LINES} events before)"] if len(story) > MAX_STORY_LINES else []
    return "\n".join(
        [
            f"seed {seed}: {ended.findings[0]}",
            *ended.findings[1:],
            *left_out,
            *story[-MAX_STORY_LINES:],
            f"to tell it whole: just life show {seed}; to cut it down: just life shrink {seed}",
        ]
    )


def test_a_finding_is_told_with_its_seed_and_how_to_shrink_it() -> None:
    log = [(float(n), "happened", {"who": "h0", "what": f"thing {n}"}) for n in range(40)]
    text = told(Ended(plan_of("7"), ["run 1 is odd", "run 2, too"], "", 20.0, 0, log))
    assert text.startswith("seed 7: run 1 is odd\nrun 2, too\n(12 events before)\n")
    assert "thing 39" in text
    assert text.endswith("to tell it whole: just life show 7; to cut it down: just life shrink 7")
