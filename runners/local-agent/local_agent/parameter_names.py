"""Rename a tool's parameters for model services, and back. Pure.

Services refuse a whole request because of one parameter named `filter[name]` or `$top`, some of them at any
depth. One table serves a whole schema: each refused name gets a new name that is unique in the schema, so
that the way back does not depend on a name's position in the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from local_agent.schemas import LISTS, MAPS, MAX_DEPTH, SINGLE

MAX_NAME_CHARS = 64
_ALLOWED = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_CHARS}}}")
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")
_NAMED = ("properties", "dependentSchemas", "dependentRequired")
"""Keywords whose value is an object keyed by parameter names."""


def offered_names(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with names that all services accept, and the tool's own name of each new one."""
    found = dict.fromkeys(_names(schema, 0))
    taken = set(found)
    new: dict[str, str] = {}
    for name in found:
        if not _ALLOWED.fullmatch(name):
            new[name] = _free(name, taken)
            taken.add(new[name])
    if not new:
        return schema, {}
    renamed = _renamed(schema, new, 0)
    assert isinstance(renamed, dict)
    return renamed, {offered: own for own, offered in new.items()}


def own_names(value: Any, own: Mapping[str, str]) -> Any:
    """Return the arguments under the tool's own names."""
    if not own:
        return value
    if isinstance(value, dict):
        return {own.get(name, name): own_names(one, own) for name, one in value.items()}
    return [own_names(one, own) for one in value] if isinstance(value, list) else value


def _free(name: str, taken: set[str]) -> str:
    stem = _REFUSED.sub("_", name).strip("_")[:MAX_NAME_CHARS] or "parameter"
    free, number = stem, 1
    while free in taken:
        number += 1
        free = f"{stem[: MAX_NAME_CHARS - 8]}_{number}"
    return free


def _names(schema: Any, depth: int) -> Iterator[str]:
    """Yield every parameter name of a schema, in order."""
    if not isinstance(schema, dict) or depth >= MAX_DEPTH:
        return
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            yield from value
        if key in MAPS and isinstance(value, dict):
            for one in value.values():
                yield from _names(one, depth + 1)
        elif key in LISTS and isinstance(value, list):
            for one in value:
                yield from _names(one, depth + 1)
        elif key in SINGLE:
            yield from _names(value, depth + 1)


def _renamed(schema: Any, new: Mapping[str, str], depth: int) -> Any:
    if not isinstance(schema, dict) or depth >= MAX_DEPTH:
        return schema
    return {key: _renamed_value(key, value, new, depth) for key, value in schema.items()}


def _renamed_value(key: str, value: Any, new: Mapping[str, str], depth: int) -> Any:
    renamed = value
    if key == "required":
        renamed = _renamed_list(value, new)
    elif key == "dependentRequired" and isinstance(value, dict):
        renamed = {new.get(name, name): _renamed_list(names, new) for name, names in value.items()}
    elif key in MAPS and isinstance(value, dict):
        names = new if key in _NAMED else {}
        renamed = {
            names.get(name, name): _explained(_renamed(one, new, depth + 1), name if name in names else None)
            for name, one in value.items()
        }
    elif key in LISTS and isinstance(value, list):
        renamed = [_renamed(one, new, depth + 1) for one in value]
    elif key in SINGLE:
        renamed = _renamed(value, new, depth + 1)
    elif key == "$ref" and isinstance(value, str):
        renamed = _renamed_reference(value, new)
    return renamed


def _renamed_list(names: Any, new: Mapping[str, str]) -> Any:
    if not isinstance(names, list):
        return names
    return [new.get(name, name) if isinstance(name, str) else name for name in names]


def _renamed_reference(reference: str, new: Mapping[str, str]) -> str:
    """Rename the steps of a reference that leads through `properties`."""
    steps = reference.split("/")
    for place in range(1, len(steps)):
        name = steps[place].replace("~1", "/").replace("~0", "~")
        if steps[place - 1] == "properties" and name in new:
            steps[place] = new[name]
    return "/".join(steps)


def _explained(schema: Any, name: str | None) -> Any:
    """Put the parameter's own name, used by documentation and errors, into its description."""
    if name is None or not isinstance(schema, dict) or "$ref" in schema:
        return schema
    description = schema.get("description")
    return {
        **schema,
        "description": f"`{name}`: {description}"
        if isinstance(description, str) and description
        else f"`{name}`",
    }
