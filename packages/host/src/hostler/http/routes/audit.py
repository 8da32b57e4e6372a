"""The audit log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hostler.domain.same_fields import with_fields_of
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.storage.port import Tx
from hostler.storage.stores import audit, members
from hostler.storage.stores.audit import AuditFact
from hostler_protocol._base import Strict


class AuditRecord(Strict):
    """One entry: `actor` performed `action` (a dotted name) on `target`.

    `actor_name`: how a person who signed in is called; null for others.
    """

    audit_id: str
    seq: int
    at: float
    actor: str
    actor_name: str | None
    action: str
    target: str
    body: dict[str, Any]


@endpoint("GET", "/v1/audit", right="audit:read", tag="audit")
async def list_audit(request: ApiRequest, query: PageQuery) -> Listing[AuditRecord]:
    """List the entries of the audit log, newest first."""
    cursors = list_cursors(request.state.host.cursors, "audit", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)

    def read(tx: Tx) -> tuple[list[AuditFact], dict[str, str]]:
        facts = audit.page(tx, request.workspace_id, before_seq=before, limit=query.size + 1)
        return facts, members.names(tx, request.workspace_id, [fact.actor for fact in facts])

    rows, names = await request.state.host.db.read(read)
    return listing(rows, query.size, partial(_record, names), lambda fact: fact.seq, cursors)


def _record(names: Mapping[str, str], fact: AuditFact) -> AuditRecord:
    return with_fields_of(fact, AuditRecord, at=fact.created_at / 1000, actor_name=names.get(fact.actor))
