"""The configured models by id, each with its provider, context window and price."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

from hostler.domain.config_mistakes import Mistake
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.record import Record
from hostler.domain.secret_refs import is_reference
from hostler.domain.suggestions import did_you_mean
from hostler.models.errors import ModelEndpoint
from hostler.models.litellm import LiteLLMModel
from hostler.models.port import ModelProvider
from hostler.models.retry_policy import RetryPolicy
from hostler.secrets.known_values import remember
from hostler.secrets.resolver import SecretUnreadableError, resolve_secret
from hostler_protocol.content import Usage
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.grants import ModelResource

if TYPE_CHECKING:  # see openai_model
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
_MILLION = Decimal(1_000_000)
_OPERATIONS = {"llm": ("invoke", "stream", "count_tokens"), "rerank": ("rerank",), "embedding": ("embed",)}

Resolve = Callable[[str | None], str | None]
Built = tuple[ModelProvider, int | None]
"""A provider, and the model's context window in tokens, if the provider defines it."""
Build = Callable[[ModelEntry, str | None], Built]


class Model(Record):
    """A configured model. `context_window` in tokens; None: unknown."""

    entry: ModelEntry
    provider: ModelProvider
    context_window: int | None

    @property
    def model_id(self) -> str:
        """The id under which runs call it."""
        return self.entry.id

    @property
    def operations(self) -> tuple[str, ...]:
        """Its operations, named as in manifests."""
        return _OPERATIONS[self.entry.type]

    def resource(self) -> ModelResource:
        """Return the model as runs see it, with all its operations; a grant may narrow them."""
        return ModelResource(
            model_id=self.model_id,
            model_type=self.entry.type,
            provider=self.entry.provider,
            operations=list(self.operations),
            context_window_tokens=self.context_window,
        )

    def cost(self, usage: Usage | None) -> Decimal | None:
        """Return the cost of a usage, in the currency of the price; None if price or tokens are unknown."""
        return None if usage is None or self.entry.price is None else cost_of(usage, self.entry.price)


class ModelCatalog:
    """All models of one configuration. Connections are made at the first call."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = {model.model_id: model for model in models}

    def get(self, model_id: str) -> Model:
        """Return a model. NotFoundError names the most similar id."""
        model = self._models.get(model_id)
        if model is None:
            raise NotFoundError(f"there is no model {model_id!r}; {did_you_mean(model_id, self._models)}")
        return model

    def find(self, model_id: str) -> Model | None:
        """Return a model, or None."""
        return self._models.get(model_id)

    def list(self) -> list[Model]:
        """Return all models, in the order of the configuration."""
        return list(self._models.values())

    async def close(self) -> None:
        """Close all connections and stop all child processes."""
        await asyncio.gather(*(model.provider.close() for model in self._models.values()))


def build_catalog(entries: Sequence[ModelEntry], resolve: Resolve = resolve_secret) -> ModelCatalog:
    """Build the catalog of a configuration; `resolve` returns the secret for a reference.

    InvalidArgumentError names the model and the correction, for example for a missing key.
    """
    return ModelCatalog([_model(entry, resolve) for entry in entries])


def usable_catalog(
    entries: Sequence[ModelEntry],
    providers: Mapping[str, Build] | None = None,
    resolve: Resolve = resolve_secret,
) -> tuple[ModelCatalog, dict[str, str]]:
    """Build a catalog of the stored models that can be used now, and the problems of the others by id.

    A host starts without these: an environment may lack the key of a model that it does not use.
    `providers` build the providers instead of `PROVIDERS`.
    """
    found: list[Model] = []
    wrong: dict[str, str] = {}
    for entry in entries:
        try:
            found.append(_model(entry, resolve, providers))
        except InvalidArgumentError as error:
            wrong[entry.id] = error.message.removeprefix(f"model {entry.id!r}: ")
    return ModelCatalog(found), wrong


def model_mistakes(entry: ModelEntry, resolve: Resolve = resolve_secret) -> list[Mistake]:
    """Return the mistakes of an entry; a key that cannot be read now is a warning."""
    found = list(_own_mistakes(entry))
    try:
        if found:  # no provider can be built
            _key(entry, resolve)
        else:
            _model(entry, resolve)
    except SecretUnreadableError as error:
        found.append(Mistake("", error.message.removeprefix(f"model {entry.id!r}: "), "warning"))
    except InvalidArgumentError as error:
        text = error.message.removeprefix(f"model {entry.id!r}: ").removeprefix("api_key: ")
        found.append(Mistake(error.details.get("field", ""), text))
    return found


def _own_mistakes(entry: ModelEntry) -> Iterator[Mistake]:
    if entry.provider not in PROVIDERS:
        hint = did_you_mean(entry.provider, PROVIDERS)
        yield Mistake("provider", f"unknown provider {entry.provider!r:.80}; {hint}")
    if not 0 < entry.timeout < math.inf:
        yield Mistake("timeout", f"is {entry.timeout:g}; expected seconds, more than 0")
    if entry.max_retries < 0:
        yield Mistake("max_retries", f"is {entry.max_retries}; expected at least 0")
    if entry.max_output_tokens is not None and entry.max_output_tokens < 1:
        yield Mistake("max_output_tokens", f"is {entry.max_output_tokens}; expected at least 1")
    if entry.max_image_tokens < 0:
        yield Mistake("max_image_tokens", f"is {entry.max_image_tokens}; expected at least 0")
    for name, price in () if entry.price is None else msgspec.structs.asdict(entry.price).items():
        if price is not None and not (math.isfinite(price) and price >= 0):
            yield Mistake(f"price.{name}", f"is {price:g}; expected at least 0")


def cost_of(usage: Usage, price: Price) -> Decimal | None:
    """Return the cost of a usage; None if tokens are unknown. Cached input may have its own price."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    input_price, output_price = _decimal(price.input), _decimal(price.output)
    cached_price = input_price if price.cached is None else _decimal(price.cached)
    fresh = usage.input_tokens - cached
    return (fresh * input_price + cached * cached_price + usage.output_tokens * output_price) / _MILLION


