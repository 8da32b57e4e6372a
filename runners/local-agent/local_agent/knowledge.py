"""Find passages of knowledge bases for the answer."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler_sdk import RunContext, log
from hostler_sdk.errors import HostError
from hostler_sdk.types import Content, KnowledgeItem, ModelMessage, TextElement
from local_agent.run_errors import ends_the_run
from local_agent.settings import MAX_RERANKED, Settings

MAX_PASSAGE_CHARS = 8_000
MAX_QUERY_CHARS = 4_000
_HEAD = "Passages from the knowledge base, best first. Use what answers the message below; leave the rest."
_NAMES = ("title", "source", "file_name", "document_name", "name")


async def passages(ctx: RunContext, settings: Settings, text: str) -> list[KnowledgeItem]:
    """Return the best passages for a message. Failures are logged, and the run goes on without them."""
    query = text.strip()[:MAX_QUERY_CHARS]
    granted = {base.kb_id for base in ctx.resources.knowledge_bases if "retrieve" in base.operations}
    found: list[KnowledgeItem] = []
    for kb_id in settings.knowledge_bases if query else ():
        if kb_id not in granted:
            await ctx.emit(log(f"knowledge base {kb_id!r} is not granted to this run", "warning"))
            continue
        try:
            found += (await ctx.knowledge.retrieve(kb_id, query, settings.retrieval_top_k)).items
        except HostError as error:
            await _warn(ctx, f"knowledge base {kb_id!r} was not searched", error)
    found = [item for item in found if item.content.strip()]
    if settings.rerank_model is None or not found:
        return sorted(found, key=lambda item: -item.score)
    return await _ordered(ctx, settings, settings.rerank_model, query, found[:MAX_RERANKED])


async def _ordered(
    ctx: RunContext, settings: Settings, model_id: str, query: str, found: list[KnowledgeItem]
) -> list[KnowledgeItem]:
    documents = [item.content[:MAX_PASSAGE_CHARS] for item in found]
    try:
        ranked = (await ctx.models.rerank(model_id, query, documents, settings.rerank_top_k)).items
    except HostError as error:
        await _warn(ctx, f"the passages were not ordered by {model_id!r}", error)
        return sorted(found, key=lambda item: -item.score)[: settings.rerank_top_k]
    places = [item.index for item in ranked if item.index < len(found)]
    return [found[place] for place in dict.fromkeys(places)][: settings.rerank_top_k]


def with_passages(message: ModelMessage, found: Sequence[KnowledgeItem], most: int) -> ModelMessage:
    """Put passages before the user's message: the best ones, of at most `most` characters together."""
    blocks: list[str] = []
    for number, item in enumerate(found, 1):
        blocks.append(f"[{number}]{_named(item)} {item.content[: min(MAX_PASSAGE_CHARS, most)]}")
        most -= len(blocks[-1])
        if most <= 0:
            break
    if not blocks:
        return message
    block = "\n\n".join([_HEAD, *blocks, "The message:\n"])
    content: Content
    if message.content is None or isinstance(message.content, str):
        content = block + (message.content or "")
    else:
        content = [TextElement(text=block), *message.content]
    return msgspec.structs.replace(message, content=content)


def _named(item: KnowledgeItem) -> str:
    name = next((value for key in _NAMES if isinstance(value := item.metadata.get(key), str) and value), "")
    return f" ({name})" if name else ""


async def _warn(ctx: RunContext, what: str, error: HostError) -> None:
    if ends_the_run(error):
        raise error
    await ctx.emit(log(f"{what}: {error.message}", "warning"))
