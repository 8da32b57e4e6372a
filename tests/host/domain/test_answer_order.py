"""The order of recorded answers: a table of the rule, and the rule in its own words for any recording."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.answer_order import AnswerOrder


@pytest.mark.parametrize(
    ("answers", "results", "answered", "repeated", "may"),
    [
        ([], [], [], 0, []),
        ([3], [], [], 0, [3]),
        ([3], [1, 2], [], 0, []),
        ([3], [1, 2], [], 1, []),
        ([3], [1, 2], [], 2, [3]),
        ([3], [1, 5], [], 1, [3]),  # a result that came later is not waited for
        ([1, 2], [], [], 0, [1]),
        ([2, 1], [], [], 0, [1]),  # by position, however the recording lists them
        ([1, 2], [], [1], 0, [2]),
        ([1, 3], [2], [1], 0, []),
        ([1, 3], [2], [1], 1, [3]),
        ([1, 2, 3], [], [2], 0, [1]),  # a call given up before its turn releases none after the first
        ([1, 2, 3], [], [2, 1], 0, [3]),
    ],
)
def test_an_answer_waits_for_what_was_recorded_before_it(
    answers: list[int], results: list[int], answered: list[int], repeated: int, may: list[int]
) -> None:
    order = AnswerOrder(answers, results)
    for position in answered:
        order.answered(position)
    left = [position for position in answers if position not in answered]
    assert [position for position in left if order.may_answer(position, repeated)] == may
    assert order.is_over is (not left)


@given(st.lists(st.booleans(), max_size=12), st.data())
def test_in_any_recording_the_next_answer_goes_once_all_before_it_came_again(
    entries: list[bool], data: st.DataObject
) -> None:
    """Answers are delivered, given up and results made again in any order; `entries`: which are answers."""
    answers = [at for at, is_answer in enumerate(entries) if is_answer]
    results = [at for at, is_answer in enumerate(entries) if not is_answer]
    order = AnswerOrder(data.draw(st.permutations(answers)), results)
    left, repeated = set(answers), 0
    while left or repeated < len(results):
        for position in data.draw(st.permutations(sorted(left))):
            all_before = repeated >= sum(at < position for at in results) and position == min(left)
            assert order.may_answer(position, repeated) is all_before
        if left and (repeated == len(results) or data.draw(st.booleans())):
            gone = data.draw(st.sampled_from(sorted(left)))
            order.answered(gone)
            left.remove(gone)
        else:
            repeated += 1
        assert order.is_over is (not left)
