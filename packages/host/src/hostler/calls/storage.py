"""`storage.*`: bytes that the plugin, or all runners of the workspace, keep by key."""

from __future__ import annotations

import base64

from hostler.calls.pages import capped
from hostler.calls.scope import CallScope, Effect
from hostler.calls.state import key_page
from hostler.domain.keys import base64_of
from hostler.domain.quotas import QuotaExceeded
from hostler.storage.port import Tx
from hostler.storage.stores import plugin_storage
from hostler_protocol.calls import (
    DeletedReply,
    KeyPage,
    Nothing,
    StorageArea,
    StorageDeleteParams,
    StorageGetParams,
    StorageGetReply,
    StorageKeysParams,
    StorageSetParams,
)
from hostler_protocol.errors import HostlerError, PayloadTooLargeError
from hostler_protocol.limits import MAX_STORAGE_VALUE_BYTES


async def get(scope: CallScope, params: StorageGetParams) -> StorageGetReply:
    """`storage.get`; None where there is no such key."""
    owner = _owner(scope, params.area)
    value = await scope.services.db.read(
        lambda tx: plugin_storage.get(tx, scope.workspace_id, owner, params.key)
    )
    return StorageGetReply(content_base64=None if value is None else base64.b64encode(value).decode())


async def set_(scope: CallScope, params: StorageSetParams) -> Effect:
    """`storage.set`: at most 4 MiB."""
    owner = _owner(scope, params.area)
    value = base64_of("content_base64", params.content_base64, MAX_STORAGE_VALUE_BYTES)

    def work(tx: Tx) -> Nothing | HostlerError:
        full = plugin_storage.set(tx, scope.workspace_id, owner, params.key, value, allotment=scope.allotment)
        if isinstance(full, QuotaExceeded):
            return full.error
        if full is not None:
            return PayloadTooLargeError(f"{params.area} storage holds {full.limit:,} keys: delete some first")
        return Nothing()

    return Effect(work)


async def delete(scope: CallScope, params: StorageDeleteParams) -> Effect:
    """`storage.delete`: whether there was a value."""
    owner = _owner(scope, params.area)
    return Effect(
        lambda tx: DeletedReply(deleted=plugin_storage.delete(tx, scope.workspace_id, owner, params.key))
    )


async def keys(scope: CallScope, params: StorageKeysParams) -> KeyPage:
    """`storage.keys`: keys in order, those with a literal prefix."""
    owner, prefix = _owner(scope, params.area), params.prefix or ""
    cursors = scope.services.cursors.scoped("storage.keys", [scope.workspace_id, owner, prefix])
    after = "" if params.cursor is None else cursors.read_text(params.cursor)
    stored = await scope.services.db.read(
        lambda tx: plugin_storage.keys(
            tx, scope.workspace_id, owner, prefix=prefix, after=after, limit=capped(params.limit)
        )
    )
    return key_page(list(stored.items), stored.has_more, cursors)


def _owner(scope: CallScope, area: StorageArea) -> str:
    """Whose storage it is: the identity of the grant, never one that a message names."""
    return scope.grant.owner if area == "plugin" else plugin_storage.WORKSPACE
