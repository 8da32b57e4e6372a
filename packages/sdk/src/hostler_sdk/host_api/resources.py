"""`ctx.models`, `ctx.tools`, `ctx.knowledge`: the resources that a run was granted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from hostler_protocol.calls import (
    CountTokensReply,
    ModelChunk,
    ModelReply,
    RerankReply,
    RetrieveReply,
    ToolDetail,
)
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_sdk.host_api.port import Group, StreamingAnswer, stated

Messages = Sequence[ModelMessage | Mapping[str, Any]]
FunctionSpecs = Sequence[FunctionSpec | ToolDetail | Mapping[str, Any]]

_chunks = msgspec.json.Decoder(ModelChunk)


class ModelStream:
    """The answer of a model as it is written: iterate it once.

    Gives `ModelChunk`s (`chunk.delta.content`, `.reasoning`, `.tool_calls`); after the last one,
    `reply` is the whole answer with usage and finish reason.
    """

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[StreamingAnswer]]) -> None:
        self._start = start
        self.reply: ModelReply | None = None

    async def __aiter__(self) -> AsyncGenerator[ModelChunk]:
        async with self._start() as answer:
            async for chunk in answer:
                yield _chunks.decode(chunk)
            self.reply = answer.reply


class Models(Group):
    """`ctx.models`: the models this run may call, by their ids."""

    async def invoke(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None, **extra: Any
    ) -> ModelReply:
        """Ask a model and wait for its whole answer. `extra` goes to the model service as it is."""
        reply: ModelReply = await self._host.call(
            "model.invoke",
            stated(model_id=model_id, messages=messages, tools=tools, extra_args=extra or None),
        )
        return reply

    def stream(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None, **extra: Any
    ) -> ModelStream:
        """Ask a model and read its answer as it is written: `async for chunk in ...`."""
        params = stated(model_id=model_id, messages=messages, tools=tools, extra_args=extra or None)
        return ModelStream(lambda: self._host.stream("model.stream", params))

    async def rerank(
        self, model_id: str, query: str, documents: Sequence[str], top_k: int | None = None
    ) -> RerankReply:
        """Order documents (at most 64) by how well they answer `query`, best first."""
        reply: RerankReply = await self._host.call(
            "model.rerank", stated(model_id=model_id, query=query, documents=documents, top_k=top_k)
        )
        return reply

    async def count_tokens(
        self, model_id: str, messages: Messages, tools: FunctionSpecs | None = None
    ) -> CountTokensReply:
        """How many tokens messages and tools take, as `.input_tokens`."""
        reply: CountTokensReply = await self._host.call(
            "model.count_tokens", stated(model_id=model_id, messages=messages, tools=tools)
        )
        return reply


class Tools(Group):
    """`ctx.tools`: the tools this run may call, by their names."""

    async def detail(self, name: str) -> ToolDetail:
        """A tool in full; `parameters` is JSON Schema."""
        reply: ToolDetail = await self._host.call("tool.detail", {"tool_name": name})
        return reply

    async def call(
        self, name: str, parameters: Mapping[str, Any] | None = None, tool_call_id: str | None = None
    ) -> Any:
        """Call a tool; gives its result as plain JSON. May wait for a person.

        Denied, Expired or Cancelled where a person refused, nobody answered, or it was called off.
        """
        params = stated(tool_name=name, parameters=parameters or {}, tool_call_id=tool_call_id)
        return (await self._host.call("tool.call", params)).result


class Knowledge(Group):
    """`ctx.knowledge`: the knowledge bases this run may search."""

    async def retrieve(
        self, kb_id: str, text: str, top_k: int = 5, filters: Mapping[str, Any] | None = None
    ) -> RetrieveReply:
        """The passages that answer `text` best, as `.items`, best first."""
        reply: RetrieveReply = await self._host.call(
            "knowledge.retrieve", stated(kb_id=kb_id, query_text=text, top_k=top_k, filters=filters)
        )
        return reply
