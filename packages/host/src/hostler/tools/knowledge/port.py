"""The interface of knowledge bases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hostler_protocol.calls import RetrieveReply
from hostler_protocol.grants import KnowledgeBaseResource


class KnowledgeService(Protocol):
    """Searches the knowledge bases of a grant. Raises HostlerErrors whose message says what to do."""

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        """Return the knowledge bases of a workspace by id; `operations` lists what each can do."""
        ...

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
        """Return at most `top_k` passages, best first. `deadline` in UTC epoch seconds."""
        ...
