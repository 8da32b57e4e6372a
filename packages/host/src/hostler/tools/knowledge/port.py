"""The port of knowledge bases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hostler_protocol.calls import RetrieveReply
from hostler_protocol.grants import KnowledgeBaseResource


class KnowledgeService(Protocol):
    """Searches the knowledge bases that a grant names. Raises HostlerErrors whose message says what to do."""

    def offered(self, workspace_id: str) -> Mapping[str, KnowledgeBaseResource]:
        """The knowledge bases of a workspace, by their ids; `operations` say what each can do."""
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
        """Passages, best first, at most `top_k`. `deadline` in UTC epoch seconds."""
        ...
