"""Counters of what is stored per workspace, agent and run, and the quotas that bound them.

Each change is decided in the transaction that makes it, by the sums as they were read plus what the
transaction has changed so far. The counters are changed at its end. If another host changed one meanwhile so
that a decision does not hold any more, the transaction is rolled back and done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from hostler.domain.quotas import (
    NOTHING,
    QUANTITIES,
    Account,
    Allotment,
    Amounts,
    Changes,
    Holder,
    Level,
    QuotaExceeded,
    Quotas,
    added,
    exceeded_quota,
    room_for,
)
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.session import ContentionError
from hostler.storage.sql.statements import load

_q = load(__file__)
_AT_END = ("quotas",)
MAX_WORKSPACES = 1_000
"""Workspaces in one look at all of them."""


@dataclass(slots=True)
class _Counter:
    """One account within a transaction. `most`: what it may have held before at most, for what was stored."""

    ws: str
    account: Account
    read: Amounts | None = None
    change: Amounts = NOTHING
    most: list[int | None] = field(default_factory=lambda: [None] * len(QUANTITIES))

    def count(self, change: Amounts, bounds: Iterable[int | None]) -> None:
        """Count a change that fits within the bounds."""
        self.change = self.change.plus(change)
        for place, (more, sum_, limit) in enumerate(zip(change, self.change, bounds, strict=True)):
            if limit is not None and more > 0:
                known = self.most[place]
                self.most[place] = limit - sum_ if known is None else min(known, limit - sum_)


class Miscounted(NamedTuple):
    """An account whose counter is not the sum of what is stored."""

    account: Account
    counted: Amounts
    stored: Amounts


def take(tx: Tx, ws: str, changes: Changes, quotas: Quotas) -> QuotaExceeded | None:
    """Count what is about to be stored; return the quota that has no room for it, with nothing counted."""
    if any(more > 0 for change in changes.values() for more in change):
        exceeded = exceeded_quota(changes, _uses(tx, ws, changes), quotas)
        if exceeded is not None:
            return exceeded
    for account, change in changes.items():
        _counter(tx, ws, account).count(change, getattr(quotas, account.level))
    return None


def give_back(tx: Tx, ws: str, holder: Holder, amounts: Amounts) -> None:
    """Count what was removed."""
    for account, change in added(holder, amounts.negated()).items():
        counter = _counter(tx, ws, account)
        counter.change = counter.change.plus(change)


def check(tx: Tx, ws: str, allotment: Allotment, more: Amounts) -> QuotaExceeded | None:
    """Return the quota that has no room for more, or None. Counts nothing, and may run on a reader."""
    changes = added(allotment.holder, more)
    return exceeded_quota(changes, _uses(tx, ws, changes), allotment.bounds)


def room(tx: Tx, ws: str, allotment: Allotment) -> int | None:
    """Return how many bytes one more artifact may have; None: the quotas do not bound it."""
    accounts = added(allotment.holder, Amounts(artifacts=1))
    return room_for("artifact_bytes", accounts, _uses(tx, ws, accounts), allotment.bounds)


def of_level(
    tx: Tx, ws: str, level: Level, *, after: str = "", limit: int = 100
) -> list[tuple[str, Amounts]]:
    """Return what is stored per owner of a level, in the order of their ids."""
    rows = tx.all(_q.page, ws=ws, level=level, after=after, limit=limit)
    return [(row["owner_id"], _amounts(row)) for row in rows]


def of_accounts(tx: Tx, ws: str, accounts: Iterable[Account]) -> dict[Account, Amounts]:
    """Return what is stored, of at most one account of each level."""
    return _read(tx, ws, accounts)


def of_workspaces(tx: Tx) -> dict[str, Amounts]:
    """Return what is stored per workspace, of the first 1,000."""
    return {row["workspace_id"]: _amounts(row) for row in tx.all(_q.totals, limit=MAX_WORKSPACES)}


def recount(tx: Tx, ws: str) -> list[Miscounted]:
    """Return the accounts of a workspace whose counters are wrong. Reads all that is stored."""
    counted = {
        Account(row["level"], row["owner_id"]): _amounts(row) for row in tx.all(_q.of_workspace, ws=ws)
    }
    stored = {Account(row["level"], row["owner_id"]): _amounts(row) for row in tx.all(_q.counted, ws=ws)}
    return [
        Miscounted(account, counted.get(account, NOTHING), stored.get(account, NOTHING))
        for account in sorted(counted.keys() | stored.keys())
        if counted.get(account, NOTHING) != stored.get(account, NOTHING)
    ]


def mend(tx: Tx, ws: str) -> list[Miscounted]:
    """Set wrong counters to what is stored, and return them."""
    tx.all(_q.hold, ws=ws)  # other hosts that change them wait, and what they store is not seen yet
    found = recount(tx, ws)
    for one in found:
        _change(tx, ws, one.account, one.stored.plus(one.counted.negated()))
    return found


async def recount_all(database: Database) -> dict[str, list[Miscounted]]:
    """Return the wrong counters of each workspace that has any. Reads all that is stored."""
    found = {ws: await database.read(partial(recount, ws=ws)) for ws in await _workspaces(database)}
    return {ws: wrong for ws, wrong in found.items() if wrong}


async def mend_all(database: Database) -> int:
    """Set wrong counters to what is stored; return their number."""
    mended = 0
    for ws in await recount_all(database):
        mended += len(await database.write(partial(mend, ws=ws)))
    return mended


async def _workspaces(database: Database) -> list[str]:
    """Return all workspaces that have stored something, or are said to have."""
    names: list[str] = []
    while True:
        after = names[-1] if names else ""
        rows = await database.read(partial(_storing, after=after))
        names += rows
        if not rows:
            return names


def _storing(tx: Tx, after: str) -> list[str]:
    return [row["workspace_id"] for row in tx.all(_q.storing, after=after, limit=MAX_WORKSPACES)]


def _counter(tx: Tx, ws: str, account: Account) -> _Counter:
    def begin() -> _Counter:
        counter = _Counter(ws, account)
        tx.at_end(_AT_END, _settle, counter)
        return counter

    return tx.once((*_AT_END, ws, *account), begin)


def _uses(tx: Tx, ws: str, accounts: Iterable[Account]) -> dict[Account, Amounts]:
    """Return the sums as this transaction knows them."""
    counters = {account: _counter(tx, ws, account) for account in accounts}
    unread = [account for account, counter in counters.items() if counter.read is None]
    if unread:
        read = _read(tx, ws, unread)
        for account in unread:
            counters[account].read = read.get(account, NOTHING)
    return {account: (one.read or NOTHING).plus(one.change) for account, one in counters.items()}


def _read(tx: Tx, ws: str, accounts: Iterable[Account]) -> dict[Account, Amounts]:
    """Return the stored sums. Of two accounts of a level, as if a value changes hands, each needs a query."""
    wanted: list[dict[Level, str]] = []
    for account in accounts:
        asked = next((one for one in wanted if account.level not in one), None)
        if asked is None:
            wanted.append(asked := {})
        asked[account.level] = account.owner_id
    found: dict[Account, Amounts] = {}
    for one in wanted:
        rows = tx.all(_q.of_accounts, ws=ws, agent_id=one.get("agent", ""), run_id=one.get("run", ""))
        found |= {Account(row["level"], row["owner_id"]): _amounts(row) for row in rows}
    return found


def _settle(tx: Tx, counters: list[_Counter]) -> None:
    for counter in sorted(counters, key=lambda one: (one.ws, one.account)):
        if counter.change == NOTHING:
            continue
        now = _change(tx, counter.ws, counter.account, counter.change)
        before = now.plus(counter.change.negated())
        if any(most is not None and held > most for held, most in zip(before, counter.most, strict=True)):
            raise ContentionError(
                "another host has stored something meanwhile, and the quota has no room for both"
            )


def _change(tx: Tx, ws: str, account: Account, change: Amounts) -> Amounts:
    row = tx.one(_q.add, ws=ws, **account._asdict(), **change._asdict())
    if row is None:
        raise RuntimeError("an upsert with RETURNING gave no row")
    now = _amounts(row)
    if now == NOTHING:
        tx.run(_q.drop, ws=ws, **account._asdict())
    return now


def _amounts(row: Row) -> Amounts:
    return Amounts(*(int(row[what]) for what in QUANTITIES))
