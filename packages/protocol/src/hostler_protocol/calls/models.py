"""Calls of models."""

from __future__ import annotations

from typing import Any

from hostler_protocol._base import Sparse, Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.content import Content, FunctionSpec, ModelMessage, Usage
from hostler_protocol.limits import Count


class ModelParams(CallParams):
    """`model.invoke` and `model.stream`. `extra_args` are passed to the model service unchanged."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []
    extra_args: dict[str, Any] = {}


class ModelReply(Strict):
    """A model's complete answer. `finish_reason` is the service's, like `stop`, `length`, `tool_calls`."""

    message: ModelMessage
    finish_reason: str
    usage: Usage | None = None


class ToolCallDelta(Sparse):
    """A piece of a tool call that a model is generating; `index` of the call in its message, from 0."""

    index: Count
    id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ModelDelta(Sparse):
    """Text, reasoning and pieces of tool calls to append to the message."""

    content: Content | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ModelChunk(Sparse):
    """One piece of the answer to `model.stream`."""

    delta: ModelDelta


class RerankParams(CallParams):
    """`model.rerank`: order `documents` (at most 64) by how well they answer `query`."""

    model_id: str
    query: str
    documents: list[str]
    top_k: Count | None = None


class RerankItem(Strict):
    """Position of a document in the request (from 0), and its score: higher is more relevant."""

    index: Count
    score: float


class RerankReply(Strict):
    """The documents, best first."""

    items: list[RerankItem]


class EmbedParams(CallParams):
    """`model.embed`: the vectors of `inputs` (1 to 64), each a text or the tokens of one.

    `dimensions`: the length of the vectors, for models that let the caller choose it.
    """

    model_id: str
    inputs: list[str | list[Count]]
    dimensions: Count | None = None


class EmbedReply(Strict):
    """One vector per input, in the order of the inputs."""

    embeddings: list[list[float]]
    usage: Usage | None = None


class CountTokensParams(CallParams):
    """`model.count_tokens`."""

    model_id: str
    messages: list[ModelMessage]
    tools: list[FunctionSpec] = []


class CountTokensReply(Strict):
    """Number of tokens of the messages and tools."""

    input_tokens: Count
