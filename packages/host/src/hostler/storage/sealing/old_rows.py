"""Sealing of what was stored before a master key was configured, in small steps between other work.

A row is plain or sealed, value by value, and both are read: so a step may be interrupted anywhere, and the
next pass goes on with what is plain. On SQLite plain bytes are overwritten in the file (`SqliteDriver`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.blob_keys import SealedBlobKeys
from hostler.storage.sealing.columns import LABELS, TABLES, TRIVIAL, Table
from hostler.storage.sealing.envelope import DataKey, key_id_in
from hostler.storage.sealing.keyring import NO_WORKSPACE
from hostler.storage.sealing.rows import columns_of, count_of, marks, update_of
from hostler.storage.sealing.tx import SealingTx
from hostler.storage.sql.session import SessionTx
from hostler.storage.stores import blobs, knowledge_documents, knowledge_passages, search_index
from hostler.storage.stores.blobs import BlobFolder
from hostler_protocol.errors import StorageError

STEP_ROWS = 100
"""Rows of one transaction: with 64 KiB each it stays below 7 MB, and delays others by a few milliseconds."""
STEP_BLOBS = 100
MAX_COUNTED = 100_000
_NUMBERS = frozenset({"seq", "part", "last_position", "revision", "passage_id"})


class Step(NamedTuple):
    """The rows that one step sealed, and the key of the last one it looked at; None at the end."""

    rows: int
    last: Mapping[str, Any] | None


async def seal_rows(database: Database) -> int:
    """Seal all plain values of content columns; return the number of rows."""
    total = 0
    for table in TABLES.values():
        step = Step(0, {f"after_{n}": -1 if name in _NUMBERS else "" for n, name in enumerate(table.key)})
        while step.last is not None:
            step = await database.write(partial(_seal_next, table=table, after=step.last))
            total += step.rows
    if total and database.dialect == "sqlite":
        await search_index.purge(database)
        await knowledge_passages.purge(database)
    return total


async def seal_blobs(database: Database, folder: BlobFolder, keys: SealedBlobKeys) -> int:
    """Seal all plain blobs in their places; return their number."""
    sealed, after = 0, ""
    while names := await database.read(partial(blobs.next_names, after=after, limit=STEP_BLOBS)):
        for name in names:
            sealed += await _seal_blob(database, folder, keys, name)
        after = names[-1]
    return sealed


def count_plain(tx: Tx) -> int:
    """Return the number of rows that are still plain, up to 100,000 of each table."""
    rows = (tx.one(count_of(table), **marks(), limit=MAX_COUNTED) for table in TABLES.values())
    return sum(int(row["total"]) for row in rows if row is not None)


async def _seal_blob(database: Database, folder: BlobFolder, keys: SealedBlobKeys, name: str) -> bool:
    try:
        key_id = await folder.key_id(name)
    except StorageError:  # collected meanwhile, or lost, which reading it will say
        return False
    if key_id is not None and await keys.find(key_id) is not None:
        return False
    new = keys.new()
    # the key is durable before any byte is sealed with it; one of an interrupted step is used again
    key = await database.write(lambda tx: _blob_key(tx, name, new))
    await folder.seal(name, key)
    return True


def _blob_key(tx: Tx, name: str, new: DataKey) -> DataKey:
    sealing = _sealing(tx)
    if not sealing.exists(NO_WORKSPACE, blobs.key_name(name)):
        sealing.adopt(blobs.key_name(name), new)
        return new
    return sealing.key_named(NO_WORKSPACE, blobs.key_name(name))


def _seal_next(tx: Tx, table: Table, after: Mapping[str, Any]) -> Step:
    """Seal the next rows of a table."""
    sealing = _sealing(tx)
    rows = sealing.stored(columns_of(table), **after, **marks(), limit=STEP_ROWS)
    if not rows:
        return Step(0, None)
    last = {f"after_{n}": rows[-1][name] for n, name in enumerate(table.key)}
    for row in rows:
        _seal_row(sealing, table, row)
    return Step(len(rows), last)


def _seal_row(tx: SealingTx, table: Table, row: Row) -> None:
    leaf = table.leaf_of(row)
    if leaf is None:
        raise RuntimeError(f"a row of {table.name} does not say whose it is")
    key = tx.key_named(row["workspace_id"], leaf[1], row.get("conversation_id"))
    values = {column: _sealed(key, table, column, row[column]) for column in table.columns}
    if table.name == "transcripts" and key_id_in(row["search_text"]) is None:
        search_index.seal(tx, row["workspace_id"], row)
    if table.name == "knowledge_passages" and key_id_in(row["passage"]) is None:
        of_document = knowledge_documents.tokens_of_version(tx, row["workspace_id"], row["version_id"])
        knowledge_passages.seal(tx, row["workspace_id"], row, of_document)
    SessionTx.run(tx, update_of(table), **values, **{f"key_{name}": row[name] for name in table.key})


def _sealed(key: DataKey, table: Table, column: str, value: Any) -> Any:
    if value is None or value in TRIVIAL or key_id_in(value) is not None:
        return value
    return key.seal(LABELS[column], value, table.columns[column])


def _sealing(tx: Tx) -> SealingTx:
    if not isinstance(tx, SealingTx):
        raise RuntimeError("rows are sealed in transactions that seal")
    return tx
