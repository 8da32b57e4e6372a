"""Calls of tools and knowledge bases."""

from __future__ import annotations

from typing import Any

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.limits import Count


class ToolDetailParams(CallParams):
    """`tool.detail`."""

    tool_name: str


class ToolDetail(Strict):
    """Description of a tool; `parameters` is JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolCallParams(CallParams):
    """`tool.call`."""

    tool_name: str
    parameters: dict[str, Any] = {}
    tool_call_id: str | None = None


class ToolCallReply(Strict):
    """The tool's result as plain JSON."""

    result: Any


class RetrieveParams(CallParams):
    """`knowledge.retrieve`."""

    kb_id: str
    query_text: str
    top_k: Count = 5
    filters: dict[str, Any] | None = None


class KnowledgeItem(Strict):
    """A passage of a knowledge base; a higher `score` means more relevant."""

    content: str
    score: float
    metadata: dict[str, Any] = {}


class RetrieveReply(Strict):
    """The passages found, best first."""

    items: list[KnowledgeItem]
