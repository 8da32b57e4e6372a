"""A small JSON Schema validator: the keywords that our documents use, and a complaint about any other."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {
    *(
        "$ref",
        "type",
        "properties",
        "required",
        "uniqueItems",
        "additionalProperties",
        "items",
        "anyOf",
        "enum",
        "const",
    ),
    *("minimum", "maximum", "minLength", "maxLength", "pattern", "maxItems", "minItems", "discriminator"),
    *("title", "description", "default", "prefixItems", "contentEncoding", "format", "uniqueItems"),
}


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> list[str]:
    """What is wrong with `value`; references are resolved in `document`."""
    unknown = set(schema) - _KNOWN
    if unknown:
        return [f"{at}: the schema has {unknown}, which this validator does not know"]
    if "$ref" in schema:
        target: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return faults(value, target, document, at)
    if "anyOf" in schema:
        choices = [faults(value, choice, document, at) for choice in schema["anyOf"]]
        if all(choices):
            return min(choices, key=len)
    found = _scalar_faults(value, schema, at)
    if found:
        return found
    if isinstance(value, dict):
        return _object_faults(value, schema, document, at)
    if isinstance(value, list) and "items" in schema:
        return [
            fault
            for index, item in enumerate(value)
            for fault in faults(item, schema["items"], document, f"{at}[{index}]")
        ]
    return []


def _scalar_faults(value: Any, schema: dict[str, Any], at: str) -> list[str]:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted or []
    if names and not any(_is(value, name) for name in names):
        return [f"{at}: {value!r} is no {wanted}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    if "const" in schema and value != schema["const"]:
        return [f"{at}: {value!r} is not {schema['const']!r}"]
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        return [f"{at}: {value!r} is out of range"]
    if isinstance(value, str):
        length = len(value)
        if not schema.get("minLength", 0) <= length <= schema.get("maxLength", length):
            return [f"{at}: {length} characters"]
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return [f"{at}: {value!r} does not match {schema['pattern']}"]
    return []


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _object_faults(
    value: dict[str, Any], schema: dict[str, Any], document: dict[str, Any], at: str
) -> list[str]:
    found = [f"{at}: {name} is missing" for name in schema.get("required", []) if name not in value]
    properties = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for name, item in value.items():
        place = f"{at}.{name}"
        if name in properties:
            found += faults(item, properties[name], document, place)
        elif rest is False:
            found.append(f"{place}: unknown")
        elif isinstance(rest, dict):
            found += faults(item, rest, document, place)
    return found
