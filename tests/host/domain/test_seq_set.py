"""Sets of sequences as bits, and ranges."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.seq_set import SeqSet, in_steps, ranges_of

RANGES = st.lists(st.tuples(st.integers(-5, 130), st.integers(-5, 130)), max_size=12)


@given(last=st.integers(0, 100), ranges=RANGES)
def test_a_set_holds_what_its_ranges_hold_within_its_bounds(last: int, ranges: list[tuple[int, int]]) -> None:
    found = SeqSet(last)
    expected: set[int] = set()
    for low, high in ranges:
        found.add(low, high)
        expected |= set(range(max(1, low), min(last, high) + 1))
    assert list(found) == sorted(expected)
    assert [seq for seq in range(-10, 140) if seq in found] == sorted(expected)


def test_a_range_that_claims_everything_takes_no_more_room() -> None:
    found = SeqSet(10)
    found.add(1, 2**62)
    assert list(found) == list(range(1, 11))


@given(seqs=st.sets(st.integers(1, 60)))
def test_ranges_hold_exactly_what_was_given(seqs: set[int]) -> None:
    ranges = ranges_of(seqs)
    assert {seq for low, high in ranges for seq in range(low, high + 1)} == seqs
    assert all(after[0] > before[1] + 1 for before, after in pairwise(ranges))


def test_steps_are_whole_and_in_order() -> None:
    assert list(in_steps([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert list(in_steps([], 2)) == []
