"""Requests of platforms on their way to the host that has the channel, and their answers on the way back.

A row is there while its request is under way. It is for one host, which takes it once; the host that sent it
deletes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.channel_connections import abilities_of
from hostler.storage.stores.erasure import STEP_ROWS
from hostler_protocol._base import Lenient
from hostler_protocol.channels import ChannelAbilities, ChannelRequestParams, ChannelResponse
from hostler_protocol.ids import canonical_json

OLD_MS = 5_000
"""After its time a request is there for so long at most: whoever sent it is gone."""
_q = load(__file__)


class Owner(Record):
    """The host that has a channel. `token`: of its lease, another one for each connection that it opens."""

    host_id: str
    token: str
    abilities: ChannelAbilities


class ForwardedAnswer(Lenient):
    """What became of a request at the host that it was for.

    `wrong`: the plugin's answer is none that a platform gets. `failed`: it gave none. `closed`: the channel
    is not open there, and no plugin was asked. `reason` is for the log.
    """

    outcome: Literal["answered", "wrong", "failed", "closed"]
    response: ChannelResponse | None = None
    reason: str = ""


class TakenRequest(Record):
    """A request that this host has taken, and is to answer within `left_ms`."""

    request_id: str
    channel: str
    request: ChannelRequestParams
    left_ms: int


class ForwardedState(Record):
    """Where a request is. `owner`: who has its channel now."""

    request_id: str
    taken: bool
    answer: ForwardedAnswer | None
    owner: Owner | None


_requests = msgspec.json.Decoder(ChannelRequestParams)
_answers = msgspec.json.Decoder(ForwardedAnswer)


def owner_of(tx: Tx, workspace_id: str, channel: str) -> Owner | None:
    """Return the host that has a channel now, or None."""
    row = tx.one(_q.owner, workspace_id=workspace_id, channel=channel, now=tx.now)
    return None if row is None else _owner(row)


def send(  # noqa: PLR0917
    tx: Tx, workspace_id: str, request_id: str, to_host: str, request: ChannelRequestParams, within_ms: int
) -> None:
    """Send a request to a host, which is to answer it within `within_ms`."""
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        request_id=request_id,
        channel=request.channel_id,
        to_host=to_host,
        request=msgspec.json.encode(request).decode(),
        expires_at=tx.now + within_ms,
    )


def is_sent_to(tx: Tx, workspace_id: str, host_id: str) -> bool:
    """Whether a request waits for a host."""
    return bool(tx.all(_q.untaken, workspace_id=workspace_id, host_id=host_id, now=tx.now, limit=1))


def take(
    tx: Tx, workspace_id: str, host_id: str, open_channels: Collection[str], limit: int
) -> list[TakenRequest]:
    """Take what was sent to a host for channels that it has, and has open; answer the rest with `closed`."""
    found, host = [], {"workspace_id": workspace_id, "host_id": host_id, "now": tx.now}
    for row in tx.all(_q.untaken, **host, limit=limit):
        request_id, channel = row["request_id"], row["channel"]
        if not tx.run(_q.take, **host, request_id=request_id):
            continue
        if row["holder"] is None or channel not in open_channels:
            _set_answer(tx, workspace_id, host_id, request_id, channel, ForwardedAnswer(outcome="closed"))
        elif (taken := tx.one(_q.find, workspace_id=workspace_id, request_id=request_id)) is not None:
            request = _requests.decode(taken["request"])
            left_ms = taken["expires_at"] - tx.now
            found.append(from_row(taken, TakenRequest, request=request, left_ms=left_ms))
    return found


def answer(tx: Tx, workspace_id: str, host_id: str, taken: TakenRequest, given: ForwardedAnswer) -> bool:
    """Answer a request that this host has taken. False: nobody waits for it any more."""
    return _set_answer(tx, workspace_id, host_id, taken.request_id, taken.channel, given)


def _set_answer(  # noqa: PLR0917
    tx: Tx, workspace_id: str, host_id: str, request_id: str, channel: str, given: ForwardedAnswer
) -> bool:
    return (
        tx.run(
            _q.answer,
            workspace_id=workspace_id,
            host_id=host_id,
            request_id=request_id,
            channel=channel,
            answer=msgspec.json.encode(given).decode(),
        )
        == 1
    )


def states(tx: Tx, workspace_id: str, request_ids: Sequence[str]) -> dict[str, ForwardedState]:
    """Return where requests are, by their ids; without those that are gone."""
    ids = canonical_json(list(request_ids)).decode()
    rows = tx.all(_q.states, workspace_id=workspace_id, request_ids=ids, now=tx.now, limit=len(request_ids))
    return {row["request_id"]: _state(row) for row in rows}


def redirect(tx: Tx, workspace_id: str, request_id: str, to_host: str) -> bool:
    """Send a request that no plugin was given to another host. False: one has taken it since."""
    return tx.run(_q.redirect, workspace_id=workspace_id, request_id=request_id, to_host=to_host) == 1


def withdraw(tx: Tx, workspace_id: str, request_id: str) -> bool:
    """Delete a request that no plugin has been given. False: a host has taken it since."""
    return tx.run(_q.withdraw, workspace_id=workspace_id, request_id=request_id) == 1


def delete(tx: Tx, workspace_id: str, request_id: str) -> None:
    """Delete a request, wherever it is."""
    tx.run(_q.delete, workspace_id=workspace_id, request_id=request_id)


def has_old(tx: Tx, workspace_id: str) -> bool:
    """Whether there are requests of hosts that are gone."""
    return bool(tx.all(_q.old, workspace_id=workspace_id, before=tx.now - OLD_MS, limit=1))


def drop_old(tx: Tx, workspace_id: str) -> int:
    """Delete requests whose hosts are gone; return the number of rows, of which a step has a bound."""
    rows = tx.all(_q.old, workspace_id=workspace_id, before=tx.now - OLD_MS, limit=STEP_ROWS)
    for row in rows:
        delete(tx, workspace_id, row["request_id"])
    return len(rows)


def _state(row: Row) -> ForwardedState:
    given = row["answer"]
    return ForwardedState(
        row["request_id"],
        row["taken_at"] is not None,
        None if given is None else _answer(given),
        None if row["host_id"] is None else _owner(row),
    )


def _answer(encoded: str) -> ForwardedAnswer:
    try:
        return _answers.decode(encoded)
    except msgspec.ValidationError as error:
        return ForwardedAnswer(outcome="failed", reason=f"a host of another version answered: {error}")


def _owner(row: Row) -> Owner:
    return Owner(row["host_id"], row["token"], abilities_of(row["abilities"]))
