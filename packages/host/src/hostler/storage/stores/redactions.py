"""Accounts of emptied events: which rows of the event log lost their content, on whose word.

An account is an audit fact, in the transaction that empties the rows or one before it. A row without content
that no account covers was emptied by somebody else.
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
"""Rows of one account: with gaps between all of them it has some 200 kB."""
UNACCOUNTED = "unaccounted"
"""A key of the installation: an older version emptied events here without accounts."""


class _Account(Lenient):
    """The body of an account: ranges of sequences, ends included."""

    events: list[tuple[int, int]]


_accounts = msgspec.json.Decoder(_Account)


def account(tx: Tx, ws: str, seqs: Sequence[int], *, by: str, target: str) -> None:
    """Account for events that are emptied now, or next. `target`: what demanded it.

    The account notes the end of the event chain as well.
    """
    end = chain.head(tx, ws, "events")
    for part in in_steps(sorted(set(seqs)), MAX_ACCOUNT_SEQS):
        body = {"events": ranges_of(part), "chain_seq": end.seq, "chain_digest": end.digest}
        audit.record(tx, ws, by, ACTION, target, body)


def ranges_in(fact: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The ranges that a row of the audit chain accounts for; none where it is another fact, or no account."""
    if fact["action"] == ACTION:
        with contextlib.suppress(msgspec.DecodeError):
            yield from _accounts.decode(fact["body"]).events


def is_unaccounted(tx: Tx) -> bool:
    """Whether events were emptied before accounts were kept, and no host has taken them over yet."""
    return installation.find(tx, UNACCOUNTED) is not None


async def take_over(database: Database) -> int:
    """Account, once, for what an older version emptied; how many events. Goes on where it was interrupted."""
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
