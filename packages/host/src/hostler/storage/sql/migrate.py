"""Migrations to this build's schema: numbered files, each applied in one transaction under a lock.

A process that is killed halfway leaves only whole migrations, and the next start continues. A database that a
newer build has migrated is refused with both versions in the message. Marks stand for SQL that differs by
database: `[key]`, `[blob]`, `[without_rowid]`.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from hostler.domain.record import Record
from hostler.storage.port import Dialect, Query
from hostler.storage.sql.session import Session
from hostler.storage.sql.statements import load
from hostler.version import VERSION
from hostler_protocol.errors import StorageError

MIGRATIONS = Path(__file__).with_name("migrations")
_q = load(__file__)
_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+?)(?:\.(?P<dialect>sqlite|postgres))?\.sql")
_MARKS: dict[Dialect, dict[str, str]] = {
    "sqlite": {"[key]": "text", "[blob]": "blob", "[without_rowid]": "WITHOUT ROWID"},
    "postgres": {"[key]": 'text COLLATE "C"', "[blob]": "bytea", "[without_rowid]": ""},
}


class Migration(Record):
    """One step of the schema, in the dialect of one database."""

    number: int
    name: str
    sql: str


class SchemaConnection(Protocol):
    """A connection for migrations. `begin` takes the lock that keeps other hosts out."""

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""

    def begin(self) -> None:
        """Begin a transaction that excludes every other migration."""

    def script(self, sql: str) -> None:
        """Execute statements without parameters."""

    def rows(self, query: Query, **params: Any) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows."""

    def commit(self) -> None:
        """Commit."""

    def rollback(self) -> None:
        """Roll back; do nothing outside a transaction."""


class Migrator:
    """Applies the missing migrations on one connection."""

    def __init__(self, connection: SchemaConnection, migrations: Sequence[Migration] | None = None) -> None:
        self._connection = connection
        self._migrations = migrations_for(connection.dialect) if migrations is None else migrations

    def migrate(self) -> int:
        """Apply the missing migrations and return their number. StorageError if a newer build migrated."""
        applied = 0
        while self._step():
            applied += 1
        return applied

    def _step(self) -> bool:
        """Apply the next migration in one transaction; return False if there is none."""
        connection = self._connection
        connection.begin()
        try:
            connection.rows(_q.create)
            done = connection.rows(_q.newest)
            number, version = done[0] if done else (0, "")
            self._refuse_newer(int(number), str(version))
            following = next((m for m in self._migrations if m.number > int(number)), None)
            if following is not None:
                connection.script(following.sql)
                connection.rows(
                    _q.record,
                    number=following.number,
                    name=following.name,
                    version=build_version(),
                    applied_at=time.time_ns() // 1_000_000,
                )
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return following is not None

    def _refuse_newer(self, number: int, version: str) -> None:
        known = self._migrations[-1].number
        if number > known:
            raise StorageError(
                f"this database was migrated by hostler {version} (schema {number}); this is hostler"
                f" {build_version()}, which knows schemas up to {known}: run hostler {version} or newer",
                database_version=version,
                build_version=build_version(),
            )


@cache
def migrations_for(dialect: Dialect) -> tuple[Migration, ...]:
    """Return every migration of this build for `dialect`, in order."""
    found = []
    for file in MIGRATIONS.iterdir():
        match = _FILE.fullmatch(file.name)
        if match and match["dialect"] in (None, dialect):
            sql = _for_dialect(file.read_text("utf-8"), dialect)
            found.append(Migration(int(match["number"]), match["name"], sql))
    return tuple(sorted(found, key=lambda migration: migration.number))


def newest_schema(dialect: Dialect) -> int:
    """Return the number of this build's schema."""
    found = (_FILE.fullmatch(file.name) for file in MIGRATIONS.iterdir())
    return max(int(match["number"]) for match in found if match and match["dialect"] in (None, dialect))


def schema_of(session: Session) -> int | None:
    """Return the number of a database's schema, or None if it has none that can be read."""
    try:
        newest = session.one(_q.newest, {})
    except StorageError:
        return None
    return None if newest is None else int(newest["number"])


def build_version() -> str:
    """The version of this build."""
    return VERSION


def split_statements(script: str) -> Iterator[str]:
    """Yield the statements of `script` without comment lines."""
    statement = ""
    for line in script.splitlines():
        if line.lstrip().startswith("--"):
            continue
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if statement.strip():
        yield statement.strip()


def _for_dialect(sql: str, dialect: Dialect) -> str:
    for mark, words in _MARKS[dialect].items():
        sql = sql.replace(mark, words)
    return sql
