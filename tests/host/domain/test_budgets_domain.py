"""Which accounts a run is charged to, and what its calls used."""

from __future__ import annotations

from decimal import Decimal

from hostler.domain.agents import Budget
from hostler.domain.budgets import (
    Account,
    AccountLimits,
    Use,
    accounts_of,
    exhausted_budget,
    merge_accounts,
    use_of,
)
from hostler_protocol.content import Usage

DAY = 86_400_000


def test_a_run_has_accounts_for_what_is_limited() -> None:
    assert accounts_of("r", "a", Budget()) == []
    assert accounts_of("r", "a", Budget(max_calls_per_day=1)) == [Account("day", "a", AccountLimits(calls=1))]
    every = Budget(
        max_calls_per_run=1,
        max_tokens_per_run=2,
        max_cost_per_run=3.5,
        max_calls_per_day=4,
        max_tokens_per_day=5,
        max_cost_per_day=6.5,
    )
    assert accounts_of("r", "a", every) == [
        Account("run", "r", AccountLimits(1, 2, 3.5)),
        Account("day", "a", AccountLimits(4, 5, 6.5)),
    ]


def test_an_account_that_comes_twice_counts_once_with_the_smaller_limits() -> None:
    """A child of the same agent: one day, and each call counts once."""
    below, above = (
        Account("day", "a", AccountLimits(calls=9, tokens=5)),
        Account("day", "a", AccountLimits(calls=7, cost=1)),
    )
    own, parent = Account("run", "r2", AccountLimits(calls=1)), Account("run", "r1", AccountLimits(calls=2))
    assert merge_accounts([own, below, parent, above]) == (
        own,
        parent,
        Account("day", "a", AccountLimits(7, 5, 1)),
    )


def test_the_first_account_that_is_used_up_is_named() -> None:
    accounts = [
        Account("run", "r", AccountLimits(calls=2)),
        Account("day", "a", AccountLimits(calls=1, tokens=0)),
    ]
    assert exhausted_budget(accounts, [Use(), Use()], spends=False, now=0) is None
    both = exhausted_budget(accounts, [Use(calls=2), Use(calls=1)], spends=False, now=0)
    assert both is not None
    assert (both.account, both.until) == (accounts[0], None)
    tokens = exhausted_budget(accounts, [Use(), Use()], spends=True, now=5 * DAY + DAY - 1500)
    assert tokens is not None
    assert (tokens.what, tokens.until) == ("tokens", 1.5)


def test_what_is_unknown_counts_nothing() -> None:
    assert use_of(None, None) == Use()
    assert use_of(Usage(), Decimal(0)) == Use()
    assert use_of(Usage(input_tokens=3), Decimal("0.1")) == Use(0, 3, 100_000_000)
    assert use_of(Usage(input_tokens=3, output_tokens=4, total_tokens=9), None) == Use(0, 9, 0)
    assert use_of(Usage(), Decimal("1e30")) == Use(0, 0, 2**62)
    assert use_of(None, Decimal(-1)) == Use()
