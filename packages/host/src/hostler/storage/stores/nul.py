"""Remove NUL characters, which PostgreSQL cannot store, from JSON."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def without_nul(value: T) -> T:
    """Return `value` (plain JSON) with NUL removed from every text and key."""
    return _without_nul(value)  # type: ignore[no-any-return]


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(one) for key, one in value.items()}
    return value
