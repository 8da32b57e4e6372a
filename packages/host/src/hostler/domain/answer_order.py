"""The order in which recorded answers are delivered again, by a resumed attempt and by an offline replay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence


class AnswerOrder:
    """Decide when a recorded answer may be delivered: after all answers and results recorded before it.

    So calls that are made at once finish in the order in which they finished before. `answers` and `results`
    are positions in the journal, those of results in ascending order.
    """

    def __init__(self, answers: Iterable[int], results: Sequence[int]) -> None:
        self._answers = sorted(answers)
        self._results = results
        self._answered: set[int] = set()
        self._first = 0
        """Index of the first answer that was not delivered, as far as `may_answer` has looked."""

    def may_answer(self, position: int, repeated: int) -> bool:
        """Whether the answer at a position may be delivered, once `repeated` results were made again."""
        self._skip_answered()
        answers = self._answers
        is_next = self._first == len(answers) or answers[self._first] >= position
        return is_next and repeated >= bisect_left(self._results, position)

    def next_two(self, already: int, repeated: int) -> tuple[int | None, int | None]:
        """Return the positions of the answer after the next `already` ones and of that which follows it.

        The first is None if there is none or not all results before it are among the `repeated` ones.
        """
        self._skip_answered()
        position, after = [*self._answers[self._first + already : self._first + already + 2], None, None][:2]
        if position is None or repeated < bisect_left(self._results, position):
            return None, after
        return position, after

    def _skip_answered(self) -> None:
        while self._first < len(self._answers) and self._answers[self._first] in self._answered:
            self._first += 1

    def answered(self, position: int) -> None:
        """Note that an answer was delivered, or that the runner no longer waits for it."""
        self._answered.add(position)

    @property
    def is_over(self) -> bool:
        """Whether every answer was delivered."""
        return len(self._answered) == len(self._answers)
