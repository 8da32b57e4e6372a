"""`state.*`: values of the scopes that the grant opens. The gate has checked scope, key and value."""

from __future__ import annotations

from typing import cast

from hostler.calls.cursors import ScopedCursors
from hostler.calls.pages import capped
from hostler.calls.scope import CallScope, Effect
from hostler.domain.accounts import person_of
from hostler.domain.keys import state_key_of, state_value_of
from hostler.domain.quotas import QuotaExceeded
from hostler.domain.scopes import area_of
from hostler.storage.port import Tx
from hostler.storage.stores import state_values
from hostler.storage.stores.key_ranges import Full
from hostler.storage.stores.state_values import VersionConflict
from hostler_protocol.calls import (
    DeletedReply,
    KeyPage,
    StateDeleteParams,
    StateGetParams,
    StateGetReply,
    StateListParams,
    StateSetParams,
    StateSetReply,
)
from hostler_protocol.errors import ConflictError, HostlerError, PayloadTooLargeError
from hostler_protocol.grants import StateScope


async def get(scope: CallScope, params: StateGetParams) -> StateGetReply:
    """`state.get`. Until it is set, `external.conversation_id` is the conversation's own id."""
    scope_key, key = scope.grant.state_keys[params.scope], state_key_of(params.key)
    stored = await scope.services.db.read(
        lambda tx: state_values.get(tx, scope.workspace_id, scope_key, key), brief=True
    )
    if stored.version == 0 and params.scope == "conversation" and key == state_values.EXTERNAL_CONVERSATION:
        return StateGetReply(value=scope.grant.conversation_id, version=0)
    return StateGetReply(value=stored.value, version=stored.version)


async def set_(scope: CallScope, params: StateSetParams) -> Effect:
    """`state.set`, with `if_version` only from that version."""
    scope_key = scope.grant.state_keys[params.scope]
    area = area_of(
        cast(StateScope, params.scope),
        scope_key,
        scope.grant.agent_id,
        scope.event.envelope,
        person_of(scope.grant.across),
    )
    key, value = state_key_of(params.key), state_value_of(params.value)

    def work(tx: Tx) -> StateSetReply | HostlerError:
        written = state_values.set(
            tx,
            scope.workspace_id,
            area,
            key,
            value,
            if_version=params.if_version,
            bounds=scope.allotment.bounds,
        )
        match written:
            case QuotaExceeded():
                return written.error
            case VersionConflict(version=version):
                return ConflictError(
                    f"{key!r} has version {version}, not {params.if_version}: read it again", version=version
                )
            case Full(limit=limit):
                return PayloadTooLargeError(f"scope {params.scope!r} holds {limit:,} keys: delete some first")
            case version:
                return StateSetReply(version=version)

    return Effect(work)


async def delete(scope: CallScope, params: StateDeleteParams) -> Effect:
    """`state.delete`: whether there was a value."""
    scope_key = scope.grant.state_keys[params.scope]
    return Effect(
        lambda tx: DeletedReply(deleted=state_values.delete(tx, scope.workspace_id, scope_key, params.key))
    )


async def list_(scope: CallScope, params: StateListParams) -> KeyPage:
    """`state.list`: keys in order, those with a literal prefix."""
    scope_key = scope.grant.state_keys[params.scope]
    prefix = params.prefix or ""
    cursors = scope.services.cursors.scoped("state.list", [scope_key, prefix])
    after = "" if params.cursor is None else cursors.read_text(params.cursor)
    keys = await scope.services.db.read(
        lambda tx: state_values.list(
            tx, scope.workspace_id, scope_key, prefix=prefix, after=after, limit=capped(params.limit)
        )
    )
    return key_page(list(keys.items), keys.has_more, cursors)


def key_page(items: list[str], has_more: bool, cursors: ScopedCursors) -> KeyPage:
    """One page of keys; the cursor is the last one."""
    following = cursors.issue(items[-1]) if has_more and items else None
    return KeyPage(items=items, next_cursor=following, has_more=has_more)
