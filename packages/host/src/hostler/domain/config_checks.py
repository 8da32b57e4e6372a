"""Check the stored values of a runner's configuration against its form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, get_args

import msgspec

from hostler.domain.config_mistakes import Mistake, key_place, nearest
from hostler.domain.secret_refs import is_reference, is_sealed
from hostler.domain.suggestions import MAX_LISTED, did_you_mean
from hostler.domain.type_fit import fit
from hostler_protocol.content import ModelMessage
from hostler_protocol.limits import KIB
from hostler_protocol.manifest import NOT_CHOSEN, FormItem, FormItemType

TIMEOUT_KEY = "timeout"
"""The run's deadline in seconds, which the host reads whether or not the form has such an item."""
MAX_CONFIG_VALUE_BYTES = 256 * KIB
"""One configuration value as JSON; the whole configuration is sent with every run."""
MAX_UNKNOWN = 100
"""Unknown options that are reported; finding the nearest correct name for each takes time."""
MAX_SELECTED = 1_000
"""Resources one item may select."""

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


def config_mistakes(schema: Iterable[FormItem], stored: Mapping[str, Any]) -> list[Mistake]:
    """Return every mistake, those in the form's defaults included; places are relative to `config`."""
    form = {item.name: item for item in schema}
    found = [
        Mistake(key_place("", name), f"unknown option{nearest(name, [*form, TIMEOUT_KEY])}")
        for name in islice((one for one in stored if one not in form and one != TIMEOUT_KEY), MAX_UNKNOWN)
    ]
    values, referring = with_defaults(form.values(), stored), referring_defaults(form.values())
    for name, item in form.items():
        value = values.get(name)
        if _is_empty(item, value):
            if item.required and is_shown(item, values, form):
                found.append(Mistake(key_place("", name), f"is required: give it {_WANTED[item.kind]}"))
        elif name not in stored and item in referring:
            text = f"{referring_default(item)}: give {name!r} a value"
            found.append(Mistake(key_place("", name), text))
        elif name in stored:
            found += [mistake.within(key_place("", name)) for mistake in _item_mistakes(item, value)]
        elif mistakes := list(_item_mistakes(item, value)):
            text = f"the runner's own default does not fit ({mistakes[0].text}): give it {_WANTED[item.kind]}"
            found.append(Mistake(key_place("", name), text))
    timeout = stored.get(TIMEOUT_KEY)
    if TIMEOUT_KEY not in form and timeout is not None and not _is_number(timeout):
        found.append(Mistake(TIMEOUT_KEY, f"expected a number of seconds or null, not {timeout!r:.80}"))
    return found


def referring_defaults(schema: Iterable[FormItem]) -> list[FormItem]:
    """Return the items whose default is a reference to a secret, which a form may not have."""
    return [item for item in schema if item.kind == "secret" and is_reference(item.default)]


def referring_default(item: FormItem) -> str:
    """Return the error message for an item that `referring_defaults` returned."""
    return (
        f"the form's default of {item.name!r}, {item.default:.200}, is a reference to a secret, which only "
        "an agent's own configuration may make"
    )


