"""What is charged to budgets, on both databases: exact, all or nothing, by as many hosts as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from hostler.calls.budgets import RunBudget
from hostler.domain.budgets import MILLISECONDS_PER_DAY, Account, AccountLimits, Use
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import budgets, runs
from hostler.storage.stores.budgets import Charge
from hostler.storage.stores.hosts import Membership
from hostler_protocol.content import Usage
from hostler_protocol.errors import RateLimitedError, UnauthorizedError
from support.databases import read, write
from support.run_rows import new

CALL = Use(calls=1)


def account(owner: str, span: Any = "day", **limits: Any) -> Account:
    return Account(span, owner, AccountLimits(**limits))


def taken(database: SqlDatabase, *accounts: Account, ws: str = "w", spends: bool = False) -> str | None:
    """One call: what it was refused for, None where it was let through."""
    charged = Charge(ws, accounts, CALL, checked=True, spends=spends)
    refused = write(database, lambda tx: budgets.charge(tx, charged)).refused
    return None if refused is None else refused.what


def spent(database: SqlDatabase, use: Use, *accounts: Account) -> None:
    write(database, lambda tx: budgets.charge(tx, Charge("w", accounts, use)))


def test_each_account_has_its_own_count(database: SqlDatabase) -> None:
    two = account("a", calls=2)
    assert [taken(database, two) for _ in range(3)] == [None, None, "calls"]
    assert taken(database, account("b", calls=2)) is None
    assert taken(database, two, ws="v") is None
    assert taken(database, account("a", span="run", calls=2)) is None
    assert taken(database, account("a", calls=3)) is None, "a larger limit, the same account"
    assert taken(database, account("a", calls=3)) == "calls"


def test_a_call_counts_on_all_its_accounts_or_on_none(database: SqlDatabase) -> None:
    run_, day = account("r", span="run", calls=9), account("a", calls=1)
    assert taken(database, run_, day) is None
    assert taken(database, run_, day) == "calls"
    assert [taken(database, run_) for _ in range(9)] == [None] * 8 + ["calls"]


def test_tokens_and_cost_are_refused_to_what_spends_once_they_are_used_up(database: SqlDatabase) -> None:
    limits = account("a", tokens=10, cost=0.5)
    assert taken(database, limits, spends=True) is None
    spent(database, Use(tokens=9, cost=499_999_999), limits)
    assert taken(database, limits, spends=True) is None
    spent(database, Use(cost=1), limits)
    assert taken(database, limits, spends=True) == "cost"
    spent(database, Use(tokens=1), limits)
    assert taken(database, limits, spends=True) == "tokens"
    assert taken(database, limits) is None, "what costs nothing goes on"


def test_sums_stop_before_they_overflow(database: SqlDatabase) -> None:
    limits = account("a", tokens=2**63)
    for _ in range(3):
        spent(database, Use(2**62, 2**62, 2**62), limits)
    assert taken(database, limits, spends=True) is None
    assert taken(database, account("a", calls=2**62)) == "calls"


def test_a_day_is_over_at_midnight_and_a_run_is_not(database: SqlDatabase) -> None:
    """The rows of yesterday are there, and count for nothing; those of runs have no day."""
    day, own = account("a", calls=1), account("r", span="run", calls=1)
    assert taken(database, day, own) is None

    def yesterday(tx: Tx) -> None:
        tx.run(_sql(database, "UPDATE budget_use SET day = day - 1 WHERE span = 'day'"))

    write(database, yesterday)
    assert taken(database, day) is None
    assert taken(database, day) == "calls"
    assert taken(database, own) == "calls"


def _sql(database: SqlDatabase, text: str) -> Any:
    from hostler.storage.port import Query

    return Query("test.sql", text, text)


def test_what_is_over_is_swept(database: SqlDatabase) -> None:
    write(database, lambda tx: runs.open(tx, new("open", workspace="w"), Membership("host")))
    for owner in ("open", "over"):
        assert taken(database, account(owner, span="run", calls=5)) is None
    assert taken(database, account("a", calls=5)) is None
    assert taken(database, account("a", calls=5), ws="v") is None
    assert write(database, lambda tx: budgets.sweep(tx, "w")) == 0
    old = f"UPDATE budget_use SET updated_at = updated_at - {8 * MILLISECONDS_PER_DAY}"
    write(database, lambda tx: tx.run(_sql(database, old)))
    assert write(database, lambda tx: budgets.sweep(tx, "w")) == 2
    left = read(database, lambda tx: tx.all(_sql(database, "SELECT workspace_id, owner_id FROM budget_use")))
    assert sorted(tuple(row.values()) for row in left) == [("v", "a"), ("w", "open")]


async def test_many_hosts_let_through_exactly_what_there_is(database_url: str) -> None:
    """Accounts in every order, from several databases at once: no more, no fewer, and nobody deadlocks."""
    count = 1 if not database_url.startswith("postgres") else 3
    opened = [open_database(database_url) for _ in range(count)]
    try:
        days = [account(f"a{n}", calls=40) for n in range(3)]
        orders: list[Sequence[Account]] = [days, days[::-1], [days[1], days[0], days[2]]]
        asked = [RunBudget(opened[n % count], "w", tuple(orders[n % 3])) for n in range(150)]
        told = await asyncio.gather(*(one.take(spends=False) for one in asked), return_exceptions=True)
        assert told.count(None) == 40
        assert {type(one) for one in told if one is not None} == {RateLimitedError}
    finally:
        for one in opened:
            await one.close()


async def test_the_refusal_says_which_budget_it_was_and_when_to_come_again(database: SqlDatabase) -> None:
    own = RunBudget(database, "w", (account("r", span="run", tokens=5),))
    await own.take(spends=True)
    await own.spend(Usage(input_tokens=2, output_tokens=3), None)
    with pytest.raises(UnauthorizedError, match="budget of 5 tokens of this run is used up") as caught:
        await own.take(spends=True)
    assert caught.value.details == {"budget": "tokens", "limit": 5}
    day = RunBudget(database, "w", (account("a", calls=0),))
    with pytest.raises(RateLimitedError, match="budget of 0 calls a day") as limited:
        await day.take(spends=False)
    assert 0 < limited.value.retry_after <= 86_400


async def test_without_a_limit_nothing_is_written(database: SqlDatabase) -> None:
    before = database.groups_committed
    free = RunBudget(database, "w", ())
    await free.take(spends=True)
    await free.spend(Usage(total_tokens=5), None)
    assert database.groups_committed == before
