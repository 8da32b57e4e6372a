"""Lives that once showed something, cut down: `found/NAME.json`, with the cause. Now they show nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from simulation.lives import Workers
from simulation.mutants.hunt import PUT_BACK, Shrunk
from simulation.plan import Plan

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


class Found(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A life, and why it showed what the name of its file says."""

    cause: str
    plan: Plan


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_what_was_found_once_is_mended(file: Path, workers: Workers) -> None:
    found = msgspec.json.decode(file.read_bytes(), type=Found)
    assert workers.live(found.plan).findings == [], found.cause


@pytest.mark.parametrize("file", PUT_BACK, ids=lambda file: file.stem)
def test_lives_that_find_a_defect_put_back_show_nothing_without_it(file: Path, workers: Workers) -> None:
    plan = msgspec.json.decode(file.read_bytes(), type=Shrunk).plan
    assert workers.live(plan).findings == []
