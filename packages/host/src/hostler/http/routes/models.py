"""Models that agents can use; to clients of OpenAI's interfaces, agents are models."""

from __future__ import annotations

from typing import Literal

from hostler.domain.model_entries import ModelEntry, Price
from hostler.http.auth import has_right, require_right
from hostler.http.endpoint import endpoint
from hostler.http.openai.models import AgentModel, find_model, models_of
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler_protocol._base import Strict


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


class ModelListing(Listing[ModelRecord]):
    """The models in `items`. `object` and `data` are the same answer to clients of OpenAI's interfaces: the
    agents that the caller may send messages to.
    """

    data: list[AgentModel] = []
    object: Literal["list"] = "list"


@endpoint("GET", "/v1/models", right="models:read", tag="models", narrow=(), narrow_right="events:write")
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
    narrow=(),
    checks=("model_id",),
    narrow_right="events:write",
)
async def get_model(request: ApiRequest) -> AgentModel:
    """Get an agent as a model of `POST /v1/chat/completions`."""
    require_right(request.caller, "events:write")
    return await find_model(request, request.parameters["model_id"])


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
