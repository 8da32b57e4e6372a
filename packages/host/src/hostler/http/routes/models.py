"""Models: what agents can be given."""

from __future__ import annotations

from hostler.domain.model_entries import ModelEntry, Price
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler_protocol._base import Strict


class ModelRecord(Strict):
    """A model, without its address and its key. `price` per million tokens.

    `problem` says why nobody is given it, as where its key is not set. It has no operations then.
    """

    model_id: str
    model_type: str
    provider: str
    operations: list[str]
    context_window_tokens: int | None
    price: Price | None
    problem: str | None


@endpoint("GET", "/v1/models", right="models:read", tag="models")
async def list_models(request: ApiRequest) -> Listing[ModelRecord]:
    """List the configured models, by id; also those that cannot be used, and why."""
    host = request.state.host
    found = [
        _record(model.entry, list(model.operations), model.context_window) for model in host.models.list()
    ]
    problems = {one.name: one.problem for one in host.configurator.problems if one.kind == "model"}
    if problems:
        stored = (await host.export()).models
        found += [
            _record(entry, [], entry.context_window, problems[entry.id])
            for entry in stored
            if entry.id in problems
        ]
    return Listing(items=sorted(found, key=lambda record: record.model_id))


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
