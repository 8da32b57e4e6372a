"""The format of `POST /rerank` of Cohere, Jina, vLLM, llama.cpp, Voyage and TEI. Pure."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from hostler.models.errors import ModelEndpoint
from hostler.models.port import RerankRequest
from hostler_protocol._base import DECODE_ERRORS, Lenient
from hostler_protocol.calls import RerankItem, RerankReply
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_RERANK_DOCUMENTS


class _Item(Lenient):
    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Answer(Lenient):
    results: list[_Item] | None = None
    data: list[_Item] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Answer | list[_Item])


def rerank_body(model: str, request: RerankRequest) -> dict[str, Any]:
    """Return the body of a request. InvalidArgumentError for too many documents or none."""
    count = len(request.documents)
    if not 1 <= count <= MAX_RERANK_DOCUMENTS:
        raise InvalidArgumentError(f"documents has {count} entries; 1 to {MAX_RERANK_DOCUMENTS} are allowed")
    if request.top_k is not None and request.top_k < 1:
        raise InvalidArgumentError(f"top_k is {request.top_k}; it must be at least 1")
    top = count if request.top_k is None else min(request.top_k, count)
    return {"model": model, "query": request.query, "documents": list(request.documents), "top_n": top}


def rerank_reply(body: bytes, documents: int, top_k: int | None, endpoint: ModelEndpoint) -> RerankReply:
    """Return the ranking, best first. ModelAnswerError if the answer is malformed."""
    try:
        answer = _decoder.decode(body)
    except DECODE_ERRORS as error:
        raise endpoint.malformed(f"rerank: {error}") from error
    if isinstance(answer, list):
        found: list[_Item] | None = answer
    else:
        if answer.error:
            raise endpoint.reported(answer.error)
        found = answer.results if answer.results is not None else answer.data
    if found is None:
        raise endpoint.malformed("rerank: the answer has no results")
    scores: dict[int, float] = {}
    for item in found:
        score = item.score if item.relevance_score is None else item.relevance_score
        if score is None or not math.isfinite(score) or not 0 <= item.index < documents:
            raise endpoint.malformed(f"rerank: a result has index {item.index} and score {score}")
        scores.setdefault(item.index, score)
    best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:top_k]
    return RerankReply(items=[RerankItem(index=index, score=score) for index, score in best])
