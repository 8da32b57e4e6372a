"""Conditions of a search: what clients ask of metadata and of the values of items, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.http.langgraph.dialect import refused

MAX_CONDITIONS = 100
"""Members of objects and items of lists, at any depth, of the `metadata` or `filter` of one request."""
MAX_COMPARED = 1_000_000
"""Values that one search compares, about half a second: each in a list, perhaps, with every condition."""


def check_conditions(field: str, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a condition; {} for none. InvalidArgumentError for one with more than MAX_CONDITIONS parts."""
    left = MAX_CONDITIONS
    level: list[Any] = [wanted or {}]
    while level:
        parts: list[Any] = []
        for one in level:
            inside = list(one.values()) if isinstance(one, Mapping) else one
            left -= len(inside)
            if left < 0:
                raise refused(
                    field,
                    f"it has more than {MAX_CONDITIONS} parts (members of objects and items of lists)",
                    f"at most {MAX_CONDITIONS} parts",
                )
            parts += inside
        level = [one for one in parts if isinstance(one, Mapping | list)]
    return dict(wanted or {})


class Containment:
    """Which JSON values contain another, as PostgreSQL's `@>`: at most MAX_COMPARED comparisons in all."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self._wanted = wanted
        self._left = MAX_COMPARED

    def fits(self, value: Mapping[str, Any]) -> bool:
        """Whether a value contains what is wanted: objects by members, lists by items.

        InvalidArgumentError once too much was compared.
        """
        return self._contains(value, self._wanted)

    def _contains(self, value: Any, wanted: Any) -> bool:
        self._left -= 1
        if self._left < 0:
            raise refused(
                "metadata",
                f"more than {MAX_COMPARED:,} values would have to be compared: "
                "the lists that it asks for are long in too many threads",
                "fewer items in lists, or a search by `ids`",
            )
        if isinstance(wanted, Mapping):
            return isinstance(value, Mapping) and all(
                name in value and self._contains(value[name], inner) for name, inner in wanted.items()
            )
        if isinstance(wanted, list):
            return isinstance(value, list) and all(
                any(self._contains(one, inner) for one in value) for inner in wanted
            )
        return type(value) is type(wanted) and bool(value == wanted)
