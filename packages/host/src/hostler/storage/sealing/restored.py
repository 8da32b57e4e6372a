"""An older copy of a database with the keys of a later one: what was erased in between is removed from it.

The tree of keys of the later state opens everything in the older copy but what was erased. No key is needed
for any of this: a sealed value says which one it wants.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import partial
from pathlib import Path

from hostler.storage.port import Database, Query, Row, Tx
from hostler.storage.sealing.columns import TABLES, Table
from hostler.storage.sealing.envelope import BYTES_MARK, KEY_ID_CHARS, MARK
from hostler.storage.sealing.erasing import ERASURE_KEY
from hostler.storage.sealing.rows import BINARY, marks
from hostler.storage.sql.statements import load, query_of
from hostler.storage.stores import blobs, redactions
from hostler.storage.stores.erasure import empty_events
from hostler_protocol.errors import InvalidArgumentError, StorageError

STEP_ROWS = 200
_q = load(__file__)
_IDENTITY = "identity"
_COLUMNS = "key_id, workspace_id, parent_id, name, wrapped, retired, created_at"
_KEPT = frozenset({"audit"})
"""Its facts are never deleted."""
_BLOBS = {
    "artifacts": ("stored_as", "registered_path"),
    "journal": ("blob",),
    "upload_parts": ("stored_as",),
    "knowledge_versions": ("stored_as",),
}
"""Columns that say which blob a row refers to."""


def take_keys(copy: Path, later: Path) -> None:
    """Replace the tree of keys in the SQLite file `copy` by that of the file `later`.

    InvalidArgumentError if `later` belongs to another installation or has no keys; StorageError.
    """
    if not later.is_file():
        raise InvalidArgumentError(f"there is no database {later}: name a data directory or a later backup")
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{later}?mode=ro", uri=True)) as source,
            contextlib.closing(sqlite3.connect(copy)) as target,
        ):
            if _values(source, _IDENTITY) != _values(target, _IDENTITY):
                raise InvalidArgumentError(f"{later} is of another installation: its keys open nothing here")
            keys = source.execute(f"SELECT {_COLUMNS} FROM sealing_keys").fetchall()  # noqa: S608
            if not keys:
                raise InvalidArgumentError(f"{later} has no keys: nothing is sealed there")
            with target:
                target.execute("DELETE FROM sealing_keys")
                places = ",".join("?" * len(keys[0]))
                insert = f"INSERT INTO sealing_keys ({_COLUMNS}) VALUES ({places})"  # noqa: S608
                target.executemany(insert, keys)
                put = "INSERT OR REPLACE INTO installation (name, value) VALUES (?, ?)"
                target.executemany(put, [(ERASURE_KEY, value) for value in _values(source, ERASURE_KEY)])
    except sqlite3.Error as error:
        raise StorageError(f"the keys of {later} cannot be taken: {error}") from error


def _values(database: sqlite3.Connection, name: str) -> list[bytes]:
    rows = database.execute("SELECT value FROM installation WHERE name = ?", (name,))
    return [row[0] for row in rows]


async def remove_erased(database: Database) -> int:
    """Remove every row with a value whose key is gone; empty such events and runs. Return their number."""
    removed = 0
    for table in TABLES.values():
        if table.name in _KEPT:
            continue
        while done := await database.write(partial(_remove, table=table)):
            removed += done
    return removed


def _remove(tx: Tx, table: Table) -> int:
    rows = tx.all(_erased(table), **marks(), limit=STEP_ROWS)
    for row in rows:
        match table.name:
            case "events":
                seq = int(row["seq"])
                redactions.account(tx, row["workspace_id"], [seq], by="restore", target="erased later")
                empty_events(tx, row["workspace_id"], [seq])
                tx.run(_q.empty_event, ws=row["workspace_id"], seq=seq)
            case "runs":
                tx.run(_q.empty_run, run_id=row["run_id"])
            case "run_sources":
                tx.run(_q.empty_source, run_id=row["run_id"])
            case "pauses":
                if row["state_blob"] is not None:
                    blobs.release(tx, row["state_blob"])
                tx.run(_q.drop_pause, ws=row["workspace_id"], pause_id=row["pause_id"])
            case _:
                _delete(tx, table, row)
    return len(rows)


def _delete(tx: Tx, table: Table, row: Row) -> None:
    blob, *registered = [row[column] for column in _BLOBS.get(table.name, ("workspace_id",))]
    if table.name in _BLOBS and blob is not None and registered in ([], [None]):
        blobs.release(tx, blob)
    if table.name == "transcripts":
        tx.run(_q.unindex, ws=row["workspace_id"], seq=row["seq"])
    if table.name == "knowledge_versions":
        tx.run(_q.drop_document, ws=row["workspace_id"], version_id=row["version_id"])
    key = " AND ".join(f"{column} = :{column}" for column in table.key)
    text = f"DELETE FROM {table.name} WHERE {key}"  # noqa: S608
    named = {column: row[column] for column in table.key}
    tx.run(query_of(f"sealing.drop_{table.name}", text, text), **named)


def _erased(table: Table) -> Query:
    """Return the statement that finds rows with a value whose key is gone."""
    conditions = " OR ".join(_is_erased(table.name, column) for column in table.columns)
    more = {"events": ("seq",), "pauses": ("state_blob",)}.get(table.name, _BLOBS.get(table.name, ()))
    columns = ", ".join(dict.fromkeys([*table.key, "workspace_id", *more]))
    text = f"SELECT {columns} FROM {table.name} WHERE {conditions} LIMIT :limit"  # noqa: S608
    return query_of(f"sealing.erased_{table.name}", text, text)


def _is_erased(table: str, column: str) -> str:
    mark, length = (":bytes_mark", len(BYTES_MARK)) if (table, column) in BINARY else (":mark", len(MARK))
    key_id = f"CAST(substr({column}, {length + 1}, {KEY_ID_CHARS}) AS text)"
    known = f"EXISTS (SELECT 1 FROM sealing_keys AS k WHERE k.key_id = {key_id})"  # noqa: S608
    return f"(substr({column}, 1, {length}) = {mark} AND NOT {known})"
