"""Sums of token usage."""

from __future__ import annotations

from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_INTEGER


def add_usage(total: Usage | None, usage: Usage | None) -> Usage | None:
    """Return the sum; a number that is in neither stays unknown."""
    if total is None or usage is None:
        return total or usage
    sums: dict[str, int | None] = {}
    for name in Usage.__struct_fields__:
        known = [n for n in (getattr(total, name), getattr(usage, name)) if n is not None]
        sums[name] = min(sum(known), MAX_INTEGER) if known else None
    return Usage(**sums)
