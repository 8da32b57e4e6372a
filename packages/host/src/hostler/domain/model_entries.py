"""Entries of the configuration for models."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Strict

ModelType = Literal["llm", "rerank", "embedding"]


class Price(Strict):
    """Price per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None


class ModelEntry(Strict):
    """A model of a service. `model` is the service's name for it (default: the id).

    `max_output_tokens`: the most that one answer takes, where the request does not say. `max_image_tokens`:
    the most that the service counts for an image. Budgets reserve by both.
    """

    id: str
    provider: str = "openai"
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None
    type: ModelType = "llm"
    context_window: int | None = None
    price: Price | None = None
    max_output_tokens: int | None = None
    max_image_tokens: int = 3_000
    timeout: float = 300.0
    max_retries: int = 2
    extra_args: dict[str, Any] = {}
