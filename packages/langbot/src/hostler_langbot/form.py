"""Configuration forms of LangBot as forms of a host. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from hostler_sdk.types import FormItemType

_OWN_NAMES: dict[str, FormItemType] = {
    "number": "float",
    "int": "integer",
    "bool": "boolean",
    "password": "secret",
    "array[string]": "json",
    "tools-selector": "tool-multi-selector",
}
"""Types that a host has under another name."""
_FIELDS = ("name", "required", "default", "options", "show_if")


def locales_of(text: Any) -> dict[str, str] | None:
    """Return a text of LangBot for people as locale to text, or None if there is none.

    Locales are written `en_US` and `zh_Hans`; a host writes `en` and `zh-Hans`.
    """
    if isinstance(text, str):
        return {"en": text} if text else None
    if not isinstance(text, Mapping):
        return None
    found = {
        "en" if locale == "en_US" else str(locale).replace("_", "-"): said
        for locale, said in text.items()
        if isinstance(said, str) and said
    }
    return found or None


def form_of(items: Any, where: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a form, and notes about items that are shown differently.

    Raises ValueError, whose text begins with `where`, for a form that has no sense.
    """
    if items is None:
        return [], []
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise ValueError(f"{where}: config is a list of items with name and type")
    form, notes, names = [], [], set()
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str) or not item["name"]:
            raise ValueError(f"{where}: item {number} of config has no name")
        name = item["name"]
        if name in names:
            raise ValueError(f"{where}: two items of config are named {name!r}")
        names.add(name)
        kind, note = _kind_of(item)
        if note is not None:
            notes.append(f"{where}: setting {name!r} {note}")
        form.append(_item(item, kind))
    return form, notes


def _kind_of(item: Mapping[str, Any]) -> tuple[str, str | None]:
    stated = item.get("type")
    if stated == "select" and item.get("allow_custom"):
        return "string", None
    if stated in get_args(FormItemType):
        return str(stated), None
    if isinstance(stated, str) and stated in _OWN_NAMES:
        return _OWN_NAMES[stated], None
    return (
        "json",
        f"has the type {str(stated)[:60]!r}, which this host does not know: it takes any JSON value",
    )


def _item(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    found = {field: item[field] for field in _FIELDS if item.get(field) is not None}
    found["type"] = kind
    for field in ("label", "description"):
        if (text := locales_of(item.get(field))) is not None:
            found[field] = text
    if isinstance(options := found.get("options"), Sequence) and not isinstance(options, str):
        found["options"] = [_option(option) for option in options]
    if kind not in ("select", "multiselect"):
        found.pop("options", None)
    return found


def _option(option: Any) -> Any:
    if not isinstance(option, Mapping):
        return option
    label = locales_of(option.get("label"))
    return {**option, "label": label} if label is not None else dict(option)


def defaults_of(items: Any) -> dict[str, Any]:
    """Return the values that a form has by itself; an item without a default is left out."""
    if not isinstance(items, Sequence) or isinstance(items, str):
        return {}
    return {
        item["name"]: item["default"]
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("name"), str) and "default" in item
    }
