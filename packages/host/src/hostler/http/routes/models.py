"""Models: what agents can be given."""

from __future__ import annotations

from hostler.config import Price
from hostler.http.answers import Listing
from hostler.http.ask import Ask
from hostler.http.endpoint import endpoint
from hostler_protocol._base import Strict


class ModelRecord(Strict):
    """A model, without its address and its key. `price` per million tokens."""

    model_id: str
    model_type: str
    provider: str
    operations: list[str]
    context_window_tokens: int | None
    price: Price | None


@endpoint("GET", "/v1/models", right="models:read", tag="models")
async def list_models(ask: Ask) -> Listing[ModelRecord]:
    """List the configured models, in the order of the configuration."""
    return Listing(
        items=[
            ModelRecord(
                model_id=model.model_id,
                model_type=model.entry.type,
                provider=model.entry.provider,
                operations=list(model.operations),
                context_window_tokens=model.context_window,
                price=model.entry.price,
            )
            for model in ask.surface.host.models.list()
        ]
    )
