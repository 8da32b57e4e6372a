"""Byte ranges (RFC 9110, section 14): a single range is served, several get the whole content."""

from __future__ import annotations

import re
from typing import NamedTuple

from hostler.http.problems import RangeNotSatisfiableError

_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})[ \t]*", re.IGNORECASE | re.ASCII)


class Range(NamedTuple):
    """The bytes to send: `length` from `offset` on."""

    offset: int
    length: int


def parse_range(header: str | None, size: int) -> Range | None:
    """Return the requested range; None for the whole content, also if the header is invalid, as the RFC says.

    RangeNotSatisfiableError if it begins after the end.
    """
    match = _ONE_RANGE.fullmatch(header) if header is not None else None
    if match is None or (not match[1] and not match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        if length == 0:
            raise RangeNotSatisfiableError(size)
        return Range(size - length, length)
    first = int(match[1])
    last = min(int(match[2]), size - 1) if match[2] else size - 1
    if match[2] and int(match[2]) < first:
        return None
    if first >= size:
        raise RangeNotSatisfiableError(size)
    return Range(first, last - first + 1)


def etag_matches(header: str | None, etag: str, *, weakly: bool) -> bool:
    """Whether a list of entity tags contains `etag` (quoted). Unless `weakly`, a weak tag matches nothing."""
    if header is None:
        return False
    for tag in (part.strip() for part in header.split(",")):
        if tag == "*" and weakly:
            return True
        if tag == etag or (weakly and tag == f"W/{etag}"):
            return True
    return False
