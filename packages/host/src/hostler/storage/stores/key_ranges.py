"""Keys that runners choose, in state and storage: limits, and ranges for pages in order.

Keys are ordered by their UTF-8 bytes, which is also the order of both databases and of Python's strings.
"""

from __future__ import annotations

from typing import NamedTuple

from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_KEY_CHARS, MAX_PAGE_ITEMS

MAX_KEYS = 10_000
"""Keys of one state scope or one storage owner, so that no runner can fill the database."""
_LAST = "\U0010ffff"
_ABOVE_ALL = _LAST * (MAX_KEY_CHARS + 1)


class Full(NamedTuple):
    """A scope or owner has the greatest allowed number of keys. Nothing was written."""

    limit: int = MAX_KEYS


class Keys(NamedTuple):
    """One page of keys in the order of their UTF-8 bytes."""

    items: list[str]
    has_more: bool


class KeyRange(NamedTuple):
    """Keys from `low` (inclusive) to `high` (exclusive)."""

    low: str
    high: str


def key_range(prefix: str, after: str) -> KeyRange:
    """Return the range of keys with the literal `prefix` that follow `after` ('': from the first)."""
    # no key contains NUL, so no key sorts between a key and that key followed by U+0001
    low = max(prefix, after + "\x01") if after else prefix
    return KeyRange(low, _above(prefix))


def page_limit(limit: int) -> int:
    """Return `limit`, capped at 100. InvalidArgumentError below 1."""
    if limit < 1:
        raise InvalidArgumentError(f"limit is {limit}; ask for 1 to {MAX_PAGE_ITEMS} items")
    return min(limit, MAX_PAGE_ITEMS)


def _above(prefix: str) -> str:
    """Return the smallest text above every text with `prefix`."""
    stem = prefix.rstrip(_LAST)
    if not stem:
        return _ABOVE_ALL
    following = ord(stem[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are no characters
        following = 0xE000
    return stem[:-1] + chr(following)
