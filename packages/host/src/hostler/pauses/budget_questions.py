"""Calls that wait for a budget go on once a person added to it, for whatever reason, or a new day begins.

Those that wait for one of a workspace do so too once the installation raised it, or took it away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hostler.domain.budgets import MILLISECONDS_PER_DAY, OF_WORKSPACE, Account, account_key
from hostler.domain.pause_values import PausedCall
from hostler.domain.top_ups import asked_in, was_added_to, was_raised
from hostler.pauses.transitions import Done, go_on, hold
from hostler.storage.port import Tx
from hostler.storage.stores import budget_accounts, pause_calls, pauses

Limits = Callable[[str], Sequence[Account]]
"""The accounts of a workspace, as the installation limits them now."""
_CAUSES = {"clock": "a new day has begun", "configuration": "the installation has changed its limit"}


def may_go_on(tx: Tx, call: PausedCall, limits: Limits | None) -> str | None:
    """Return who added to the account of a waiting call since it was asked.

    `clock` on a new day, `configuration` if the limit is higher now, or gone. `limits` None: not known here.
    """
    asked = asked_in(call)
    key = account_key(call.workspace_id, asked.account)
    if key is None:
        return None
    if key.day and key.day != tx.now // MILLISECONDS_PER_DAY:
        return "clock"
    if (
        limits is not None
        and key.span in OF_WORKSPACE
        and was_raised(asked, key.span, limits(call.workspace_id))
    ):
        return "configuration"
    account = budget_accounts.find(tx, key)
    if account is None or not was_added_to(asked, account.balance.added):
        return None
    return account.added_by


def go_on_with_budget(tx: Tx, waiting: PausedCall, limits: Limits | None) -> Done | None:
    """Approve a waiting call whose account has more for another reason. None: it waits no more."""
    _, pause = hold(tx, waiting.workspace_id, waiting.pause_id)
    call = pause_calls.find(tx, pause, waiting.call_id)
    if call is None or call.decision != "undecided" or pause.status not in {"open", "needs_review"}:
        return None
    by = may_go_on(tx, call, limits)
    if by is None:
        return None
    cause = _CAUSES.get(by, "its budget was added to")
    pause_calls.decide(tx, pause, call, "approved", cause=cause, actor=by)
    return Done(go_on(tx, pauses.settle(tx, pause, actor=by), by))
