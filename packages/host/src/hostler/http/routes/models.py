"""Models that agents can use; to clients of OpenAI's interfaces, agents are models."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.trials import model_trial
from hostler.http.auth import has_right, require_right
from hostler.http.endpoint import endpoint
from hostler.http.openai.dialect import MODELS
from hostler.http.openai.models import AgentModel, find_model, models_of
from hostler.http.request import ApiRequest
from hostler.http.responses import Json, Listing
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.runs import RunRecord

MAX_TEST_DOCUMENTS = 64
"""As many as one call of a rerank model may have."""


class ModelRecord(Strict):
    """A model, without its address and key. `price` per million tokens.

    `problem` says why it cannot be used, for example because its key is not set; `operations` is empty then.
    """

    model_id: str
    model_type: str
    provider: str
    operations: list[str]
    context_window_tokens: int | None
    price: Price | None
    problem: str | None


class ModelTest(Strict):
    """`input`: the question, the text to embed, or the query. `documents`: what a rerank model orders."""

    input: Annotated[str, msgspec.Meta(min_length=1)]
    documents: Annotated[list[str], msgspec.Meta(max_length=MAX_TEST_DOCUMENTS)] = []


class ModelListing(Listing[ModelRecord]):
    """The models in `items`. `object` and `data` are the same answer to clients of OpenAI's interfaces: the
    agents that the caller may send messages to.
    """

    data: list[AgentModel] = []
    object: Literal["list"] = "list"


@endpoint(
    "GET",
    "/v1/models",
    right="models:read",
    tag="models",
    dialect=MODELS,
    narrow=(),
    narrow_right="events:write",
)
async def list_models(request: ApiRequest) -> ModelListing:
    """List the configured models that the workspace may use, including those that do not work, and why.

    `data` lists the enabled agents, as models of `POST /v1/chat/completions`; it is empty without the right
    `events:write`. A front-end token, which needs that right instead, gets its agent in `data` and nothing
    else.
    """
    if request.caller.scope is not None:
        return ModelListing(items=[], data=await models_of(request))
    host = request.state.host
    may = host.allowances.of(request.workspace_id)
    records = [
        _record(model.entry, list(model.operations), model.context_window) for model in host.models.list()
    ]
    problems = {
        problem.name: problem.problem for problem in host.configurator.problems if problem.kind == "model"
    }
    if problems:
        stored = (await host.export()).models
        records += [
            _record(entry, [], entry.context_window, problems[entry.id])
            for entry in stored
            if entry.id in problems
        ]
    allowed = [record for record in records if may.model(record.model_id)]
    agents = await models_of(request) if has_right(request.caller, "events:write") else []
    return ModelListing(items=sorted(allowed, key=lambda record: record.model_id), data=agents)


@endpoint(
    "GET",
    "/v1/models/{model_id}",
    right="models:read",
    tag="models",
    dialect=MODELS,
    narrow=(),
    checks=("model_id",),
    narrow_right="events:write",
)
async def get_model(request: ApiRequest) -> AgentModel:
    """Get an agent as a model of `POST /v1/chat/completions`."""
    require_right(request.caller, "events:write")
    return await find_model(request, request.parameters["model_id"])


@endpoint("POST", "/v1/models/{model_id}/test", right="agents:write", tag="models", status=201)
async def try_model(request: ApiRequest, body: ModelTest) -> Json[RunRecord]:
    """Test a model: open a run that asks it once.

    It needs `events:write`, too: who may write an agent and send it a message can have the same request made.
    The run is one as any other: it is recorded, its tokens and cost are counted, and the budgets of the
    workspace bound it. `GET /v1/runs/{run_id}/stream` has the answer as it is written.
    """
    require_right(request.caller, "events:write")
    host, ws, model_id = request.state.host, request.workspace_id, request.parameters["model_id"]
    may = host.allowances.of(ws)
    if not may.model(model_id):
        raise NotFoundError(may.refused("model", model_id))
    model_type = host.models.get(model_id).entry.type
    if model_type == "rerank" and not body.documents:
        raise InvalidArgumentError("documents: a rerank model orders documents: give at least one")
    trial = model_trial(ws, model_id, model_type, body.input, body.documents)
    run_id = await host.trials.open(trial, request.caller)
    return Json(await host.runs.record(ws, run_id), 201, [(b"location", f"/v1/runs/{run_id}".encode())])


def _record(
    entry: ModelEntry, operations: list[str], window: int | None, problem: str | None = None
) -> ModelRecord:
    return ModelRecord(
        model_id=entry.id,
        model_type=entry.type,
        provider=entry.provider,
        operations=operations,
        context_window_tokens=window,
        price=entry.price,
        problem=problem,
    )
