"""Read the JSON of requests: each reader names the place of a wrong value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.json_values import json_problem
from hostler_sdk.model_door.limits import MAX_BODY_DEPTH
from hostler_sdk.model_door.problems import DoorError, invalid, unsupported

Json = dict[str, Any]


def decode_body(body: bytes) -> Json:
    """Return the object in a body, without the keys whose value is null."""
    try:
        value = msgspec.json.decode(body)
    except DECODE_ERRORS as error:
        raise DoorError(400, f"the body is not JSON: {error}", "invalid_json") from None
    if not isinstance(value, dict):
        raise DoorError(400, "the body is not a JSON object", "invalid_json")
    if (problem := json_problem(value, "body")) is not None or _is_too_deep(value):
        raise invalid(problem or f"the body is nested over {MAX_BODY_DEPTH} deep")
    return {name: one for name, one in value.items() if one is not None}


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_BODY_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def text_in(given: Mapping[str, Any], name: str, place: str = "") -> str:
    """Return a text that must be there."""
    value = given.get(name)
    if not isinstance(value, str):
        raise invalid(f"{place}{name} must be a text", f"{place}{name}")
    return value


def object_in(given: Mapping[str, Any], name: str, place: str = "") -> Json:
    """Return an object that must be there."""
    value = given.get(name)
    if not isinstance(value, dict):
        raise invalid(f"{place}{name} must be an object", f"{place}{name}")
    return value


def objects_in(value: Any, place: str) -> list[Json]:
    """Return a list of objects."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise invalid(f"{place} must be a list of objects", place)
    return value


def flag_in(given: Mapping[str, Any], name: str) -> bool:
    """Return a truth value; absent: false."""
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise invalid(f"{name} must be true or false", name)
    return value


def check_known(given: Mapping[str, Any], known: frozenset[str], place: str) -> None:
    """Refuse keys that say something and are not known: leaving them out could change the answer."""
    for name, value in given.items():
        if name not in known and value not in (None, "", [], {}, False):
            raise unsupported(f"{place}{name}", "it cannot be passed on to the model")
