"""What is charged to budgets, on both databases: exact, all or nothing, by as many hosts as there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from hostler.calls.budgets import Reservation, RunBudget
from hostler.domain.budgets import MILLISECONDS_PER_DAY, NANO, Account, AccountLimits, Use, key_of
from hostler.domain.reservations import Balance, BudgetExhausted, Busy, Granted, Need
from hostler.domain.top_ups import TopUp
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, budget_accounts, budgets, runs
from hostler.storage.stores.budgets import Charge, NewReservation, Settlement, TimeBack, TimeCharge
from hostler.storage.stores.hosts import Membership
from hostler_protocol.errors import CancelledCallError, RateLimitedError, UnauthorizedError
from support.databases import read, write
from support.run_rows import new

pytestmark = pytest.mark.gate("budgets")

CALL = Need()


def account(owner: str, span: Any = "day", **limits: Any) -> Account:
    return Account(span, owner, AccountLimits(**limits))


def taken(database: SqlDatabase, *accounts: Account, ws: str = "w", need: Need = CALL) -> str | None:
    """One call: what it was refused for, None where it was let through."""
    charged = Charge(ws, accounts, need)
    outcome = write(database, lambda tx: budgets.charge(tx, charged)).outcome
    return outcome.what if isinstance(outcome, BudgetExhausted) else None


def asks(tokens: int = 0, cost: int = 0, output: int = 0, price: float = 0) -> Need:
    return Need(spends=True, tokens=tokens, cost=cost, output=output, price=Decimal(price))


def reserved(database: SqlDatabase, name: str, need: Need, *accounts: Account, wait: bool = False) -> Any:
    """A call of a model by the run `r`: what was granted, or why it was not."""
    new = NewReservation(name, "r", 1, "model.invoke")
    charged = Charge("w", accounts, need, new, may_wait=wait)
    return write(database, lambda tx: budgets.charge(tx, charged)).outcome


def settled(database: SqlDatabase, name: str, used: Use | None) -> None:
    write(database, lambda tx: budgets.settle(tx, Settlement("w", name, used)))


def balance(database: SqlDatabase, one: Account) -> Balance:
    today = read(database, lambda tx: tx.now) // MILLISECONDS_PER_DAY
    found = read(database, lambda tx: budget_accounts.find(tx, key_of("w", one, today)))
    return Balance() if found is None else found.balance


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


def test_what_a_call_may_use_is_reserved_until_it_is_known(database: SqlDatabase) -> None:
    limits = account("a", tokens=1000, cost=0.5)
    granted = reserved(database, "one", asks(100, 1_000, 500, 1_000), limits)
    assert granted == Granted(500, Use(tokens=600, cost=501_000))
    assert balance(database, limits) == Balance(Use(calls=1), Use(tokens=600, cost=501_000))
    refused = reserved(database, "two", asks(100, 0, 500), limits, wait=True)
    assert refused == Busy(), "what is reserved comes back: the call waits"
    assert reserved(database, "two", asks(100, 0, 500), limits) == Granted(300, Use(tokens=400)), (
        "or gets less"
    )
    settled(database, "one", Use(tokens=150, cost=7))
    assert balance(database, limits) == Balance(Use(2, 150, 7), Use(tokens=400))
    settled(database, "one", Use(tokens=150, cost=7))
    settled(database, "two", None)
    assert balance(database, limits) == Balance(Use(2, 550, 7)), "once; and in full where nobody knows"
    refused = reserved(database, "three", asks(445, 0, 500), limits)
    assert isinstance(refused, BudgetExhausted)
    assert (refused.what, refused.limit, refused.used, refused.needs) == ("tokens", 1000, 550, 445 + 256)
    assert taken(database, limits) is None, "what costs nothing goes on"


def test_a_repeated_reservation_is_stored_once(database: SqlDatabase) -> None:
    """Nobody knew whether the first was committed."""
    limits = account("a", tokens=1000)
    first = reserved(database, "one", asks(100, 0, 500), limits)
    again = NewReservation("one", "r", 1, "model.invoke", again=True)
    charged = Charge("w", [limits], asks(100, 0, 500), again)
    assert write(database, lambda tx: budgets.charge(tx, charged)).outcome == first
    assert balance(database, limits) == Balance(Use(calls=1), Use(tokens=600))


def test_what_is_known_of_a_call_goes_before_what_its_end_supposes(database: SqlDatabase) -> None:
    """The outcome of a call and the end of its attempt may be written in one transaction."""
    limits = account("a", tokens=1000)
    for name in ("one", "two"):
        reserved(database, name, asks(100, 0, 300), limits)

    def end(tx: Tx) -> None:
        budgets.settle(tx, Settlement("w", "one", Use(tokens=5)))
        budgets.settle_run(tx, "w", "r")

    write(database, end)
    assert balance(database, limits) == Balance(Use(calls=2, tokens=405))


def test_reservations_of_attempts_that_are_over_are_settled(database: SqlDatabase) -> None:
    write(database, lambda tx: runs.open(tx, new("r", workspace="w"), Membership("host")))
    limits = account("a", tokens=1000)
    reserved(database, "one", asks(100, 0, 300), limits)
    assert write(database, lambda tx: budgets.settle_left_behind(tx, "w")) == 0, "the run is under way"
    write(database, lambda tx: tx.run(_sql(database, "UPDATE runs SET attempt = 2")))
    assert write(database, lambda tx: budgets.settle_left_behind(tx, "w")) == 1
    assert balance(database, limits) == Balance(Use(calls=1, tokens=400))


def test_a_person_adds_to_an_account_once(database: SqlDatabase) -> None:
    limits = account("a", calls=1, cost=0.5)
    assert [taken(database, limits) for _ in range(2)] == [None, "calls"]
    today = read(database, lambda tx: tx.now) // MILLISECONDS_PER_DAY
    added = TopUp(key_of("w", limits, today), "t1", Use(calls=2, cost=NANO), "ann", "key", "go on")
    for _ in range(2):
        write(database, lambda tx: budgets.top_up(tx, added))
    assert [taken(database, limits) for _ in range(3)] == [None, None, "calls"]
    (told,) = read(database, lambda tx: budget_accounts.top_ups(tx, added.key))
    assert (told.subject, told.comment, told.amounts) == ("ann", "go on", Use(calls=2, cost=NANO))
    (fact,) = read(database, lambda tx: audit.page(tx, "w"))
    assert (fact.actor, fact.action, fact.target) == ("ann", "budget.topped_up", added.key.account_id)
    assert fact.body == {"added": {"calls": 2, "cost": 1.0}, "comment": "go on"}


def test_time_is_charged_as_far_as_there_is_some(database: SqlDatabase) -> None:
    limits = account("a", seconds=15)

    def charge(wanted: int) -> TimeCharge:
        charged = TimeCharge("w", [limits], wanted)
        return write(database, lambda tx: budgets.charge_time(tx, charged))

    first, second, third = charge(10_000), charge(10_000), charge(10_000)
    assert (first.outcome, second.outcome) == (10_000, 5_000)
    assert isinstance(third.outcome, BudgetExhausted)
    write(database, lambda tx: budgets.give_time_back(tx, TimeBack(second.keys, 4_000)))
    assert charge(10_000).outcome == 4_000
    write(database, lambda tx: budgets.give_time_back(tx, TimeBack(second.keys, -2_500)))
    assert balance(database, limits).used == Use(seconds=17_500), "what went by is counted all the same"


def test_sums_stop_before_they_overflow(database: SqlDatabase) -> None:
    limits = account("a", tokens=2**63)
    for number in range(3):
        reserved(database, str(number), asks(2**62, 2**62), limits)
        settled(database, str(number), Use(2**62, 2**62, 2**62))
    assert taken(database, limits, need=asks()) is None
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
    assert write(database, lambda tx: budget_accounts.sweep(tx, "w")) == 0
    old = f"UPDATE budget_use SET updated_at = updated_at - {41 * MILLISECONDS_PER_DAY}"
    write(database, lambda tx: tx.run(_sql(database, old)))
    assert write(database, lambda tx: budget_accounts.sweep(tx, "w")) == 2
    left = read(database, lambda tx: tx.all(_sql(database, "SELECT workspace_id, owner_id FROM budget_use")))
    assert sorted(tuple(row.values()) for row in left) == [("v", "a"), ("w", "open")]


async def test_many_hosts_let_through_exactly_what_there_is(database_url: str) -> None:
    """Accounts in every order, from several databases at once: no more, no fewer, and nobody deadlocks."""
    count = 1 if not database_url.startswith("postgres") else 3
    opened = [open_database(database_url) for _ in range(count)]
    try:
        days = [account(f"a{n}", calls=40) for n in range(3)]
        orders: list[Sequence[Account]] = [days, days[::-1], [days[1], days[0], days[2]]]
        asked = [RunBudget(opened[n % count], "w", "r", 1, tuple(orders[n % 3])) for n in range(150)]
        told = await asyncio.gather(*(one.take(Need(), "state.get") for one in asked))
        assert told.count(None) == 40
        assert {type(one) for one in told if one is not None} == {BudgetExhausted}
    finally:
        for one in opened:
            await one.close()


async def test_calls_of_many_hosts_wait_for_each_other_and_never_use_more(database_url: str) -> None:
    """So much is left that eight of them fit at once, by what they may use, and all by what they do use."""
    count = 1 if not database_url.startswith("postgres") else 3
    opened = [open_database(database_url) for _ in range(count)]
    try:
        await opened[0].write(lambda tx: runs.open(tx, new("r", workspace="w"), Membership("host")))
        limits = (account("a", tokens=64 * 20 + 80),)
        most = 0

        async def call(number: int) -> None:
            nonlocal most
            own = RunBudget(opened[number % count], "w", "r", 1, limits)
            taken = await own.take(asks(100, 0, 70), "model.invoke")
            assert isinstance(taken, Reservation)
            found = await own.db.read(lambda tx: budget_accounts.page(tx, "w", limit=1))
            most = max(most, found[0].balance.used.tokens + found[0].balance.reserved.tokens)
            taken.used = Use(tokens=20)
            await own.db.write(taken.settle)
            taken.settled()

        async with asyncio.timeout(60):
            await asyncio.gather(*(call(number) for number in range(60)))
        assert most <= 64 * 20 + 80
        (left,) = await opened[0].read(lambda tx: budget_accounts.page(tx, "w", limit=2))
        assert left.balance == Balance(Use(calls=60, tokens=60 * 20))
    finally:
        for one in opened:
            await one.close()


async def test_the_refusal_says_which_budget_it_was_and_when_to_come_again(database: SqlDatabase) -> None:
    await database.write(lambda tx: runs.open(tx, new("r", workspace="w"), Membership("host")))
    own = RunBudget(database, "w", "r", 1, (account("r", span="run", tokens=5),))
    taken = await own.take(asks(2, 0, 3), "model.invoke")
    assert isinstance(taken, Reservation)
    taken.used = Use(tokens=5)
    await database.write(taken.settle)
    refused = await own.take(asks(2, 0, 3), "model.invoke")
    assert isinstance(refused, BudgetExhausted)
    assert isinstance(refused.error, UnauthorizedError)
    assert "the budget of 5 tokens of this run is used up" in refused.error.message
    assert refused.error.details == {"budget": "tokens", "limit": 5, "account": "run"}
    day = await RunBudget(database, "w", "r", 1, (account("a", calls=0),)).take(Need(), "state.get")
    assert isinstance(day, BudgetExhausted)
    limited = day.error
    assert isinstance(limited, RateLimitedError)
    assert "budget of 0 calls a day" in limited.message
    assert 0 < limited.retry_after <= 86_400


async def test_an_attempt_that_is_over_reserves_nothing(database: SqlDatabase) -> None:
    await database.write(lambda tx: runs.open(tx, new("r", workspace="w"), Membership("host")))
    old = RunBudget(database, "w", "r", 1, (account("a", tokens=500),))
    await database.write(lambda tx: tx.run(_sql(database, "UPDATE runs SET attempt = 2")))
    with pytest.raises(CancelledCallError):
        await old.take(asks(1), "model.invoke")
    assert await database.read(lambda tx: budget_accounts.page(tx, "w", limit=1)) == []
    assert not old.unsettled


async def test_without_a_limit_nothing_is_written(database: SqlDatabase) -> None:
    before = database.groups_committed
    free = RunBudget(database, "w", "r", 1, ())
    assert await free.take(asks(5, 5, 5), "model.invoke") is None
    write_nothing = await free.take(Need(), "state.get")
    assert write_nothing is None
    assert database.groups_committed == before
