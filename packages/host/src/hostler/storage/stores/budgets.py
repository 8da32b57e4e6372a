"""Budget use of runs and agents: one row per run, and one per agent and day.

Several hosts change the same rows. Each transaction does all its work on them at its end, locking each row
once and in order, so the budgets are exact whichever host makes the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.domain.budgets import MILLISECONDS_PER_DAY, Account, BudgetExhausted, Use, exhausted_budget
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.erasure import STEP_ROWS

_q = load(__file__)
_AT_END = ("budgets",)
KEPT_MILLISECONDS = 7 * MILLISECONDS_PER_DAY
"""How long an unused row is kept; an active run keeps its row until it ends."""


@dataclass(slots=True)
class Charge:
    """One call, or the use that one call reported. `refused` is set when the transaction is committed.

    `checked`: refuse it, and count it nowhere, if an account is used up. `spends`: it costs tokens or money.
    """

    workspace_id: str
    accounts: Sequence[Account]
    use: Use
    checked: bool = False
    spends: bool = False
    refused: BudgetExhausted | None = None


_Key = tuple[str, str, str, int]


def charge(tx: Tx, charged: Charge) -> Charge:
    """Charge all accounts or, if refused, none. Decided at the end of the transaction."""
    tx.at_end(_AT_END, _settle, charged)
    return charged


def sweep(tx: Tx, workspace_id: str) -> int:
    """Remove a step of rows that are no longer used; return their number. Call it until it returns 0."""
    return tx.run(_q.sweep, ws=workspace_id, before=tx.now - KEPT_MILLISECONDS, limit=STEP_ROWS)


def _settle(tx: Tx, charges: list[Charge]) -> None:
    today = tx.now // MILLISECONDS_PER_DAY
    keys = sorted({_key(one, account, today) for one in charges for account in one.accounts})
    before = {key: _locked(tx, key) for key in keys}
    uses = dict(before)
    for one in charges:
        own = [_key(one, account, today) for account in one.accounts]
        if one.checked:
            now = [uses[key] for key in own]
            one.refused = exhausted_budget(one.accounts, now, spends=one.spends, now=tx.now)
        if one.refused is None:
            uses |= {key: uses[key].plus(one.use) for key in own}
    for key, use in uses.items():
        if use != before[key]:
            ws, span, owner_id, day = key
            tx.run(_q.put, ws=ws, span=span, owner_id=owner_id, day=day, **use._asdict())


def _key(charged: Charge, account: Account, today: int) -> _Key:
    day = today if account.span == "day" else 0
    return charged.workspace_id, account.span, account.owner_id, day


def _locked(tx: Tx, key: _Key) -> Use:
    ws, span, owner_id, day = key
    row = tx.one(_q.take, ws=ws, span=span, owner_id=owner_id, day=day, now=tx.now)
    if row is None:
        raise RuntimeError("an insert with RETURNING gave no row")
    return Use(row["calls"], row["tokens"], row["cost"])
