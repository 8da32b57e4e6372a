"""Lives of whole hosts, whose judges have nothing to say (docs/simulation.md)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.catalog import plan_of
from simulation.life import Ended
from simulation.lives import Workers
from simulation.story import plain, story_of

SEEDS, EACH = 300, 25
"""All seeds, and how many of them a test lives, so that tests spread over the workers."""
MAX_STORY_LINES = 30
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(1) as made:
        yield made


@pytest.mark.parametrize("first", range(1, SEEDS + 1, EACH))
def test_lives_leave_nothing_for_the_judges(first: int, workers: Workers) -> None:
    plans = (plan_of(str(seed)) for seed in range(first, first + EACH))
    found = [ended for ended in workers.live_all(plans) if ended.findings]
    if found:
        pytest.fail("\n\n".join(map(told, found)), pytrace=False)


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
