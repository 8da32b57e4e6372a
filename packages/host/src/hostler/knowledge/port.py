"""The port of knowledge bases."""

from __future__ import annotations

from typing import Any, Protocol

from hostler_protocol.calls import RetrieveReply


class KnowledgeService(Protocol):
    """Searches the knowledge bases that a grant names. Raises HostlerErrors whose message says what to do."""

    async def retrieve(
        self,
        workspace_id: str,
        kb_id: str,
        query_text: str,
        *,
        top_k: int,
        filters: dict[str, Any] | None,
        deadline: float | None,
    ) -> RetrieveReply:
        """Passages, best first, at most `top_k`. `deadline` in UTC epoch seconds."""
        ...