def with_defaults(schema: Iterable[FormItem], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's defaults, overridden by the stored values."""
    return {item.name: item.default for item in schema if item.default is not None} | dict(stored)


def chosen_places(item: FormItem, value: Any) -> list[tuple[str, str]]:
    """Return (place relative to the item, id) for each id that a selector's value chooses."""
    match value:
        case str():
            found: list[tuple[str, Any]] = [("", value)]
        case list():
            found = [(f"[{number}]", one) for number, one in enumerate(value)]
        case Mapping():
            fallbacks = value.get("fallbacks")
            found = [("primary", value.get("primary"))]
            found += [
                (f"fallbacks[{number}]", one)
                for number, one in enumerate(fallbacks if isinstance(fallbacks, list) else [])
            ]
        case _:
            found = []
    return [(place, one) for place, one in found if isinstance(one, str) and one not in NOT_CHOSEN]


SELECTORS = frozenset(
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


def chosen(item: FormItem, value: Any) -> list[str]:
    """Return the ids that a selector's value chooses, in order."""
    return [one for _, one in chosen_places(item, value)]


def _is_empty(item: FormItem, value: Any) -> bool:
    if value is None or item.kind == "json":
        return value is None
    if item.kind in SELECTORS:
        return not chosen(item, value) and _is_unchosen_form(value)
    return isinstance(value, str) and value == ""


def _is_unchosen_form(value: Any) -> bool:
    """Whether a selector's value is one of the accepted forms of no choice."""
    if isinstance(value, Mapping):
        return set(value) <= {"primary", "fallbacks"} and value.get("primary") in (None, *NOT_CHOSEN)
    return value in ([], *NOT_CHOSEN)


def is_shown(item: FormItem, values: Mapping[str, Any], form: Mapping[str, FormItem]) -> bool:
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
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_SELECTED and all(map(_is_text, value))


class _Fallbacks(msgspec.Struct, forbid_unknown_fields=True):
    """A model, and those that are tried if it fails."""

    primary: str | None = None
    fallbacks: Annotated[list[str], msgspec.Meta(max_length=MAX_SELECTED)] | None = None


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
    "prompt-editor": _is_text,
    "llm-model-selector": _is_text,
    "model-fallback-selector": _is_text,
    "rerank-model-selector": _is_text,
    "knowledge-base-multi-selector": lambda value: isinstance(value, str) or _is_names(value),
    "tool-multi-selector": _is_names,
}


def _item_mistakes(item: FormItem, value: Any) -> Iterator[Mistake]:
    """Yield the mistakes in one value; places are relative to the item."""
    if is_sealed(value):
        if item.kind != "secret":
            yield Mistake(
                "", f"a secret is stored here, but the form wants {_WANTED[item.kind]}: write it again"
            )
        return  # longer than the secret, which was checked before it was sealed
    check = _TYPE_CHECKS.get(item.kind)
    if item.kind == "prompt-editor" and isinstance(value, list):
        yield from fit(value, list[ModelMessage])[1]
    elif item.kind == "model-fallback-selector" and isinstance(value, Mapping):
        yield from fit(value, _Fallbacks)[1]
    elif check is not None and not check(value):
        yield Mistake("", f"expected {_WANTED[item.kind]}, not {_shown(item, value)}")
    elif item.kind in ("select", "multiselect") and item.options is not None:
        yield from _option_mistakes(item, item.options, value)
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        yield Mistake("", f"this is not a JSON value: {error}")
    else:
        if size > MAX_CONFIG_VALUE_BYTES:
            yield Mistake("", f"has {size:,} bytes of JSON; at most {MAX_CONFIG_VALUE_BYTES:,} are allowed")


def _option_mistakes(item: FormItem, options: list[Any], value: Any) -> Iterator[Mistake]:
    allowed = [_option_value(option) for option in options]
    choices = enumerate(value) if item.kind == "multiselect" else [(None, value)]
    for number, one in choices:
        if not any(one == option and isinstance(one, bool) == isinstance(option, bool) for option in allowed):
            place = "" if number is None else f"[{number}]"
            close = did_you_mean(str(one), map(str, allowed)) if allowed else ""
            if not close.startswith("did you mean"):
                more = f" and {len(allowed) - MAX_LISTED} more" if len(allowed) > MAX_LISTED else ""
                close = f"its options are {', '.join(map(repr, allowed[:MAX_LISTED]))}{more}"
            yield Mistake(place, f"{one!r:.80} is no option; {close}")


def _shown(item: FormItem, value: Any) -> str:
    return type(value).__name__ if item.kind == "secret" else f"{value!r:.80}"


def _option_value(option: Any) -> Any:
    """Return the value of an option: itself, or in a mapping its `value` or `name`."""
    if isinstance(option, Mapping):
        return option["value"] if "value" in option else option.get("name")
    return option
