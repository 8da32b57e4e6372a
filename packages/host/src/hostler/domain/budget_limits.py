"""Budgets as they are configured: of an agent (`resource_policy.budget`), and of a workspace."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import msgspec

from hostler.domain.approvers import check_subject
from hostler.domain.config_mistakes import Mistake
from hostler_protocol._base import Strict
from hostler_protocol.pausing import expiry_misfit

Quantity = Literal["calls", "tokens", "cost", "tool_calls", "seconds"]
OnExceeded = Literal["refuse", "end", "ask"]
"""What becomes of a call for which a budget has too little left: it is refused, its run ends, or people are
asked to add to the budget.
"""
OnDenied = Literal["refuse", "end"]
"""What becomes of it if they deny that, or nobody answers in time."""


class Budget(Strict):
    """Upper bounds of what an agent's runs may use; None means no bound.

    Calls are executed Host API calls, `tool_calls` those of tools; `seconds` are those in which attempts work
    on the runs. Numbers of a run include all its attempts and child runs. Those of a day (UTC), a
    conversation and a person are the agent's, on all hosts of the database. A person is the authenticated
    subject that sent the run's event. `approvers` are asked where `on_exceeded` says `ask`.
    """

    max_tokens_per_run: int | None = None
    max_tokens_per_day: int | None = None
    max_cost_per_run: float | None = None
    max_cost_per_day: float | None = None
    max_calls_per_run: int | None = None
    max_calls_per_day: int | None = None
    max_tool_calls_per_run: int | None = None
    max_tool_calls_per_day: int | None = None
    max_seconds_per_run: float | None = None
    max_seconds_per_day: float | None = None
    max_calls_per_conversation: int | None = None
    max_tokens_per_conversation: int | None = None
    max_cost_per_conversation: float | None = None
    max_tool_calls_per_conversation: int | None = None
    max_seconds_per_conversation: float | None = None
    max_calls_per_conversation_day: int | None = None
    max_tokens_per_conversation_day: int | None = None
    max_cost_per_conversation_day: float | None = None
    max_tool_calls_per_conversation_day: int | None = None
    max_seconds_per_conversation_day: float | None = None
    max_calls_per_person: int | None = None
    max_tokens_per_person: int | None = None
    max_cost_per_person: float | None = None
    max_tool_calls_per_person: int | None = None
    max_seconds_per_person: float | None = None
    max_calls_per_person_day: int | None = None
    max_tokens_per_person_day: int | None = None
    max_cost_per_person_day: float | None = None
    max_tool_calls_per_person_day: int | None = None
    max_seconds_per_person_day: float | None = None
    on_exceeded: OnExceeded = "refuse"
    on_denied: OnDenied = "refuse"
    approvers: list[str] = msgspec.field(default_factory=lambda: ["role:admin"])
    expires_in: float = 1800.0

    def __post_init__(self) -> None:
        if not self.approvers:
            raise ValueError("approvers is empty: so nobody could add to it; leave it out for the default")
        for subject in self.approvers:
            check_subject(subject)
        if (misfit := expiry_misfit(self.expires_in)) is not None:
            raise ValueError(misfit)


class FrozenBudget(Budget, omit_defaults=True):
    """The budget in a grant, whose JSON holds only what differs from the defaults."""


class WorkspaceBudget(Strict):
    """Upper bounds of what all agents of a workspace use together, ever and on one day (UTC)."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_tool_calls: int | None = None
    max_seconds: float | None = None
    max_calls_per_day: int | None = None
    max_tokens_per_day: int | None = None
    max_cost_per_day: float | None = None
    max_tool_calls_per_day: int | None = None
    max_seconds_per_day: float | None = None
    on_exceeded: OnExceeded = "refuse"


def frozen(budget: Budget) -> FrozenBudget:
    """Return a budget as a grant holds it."""
    return FrozenBudget(**msgspec.structs.asdict(budget))


def bounds_cost(budget: Budget) -> bool:
    """Whether a budget bounds money in any way."""
    names = [name for name in budget.__struct_fields__ if name.startswith("max_cost")]
    return any(getattr(budget, name) is not None for name in names)


def budget_mistakes(budget: Budget | WorkspaceBudget, place: str) -> Iterator[Mistake]:
    """Yield the mistakes in the numbers of a budget."""
    for name in budget.__struct_fields__:
        value = getattr(budget, name)
        if name.startswith("max_") and value is not None and not (math.isfinite(value) and value >= 0):
            yield Mistake(f"{place}.{name}", f"is {value:g}; expected at least 0")
