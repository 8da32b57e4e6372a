"""Audit facts: who did what to which target, append-only and hash-chained."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hash_chain
from hostler.storage.stores.filters import NEWEST
from hostler_protocol.ids import canonical_json, new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_WALKED = 5_000
"""Facts that one look with filters goes past, at most."""
WALK_ROWS = 500
SKEW_MS = 3_600_000
"""Facts of several hosts are not quite in the order of their clocks."""
_REFUSALS = (".refused", ".denied", ".limit", ".dropped")
Outcome: TypeAlias = Literal["done", "refused"]
_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])


class AuditFact(Record):
    """One fact. `action` is a dotted name, `target` the thing acted on; `created_at` in UTC epoch ms."""

    audit_id: str
    seq: int
    actor: str
    action: str
    target: str
    body: dict[str, Any]
    created_at: int


def record(tx: Tx, workspace_id: str, actor: str, action: str, target: str, body: dict[str, Any]) -> str:  # noqa: PLR0917
    """Append a fact and return its id. It joins the chain at the end of the transaction."""
    audit_id = new_id()
    row = {
        "audit_id": audit_id,
        "actor": actor,
        "action": action,
        "target": target,
        "body": canonical_json(body).decode(),
        "created_at": tx.now,
    }
    row_digest = tx.keyed(workspace_id, f"audit:{workspace_id}", hash_chain.body_digest("audit", row))
    tx.run(_q.insert, **row, workspace_id=workspace_id, body_digest=row_digest)
    hash_chain.append(tx, workspace_id, "audit", audit_id, row_digest)
    return audit_id


def page(
    tx: Tx, workspace_id: str, *, before_seq: int | None = None, limit: int = MAX_PAGE_ITEMS
) -> list[AuditFact]:
    """Return facts before `before_seq` (None: from the newest), newest first."""
    before = NEWEST if before_seq is None else before_seq
    return [_fact(row) for row in tx.all(_q.page, workspace_id=workspace_id, before_seq=before, limit=limit)]


class AuditFilter(Record):
    """Which facts; None: any. `action`: an action, or the part before the dot for a family of them.

    Times in [since, until), UTC epoch ms.
    """

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    outcome: Outcome | None = None
    since: int = 0
    until: int = NEWEST

    def takes(self, row: Row) -> bool:
        """Whether a fact is one of those."""
        action, at = str(row["action"]), int(row["created_at"])
        return (
            self.actor in (None, row["actor"])
            and self.target in (None, row["target"])
            and self.outcome in (None, outcome_of(action))
            and (self.action is None or action == self.action or action.startswith(f"{self.action}."))
            and self.since <= at < self.until
        )

    def walk(self) -> tuple[Query, dict[str, str]]:
        """Return the walk past the fewest facts, and its parameters."""
        if self.target is not None:
            return _q.walk_of_target, {"value": self.target}
        if self.actor is not None:
            return _q.walk_of_actor, {"value": self.actor}
        if self.action is not None and "." in self.action:
            return _q.walk_of_action, {"value": self.action}
        return _q.walk, {}


class Found(NamedTuple):
    """Facts, newest first. `before_seq`: where the next look begins; None: this was all."""

    facts: list[AuditFact]
    before_seq: int | None


def outcome_of(action: str) -> Outcome:
    """Return whether an action was done, or the host refused it."""
    return "refused" if action.endswith(_REFUSALS) else "done"


def find(tx: Tx, workspace_id: str, wanted: AuditFilter, *, before_seq: int | None, limit: int) -> Found:
    """Return up to `limit` facts that a filter takes, of the next MAX_WALKED.

    Fewer than `limit` do not mean that there are no more.
    """
    query, chosen = wanted.walk()
    first, last = _between(tx, workspace_id, wanted)
    before = min(NEWEST if before_seq is None else before_seq, last)
    seqs: list[int] = []
    for _ in range(0, MAX_WALKED, WALK_ROWS):
        rows = tx.all(
            query, **chosen, workspace_id=workspace_id, before_seq=before, from_seq=first, limit=WALK_ROWS
        )
        for row in rows:
            if wanted.takes(row):
                seqs.append(int(row["seq"]))
                if len(seqs) > limit:
                    return Found(_of_seqs(tx, workspace_id, seqs[:limit]), seqs[limit - 1])
        if len(rows) < WALK_ROWS:
            return Found(_of_seqs(tx, workspace_id, seqs), None)
        before = int(rows[-1]["seq"])
    return Found(_of_seqs(tx, workspace_id, seqs), before)


def _between(tx: Tx, workspace_id: str, wanted: AuditFilter) -> tuple[int, int]:
    """Return the sequences that facts of the time are between: the first one, and one after the last."""
    first, last = 0, NEWEST
    if wanted.since > 0:
        row = tx.one(_q.first_since, workspace_id=workspace_id, since=wanted.since - SKEW_MS)
        first = NEWEST if row is None else int(row["seq"])
    if wanted.until < NEWEST:
        row = tx.one(_q.last_until, workspace_id=workspace_id, until=wanted.until + SKEW_MS)
        last = 0 if row is None else int(row["seq"]) + 1
    return first, last


def _of_seqs(tx: Tx, workspace_id: str, seqs: list[int]) -> list[AuditFact]:
    if not seqs:
        return []
    given = canonical_json(seqs).decode()
    return [_fact(row) for row in tx.all(_q.of_seqs, workspace_id=workspace_id, seqs=given)]


def _fact(row: Row) -> AuditFact:
    return from_row(row, AuditFact, body=_objects.decode(row["body"]))
