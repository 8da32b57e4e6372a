"""The runner's configuration, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from hostler_sdk.types import NOT_CHOSEN, ModelMessage, text_of

DEFAULT_PROMPT = (ModelMessage(role="system", content="You are a helpful assistant."),)
MAX_PASSAGES = 100
"""Passages of one knowledge base, a limit of the protocol."""
MAX_RERANKED = 64
"""Documents that a model ranks at once, a limit of the protocol."""
ExecutionMode = Literal["parallel", "serial"]


class SettingsError(Exception):
    """The configuration cannot be used; the text says what would be right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run. `models` in the order in which they are tried; context sizes in tokens."""

    models: tuple[str, ...]
    prompt: tuple[ModelMessage, ...]
    remove_think: bool
    show_reasoning: bool
    """Whether a model's thinking is sent to who watches the run."""
    knowledge_bases: tuple[str, ...]
    retrieval_top_k: int
    rerank_model: str | None
    rerank_top_k: int
    max_tool_iterations: int
    tool_execution_mode: ExecutionMode
    max_tool_result_chars: int
    history_at_a_time: int
    """Messages of one page of history; 0: history is not read."""
    window: int
    reserve: int
    keep_recent: int
    summary: int


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Read the runner's configuration. Raises SettingsError with the key and what it must be."""
    return Settings(
        models=_models(config.get("model")),
        prompt=_prompt(config.get("prompt")),
        remove_think=bool(config.get("remove-think", False)),
        show_reasoning=bool(config.get("show-reasoning", False)),
        knowledge_bases=_names(config, "knowledge-bases"),
        retrieval_top_k=_whole(config, "retrieval-top-k", 5, least=1, most=MAX_PASSAGES),
        rerank_model=_chosen(config.get("rerank-model")),
        rerank_top_k=_whole(config, "rerank-top-k", 5, least=1, most=MAX_RERANKED),
        max_tool_iterations=_whole(config, "max-tool-iterations", 100),
        tool_execution_mode=_mode(config.get("tool-execution-mode") or "parallel"),
        max_tool_result_chars=_whole(config, "max-tool-result-chars", 20_000, least=1),
        history_at_a_time=_whole(config, "context-history-fetch-limit", 50),
        window=_whole(config, "context-window-tokens", 200_000, least=1),
        reserve=_whole(config, "context-reserve-tokens", 16_384),
        keep_recent=_whole(config, "context-keep-recent-tokens", 20_000),
        summary=_whole(config, "context-summary-tokens", 8_000, least=1),
    )


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


def _names(config: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = config.get(key) or []
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise SettingsError(f"config `{key}` is {value!r:.80}; it must be a list of ids")
    return tuple(dict.fromkeys(name for name in listed if name not in NOT_CHOSEN))


def _chosen(value: Any) -> str | None:
    return value if isinstance(value, str) and value not in NOT_CHOSEN else None


def _mode(value: Any) -> ExecutionMode:
    if value not in ("parallel", "serial"):
        raise SettingsError(f"config `tool-execution-mode` is {value!r:.80}; it must be parallel or serial")
    return cast(ExecutionMode, value)


def _whole(
    config: Mapping[str, Any], key: str, default: int, *, least: int = 0, most: int | None = None
) -> int:
    value = config.get(key, default)
    if value is None:
        return default
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or value < least or (most is not None and value > most):
        reach = f"{least} or more" if most is None else f"from {least} to {most}"
        raise SettingsError(f"config `{key}` is {value!r:.80}; it must be {reach}")
    return cast(int, value)
