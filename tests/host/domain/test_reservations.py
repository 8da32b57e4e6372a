"""Whether a call of a model may be made, with how much output, or has to wait."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from hostler.domain.budgets import MILLISECONDS_PER_DAY, NANO, Account, AccountLimits, Use
from hostler.domain.reservations import (
    Balance,
    BudgetExhausted,
    Busy,
    Granted,
    Need,
    reserve,
    time_slice,
)
from hostler_protocol.errors import RateLimitedError, UnauthorizedError

NOTHING = Use()
DEAR = 1_000
"""Billionths per token of output."""


def run_with(**limits: Any) -> Account:
    return Account("run", "r", AccountLimits(**limits))


def asks(tokens: int = 0, cost: int = 0, output: int = 0, price: int = 0) -> Need:
    return Need(spends=True, tokens=tokens, cost=cost, output=output, price=Decimal(price))


def decided(account: Account, need: Need, *, wait: bool = False, **balance: Use) -> Any:
    return reserve([account], [Balance(**balance)], need, now=0, may_wait=wait)


@pytest.mark.parametrize(
    ("limits", "need", "balance", "expected"),
    [
        # everything fits, to the last token
        ({"tokens": 600}, asks(100, 0, 500), {}, Granted(500, Use(tokens=600))),
        ({"tokens": 599}, asks(100, 0, 500), {}, Granted(499, Use(tokens=599))),
        # the fewest tokens that are worth while, or as few as were asked for
        ({"tokens": 356}, asks(100, 0, 500), {}, Granted(256, Use(tokens=356))),
        ({"tokens": 355}, asks(100, 0, 500), {}, "tokens"),
        ({"tokens": 110}, asks(100, 0, 10), {}, Granted(10, Use(tokens=110))),
        ({"tokens": 109}, asks(100, 0, 10), {}, "tokens"),
        # money: what is left buys so much output
        ({"cost": 1.0}, asks(9, 7, 500, DEAR), {}, Granted(500, Use(tokens=509, cost=500_007))),
        ({"cost": 0.0003}, asks(0, 0, 500, DEAR), {}, Granted(300, Use(tokens=300, cost=300_000))),
        ({"cost": 0.0003}, asks(0, 1, 500, DEAR), {}, Granted(299, Use(tokens=299, cost=299_001))),
        ({"cost": 0.0002}, asks(0, 0, 500, DEAR), {}, "cost"),
        ({"cost": 0.0}, asks(5, 0, 500, 0), {}, Granted(500, Use(tokens=505))),
        ({"cost": 0.1}, asks(0, NANO, 0, 0), {}, "cost"),
        # what is used, reserved and added
        ({"tokens": 600}, asks(100, 0, 500), {"used": Use(tokens=200)}, Granted(300, Use(tokens=400))),
        ({"tokens": 600}, asks(100, 0, 500), {"reserved": Use(tokens=200)}, Granted(300, Use(tokens=400))),
        ({"tokens": 0}, asks(100, 0, 500), {"added": Use(tokens=600)}, Granted(500, Use(tokens=600))),
        ({"tokens": 600}, asks(100, 0, 500), {"used": Use(tokens=700)}, "tokens"),
        # what is counted
        ({"calls": 1}, Need(), {}, Granted(0, NOTHING)),
        ({"calls": 1}, Need(), {"used": Use(calls=1)}, "calls"),
        ({"calls": 1}, Need(NOTHING), {"used": Use(calls=1)}, Granted(0, NOTHING)),
        ({"tool_calls": 1}, Need(), {"used": Use(tool_calls=1)}, Granted(0, NOTHING)),
        ({"tool_calls": 1}, Need(Use(1, tool_calls=1)), {"used": Use(tool_calls=1)}, "tool_calls"),
        # a call that spends nothing goes on where money and tokens are gone
        ({"cost": 0.1, "tokens": 5}, Need(), {"used": Use(cost=NANO, tokens=9)}, Granted(0, NOTHING)),
        (
            {"calls": 9},
            asks(10**9, 10**12, 10**6, DEAR),
            {},
            Granted(10**6, Use(tokens=1_001_000_000, cost=1_001_000_000_000)),
        ),
    ],
)
def test_what_one_account_lets_through(limits: Any, need: Need, balance: Any, expected: Any) -> None:
    found = decided(run_with(**limits), need, **balance)
    assert (found.what if isinstance(found, BudgetExhausted) else found) == expected


def test_what_others_have_reserved_is_waited_for() -> None:
    account, need = run_with(tokens=600), asks(100, 0, 500)
    assert decided(account, need, wait=True, reserved=Use(tokens=1)) == Busy()
    assert decided(account, need, wait=True, used=Use(tokens=1)) == Granted(499, Use(tokens=599))
    # waiting would not help: not even all that is reserved makes it enough
    nearly = decided(account, need, wait=True, used=Use(tokens=400), reserved=Use(tokens=100))
    assert isinstance(nearly, BudgetExhausted)
    assert (nearly.used, nearly.reserved, nearly.needs, nearly.short) == (400, 100, 356, 256)
    assert isinstance(decided(run_with(calls=0), need, wait=True, reserved=Use(tokens=1)), BudgetExhausted)


def test_the_tightest_account_decides_and_the_first_is_named() -> None:
    accounts = [run_with(tokens=10**6, cost=0.0003), Account("day", "a", AccountLimits(tokens=280))]
    need = asks(0, 0, 500, DEAR)
    assert reserve(accounts, [Balance(), Balance()], need, now=0) == Granted(
        280, Use(tokens=280, cost=280_000)
    )
    both = reserve(accounts, [Balance(Use(cost=NANO)), Balance(Use(tokens=99))], need, now=0)
    assert isinstance(both, BudgetExhausted)
    assert (both.account.span, both.what) == ("run", "cost")
    day = reserve(accounts, [Balance(), Balance(Use(tokens=99))], need, now=0)
    assert isinstance(day, BudgetExhausted)
    assert (day.account.span, day.what) == ("day", "tokens")


def test_a_repeated_request_takes_all_that_it_had_or_nothing() -> None:
    need = asks(100, 0, 500)._replace(least=500)
    assert isinstance(decided(run_with(tokens=599), need), BudgetExhausted)
    assert decided(run_with(tokens=600), need) == Granted(500, Use(tokens=600))


def test_time_is_given_as_far_as_every_account_has_some() -> None:
    accounts = [run_with(seconds=20), run_with(calls=1), Account("day", "a", AccountLimits(seconds=7.5))]
    balances = [Balance(), Balance(), Balance(Use(seconds=7_000))]
    assert time_slice(accounts, balances, 10_000, now=0) == 500
    assert time_slice(accounts[:2], balances[:2], 10_000, now=0) == 10_000
    none = time_slice(accounts, [Balance(Use(seconds=20_000)), *balances[1:]], 10_000, now=0)
    assert isinstance(none, BudgetExhausted)
    assert (none.account.span, none.what, none.used) == ("run", "seconds", 20)


def test_a_refusal_says_what_is_left_of_what_and_until_when() -> None:
    gone = decided(run_with(cost=0.5), asks(0, 1), used=Use(cost=NANO // 2))
    assert isinstance(gone, BudgetExhausted)
    assert gone.sentence == "the budget of 0.5 in cost of this run is used up"
    assert isinstance(gone.error, UnauthorizedError)
    assert gone.error.details == {"budget": "cost", "limit": 0.5, "account": "run"}
    person = Account("person_day", "p", AccountLimits(tokens=600))
    now = 5 * MILLISECONDS_PER_DAY + MILLISECONDS_PER_DAY - 1_500
    little = reserve([person], [Balance(Use(tokens=500), added=Use(tokens=50))], asks(100, 0, 500), now=now)
    assert isinstance(little, BudgetExhausted)
    assert little.sentence == (
        "the agent's budget of 650 tokens a day for this person has 150 left, and this call may take 356"
    )
    assert (little.day, little.until) == (5, 1.5)
    assert isinstance(little.error, RateLimitedError)
    assert little.error.retry_after == 1.5
