"""One request to one model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hostler_sdk import Result, RunContext, Runner, delta, failed, message

SHOWN_NUMBERS = 8
"""Of a vector; nobody reads all of them."""


class ModelTrial(Runner):
    """Test of a model

    Sends the message to the one model that it is granted, as the type of the model wants it.
    """

    capabilities = {"streaming", "resumable"}
    permissions = {"models": ["invoke", "stream", "rerank", "embed"]}

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        """Ask the model. The event's `data` names it and its type, and has the documents to order."""
        data: dict[str, Any] = dict(ctx.event.data)
        model, text = data.get("model_id"), ctx.input.text or ""
        if not isinstance(model, str):
            yield failed("trial.no_model", "the event names no model: its data needs a model_id")
        elif data.get("model_type") == "embedding":
            yield await self._embedded(ctx, model, text)
        elif data.get("model_type") == "rerank":
            yield await self._ranked(ctx, model, text, [str(one) for one in data.get("documents") or []])
        else:
            stream = ctx.models.stream(model, [{"role": "user", "content": text}])
            async for chunk in stream:
                if chunk.delta.content or chunk.delta.reasoning:
                    yield delta(chunk.delta.content or "", reasoning=chunk.delta.reasoning)
            if stream.reply is not None:
                yield message(stream.reply.message.content or "", usage=stream.reply.usage)

    async def _embedded(self, ctx: RunContext, model: str, text: str) -> Result:
        reply = await ctx.models.embed(model, [text])
        vector = reply.embeddings[0]
        shown = ", ".join(f"{number:.6g}" for number in vector[:SHOWN_NUMBERS])
        more = ", ..." if len(vector) > SHOWN_NUMBERS else ""
        return message(f"{len(vector)} numbers: [{shown}{more}]", usage=reply.usage)

    async def _ranked(self, ctx: RunContext, model: str, query: str, documents: list[str]) -> Result:
        if not documents:
            return failed("trial.no_documents", "there is nothing to order: give at least one document")
        reply = await ctx.models.rerank(model, query, documents)
        return message("\n".join(f"{one.score:.4f}  {documents[one.index]}" for one in reply.items))
