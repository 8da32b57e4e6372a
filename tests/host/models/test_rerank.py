"""Rerank: the forms in which services answer, and answers that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.models import errors
from hostler.models.port import RerankRequest
from hostler_protocol.errors import (
    InvalidArgumentError,
)
from support.model_server import ModelServer
from support.openai_models import model_at


@pytest.mark.parametrize(
    "answer",
    [
        {"results": [{"index": 1, "relevance_score": 0.2}, {"index": 2, "relevance_score": 0.9}]},
        {"data": [{"index": 2, "relevance_score": 0.9}, {"index": 1, "relevance_score": 0.2}]},
        [{"index": 1, "score": 0.2}, {"index": 0, "score": 0.1}, {"index": 2, "score": 0.9}],
    ],
    ids=["cohere and jina", "voyage", "tei"],
)
async def test_rerank_gives_the_best_first(answer: Any) -> None:
    async with ModelServer() as server:
        server.raw(json.dumps(answer).encode())
        async with model_at(server.base_url) as model:
            reply = await model.rerank(RerankRequest("q", ["a", "b", "c"], top_k=2))
        assert [(item.index, item.score) for item in reply.items] == [(2, 0.9), (1, 0.2)]
        assert server.requests[0].path == "/v1/rerank"
        assert server.requests[0].json == {
            "model": "gpt-test",
            "query": "q",
            "documents": ["a", "b", "c"],
            "top_n": 2,
        }


async def test_rerank_refusals() -> None:
    async with ModelServer() as server, model_at(server.base_url) as model:
        server.fail(404, "no route")
        with pytest.raises(errors.ModelUnsupportedError, match="no rerank"):
            await model.rerank(RerankRequest("q", ["a"]))
        for bad in (b"{}", b'{"results": [{"index": 7, "score": 1}]}', b'{"results": [{"index": 0}]}'):
            server.raw(bad)
            with pytest.raises(errors.ModelAnswerError, match="rerank"):
                await model.rerank(RerankRequest("q", ["a"]))
        with pytest.raises(InvalidArgumentError, match="1 to 64"):
            await model.rerank(RerankRequest("q", ["a"] * 65))
