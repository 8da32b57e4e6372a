"""Keys that runners choose, in state and storage: what they may be, and pages of them in order.

Order is that of the UTF-8 bytes, which both databases and Python's strings agree on.
"""

from __future__ import annotations

from typing import NamedTuple

from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_KEY_CHARS, MAX_PAGE_ITEMS

MAX_KEYS = 10_000
"""Keys of one storage key, or of one storage owner: what a runner can make grow has a bound."""
_LAST = "\U0010ffff"
_ABOVE_ALL = _LAST * (MAX_KEY_CHARS + 1)


class KeyRange(NamedTuple):
    """Keys from `low`, inclusive, to below `high`."""

    low: str
    high: str


def check_key(key: str, what: str) -> None:
    """Refuse what is no key: 1 to 255 characters, no NUL, Unicode scalar values only."""
    if not 1 <= len(key) <= MAX_KEY_CHARS:
        raise InvalidArgumentError(f"{what} has 1 to {MAX_KEY_CHARS} characters, not {len(key)}")
    if "\x00" in key:
        raise InvalidArgumentError(f"{what} may not hold a NUL character")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} holds half a surrogate pair at {error.start}") from error


def key_range(prefix: str, after: str) -> KeyRange:
    """The keys that begin with the literal `prefix` and come after `after` ('': from the first)."""
    # No key holds NUL, so nothing lies between a key and itself with U+0001 behind it.
    low = max(prefix, after + "\x01") if after else prefix
    return KeyRange(low, _above(prefix))


def page_limit(limit: int) -> int:
    """More than 100 is capped. InvalidArgumentError below 1."""
    if limit < 1:
        raise InvalidArgumentError(f"limit is {limit}; ask for 1 to {MAX_PAGE_ITEMS} items")
    return min(limit, MAX_PAGE_ITEMS)


def _above(prefix: str) -> str:
    """The least text that is above every text with `prefix`."""
    stem = prefix.rstrip(_LAST)
    if not stem:
        return _ABOVE_ALL
    following = ord(stem[-1]) + 1
    if 0xD800 <= following <= 0xDFFF:  # surrogates are no characters
        following = 0xE000
    return stem[:-1] + chr(following)
