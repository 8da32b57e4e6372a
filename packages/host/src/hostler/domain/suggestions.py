"""The nearest right word, for errors that name it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_LISTED = 20
"""Known words that an error lists."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence part that names the nearest known word, or all of them: `did you mean 'name'?`."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else ""
    return f"known are {', '.join(words[:MAX_LISTED])}{more}" if words else "nothing is known there"
