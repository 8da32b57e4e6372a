"""Approvals of similar calls ahead (docs/pauses.md): what is let through unasked, and an end to it.

A caller sees those that they made, those of runs that they asked for, and those that a rule names them for;
an administrator sees all. Whoever sees one and has `pauses:write` may revoke it.
"""

from __future__ import annotations

from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Listing
from hostler.pauses import similar_approvals
from hostler.pauses.similar_approvals import ApprovalRuleView


@endpoint("GET", "/v1/approval-rules", right="pauses:read", tag="pauses")
async def list_approval_rules(request: ApiRequest, query: PageQuery) -> Listing[ApprovalRuleView]:
    """List the approvals of similar calls that have uses and time left, and that the caller may see.

    One with `lapsed` lets no call through: whoever approved may not do so now.
    """
    cursors = list_cursors(request.state.host.cursors, "approval_rules", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    page = await request.state.host.db.read(
        lambda tx: similar_approvals.page(tx, request.caller, after=after, limit=query.size)
    )
    return Listing(
        items=page.items,
        next_cursor=None if page.next is None else cursors.issue(page.next),
        has_more=page.next is not None,
    )


@endpoint("DELETE", "/v1/approval-rules/{rule_id}", right="pauses:write", tag="pauses")
async def revoke_approval_rule(request: ApiRequest) -> Empty:
    """Revoke an approval of similar calls: from now on people are asked.

    So they are about a call that it let through and that was not made yet. Revoking it again changes nothing.
    """
    rule_id = request.parameters["rule_id"]
    await request.state.host.db.write(lambda tx: similar_approvals.revoke(tx, request.caller, rule_id))
    return Empty()
