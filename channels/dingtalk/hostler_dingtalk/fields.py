"""Fields of JSON as DingTalk sends them, whatever they hold."""

from __future__ import annotations

import json
from typing import Any


def text_of(value: Any) -> str | None:
    """Return a text that is not empty, or None."""
    return value if isinstance(value, str) and value else None


def fields_of(value: Any) -> dict[str, Any]:
    """Return an object; an empty one in place of anything else. DingTalk writes some as text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """Return an array; an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def seconds_of(value: Any) -> float | None:
    """Return a time in milliseconds, a number or a text, as seconds of the epoch."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 17:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e16:
        return None
    return value / 1000
