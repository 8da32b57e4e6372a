"""Stored secrets: sealed values, each under a key of its own that is stored wrapped by a master key.

Of one owner's secrets names are unique: `installation`, for the entries of the configuration, and
`workspace`, for its agents. Nothing here opens a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.domain.record import Record
from hostler.domain.stored_secrets import MAX_SECRETS, SecretOwner
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)


class SealedSecret(Record):
    """A secret as it is stored."""

    workspace_id: str
    owner: SecretOwner
    name: str
    version: int
    data_key: bytes
    value: bytes


class SecretFacts(Record):
    """What may be read of a secret. Times in UTC epoch milliseconds; `used_at` None: never used."""

    name: str
    version: int
    set_by: str
    set_at: int
    created_at: int
    used_by: str | None
    used_at: int | None


def put(tx: Tx, secret: SealedSecret, actor: str) -> int:
    """Store a secret, with the next version in place of its own; return that.

    InvalidArgumentError if there are too many.
    """
    ws, owner, name = secret.workspace_id, secret.owner, secret.name
    row = tx.one(
        _q.put,
        workspace_id=ws,
        owner=owner,
        name=name,
        data_key=secret.data_key,
        value=secret.value,
        actor=actor,
        now=tx.now,
    )
    version = 0 if row is None else int(row["version"])
    counted = tx.one(_q.count, workspace_id=ws, owner=owner)
    if counted is not None and counted["secrets"] > MAX_SECRETS:
        raise InvalidArgumentError(f"there are {MAX_SECRETS:,} secrets, the most that are possible")
    return version


def sealed(tx: Tx, workspace_id: str, owner: SecretOwner, name: str) -> SealedSecret | None:
    """Return a secret as it is stored, or None."""
    row = tx.one(_q.sealed, workspace_id=workspace_id, owner=owner, name=name)
    return None if row is None else _sealed(row)


def all_sealed(tx: Tx, workspace_id: str, owner: SecretOwner) -> list[SealedSecret]:
    """Return all secrets of an owner as they are stored."""
    rows = tx.all(_q.all_sealed, workspace_id=workspace_id, owner=owner, limit=MAX_SECRETS)
    return [_sealed(row) for row in rows]


def find(tx: Tx, workspace_id: str, owner: SecretOwner, name: str) -> SecretFacts | None:
    """Return the facts of a secret, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, owner=owner, name=name)
    return None if row is None else _facts(row)


def page(
    tx: Tx, workspace_id: str, owner: SecretOwner, *, after: str = "", limit: int = MAX_PAGE_ITEMS
) -> list[SecretFacts]:
    """Return secrets by name, after the name `after`."""
    rows = tx.all(_q.page, workspace_id=workspace_id, owner=owner, after=after, limit=limit)
    return [_facts(row) for row in rows]


def key_ids(tx: Tx, workspace_id: str, owner: SecretOwner) -> Mapping[str, str]:
    """Return the master key of each secret, by its id in hexadecimal digits."""
    rows = tx.all(_q.key_ids, workspace_id=workspace_id, owner=owner, limit=MAX_SECRETS)
    return {row["name"]: bytes(row["key_id"]).hex() for row in rows}


def delete(tx: Tx, workspace_id: str, owner: SecretOwner, name: str) -> bool:
    """Remove a secret; return False if there was none."""
    return tx.run(_q.delete, workspace_id=workspace_id, owner=owner, name=name) == 1


def mark_used(tx: Tx, workspace_id: str, owner: SecretOwner, name: str, user: str) -> None:
    """Note who used a secret last."""
    tx.run(_q.mark_used, workspace_id=workspace_id, owner=owner, name=name, user=user, now=tx.now)


def wrapped_by_others(
    tx: Tx, key_id: bytes, *, after: tuple[str, str, str], limit: int
) -> list[SealedSecret]:
    """Return secrets of all workspaces whose key is not wrapped by this master key, after the given one."""
    ws, owner, name = after
    rows = tx.all(_q.wrapped_by_others, key_id=key_id, ws=ws, owner=owner, name=name, limit=limit)
    return [_sealed(row) for row in rows]


def rewrap(tx: Tx, secret: SealedSecret, data_key: bytes) -> bool:
    """Store the key of a secret wrapped anew, unless the secret has changed since it was read."""
    done = tx.run(
        _q.rewrap,
        workspace_id=secret.workspace_id,
        owner=secret.owner,
        name=secret.name,
        before=secret.data_key,
        data_key=data_key,
    )
    return done == 1


def key_uses(tx: Tx) -> Mapping[str, int]:
    """Return how many secrets are under each master key, by its id in hexadecimal digits."""
    return {bytes(row["key_id"]).hex(): int(row["secrets"]) for row in tx.all(_q.key_uses)}


def _sealed(row: Row) -> SealedSecret:
    return SealedSecret(
        row["workspace_id"],
        row["owner"],
        row["name"],
        row["version"],
        bytes(row["data_key"]),
        bytes(row["value"]),
    )


def _facts(row: Row) -> SecretFacts:
    return SecretFacts(
        row["name"],
        row["version"],
        row["set_by"],
        row["set_at"],
        row["created_at"],
        row["used_by"],
        row["used_at"],
    )
