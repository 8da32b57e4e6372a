"""A model that answers the same to the same messages, in place of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from hostler.models.port import EmbedRequest, ModelRequest, RerankRequest, TokenCount
from hostler_protocol.calls import EmbedReply, ModelChunk, ModelReply, RerankItem, RerankReply
from hostler_protocol.calls.models import ModelDelta
from hostler_protocol.content import FunctionCall, FunctionSpec, ModelMessage, ToolCall, Usage

WORD_SECONDS = 0.02
CONTEXT_WINDOW = 100_000
MAX_TOOLS = 8
"""How many of the tools that it is offered it calls."""
SAMPLES: dict[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


class ScriptedModel:
    """A ModelProvider. It calls each tool once, one after another, and then counts the messages."""

    async def invoke(self, request: ModelRequest) -> ModelReply:
        """See ModelProvider."""
        called = {call.function.name for message in request.messages for call in message.tool_calls}
        left = [tool for tool in request.tools if tool.name not in called] if len(called) < MAX_TOOLS else []
        if left:
            message = ModelMessage(role="assistant", tool_calls=[_call(left[0], len(called) + 1)])
            usage = Usage(input_tokens=10, output_tokens=10)
            return ModelReply(message=message, finish_reason="tool_calls", usage=usage)
        text = f"This is the answer to {len(request.messages)} messages."
        usage = Usage(input_tokens=10 * len(request.messages), output_tokens=len(text.split()))
        message = ModelMessage(role="assistant", content=text)
        return ModelReply(message=message, finish_reason="stop", usage=usage)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk | ModelReply]:
        """See ModelProvider."""
        reply = await self.invoke(request)
        for word in str(reply.message.content or "").split():
            await asyncio.sleep(WORD_SECONDS)
            yield ModelChunk(delta=ModelDelta(content=f"{word} "))
        yield reply

    async def rerank(self, request: RerankRequest) -> RerankReply:
        """See ModelProvider; the order stays."""
        count = len(request.documents) if request.top_k is None else request.top_k
        items = [RerankItem(index=index, score=1 / (index + 1)) for index in range(count)]
        return RerankReply(items=items)

    async def embed(self, request: EmbedRequest) -> EmbedReply:
        """See ModelProvider; the vector of an input is its length."""
        vectors = [[float(len(one))] for one in request.inputs]
        return EmbedReply(embeddings=vectors, usage=Usage(input_tokens=len(vectors), output_tokens=0))

    async def count_tokens(
        self, messages: Sequence[ModelMessage], tools: Sequence[FunctionSpec]
    ) -> TokenCount:
        """See ModelProvider."""
        return TokenCount(10 * len(messages) + 10 * len(tools), "estimate")

    async def close(self) -> None:
        """See ModelProvider."""


def _call(tool: FunctionSpec, number: int) -> ToolCall:
    arguments = msgspec.json.encode(sample_of(tool.parameters)).decode()
    return ToolCall(id=f"call-{number}", function=FunctionCall(name=tool.name, arguments=arguments))


def sample_of(schema: dict[str, Any]) -> Any:
    """Return a small value of a schema: what it requires and nothing else."""
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        return sample_of(choices[0])
    for value in (schema.get("default"), schema.get("const"), *schema.get("enum", [])):
        if value is not None:
            return value
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: sample_of(properties.get(name, {})) for name in schema.get("required", [])}
    least = schema.get("minLength" if kind == "string" else "minimum")
    if least is None:
        return SAMPLES[kind]
    return "x" * least if kind == "string" else least
