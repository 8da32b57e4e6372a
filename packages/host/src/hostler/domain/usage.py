"""Sums of token usage and of cost."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_INTEGER


class Used(NamedTuple):
    """Usage and cost of a run; the cost is a decimal number as text, None if it is unknown or nothing."""

    usage: Usage | None = None
    cost: str | None = None

    def and_also(self, usage: Usage | None, cost: Decimal | str | None) -> Used:
        """Return the sum with what more was used."""
        total = Decimal(self.cost or 0) + Decimal(cost or 0)
        return Used(add_usage(self.usage, usage), str(total) if total else None)


NOTHING_USED = Used()


def add_usage(total: Usage | None, usage: Usage | None) -> Usage | None:
    """Return the sum; a number that is in neither stays unknown."""
    if total is None or usage is None:
        return total or usage
    sums: dict[str, int | None] = {}
    for name in Usage.__struct_fields__:
        known = [n for n in (getattr(total, name), getattr(usage, name)) if n is not None]
        sums[name] = min(sum(known), MAX_INTEGER) if known else None
    return Usage(**sums)
