"""Verification of the event log and the audit log: each hash chain from its first row on.

The end of each chain is also compared with references to it: ends that were noted elsewhere (`Noted`),
receipts and accounts in the audit chain, runs and steers that refer to an event.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import msgspec

from hostler.domain.audit_anchors import ChainEnd
from hostler.domain.record import Record
from hostler.domain.seq_set import SeqSet
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores.hash_chain import Chain, ChainPoint
from hostler_protocol._base import Lenient, Strict

_q = load(__file__)
_NOTED_AT_ONCE = 500
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


class Noted(Record):
    """The end of a chain as it was noted elsewhere: in `origin`, for messages."""

    end: ChainEnd
    origin: str


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


async def verify_all(
    database: Database, noted: Iterable[Noted] = (), *, workspace: str | None = None
) -> list[ChainReport]:
    """Verify the chains of all workspaces, and that they hold the rows in `noted`; event chains first.

    `workspace`: only of this one; `noted` is to hold no others then.

    Works while hosts write, if `noted` was read before the call.
    """
    reports: dict[tuple[str, str], ChainReport] = {}
    if workspace is not None:
        for report in await _verify_workspace(database, workspace):
            reports[report.workspace, report.chain] = report
    after = None if workspace is not None else await database.read(partial(chain.next_workspace, after=""))
    while after is not None:
        for report in await _verify_workspace(database, after):
            reports[report.workspace, report.chain] = report
        after = await database.read(partial(chain.next_workspace, after=after))
    async for one, why in _not_as_noted(database, noted):
        key = (one.workspace, one.chain)
        known = reports.get(key) or ChainReport(
            workspace=one.workspace, chain=one.chain, checked=0, deleted=0, seq=0, head="", broken=None
        )
        if known.broken is None:
            reports[key] = msgspec.structs.replace(known, broken=_located(one.seq, why))
    return sorted(reports.values(), key=lambda report: (report.chain == "audit", report.workspace))


async def _not_as_noted(database: Database, noted: Iterable[Noted]) -> AsyncIterator[tuple[ChainEnd, str]]:
    """Yield the noted ends whose chains do not hold them, and why. Many are compared at once."""
    rest = iter(noted)
    while page := list(islice(rest, _NOTED_AT_ONCE)):
        for one, why in await database.read(partial(_differing, page=page)):
            yield one, why


def _differing(tx: Tx, page: Sequence[Noted]) -> list[tuple[ChainEnd, str]]:
    found: list[tuple[ChainEnd, str]] = []
    for one in page:
        end = one.end
        held = chain.digest_at(tx, end.workspace, end.chain, end.seq) if end.seq else end.head
        if held is None:
            found.append((end, f"it is missing, and was noted in {one.origin}: the log was cut off"))
        elif held != end.head:
            text = f"its digest differs from the one noted in {one.origin}"
            found.append((end, f"{text}: the log was rewritten at this row or before it"))
    return found


async def _verify_workspace(database: Database, ws: str) -> list[ChainReport]:
    length = await database.read(partial(_length, ws=ws))
    seen, facts = _Events(SeqSet(length)), _Facts(SeqSet(length))
    events = await _walk(database, ws, "events", seen.see)
    # after the events, since an event is accounted for before it is emptied
    audit = await _walk(database, ws, "audit", facts.see)
    if events.broken is None:
        why = await database.read(lambda tx: _wrong_references(tx, ws, seen, facts))
        events = msgspec.structs.replace(events, broken=why)
    return [report for report in (events, audit) if report.broken or report.seq]


def _length(tx: Tx, ws: str) -> int:
    row = tx.one(_q.last_event, ws=ws)
    return 0 if row is None or row["seq"] is None else int(row["seq"])


async def _walk(database: Database, ws: str, kind: Chain, see: Callable[[Row], None]) -> ChainReport:
    """Walk along one chain to its end."""
    checked = deleted = 0
    link: ChainPoint | None = None
    while True:
        step = await database.read(partial(chain.verify, workspace_id=ws, chain=kind, after=link, seen=see))
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
