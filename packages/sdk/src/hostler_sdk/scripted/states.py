"""State and storage of a scripted host, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler_protocol import calls
from hostler_protocol.grants import STATE_SCOPES
from hostler_protocol.json_values import json_problem
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_sdk.errors import Conflict, InvalidArgument

States = dict[str, dict[str, tuple[Any, int]]]
"""Scope -> key -> value and version."""


def set_state(states: States, scope: str, key: str, value: Any, if_version: int | None = None) -> int:
    """Write a state value, and return its version. Raises InvalidArgument or Conflict as a host does."""
    values = _values_of(states, scope)
    problem = json_problem(value, f"{scope}/{key}")
    if problem is not None:
        raise InvalidArgument(f"states: {problem}")
    key = _state_key(key)
    _, version = values.get(key, (None, 0))
    if if_version is not None and if_version != version:
        raise Conflict(f"{scope}/{key} has version {version}, not {if_version}")
    values[key] = (value, version + 1)
    return version + 1


def answer_state(states: States, params: Any) -> Any:
    """Answer a call on states."""
    values = _values_of(states, params.scope)
    match params:
        case calls.StateGetParams(key=key):
            value, version = values.get(_state_key(key), (None, 0))
            return calls.StateGetReply(value=value, version=version)
        case calls.StateSetParams(scope=scope, key=key, value=value, if_version=if_version):
            return calls.StateSetReply(version=set_state(states, scope, key, value, if_version))
        case calls.StateDeleteParams(key=key):
            return calls.DeletedReply(deleted=values.pop(_state_key(key), None) is not None)
        case _:
            return _keys(values, params, calls.state_keys_with(params.prefix or ""))


def answer_storage(areas: Mapping[str, dict[str, str]], params: Any) -> Any:
    """Answer a call on storage; contents are base64."""
    room = areas[params.area]
    match params:
        case calls.StorageGetParams(key=key):
            return calls.StorageGetReply(content_base64=room.get(key))
        case calls.StorageSetParams(key=key, content_base64=content):
            room[key] = content
            return calls.Nothing()
        case calls.StorageDeleteParams(key=key):
            return calls.DeletedReply(deleted=room.pop(key, None) is not None)
        case _:
            return _keys(room, params)


def _values_of(states: States, scope: str) -> dict[str, tuple[Any, int]]:
    if scope not in states:
        raise InvalidArgument(f"scope {scope!r} is unknown; it is one of {', '.join(STATE_SCOPES)}")
    return states[scope]


def _state_key(key: str) -> str:
    return calls.STATE_KEY_ALIASES.get(key, key)


def _keys(values: Mapping[str, Any], params: Any, aliased: Sequence[str] = ()) -> calls.KeyPage:
    found = sorted(key for key in values if key.startswith(params.prefix or "") or key in aliased)
    found = [key for key in found if params.cursor is None or key > params.cursor]
    limit = max(1, min(params.limit, MAX_PAGE_ITEMS))
    more = len(found) > limit
    return calls.KeyPage(items=found[:limit], next_cursor=found[limit - 1] if more else None, has_more=more)
