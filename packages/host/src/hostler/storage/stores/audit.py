"""Audit facts: who did what to which target, append-only and hash-chained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import hash_chain
from hostler.storage.stores.filters import NEWEST
from hostler_protocol.ids import canonical_json, new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_objects = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class AuditFact:
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


def _fact(row: Row) -> AuditFact:
    return from_row(row, AuditFact, body=_objects.decode(row["body"]))
