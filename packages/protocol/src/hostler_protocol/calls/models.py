"""Calls of models."""

from __future__ import annotations

from typing import Any

from hostler_protocol._base import Sparse, Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.content import Content, FunctionSpec, ModelMessage, Usage
from hostler_protocol.limits import Count


class ModelParams(CallParams):
    """`model.invoke` and `model.stream`. `extra_args` go to the model service as they are."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []
    extra_args: dict[str, Any] = {}


class ModelReply(Strict):
    """A whole answer of a model. `finish_reason` in the words of chat completion services."""

    message: ModelMessage
    finish_reason: str
    usage: Usage | None = None


class ToolCallDelta(Sparse):
    """A piece of a tool call that a model is writing."""

    index: Count
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ModelDelta(Sparse):
    """What one chunk adds."""

    content: Content | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ModelChunk(Sparse):
    """One chunk of `model.stream`."""

    delta: ModelDelta


class RerankParams(CallParams):
    """`model.rerank`: order `documents` (at most 64) by how well they answer `query`."""

    model_id: str
    query: str
    documents: list[str]
    top_k: Count | None = None


class RerankItem(Strict):
    """`index` into the documents, and a score that rises with relevance."""

    index: Count
    score: float


class RerankReply(Strict):
    """Best first."""

    items: list[RerankItem]


class CountTokensParams(CallParams):
    """`model.count_tokens`."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []


class CountTokensReply(Strict):
    """How many tokens the messages and tools take."""

    input_tokens: Count
