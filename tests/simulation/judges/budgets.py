"""No budget is over its limit and what people added; what was paid is counted; additions have their facts."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NamedTuple

from simulation.judges.charges import charged_tokens, price_of
from simulation.life import Life

BILLION = 1_000_000_000
QUANTITIES = ("calls", "tokens", "cost", "tool_calls")
"""In the order of the stored limits. Time may be over by what goes by until the next call."""
ACCOUNTS = """
SELECT span, owner_id, day, limits, calls, tokens, cost, tool_calls, reserved_tokens, reserved_cost,
    added_calls, added_tokens, added_cost, added_tool_calls FROM budget_use WHERE workspace_id = 'default'
"""
PEOPLE = "('clerk', 'boss')"


class Account(NamedTuple):
    """A stored account."""

    key: tuple[str, str, int]
    limits: list[Any]
    used: dict[str, int]
    reserved: dict[str, int]
    added: dict[str, int]

    @property
    def name(self) -> str:
        """How findings name it."""
        return f"the budget {'.'.join(map(str, self.key))}"


def judge(life: Life) -> list[str]:
    """All of it."""
    accounts = [_account(row) for row in life.rows(ACCOUNTS)]
    return [*_bounded(accounts), *_paid(life, accounts), *_added(life, accounts)]


def _account(row: Any) -> Account:
    span, owner, day, limits, *amounts = row
    calls, tokens, cost, tool_calls, reserved_tokens, reserved_cost, *added = amounts
    used = dict(zip(QUANTITIES, (calls, tokens, cost, tool_calls), strict=True))
    reserved = {"tokens": reserved_tokens, "cost": reserved_cost}
    known = json.loads(limits) if limits is not None else [None] * 5
    return Account((span, owner, day), known, used, reserved, dict(zip(QUANTITIES, added, strict=True)))


def _bounded(accounts: list[Account]) -> list[str]:
    found = []
    for account in accounts:
        for what, limit in zip(QUANTITIES, account.limits, strict=False):
            if limit is None:
                continue
            most = round(limit * BILLION) if what == "cost" else limit
            most += account.added[what]
            used = account.used[what] + account.reserved.get(what, 0)
            if used > most:
                found.append(f"{account.name} has used {used} of {most} {what}")
    return found


def _paid(life: Life, accounts: list[Account]) -> list[str]:
    """What the service has taken for a run and all below it is counted, heard or not."""
    parents = dict(life.rows("SELECT run_id, parent_run_id FROM runs"))
    taken: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for run, tokens in charged_tokens(life).items():
        at: str | None = run
        while at is not None:
            taken[at][0] += sum(tokens)
            taken[at][1] += int(price_of(tokens) * BILLION)
            at = parents.get(at)
    again = {run for (run,) in life.rows("SELECT run_id FROM run_sources")}  # their first answers are copies
    found = []
    for account in accounts:
        span, run, _ = account.key
        if span != "run" or run in again or account.limits[1:3] == [None, None]:
            continue  # where tokens and cost are not bounded, what the service did not say is not counted
        for what, amount in zip(("tokens", "cost"), taken[run], strict=True):
            counted = account.used[what] + account.reserved[what]
            if amount > counted:
                found.append(f"{account.name} has counted {counted} {what}, and {amount} were paid")
    return found


def _added(life: Life, accounts: list[Account]) -> list[str]:
    """What was added is the sum of what people added, each time with a fact; each approval of theirs once."""
    sums: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0] * len(QUANTITIES))
    ids = set()
    for top_up, span, owner, day, amounts in life.rows(
        "SELECT top_up_id, span, owner_id, day, amounts FROM budget_top_ups WHERE workspace_id = 'default'"
    ):
        ids.add(top_up)
        account = sums[span, owner, day]
        account[:] = [one + more for one, more in zip(account, json.loads(amounts), strict=False)]
    found = [
        f"to {account.name} was added {list(account.added.values())}, by people {sums[account.key]}"
        for account in accounts
        if list(account.added.values()) != sums[account.key]
    ]
    ((facts,),) = life.rows("SELECT count(*) FROM audit WHERE action = 'budget.topped_up'")
    if facts != len(ids):
        found.append(f"people added to budgets {len(ids)} times, and {facts} facts say so")
    ((asked,),) = life.rows("SELECT count(*) FROM budget_top_ups WHERE pause_id IS NOT NULL")
    ((approved,),) = life.rows(
        "SELECT count(*) FROM pause_calls c WHERE kind = 'budget' AND decision = 'approved' AND EXISTS"
        " (SELECT 1 FROM decision_votes v WHERE v.pause_id = c.pause_id AND v.call_id = c.call_id"
        " AND v.vote = 'approve')"
    )
    if asked != approved:
        found.append(f"people approved {approved} times more for a budget, and it was added {asked} times")
    return found
