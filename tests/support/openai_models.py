"""OpenAIModel in tests: against a scripted service on a real socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from hostler.models.errors import ModelEndpoint
from hostler.models.openai import OpenAIModel
from hostler.models.port import ModelRequest
from hostler_protocol.calls import ModelChunk, ModelReply

KEY = "sk-secret-0123456789"


@contextlib.asynccontextmanager
async def model_at(base_url: str, *, name: str = "gpt-test", **more: Any) -> AsyncIterator[OpenAIModel]:
    endpoint = ModelEndpoint("main", name, base_url, "env:TEST_KEY", (KEY,))
    model = OpenAIModel(endpoint, base_url=base_url, api_key=KEY, **more)
    try:
        yield model
    finally:
        await model.close()


async def read(model: OpenAIModel, request: ModelRequest) -> tuple[list[ModelChunk], ModelReply]:
    chunks: list[ModelChunk] = []
    reply: ModelReply | None = None
    async with contextlib.aclosing(model.stream(request)) as answer:
        async for piece in answer:
            assert reply is None, "the reply is the last thing of a stream"
            if isinstance(piece, ModelReply):
                reply = piece
            else:
                chunks.append(piece)
    assert reply is not None
    return chunks, reply
