"""What was used, reserved and added to budgets: one row per account, and per day for those that begin anew.

Several hosts change the same rows. Each transaction does all its work on them at its end: first it takes the
reservations that it settles, then it locks the row of each account once, in order. So budgets are exact
whichever host makes the calls, and hosts wait for each other instead of deadlocking.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from hostler.domain.budgets import (
    MILLISECONDS_PER_DAY,
    NOTHING,
    Account,
    AccountKey,
    Span,
    Use,
    key_of,
)
from hostler.domain.reservations import Balance, BudgetExhausted, Busy, Granted, Need, reserve, time_slice
from hostler.domain.top_ups import TopUp
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit
from hostler.storage.stores.erasure import STEP_ROWS

_q = load(__file__)
_AT_END = ("budgets",)
_MAX_OF_RUN = 1_000
"""Reservations of one run that are settled at once; the sweep settles what is left."""
_keys = msgspec.json.Decoder(list[tuple[str, str, int]])


class NewReservation(NamedTuple):
    """A call of a model that is about to be made. `again`: it may have been stored already."""

    reservation_id: str
    run_id: str
    attempt: int
    method: str
    again: bool = False


@dataclass(slots=True)
class Charge:
    """One call. `outcome` is set when the transaction is committed; refused, it is counted nowhere."""

    workspace_id: str
    accounts: Sequence[Account]
    need: Need
    reservation: NewReservation | None = None
    may_wait: bool = False
    outcome: Granted | Busy | BudgetExhausted = field(default_factory=lambda: Granted(0, NOTHING))


@dataclass(slots=True)
class TimeCharge:
    """Milliseconds that a run will be worked on, at most `wanted`. `keys`: the accounts that they are of."""

    workspace_id: str
    accounts: Sequence[Account]
    wanted: int
    outcome: int | BudgetExhausted = 0
    keys: Sequence[AccountKey] = ()


class TimeBack(NamedTuple):
    """Milliseconds that were charged and not needed; below 0: that were needed and not charged."""

    keys: Sequence[AccountKey]
    milliseconds: int


class Settlement(NamedTuple):
    """A reservation whose call is over. `used` None: nobody knows, so all that was reserved is used."""

    workspace_id: str
    reservation_id: str
    used: Use | None


class RunSettlement(NamedTuple):
    """All reservations of a run whose attempt is over: nobody knows what their calls used."""

    workspace_id: str
    run_id: str


_Work = Charge | TimeCharge | TimeBack | Settlement | RunSettlement | TopUp


# -- charging -------------------------------------------------------------------------------------------


def charge(tx: Tx, charged: Charge) -> Charge:
    """Charge all accounts or, if refused, none. Decided at the end of the transaction."""
    _at_end(tx, charged)
    return charged


def charge_time(tx: Tx, charged: TimeCharge) -> TimeCharge:
    """Charge time to all accounts, as much as each of them has. Decided at the end of the transaction."""
    _at_end(tx, charged)
    return charged


def give_time_back(tx: Tx, back: TimeBack) -> None:
    """Correct what was charged as time."""
    _at_end(tx, back)


def settle(tx: Tx, settlement: Settlement) -> None:
    """Replace a reservation by what was used. One that was settled before stays as it is."""
    _at_end(tx, settlement)


def settle_run(tx: Tx, workspace_id: str, run_id: str) -> None:
    """Settle all reservations of a run whose attempt is over: their calls may have used all of it.

    Among them is one that is made in this very transaction, before the attempt is over.
    """
    _at_end(tx, RunSettlement(workspace_id, run_id))


def top_up(tx: Tx, added: TopUp) -> None:
    """Add to an account. A top-up of the same id is added once. The audit log says who did it."""
    key = added.key
    stored = tx.run(
        _q.top_up,
        ws=key.workspace_id,
        top_up_id=added.top_up_id,
        **key_columns(key),
        amounts=msgspec.json.encode(added.amounts).decode(),
        subject=added.subject,
        key_id=added.key_id,
        comment=added.comment,
        run_id=added.run_id,
        pause_id=added.pause_id,
        now=tx.now,
    )
    if not stored:
        return
    body = {"added": added.amounts.amounts(), "comment": added.comment, "run_id": added.run_id}
    known = {name: value for name, value in body.items() if value is not None}
    audit.record(tx, key.workspace_id, added.subject, "budget.topped_up", key.account_id, known)
    _at_end(tx, added)


def _at_end(tx: Tx, item: _Work) -> None:
    tx.at_end(_AT_END, _settle, item)


class _State:
    """An account while a transaction works on it."""

    def __init__(self, row: Row) -> None:
        self.before = self.balance = balance_of(row)
        self.limits = row["limits"]
        self.account: Account | None = None
        self.added: TopUp | None = None


def _settle(tx: Tx, items: list[_Work]) -> None:
    """Do all the work of a transaction on budgets."""
    today = tx.now // MILLISECONDS_PER_DAY
    released = _released(tx, items)
    keys = {key for one in released for key in one.keys}
    for item in items:
        keys.update(_keys_of(item, today))
    work = _AccountWork(tx, {key: _State(_locked(tx, key)) for key in sorted(keys)}, today)
    for one in released:
        work.release(one)
    for item in items:
        work.apply(item)
    for key, state in work.states.items():
        _store(tx, key, state)


class _Released(NamedTuple):
    """A reservation that is settled. `used` None: not known."""

    reserved: Use
    used: Use | None
    keys: Sequence[AccountKey]


def _released(tx: Tx, items: Iterable[_Work]) -> list[_Released]:
    """Take the stored reservations that a transaction settles, in the order of their ids."""
    wanted: dict[tuple[str, str], Use | None] = {}
    for item in items:
        if isinstance(item, RunSettlement):
            ws = item.workspace_id
            for row in tx.all(_q.of_run, ws=ws, run_id=item.run_id, limit=_MAX_OF_RUN):
                wanted.setdefault((ws, row["reservation_id"]), None)
        elif isinstance(item, Settlement):
            place = (item.workspace_id, item.reservation_id)
            if wanted.get(place) is None:  # what is known of a call goes before what its end supposes
                wanted[place] = item.used
    found = []
    for (ws, reservation_id), used in sorted(wanted.items(), key=itemgetter(0)):
        taken = tx.one(_q.release, ws=ws, reservation_id=reservation_id)
        if taken is not None:
            reserved = Use(tokens=taken["tokens"], cost=taken["cost"])
            found.append(_Released(reserved, used, _accounts(ws, taken["accounts"])))
    return found


def _accounts(workspace_id: str, text: str) -> list[AccountKey]:
    return [AccountKey(workspace_id, span_of(span), owner, day) for span, owner, day in _keys.decode(text)]


def span_of(text: Any) -> Span:
    """Read a stored span."""
    span: Span = text
    return span


def _keys_of(item: _Work, today: int) -> Sequence[AccountKey]:
    match item:
        case Charge() | TimeCharge():
            return [key_of(item.workspace_id, account, today) for account in item.accounts]
        case TimeBack():
            return item.keys
        case TopUp():
            return [item.key]
        case Settlement() | RunSettlement():
            return ()


class _Made(NamedTuple):
    """A reservation that is made in this transaction."""

    workspace_id: str
    new: NewReservation
    reserved: Use
    keys: Sequence[AccountKey]


@dataclass(slots=True)
class _AccountWork:
    """The accounts that a transaction works on, all of them locked."""

    tx: Tx
    states: dict[AccountKey, _State]
    today: int
    made: list[_Made] = field(default_factory=list)

    def apply(self, item: _Work) -> None:
        """Do one piece of work. Stored reservations are released before."""
        match item:
            case Charge():
                self._charge(item)
            case TimeCharge():
                self._charge_time(item)
            case TimeBack():
                for key in item.keys:
                    used = self.states[key].balance.used
                    less = max(used.seconds - item.milliseconds, 0)
                    self._change(key, used=used._replace(seconds=less))
            case TopUp():
                self._change(item.key, added=self.states[item.key].balance.added.plus(item.amounts))
                self.states[item.key].added = item
            case Settlement():
                made = [one for one in self.made if one.new.reservation_id == item.reservation_id]
                self._settle_made(made, item.used)
            case RunSettlement():
                self._settle_made([one for one in self.made if one.new.run_id == item.run_id], None)

    def release(self, one: _Released) -> None:
        """Replace what was reserved by what was used."""
        for key in one.keys:
            balance = self.states[key].balance
            used = balance.used.plus(one.reserved if one.used is None else one.used)
            self._change(key, reserved=balance.reserved.minus(one.reserved), used=used)

    def _settle_made(self, made: list[_Made], used: Use | None) -> None:
        for one in made:
            self.made.remove(one)
            self.tx.one(_q.release, ws=one.workspace_id, reservation_id=one.new.reservation_id)
            self.release(_Released(one.reserved, used, one.keys))

    def _change(self, key: AccountKey, **changes: Use) -> None:
        self.states[key].balance = self.states[key].balance._replace(**changes)

    def _balances(self, keys: Sequence[AccountKey], accounts: Sequence[Account]) -> list[Balance]:
        for key, account in zip(keys, accounts, strict=True):
            self.states[key].account = account
        return [self.states[key].balance for key in keys]

    def _charge(self, item: Charge) -> None:
        ws, new, tx = item.workspace_id, item.reservation, self.tx
        if new is not None and new.again:
            stored = tx.one(_q.reserved, ws=ws, reservation_id=new.reservation_id)
            if stored is not None:
                item.outcome = Granted(stored["output"], item.need.reserved(stored["output"]))
                return
        keys = [key_of(ws, account, self.today) for account in item.accounts]
        balances = self._balances(keys, item.accounts)
        granted = reserve(item.accounts, balances, item.need, now=tx.now, may_wait=item.may_wait)
        item.outcome = granted
        if not isinstance(granted, Granted):
            return
        for key, balance in zip(keys, balances, strict=True):
            reserved = balance.reserved.plus(granted.reserved)
            self._change(key, used=balance.used.plus(item.need.counted), reserved=reserved)
        if new is not None:
            self.made.append(_Made(ws, new, granted.reserved, keys))
            tx.run(
                _q.reserve,
                ws=ws,
                reservation_id=new.reservation_id,
                run_id=new.run_id,
                attempt=new.attempt,
                method=new.method,
                accounts=msgspec.json.encode([key[1:] for key in keys]).decode(),
                tokens=granted.reserved.tokens,
                cost=granted.reserved.cost,
                output=granted.output,
                now=tx.now,
            )

    def _charge_time(self, item: TimeCharge) -> None:
        item.keys = keys = [key_of(item.workspace_id, account, self.today) for account in item.accounts]
        balances = self._balances(keys, item.accounts)
        item.outcome = granted = time_slice(item.accounts, balances, item.wanted, now=self.tx.now)
        if isinstance(granted, BudgetExhausted):
            return
        for key, balance in zip(keys, balances, strict=True):
            self._change(key, used=balance.used.plus(Use(seconds=granted)))


def _locked(tx: Tx, key: AccountKey) -> Row:
    row = tx.one(_q.take, ws=key.workspace_id, **key_columns(key), now=tx.now)
    if row is None:
        raise RuntimeError("an insert with RETURNING gave no row")
    return row


def _store(tx: Tx, key: AccountKey, state: _State) -> None:
    ws, named, balance = key.workspace_id, key_columns(key), state.balance
    if (balance.used, balance.reserved) != (state.before.used, state.before.reserved):
        reserved = {"reserved_tokens": balance.reserved.tokens, "reserved_cost": balance.reserved.cost}
        tx.run(_q.put, ws=ws, **named, **balance.used._asdict(), **reserved)
    if state.added is not None:
        tx.run(_q.add, ws=ws, **named, **balance.added._asdict(), subject=state.added.subject)
    if state.account is not None:
        limits = msgspec.json.encode(state.account.limits).decode()
        if limits != state.limits:
            names = state.account.names
            tx.run(
                _q.describe,
                ws=ws,
                **named,
                limits=limits,
                agent_name=names.agent,
                conversation_id=names.conversation_id,
                person=names.person,
            )


def key_columns(key: AccountKey) -> dict[str, Any]:
    """Return the columns of an account's key, without the workspace."""
    return {"span": key.span, "owner_id": key.owner_id, "day": key.day}


def balance_of(row: Row) -> Balance:
    """Read the state of an account from its row."""
    return Balance(
        Use(row["calls"], row["tokens"], row["cost"], row["tool_calls"], row["seconds"]),
        Use(tokens=row["reserved_tokens"], cost=row["reserved_cost"]),
        Use(
            row["added_calls"],
            row["added_tokens"],
            row["added_cost"],
            row["added_tool_calls"],
            row["added_seconds"],
        ),
    )


def settle_left_behind(tx: Tx, workspace_id: str) -> int:
    """Settle a step of reservations whose attempt is over; return their number. Call it until that is 0."""
    rows = tx.all(_q.left_behind, ws=workspace_id, limit=STEP_ROWS)
    for row in rows:
        settle(tx, Settlement(workspace_id, row["reservation_id"], None))
    return len(rows)
