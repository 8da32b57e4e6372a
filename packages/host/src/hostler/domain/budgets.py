"""Budgets: the accounts that a run's calls are charged to, their limits, and what was used of them. Pure.

Calls are charged to the accounts of the run, of its agent, and of everything above: a child run is charged to
those of each run above it too, so it can use no more than its ancestors have left.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from hostler.domain.approvers import ApproverRule
from hostler.domain.budget_limits import Budget, OnDenied, OnExceeded, Quantity, WorkspaceBudget
from hostler_protocol.content import Usage
from hostler_protocol.ids import digest

Span = Literal[
    "run",
    "day",
    "conversation",
    "conversation_day",
    "person",
    "person_day",
    "workspace",
    "workspace_day",
]
SPANS: tuple[Span, ...] = get_args(Span)
DAILY: frozenset[Span] = frozenset({"day", "conversation_day", "person_day", "workspace_day"})
"""Spans whose accounts begin anew at midnight UTC."""
OF_WORKSPACE: frozenset[Span] = frozenset({"workspace", "workspace_day"})
"""Spans whose limits the installation sets: no key of the workspace may raise them."""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
MILLISECONDS_PER_DAY = 86_400_000
NANO = 10**9
"""Cost is counted in integer billionths, which both databases add exactly."""
MOST = 2**62
"""Sums are capped here, at half the range of a bigint."""
NOBODY = "host"
"""The person of a run that no authenticated caller began, for example by a schedule."""
_UNITS: dict[Quantity, int] = {"calls": 1, "tool_calls": 1, "tokens": 1, "cost": NANO, "seconds": 1000}


class AccountLimits(NamedTuple):
    """Upper bounds of one account; None means no bound. `cost` in the currency of the prices."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    tool_calls: int | None = None
    seconds: float | None = None

    def most(self, quantity: Quantity) -> int | None:
        """Return the bound of a quantity in the units of `Use`, or None."""
        bound: float | None = getattr(self, quantity)
        return None if bound is None else in_units(quantity, bound)


NO_LIMITS = AccountLimits()


class Use(NamedTuple):
    """Quantities used, reserved or added. `cost` in billionths, `seconds` in milliseconds."""

    calls: int = 0
    tokens: int = 0
    cost: int = 0
    tool_calls: int = 0
    seconds: int = 0

    def plus(self, other: Use) -> Use:
        """Return the sum, capped."""
        return Use(*(min(mine + theirs, MOST) for mine, theirs in zip(self, other, strict=True)))

    def minus(self, other: Use) -> Use:
        """Return the difference, at least 0 in each quantity."""
        return Use(*(max(mine - theirs, 0) for mine, theirs in zip(self, other, strict=True)))

    def of(self, quantity: Quantity) -> int:
        """Return one quantity."""
        amount: int = getattr(self, quantity)
        return amount

    def amounts(self) -> dict[str, float]:
        """Return the quantities that are not 0 by name, in the units of the configuration."""
        return {name: in_words(name, self.of(name)) for name in QUANTITIES if self.of(name)}


NOTHING = Use()


class Terms(NamedTuple):
    """What happens when an account is used up, and who may then add to it."""

    on_exceeded: OnExceeded = "refuse"
    on_denied: OnDenied = "refuse"
    approvers: tuple[str, ...] = ("role:admin",)
    expires_in: float = 1800.0

    @property
    def rule(self) -> ApproverRule:
        """The rule that says who decides."""
        return ApproverRule(subjects=self.approvers)


DEFAULT_TERMS = Terms()


class Names(NamedTuple):
    """What people know an account by; for lists only."""

    agent: str | None = None
    conversation_id: str | None = None
    person: str | None = None


class Account(NamedTuple):
    """A counter of use with limits. `owner_id` identifies within the span what it belongs to."""

    span: Span
    owner_id: str
    limits: AccountLimits
    terms: Terms = DEFAULT_TERMS
    names: Names = Names()


class AccountKey(NamedTuple):
    """The identity of a stored account. `day`: days since 1970-01-01 UTC, 0 for one that has no days."""

    workspace_id: str
    span: Span
    owner_id: str
    day: int

    @property
    def account_id(self) -> str:
        """The id under which people name it within its workspace."""
        return f"{self.span}.{self.day}.{self.owner_id}"


class Spender(msgspec.Struct, frozen=True, kw_only=True):
    """What accounts are chosen by: a run, its agent, and whom and what it works for."""

    run_id: str
    agent_id: str
    agent_name: str = ""
    bot_id: str | None = None
    conversation_id: str | None = None
    requester: str | None = None
    """The authenticated subject that sent the run's event; the only identity that cannot be made up."""


