"""Read the tables of a LangBot database (SQLite) without changing it, whoever else has it open.

The file is of unknown origin: nothing of it is executed, and rows, sizes and time are bounded.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.clock import monotonic_clock
from hostler.domain.json_data import json_mistakes
from hostler.domain.record import Record
from hostler.host.langbot.items import Kind, Row
from hostler_protocol.errors import InvalidArgumentError

MAX_ROWS = 5_000
"""Rows of one table; an installation has tens."""
MAX_VALUE_BYTES = 4 * 1024 * 1024
"""One value; a pipeline's configuration has some kilobytes."""
MAX_COPY_BYTES = 1024 * 1024 * 1024
"""A database that can only be read as a copy."""
READ_SECONDS = 30.0
BUSY_SECONDS = 5.0
"""How long a lock of LangBot is waited for; it holds one for a transaction."""
_STEPS = 20_000
"""Instructions of SQLite between two looks at the clock, about a millisecond."""
_MAGIC = b"SQLite format 3\x00"
_WAL = 2
"""The file format version, in bytes 18 and 19 of the header, of a database with a write-ahead log."""


class Table(Record):
    """A table: what its rows are, the columns that are read if it has them, and which of these hold JSON."""

    kind: Kind
    columns: tuple[str, ...]
    json: frozenset[str] = frozenset()
    type: str = ""
    """Added to each row as `type`."""


_MODEL = (
    *("uuid", "name", "provider_uuid", "requester", "requester_config", "api_keys", "extra_args"),
    *("context_length", "reasoning_config"),
)
_MODEL_JSON = frozenset({"requester_config", "api_keys", "extra_args", "reasoning_config"})
TABLES = {
    "legacy_pipelines": Table(
        "pipeline",
        ("uuid", "name", "config", "extensions_preferences"),
        frozenset({"config", "extensions_preferences"}),
    ),
    "agents": Table("agent", ("uuid", "name", "kind", "config", "enabled"), frozenset({"config"})),
    "model_providers": Table(
        "provider", ("uuid", "name", "requester", "base_url", "api_keys"), frozenset({"api_keys"})
    ),
    "llm_models": Table("model", _MODEL, _MODEL_JSON, "llm"),
    "embedding_models": Table("model", _MODEL, _MODEL_JSON, "embedding"),
    "rerank_models": Table("model", _MODEL, _MODEL_JSON, "rerank"),
    "mcp_servers": Table(
        "mcp server", ("uuid", "name", "enable", "mode", "extra_args"), frozenset({"extra_args"})
    ),
    "plugin_settings": Table("plugin", ("plugin_author", "plugin_name", "enabled")),
    "knowledge_bases": Table("knowledge base", ("uuid", "name")),
    "webhooks": Table("webhook", ("name",)),
    "api_keys": Table("api key", ("name",)),
    "bots": Table("bot", ("uuid", "name", "adapter", "enable", "use_pipeline_uuid", "use_pipeline_name")),
}


_OWN = frozenset(TABLES) - {"agents", "bots", "webhooks", "api_keys"}
"""Tables whose names other programs hardly have."""


def is_database(path: Path) -> bool:
    """Whether a file begins like an SQLite database. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_database(path: Path) -> list[Row]:
    """Return all items, in the order of TABLES; what cannot be read is among them, with its damage.

    InvalidArgumentError if nothing can be read, or it is no database of LangBot.
    """
    try:
        path = path.resolve(strict=True)  # the log of a database is beside the file, not beside a link to it
        with contextlib.ExitStack() as stack:
            db = stack.enter_context(_opened(path))
            return _tables(db, path)
    except sqlite3.Error as error:
        raise InvalidArgumentError(f"{path} cannot be read: {_words(error)}") from error
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that nothing beside it is made or changed.

    A reader of a write-ahead log uses the index of the program that has it open; without one it would have to
    make it. A log or journal that is left over from a crash would have to be recovered: a copy is.
    """
    wal, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    with path.open("rb") as file:
        uses_wal = file.read(20)[18:20] == bytes([_WAL, _WAL])
    if uses_wal and not _has_content(wal):
        mode = "immutable=1"  # it was closed: nobody writes, and there is no log
    elif uses_wal and not index.exists():
        mode = ""
    else:
        mode = "mode=ro"
    if mode:
        try:
            with contextlib.closing(_connect(f"{path.absolute().as_uri()}?{mode}")) as db:
                db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                yield db
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
    with tempfile.TemporaryDirectory(prefix="hostler-import-") as folder:
        copy = _copied(path, Path(folder))
        with contextlib.closing(_connect(f"{copy.as_uri()}?mode=rw")) as db:
            yield db


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def _copied(path: Path, folder: Path) -> Path:
    parts = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))]
    found = [part for part in parts if part.is_file()]
    if sum(part.stat().st_size for part in found) > MAX_COPY_BYTES:
        raise InvalidArgumentError(
            f"{path} was not closed properly, and is too large to be recovered in a copy (over "
            f"{MAX_COPY_BYTES:,} bytes): start LangBot with it once and end it, then import again"
        )
    for part in found:
        shutil.copyfile(part, folder / part.name)
    return folder / path.name


