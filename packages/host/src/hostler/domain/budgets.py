"""Budgets: which accounts a run's calls are charged to, and when one of them is exhausted. Pure.

Calls are charged to the run, to its agent's day and, in a child run, to every run above it and their agents'
days: a child can spend no more than its ancestors have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from hostler.domain.agents import Budget
from hostler_protocol.content import Usage
from hostler_protocol.errors import HostlerError, RateLimitedError, UnauthorizedError

Span = Literal["run", "day"]
Quantity = Literal["calls", "tokens", "cost"]
MILLISECONDS_PER_DAY = 86_400_000
NANO = 10**9
"""Cost is counted in integer billionths, which both databases add exactly."""
_MOST = 2**62
"""Sums are capped here, at half the range of a bigint."""


class AccountLimits(NamedTuple):
    """Upper bounds of one account; None means no bound. `cost` in the currency of the prices."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None


class Account(NamedTuple):
    """A counter of use: of one run (`owner_id` is the run's id), or of one agent per day (the agent's id)."""

    span: Span
    owner_id: str
    limits: AccountLimits


class Use(NamedTuple):
    """Quantities used. `cost` in billionths."""

    calls: int = 0
    tokens: int = 0
    cost: int = 0

    def plus(self, other: Use) -> Use:
        """Return the sum, capped."""
        return Use(*(min(mine + theirs, _MOST) for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class BudgetExhausted:
    """Why a call is refused. `until`: seconds until the account is reset; None: never."""

    account: Account
    what: Quantity
    limit: float
    until: float | None

    @property
    def error(self) -> HostlerError:
        """The error to raise."""
        noun = {"calls": "calls", "tokens": "tokens", "cost": "in cost"}[self.what]
        if self.until is None:
            text = f"the budget of {self.limit:g} {noun} of this run is used up"
            return UnauthorizedError(text, budget=self.what, limit=self.limit)
        text = f"the agent's budget of {self.limit:g} {noun} a day is used up; the day begins at midnight UTC"
        return RateLimitedError(text, round(self.until, 3) or 0.001, budget=self.what, limit=self.limit)


def accounts_of(run_id: str, agent_id: str, budget: Budget) -> list[Account]:
    """Return the accounts with a limit of one run and its agent, the run's first."""
    found = [
        Account(
            "run",
            run_id,
            AccountLimits(budget.max_calls_per_run, budget.max_tokens_per_run, budget.max_cost_per_run),
        ),
        Account(
            "day",
            agent_id,
            AccountLimits(budget.max_calls_per_day, budget.max_tokens_per_day, budget.max_cost_per_day),
        ),
    ]
    return [account for account in found if account.limits != AccountLimits()]


def merge_accounts(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """Return each account once, those of runs first, with the smallest of its limits."""
    found: dict[tuple[Span, str], Account] = {}
    for account in accounts:
        key = (account.span, account.owner_id)
        known = found.get(key)
        limits = account.limits if known is None else _smaller(known.limits, account.limits)
        found[key] = account._replace(limits=limits)
    return tuple(sorted(found.values(), key=lambda account: account.span != "run"))


def exhausted_budget(
    accounts: Sequence[Account], uses: Sequence[Use], *, spends: bool, now: int
) -> BudgetExhausted | None:
    """Return the first account with nothing left for one more call, or None.

    `spends`: the call costs tokens or money. `now` in UTC epoch milliseconds.
    """
    for account, use in zip(accounts, uses, strict=True):
        until = None if account.span == "run" else (MILLISECONDS_PER_DAY - now % MILLISECONDS_PER_DAY) / 1000
        limits = account.limits
        if limits.calls is not None and use.calls >= limits.calls:
            return BudgetExhausted(account, "calls", limits.calls, until)
        if spends and limits.tokens is not None and use.tokens >= limits.tokens:
            return BudgetExhausted(account, "tokens", limits.tokens, until)
        if spends and limits.cost is not None and use.cost >= limits.cost * NANO:
            return BudgetExhausted(account, "cost", limits.cost, until)
    return None


def use_of(usage: Usage | None, cost: Decimal | None) -> Use:
    """Return what one model call used; unknown quantities count as 0."""
    tokens = 0
    if usage is not None:
        tokens = usage.total_tokens or (usage.input_tokens or 0) + (usage.output_tokens or 0)
    nano = 0 if cost is None else int(cost * NANO)
    return Use(0, min(tokens, _MOST), min(max(nano, 0), _MOST))


def _smaller(one: AccountLimits, other: AccountLimits) -> AccountLimits:
    pairs = zip(one, other, strict=True)
    known = [[limit for limit in pair if limit is not None] for pair in pairs]
    calls, tokens, cost = (min(limits, default=None) for limits in known)
    return AccountLimits(None if calls is None else int(calls), None if tokens is None else int(tokens), cost)
