"""Mutants fit the code that they change, and lives find some of them quickly.

`python -m simulation.mutants` looks for all of them.
"""

from __future__ import annotations

import pytest

from simulation.mutants.form import Change, Mutant, StaleMutantError, read_mutants
from simulation.mutants.hunt import hunt

MUTANTS = read_mutants()


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


@pytest.mark.parametrize("name", ["lane-kept", "recovery-skips"])
def test_lives_find_a_mutant(name: str) -> None:
    assert hunt(MUTANTS[name], range(1, 101)).found is not None
