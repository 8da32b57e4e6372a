"""The audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from hostler.domain.same_fields import with_fields_of
from hostler.host.audit_check import Verification
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Moment, PageQuery, list_cursors
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.storage.port import Tx
from hostler.storage.stores import audit, members
from hostler.storage.stores.audit import AuditFact, AuditFilter, Found, Outcome, outcome_of
from hostler.storage.stores.filters import NEWEST
from hostler_protocol._base import Strict

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]


class AuditRecord(Strict):
    """One entry: `actor` performed `action` (a dotted name) on `target`.

    `actor_name`: how a person who signed in is called; null for others. `outcome`: whether the host let it
    happen.
    """

    audit_id: str
    seq: int
    at: float
    actor: str
    actor_name: str | None
    action: str
    target: str
    outcome: Outcome
    body: dict[str, Any]


class AuditQuery(PageQuery):
    """Filters of the log. `action`: an action, or the part before its dot: `key` for all of keys.

    Times are UTC epoch seconds.
    """

    actor: Text | None = None
    action: Text | None = None
    target: Text | None = None
    outcome: Outcome | None = None
    since: Moment | None = None
    until: Moment | None = None


@endpoint("GET", "/v1/audit", right="audit:read", tag="audit")
async def list_audit(request: ApiRequest, query: AuditQuery) -> Listing[AuditRecord]:
    """List the entries of the audit log, newest first.

    With filters a page may be short although more follow: `has_more` tells.
    """
    cursors = list_cursors(request.state.host.cursors, "audit", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)
    wanted = AuditFilter(
        actor=query.actor,
        action=query.action,
        target=query.target,
        outcome=query.outcome,
        since=int((query.since or 0) * 1000),
        until=NEWEST if query.until is None else int(query.until * 1000) + 1,
    )

    def read(tx: Tx) -> tuple[Found, dict[str, str]]:
        found = audit.find(tx, request.workspace_id, wanted, before_seq=before, limit=query.size)
        return found, members.names(tx, request.workspace_id, [fact.actor for fact in found.facts])

    found, names = await request.state.host.db.read(read)
    cursor = None if found.before_seq is None else cursors.issue(found.before_seq)
    records = [_record(names, fact) for fact in found.facts]
    return Listing(items=records, next_cursor=cursor, has_more=cursor is not None)


@endpoint("GET", "/v1/audit/verification", right="admin", tag="audit")
async def verify_audit(request: ApiRequest) -> Verification:
    """Check the hash chains of the event log and the audit log, from their first row to their heads.

    A workspace's administrator gets those of the workspace, the installation's all. They are compared with
    the heads that this host noted, and with the file of `audit_anchors`. One check runs at a time: 409 while
    another does.
    """
    of = None if has_right(request.caller, "installation") else request.workspace_id
    return await request.state.host.audit_check.run(of)


def _record(names: Mapping[str, str], fact: AuditFact) -> AuditRecord:
    return with_fields_of(
        fact,
        AuditRecord,
        at=fact.created_at / 1000,
        actor_name=names.get(fact.actor),
        outcome=outcome_of(fact.action),
    )