def _connect(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    db.text_factory = bytes
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
        db.execute(f"PRAGMA {pragma}")
    deadline = monotonic_clock() + READ_SECONDS
    db.set_progress_handler(lambda: monotonic_clock() > deadline, _STEPS)
    return db


def _tables(db: sqlite3.Connection, path: Path) -> list[Row]:
    db.execute("BEGIN")  # all tables as of one moment
    listed = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' LIMIT 10000").fetchall()
    present = {_text(name): _text(sql or b"") for name, sql in listed}
    if not present.keys() & _OWN:
        raise InvalidArgumentError(
            f"{path} is no database of LangBot: it has none of the tables {', '.join(sorted(_OWN))}"
        )
    rows: list[Row] = []
    for name, table in TABLES.items():
        if name not in present:
            continue
        if present[name].lstrip().upper().startswith("CREATE VIRTUAL"):
            rows.append(_damaged(name, "is a virtual table, which LangBot does not make"))
            continue
        try:
            rows += _rows(db, name, table)
        except sqlite3.Error as error:
            rows.append(_damaged(name, f"cannot be read: {_words(error)}"))
    return rows


def _rows(db: sqlite3.Connection, name: str, table: Table) -> Iterator[Row]:
    stored = {_text(row[1]) for row in db.execute(f'PRAGMA table_info("{name}")')}
    columns = [column for column in table.columns if column in stored]
    if not columns:
        yield _damaged(name, "has no column that is known")
        return
    numbers: list[Any] = []
    broken = ""
    try:
        for (number,) in db.execute(f'SELECT rowid FROM "{name}" ORDER BY rowid LIMIT {MAX_ROWS + 1}'):  # noqa: S608
            numbers.append(number)
    except sqlite3.DatabaseError as error:
        broken = _words(error)
    chosen = ", ".join(f'"{column}"' for column in columns)
    for number in numbers[:MAX_ROWS]:
        try:
            found = db.execute(f'SELECT {chosen} FROM "{name}" WHERE rowid = ?', (number,)).fetchone()  # noqa: S608
        except sqlite3.DatabaseError as error:
            yield Row(table.kind, {"uuid": f"row {number}"}, f"row {number} of {name}: {_words(error)}")
            continue
        if found is not None:
            yield _row(table, dict(zip(columns, found, strict=True)))
    if broken:
        yield _damaged(name, f"cannot be read to its end: {broken}")
    if len(numbers) > MAX_ROWS:
        yield _damaged(name, f"has more than {MAX_ROWS:,} rows; the others are not read")


def _row(table: Table, stored: dict[str, Any]) -> Row:
    values: dict[str, Any] = {"type": table.type} if table.type else {}
    damage: list[str] = []
    for name, value in stored.items():
        try:
            text = value.decode("utf-8") if isinstance(value, bytes) else value
            values[name] = _json(text) if name in table.json else text
        except UnicodeDecodeError:
            damage.append(f"{name} is no text in UTF-8")
        except ValueError as error:
            damage.append(f"{name} {error}")
    return Row(table.kind, values, "; ".join(damage))


def _json(text: Any) -> Any:
    """Decode a column of JSON; NULL is None. ValueError says what is wrong, without the text."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError("is no JSON: it is a number")
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("is no JSON that can be read: it is nested too deep") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    for mistake in json_mistakes(value):
        raise ValueError(f"is no JSON that can be used: {mistake.text}")
    return value


def _damaged(table: str, damage: str) -> Row:
    return Row("table", {"name": table}, f"the table {table} {damage}")


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _words(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    words = {
        sqlite3.SQLITE_BUSY: "LangBot has it locked: try again in a moment",
        sqlite3.SQLITE_INTERRUPT: f"it takes more than {READ_SECONDS:g} seconds",
        sqlite3.SQLITE_TOOBIG: f"a value has over {MAX_VALUE_BYTES:,} bytes",
        sqlite3.SQLITE_CORRUPT: "the database is damaged",
        sqlite3.SQLITE_NOTADB: "it is no SQLite database, or it is encrypted",
    }
    return words.get(code, str(error))


def names_of(rows: Sequence[Row]) -> dict[str, str]:
    """Return the names of rows by their ids."""
    return {row.uuid: row.name for row in rows if row.uuid}
