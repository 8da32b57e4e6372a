"""The nearest known word, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_LISTED = 20
"""Known words listed in an error."""
MAX_COMPARED_CHARS = 200
"""Of a word: comparing takes a time in proportion to its length, and no known word is so long."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'name'?` for the nearest known word, or a list of the known words."""
    words = sorted(known)
    close = difflib.get_close_matches(word[:MAX_COMPARED_CHARS], words, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(words) - MAX_LISTED} more" if len(words) > MAX_LISTED else ""
    return f"known are {', '.join(words[:MAX_LISTED])}{more}" if words else "nothing is known there"
