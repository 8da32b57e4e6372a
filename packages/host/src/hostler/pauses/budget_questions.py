"""Calls that wait for a budget go on once a person added to it, for whatever reason, or a new day begins."""

from __future__ import annotations

from hostler.domain.budgets import MILLISECONDS_PER_DAY, account_key
from hostler.domain.pause_values import PausedCall
from hostler.domain.top_ups import asked_in, was_added_to
from hostler.pauses.transitions import Done, go_on, hold
from hostler.storage.port import Tx
from hostler.storage.stores import budget_accounts, pause_calls, pauses


def may_go_on(tx: Tx, call: PausedCall) -> str | None:
    """Return who added to the account of a waiting call since it was asked, or `clock` on a new day."""
    asked = asked_in(call)
    key = account_key(call.workspace_id, asked.account)
    if key is None:
        return None
    if key.day and key.day != tx.now // MILLISECONDS_PER_DAY:
        return "clock"
    account = budget_accounts.find(tx, key)
    if account is None or not was_added_to(asked, account.balance.added):
        return None
    return account.added_by


def go_on_with_budget(tx: Tx, waiting: PausedCall) -> Done | None:
    """Approve a waiting call whose account was added to for another reason. None: it waits no more."""
    _, pause = hold(tx, waiting.workspace_id, waiting.pause_id)
    call = pause_calls.find(tx, pause, waiting.call_id)
    if call is None or call.decision != "undecided" or pause.status not in {"open", "needs_review"}:
        return None
    by = may_go_on(tx, call)
    if by is None:
        return None
    cause = "a new day has begun" if by == "clock" else "its budget was added to"
    pause_calls.decide(tx, pause, call, "approved", cause=cause, actor=by)
    return Done(go_on(tx, pauses.settle(tx, pause, actor=by), by))