def key_of(workspace_id: str, account: Account, today: int) -> AccountKey:
    """Return the account's identity on a day."""
    day = today if account.span in DAILY else 0
    return AccountKey(workspace_id, account.span, account.owner_id, day)


def account_key(workspace_id: str, account_id: str) -> AccountKey | None:
    """Return the identity in an account's id, or None if it is no such id."""
    span, _, rest = account_id.partition(".")
    day, _, owner_id = rest.partition(".")
    if span not in SPANS or not day.isdecimal() or not owner_id or len(day) > 7 or "\x00" in owner_id:
        return None
    return AccountKey(workspace_id, span, owner_id, int(day))


def accounts_of(spender: Spender, budget: Budget) -> list[Account]:
    """Return the accounts with a limit of one run and its agent, the run's first.

    A run without a conversation is one by itself: the limits of conversations bound the run.
    """
    if budget == type(budget)():  # as for most runs, each of which asks
        return []
    agent, run = spender.agent_id, spender.run_id
    names = Names(spender.agent_name)
    person = names._replace(person=spender.requester or NOBODY)
    of_person = digest({"agent": agent, "person": person.person})
    places: list[tuple[Span, Span, str, Names]] = [
        ("run", "run", run, names),
        ("day", "day", agent, names),
    ]
    if spender.conversation_id is None:
        places += [("conversation", "run", run, names), ("conversation_day", "run", run, names)]
    else:
        inside = names._replace(conversation_id=spender.conversation_id)
        owner = digest({"agent": agent, "bot": spender.bot_id, "conversation": spender.conversation_id})
        places += [
            ("conversation", "conversation", owner, inside),
            ("conversation_day", "conversation_day", owner, inside),
        ]
    places += [("person", "person", of_person, person), ("person_day", "person_day", of_person, person)]
    terms = Terms(budget.on_exceeded, budget.on_denied, tuple(budget.approvers), budget.expires_in)
    return list(
        merge_accounts(
            Account(span, owner, limits, terms, known_by)
            for of, span, owner, known_by in places
            if (limits := limits_of(budget, of)) != NO_LIMITS
        )
    )


def accounts_of_workspace(workspace_id: str, budget: WorkspaceBudget | None) -> list[Account]:
    """Return the accounts with a limit of a workspace."""
    if budget is None:
        return []
    terms = Terms(budget.on_exceeded)
    spans: tuple[Span, ...] = ("workspace", "workspace_day")
    return [
        Account(span, workspace_id, limits, terms)
        for span in spans
        if (limits := limits_of(budget, span)) != NO_LIMITS
    ]


def limits_of(budget: Budget | WorkspaceBudget, span: Span) -> AccountLimits:
    """Return the limits that a budget sets for a span."""
    ending = {"workspace": "", "workspace_day": "_per_day"}.get(span, f"_per_{span}")
    named: dict[str, Any] = {name: getattr(budget, f"max_{name}{ending}") for name in QUANTITIES}
    return AccountLimits(**named)


def merge_accounts(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """Return each account once, those of runs first, with its smallest limits and its first terms."""
    found: dict[tuple[Span, str], Account] = {}
    for account in accounts:
        key = (account.span, account.owner_id)
        known = found.get(key)
        found[key] = account if known is None else known._replace(limits=_smaller(known, account))
    return tuple(sorted(found.values(), key=lambda account: account.span != "run"))


def use_of(usage: Usage | None, cost: Decimal | None) -> Use:
    """Return what one model call used; unknown quantities count as 0."""
    tokens = 0
    if usage is not None:
        tokens = usage.total_tokens or (usage.input_tokens or 0) + (usage.output_tokens or 0)
    return Use(0, min(tokens, MOST), 0 if cost is None else nano(cost))


def nano(cost: Decimal) -> int:
    """Return a cost in billionths, rounded up, at least 0 and capped."""
    return min(max(int((cost * NANO).to_integral_value(ROUND_CEILING)), 0), MOST)


def in_units(quantity: Quantity, amount: float) -> int:
    """Return an amount of the configuration in the units of `Use`, exact where it is written as a decimal."""
    return int(Decimal(str(amount)) * _UNITS[quantity])


def in_words(quantity: Quantity, units: int) -> float:
    """Return an amount of `Use` in the units of the configuration."""
    return units if _UNITS[quantity] == 1 else units / _UNITS[quantity]


def _smaller(one: Account, other: Account) -> AccountLimits:
    pairs = zip(one.limits, other.limits, strict=True)
    known = [[limit for limit in pair if limit is not None] for pair in pairs]
    return AccountLimits(*(min(limits, default=None) for limits in known))  # type: ignore[arg-type]
