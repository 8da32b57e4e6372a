"""Keys of this installation, such as the one cursors are signed with: made once, shared by all its hosts."""

from __future__ import annotations

import secrets

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

KEY_BYTES = 32
"""256 bits: nobody guesses it."""
_IDENTITY = "identity"

_q = load(__file__)


def key(tx: Tx, name: str) -> bytes:
    """The key of this name, made at random where there is none yet. Needs a writing transaction."""
    tx.run(_q.add, name=name, value=secrets.token_bytes(KEY_BYTES))
    row = tx.one(_q.find, name=name)
    if row is None:
        raise RuntimeError(f"the key {name!r} was added and is not there")
    return bytes(row["value"])


def identity(tx: Tx) -> str:
    """What tells this database from every other one, made where there is none yet. No secret.

    Needs a writing transaction.
    """
    return key(tx, _IDENTITY).hex()


def known_identity(tx: Tx) -> str | None:
    """The identity, if the database has one."""
    found = find(tx, _IDENTITY)
    return None if found is None else found.hex()


def find(tx: Tx, name: str) -> bytes | None:
    """The value of this name, if there is one."""
    row = tx.one(_q.find, name=name)
    return None if row is None else bytes(row["value"])


def remove(tx: Tx, name: str) -> None:
    """Remove the value of this name."""
    tx.run(_q.remove, name=name)
