"""An agent's runner configuration: the form's defaults, then the stored values, checked against the form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from hostler.domain.nearest import did_you_mean
from hostler.domain.secret_refs import is_reference
from hostler_protocol.content import ModelMessage
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import DEFAULT_TIMEOUT_SECONDS, KIB
from hostler_protocol.manifest import NOT_CHOSEN, FormItem, FormItemType

TIMEOUT_KEY = "timeout"
"""The run's deadline in seconds: the host reads it whether or not the form shows it."""
MAX_CONFIG_VALUE_BYTES = 256 * KIB
"""One configuration value as JSON; a whole configuration travels with every run."""
MAX_SELECTED = 1_000
"""Resources one item may select."""
HIDDEN = "***"
"""Stands where a secret was written out."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The resource ids that a configuration selects, in the order of the form, none twice."""

    models: tuple[str, ...] = ()
    knowledge_bases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Configuration:
    """A checked configuration.

    `values` are what the runner is given, once `with_secrets` has put the resolved secrets in;
    `secrets` maps the names of items to the references they hold. `shown` is what may be stored and shown:
    references stand in it, secrets that were written out do not.
    """

    values: dict[str, Any]
    shown: dict[str, Any]
    selected: Selection = Selection()
    secrets: dict[str, str] = field(default_factory=dict)
    prompt: tuple[ModelMessage, ...] = ()
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS

    def with_secrets(self, resolved: Mapping[str, str]) -> dict[str, Any]:
        """The values with each secret reference replaced; `resolved` is keyed by item name."""
        return self.values | {name: resolved[name] for name in self.secrets}


def configure(schema: Iterable[FormItem], stored: Mapping[str, Any]) -> Configuration:
    """Check `stored` against the form and fill in its defaults.

    Only `stored` may refer to secrets, since an operator wrote it; the form is the plugin's own word. A
    reference as the default of a secret is refused unless `stored` has a value in its place.
    InvalidArgumentError names the item, what was wrong and what would be right.
    """
    form = {item.name: item for item in schema}
    for name in stored:
        if name not in form and name != TIMEOUT_KEY:
            raise InvalidArgumentError(f"config: unknown key {name!r}: {did_you_mean(name, form)}")
    values = {name: item.default for name, item in form.items() if item.default is not None} | dict(stored)
    for name, item in form.items():
        value = values.get(name)
        if _is_empty(item, value):
            if item.required and _is_shown(item, values, form):
                raise InvalidArgumentError(f"config: {name!r} is required: give it {_WANTED[item.kind]}")
        else:
            _check(item, value)
    for item in referring_defaults(form.values()):
        if item.name not in stored:
            raise InvalidArgumentError(f"config: {referring_default(item)}: give {item.name!r} a value")
    secrets = _secret_references(form, stored)
    hidden = {name for name, item in form.items() if item.kind == "secret"} - set(secrets)
    return Configuration(
        values=values,
        shown={name: HIDDEN if name in hidden and value else value for name, value in values.items()},
        selected=_selection(form, values),
        secrets=secrets,
        prompt=_prompt(form, values),
        timeout_seconds=_timeout(values),
    )


def referring_defaults(schema: Iterable[FormItem]) -> list[FormItem]:
    """The items of a form whose defaults are references to secrets, which no form may make."""
    return [item for item in schema if item.kind == "secret" and is_reference(item.default)]


def referring_default(item: FormItem) -> str:
    """Say what is wrong with such an item."""
    return (
        f"the form's default of {item.name!r}, {item.default:.200}, is a reference to a secret, which only "
        "an agent's own configuration may make"
    )


_WANTED: dict[FormItemType, str] = {
    "string": "a text",
    "text": "a text",
    "integer": "an integer",
    "float": "a number",
    "boolean": "true or false",
    "select": "one of its options",
    "multiselect": "a list of its options",
    "secret": "a text, or a reference such as env:NAME or file:PATH",
    "file": "the id of a file",
    "array[file]": "a list of ids of files",
    "prompt-editor": "a list of messages {role, content}, or a text",
    "llm-model-selector": "the id of a model",
    "model-fallback-selector": "{primary: model id, fallbacks: [model id, ...]}, or the id of a model",
    "rerank-model-selector": "the id of a rerank model",
    "knowledge-base-multi-selector": "a list of ids of knowledge bases",
    "tool-multi-selector": "a list of names of tools",
    "json": "any JSON value",
    "select-llm-model": "the id of a model",
    "select-knowledge-bases": "a list of ids of knowledge bases",
}
assert set(_WANTED) == set(get_args(FormItemType))


def _is_empty(item: FormItem, value: Any) -> bool:
    if value is None or item.kind == "json":
        return value is None
    if item.kind in _SELECTORS:
        return not _chosen(item, value) and _is_unchosen_form(value)
    return isinstance(value, str) and value == ""


def _is_unchosen_form(value: Any) -> bool:
    """Whether a selector that chose nothing said so in one of the accepted ways."""
    if isinstance(value, Mapping):
        return set(value) <= {"primary", "fallbacks"} and value.get("primary") in (None, *NOT_CHOSEN)
    return value in ([], *NOT_CHOSEN)


