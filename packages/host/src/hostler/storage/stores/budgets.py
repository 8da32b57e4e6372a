"""What runs and agents have used of their budgets: one row per run, and per agent and day.

Several hosts change the same rows. All work of one transaction on them is done at its end, each row taken
once and in order, so calls are let through exactly as far as the budgets go, whichever host makes them.
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
"""How long a row stays that nothing is counted in; a run keeps its row for as long as it lasts."""


@dataclass(slots=True)
class Charge:
    """One call, or what one used. `refused` is known once the transaction is committed.

    `checked`: it is refused where an account is used up, and then counts nowhere. `spends`: it costs tokens
    or money.
    """

    workspace_id: str
    accounts: Sequence[Account]
    use: Use
    checked: bool = False
    spends: bool = False
    refused: BudgetExhausted | None = None


_Key = tuple[str, str, str, int]


def charge(tx: Tx, charged: Charge) -> Charge:
    """Count a call or its use on all its accounts, or on none. Decided at the end of the transaction."""
    tx.at_end(_AT_END, _settle, charged)
    return charged


def sweep(tx: Tx, workspace_id: str) -> int:
    """Remove rows that nothing is counted in any more; how many. Call it until it removes none."""
    return tx.run(_q.sweep, ws=workspace_id, before=tx.now - KEPT_MILLISECONDS, limit=STEP_ROWS)


def _settle(tx: Tx, charges: list[Charge]) -> None:
    today = tx.now // MILLISECONDS_PER_DAY
    keys = sorted({_key(one, account, today) for one in charges for account in one.accounts})
    found = {key: _taken(tx, key) for key in keys}
    uses = dict(found)
    for one in charges:
        own = [_key(one, account, today) for account in one.accounts]
        if one.checked:
            now = [uses[key] for key in own]
            one.refused = exhausted_budget(one.accounts, now, spends=one.spends, now=tx.now)
        if one.refused is None:
            uses |= {key: uses[key].plus(one.use) for key in own}
    for key, use in uses.items():
        if use != found[key]:
            ws, span, owner_id, day = key
            tx.run(_q.put, ws=ws, span=span, owner_id=owner_id, day=day, **use._asdict())


def _key(charged: Charge, account: Account, today: int) -> _Key:
    day = today if account.span == "day" else 0
    return charged.workspace_id, account.span, account.owner_id, day


def _taken(tx: Tx, key: _Key) -> Use:
    ws, span, owner_id, day = key
    row = tx.one(_q.take, ws=ws, span=span, owner_id=owner_id, day=day, now=tx.now)
    if row is None:
        raise RuntimeError("an insert with RETURNING gave no row")
    return Use(row["calls"], row["tokens"], row["cost"])
