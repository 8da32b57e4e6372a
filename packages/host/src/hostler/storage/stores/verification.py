"""Verification of the event log and the audit log: each hash chain from its first row on.

The end of each chain is also compared with references to it: heads that were noted elsewhere (`Noted`),
receipts and accounts in the audit chain, runs and steers that refer to an event.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from hostler.domain.seq_set import SeqSet
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores.hash_chain import Chain, ChainPoint
from hostler_protocol._base import Lenient, Strict

_q = load(__file__)
_RECEIPTS = frozenset({"data.deleted", emptied.ACTION})
"""Audit facts that contain the end of the event chain at the time they were written."""
_TAKE_OVER = "; an older version emptied events here: the next start of a host accounts for those, once"

EMPTIED_FIELDS = (
    "conversation_id",
    "thread_id",
    "actor_type",
    "actor_id",
    "actor_name",
    "subject_type",
    "subject_id",
    "requester",
)
"""Columns of an event, besides body and summary, that are NULL once it is emptied (`erasure.sql`)."""


class NotedHead(Lenient):
    """The end of a chain as it was noted elsewhere, in the form that `hostler audit verify --json` prints."""

    workspace: str
    chain: Chain
    seq: int
    head: str


class ChainReport(Strict):
    """The result for one chain.

    `deleted`: rows without content. `seq` and `head`: its end. `broken`: the first fault, or None.
    """

    workspace: str
    chain: Chain
    checked: int
    deleted: int
    seq: int
    head: str
    broken: str | None


class _End(Lenient):
    """The end of the event chain in a receipt."""

    chain_seq: int = 0
    chain_digest: str = ""


_ends = msgspec.json.Decoder(_End)


@dataclass
class _Events:
    """Findings of a walk along the event chain."""

    emptied: SeqSet
    left_over: int | None = None
    """The first row without a body that has other content."""

    def see(self, event: Row) -> None:
        """Take an event into account."""
        if event["body"] is None:
            seq = int(event["seq"])
            self.emptied.add(seq, seq)
            if event["input_summary"] or any(event[name] is not None for name in EMPTIED_FIELDS):
                self.left_over = self.left_over or seq


@dataclass
class _Facts:
    """References of the audit chain to the event chain."""

    accounts: SeqSet
    ends: dict[int, str] = field(default_factory=dict)

    def see(self, fact: Row) -> None:
        """Take an audit fact into account."""
        for first, last in emptied.ranges_in(fact):
            self.accounts.add(first, last)
        if fact["action"] in _RECEIPTS:
            with contextlib.suppress(msgspec.DecodeError):  # not a receipt
                end = _ends.decode(fact["body"])
                self.ends |= {end.chain_seq: end.chain_digest} if end.chain_seq else {}


async def verify_all(database: Database, noted: Sequence[NotedHead] = ()) -> list[ChainReport]:
    """Verify the chains of all workspaces, including those in `noted`; event chains first.

    Works while hosts write, if `noted` was read before the call.
    """
    names = {one.workspace for one in noted}
    after = await database.read(partial(chain.next_workspace, after=""))
    while after is not None:
        names.add(after)
        after = await database.read(partial(chain.next_workspace, after=after))
    reports: list[ChainReport] = []
    for name in sorted(names):
        reports += await _verify_workspace(database, name, [one for one in noted if one.workspace == name])
    return sorted(reports, key=lambda report: report.chain, reverse=True)


async def _verify_workspace(database: Database, ws: str, noted: Sequence[NotedHead]) -> list[ChainReport]:
    length = await database.read(partial(_length, ws=ws))
    seen, facts = _Events(SeqSet(length)), _Facts(SeqSet(length))
    events = await _walk(database, ws, "events", _ends_of(noted, "events"), seen.see)
    # after the events, since an event is accounted for before it is emptied
    audit = await _walk(database, ws, "audit", _ends_of(noted, "audit"), facts.see)
    if events.broken is None:
        why = await database.read(lambda tx: _wrong_references(tx, ws, seen, facts))
        events = msgspec.structs.replace(events, broken=why)
    return [report for report in (events, audit) if report.broken or report.seq]


def _ends_of(noted: Sequence[NotedHead], kind: Chain) -> dict[int, str]:
    return {one.seq: one.head for one in noted if one.chain == kind and one.seq}


def _length(tx: Tx, ws: str) -> int:
    row = tx.one(_q.last_event, ws=ws)
    return 0 if row is None or row["seq"] is None else int(row["seq"])


async def _walk(
    database: Database, ws: str, kind: Chain, ends: dict[int, str], see: Callable[[Row], None]
) -> ChainReport:
    """Walk along one chain to its end."""
    checked = deleted = 0
    link: ChainPoint | None = None
    while True:
        step = await database.read(
            partial(chain.verify, workspace_id=ws, chain=kind, after=link, noted=ends, seen=see)
        )
        checked, deleted, link = checked + step.checked, deleted + step.deleted, step.link
        if step.done:
            why = None if step.broken is None else _located(step.broken.seq, step.broken.reason)
            return ChainReport(
                workspace=ws,
                chain=kind,
                checked=checked,
                deleted=deleted,
                seq=link.seq,
                head=link.digest,
                broken=why,
            )


def _wrong_references(tx: Tx, ws: str, seen: _Events, facts: _Facts) -> str | None:
    """Compare an event chain, which is valid in itself, with the references to it; return the first fault."""
    lost = [seq for seq in seen.emptied if seq not in facts.accounts]
    if lost:
        more = f" (and {len(lost) - 1:,} more rows like it)" if len(lost) > 1 else ""
        why = f"its content is missing, and no deletion accounts for it{more}"
        return _located(lost[0], why) + (_TAKE_OVER if emptied.is_unaccounted(tx) else "")
    if seen.left_over is not None:
        return _located(seen.left_over, "its body was deleted, but other content is still there")
    for seq, digest in facts.ends.items():
        if chain.digest_at(tx, ws, "events", seq) != digest:
            return _located(seq, "its digest differs from the one in the audit log")
    for query in (_q.run_without_event, _q.steer_without_event):
        row = tx.one(query, ws=ws)
        if row is not None:
            return f"run {row['run_id']} refers to event {row['event_id']!r}, which is not in the log"
    return None


def _located(seq: int | None, reason: str) -> str:
    return reason if seq is None else f"row {seq}: {reason}"
