"""Budgets on a terminal: what was used and reserved of which limits."""

from __future__ import annotations

from typing import Any

OF = {
    "run": "run",
    "day": "agent, per day",
    "conversation": "conversation",
    "conversation_day": "conversation, per day",
    "person": "person",
    "person_day": "person, per day",
    "workspace": "workspace",
    "workspace_day": "workspace, per day",
}


def amounts(budget: dict[str, Any], name: str) -> str:
    """Return amounts of a budget in one line."""
    return ", ".join(f"{value:g} {quantity.replace('_', ' ')}" for quantity, value in budget[name].items())


def limits(budget: dict[str, Any]) -> str:
    """Return the limits of a budget with what people added."""
    added = budget["added"]
    return ", ".join(
        f"{value + added.get(quantity, 0):g} {quantity.replace('_', ' ')}"
        for quantity, value in budget["limits"].items()
    )
