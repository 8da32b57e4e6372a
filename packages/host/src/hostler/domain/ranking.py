"""How well a passage fits a query: BM25, as the share of the query's weight that the passage covers. Pure.

A word weighs the more, the fewer passages of the base have it. A passage that has it again, or is shorter
than others, covers more of that weight; all of it can only be approached. So a score is above 0 and below 1,
and means the same for every query.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hostler.domain.record import Record

REPEATS = 1.2
"""`k1` of BM25: how soon further occurrences of a word count for nothing. The value in common use."""
LENGTH = 0.75
"""`b` of BM25: how much long passages are held back. The value in common use."""


class Corpus(Record):
    """The passages that are searched: their number and mean length (characters), and how many have a word."""

    passages: int
    mean_chars: float
    with_word: Mapping[str, int]

    def weight(self, word: str) -> float:
        """Return the weight of a word: above 0 also for one that every passage has."""
        having = min(self.with_word.get(word, 0), self.passages)
        return math.log(1 + (self.passages - having + 0.5) / (having + 0.5))


def score(corpus: Corpus, weights: Mapping[str, float], occurrences: Mapping[str, int], chars: int) -> float:
    """Return the score of a passage. `weights`: of all words of the query; `occurrences`: in the passage."""
    whole = sum(weights.values()) * (REPEATS + 1)
    if not whole:
        return 0.0
    slope = REPEATS * (1 - LENGTH + LENGTH * chars / max(corpus.mean_chars, 1.0))
    found = sum(
        weights[word] * count * (REPEATS + 1) / (count + slope)
        for word, count in occurrences.items()
        if count and word in weights
    )
    return found / whole
