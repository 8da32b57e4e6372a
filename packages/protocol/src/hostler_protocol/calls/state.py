"""Calls of state and storage."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.limits import Count

STATE_KEY_ALIASES = {"conversation_id": "external.conversation_id"}
"""Other names of state keys. Every call takes either name; answers hold the key itself."""


def state_keys_with(prefix: str) -> list[str]:
    """State keys that have `prefix` in an alias alone."""
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
    """The value and its version, which the host always names; version 0: absent."""

    value: Any
    version: Count = 0


class StateSetParams(CallParams):
    """`state.set`; with `if_version`, only from that version (0: only if absent)."""

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
    """Whether there was something to delete."""

    deleted: bool


class StateListParams(CallParams):
    """`state.list`: keys in order; `prefix` is literal text, of the key or of its alias."""

    scope: str
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None


class KeyPage(Strict):
    """Keys of one page."""

    items: list[str]
    next_cursor: str | None = None
    has_more: bool = False


StorageArea = Literal["plugin", "workspace"]


class StorageGetParams(CallParams):
    """`storage.get`."""

    area: StorageArea
    key: str


class StorageGetReply(Strict):
    """None: absent."""

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
    """`storage.keys`."""

    area: StorageArea
    prefix: str | None = None
    limit: Count = 100
    cursor: str | None = None
