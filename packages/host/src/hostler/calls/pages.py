"""Pages of records: bounded in items and in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hostler_protocol.limits import KIB, MAX_PAGE_BYTES, MAX_PAGE_ITEMS

MAX_SCANNED = 1_000
"""Rows looked at for one page where not every row is within reach; the page may then be short, or empty."""
PAGE_ROOM_BYTES = MAX_PAGE_BYTES - 64 * KIB
"""The page's items; its cursors and names take the rest."""

R = TypeVar("R")


def capped(limit: int) -> int:
    """A page's limit: more than 100 is capped, not refused."""
    return min(limit, MAX_PAGE_ITEMS)


def scan(read: Callable[[Any, int], list[R]], start: Any, position: Callable[[R], Any]) -> Iterator[R]:
    """Rows from `start` on, read in batches, at most MAX_SCANNED; `position` is called with a row."""
    seen = 0
    while seen < MAX_SCANNED:
        rows = read(start, MAX_PAGE_ITEMS)
        yield from rows
        seen += len(rows)
        if len(rows) < MAX_PAGE_ITEMS:
            return
        start = position(rows[-1])
