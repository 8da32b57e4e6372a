"""Accounts of emptied events: which rows of the event log lost their content, and who demanded it.

An account is an audit fact, written in the transaction that empties the rows or in an earlier one. A row
without content that no account covers was not emptied by a host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from hostler.domain.seq_set import in_steps, ranges_of
from hostler.storage.port import Database, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, installation
from hostler.storage.stores import hash_chain as chain
from hostler_protocol._base import Lenient

_q = load(__file__)

ACTION = "events.emptied"
MAX_ACCOUNT_SEQS = 10_000
"""Rows of one account: if no two are consecutive, it takes some 200 kB."""
UNACCOUNTED = "unaccounted"
"""A key of the installation: an older version emptied events of this database without accounts."""


class _Account(Lenient):
    """The body of an account: ranges of sequences, both ends included."""

    events: list[tuple[int, int]]


_accounts = msgspec.json.Decoder(_Account)


def account(tx: Tx, ws: str, seqs: Sequence[int], *, by: str, target: str) -> None:
    """Account for events that are emptied in this transaction or later. `target`: the reason.

    The account notes the end of the event chain as well.
    """
    end = chain.head(tx, ws, "events")
    for part in in_steps(sorted(set(seqs)), MAX_ACCOUNT_SEQS):
        body = {"events": ranges_of(part), "chain_seq": end.seq, "chain_digest": end.digest}
        audit.record(tx, ws, by, ACTION, target, body)


def ranges_in(fact: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of sequences that an audit fact accounts for; none if it is no account."""
    if fact["action"] == ACTION:
        with contextlib.suppress(msgspec.DecodeError):
            yield from _accounts.decode(fact["body"]).events


def is_unaccounted(tx: Tx) -> bool:
    """Whether an older version emptied events and no host has accounted for them yet."""
    return installation.find(tx, UNACCOUNTED) is not None


async def take_over(database: Database) -> int:
    """Account, once, for events that an older version emptied; return their number.

    An interrupted call leaves the rest to the next one.
    """
    if not await database.read(is_unaccounted):
        return 0
    taken = 0
    ws = await database.read(partial(chain.next_workspace, after=""))
    while ws is not None:
        taken += await _take_over(database, ws)
        ws = await database.read(partial(chain.next_workspace, after=ws))
    await database.write(lambda tx: installation.remove(tx, UNACCOUNTED))
    return taken


async def _take_over(database: Database, ws: str) -> int:
    taken = after = 0

    def step(tx: Tx) -> list[int]:
        rows = tx.all(_q.emptied_after, ws=ws, after=after, limit=MAX_ACCOUNT_SEQS)
        seqs = [int(row["seq"]) for row in rows]
        if seqs:
            account(tx, ws, seqs, by="host", target="before accounts")
        return seqs

    while seqs := await database.write(step):
        after = seqs[-1]
        taken += len(seqs)
    return taken
