"""Budgets as people see them: accounts, what was added to them, and the removal of what is over."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from hostler.domain.budgets import MILLISECONDS_PER_DAY, AccountKey, AccountLimits, Span, Use
from hostler.domain.reservations import Balance
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.budgets import balance_of, key_columns, span_of
from hostler.storage.stores.erasure import STEP_ROWS

_q = load(__file__)
KEPT_MILLISECONDS = 40 * MILLISECONDS_PER_DAY
"""How long the row of a past day or an ended run is kept: a child run may wait for people for 30 days."""
KEPT_TOTALS_MILLISECONDS = 400 * MILLISECONDS_PER_DAY
"""How long an account of a conversation or a person is kept that nothing is charged to: over a year."""
MAX_SHOWN_TOP_UPS = 100
"""Top-ups of one account in its record: the latest."""
_limits = msgspec.json.Decoder(AccountLimits)
_amounts = msgspec.json.Decoder(Use)


class AddedAmounts(NamedTuple):
    """A stored top-up. `created_at` in UTC epoch milliseconds."""

    top_up_id: str
    amounts: Use
    subject: str
    comment: str | None
    run_id: str | None
    pause_id: str | None
    created_at: int


class StoredAccount(NamedTuple):
    """A stored account. `limits` are those of the last call that was charged, without what was added."""

    key: AccountKey
    balance: Balance
    limits: AccountLimits
    agent_name: str | None
    conversation_id: str | None
    person: str | None
    added_by: str | None
    updated_at: int


def find(tx: Tx, key: AccountKey) -> StoredAccount | None:
    """Return an account that something was charged to, or None."""
    row = tx.one(_q.find, ws=key.workspace_id, **key_columns(key))
    return None if row is None else _account(row)


def page(
    tx: Tx,
    workspace_id: str,
    *,
    span: Span | None = None,
    agent_name: str | None = None,
    conversation_id: str | None = None,
    before: tuple[int, str, str, int] | None = None,
    limit: int,
) -> list[StoredAccount]:
    """Return accounts, latest use first. `before`: (updated_at, span, owner, day) of the one before them."""
    at, before_span, owner, day = before or (None, "", "", 0)
    rows = tx.all(
        _q.page,
        ws=workspace_id,
        only_span=span,
        agent_name=agent_name,
        conversation_id=conversation_id,
        before_at=at,
        before_span=before_span,
        before_owner=owner,
        before_day=day,
        limit=limit,
    )
    return [_account(row) for row in rows]


def top_ups(tx: Tx, key: AccountKey) -> list[AddedAmounts]:
    """Return the latest top-ups of an account, newest first."""
    rows = tx.all(_q.top_ups, ws=key.workspace_id, **key_columns(key), limit=MAX_SHOWN_TOP_UPS)
    return [AddedAmounts(**{**row, "amounts": _amounts.decode(row["amounts"])}) for row in rows]


def _account(row: Row) -> StoredAccount:
    return StoredAccount(
        AccountKey(row["workspace_id"], span_of(row["span"]), row["owner_id"], row["day"]),
        balance_of(row),
        AccountLimits() if row["limits"] is None else _limits.decode(row["limits"]),
        row["agent_name"],
        row["conversation_id"],
        row["person"],
        row["added_by"],
        row["updated_at"],
    )


def forget_conversation(tx: Tx, workspace_id: str, conversation_id: str) -> int:
    """Remove the name of a conversation from its accounts, which stay; return their number."""
    return tx.run(_q.forget_conversation, ws=workspace_id, conversation_id=conversation_id)


def sweep(tx: Tx, workspace_id: str) -> int:
    """Remove a step of rows that are no longer used; return their number. Call it until it returns 0."""
    before, long_before = tx.now - KEPT_MILLISECONDS, tx.now - KEPT_TOTALS_MILLISECONDS
    accounts = tx.run(_q.sweep, ws=workspace_id, before=before, long_before=long_before, limit=STEP_ROWS)
    return accounts + tx.run(_q.sweep_top_ups, ws=workspace_id, before=before, limit=STEP_ROWS)
