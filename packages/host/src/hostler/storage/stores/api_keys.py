"""API keys: random tokens, stored as hashes only.

A plain SHA-256 is enough: unlike a password, a token has 256 random bits and cannot be guessed, so a slow
hash would only slow down every request. Looking a token up by its hash leaks nothing about stored tokens
through timing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from hostler.domain.api_keys import new_token
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_MAX_REMOTE_PLUGINS = 1_000
_MAX_OF_MEMBER = 1_000
_lists = msgspec.json.Decoder(list[str])


class ApiKey(Record, kw_only=True):
    """An API key and its rights. Times are UTC epoch milliseconds."""

    key_id: str
    workspace_id: str
    name: str
    subject: str
    roles: frozenset[str]
    rights: frozenset[str]
    plugin: str | None
    """The plugin (`author/name`) that may connect with this key; None for other keys."""
    member_id: str | None
    """The member whose personal key it is, with whom it ends; None for other keys."""
    created_at: int
    expires_at: int | None
    revoked_at: int | None

    def is_valid(self, now: int) -> bool:
        """Whether it can be used, as far as it is up to itself."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


def remote_plugins(tx: Tx) -> list[str]:
    """Return the plugins (`author/name`) that have a valid key to connect with, at most 1,000."""
    return [str(row["plugin"]) for row in tx.all(_q.remote_plugins, now=tx.now, limit=_MAX_REMOTE_PLUGINS)]


def create(
    tx: Tx,
    workspace_id: str,
    *,
    name: str,
    subject: str,
    roles: Collection[str] = (),
    rights: Collection[str] = (),
    plugin: str | None = None,
    member_id: str | None = None,
    expires_at: int | None = None,
) -> tuple[ApiKey, str]:
    """Create a key; return it and its token, which is not stored and cannot be read again."""
    if expires_at is not None and expires_at <= tx.now:
        raise InvalidArgumentError("expires_at is in the past: use a later time, or none")
    token = new_token()
    key = ApiKey(
        key_id=new_id(),
        workspace_id=workspace_id,
        name=name,
        subject=subject,
        roles=frozenset(roles),
        rights=frozenset(rights),
        plugin=plugin,
        member_id=member_id,
        created_at=tx.now,
        expires_at=expires_at,
        revoked_at=None,
    )
    tx.run(
        _q.insert,
        key_id=key.key_id,
        workspace_id=workspace_id,
        key_hash=_hash(token),
        name=name,
        subject=subject,
        roles=_list(roles),
        rights=_list(rights),
        plugin=plugin,
        member_id=member_id,
        created_at=key.created_at,
        expires_at=expires_at,
    )
    return key, token


def find_by_token(tx: Tx, token: str) -> ApiKey | None:
    """Return the key of `token`; None if it is unknown, revoked or expired."""
    row = tx.one(_q.by_hash, key_hash=_hash(token))
    if row is None or row["revoked_at"] is not None:
        return None
    if row["expires_at"] is not None and row["expires_at"] <= tx.now:
        return None
    return _key(row)


def find(tx: Tx, workspace_id: str, key_id: str) -> ApiKey | None:
    """Return the key with this id, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, key_id=key_id)
    return None if row is None else _key(row)


def page(tx: Tx, workspace_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[ApiKey]:
    """Return keys by id, after the id `after`; revoked and expired ones too."""
    return [_key(row) for row in tx.all(_q.page, workspace_id=workspace_id, after=after, limit=limit)]


def of_member(tx: Tx, workspace_id: str, member_id: str) -> list[ApiKey]:
    """Return the personal keys of a member that are not revoked, by id."""
    rows = tx.all(_q.of_member, workspace_id=workspace_id, member_id=member_id, limit=_MAX_OF_MEMBER)
    return [_key(row) for row in rows]


def revoke_of_member(tx: Tx, workspace_id: str, member_id: str) -> list[str]:
    """Revoke the personal keys of a member; return their ids."""
    keys = of_member(tx, workspace_id, member_id)
    for key in keys:
        revoke(tx, workspace_id, key.key_id)
    return [key.key_id for key in keys]


def revoke(tx: Tx, workspace_id: str, key_id: str) -> bool:
    """Revoke a key; return False if there is none or it is revoked already."""
    return tx.run(_q.revoke, workspace_id=workspace_id, key_id=key_id, now=tx.now) == 1


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _list(names: Collection[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def _key(row: Row) -> ApiKey:
    return from_row(
        row,
        ApiKey,
        roles=frozenset(_lists.decode(row["roles"])),
        rights=frozenset(_lists.decode(row["rights"])),
    )
