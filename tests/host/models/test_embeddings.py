"""Embeddings: what is asked of a service, the forms in which it answers, and answers that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.models import errors
from hostler.models.port import EmbedRequest
from hostler_protocol.errors import RateLimitedError
from hostler_protocol.limits import MAX_EMBED_DIMENSIONS
from support.model_server import ModelServer
from support.openai_models import model_at


async def test_vectors_are_in_the_order_of_their_inputs() -> None:
    async with ModelServer() as server:
        data = [{"index": 1, "embedding": [0.5, 1]}, {"index": 0, "embedding": [2, -1e-3]}]
        server.raw(json.dumps({"data": data, "usage": {"prompt_tokens": 4, "total_tokens": 4}}).encode())
        async with model_at(server.base_url) as model:
            reply = await model.embed(EmbedRequest(["a", [1, 2]], dimensions=2))
        assert reply.embeddings == [[2.0, -0.001], [0.5, 1.0]]
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (4, 0)
        assert server.requests[0].path == "/v1/embeddings"
        assert server.requests[0].json == {
            "model": "gpt-test",
            "input": ["a", [1, 2]],
            "encoding_format": "float",
            "dimensions": 2,
        }


async def test_a_service_may_leave_out_usage_and_indexes() -> None:
    async with ModelServer() as server, model_at(server.base_url) as model:
        server.raw(b'{"data": [{"embedding": [1]}, {"embedding": [2]}]}')
        reply = await model.embed(EmbedRequest(["a", "b"]))
        assert (reply.embeddings, reply.usage) == ([[1.0], [2.0]], None)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"data": []},
        {"data": [{"embedding": [1]}, {"embedding": [2]}]},
        {"data": [{"index": 1, "embedding": [1]}]},
        {"data": [{"index": -1, "embedding": [1]}]},
        {"data": [{"embedding": "AAAA"}]},
        {"data": [{"embedding": [0] * (MAX_EMBED_DIMENSIONS + 1)}]},
        [],
    ],
    ids=["none", "empty", "too many", "index", "negative", "base64", "too long", "a list"],
)
async def test_an_answer_that_is_none_is_refused(answer: Any) -> None:
    async with ModelServer() as server, model_at(server.base_url) as model:
        server.raw(json.dumps(answer).encode())
        with pytest.raises(errors.ModelAnswerError, match="embeddings"):
            await model.embed(EmbedRequest(["a"]))


async def test_two_vectors_of_one_input_are_refused() -> None:
    async with ModelServer() as server, model_at(server.base_url) as model:
        server.raw(b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]}')
        with pytest.raises(errors.ModelAnswerError, match="index 0"):
            await model.embed(EmbedRequest(["a", "b"]))


async def test_refusals_are_those_of_every_call() -> None:
    async with ModelServer() as server, model_at(server.base_url) as model:
        server.fail(404, "no route")
        with pytest.raises(errors.ModelUnsupportedError, match=r"has no embeddings .*POST /embeddings"):
            await model.embed(EmbedRequest(["a"]))
        server.fail(429, "slow down", {"retry-after": "100"})
        with pytest.raises(RateLimitedError):
            await model.embed(EmbedRequest(["a"]))
        server.raw(b'{"error": {"message": "broken"}}')
        with pytest.raises(errors.ModelFailedError, match="broken"):
            await model.embed(EmbedRequest(["a"]))
