"""A database as an older version of Hostler left it, to be opened by this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.storage.sql.migrate import Migrator, migrations_for
from hostler.storage.sql.postgres import _Migrations as PostgresMigrations
from hostler.storage.sql.postgres import connect as connect_postgres
from hostler.storage.sql.sqlite import _Migrations as SqliteMigrations
from hostler.storage.sql.sqlite import connect as connect_sqlite
from support.postgres import PostgresServer

ON_EACH_DATABASE = pytest.mark.parametrize(
    "dialect", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)


def older_database(
    dialect: Any, folder: Path, request: pytest.FixtureRequest, *, before: int, rows: str
) -> str:
    """The address of a database with the migrations before one of them, and with rows (SQL)."""
    if dialect == "sqlite":
        url = str(folder / "old.db")
        steps: Any = SqliteMigrations(connect_sqlite(Path(url)))
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.create()
        steps = PostgresMigrations(connect_postgres(url))
    Migrator(steps, [step for step in migrations_for(dialect) if step.number < before]).migrate()
    steps.begin()
    steps.script(rows)
    steps.commit()
    return url
