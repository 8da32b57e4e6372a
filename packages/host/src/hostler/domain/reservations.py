"""Reserve from budgets what a call may use at most, before it is made. Pure.

A call is let through only if every account has left what it may use: a call of a model its input, at most,
and as many tokens of output as it is then allowed. What others have reserved counts as used. Where only that
is in the way a call waits, since most of it comes back; where too little is left it gets less output.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from hostler.domain.budget_limits import Quantity
from hostler.domain.budgets import (
    DAILY,
    MILLISECONDS_PER_DAY,
    MOST,
    NOTHING,
    Account,
    AccountKey,
    Use,
    in_words,
)
from hostler.domain.record import Record
from hostler_protocol.errors import HostlerError, RateLimitedError, UnauthorizedError

LEAST_OUTPUT_TOKENS = 256
"""Tokens of output below which a call of a model is not cut: a paragraph, or one call of a tool."""
ONE_CALL = Use(calls=1)


class Balance(NamedTuple):
    """The state of an account. `added`: what people added to its limits."""

    used: Use = NOTHING
    reserved: Use = NOTHING
    added: Use = NOTHING


class Need(NamedTuple):
    """What one call may use at most.

    `counted` is used in any case. `tokens` and `cost` (in billionths) are those of a model's input; `output`
    the most tokens that it may write, each for `price` billionths; with fewer than `least` it is not made.
    `spends`: the call is one of a model.
    """

    counted: Use = ONE_CALL
    spends: bool = False
    tokens: int = 0
    cost: int = 0
    output: int = 0
    price: Decimal = Decimal(0)
    least: int = LEAST_OUTPUT_TOKENS

    @property
    def least_output(self) -> int:
        """The fewest tokens of output that make the call worth while."""
        return min(self.output, self.least)

    def reserved(self, output: int) -> Use:
        """Return what is reserved where it may write `output` tokens."""
        cost = self.cost + int((self.price * output).to_integral_value(rounding="ROUND_CEILING"))
        return Use(tokens=min(self.tokens + output, MOST), cost=min(cost, MOST))


class Granted(NamedTuple):
    """The call may be made, with at most `output` tokens of output."""

    output: int
    reserved: Use


class Busy(NamedTuple):
    """Too little is left because of what other calls have reserved, of which most comes back."""


class BudgetExhausted(Record):
    """Why a call is refused. `until`: seconds until the account begins anew; None: it never does.

    `limit`, `used`, `reserved` and `needs` are amounts of `what`, in the units of the configuration; the
    limit with what people added.
    """

    account: Account
    what: Quantity
    limit: float
    until: float | None
    used: float = 0
    reserved: float = 0
    needs: float = 0
    added: float = 0
    """How much of the limit people added."""
    day: int = 0
    """The day of an account that begins anew, in days since 1970-01-01 UTC."""

    def key(self, workspace_id: str) -> AccountKey:
        """Return the identity of the account."""
        return AccountKey(workspace_id, self.account.span, self.account.owner_id, self.day)

    @property
    def short(self) -> float:
        """What is missing for the call."""
        return max(self.used + self.reserved + self.needs - self.limit, 0)

    @property
    def sentence(self) -> str:
        """What is used up, or has too little left."""
        budget = _BUDGETS[self.account.span].format(f"{self.limit:g} {_NOUNS[self.what]}")
        left = self.limit - self.used - self.reserved
        if left <= 0:
            return f"{budget} is used up"
        return f"{budget} has {left:g} left, and this call may take {self.needs:g}"

    @property
    def error(self) -> HostlerError:
        """The error to raise."""
        text = self.sentence
        details = {"budget": self.what, "limit": self.limit, "account": self.account.span}
        if self.until is None:
            return UnauthorizedError(text, **details)
        text += "; the day begins at midnight UTC"
        return RateLimitedError(text, round(self.until, 3) or 0.001, **details)


_NOUNS: dict[Quantity, str] = {
    "calls": "calls",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost": "in cost",
    "seconds": "seconds",
}
_BUDGETS = {
    "run": "the budget of {} of this run",
    "day": "the agent's budget of {} a day",
    "conversation": "the agent's budget of {} for this conversation",
    "conversation_day": "the agent's budget of {} a day for this conversation",
    "person": "the agent's budget of {} for this person",
    "person_day": "the agent's budget of {} a day for this person",
    "workspace": "the workspace's budget of {}",
    "workspace_day": "the workspace's budget of {} a day",
}


def reserve(
    accounts: Sequence[Account], balances: Sequence[Balance], need: Need, *, now: int, may_wait: bool = False
) -> Granted | Busy | BudgetExhausted:
    """Decide whether a call may be made, or has to wait for other calls, or which account has too little.

    `now` in UTC epoch milliseconds. `may_wait` False: what others have reserved is not waited for.
    """
    pairs = list(zip(accounts, balances, strict=True))
    for account, balance in pairs:
        what = _counted_out(account, balance, need)
        if what is not None:
            return _exhausted(account, balance, what, need.counted.of(what), now)
    if not need.spends:
        return Granted(0, NOTHING)
    fits = min((_output(account, balance, need) for account, balance in pairs), default=MOST)
    if fits >= need.output:
        return Granted(need.output, need.reserved(need.output))
    if may_wait:
        free = min(_output(account, balance._replace(reserved=NOTHING), need) for account, balance in pairs)
        if free > fits and free >= need.least_output:
            return Busy()
    if fits >= need.least_output:
        return Granted(fits, need.reserved(fits))
    account, balance = next(pair for pair in pairs if _output(*pair, need) < need.least_output)
    least = need.reserved(need.least_output)
    short: Quantity = "cost"
    left = _left(account, balance, "tokens")
    if left is not None and left < least.tokens:
        short = "tokens"
    return _exhausted(account, balance, short, least.of(short), now)


def time_slice(
    accounts: Sequence[Account], balances: Sequence[Balance], wanted: int, *, now: int
) -> int | BudgetExhausted:
    """Return how many milliseconds a run may be worked on, at most `wanted`, or which account has none."""
    for account, balance in zip(accounts, balances, strict=True):
        left = _left(account, balance, "seconds")
        if left is not None and left <= 0:
            return _exhausted(account, balance, "seconds", wanted, now)
        wanted = wanted if left is None else min(wanted, left)
    return wanted


def _counted_out(account: Account, balance: Balance, need: Need) -> Quantity | None:
    """Return the first quantity of which nothing is left for the call."""
    countable: tuple[Quantity, ...] = ("calls", "tool_calls")
    for what in countable:
        left = _left(account, balance, what)
        if left is not None and left < need.counted.of(what):
            return what
    return None


def _output(account: Account, balance: Balance, need: Need) -> int:
    """Return how many tokens of output fit; below 0 where not even the input does."""
    fits = MOST
    tokens = _left(account, balance, "tokens")
    if tokens is not None:
        fits = tokens - need.tokens
    cost = _left(account, balance, "cost")
    if cost is not None:
        spare = cost - need.cost
        if spare < 0:
            return -1
        if need.price > 0:
            fits = min(fits, int(spare / need.price))
    return fits


def _left(account: Account, balance: Balance, what: Quantity) -> int | None:
    most = account.limits.most(what)
    if most is None:
        return None
    return most + balance.added.of(what) - balance.used.of(what) - balance.reserved.of(what)


def _exhausted(account: Account, balance: Balance, what: Quantity, needs: int, now: int) -> BudgetExhausted:
    daily = account.span in DAILY
    most = (account.limits.most(what) or 0) + balance.added.of(what)
    return BudgetExhausted(
        account,
        what,
        in_words(what, most),
        (MILLISECONDS_PER_DAY - now % MILLISECONDS_PER_DAY) / 1000 if daily else None,
        used=in_words(what, balance.used.of(what)),
        reserved=in_words(what, balance.reserved.of(what)),
        needs=in_words(what, needs),
        added=in_words(what, balance.added.of(what)),
        day=now // MILLISECONDS_PER_DAY if daily else 0,
    )
