"""The runner's configuration, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hostler_sdk.types import NOT_CHOSEN, ModelMessage, text_of

DEFAULT_PROMPT = (ModelMessage(role="system", content="You are a helpful assistant."),)
MAX_HISTORY_ITEMS = 1_000
"""Ten pages of history; longer memories are the work of summaries."""


class SettingsError(Exception):
    """The configuration cannot be used; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What this run is to do. `models` in the order they are tried."""

    models: tuple[str, ...]
    prompt: tuple[ModelMessage, ...]
    remove_think: bool
    history_limit: int


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Settings of a runner configuration. SettingsError names the key and what it must be."""
    return Settings(
        models=_models(config.get("model")),
        prompt=_prompt(config.get("prompt")),
        remove_think=bool(config.get("remove-think", False)),
        history_limit=_history_limit(config.get("context-history-fetch-limit", 50)),
    )


def unused_settings(config: Mapping[str, Any], tools: int) -> list[str]:
    """Sentences about what is configured and not acted on by this version; `tools` granted to the run."""
    notes = []
    if config.get("knowledge-bases"):
        notes.append("knowledge-bases is set, but this version of local-agent searches none")
    if str(config.get("rerank-model") or "") not in NOT_CHOSEN:
        notes.append("rerank-model is set, but this version of local-agent retrieves nothing to order")
    if tools:
        notes.append(f"{tools} tools are granted, but this version of local-agent calls none")
    return notes


def _models(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        chosen: list[Any] = [value]
    elif isinstance(value, Mapping):
        fallbacks = value.get("fallbacks") or []
        if not isinstance(fallbacks, list):
            raise SettingsError('config `model.fallbacks` must be a list of model ids, like ["small"]')
        chosen = [value.get("primary"), *fallbacks]
    else:
        chosen = []
    models = tuple(dict.fromkeys(m for m in chosen if isinstance(m, str) and m not in NOT_CHOSEN))
    if not models:
        raise SettingsError('no model is chosen; set config `model` to {"primary": "<model id>"}')
    return models


def _prompt(value: Any) -> tuple[ModelMessage, ...]:
    if value is None:
        return DEFAULT_PROMPT
    if isinstance(value, str):
        return (ModelMessage(role="system", content=value),) if value.strip() else ()
    try:
        messages = msgspec.convert(value, list[ModelMessage])
    except msgspec.ValidationError as error:
        example = '[{"role": "system", "content": "..."}]'
        raise SettingsError(f"config `prompt` must be text, or messages like {example}: {error}") from error
    return tuple(message for message in messages if text_of(message.content).strip())


def _history_limit(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SettingsError(f"config `context-history-fetch-limit` is {value!r}; it must be 0 or more")
    return min(value, MAX_HISTORY_ITEMS)
