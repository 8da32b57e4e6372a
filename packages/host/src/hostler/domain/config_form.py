"""Build an agent's runner configuration: the form's defaults, overridden by the stored values, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from hostler.domain.config_checks import SELECTORS, TIMEOUT_KEY, chosen, config_mistakes, with_defaults
from hostler.domain.record import Record
from hostler.domain.secret_refs import is_reference, is_sealed
from hostler_protocol.content import ModelMessage
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import DEFAULT_TIMEOUT_SECONDS
from hostler_protocol.manifest import FormItem, FormItemType

HIDDEN = "***"
"""Shown in place of a secret that is written out in the configuration."""


ResourceKind = Literal["models", "rerank_models", "knowledge_bases", "tools", "files"]


class Selection(Record):
    """The resource ids that a configuration selects, in the order of the form, each once.

    `models` includes rerank models, `llm_models` does not. `chosen_by`: the kinds of resources for which the
    configuration makes a choice, even an empty list, with the items of the form that make it. Absent, null,
    '' and `__none__` are no choice.
    """

    models: tuple[str, ...] = ()
    knowledge_bases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    chosen_by: Mapping[ResourceKind, Sequence[str]] = msgspec.field(default_factory=dict)
    llm_models: tuple[str, ...] = ()

    @property
    def decided(self) -> frozenset[ResourceKind]:
        """The kinds of resources for which the configuration makes a choice."""
        return frozenset(self.chosen_by)


class Configuration(Record):
    """A checked configuration.

    `values` go to the runner, after `with_secrets` has filled in the resolved secrets; `secrets` maps names
    of items to their references, `sealed` to secrets that were written out and are sealed. `shown` may be
    stored and displayed: it has the references, but no secrets that were written out.
    """

    values: dict[str, Any]
    shown: dict[str, Any]
    selected: Selection = Selection()
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    sealed: dict[str, str] = msgspec.field(default_factory=dict)
    prompt: tuple[ModelMessage, ...] = ()
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS

    @property
    def written_out(self) -> Iterator[str]:
        """The secrets that are written out and not sealed."""
        for name, value in self.shown.items():
            if value == HIDDEN and isinstance(self.values[name], str) and name not in self.sealed:
                yield self.values[name]

    def with_secrets(self, resolved: Mapping[str, str]) -> dict[str, Any]:
        """Return the values with each secret in its place; `resolved` is keyed by item name."""
        return self.values | {name: resolved[name] for name in (*self.secrets, *self.sealed)}


def configure(schema: Iterable[FormItem], stored: Mapping[str, Any]) -> Configuration:
    """Check `stored` against the form and fill in its defaults.

    Only `stored` may refer to secrets, since an operator wrote it; the form comes from the plugin. A
    reference as the default of a secret is refused unless `stored` overrides it. InvalidArgumentError names
    every invalid item, the mistake and what is expected.
    """
    items = list(schema)
    if mistakes := config_mistakes(items, stored):
        raise InvalidArgumentError("; ".join(mistake.within("config").sentence for mistake in mistakes))
    form = {item.name: item for item in items}
    values = with_defaults(items, stored)
    secrets = _secret_references(form, stored)
    hidden = {name for name, item in form.items() if item.kind == "secret"} - set(secrets)
    return Configuration(
        values=values,
        shown={name: HIDDEN if name in hidden and value else value for name, value in values.items()},
        selected=_selection(form, values),
        secrets=secrets,
        sealed={name: value for name, value in stored.items() if name in hidden and is_sealed(value)},
        prompt=_prompt(form, values),
        timeout_seconds=_timeout(values),
    )


# -- selected resources ---------------------------------------------------------------------------


def _selection(form: Mapping[str, FormItem], values: Mapping[str, Any]) -> Selection:
    found: dict[ResourceKind, dict[str, None]] = {kind: {} for kind in get_args(ResourceKind)}
    models: dict[str, None] = {}
    chosen_by: dict[ResourceKind, list[str]] = {}
    for name, item in form.items():
        if item.kind not in SELECTORS or values.get(name) is None:
            continue
        kind, names = _selects(item.kind), dict.fromkeys(chosen(item, values[name]))
        if names or isinstance(values[name], list):
            chosen_by.setdefault(kind, []).append(name)
        found[kind].update(names)
        models.update(names if kind in ("models", "rerank_models") else {})
    return Selection(
        models=tuple(models),
        knowledge_bases=tuple(found["knowledge_bases"]),
        tools=tuple(found["tools"]),
        files=tuple(found["files"]),
        chosen_by=chosen_by,
        llm_models=tuple(found["models"]),
    )


def _selects(kind: FormItemType) -> ResourceKind:
    match kind:
        case "knowledge-base-multi-selector":
            return "knowledge_bases"
        case "tool-multi-selector":
            return "tools"
        case "rerank-model-selector":
            return "rerank_models"
        case "file" | "array[file]":
            return "files"
        case _:
            return "models"


def _secret_references(form: Mapping[str, FormItem], stored: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: stored[name]
        for name, item in form.items()
        if item.kind == "secret" and is_reference(stored.get(name))
    }


def _prompt(form: Mapping[str, FormItem], values: Mapping[str, Any]) -> tuple[ModelMessage, ...]:
    """Return the messages of the first prompt editor; a plain text is one system message."""
    for name, item in form.items():
        value = values.get(name)
        if item.kind == "prompt-editor" and value is not None:
            if isinstance(value, str):
                return (ModelMessage(role="system", content=value),) if value else ()
            return tuple(msgspec.convert(value, list[ModelMessage]))
    return ()


def _timeout(values: Mapping[str, Any]) -> float | None:
    """Return the seconds, or None for no deadline. Absent: the default; null or <= 0: no deadline."""
    if TIMEOUT_KEY not in values:
        return float(DEFAULT_TIMEOUT_SECONDS)
    value = values[TIMEOUT_KEY]
    if value is None:
        return None
    return float(value) if value > 0 else None
