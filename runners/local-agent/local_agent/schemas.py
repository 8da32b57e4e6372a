"""Adapt a tool's schema to model services. Pure.

Services refuse a whole request because of one tool whose schema is not an object at its root, is an object
only through alternatives or a reference, or has lists without items. The host checks a call against the
tool's own schema, so the offered schema may accept more, but never less.
"""

from __future__ import annotations

from typing import Any

MAX_DESCRIPTION_CHARS = 1_024
"""Description of a function, a limit of common services."""
MAX_DEPTH = 48
"""Depth to which schemas are read; schemas written by people are never deeper."""
_COMBINED = ("allOf", "anyOf", "oneOf")
_NOT_AT_ROOT = (*_COMBINED, "not", "enum", "const", "if", "then", "else", "$ref", "$schema", "$id")
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("prefixItems", *_COMBINED)
SINGLE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")


def offered_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return an object schema that accepts at least what `parameters` accepts."""
    root = _resolved(parameters, parameters)
    properties: dict[str, Any] = {}
    required: set[str] = set()
    _gather(root, parameters, properties, required, 0)
    kept = {key: value for key, value in root.items() if key not in _NOT_AT_ROOT}
    if any(key in root for key in (*_COMBINED, "$ref")):
        kept.pop("additionalProperties", None)  # it covered the properties of this part only
    whole: dict[str, Any] = {**kept, "type": "object", "properties": properties}
    whole.pop("required", None)
    if named := [name for name in properties if name in required]:
        whole["required"] = named
    if "$defs" in parameters:
        whole["$defs"] = parameters["$defs"]
    if "definitions" in parameters:
        whole["definitions"] = parameters["definitions"]
    plain = _plain(whole, 0)
    assert isinstance(plain, dict)
    return plain


def _gather(
    part: dict[str, Any],
    whole: dict[str, Any],
    properties: dict[str, Any],
    required: set[str],
    depth: int,
) -> None:
    """Collect the properties of a schema and its alternatives, and those that are always required."""
    if isinstance(own := part.get("properties"), dict):
        for name, schema in own.items():
            known = properties.setdefault(name, schema)
            if known != schema:
                properties[name] = {"anyOf": [known, schema]}
    if isinstance(named := part.get("required"), list):
        required |= {name for name in named if isinstance(name, str)}
    if depth >= MAX_DEPTH:
        return
    for key in _COMBINED:
        branches = part.get(key)
        if not isinstance(branches, list):
            continue
        found: list[set[str]] = []
        for branch in branches:
            needs: set[str] = set()
            if isinstance(branch, dict):
                _gather(_resolved(branch, whole), whole, properties, needs, depth + 1)
            found.append(needs)
        if found:
            required |= set.union(*found) if key == "allOf" else set.intersection(*found)


def _resolved(part: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a local reference points to, or the part itself."""
    seen: set[str] = set()
    while isinstance(reference := part.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        found: Any = whole
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not reference.startswith("#/") or not isinstance(found, dict):
            break
        part = found
    return part


def _plain(schema: Any, depth: int) -> Any:
    """Rewrite `true` and lists without items into forms that every service reads."""
    if schema is True:
        return {}
    if not isinstance(schema, dict) or depth >= MAX_DEPTH:
        return schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key in MAPS and isinstance(value, dict):
            plain[key] = {name: _plain(one, depth + 1) for name, one in value.items()}
        elif key in LISTS and isinstance(value, list):
            plain[key] = [_plain(one, depth + 1) for one in value]
        elif key == "items" and isinstance(value, list):  # a tuple, as older drafts write it
            plain["items"] = {}
        elif key in SINGLE and isinstance(value, dict):
            plain[key] = _plain(value, depth + 1)
        else:
            plain[key] = value
    kind = plain.get("type")
    if kind == "array" or (isinstance(kind, list) and "array" in kind):
        plain["items"] = plain["items"] if isinstance(plain.get("items"), dict) else {}
    return plain
