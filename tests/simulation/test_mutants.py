"""Mutants fit the code that they change, and lives find some of them quickly.

`python -m simulation.mutants` looks for all of them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simulation.findings import kind_of
from simulation.lives import Workers
from simulation.mutants.form import Change, Mutant, StaleMutantError, read_mutants
from simulation.mutants.hunt import PUT_BACK, Shrunk, hunt
from simulation.story import story_of

MUTANTS = read_mutants()
MAX_EVENTS = 14
MAX_SEEDS = 40


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_changes_code_that_is_there(name: str) -> None:
    for file, text in MUTANTS[name].sources().items():
        if file.endswith(".py"):
            compile(text, file, "exec")


def test_a_mutant_of_other_code_is_refused() -> None:
    change = Change("a.py", "one\n", "two\n")
    assert change.apply("one\nand one\n") == "two\nand one\n"
    for source in ("none\n", "one\none\n"):
        with pytest.raises(StaleMutantError):
            change.apply(source)


def test_a_mutant_that_does_not_fit_says_how_to_renew_it() -> None:
    stale = Mutant("odd", "All is odd.", (Change("hostler/__init__.py", "no such line\n", ""),), "odd.diff")
    with pytest.raises(StaleMutantError, match=r"mutant odd does not fit[^!]*Write these lines in odd.diff"):
        stale.sources()


@pytest.mark.parametrize("file", PUT_BACK, ids=lambda file: file.stem)
def test_a_defect_that_is_put_back_is_told_in_few_events(file: Path, tmp_path: Path) -> None:
    """The lives are what `--shrink` left of those that found the defects.

    A change of the product may shift their races: other seeds are tried, too, as when they were cut down.
    """
    shrunk = msgspec.json.decode(file.read_bytes(), type=Shrunk)
    base = shrunk.plan.seed.partition("/")[0]
    seeds = [shrunk.plan.seed, base, *(f"{base}/{number}" for number in range(2, MAX_SEEDS))]
    lengths = []
    with Workers(1, packages=MUTANTS[file.stem].write(tmp_path)) as workers:
        for seed in dict.fromkeys(seeds):
            ended = workers.live(msgspec.structs.replace(shrunk.plan, seed=seed))
            if shrunk.finding in map(kind_of, ended.findings):
                lengths.append(len(story_of(ended)))
                if lengths[-1] <= MAX_EVENTS:
                    return
    pytest.fail(f"{shrunk.finding!r} is not told in {MAX_EVENTS} events: {lengths or 'it is not found'}")


@pytest.mark.parametrize("name", ["lane-kept", "recovery-skips"])
def test_lives_find_a_mutant(name: str) -> None:
    assert hunt(MUTANTS[name], range(1, 101)).found is not None
