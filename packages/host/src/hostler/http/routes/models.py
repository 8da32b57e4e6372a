"""Models that agents can use."""

from __future__ import annotations

from hostler.domain.model_entries import ModelEntry, Price
from hostler.http.endpoint import endpoint
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


@endpoint("GET", "/v1/models", right="models:read", tag="models")
async def list_models(request: ApiRequest) -> Listing[ModelRecord]:
    """List the configured models that the workspace may use, including those that do not work, and why."""
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
    return Listing(items=sorted(allowed, key=lambda record: record.model_id))


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
