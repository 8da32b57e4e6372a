"""What one call of a model may use at most, known before it is made. Pure.

No tokenizer gives a text more tokens than it has bytes, so the bytes of a request bound its input; images are
the exception, for which the model's entry says a number. The output is bounded by the request itself: by the
limit that the runner or the operator set, else by the one that the host sets for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

import msgspec

from hostler.domain.budgets import MOST
from hostler.domain.model_entries import ModelEntry
from hostler.domain.reservations import LEAST_OUTPUT_TOKENS, ONE_CALL, Need
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FunctionSpec,
    ImageBase64Element,
    ImageUrlElement,
    ModelMessage,
)
from hostler_protocol.errors import InvalidArgumentError

DEFAULT_OUTPUT_TOKENS = 4_096
"""The most output of a call that nobody limits, under a budget: a few pages, and no more than any model
permits. The limits of newer models, up to 128,000, would reserve a dollar for each call.
"""
TOKENS_PER_REQUEST = 64
"""Bound of what a service adds to any request: its head, and that of the answer."""
TOKENS_FOR_TOOLS = 1_024
"""Bound of the instructions that services add where there are tools; they are known to take 300 to 600."""
OUTPUT_ARGS = ("max_completion_tokens", "max_tokens")
"""The names by which services of this interface limit the output."""
SAFE_ARGS = frozenset(
    {
        *("chat_template_kwargs", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens"),
        *("max_tokens", "metadata", "min_p", "parallel_tool_calls", "presence_penalty", "reasoning"),
        *("reasoning_effort", "repetition_penalty", "response_format", "safety_identifier", "seed", "stop"),
        *("store", "temperature", "thinking", "tool_choice", "top_k", "top_logprobs", "top_p", "user"),
        "verbosity",
    }
)
"""Arguments of a runner that change neither a service's prices nor what bounds the output."""
_ESTIMATE_OVER, _ESTIMATE_UNDER = 9, 8
"""An estimate of tokens may be a tenth too small."""
_NANO_PER_PRICE = 1_000
"""A price per million tokens, in billionths per token."""


def input_bound(
    messages: Iterable[ModelMessage],
    tools: Sequence[FunctionSpec],
    extra_args: Mapping[str, Any],
    entry: ModelEntry,
    sizes: Mapping[str, int],
) -> int:
    """Return the most tokens that a request's input may take. `sizes`: bytes of artifacts by their ids."""
    tokens = TOKENS_PER_REQUEST + len(msgspec.json.encode({**entry.extra_args, **extra_args}))
    if tools:
        tokens += TOKENS_FOR_TOOLS + len(msgspec.json.encode(tools))
    for message in messages:
        if not isinstance(message.content, list):
            tokens += len(msgspec.json.encode(message))
            continue
        tokens += len(msgspec.json.encode(msgspec.structs.replace(message, content=None)))
        tokens += sum(_element(element, entry.max_image_tokens, sizes) for element in message.content)
    return tokens


def _element(element: ContentElement, image_tokens: int, sizes: Mapping[str, int]) -> int:
    match element:
        case ImageUrlElement() | ImageBase64Element():
            return image_tokens
        case FileBase64Element(file_base64=inline, mime_type=mime_type):
            head = len(inline.partition(",")[0]) if inline.startswith("data:") else 0
            is_image = (mime_type or inline[:head]).removeprefix("data:").startswith("image/")
            return max(image_tokens if is_image else 0, len(msgspec.json.encode(element)))
        case ArtifactElement(artifact_id=artifact_id):
            own = len(msgspec.json.encode(element))
            return own + max(sizes.get(artifact_id, 0), image_tokens if artifact_id in sizes else 0)
        case _:
            return len(msgspec.json.encode(element))


def artifacts_in(messages: Iterable[ModelMessage]) -> list[str]:
    """Return the ids of the artifacts that messages refer to."""
    parts = (message.content for message in messages if isinstance(message.content, list))
    return [e.artifact_id for content in parts for e in content if isinstance(e, ArtifactElement)]


def asked_output(extra_args: Mapping[str, Any], entry: ModelEntry) -> int | None:
    """Return the limit of the output that runner or operator set. InvalidArgumentError: that is no number."""
    given = {**entry.extra_args, **extra_args}
    limits = [_whole(name, given[name]) for name in OUTPUT_ARGS if given.get(name) is not None]
    return min(limits, default=None)


def default_output(entry: ModelEntry, context_window: int | None, estimate: int) -> int:
    """Return the limit of the output where nobody set one.

    `estimate`: the tokens of the input, as far as they are known. Services refuse a limit that does not fit
    into the window beside the input.
    """
    most = DEFAULT_OUTPUT_TOKENS if entry.max_output_tokens is None else entry.max_output_tokens
    if context_window is None:
        return most
    room = context_window - TOKENS_PER_REQUEST - estimate * _ESTIMATE_OVER // _ESTIMATE_UNDER
    return max(min(most, room), min(most, LEAST_OUTPUT_TOKENS))


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST:
        raise InvalidArgumentError(f"extra_args.{name} is {value!r:.80}; expected a whole number of tokens")
    return value


def check_args(extra_args: Mapping[str, Any]) -> None:
    """Check what a runner sends to a service under a budget of tokens or money. InvalidArgumentError."""
    if refused := sorted(extra_args.keys() - SAFE_ARGS):
        raise InvalidArgumentError(
            f"extra_args may not hold {', '.join(map(repr, refused))} under a budget of tokens or cost, as "
            "that may change what a call uses; the operator can set it in `extra_args` of the model"
        )


def limited(extra_args: Mapping[str, Any], entry: ModelEntry, tokens: int) -> dict[str, Any]:
    """Return the arguments with a limit of the output, under the name by which it was limited before."""
    given = {**entry.extra_args, **extra_args}
    names = [name for name in OUTPUT_ARGS if given.get(name) is not None] or ["max_tokens"]
    return {**extra_args, **{name: min(tokens, given.get(name) or tokens) for name in names}}


def need_of(tokens: int, output: int, entry: ModelEntry, context_window: int | None) -> Need:
    """Return what a call may use: `tokens` of input, but no more than fit into the model's window."""
    tokens = tokens if context_window is None else min(tokens, context_window)
    price = entry.price
    if price is None:
        return Need(ONE_CALL, True, tokens, 0, output)
    dearest = max(_per_token(price.input), _per_token(price.cached or 0))
    cost = int((dearest * tokens).to_integral_value(ROUND_CEILING))
    return Need(ONE_CALL, True, tokens, min(cost, MOST), output, _per_token(price.output))


def _per_token(price: float) -> Decimal:
    return max(Decimal(str(price)) * _NANO_PER_PRICE, Decimal(0))
