"""Connections of channels: the host that holds each, how it stands, and the state that its plugin keeps.

A host holds a connection under a lease. Each statement of the holder names its token, so that one that has
lost the connection, and does not know it yet, changes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.channels import MAX_CHANNELS
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.nul import without_nul
from hostler_protocol.channels import ChannelAbilities, ChannelHealth, Person
from hostler_protocol.errors import NotFoundError, PayloadTooLargeError

MAX_STATE_BYTES = 64 * 1024
MAX_REASON_CHARS = 500
_q = load(__file__)


class Connection(Record, kw_only=True):
    """A stored connection. Times are UTC epoch milliseconds.

    `host_id` holds it until `lease_until`. `received`, `ignored`: events that were let in and left out.
    """

    workspace_id: str
    channel: str
    host_id: str
    lease_until: int
    health: ChannelHealth
    reason: str
    account: Person | None
    state: Any
    opened_at: int | None
    last_event_at: int | None
    received: int
    ignored: int
    restarts: int
    abilities: ChannelAbilities
    """Of the plugin that opened it last."""


class Hold(Record):
    """The right of one host to a connection."""

    workspace_id: str
    channel: str
    token: str

    @property
    def names(self) -> dict[str, str]:
        """The parameters that name it."""
        return {"workspace_id": self.workspace_id, "channel": self.channel, "token": self.token}


def acquire(tx: Tx, hold: Hold, host_id: str, lease_ms: int, *, alone: bool) -> Connection | None:
    """Take a connection that nobody holds, and return it; None if another host has it.

    `alone`: there is no other host, so that whoever is noted as its holder is gone.
    """
    until, ends = tx.now + lease_ms, NEWEST if alone else tx.now
    if not tx.run(_q.acquire, **hold.names, host_id=host_id, lease_until=until, now=ends):
        return None
    return find(tx, hold.workspace_id, hold.channel)


def renew(tx: Tx, hold: Hold, lease_ms: int) -> Connection | None:
    """Prolong the lease and return the connection; None: another host holds it."""
    if not tx.run(_q.renew, **hold.names, lease_until=tx.now + lease_ms):
        return None
    return find(tx, hold.workspace_id, hold.channel)


def release(tx: Tx, hold: Hold) -> None:
    """Let go of a connection, so that another host need not wait."""
    tx.run(_q.release, **hold.names)


def set_health(
    tx: Tx, hold: Hold, health: ChannelHealth, reason: str = "", account: Person | None = None
) -> bool:
    """Record how the connection stands. An account that is None stays as it is known."""
    return (
        tx.run(
            _q.set_health,
            **hold.names,
            health=health,
            reason=without_nul(reason)[:MAX_REASON_CHARS],
            account_id=None if account is None else without_nul(account.person_id),
            account_name=None if account is None else without_nul(account.name),
        )
        == 1
    )


def set_opened(tx: Tx, hold: Hold, abilities: ChannelAbilities) -> bool:
    """Record that the plugin has taken the connection up, and what it can do."""
    encoded = msgspec.json.encode(abilities).decode()
    return tx.run(_q.set_opened, **hold.names, abilities=encoded, now=tx.now) == 1


def set_state(tx: Tx, hold: Hold, state: Any) -> bool:
    """Keep the plugin's state. False: another host holds the connection. PayloadTooLargeError."""
    encoded = msgspec.json.encode(without_nul(state))
    if len(encoded) > MAX_STATE_BYTES:
        raise PayloadTooLargeError(
            f"state has {len(encoded):,} bytes as JSON; at most {MAX_STATE_BYTES:,} are kept",
            limit_bytes=MAX_STATE_BYTES,
        )
    return tx.run(_q.set_state, **hold.names, state=encoded.decode()) == 1


def count(tx: Tx, hold: Hold, *, received: int = 0, ignored: int = 0) -> None:
    """Count events of now."""
    tx.run(_q.count, **hold.names, received=received, ignored=ignored, now=tx.now)


def request_restart(tx: Tx, workspace_id: str, channel: str) -> Connection:
    """Have whoever holds a connection close it and open it again. NotFoundError: it was never open."""
    if not tx.run(_q.request_restart, workspace_id=workspace_id, channel=channel):
        raise NotFoundError(f"channel {channel!r} was never connected: is it enabled, and its host running?")
    found = find(tx, workspace_id, channel)
    assert found is not None
    return found


def find(tx: Tx, workspace_id: str, channel: str) -> Connection | None:
    """Return a connection, or None if it was never open."""
    row = tx.one(_q.find, workspace_id=workspace_id, channel=channel)
    return None if row is None else _connection(row)


def page(tx: Tx, workspace_id: str) -> list[Connection]:
    """Return all connections, by name of the channel."""
    rows = tx.all(_q.page, workspace_id=workspace_id, limit=2 * MAX_CHANNELS)
    return [_connection(row) for row in rows]


def forget(tx: Tx, workspace_id: str, channel: str, *, alone: bool) -> bool:
    """Forget a connection that nobody holds; return whether there was one. `alone`: as with `acquire`."""
    ends = NEWEST if alone else tx.now
    return tx.run(_q.forget, workspace_id=workspace_id, channel=channel, now=ends) == 1


def abilities_of(encoded: str | None) -> ChannelAbilities:
    """Return what is stored; what another version knows, and this one does not, is nothing it can do."""
    try:
        return msgspec.json.decode(encoded or "{}", type=ChannelAbilities)
    except msgspec.ValidationError:
        return ChannelAbilities()


def _connection(row: Row) -> Connection:
    account = row["account_id"]
    return from_row(
        row,
        Connection,
        account=None if account is None else Person(person_id=account, name=row["account_name"], is_bot=True),
        state=None if row["state"] is None else msgspec.json.decode(row["state"]),
        abilities=abilities_of(row["abilities"]),
    )
