"""The format of `POST /embeddings` of OpenAI-compatible services. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.models.errors import ModelEndpoint
from hostler.models.port import EmbedRequest
from hostler_protocol._base import DECODE_ERRORS, Lenient
from hostler_protocol.calls import EmbedReply
from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_EMBED_DIMENSIONS, Count


class _Item(Lenient):
    embedding: list[float]
    index: int | None = None


class _Usage(Lenient):
    prompt_tokens: Count | None = None
    total_tokens: Count | None = None


class _Answer(Lenient):
    data: list[_Item] | None = None
    usage: _Usage | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Answer)


def embed_body(model: str, request: EmbedRequest, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request. `defaults` are the operator's arguments."""
    body = {**defaults, "model": model, "input": list(request.inputs), "encoding_format": "float"}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    return body


def embed_reply(body: bytes, inputs: int, endpoint: ModelEndpoint) -> EmbedReply:
    """Return the vectors in the order of the inputs. ModelAnswerError if the answer is malformed."""
    try:
        answer = _decoder.decode(body)
    except DECODE_ERRORS as error:
        raise endpoint.malformed(f"embeddings: {error}") from error
    if answer.error:
        raise endpoint.reported(answer.error)
    if answer.data is None or len(answer.data) != inputs:
        count = 0 if answer.data is None else len(answer.data)
        raise endpoint.malformed(f"embeddings: {count} vectors for {inputs} inputs")
    vectors: list[list[float] | None] = [None] * inputs
    for place, item in enumerate(answer.data):
        index = place if item.index is None else item.index
        if not 0 <= index < inputs or vectors[index] is not None:
            raise endpoint.malformed(f"embeddings: a vector has index {index}")
        if len(item.embedding) > MAX_EMBED_DIMENSIONS:
            raise endpoint.malformed(
                f"embeddings: a vector has {len(item.embedding):,} numbers; {MAX_EMBED_DIMENSIONS:,} may be"
            )
        vectors[index] = item.embedding
    return EmbedReply(embeddings=[v for v in vectors if v is not None], usage=_usage_of(answer.usage))


def _usage_of(usage: _Usage | None) -> Usage | None:
    """Return the usage. Nothing is generated, so that the cost is known if the input is."""
    if usage is None:
        return None
    tokens = usage.total_tokens if usage.prompt_tokens is None else usage.prompt_tokens
    return Usage(input_tokens=tokens, output_tokens=0, total_tokens=tokens)
