"""Find values that JSON cannot express, as parsers of YAML and TOML produce them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from hostler.domain.config_mistakes import MAX_MISTAKES, Mistake, key_place
from hostler_protocol.limits import MAX_JSON_DEPTH

MAX_VALUES = 150_000
"""Values below one place, more than any value of a form has. YAML aliases can multiply a small file."""

_READ_AS: tuple[tuple[type[Any], str], ...] = (
    (datetime.datetime, "a time; put it in quotes"),
    (datetime.date, "a date; put it in quotes"),
    (datetime.time, "a time; put it in quotes"),
    (bytes, "bytes; write a text"),
    (set, "a set; write a list"),
    (tuple, "a pair; write a list"),
)


def json_mistakes(data: Any, place: str = "") -> list[Mistake]:
    """Return what is not JSON in `data`: at most MAX_MISTAKES, or one if it is too deep or too large."""
    level, count, is_plain = [data], 0, True
    for _ in range(MAX_JSON_DEPTH + 1):
        below: list[Any] = []
        for value in level:
            count += 1
            if isinstance(value, dict | list):
                below += value.values() if isinstance(value, dict) else value
            is_plain = is_plain and _is_plain(value)
            if count > MAX_VALUES or len(below) > MAX_VALUES:
                return [Mistake(place, f"holds more than {MAX_VALUES:,} values")]
        if not below:
            return [] if is_plain else list(islice(_mistakes(data, place), MAX_MISTAKES))
        level = below
    return [Mistake(place, f"nested more than {MAX_JSON_DEPTH} deep")]


def _is_plain(value: Any) -> bool:
    """Whether a value, without its children, is JSON."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value)
    return value is None or isinstance(value, str | int | list)


def _mistakes(value: Any, place: str) -> Iterator[Mistake]:
    """Yield the mistakes in data that is neither too deep nor too large."""
    if isinstance(value, dict):
        for key, inner in value.items():
            at = key_place(place, key)
            if not isinstance(key, str):
                yield Mistake(at, "this key is no text; put it in quotes")
            yield from _mistakes(inner, at)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _mistakes(inner, f"{place}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Mistake(place, "this is no number that JSON has: write a finite one")
    elif not _is_plain(value):
        what = next((what for kind, what in _READ_AS if isinstance(value, kind)), "what JSON does not have")
        yield Mistake(place, f"this is read as {what}")