def _is_shown(item: FormItem, values: Mapping[str, Any], form: Mapping[str, FormItem]) -> bool:
    """Whether `show_if` holds: `{name: value or list of values, ...}` or `{field, operator, value}`."""
    condition = item.show_if
    if not condition:
        return True
    if isinstance(condition.get("field"), str) and "value" in condition and "field" not in form:
        actual, wanted = values.get(condition["field"]), condition["value"]
        match condition.get("operator", "eq"):
            case "neq":
                return bool(actual != wanted)
            case "in":
                return isinstance(wanted, list) and actual in wanted
            case _:
                return bool(actual == wanted)
    return all(
        values.get(name) in wanted if isinstance(wanted, list) else values.get(name) == wanted
        for name, wanted in condition.items()
    )


# -- the type of each item ------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_SELECTED and all(map(_is_text, value))


def _is_fallbacks(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if not isinstance(value, Mapping) or not set(value) <= {"primary", "fallbacks"}:
        return False
    primary = value.get("primary")
    return (primary is None or isinstance(primary, str)) and _is_names(value.get("fallbacks") or [])


def _is_prompt(value: Any) -> bool:
    try:
        msgspec.convert(value, str | list[ModelMessage])
    except msgspec.ValidationError:
        return False
    return True


_TYPE_CHECKS: dict[FormItemType, Callable[[Any], bool]] = {
    "string": _is_text,
    "text": _is_text,
    "secret": _is_text,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "multiselect": lambda value: isinstance(value, list) and len(value) <= MAX_SELECTED,
    "file": _is_text,
    "array[file]": _is_names,
    "prompt-editor": _is_prompt,
    "llm-model-selector": _is_text,
    "model-fallback-selector": _is_fallbacks,
    "rerank-model-selector": _is_text,
    "knowledge-base-multi-selector": lambda value: isinstance(value, str) or _is_names(value),
    "tool-multi-selector": _is_names,
}


def _check(item: FormItem, value: Any) -> None:
    check = _TYPE_CHECKS.get(item.kind)
    if check is not None and not check(value):
        raise InvalidArgumentError(
            f"config: {item.name!r} must be {_WANTED[item.kind]}, not {_shown(item, value)}"
        )
    if item.kind in ("select", "multiselect") and item.options is not None:
        allowed = [_option_value(option) for option in item.options]
        for one in value if item.kind == "multiselect" else [value]:
            if one not in allowed:
                known = ", ".join(repr(option) for option in allowed[:20])
                raise InvalidArgumentError(f"config: {item.name!r} is {one!r:.80}; its options are {known}")
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"config: {item.name!r} is not a JSON value: {error}") from None
    if size > MAX_CONFIG_VALUE_BYTES:
        raise InvalidArgumentError(
            f"config: {item.name!r} has {size:,} bytes of JSON; at most {MAX_CONFIG_VALUE_BYTES:,} may be"
        )


def _shown(item: FormItem, value: Any) -> str:
    return type(value).__name__ if item.kind == "secret" else f"{value!r:.80}"


def _option_value(option: Any) -> Any:
    """An option is its value, or a mapping that holds it under `value` or `name`."""
    if isinstance(option, Mapping):
        return option["value"] if "value" in option else option.get("name")
    return option


# -- what it selects ------------------------------------------------------------------------------

_SELECTORS = frozenset(
    {
        "llm-model-selector",
        "model-fallback-selector",
        "rerank-model-selector",
        "knowledge-base-multi-selector",
        "tool-multi-selector",
        "file",
        "array[file]",
    }
)


def _chosen(item: FormItem, value: Any) -> list[str]:
    match value:
        case str():
            names: list[Any] = [value]
        case list():
            names = value
        case Mapping():
            names = [value.get("primary"), *(value.get("fallbacks") or [])]
        case _:
            names = []
    return [name for name in names if isinstance(name, str) and name not in NOT_CHOSEN]


def _selection(form: Mapping[str, FormItem], values: Mapping[str, Any]) -> Selection:
    found: dict[str, dict[str, None]] = {"models": {}, "knowledge_bases": {}, "tools": {}, "files": {}}
    for name, item in form.items():
        if item.kind in _SELECTORS and values.get(name) is not None:
            found[_selects(item.kind)].update(dict.fromkeys(_chosen(item, values[name])))
    return Selection(**{kind: tuple(names) for kind, names in found.items()})


def _selects(kind: FormItemType) -> str:
    match kind:
        case "knowledge-base-multi-selector":
            return "knowledge_bases"
        case "tool-multi-selector":
            return "tools"
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
    """The first prompt editor's messages; a plain text is one system message."""
    for name, item in form.items():
        value = values.get(name)
        if item.kind == "prompt-editor" and value is not None:
            if isinstance(value, str):
                return (ModelMessage(role="system", content=value),) if value else ()
            return tuple(msgspec.convert(value, list[ModelMessage]))
    return ()


def _timeout(values: Mapping[str, Any]) -> float | None:
    """Seconds, None for no deadline. Absent means the default, null or a number <= 0 means none."""
    if TIMEOUT_KEY not in values:
        return float(DEFAULT_TIMEOUT_SECONDS)
    value = values[TIMEOUT_KEY]
    if value is None:
        return None
    if not _is_number(value):
        raise InvalidArgumentError(
            f"config: {TIMEOUT_KEY!r} must be a number of seconds or null, not {value!r:.80}"
        )
    return float(value) if value > 0 else None
