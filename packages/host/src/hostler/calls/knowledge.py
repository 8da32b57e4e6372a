"""`knowledge.*`: the knowledge bases of the run's grant."""

from __future__ import annotations

from hostler.calls.pages import capped
from hostler.calls.scope import CallScope
from hostler_protocol.calls import RetrieveParams, RetrieveReply
from hostler_protocol.errors import NotFoundError


async def retrieve(scope: CallScope, params: RetrieveParams) -> RetrieveReply:
    """`knowledge.retrieve`: passages, best first."""
    knowledge, may = scope.services.knowledge, scope.allowance
    if not may.knowledge_base(params.kb_id):
        why = may.refused("knowledge base", params.kb_id)
        raise NotFoundError(f"knowledge base {params.kb_id!r} is not asked: {why}")
    if knowledge is None:
        raise NotFoundError(f"knowledge base {params.kb_id!r} is gone since this run began")
    return await knowledge.retrieve(
        scope.workspace_id,
        params.kb_id,
        params.query_text,
        top_k=capped(params.top_k),
        filters=params.filters,
        deadline=scope.deadline_at,
    )
