"""Which accounts a run is charged to, and what its calls used."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hostler.domain.budget_limits import Budget, WorkspaceBudget
from hostler.domain.budgets import (
    QUANTITIES,
    SPANS,
    Account,
    AccountKey,
    AccountLimits,
    Spender,
    Terms,
    Use,
    account_key,
    accounts_of,
    accounts_of_workspace,
    merge_accounts,
    use_of,
)
from hostler_protocol.content import Usage


def spender(**known: Any) -> Spender:
    return Spender(**({"run_id": "r", "agent_id": "a", "conversation_id": "c"} | known))


def test_a_run_has_accounts_for_what_is_limited() -> None:
    assert accounts_of(spender(), Budget()) == []
    (day,) = accounts_of(spender(), Budget(max_calls_per_day=1))
    assert day[:3] == ("day", "a", AccountLimits(calls=1))
    limits: dict[str, Any] = {
        f"max_{what}_per_{span}": 1 + n for n, what in enumerate(QUANTITIES) for span in SPANS[:6]
    }
    every = Budget(**limits, on_exceeded="ask", approvers=["user:ann"])
    found = accounts_of(spender(requester="bob"), every)
    assert [account.span for account in found] == list(SPANS[:6])
    assert {account.limits for account in found} == {AccountLimits(1, 2, 3, 4, 5)}
    assert {account.terms for account in found} == {Terms("ask", "refuse", ("user:ann",))}


def test_accounts_of_a_conversation_and_a_person_are_theirs_with_this_agent() -> None:
    budget = Budget(max_calls_per_conversation=1, max_calls_per_person_day=2)

    def owners(**known: Any) -> list[str]:
        return [account.owner_id for account in accounts_of(spender(**known), budget)]

    one = owners(requester="ann")
    assert owners(requester="ann", run_id="other", agent_name="Renamed") == one
    for other in ({"agent_id": "b"}, {"conversation_id": "d"}, {"bot_id": "b"}, {"requester": "bob"}, {}):
        assert owners(**({"requester": "ann"} | other) if other else {}) != one
    assert owners(requester=None) == owners(requester="host"), "what nobody sent is the host's"


def test_a_run_without_a_conversation_is_one_by_itself() -> None:
    budget = Budget(max_calls_per_conversation=5, max_calls_per_conversation_day=3, max_calls_per_run=9)
    (own,) = accounts_of(spender(conversation_id=None), budget)
    assert own[:3] == ("run", "r", AccountLimits(calls=3))


def test_accounts_of_a_workspace() -> None:
    assert accounts_of_workspace("w", None) == []
    assert accounts_of_workspace("w", WorkspaceBudget()) == []
    budget = WorkspaceBudget(max_cost=10.0, max_tokens_per_day=5, on_exceeded="end")
    assert accounts_of_workspace("w", budget) == [
        Account("workspace", "w", AccountLimits(cost=10.0), Terms("end")),
        Account("workspace_day", "w", AccountLimits(tokens=5), Terms("end")),
    ]


def test_an_account_is_found_by_its_id() -> None:
    for key in (AccountKey("w", "run", "r", 0), AccountKey("w", "day", "a.b:c", 20_000)):
        assert account_key("w", key.account_id) == key
    wrong = ["", "run", "run.0", "run.0.", "moon.0.x", "day.x.a", "day.-1.a", "run.12345678.r", "run.0.\x00"]
    assert [account_key("w", text) for text in wrong] == [None] * len(wrong)


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


def test_what_is_unknown_counts_nothing() -> None:
    assert use_of(None, None) == Use()
    assert use_of(Usage(), Decimal(0)) == Use()
    assert use_of(Usage(input_tokens=3), Decimal("0.1")) == Use(0, 3, 100_000_000)
    assert use_of(Usage(input_tokens=3, output_tokens=4, total_tokens=9), None) == Use(0, 9, 0)
    assert use_of(Usage(), Decimal("1e30")) == Use(0, 0, 2**62)
    assert use_of(None, Decimal(-1)) == Use()
