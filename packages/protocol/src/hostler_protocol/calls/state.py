"""Calls of state and storage."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.limits import Count

STATE_KEY_ALIASES = {"conversation_id": "external.conversation_id"}
"""Aliases of state keys. Every call accepts the alias; answers name the key."""


def state_keys_with(prefix: str) -> list[str]:
    """Return the state keys that match `prefix` only by their alias."""
    return [
        key
        for alias, key in STATE_KEY_ALIASES.items()
        if alias.startswith(prefix) and not key.startswith(prefix)
    ]


class StateGetParams(CallParams):
    """`state.get`. The key `conversation_id` means `external.conversation_id`."""

    scope: str
    key: str


class StateGetReply(Strict):
    """The value and its version, which the host always sends; version 0: there is no value."""

    value: Any
    version: Count = 0


class StateSetParams(CallParams):
    """`state.set`; with `if_version`, only if the value has that version (0: only if there is none)."""

    scope: str
    key: str
    value: Any
    if_version: Count | None = None


class StateSetReply(Strict):
    """The version written."""

    version: Count


class StateDeleteParams(CallParams):
    """`state.delete`."""

    scope: str
    key: str


class DeletedReply(Strict):
    """Whether the key existed."""

    deleted: bool


class StateListParams(CallParams):
    """`state.list`: the keys of a scope, sorted. `prefix` is literal text; it may match a key's alias."""

    scope: str
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None


class KeyPage(Strict):
    """One page of keys."""

    items: list[str]
    next_cursor: str | None = None
    has_more: bool = False


StorageArea = Literal["plugin", "workspace"]


class StorageGetParams(CallParams):
    """`storage.get`."""

    area: StorageArea
    key: str


class StorageGetReply(Strict):
    """The value in base64; None: there is none."""

    content_base64: str | None


class StorageSetParams(CallParams):
    """`storage.set`: at most 4 MiB decoded."""

    area: StorageArea
    key: str
    content_base64: str


class StorageDeleteParams(CallParams):
    """`storage.delete`."""

    area: StorageArea
    key: str


class StorageKeysParams(CallParams):
    """`storage.keys`: the keys of an area, sorted; `prefix` is literal text."""

    area: StorageArea
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None