def _decimal(number: float) -> Decimal:
    return Decimal(str(number))  # by its shortest decimal form, so that 0.15 is exact


def _model(entry: ModelEntry, resolve: Resolve, providers: Mapping[str, Build] | None = None) -> Model:
    for mistake in _own_mistakes(entry):
        raise InvalidArgumentError(f"model {entry.id!r}: {mistake.sentence}")
    build = (providers or PROVIDERS)[entry.provider]
    provider, window = build(entry, _key(entry, resolve))
    return Model(entry, provider, window if entry.context_window is None else entry.context_window)


def _key(entry: ModelEntry, resolve: Resolve) -> str | None:
    """Return the API key. InvalidArgumentError, whose message never contains the key."""
    try:
        key = resolve(entry.api_key)
    except InvalidArgumentError as error:
        raise type(error)(f"model {entry.id!r}: api_key: {error.message}", field="api_key") from error
    if key is not None and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise InvalidArgumentError(
            f"model {entry.id!r}: the API key is empty or holds characters that no key has, like spaces",
            field="api_key",
        )
    if key is not None:
        remember(key)  # it may be written out
    return key


def endpoint_of(entry: ModelEntry, key: str | None, url: str) -> ModelEndpoint:
    """Return how messages name the model's service. A key in plain text is not shown."""
    reference = entry.api_key if is_reference(entry.api_key) else None
    return ModelEndpoint(
        model_id=entry.id,
        model=entry.model or entry.id,
        url=url.partition("?")[0],
        key_reference=reference,
        secrets=(key,) if key else (),
        provider=entry.provider,
    )


def openai_model(
    entry: ModelEntry, key: str | None, transport: httpx.AsyncBaseTransport | None = None
) -> Built:
    """Build the provider of an OpenAI-compatible service. `transport`: see OpenAIModel."""
    # importing an HTTP client takes a tenth of a host's start, and many hosts call no model
    from hostler.models.openai import OpenAIModel  # noqa: PLC0415

    url = entry.base_url or OPENAI_URL
    provider = OpenAIModel(
        endpoint_of(entry, key, url),
        base_url=url,
        api_key=key,
        defaults=entry.extra_args,
        retries=RetryPolicy(entry.max_retries),
        silence_seconds=entry.timeout,
        transport=transport,
    )
    return provider, None


def _litellm(entry: ModelEntry, key: str | None) -> Built:
    provider = LiteLLMModel(
        endpoint_of(entry, key, entry.base_url or "LiteLLM"),
        base_url=entry.base_url,
        api_key=key,
        defaults=entry.extra_args,
        max_retries=entry.max_retries,
        silence_seconds=entry.timeout,
    )
    return provider, None


def _demo(entry: ModelEntry, _key: str | None) -> Built:
    from hostler.models.demo import DEMO_CONTEXT_WINDOW, DemoModel  # noqa: PLC0415  (as above)

    return DemoModel(entry.id, defaults=entry.extra_args), DEMO_CONTEXT_WINDOW


PROVIDERS: Mapping[str, Build] = {"openai": openai_model, "litellm": _litellm, "demo": _demo}
"""Functions that build a provider, by the name in the configuration."""
