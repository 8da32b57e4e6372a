"""Random keys of this installation, such as the key that signs cursors: created once, shared by all hosts."""

from __future__ import annotations

import secrets

from hostler.storage.port import Database, Tx
from hostler.storage.sql.statements import load

KEY_BYTES = 32
"""256 bits cannot be guessed."""
_IDENTITY = "identity"
_SYNCED = "synced"
_REVISION = "configuration revision"
_SECRETS_REVISION = "secrets revision"
_KNOWLEDGE_REVISION = "knowledge revision"

_q = load(__file__)


def key(tx: Tx, name: str) -> bytes:
    """Return the key of this name; create it if there is none. Needs a writing transaction."""
    tx.run(_q.add, name=name, value=secrets.token_bytes(KEY_BYTES))
    row = tx.one(_q.find, name=name)
    if row is None:
        raise RuntimeError(f"the key {name!r} was added and is not there")
    return bytes(row["value"])


def identity(tx: Tx) -> str:
    """Return the id of this database, creating it if there is none.

    Not secret. Needs a writing transaction.
    """
    return key(tx, _IDENTITY).hex()


def known_identity(tx: Tx) -> str | None:
    """Return the id of this database, or None if it has none yet."""
    found = find(tx, _IDENTITY)
    return None if found is None else found.hex()


async def make_durable(db: Database) -> None:
    """Return once all that was committed before survives a power cut.

    Commits that need not wait for the disk are durable with the next synced one, if that writes anything.
    """
    await db.write(lambda tx: tx.run(_q.put, name=_SYNCED, value=tx.now.to_bytes(8)), synced=True)


def change_revision(tx: Tx) -> None:
    """Note that the configuration has changed."""
    tx.run(_q.put, name=_REVISION, value=secrets.token_bytes(16))


def revision(tx: Tx) -> bytes | None:
    """Return what changes with the configuration, or None if it never did."""
    return find(tx, _REVISION)


def change_secrets_revision(tx: Tx) -> None:
    """Note that a stored secret of the installation has changed."""
    tx.run(_q.put, name=_SECRETS_REVISION, value=secrets.token_bytes(16))


def secrets_revision(tx: Tx) -> bytes | None:
    """Return what changes with the stored secrets of the installation, or None if it never did."""
    return find(tx, _SECRETS_REVISION)


def change_knowledge_revision(tx: Tx) -> None:
    """Note that a knowledge base was made, changed or removed."""
    tx.run(_q.put, name=_KNOWLEDGE_REVISION, value=secrets.token_bytes(16))


def knowledge_revision(tx: Tx) -> bytes | None:
    """Return what changes with the knowledge bases of all workspaces, or None if there never were any."""
    return find(tx, _KNOWLEDGE_REVISION)


def find(tx: Tx, name: str) -> bytes | None:
    """Return the value of this name, or None."""
    row = tx.one(_q.find, name=name)
    return None if row is None else bytes(row["value"])


def add(tx: Tx, name: str, value: bytes) -> None:
    """Store a value under this name, unless there is one."""
    tx.run(_q.add, name=name, value=value)


def put(tx: Tx, name: str, value: bytes) -> None:
    """Store a value under this name."""
    tx.run(_q.put, name=name, value=value)


def remove(tx: Tx, name: str) -> None:
    """Remove the value of this name."""
    tx.run(_q.remove, name=name)
