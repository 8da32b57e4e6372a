"""`model.*`: the models of the run's grant."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from hostler.calls.artifacts import attachment_reader
from hostler.calls.scope import CallScope, Charged, PricedModel
from hostler.models.port import EmbedRequest, ModelRequest, RerankRequest
from hostler_protocol.calls import (
    CountTokensParams,
    CountTokensReply,
    EmbedParams,
    EmbedReply,
    ModelChunk,
    ModelParams,
    ModelReply,
    RerankParams,
    RerankReply,
)
from hostler_protocol.errors import HostError, NotFoundError


async def invoke(scope: CallScope, params: ModelParams) -> Charged:
    """`model.invoke`: the whole answer at once."""
    model = _model(scope, params.model_id)
    reply = await model.provider.invoke(_request(scope, params))
    return _charged(scope, model, reply)


async def stream(scope: CallScope, params: ModelParams) -> AsyncGenerator[ModelChunk | Charged, None]:
    """`model.stream`: the answer as it is written, then the whole."""
    model = _model(scope, params.model_id)
    async with aclosing(model.provider.stream(_request(scope, params))) as pieces:
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                yield _charged(scope, model, piece)
                return
            yield piece
    raise HostError(f"model {params.model_id!r} ended its stream without a reply")


async def embed(scope: CallScope, params: EmbedParams) -> Charged:
    """`model.embed`: one vector per input."""
    model = _model(scope, params.model_id)
    request = EmbedRequest(params.inputs, params.dimensions, scope.deadline_at, scope.may_repeat)
    return _charged(scope, model, await model.provider.embed(request))


def _charged(scope: CallScope, model: PricedModel, reply: ModelReply | EmbedReply) -> Charged:
    cost = model.cost(reply.usage)
    scope.meter.add(reply.usage, cost)
    return Charged(reply, cost)


async def rerank(scope: CallScope, params: RerankParams) -> RerankReply:
    """`model.rerank`: best first."""
    model = _model(scope, params.model_id)
    request = RerankRequest(params.query, params.documents, params.top_k, scope.deadline_at, scope.may_repeat)
    return await model.provider.rerank(request)


async def count_tokens(scope: CallScope, params: CountTokensParams) -> CountTokensReply:
    """`model.count_tokens`: what messages and tools would take as input."""
    model = _model(scope, params.model_id)
    counted = await model.provider.count_tokens(params.messages, params.tools)
    return CountTokensReply(input_tokens=counted.input_tokens)


def _model(scope: CallScope, model_id: str) -> PricedModel:
    """Return a model of the grant. NotFoundError if it is gone, or not for this workspace any more."""
    if not scope.allowance.model(model_id):
        raise NotFoundError(f"model {model_id!r} is not called: {scope.allowance.refused('model', model_id)}")
    return scope.services.models.get(model_id)


def _request(scope: CallScope, params: ModelParams) -> ModelRequest:
    return ModelRequest(
        messages=params.messages,
        tools=params.tools,
        extra_args=params.extra_args,
        deadline=scope.deadline_at,
        read_artifact=attachment_reader(scope),
        may_repeat=scope.may_repeat,
    )
